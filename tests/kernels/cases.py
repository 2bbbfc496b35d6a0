"""Where the kernels are tested, and how an operation is made to take its Triton path."""

import os

import pytest
import torch

from knotwork._kernels import dispatch

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture
def on_triton(monkeypatch):
    """Let operations take their Triton kernels, wherever tensors are and in float16 too; not in float64."""
    types = (torch.float32, torch.bfloat16, torch.float16)
    monkeypatch.setattr(dispatch, "on_triton", lambda tensor: tensor.dtype in types)


def _let_loops_end_at_numbers():
    """Let interpreted loops have ends that are arguments: the interpreter stores these as arrays of one number each."""
    from triton.runtime import interpreter

    original = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


if INTERPRETED:
    _let_loops_end_at_numbers()
