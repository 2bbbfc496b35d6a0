"""Losses, links and metrics of objectives against scikit-learn, scipy and closed forms."""

import json
import math
import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn import metrics

from knotwork._model_files import Reader, Writer
from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnError
from knotwork.training import OBJECTIVES, Objective, TrainingConfig, train
from knotwork.training._members import TrainingTable, all_predictions, output_units, target_units
from knotwork.training._objectives import (
    USUAL_OBJECTIVES,
    Custom,
    Focal,
    Gamma,
    Gaussian,
    Huber,
    LogLoss,
    Poisson,
    Quantile,
    Tweedie,
    make_objective,
)
from knotwork.training._stack import validation_scores
from tests.training.cases import make_member, make_table

RNG = np.random.default_rng(0)
TARGET = RNG.gamma(2.0, 1.0, size=50)
GUESS = RNG.gamma(3.0, 0.7, size=(50, 1))
LEVELS = (0.05, 0.2, 0.5, 0.8, 0.95)

REFERENCES = {
    "squared": (USUAL_OBJECTIVES["regression"], lambda y, p: metrics.root_mean_squared_error(y, p[:, 0])),
    "absolute": (OBJECTIVES["absolute"](), lambda y, p: metrics.mean_absolute_error(y, p[:, 0])),
    "quantile": (Quantile(0.8), lambda y, p: metrics.mean_pinball_loss(y, p[:, 0], alpha=0.8)),
    "poisson": (Poisson(), lambda y, p: metrics.mean_poisson_deviance(y, p[:, 0])),
    "gamma": (Gamma(), lambda y, p: metrics.mean_gamma_deviance(y, p[:, 0])),
    "tweedie": (Tweedie(1.3), lambda y, p: metrics.mean_tweedie_deviance(y, p[:, 0], power=1.3)),
    "inverse gaussian": (Tweedie(3.0), lambda y, p: metrics.mean_tweedie_deviance(y, p[:, 0], power=3)),
    "huber": (Huber(0.7), lambda y, p: float(torch.nn.HuberLoss(delta=0.7)(torch.tensor(p[:, 0]), torch.tensor(y)))),
    "gaussian": (Gaussian(), lambda y, p: -norm(p[:, 0], p[:, 1]).logpdf(y).mean()),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_metrics_equal_those_of_other_libraries(name):
    objective, reference = REFERENCES[name]
    guess = np.concatenate([GUESS, 0.3 + GUESS], axis=1) if name == "gaussian" else GUESS
    score = objective.metric.function(torch.tensor(guess)[None], torch.tensor(TARGET)[None], None)
    assert float(score) == pytest.approx(reference(TARGET, guess), rel=1e-12)


@pytest.mark.parametrize("name", REFERENCES)
def test_the_gradient_of_the_loss_is_that_of_the_score(name):
    """Losses may leave out constants and factors, but have their minimum where the score has."""
    objective, _ = REFERENCES[name]
    outputs = torch.tensor(RNG.normal(size=(50, objective.n_outputs)), requires_grad=True)
    target = torch.tensor(TARGET)
    (of_loss,) = torch.autograd.grad(objective.losses(outputs, target).sum(), outputs)
    scores = objective.row_scores(objective.predictions(outputs), target).sum()
    (of_score,) = torch.autograd.grad(scores, outputs)
    ratio = 2.0 if objective.is_positive else 1.0
    torch.testing.assert_close(ratio * of_loss, of_score)


def test_quantiles_increase_for_all_outputs_and_start_at_those_of_a_normal_variable():
    objective = Quantile(LEVELS)
    start = objective.predictions(torch.zeros(1, 5, dtype=torch.float64))
    np.testing.assert_allclose(start[0], norm.ppf(LEVELS), rtol=1e-12)
    wild = torch.tensor(RNG.normal(size=(10_000, 5)) * 30, dtype=torch.float32)
    assert (objective.predictions(wild).diff(dim=-1) >= 0).all()


def test_predictions_of_a_log_link_are_positive_and_finite():
    predictions = Poisson().predictions(torch.tensor([[-1e30], [0.0], [1e30]]))
    assert (predictions > 0).all()
    assert predictions.isfinite().all()
    assert predictions[1] == 1.0


def test_focal_loss_with_gamma_0_is_the_cross_entropy():
    logits, codes = torch.tensor(RNG.normal(size=(1, 20, 3))), torch.tensor(RNG.integers(3, size=(1, 20)))
    plain = USUAL_OBJECTIVES["classification"].losses(logits, codes)
    torch.testing.assert_close(Focal(0.0).losses(logits, codes), plain)
    expected = (1 - torch.exp(-plain)) ** 2 * plain
    torch.testing.assert_close(Focal(2.0).losses(logits, codes), expected)
    torch.testing.assert_close(Focal(2.0).metric.function(logits, codes, None), expected.mean(dim=1))


def test_units_of_targets():
    target = torch.tensor([[1.0, 2.0, 6.0, 99.0], [4.0, 4.0, 4.0, 4.0]], dtype=torch.float64)
    counts = torch.tensor([3, 4])
    shift, scale = target_units(USUAL_OBJECTIVES["regression"], target, counts)
    np.testing.assert_allclose(shift, [3.0, 4.0])
    np.testing.assert_allclose(
        scale, [np.std([1, 2, 6]), 4e-15]
    )  # of a constant target, of the size of rounding errors
    shift, scale = target_units(OBJECTIVES["absolute"](), target, counts)
    np.testing.assert_allclose(shift, [2.0, 4.0])
    np.testing.assert_allclose(scale, [math.sqrt(math.pi / 2) * 5 / 3, 4e-15])
    shift, scale = target_units(Poisson(), target, counts)
    np.testing.assert_allclose(shift, [0.0, 0.0])
    np.testing.assert_allclose(scale, [3.0, 4.0])


def test_each_of_several_targets_has_its_units_and_score():
    one, other = torch.tensor(RNG.normal(size=(2, 1, 30)))
    both = torch.stack([one, 100.0 * other], dim=-1)
    counts, squared = torch.tensor([30]), USUAL_OBJECTIVES["regression"]
    shift, scale = target_units(squared, both, counts)
    np.testing.assert_allclose(scale[0], [one.std(correction=0), 100 * other.std(correction=0)])
    columns = output_units(Gaussian(), (shift, scale))
    np.testing.assert_allclose(columns[0][0], [shift[0, 0], 0.0, shift[0, 1], 0.0])
    scores = validation_scores(TrainingConfig(), squared, torch.zeros(1, 30, 2), both)
    expected = 0.5 * (one.square().mean().sqrt() + 100 * other.square().mean().sqrt())
    assert float(scores) == pytest.approx(float(expected))
    outputs = torch.tensor(RNG.normal(size=(4, 6)))
    quantiles = all_predictions(Quantile((0.1, 0.5, 0.9)), outputs, 2)
    torch.testing.assert_close(quantiles[:, 3:], Quantile((0.1, 0.5, 0.9)).predictions(outputs[:, 3:]))


@pytest.mark.parametrize(
    ("objective", "target", "message"),
    [
        (Poisson(), [0.0, -1.0], "y must not be negative for objective='poisson', but 1 of its 2 values"),
        (Gamma(), [0.0, 1.0], "y must be larger than 0 for objective='gamma', but 1 of its 2 values"),
        (Tweedie(2.5), [0.0, 1.0], "larger than 0 for objective='tweedie'"),
        (Poisson(), [0.0, 0.0], "must have a value larger than 0"),
        (Poisson(), [[0.0, 1.0], [0.0, 2.0]], "must have a value larger than 0"),
    ],
)
def test_targets_outside_of_the_domain_are_refused(objective, target, message):
    with pytest.raises(ColumnError, match=message):
        objective.check_target(np.array(target))


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Quantile, {"quantiles": 1.0}, "quantiles must be one or more numbers between 0 and 1"),
        (Quantile, {"quantiles": []}, "quantiles must be one or more numbers"),
        (Quantile, {"quantiles": [0.9, 0.1]}, "quantiles must increase"),
        (Tweedie, {"power": 0.5}, "power must be a number from 1 to 3"),
        (Huber, {"delta": 0.0}, "delta must be a number larger than 0"),
        (Focal, {"gamma": -1.0}, "gamma must be a number from 0 on"),
        (Focal, {"calibrate": "isotonic"}, "calibrate must be one of 'temperature'"),
        (LogLoss, {"calibrate": "isotonic"}, "calibrate must be one of 'temperature'"),
        (
            LogLoss,
            {"class_weight": "even"},
            "class_weight must be 'balanced' or a mapping.*got class_weight='even'. Write",
        ),
        (LogLoss, {"class_weight": 3.0}, "class_weight must be 'balanced' or a mapping"),
        (LogLoss, {"class_weight": np.ones(2)}, "class_weight must be 'balanced' or a mapping"),
        (
            LogLoss,
            {"class_weight": {"a": "heavy"}},
            "class_weight must be 'balanced' or a mapping from labels to numbers",
        ),
        (LogLoss, {"class_weight": {"a": True}}, "class_weight must be"),
        (LogLoss, {"class_weight": {(1, 2): 1.0}}, "class_weight must be"),
        (LogLoss, {"class_weight": [0.3, 0.7]}, "class_weight must be"),
    ],
)
def test_wrong_settings_are_refused(kind, settings, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        kind(**settings)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("log_loss", "objective must be one of 'auto', 'squared', 'absolute'"),
        (Focal(), "objective must be one for regression"),
        ("mse", "objective must be one of"),
        (None, "objective must be one of"),
    ],
)
def test_wrong_objectives_are_refused(objective, message):
    with pytest.raises(ArgumentError, match=message):
        make_objective(objective, "regression")


def test_a_class_in_place_of_an_objective_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"objective must be an objective, not its class.*Write Huber\(\)"):
        make_objective(Huber, "regression")


def test_an_added_objective_without_defaults_does_not_disturb_others(monkeypatch):
    class Needed(LogCosh):
        def __init__(self, level):
            super().__init__(level)

    monkeypatch.setitem(OBJECTIVES, "needed", Needed)
    assert make_objective("huber", "regression") == Huber()


def test_the_usual_objectives():
    for task, objective in USUAL_OBJECTIVES.items():
        assert make_objective("auto", task) == make_objective(objective.name, task) == objective


def write(objective):
    return Writer(OBJECTIVES).write(objective)


def read(content):
    return Reader(OBJECTIVES).read(content, Objective, "objective")


@pytest.mark.parametrize("kind", [LogLoss, Focal])
def test_weights_of_classes_are_pairs(kind):
    """Objectives are keys of dicts, which mappings cannot be."""
    objective = kind(class_weight={"a": 1, np.str_("b"): np.float32(2.5), 3: 0.5, np.int64(4): 1, 5.5: 2})
    assert objective.class_weight == (("a", 1.0), ("b", 2.5), (3, 0.5), (4, 1.0), (5.5, 2.0))
    assert {objective: 1}[replace(objective)] == 1
    assert read(json.loads(json.dumps(write(objective)))) == objective
    assert pickle.loads(pickle.dumps(objective)) == objective
    assert kind(class_weight="balanced") != kind()


def test_a_function_of_numbers_has_no_weights_of_classes():
    assert Custom(torch.abs, classes=True, class_weight="balanced").class_weight == "balanced"
    for setting in ({"class_weight": {1: 2.0}}, {"calibrate": "temperature"}):
        with pytest.raises(ArgumentError, match="must be None for an objective of numbers"):
            Custom(torch.abs, **setting)


def test_another_metric_needs_a_single_prediction():
    config = TrainingConfig(metric="mae")
    assert config.metric_for(Poisson()).name == "mae"
    assert TrainingConfig().metric_for(Poisson()).name == "poisson_deviance"
    with pytest.raises(ArgumentError, match="metric must be 'auto' for the objective 'gaussian'"):
        config.metric_for(Gaussian())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_names_and_settings_are_written_and_read(name):
    objective = OBJECTIVES[name]()
    assert read(write(objective)) == objective
    assert pickle.loads(pickle.dumps(objective)) == objective
    assert read(write(Quantile(LEVELS))) == Quantile(LEVELS)


@pytest.mark.parametrize("content", [None, {"name": "poisson"}, {"type": "eval"},
                                     {"type": "huber", "gamma": 1.0}, {"type": "huber", "delta": "1"}])  # fmt: skip
def test_unknown_content_is_refused(content):
    with pytest.raises((ValueError, TypeError), match="objective must|delta must"):
        read(content)


def test_a_function_must_return_a_loss_for_each_row():
    with pytest.raises(ArgumentError, match=r"objective must return one loss for each row.*leave out mean"):
        Custom(lambda outputs, targets: (outputs - targets).mean()).losses(torch.zeros(2, 5, 1), torch.zeros(2, 5))


def short(table, objective, **settings):
    members = [make_member(table, "PLE", seed=seed, fold=seed) for seed in range(2)]
    config = TrainingConfig(**{"max_epochs": 3, "batch_size": 64, **settings})
    table = TrainingTable(table.numbers, table.codes, table.target, table.task, table.cardinalities, table.n_classes,
                          table.weights, objective)  # fmt: skip
    return train(table, members, backbone(), config, device="cpu"), members


def backbone():
    from knotwork.nn import MLPConfig

    return MLPConfig(widths=(16,), dropout=0.0)


def test_a_function_trains_as_the_named_objective_does():
    """The function gets the target's own units; the named loss those of its spread, and other sizes of steps."""
    table = make_table()
    named, members = short(table, None, max_epochs=30, learning_rate=0.01)
    own, _ = short(table, Custom(lambda outputs, targets: (outputs - targets) ** 2), max_epochs=30, learning_rate=0.01)
    rows = [member.valid for member in members]
    pairs = zip(
        named.outputs(table.numbers, table.codes, rows), own.outputs(table.numbers, table.codes, rows), strict=True
    )
    for one, other in pairs:
        assert np.corrcoef(one[:, 0], other[:, 0])[0, 1] > 0.98
    target = table.target[rows[0]]
    mse = np.mean((own.outputs(table.numbers, table.codes, rows)[0][:, 0] - target) ** 2)
    assert own.histories[0].score.min() == pytest.approx(mse, rel=1e-4)


@pytest.mark.parametrize("name", ["poisson", "gaussian", "quantile"])
def test_training_alone_and_in_a_stack_agree(name):
    table = make_table()
    objective = Quantile(LEVELS) if name == "quantile" else OBJECTIVES[name]()
    table = TrainingTable(table.numbers, table.codes, np.abs(table.target), table.task, table.cardinalities,
                          objective=objective)  # fmt: skip
    members = [make_member(table, "PLE", seed=seed, fold=seed) for seed in range(3)]
    config = TrainingConfig(max_epochs=3, batch_size=64)
    together = train(table, members, backbone(), config, device="cpu").outputs(table.numbers, table.codes)
    for member, expected in zip(members, together, strict=True):
        alone = train(table, [member], backbone(), config, device="cpu").outputs(table.numbers, table.codes)
        np.testing.assert_allclose(alone[0], expected, rtol=1e-4, atol=1e-4)


@dataclass(frozen=True)
class LogCosh(Objective):
    """The logarithm of the hyperbolic cosine of errors, as a user may add it."""

    name: ClassVar[str] = "log_cosh"
    metric_name: ClassVar[str] = "log_cosh"
    sharpness: float = 1.0

    def row_scores(self, predictions, target):
        """Return the score of each row."""
        return torch.log(torch.cosh(self.sharpness * (predictions[..., 0] - target)))


def test_an_added_objective_is_named_and_saved(monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "log_cosh", LogCosh)
    assert make_objective("log_cosh", "regression") == LogCosh()
    assert read(write(LogCosh(2.0))) == LogCosh(2.0)
    trained, _ = short(make_table(), LogCosh(2.0))
    assert all(np.isfinite(history.score).all() for history in trained.histories)
