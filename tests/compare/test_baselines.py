"""Baselines: the same folds and rows as the networks, categories, missing values, deadlines and failures."""

import time

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from knotwork.compare._baselines import BASELINES, Baseline, FoldResult, score_baselines
from knotwork.compare._inputs import read_source
from knotwork.compare._scoring import fold_table
from tests.compare.cases import write_flats

LINEAR, BOOSTING, LIGHTGBM = BASELINES


def prepare(tmp_path, frame, target="y", folds=3):
    frame.to_parquet(tmp_path / "t.parquet")
    source = read_source(tmp_path / "t.parquet", target)
    return source, fold_table(source, folds=folds, seed=0)


@pytest.fixture
def curved(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.normal(size=400), "c": rng.choice(["u", "v"], 400)})
    frame["y"] = 1e6 + 50 * (np.abs(frame["a"]) + (frame["c"] == "u") + rng.normal(0, 0.05, 400))
    return prepare(tmp_path, frame)


def test_every_installed_baseline_is_scored_on_the_test_rows_of_each_fold(curved):
    source, prepared = curved
    scored, notes = score_baselines(prepared)
    assert [row.candidate for row in scored] == [baseline.name for baseline in BASELINES if baseline.is_installed]
    assert notes == []
    for row in scored:
        assert row.kind in ("linear", "boosting")
        assert row.predictions.shape == (400,)
        for place, split in enumerate(prepared.splits):
            rows = split.test % 400
            error = np.sqrt(np.mean((row.predictions[rows] - source.target[rows]) ** 2))
            assert row.scores["rmse"][place] == pytest.approx(error)
        assert row.pooled["rmse"] == pytest.approx(np.sqrt(np.mean((row.predictions - source.target) ** 2)))
    linear, boosting, *_ = scored
    assert boosting.scores["rmse"].mean() < 0.5 * linear.scores["rmse"].mean()
    assert (boosting.best_epochs <= boosting.epochs).all()


def test_the_linear_model_is_ridge_on_standardised_columns(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(3, 5, size=(300, 4)), columns=list("abcd"))
    frame["y"] = frame["a"] - 2 * frame["b"] + rng.normal(0, 0.1, 300)
    _, prepared = prepare(tmp_path, frame)
    [row], _ = score_baselines(prepared, baselines=[LINEAR])
    split = prepared.splits[0]
    features, target = frame[list("abcd")].to_numpy(), frame["y"].to_numpy()
    scaled = (features - features[split.train].mean(axis=0)) / features[split.train].std(axis=0)
    models = [Ridge(alpha=10.0**power * len(split.train)).fit(scaled[split.train], target[split.train])
              for power in range(-5, 1)]  # fmt: skip
    best = min(models, key=lambda model: np.mean((model.predict(scaled[split.valid]) - target[split.valid]) ** 2))
    np.testing.assert_allclose(row.predictions[split.test], best.predict(scaled[split.test]), rtol=1e-6)
    assert row.scores["rmse"].mean() == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("target", ["rent", "cheap"])
def test_tables_with_gaps_and_categories(tmp_path, target):
    source = read_source(write_flats(tmp_path, target=target), target)
    scored, notes = score_baselines(fold_table(source, folds=2, seed=0))
    assert notes == []
    for row in scored:
        assert row.is_finite
        if target == "cheap":
            np.testing.assert_allclose(row.predictions.sum(axis=1), 1.0)


def test_a_class_that_a_fold_does_not_know(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=120), "y": ["u", "v", "w"] * 40})
    frame.loc[7, "y"] = "rare"
    _, prepared = prepare(tmp_path, frame)
    scored, notes = score_baselines(prepared)
    assert notes == []
    assert all(np.isfinite(row.scores["log_loss"]).all() and row.predictions.shape == (120, 4) for row in scored)


def test_a_deadline_cuts_every_baseline_and_is_told(curved):
    _, prepared = curved
    started = time.perf_counter()
    scored, notes = score_baselines(prepared, deadline=started)
    installed = [baseline for baseline in BASELINES if baseline.is_installed]
    assert len(scored) == len(installed) == len(notes)
    assert "reached its time limit in 3 of 3 folds" in notes[0]
    assert all(row.is_finite for row in scored)
    assert all((row.epochs <= 5).all() for row in scored)


def test_a_failure_is_told_and_a_missing_package_skipped(curved):
    def fail(fold, deadline, before):
        raise ValueError("no luck\nmore")

    absent = Baseline("absent", "linear", fail, "no_such_package")
    scored, notes = score_baselines(curved[1], baselines=[Baseline("odd", "linear", fail), absent, LINEAR])
    assert [row.candidate for row in scored] == ["linear model"]
    assert notes == ["Not compared: odd, which failed: no luck"]


def test_folds_learn_from_the_pace_of_the_one_before(curved):
    seen = []

    def fit(fold, deadline, before):
        seen.append(before)
        return FoldResult(np.zeros(len(fold.split.test)), pace=2.0)

    score_baselines(curved[1], baselines=[Baseline("zero", "boosting", fit)])
    assert seen[0] is None
    assert [before.pace for before in seen[1:]] == [2.0, 2.0]
