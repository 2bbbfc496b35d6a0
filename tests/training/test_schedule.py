"""Learning rates and early stopping of a stack against torch's scheduler and a plain loop, member by member."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.training._config import TrainingConfig
from knotwork.training._stack import Schedule

CONFIG = replace(TrainingConfig.paper(), max_epochs=60)


def test_plateau_and_stopping_equal_torch():
    random = np.random.default_rng(0)
    n_members = 12
    steps = random.normal(-0.02, 0.1, size=(60, n_members))
    scores = np.exp(np.cumsum(steps, axis=0))
    scores[20:, 0] = scores[19, 0]
    scores[5, 1] = np.nan
    scores[:, 2] -= 5.0  # negative, as one less AUC is
    schedule = Schedule.from_rates(torch.full((n_members,), 1e-3))
    expected = [plain(scores[:, member]) for member in range(n_members)]
    alive, rates = np.ones(n_members, dtype=bool), []
    for epoch in range(60):
        rates.append(schedule.rates(CONFIG)[0].numpy())
        schedule.update(torch.from_numpy(scores[epoch]), CONFIG)
        alive = schedule.alive.numpy()
    assert not alive.any()
    for member, (own_rates, best_epoch, epochs) in enumerate(expected):
        assert int(schedule.best_epoch[member]) == best_epoch
        assert int(schedule.epoch[member]) == epochs
        np.testing.assert_allclose(np.array(rates)[:epochs, member], own_rates, rtol=1e-6)


def plain(scores):
    weight = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.AdamW([weight], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, "min", factor=0.1, patience=10)
    if np.nanmin(scores) < 0:  # torch's relative threshold is for positive scores: let it see the larger as the better
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
    seen = []
    for _ in range(4):
        seen.append(float(schedule.rates(config)[1, 0]))
        schedule.update(torch.tensor([1.0], dtype=torch.float64), config)
    assert seen == pytest.approx([0.0, 0.0, 3e-3, 3e-3])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_epochs", 0),
        ("batch_size", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("inf")),
        ("weight_decay", -1.0),
        ("patience", 0),
        ("schedule", "linear"),
        ("plateau_factor", 1.0),
        ("knot_warmup", -1),
        ("metric", "gini"),
        ("precision", "fp8"),
        ("time_limit", 0.0),
    ],
)
def test_settings_check_themselves(field, value):
    with pytest.raises(ArgumentError, match=field):
        TrainingConfig(**{field: value})


def test_settings_of_the_wrong_type_are_refused():
    for field in ("learning_rate", "weight_decay", "max_epochs"):
        with pytest.raises(ArgumentTypeError, match=field):
            TrainingConfig(**{field: "1"})
    with pytest.raises(ArgumentError, match="metric must be valid for regression, got .*Available: .rmse"):
        TrainingConfig(metric="auc").metric_for("regression")


def test_batches_grow_with_the_table():
    config = TrainingConfig()
    sizes = [config.batch_size_for(n) for n in (10, 5_000, 20_000, 1_000_000)]
    assert sizes == [64, 64, 256, 512]
    assert TrainingConfig(batch_size=77).batch_size_for(10**6) == 77


def test_the_papers_protocol():
    paper = TrainingConfig.paper()
    assert (paper.learning_rate, paper.weight_decay, paper.batch_size) == (1e-4, 1e-5, 512)
    assert (paper.max_epochs, paper.patience, paper.plateau_patience, paper.plateau_factor) == (200, 15, 10, 0.1)
    assert (paper.knot_warmup, paper.knot_rate * paper.learning_rate, paper.spacing_weight) == (50, 2e-4, 1e-4)
    assert paper.metric_for("classification").name == "auc"
    assert paper.metric_for("regression").name == "rmse"
