"""A stack in training: learning rates and early stopping against torch's scheduler, and steps that can be captured.

Operations that the capture of a CUDA graph refuses are detected on the CPU: those that wait for the device or read from
the host.
"""

import math
import traceback
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from knotwork.encoders import Embedding
from knotwork.training._config import TrainingConfig
from knotwork.training._members import DeviceTable
from knotwork.training._stack import Schedule, TrainingStack
from tests.training.cases import make_mixed, make_table
from tests.training.test_engine import FAST, SMALL

CONFIG = replace(TrainingConfig.paper(), max_epochs=60)


def test_plateau_and_stopping_equal_torch():
    random = np.random.default_rng(0)
    n_members = 12
    steps = random.normal(-0.02, 0.1, size=(60, n_members))
    scores = np.exp(np.cumsum(steps, axis=0))
    scores[20:, 0] = scores[19, 0]
    scores[5, 1] = np.nan
    scores[:, 2] -= 5.0  # negative, as -AUC is
    schedule = Schedule.from_rates(torch.full((n_members,), 1e-3))
    expected = [plain(scores[:, member]) for member in range(n_members)]
    alive, rates = np.ones(n_members, dtype=bool), []
    for epoch in range(60):
        rates.append(schedule.rates(CONFIG)[0].numpy())
        schedule.update(torch.from_numpy(scores[epoch]), CONFIG)
        alive = schedule.alive.numpy()
    assert not alive.any()
    for member, (expected_rates, best_epoch, epochs) in enumerate(expected):
        assert int(schedule.best_epoch[member]) == best_epoch
        assert int(schedule.epoch[member]) == epochs
        np.testing.assert_allclose(np.array(rates)[:epochs, member], expected_rates, rtol=1e-6)


def plain(scores):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.AdamW([weight], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, "min", factor=0.1, patience=10)
    if np.nanmin(scores) < 0:  # torch's relative threshold is for positive scores: so it maximises the negated scores
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, "max", factor=0.1, patience=10)
    best, best_epoch, rates = math.inf, -1, []
    for epoch, score in enumerate(scores):
        rates.append(optimiser.param_groups[0]["lr"])
        scheduler.step(-score if np.nanmin(scores) < 0 else score)
        if score < best:
            best, best_epoch = score, epoch
        if epoch - best_epoch >= CONFIG.patience:
            break
    return rates, best_epoch, len(rates)


def test_cosine_rises_and_falls():
    config = TrainingConfig(schedule="cosine", max_epochs=100, patience=100)
    schedule = Schedule.from_rates(torch.tensor([1.0]))
    rates = []
    for _ in range(100):
        rates.append(float(schedule.rates(config)[0, 0]))
        schedule.update(torch.tensor([1.0], dtype=torch.float64), config)
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == pytest.approx(1.0)
    assert np.argmax(rates) == 4
    assert 0.0 < rates[-1] < 0.01
    assert (np.diff(rates[4:]) < 0).all()


def test_knots_wait_for_their_warmup():
    config = replace(CONFIG, knot_warmup=2, knot_rate=3.0)
    schedule = Schedule.from_rates(torch.tensor([1e-3]))
    knot_rates = []
    for _ in range(4):
        knot_rates.append(float(schedule.rates(config)[1, 0]))
        schedule.update(torch.tensor([1.0], dtype=torch.float64), config)
    assert knot_rates == pytest.approx([0.0, 0.0, 3e-3, 3e-3])


REFUSED = ("lift_fresh", "_local_scalar_dense", "nonzero", "masked_select", "unique", "bincount")
"""Tensors built from host values, device values read on the host, results whose shape depends on values."""


class Refused(TorchDispatchMode):
    """Collects the places that call operations that a capture refuses."""

    def __init__(self):
        super().__init__()
        self.places = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(name in function.__name__ for name in REFUSED):
            caller = [frame for frame in traceback.extract_stack()[:-1] if "site-packages" not in frame.filename][-1]
            self.places.append(f"{caller.filename}:{caller.lineno}: {caller.line}: {function.__name__}")
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    ("task", "metric"), [("regression", "reported"), ("classification", "reported"), ("classification", "log_loss")]
)
def test_from_the_second_call_on_nothing_is_refused(name, task, metric):
    table = make_table(task, weights=np.linspace(1, 2, 260))
    embedding = Embedding(4, relu=True, raw=True) if metric == "log_loss" else None
    members = [replace(member, embedding=embedding) for member in make_mixed(table)]
    members.sort(key=lambda member: str(member.kinds))
    data = DeviceTable.from_table(table, torch.device("cpu"))
    stack = TrainingStack(table, data, members, SMALL[name], replace(FAST, metric=metric))
    assert any(part.features for part in stack.network.encoding.layout.parts)
    for work in (stack.begin, stack.step, stack.finish):
        work()
        with Refused() as refused:
            work()
        assert not refused.places


def test_refused_operations_are_detected():
    with Refused() as refused:
        torch.zeros(3)[[0, 1]] = 1.0
        torch.ones(2).sum().item()
    assert {place.split(": ")[-1] for place in refused.places} == {"lift_fresh.default", "_local_scalar_dense.default"}
