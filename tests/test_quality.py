"""Our models in the comparison are the estimators, and pages say what the results say."""

from functools import partial
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
def test_our_models_are_the_estimators(task, monkeypatch):
    import quality
    from quality_data import coded, score, splits_of, target_of

    data, name = small(task), "TabularRegressor" if task == "regression" else "TabularClassifier"
    short = partial(getattr(kw, name), training=TRAINING)
    monkeypatch.setattr(kw, name, short)
    splits = splits_of(data)[:2]
    lines = list(quality.fit_ours("validated", data, splits, "cpu"))
    assert [line["fold"] for line in lines] == [0, 1]
    rows, test = np.concatenate([splits[1].train, splits[1].valid]), splits[1].test
    model = short("validated", random_state=splits[1].seed, device="cpu")
    model.fit(coded(data).iloc[rows], target_of(data)[rows])
    predict = model.predict if task == "regression" else model.predict_proba
    assert lines[1]["score"] == score(task, target_of(data)[test], predict(coded(data).iloc[test]))


def test_scores_are_those_of_scikit_learn():
    from quality_data import score

    rng = np.random.default_rng(0)
    target, shares = rng.integers(3, size=200), rng.dirichlet(np.ones(3), size=200)
    wanted = metrics.roc_auc_score(target, shares, multi_class="ovr", average="weighted")
    assert score("classification", target, shares) == pytest.approx(wanted)
    numbers, predicted = rng.normal(size=(2, 200))
    wanted = np.sqrt(1 - metrics.r2_score(numbers, predicted))
    assert score("regression", numbers, predicted) == pytest.approx(wanted)


def test_results_are_complete():
    from quality_data import TABLES
    from quality_table import MODELS, OURS, read

    for name, tables, models in (("results", 12, MODELS), ("others", 13, OURS)):
        frame = read(RESULTS / f"{name}.jsonl")
        assert not frame.duplicated(["table", "model", "fold"]).any()
        assert len(frame) == tables * len(models) * 5
        assert frame["table"].nunique() == tables
        assert (set(frame["table"]) == set(TABLES)) == (name == "results")
        assert set(frame["model"]) == set(models)
        assert frame["device"].notna().all()


def test_pages_say_what_the_results_say():
    from quality_table import page, read, score_table, words

    frame = read(RESULTS / "results.jsonl")
    said = words(frame, read(RESULTS / "results.jsonl", RESULTS / "others.jsonl"))
    wanted = {
        "benchmarks/README.md": [*page(RESULTS).split("\n\n"), *said.values()],
        "README.md": [score_table(frame), said["boosting"], said["default"]],
        "docs/choosing.md": [said["validated"], said["ensemble"], said["both"]],
    }
    for name, parts in wanted.items():
        text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
        for part in parts:
            assert " ".join(part.split()) in text, f"{name}: see python benchmarks/quality.py --table"


def test_ratios_are_what_they_should_be():
    from quality_table import ratio

    errors = {"a": (0.5, 1.0), "b": (0.2, 0.8), "c": (0.6, 0.6)}
    lines = [
        {"task": "regression", "table": table, "model": model, "error": error}
        for table, own in errors.items()
        for model, error in zip(("ensemble", "validated"), own, strict=True)
    ]
    found = ratio(pd.DataFrame(lines), "ensemble", "validated")
    assert found.changes.round(9).tolist() == [-50.0, -75.0, 0.0]
    assert (found.mean, found.median, found.wins) == (pytest.approx(-50.0), pytest.approx(-50.0), 2)
    half = (
        4.302652730 * np.log(2) / np.sqrt(3)
    )  # t with two degrees of freedom; logarithms are -2, -1 and 0 times log 2
    assert found.mean_interval == pytest.approx([100 * (0.5 * np.exp(sign * half) - 1) for sign in (-1, 1)])
