"""`TrainingConfig.smoothness` in the estimators: by column, saved, refitted, and refused where it has no effect."""

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork.errors import ArgumentError

SHORT = {"max_epochs": 4, "learning_rate": 0.01}
SETTINGS = {"backbone": kw.nn.MLPConfig(widths=(8,)), "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, size=200), unit="D")
    return pd.DataFrame({"a": rng.uniform(size=200), "b": rng.normal(size=200), "day": days})


def fit(table, encoding="BS-Q@8", smoothness=0.0, **settings):
    training = kw.TrainingConfig(**SHORT, smoothness=smoothness)
    return kw.TabularRegressor(encoding, training=training, **SETTINGS, **settings).fit(table, np.sin(9 * table["a"]))


def first_weights(model):
    return model.trained_.pieces[0].network.backbone.first.weight[0].detach().numpy().reshape(-1, 8, 8)


def test_columns_have_their_strengths_in_all_their_numbers(table):
    plain, model = fit(table), fit(table, smoothness={"b": 3.0, "day": 3.0})
    names = [*model.encoding_[0]]
    bends = [np.square(np.diff(first_weights(each), n=2, axis=1)).sum(axis=(1, 2)) for each in (plain, model)]
    changed = {name for name, before, after in zip(names, *bends, strict=True) if after < 0.8 * before}
    assert len(names) > 3
    assert changed == set(names) - {"a"}


def test_names_that_are_no_columns_are_refused(table):
    with pytest.raises(ArgumentError, match=r"smoothness must name numerical columns.*'c'"):
        fit(table, smoothness={"c": 1.0})


def test_models_are_saved_and_loaded(table, tmp_path):
    model = fit(table, smoothness={"a": 2.0})
    model.save(tmp_path / "model.kw")
    loaded = kw.load(tmp_path / "model.kw")
    assert loaded.training == model.training
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))


def test_parameters_can_be_set_by_name_and_networks_refitted(table):
    model = fit(table, validation=kw.ValidationConfig(refit=True))
    model.set_params(training__smoothness={"b": 1.0}).fit(table, table["a"] ** 2 + table["b"])
    assert np.isfinite(model.predict(table)).all()


@pytest.mark.parametrize("columns", [["a", "b"], ["a"]])
def test_no_effect_is_refused(table, columns):
    with pytest.raises(ArgumentError, match="smoothness must be 0 if no column is encoded by splines or PLE"):
        fit(table[columns], encoding="Std", smoothness=1.0)


def test_some_columns_of_knots_or_some_encodings_of_a_search_suffice(table):
    fit(table[["a", "b"]], encoding={"a": "Std", "b": "BS-Q@8"}, smoothness=1.0)
    fit(table[["a", "b"]], encoding=["Std", "BS-Q@8"], search="validated", smoothness=1.0)
