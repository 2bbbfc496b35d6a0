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

from knotwork._kernels.adamw import AdamW
from knotwork.encoders import Embedding
from knotwork.training._config import TrainingConfig
from knotwork.training._network import matrices, rate_groups
from knotwork.training._stack import RateGroup, Schedule
from tests.kernels.cases import combinations
from tests.training.cases import make_mixed, make_stack, make_table
from tests.training.test_engine import FAST, SMALL

CONFIG = replace(TrainingConfig.paper(), max_epochs=60)
BASE = RateGroup()


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
        rates.append(schedule.rates(CONFIG, [RateGroup()], torch.zeros(1, n_members))[0, 0].numpy())
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


def rates_of(config, n_steps, groups=(BASE,)):
    """The learning rates of all steps of training, of shape (n, n_groups), of a member that starts with a rate of 1."""
    schedule, rates = Schedule.from_rates(torch.tensor([1.0])), []
    done = (torch.arange(n_steps)[:, None] + 0.5) / n_steps
    for epoch in range(config.max_epochs):
        rates.append(schedule.rates(config, groups, epoch + done.double())[..., 0])
        schedule.update(torch.tensor([-float(epoch)], dtype=torch.float64), config)
    return torch.cat(rates).numpy()


@pytest.mark.parametrize(("max_epochs", "n_steps"), [(100, 4), (10, 7), (1, 5)])
def test_cosine_rises_and_falls(max_epochs, n_steps):
    rates = rates_of(TrainingConfig(schedule="cosine", max_epochs=max_epochs), n_steps)[:, 0]
    epochs = (np.arange(max_epochs * n_steps) + 0.5) / n_steps
    rise = max(max_epochs // 20, 1)
    fall = 0.5 + 0.5 * np.cos(np.pi * (epochs - rise) / max(max_epochs - rise, 1))
    np.testing.assert_allclose(rates, np.where(epochs < rise, epochs / rise, fall), rtol=1e-5, atol=1e-7)


def test_four_cycles_each_twice_as_long():
    n_epochs, n_steps = 30, 20
    rates = rates_of(TrainingConfig(schedule="cycles", max_epochs=n_epochs), n_steps)[:, 0]
    share = (np.arange(n_epochs * n_steps) + 0.5) / (n_epochs * n_steps)
    np.testing.assert_allclose(rates, 0.5 * (1 - np.cos(2 * np.pi * np.log2(1 + 15 * share))), rtol=1e-4, atol=1e-6)
    valleys = 1 + np.flatnonzero((rates[1:-1] < rates[:-2]) & (rates[1:-1] < rates[2:]))
    np.testing.assert_allclose(share[valleys], [1 / 15, 3 / 15, 7 / 15], atol=1 / len(share))
    assert rates[0] < 0.03
    assert rates[-1] < 0.001


@pytest.mark.parametrize("schedule", ["plateau", "constant"])
def test_other_schedules_ignore_the_steps_of_an_epoch(schedule):
    rates = rates_of(TrainingConfig(schedule=schedule, max_epochs=3), 5)
    np.testing.assert_array_equal(rates, 1.0)


def test_without_patience_all_epochs_are_trained():
    schedule, config = Schedule.from_rates(torch.tensor([1.0])), TrainingConfig(patience=None, max_epochs=40)
    for epoch in range(40):
        assert bool(schedule.alive)
        schedule.update(torch.tensor([float(epoch)], dtype=torch.float64), config)
    assert not bool(schedule.alive)
    assert int(schedule.best_epoch) == 0


def test_knots_wait_for_their_warmup():
    config = TrainingConfig(schedule="constant", max_epochs=4, knot_warmup=2)
    rates = rates_of(config, 1, [RateGroup(), RateGroup(6.0), RateGroup(3.0, knots=True)])
    np.testing.assert_array_equal(rates, [[1.0, 6.0, 0.0]] * 2 + [[1.0, 6.0, 3.0]] * 2)


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


@pytest.mark.parametrize(
    ("name", "goal"),
    combinations(
        SMALL,
        [("regression", "reported"), ("classification", "reported"), ("classification", "log_loss")],
        usual=lambda name, goal: (
            goal[1] == "log_loss"
            if name in {"resnet", "ft"}
            else goal[1] == "reported" and (goal[0] == "regression") == (name != "realmlp")
        ),
    ),
    ids=str,
)
def test_from_the_second_call_on_nothing_is_refused(name, goal):
    task, metric = goal
    table = make_table(task, weights=np.linspace(1, 2, 260))
    embedding = Embedding(4, relu=True, raw=True) if metric == "log_loss" else None
    members = [replace(member, embedding=embedding) for member in make_mixed(table)]
    members.sort(key=lambda member: str(member.kinds))
    stack = make_stack(table, members, SMALL[name], replace(FAST, metric=metric))
    assert any(part.features for part in stack.network.encoding.layout.parts)
    vars(stack)["flat_step"] = None  # as on a GPU
    for work in (stack.begin, stack.step, stack.finish):
        work()
        with Refused() as refused:
            work()
        assert not refused.places


@pytest.mark.parametrize(
    ("name", "task"),
    combinations(
        SMALL,
        ["regression", "classification"],
        usual=lambda name, task: (task == "regression") == (name in {"resnet", "ft"}),
    ),
)
def test_cycles_and_averages_can_be_captured(name, task):
    table = make_table(task)
    members = sorted(make_mixed(table), key=lambda member: str(member.kinds))
    config = replace(FAST, schedule="cycles", weight_average=0.9, label_smoothing=0.1, patience=None)
    stack = make_stack(table, members, SMALL[name], config, categories="mixed")
    assert stack.averages
    for work in (stack.begin, stack.step, stack.finish):
        work()
        with Refused() as refused:
            work()
        assert not refused.places


def test_validation_with_averages_restores_the_weights():
    table = make_table()
    members = sorted(make_mixed(table), key=lambda member: str(member.kinds))
    made = make_stack(table, members, SMALL["resnet"], replace(FAST, weight_average=0.9, knot_warmup=0))
    for parameter in matrices(made.network):  # as on a GPU, where weights are rounded copies of their masters
        parameter.data = parameter.data.bfloat16()
    parameters = list(made.network.parameters())
    groups = rate_groups(made.network, SMALL["resnet"], FAST.knot_rate)[1]
    optimiser = AdamW(parameters, decays=[0.0] * len(parameters), groups=groups)
    stack = replace(made, optimiser=optimiser)
    stack.begin()
    for _ in range(stack.n_steps):
        stack.step()
    before = [parameter.detach().clone() for parameter in parameters]
    stack.finish()
    for parameter, old, average in zip(parameters, before, stack.averages, strict=True):
        assert torch.equal(parameter, old)
        assert average.dtype == torch.float32
        assert not torch.equal(average, old.float())


def tensors_of(stack):
    """All tensors of a stack with an axis of members that training changes."""
    optimiser, network = stack.optimiser, stack.network
    moments = [*optimiser.masters, *optimiser._first, *optimiser._second, optimiser.steps.T]
    kept = [*stack.averages, *stack.best, *network.parameters(), network.encoding.breaks, network.encoding.low]
    return [*stack.members, *stack.units, *stack.schedule, *moments, *kept]


def test_a_stack_that_is_taken_shares_nothing_with_the_other():
    table = make_table(weights=np.linspace(1, 2, 260))
    members = sorted(make_mixed(table), key=lambda member: str(member.kinds))
    stack = make_stack(table, members, SMALL["resnet"], replace(FAST, weight_average=0.9, smoothness=1.0))
    index = torch.arange(0, len(members), 2)
    taken = stack.take(index)
    before = [values.clone() for values in tensors_of(stack)]
    for trained, other in ((taken, stack), (stack, taken)):
        unchanged = [values.clone() for values in tensors_of(other)]
        trained.begin()
        for _ in range(trained.n_steps):
            trained.step()
        trained.finish()
        assert all(map(torch.equal, tensors_of(other), unchanged))
    assert not all(map(torch.equal, tensors_of(stack), before))
    for values, whole in zip(tensors_of(taken), tensors_of(stack), strict=True):
        torch.testing.assert_close(values, whole[index], rtol=1e-4, atol=1e-4)


def test_refused_operations_are_detected():
    with Refused() as refused:
        torch.zeros(3)[[0, 1]] = 1.0
        torch.ones(2).sum().item()
    assert {place.split(": ")[-1] for place in refused.places} == {"lift_fresh.default", "_local_scalar_dense.default"}


@pytest.mark.parametrize(("gain", "epochs"), [(0.0, 60), (0.01, 12), (0.001, 28), (1e-6, 60)])
def test_training_ends_with_a_cycle_that_gains_little(gain, epochs):
    """Best scores at the ends of the cycles, 4, 12, 28 and 60 epochs: 1, 0.995, 0.9949 and less."""
    schedule = Schedule.from_rates(torch.tensor([0.2]))
    config = TrainingConfig(schedule="cycles", max_epochs=60, patience=None, cycle_gain=gain)
    assert config.cycle_ends == (4, 12, 28, 60)
    for epoch in range(1, 61):
        score = {4: 1.0, 12: 0.995, 28: 0.9949}.get(epoch, 2.0 if epoch < 28 else 0.9)
        schedule.update(torch.tensor([score], dtype=torch.float64), config)
        if not bool(schedule.alive):
            break
    assert int(schedule.epoch) == epochs


def test_other_schedules_have_no_cycles():
    assert TrainingConfig(schedule="cosine", cycle_gain=0.5).cycle_ends == ()
