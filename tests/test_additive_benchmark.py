"""The comparison of additive models: fits in their own process, paired folds, and pages that agree with the results."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

ROOT = Path(__file__).parents[1]


@pytest.fixture
def additive(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import additive

    return additive


def line(table, model, fold, score, seconds):
    return {"table": table, "task": "regression", "model": model, "fold": fold, "score": score, "cpu_seconds": seconds,
            "load": 1.0, "version": "1"}  # fmt: skip


def test_models_are_compared_on_the_folds_of_both(additive, tmp_path):
    lines = [line("abalone", "additive", fold, 0.5, 1.0) for fold in (0, 1)]
    lines += [line("abalone", "ebm", 0, 1.0, 10.0), line("california", "additive", 0, 0.9, 1.0)]
    lines += [{**line("california", "ebm", 0, None, None), "failed": "over 400 CPU seconds"}]
    for each in lines:
        additive.append(tmp_path, each)
    frame = additive.read(tmp_path)
    assert additive.wide(frame, "error", ("additive", "ebm")).to_dict("index") == {
        "abalone": {"additive": 0.5, "ebm": 1.0}
    }
    assert "| 1 | 1.00 / 2.00 | 1 : 0 | 0.500 | 1.000 | 10 |" in additive.summary(frame)
    assert "over the limit" in additive.scores(frame)


def test_p_values_are_those_of_the_report_over_tables(additive, tmp_path):
    errors = {"ebm": 1.0 + np.arange(1, 9) / 100, "pygam": np.array([0.9, 1.2, 0.8, 1.4, 0.7, 1.1, 0.95, 1.3])}
    for place, table in enumerate(additive.TABLES[:8]):
        additive.append(tmp_path, line(table, "additive", 0, 1.0, 1.0))
        for model, values in errors.items():
            additive.append(tmp_path, line(table, model, 0, values[place], 2.0))
    frame = additive.read(tmp_path)
    expected = [wilcoxon(np.log(values)).pvalue for values in errors.values()]
    assert expected[0] == 2 * 0.5**8
    assert expected[1] > 0.05
    rows = additive.summary(frame).splitlines()[2:]
    assert [row.split(" | ")[6] for row in rows] == [f"{2 * expected[0]:.3f}", f"{expected[1]:.3f}"]
    assert "8 tables that all of them have: knotwork" in additive.together(frame)
    dots = [each.get_xdata() for each in additive.picture(frame).axes[0].lines if each.get_marker() == "o"]
    np.testing.assert_allclose(np.sort(dots[0]), np.sort(1.0 / errors["ebm"]))


def test_pages_agree_with_the_results(additive):
    frame = additive.read(additive.RESULTS)
    for name, is_brief in additive.SECTIONS.items():
        section = (ROOT / name).read_text(encoding="utf-8").split(additive.BEGIN)[1].split(additive.END)[0]
        assert section.strip() == additive.page(frame, is_brief=is_brief), "run python benchmarks/additive.py --write"


def test_the_model_has_the_sizes_that_were_chosen(additive):
    import additive_sizes

    chosen = additive_sizes.VARIANTS[additive_sizes.CHOSEN]
    assert chosen["size"] == additive.kw.AdditiveRegressor().size
    constants = vars(additive_sizes.MODULE)
    assert {name: constants[name] for name in chosen if name != "size"} == {
        k: v for k, v in chosen.items() if k != "size"
    }


@pytest.mark.parametrize("is_regression", [True, False])
def test_our_models_are_fitted(additive, is_regression):
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": random.normal(size=100), "c": pd.Categorical(random.choice(["a", "b"], 100))})
    y = X["x"].to_numpy() if is_regression else (X["x"] > 0).astype(int).to_numpy()
    predicted = additive.MODELS["additive"][1](X, y, is_regression=is_regression)(X)
    assert predicted.shape == ((100,) if is_regression else (100, 2))
    score = additive.score("regression" if is_regression else "classification", y, predicted)
    assert score < 0.05 if is_regression else score > 0.99
