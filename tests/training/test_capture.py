"""What a GPU would capture in a graph neither waits for the device nor reads from the host.

There is no GPU here: operations that a capture refuses are looked for on the CPU.
"""

import traceback
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from knotwork.training._members import DeviceTable
from knotwork.training._stack import TrainingStack
from tests.training.cases import make_mixed, make_table
from tests.training.test_engine import FAST, SMALL

REFUSED = ("lift_fresh", "_local_scalar_dense", "nonzero", "masked_select", "unique", "bincount")
"""Tensors made of numbers of the host, numbers of the device read there, results whose shape depends on values."""


class Refused(TorchDispatchMode):
    """Keeps where operations that a capture refuses are called."""

    def __init__(self):
        super().__init__()
        self.places = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(name in function.__name__ for name in REFUSED):
            frame = [each for each in traceback.extract_stack()[:-1] if "site-packages" not in each.filename][-1]
            self.places.append(f"{frame.filename}:{frame.lineno}: {frame.line}: {function.__name__}")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    ("task", "metric"), [("regression", "reported"), ("classification", "reported"), ("classification", "log_loss")]
)
def test_from_the_second_call_on_nothing_is_refused(name, task, metric):
    table = make_table(task, weights=np.linspace(1, 2, 260))
    members = sorted(make_mixed(table), key=lambda member: str(member.kinds))
    data = DeviceTable.from_table(table, torch.device("cpu"))
    stack = TrainingStack(table, data, members, SMALL[name], replace(FAST, metric=metric))
    assert any(part.features for part in stack.network.encoding.layout.parts)
    for work in (stack.begin, stack.step, stack.finish):
        work()
        with Refused() as refused:
            work()
        assert not refused.places


def test_what_a_capture_refuses_is_found():
    with Refused() as refused:
        torch.zeros(3)[[0, 1]] = 1.0
        torch.ones(2).sum().item()
    assert {place.split(": ")[-1] for place in refused.places} == {"lift_fresh.default", "_local_scalar_dense.default"}
