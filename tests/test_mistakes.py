"""Mistakes that new users make: each is answered by a sentence that names the mistake and the next step."""

import numpy as np
import pandas as pd
import pytest
import torch

import knotwork as kw
from knotwork.datasets import read_table
from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnTypeError, ColumnWarning

RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"speed": RANDOM.normal(size=120), "angle": RANDOM.uniform(size=120)})
Y = X["speed"] + X["angle"]
TINY = {"encoding": "Std", "training": kw.TrainingConfig(max_epochs=1), "random_state": 0, "device": "cpu"}


def write(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_truth_values_with_blanks_are_numbers(tmp_path):
    rows = [f"{('TRUE', 'FALSE', '')[place % 3]},{place},{2.5 * place}" for place in range(30)]
    data = read_table(write(tmp_path / "flags.csv", "flag,x,y", rows), target="y", drop_missing=False)
    assert data.numerical == ("flag", "x")
    np.testing.assert_array_equal(data.frame["flag"][:3], [1.0, 0.0, np.nan])
    assert read_table(tmp_path / "flags.csv", target="y").n_rows == 20


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (["km,kg,EUR"], [], "'weight' holds numbers, but 'kg' in its first row, as rows of units do"),
        ([], ["Total,900,900"], "'x' holds numbers, but 'Total' in its last row, as rows of totals do"),
        (["km,kg,EUR"], ["Total,900,900"], "'weight' holds numbers, but 'kg' in its first row, as rows of units do"),
    ],
)
def test_rows_of_units_and_totals_are_named(tmp_path, first, last, words):
    numbers = [f"{place + 0.5},{3 * place},{2.5 * place}" for place in range(30)]
    path = write(tmp_path / "table.csv", "x,weight,y", [*first, *numbers, *last])
    with pytest.raises(ColumnTypeError, match=f"column {words}. Remove this row from the file"):
        read_table(path, target="x" if first else "y")


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["km", *map(str, np.arange(40) + 0.5)], "The first row looks like one of units: leave it out"),
        ([*map(str, np.arange(40) + 0.5), "Total"], "The last row looks like one of totals: leave it out"),
        ([*map(str, np.arange(20) + 0.5), "x", *map(str, np.arange(20) + 0.5)], "taken as missing.$"),
    ],
)
def test_estimators_say_so_as_well(texts, words):
    table = pd.DataFrame({"x": texts, "z": RANDOM.normal(size=41)})
    with pytest.warns(ColumnWarning, match=words):
        kw.AdditiveRegressor().fit(table, np.arange(41.0))


@pytest.mark.parametrize("kind", [kw.AdditiveRegressor, lambda: kw.TabularRegressor(**TINY)])
def test_amounts_of_money_are_a_target(kind):
    amounts = [f"€ {1000 + 10 * place:,}" for place in range(120)]
    with pytest.warns(ColumnWarning, match="y is text, such as '€ 1,000', and is read as numbers"):
        model = kind().fit(X, amounts)
    assert 900 < model.predict(X).mean() < 2300


def test_errors_of_additive_models_name_no_other_class():
    with pytest.raises(ValueError, match="Use a regressor"):
        kw.AdditiveClassifier().fit(X, Y)
    with pytest.raises(TypeError, match="or use a classifier"):
        kw.AdditiveRegressor().fit(X, np.array(["a", "b"] * 60))


def test_the_name_of_one_column_is_that_column():
    additive = kw.AdditiveRegressor().fit(X, Y)
    assert [effect.name for effect in additive.effects("speed")] == ["speed"]
    tabular = kw.TabularRegressor(**TINY).fit(X, Y)
    assert [effect.name for effect in tabular.effects(X, "speed")] == ["speed"]
    with pytest.raises(ArgumentError, match="got columns='sped'. Did you mean 'speed'"):
        additive.effects("sped")


@pytest.mark.parametrize(
    ("first", "suggested"), [(0, "period=24, or period=(0, 24)"), (1, "period=24, or period=(1, 25)")]
)
def test_hours_without_a_period_are_noticed(first, suggested):
    hours = np.tile(np.arange(first, first + 24.0), 3)[:, None]
    with pytest.warns(UserWarning, match=f"and no period: {first} and {first + 23} become one point. Pass ") as caught:
        kw.make_encoder("CS-U", size=8).fit(hours)
    assert suggested in str(caught[0].message)
    kw.make_encoder("CS-U", size=8, period=24).fit(hours)
    kw.make_encoder("CS-U", size=8).fit(hours + 0.25)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kw.TabularRegressor(**TINY).fit(X, Y, eval_set=[(X, Y)]), r"fit\(\) got .*X_val=..., y_val=..."),
        (lambda: kw.TabularRegressor(**TINY).fit(X, Y, epochs=3), "training=knotwork.TrainingConfig"),
        (lambda: kw.SplineEncoder(n_knots=4), "Write size: a basis has n_knots"),
        (lambda: kw.make_encoder("BS-Q", n_knots=4), "The size, which is n_knots"),
        (
            lambda: kw.TabularRegressor(backbone=torch.nn.Linear(2, 1)).fit(X, Y),
            "A torch module has no axis of members",
        ),
    ],
)
def test_arguments_of_other_libraries_are_explained(call, words):
    with pytest.raises(ArgumentTypeError, match=words):
        call()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"objective": lambda p, y: torch.as_tensor(np.square(p.numpy() - y.numpy()))},
            "use functions of torch, not of NumPy",
        ),
        ({"device": "meta"}, "be one that computes"),
    ],
)
def test_losses_and_devices_that_cannot_train(settings, words):
    with pytest.raises(ArgumentError, match=words):
        kw.TabularRegressor(**{**TINY, **settings}).fit(X, Y)


def test_many_classes_are_said():
    """Before the fit, which takes minutes."""
    model = kw.AdditiveClassifier()
    with pytest.warns(
        UserWarning, match="y has 60 classes, each of which gets curves of its own: .* AdditiveRegressor"
    ):
        model._read_target(np.arange(120) % 60)
