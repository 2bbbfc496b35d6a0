"""The configuration of training checks itself, and `paper` is the paper's protocol."""

import pytest

from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.training._config import TrainingConfig


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
        ("beta2", 1.0),
        ("weight_average", 1.0),
        ("weight_average", -0.1),
        ("label_smoothing", 1.0),
        ("plateau_factor", 1.0),
        ("knot_warmup", -1),
        ("metric", "gini"),
        ("precision", "fp8"),
        ("time_limit", 0.0),
    ],
)
def test_invalid_settings_are_refused(field, value):
    with pytest.raises(ArgumentError, match=field):
        TrainingConfig(**{field: value})


def test_settings_of_the_wrong_type_are_refused():
    for field in ("learning_rate", "weight_decay", "max_epochs", "reproducible"):
        with pytest.raises(ArgumentTypeError, match=field):
            TrainingConfig(**{field: "1"})
    with pytest.raises(ArgumentError, match="metric must be valid for regression, got .*Available: .rmse"):
        TrainingConfig(metric="auc").metric_for("regression")


def test_later_settings_do_not_change_the_identity_of_earlier_results():
    config = TrainingConfig()
    later = {"beta2": 0.9, "weight_average": 0.5, "label_smoothing": 0.2, "reproducible": True}
    assert not set(config.identity()) & set(later)
    assert len(config.identity()) == 14
    for name, value in later.items():
        assert TrainingConfig(**{name: value}).identity() == {**config.identity(), name: value}


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


def test_smoothness_is_a_number_or_one_for_each_column():
    assert TrainingConfig(smoothness=2).strengths(3) == (2.0, 2.0, 2.0)
    assert TrainingConfig(smoothness=[0, 1.5]).strengths(2) == (0.0, 1.5)
    named = TrainingConfig(smoothness={"age": 3.0})
    assert hash(named) == hash(TrainingConfig(smoothness=[["age", 3.0]]))
    assert named.for_columns(["income", "age"]).strengths(2) == (0.0, 3.0)
    assert named.is_smooth
    assert not TrainingConfig().is_smooth
    assert not TrainingConfig(smoothness={"age": 0.0}).is_smooth
    assert TrainingConfig(smoothness=1.0).identity() == {**TrainingConfig().identity(), "smoothness": 1.0}
    with pytest.raises(ArgumentError, match=r"smoothness must name numerical columns .*'age'.*'income'"):
        named.for_columns(["income"])
    for unsuitable in (named, TrainingConfig(smoothness=[1.0])):
        with pytest.raises(ArgumentError, match="one for each of 2 numerical features"):
            unsuitable.strengths(2)
    for wrong in ({"age": "1"}, "1", [["age"]], [[[], 1.0]]):
        with pytest.raises(ArgumentTypeError, match="smoothness"):
            TrainingConfig(smoothness=wrong)
    for wrong in (-1.0, {"age": -1.0}, [0.0, -1.0]):
        with pytest.raises(ArgumentError, match="smoothness"):
            TrainingConfig(smoothness=wrong)
    with pytest.raises(ArgumentError, match="smoothness_order"):
        TrainingConfig(smoothness_order=0)
