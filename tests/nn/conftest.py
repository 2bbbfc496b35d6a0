"""What all tests of networks share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_random_numbers():
    """Let a test that fails fail again: whatever torch draws in it is the same in every run."""
    torch.manual_seed(0)
