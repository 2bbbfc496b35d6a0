"""Our three models from one training are what three fits give, and pages say what the results say."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

import knotwork as kw
from knotwork.datasets import Dataset

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "quality"
TRAINING = kw.TrainingConfig(max_epochs=3, learning_rate=0.01, batch_size=32)


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def small(task):
    """Return a table with categories, missing values, and three classes or numbers."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "signal": rng.uniform(-2, 3, 300),
            "holes": np.where(rng.random(300) < 0.2, np.nan, rng.normal(size=300)),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], 300),
        }
    )
    frame["target"] = np.sin(4 * frame["signal"]) + (frame["town"] == "Ulm")
    if task == "classification":
        frame["target"] = np.digitize(frame["target"], [-0.2, 0.8]).astype(str)
    return Dataset("small", frame, "target", task, ("signal", "holes"), ("town",), sha256="")


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_one_training_gives_what_three_fits_give(task):
    from quality_data import coded, score, splits_of, target_of
    from quality_own import WORDS, fit_words

    data, kind = small(task), kw.TabularRegressor if task == "regression" else kw.TabularClassifier
    frame, target, splits = coded(data), target_of(data), splits_of(data)[:2]
    rows, test = np.concatenate([splits[1].train, splits[1].valid]), splits[1].test
    alone = {}
    for word in WORDS:
        model = kind(word, random_state=splits[1].seed, device="cpu", training=TRAINING)
        model.fit(frame.iloc[rows], target[rows])
        predict = model.predict if task == "regression" else model.predict_proba
        alone[word] = score(task, target[test], predict(frame.iloc[test]))
    assert len({round(found, 3) for found in alone.values()}) == 3, "the three can be told apart"
    # Folds share the units of columns: float32 rounds them differently, and a pair of rows may change places.
    for folds, tolerance in ((splits[1:], 1e-6), (splits, 2e-3)):
        found = {
            (line["model"], line["fold"]): line["score"] for line in fit_words(data, folds, "cpu", training=TRAINING)
        }
        assert len(found) == 3 * len(folds)
        assert {word: found[word, 1] for word in WORDS} == pytest.approx(alone, rel=tolerance)


def test_scores_are_those_of_scikit_learn():
    from quality_data import score

    rng = np.random.default_rng(0)
    target, shares = rng.integers(3, size=200), rng.dirichlet(np.ones(3), size=200)
    wanted = metrics.roc_auc_score(target, shares, multi_class="ovr", average="weighted")
    assert score("classification", target, shares) == pytest.approx(wanted)
    numbers, predicted = rng.normal(size=(2, 200))
    wanted = np.sqrt(1 - metrics.r2_score(numbers, predicted))
    assert score("regression", numbers, predicted) == pytest.approx(wanted)
