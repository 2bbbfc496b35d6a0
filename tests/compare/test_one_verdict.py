"""What is recommended is what is saved, explained and printed, whichever kind of model it is."""

import html
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import knotwork as kw
from knotwork.compare import CompareOptions, compare_table
from knotwork.compare import _budget as budget
from tests.compare.cases import prefer, rescore, shorten
from tests.compare.made import HOSTILE

OPTIONS = CompareOptions(methods=("Std", "BS-Q"), sizes=(6,), folds=3, time_budget=None, effort="single")
ENSEMBLE = replace(OPTIONS, effort="fast")
OTHERS = ["person"]
"""Columns that are no features."""


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch)


def numbers(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.uniform(-2, 2, size=(n, 3)), columns=list("abc")), rng.normal(size=n)


def straight():
    frame, noise = numbers(200)
    return frame.assign(y=3 * frame["a"] - 2 * frame["b"] + frame["c"] + noise)


def curved():
    frame, noise = numbers(300)
    return frame.assign(y=3 * np.sin(3 * frame["a"]) + frame["b"] ** 2 + 0.3 * noise)


def stepped():
    """An interaction of steps: no sum of curves has it."""
    frame, noise = numbers(500)
    return frame.assign(y=5 * np.sign(frame["a"]) * np.sign(frame["b"]) + 0.3 * noise)


def classes():
    frame, noise = numbers(240)
    return frame.assign(y=np.where(3 * frame["a"] - frame["b"] + noise > 0, "yes", "no"))


def content(page):
    """Return what a page of a model has, as JSON."""
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))


def check_model_page(result, frame, report):
    """Check that the page of the model has the errors of the ranking, and the predictions of the model."""
    chosen, other = result.ranking.chosen, result.ranking.other
    assert report.count('href="model.html"') == 2
    assert f"Page of the model: {result.model_page}" in "\n".join(result.summary)
    shown = content(result.model_page)
    errors = {each["name"]: each for each in shown["errors"]}
    assert [name for name, each in errors.items() if each["isModel"]] == ["This model"]
    assert errors["This model"]["error"] == pytest.approx(chosen.mean)
    assert errors["No model"]["error"] == pytest.approx(result.ranking.naive)
    best = min(each["error"] for name, each in errors.items() if name not in ("This model", "No model"))
    assert best == pytest.approx(other.mean)
    low, high = errors["This model"]["low"], errors["This model"]["high"]
    scores = chosen.scored.scores[result.ranking.metric]
    if len(result.compared.target) == len(frame):  # a fold tests a third of the rows, not of those at the end
        half = stats.t.ppf(0.975, len(scores) - 1) * np.sqrt((1 / len(scores) + 0.5) * scores.var(ddof=1))
        assert high == pytest.approx(chosen.mean + half, rel=0.05)
        assert low == pytest.approx(max(chosen.mean - half, 0.0), rel=0.05, abs=0.05)
    places, held = shown["rows"]["place"], np.array(shown["rows"]["held"])
    np.testing.assert_allclose(held.squeeze(), chosen.scored.predictions[places], rtol=1e-8)
    rows = frame.drop(columns=OTHERS, errors="ignore").iloc[result.compared.features.index[places]]
    features = rows.drop(columns="y")
    predict = "predict_proba" if hasattr(result.model, "predict_proba") else "predict"
    expected = getattr(result.model, predict)(features)
    np.testing.assert_allclose(np.reshape(shown["rows"]["predictions"], expected.shape), expected, rtol=1e-6)
    actual = np.ravel(shown["rows"]["actual"])
    labels = rows["y"].to_numpy()
    np.testing.assert_array_equal(np.array(shown["outputs"])[actual.astype(int)] if shown["task"] == "classification"
                                  else np.round(actual - labels, 6), labels if shown["task"] == "classification"
                                  else 0)  # fmt: skip
    assert ["chosen by", f"knotwork compare: {result.ranking.verdict}"] in shown["made"]
    assert shown["load"] == 'kw.load("model.knotwork")'
    assert {each["name"] for each in shown["columns"] if "effect" in each} == {"a", "b", "c"}


def compare(folder, frame, monkeypatch, options=OPTIONS):
    """Compare a table, and check that sentences, figures and the saved file are about one model."""
    frame.to_csv(folder / "t.csv", index=False)
    result = compare_table(folder / "t.csv", "y", out=folder / "out", options=options, device="cpu")
    chosen, page = result.ranking.chosen, result.page.read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", "", page)).replace("\N{NO-BREAK SPACE}", " ")
    table = pd.read_csv(folder / "out" / "ranking.csv")
    assert table.loc[table["recommended"], "encoding"].tolist() == [str(chosen.candidate)]
    printed = "\n".join(result.summary)
    for said in (result.ranking.verdict[1:], result.saved):
        assert printed.count(said) == text.count(said) == 1
    assert f"The saved model is the recommended one, {chosen.name}, trained on all {len(frame)} rows" in result.saved
    check_model_page(result, frame, page)
    features, loaded = frame.drop(columns=["y", *OTHERS], errors="ignore"), kw.load(result.model_path, device="cpu")
    predict = "predict_proba" if hasattr(loaded, "predict_proba") else "predict"
    expected = getattr(result.model, predict)(features)
    np.testing.assert_array_equal(getattr(loaded, predict)(features), expected)
    assert f"{result.seconds:.0f} s" in text
    assert result.summary[-1].startswith(f"Done in {result.seconds:.0f} s")
    return result, loaded


@pytest.mark.parametrize(
    ("make", "kind", "curvature"),
    [(straight, "linear", "linear"), (curved, "additive", None), (classes, "linear", "linear")],
)
def test_additive_models_that_win_are_saved(tmp_path, monkeypatch, make, kind, curvature):
    result, loaded = compare(tmp_path, make(), monkeypatch)
    assert result.ranking.chosen.kind == kind
    assert isinstance(loaded, kw.AdditiveRegressor | kw.AdditiveClassifier)
    assert loaded.curvature == curvature
    assert loaded.target_name_ == "y"


def test_boosting_that_wins_is_saved_as_a_bag_of_the_folds(tmp_path, monkeypatch):
    frame = stepped()
    result, loaded = compare(tmp_path, frame, monkeypatch)
    assert result.ranking.chosen.kind == "boosting"
    assert (loaded.members, loaded.validation, loaded.backbones_) == ("trees", 3, [None] * 3)
    # Its score is that of the ranking, over all rows together.
    errors = result.ranking.chosen.scored.predictions - frame["y"]
    assert loaded.validation_score_ == pytest.approx(np.sqrt(np.mean(errors**2)))


@pytest.mark.parametrize("about", [{"groups": "person"}, {"validation": "time"}])
@pytest.mark.parametrize("kind", ["linear", "ensemble"])
def test_pages_of_other_folds_have_their_predictions(tmp_path, monkeypatch, about, kind):
    prefer(monkeypatch, kind)
    frame = straight()
    if "groups" in about:
        frame["person"] = [f"person {place // 5}" for place in range(len(frame))]
    result, _ = compare(tmp_path, frame, monkeypatch, replace(ENSEMBLE, methods=("Std",), **about))
    assert result.ranking.chosen.kind == kind
    assert (result.compared.n_rows < len(frame)) == ("validation" in about)


@pytest.mark.parametrize("make", [curved, classes])
def test_a_single_network_that_wins_is_saved_with_its_encoding(tmp_path, monkeypatch, make):
    prefer(monkeypatch, "encoding")
    result, loaded = compare(tmp_path, make(), monkeypatch)
    assert loaded.encoding == str(result.ranking.chosen.candidate)
    assert (len(loaded.weights_), loaded.validation) == (3, 3)


def test_an_ensemble_that_wins_is_saved(tmp_path, monkeypatch):
    prefer(monkeypatch, "ensemble")
    result, loaded = compare(tmp_path, stepped(), monkeypatch, ENSEMBLE)
    assert result.ranking.chosen.kind == "ensemble"
    assert (loaded.effort, loaded.encoding) == ("fast", "auto")


def test_an_ensemble_that_loses_is_not_saved(tmp_path, monkeypatch):
    prefer(monkeypatch, "boosting")
    result, loaded = compare(tmp_path, stepped(), monkeypatch, ENSEMBLE)
    assert result.ranking.other.name in result.ranking.verdict
    assert loaded.members == "trees"


def test_ties_end_in_the_simplest_model(tmp_path, monkeypatch):
    rescore(monkeypatch, lambda row, values: np.ones(len(values)))
    result, loaded = compare(tmp_path, straight(), monkeypatch)
    assert result.ranking.chosen.kind == "linear"
    assert "as good as the additive model (splines), and simpler" in result.ranking.verdict
    assert loaded.curvature == "linear"


def test_hostile_names_are_text_on_both_pages(tmp_path):
    frame = straight().set_axis([*HOSTILE[:1], "<b>x</b>", "</script>", "y"], axis=1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = compare_table(tmp_path / "t.csv", "y", out=tmp_path / "out", options=OPTIONS, device="cpu")
    for page in (result.page, result.model_page):
        text = page.read_text(encoding="utf-8")
        assert "<script>window" not in text
        assert "<b>x" not in text
        assert "window.hacked = 1" in text
    assert {each["name"] for each in content(result.model_page)["columns"]} == set(frame.columns[:3])


def test_a_starved_budget_still_has_one_verdict(tmp_path, monkeypatch):
    """Everything is cut short: what is saved is what the ranking says, not the ensemble by default."""
    monkeypatch.setattr(budget, "MEASURED", replace(budget.MEASURED, members=3))
    options = CompareOptions(methods=("Std", "BS-Q"), sizes=(6,), folds=3, time_budget=0.5)
    frame = stepped()
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = compare_table(tmp_path / "t.csv", "y", out=tmp_path / "out", options=options, device="cpu")
    chosen, printed = result.ranking.chosen, "\n".join(result.summary)
    assert printed.count("The saved model is the recommended one") == 1
    assert chosen.name in result.saved
    assert chosen.mean <= 1.01 * min(line.mean for line in result.ranking.lines)
    features = frame.drop(columns="y")
    np.testing.assert_array_equal(kw.load(result.model_path).predict(features), result.model.predict(features))
    assert result.summary[-1] == f"Done in {result.seconds:.0f} s of 0.5 s."
    assert "cut short" in content(result.model_page)["caution"]


def test_a_model_no_better_than_the_mean_is_saved_with_that_sentence(tmp_path, monkeypatch):
    rescore(monkeypatch, lambda row, values: 100.0 * values)
    frame, noise = numbers(120)
    result, _ = compare(tmp_path, frame.assign(y=noise), monkeypatch)
    assert result.ranking.verdict.startswith("trust none of these models: predicting the mean of the target has RMSE")
