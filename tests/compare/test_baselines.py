"""Models without networks: the same folds and rows as the networks, categories, missing values, time and failures."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from knotwork import AdditiveClassifier, AdditiveRegressor
from knotwork.compare import _baselines as baselines_of
from knotwork.compare._baselines import BASELINES, Baseline, score_baselines
from knotwork.compare._inputs import read_source
from knotwork.compare._scoring import fold_table
from tests.compare.cases import write_flats

LINEAR, BOOSTING, ADDITIVE = BASELINES


def prepare(tmp_path, frame, target="y", folds=3):
    frame.to_parquet(tmp_path / "t.parquet")
    source = read_source(tmp_path / "t.parquet", target)
    return fold_table(source, folds=folds, seed=0), source


@pytest.fixture
def curved(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400), "c": rng.choice(["u", "v"], 400)})
    frame["y"] = 1e6 + 50 * (np.abs(frame["a"]) + (frame["c"] == "u") + rng.normal(0, 0.05, 400))
    return prepare(tmp_path, frame)


def test_every_baseline_is_scored_on_the_test_rows_of_each_fold(curved):
    prepared, source = curved
    scored, notes = score_baselines(prepared, source)
    assert [row.kind for row in scored] == ["linear", "boosting", "additive"]
    assert notes == []
    for row in scored:
        assert row.predictions.shape == (400,)
        assert row.n_trained == 267
        for place, split in enumerate(prepared.splits):
            error = np.sqrt(np.mean((row.predictions[split.test] - source.target[split.test]) ** 2))
            assert row.scores["rmse"][place] == pytest.approx(error)
    linear, boosting, additive = (row.scores["rmse"].mean() for row in scored)
    assert additive < boosting < 0.5 * linear


def test_the_linear_model_is_that_of_least_squares(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.uniform(3, 5, size=(300, 4)), columns=list("abcd"))
    frame["y"] = frame["a"] - 2 * frame["b"] + 0.5 * frame["c"] + 0.3 * frame["d"] + rng.normal(0, 0.1, 300)
    prepared, source = prepare(tmp_path, frame)
    [row], _ = score_baselines(prepared, source, baselines=[LINEAR])
    split = prepared.splits[0]
    rows, features = np.concatenate([split.train, split.valid]), frame[list("abcd")].to_numpy()
    model = LinearRegression().fit(features[rows], source.target[rows])
    # Lines are shrunk a little, and end at the largest and smallest values of the training rows.
    np.testing.assert_allclose(row.predictions[split.test], model.predict(features[split.test]), atol=0.02)
    everything = row.make()
    assert isinstance(everything, AdditiveRegressor)
    model = LinearRegression().fit(features, source.target)
    np.testing.assert_allclose(everything.predict(frame[list("abcd")]), model.predict(features), atol=0.02)


@pytest.mark.parametrize("target", ["rent", "cheap"])
def test_tables_with_gaps_and_categories(tmp_path, target):
    source = read_source(write_flats(tmp_path, target=target), target)
    scored, notes = score_baselines(fold_table(source, folds=2, seed=0), source)
    assert (len(scored), notes) == (3, [])
    for row in scored:
        assert row.is_finite
        if target == "cheap":
            np.testing.assert_allclose(row.predictions.sum(axis=1), 1.0)
            assert isinstance(row.make(), AdditiveClassifier) == (row.kind != "boosting")


def test_the_boosted_bag_predicts_tested_rows_as_the_ranking_does(tmp_path):
    source = read_source(write_flats(tmp_path), "rent")
    prepared = fold_table(source, folds=3, seed=0)
    [row], _ = score_baselines(prepared, source, baselines=[BOOSTING])
    model = row.make()
    assert model.members == "trees"
    table = model.columns_.read(source.features)
    outputs = model._model.outputs(table)[..., 0]
    for fold, split in enumerate(prepared.splits):
        np.testing.assert_allclose(outputs[fold, split.test], row.predictions[split.test])
    np.testing.assert_allclose(model.predict(source.features), outputs.mean(axis=0))
    errors = row.predictions - source.target
    assert model.validation_score_ == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert model.target_name_ == "rent"


def test_a_class_that_a_fold_does_not_know(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "y": ["u", "v", "w"] * 40})
    frame.loc[7, "y"] = "rare"
    scored, notes = score_baselines(*prepare(tmp_path, frame))
    assert (len(scored), notes) == (3, [])
    assert all(np.isfinite(row.scores["log_loss"]).all() and row.predictions.shape == (120, 4) for row in scored)


def test_what_the_time_does_not_suffice_for_is_cut_or_left_out_and_told(curved, monkeypatch):
    scored, notes = score_baselines(*curved, deadline=time.perf_counter())
    assert [row.kind for row in scored] == ["boosting"]
    assert notes[0].startswith("Not compared: linear model: it needs about")
    assert any(note.startswith("Boosting reached its time limit in") for note in notes)
    monkeypatch.setattr(baselines_of, "ADDITIVE_COST", replace(baselines_of.ADDITIVE_COST, most=0.0))
    scored, notes = score_baselines(*curved, baselines=[ADDITIVE])
    assert scored == []
    assert "it needs about" in notes[0]


def test_curves_of_wide_tables_and_many_classes_are_expected_to_take_long(curved):
    _, source = curved
    cost = baselines_of.ADDITIVE_COST
    usual = cost.seconds(source, "additive")
    wide = replace(source, features=pd.DataFrame(np.zeros((400, 2000))))
    assert cost.seconds(wide, "additive") > 1e5 * usual
    assert cost.seconds(replace(source, classes=tuple(range(800))), "additive") == pytest.approx(3200 * usual)
    assert cost.seconds(source, "linear") < usual


def test_a_failure_is_told(curved):
    def fail(*given):
        raise ValueError("no luck\nmore")

    scored, notes = score_baselines(*curved, baselines=[Baseline("odd", "linear", fail), LINEAR])
    assert [row.candidate for row in scored] == ["linear model"]
    assert notes == ["Not compared: odd: no luck."]
