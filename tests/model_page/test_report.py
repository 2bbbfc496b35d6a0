"""What a page has, without a browser: rows, errors, files, and the view of a notebook."""

import json
import re
from dataclasses import replace
from time import perf_counter

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, root_mean_squared_error

import knotwork as kw
from knotwork._model_page import limited, report_text, subject_of
from knotwork._model_page._errors import error_rows
from knotwork._model_page._subject import PageRows
from knotwork._preparation.columns import CodedTable
from tests.model_page.cases import fitted


@pytest.fixture(scope="module")
def numbers():
    return fitted("numbers")


@pytest.fixture(scope="module")
def additive():
    return fitted("numbers", "additive")


def data_of(path):
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), flags=re.DOTALL)
    return json.loads(text)


def test_errors_are_those_of_the_folds(numbers, tmp_path):
    """The model's error is its validation score: every row was held out once."""
    _, _, model = numbers
    data = data_of(model.report(tmp_path / "page.html"))
    by_name = {row["name"]: row for row in data["errors"]}
    assert list(by_name) == ["No model", "Linear model", "LightGBM", "This model"]
    assert by_name["This model"]["error"] == pytest.approx(model.validation_score_, rel=1e-5)
    assert all(row["low"] < row["error"] < row["high"] for row in data["errors"])
    assert data["rows"]["actual"][0] == pytest.approx([model._fitted.record.kept.target[data["rows"]["place"][0]]])


def test_boosted_trees_of_the_model_are_its_reference():
    X, y, _ = fitted("two columns")
    model = kw.TabularRegressor(effort="fast", random_state=0, device="cpu").fit(X, y)
    kept = model._fitted.record.kept
    scores = [each["score"] for each in model.candidates_ if each["method"] is None]
    assert root_mean_squared_error(kept.target, kept.boosted[:, 0]) == pytest.approx(scores[0], rel=1e-6)


def test_references_on_known_numbers():
    """Without columns that matter, no model is the mean of the other folds; a line is found exactly."""
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 1))
    table, folds = CodedTable(x, np.empty((100, 0), dtype=np.int64)), np.arange(100) % 2
    y = 3.0 * x[:, 0] + 1.0
    rows = {row.name: row for row in error_rows(PageRows(table, y, y[:, None], "given", folds), "square", n_classes=0)}
    means = np.where(folds == 0, y[folds == 1].mean(), y[folds == 0].mean())
    assert rows["No model"].error == pytest.approx(root_mean_squared_error(y, means))
    assert rows["Linear model"].error < 1e-3
    assert rows["This model"].error == 0.0
    codes = (x[:, 0] > 0).astype(np.int64)
    shares = np.tile([0.3, 0.7], (100, 1))
    rows = {
        row.name: row for row in error_rows(PageRows(table, codes, shares, "given", folds), "logarithm", n_classes=2)
    }
    assert rows["This model"].error == pytest.approx(log_loss(codes, shares))


def test_leave_one_out_is_that_of_fits_without_the_row(additive):
    """The formula keeps smoothing; a fit without the row chooses it again, which changes predictions a little."""
    X, y, model = additive
    kept = model._record.kept
    for row in (3, 77):
        without = kw.AdditiveRegressor(pairs=1).fit(X.drop(index=row), y.drop(index=row))
        expected = without.predict(X.iloc[[row]])[0]
        own = model.predict(X.iloc[[row]])[0]
        assert kept.predictions[row, 0] == pytest.approx(expected, abs=0.15 * y.std())
        assert abs(kept.predictions[row, 0] - y[row]) >= abs(own - y[row])  # the row pulled the curves towards itself


def test_leave_one_out_of_a_straight_line_is_exact():
    """A curve between two values is a line, of which the formula is exact up to the small penalty."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({"x": np.repeat([0.0, 1.0], 40)})
    y = 5.0 * X["x"] + random.normal(size=80)
    kept = kw.AdditiveRegressor().fit(X, y)._record.kept
    means = (y.groupby(X["x"]).transform("sum") - y) / 39
    np.testing.assert_allclose(kept.predictions[:, 0], means, atol=0.02)


def test_without_rows_no_value_of_a_row_is_in_the_file(numbers, tmp_path):
    _, y, model = numbers
    data = data_of(model.report(tmp_path / "page.html", rows=False))
    assert data["rows"] is None
    assert data["trust"]["worst"] == []
    assert all("points" not in panel for panel in data["trust"]["panels"])
    assert all(column["effect"]["lines"] is None for column in data["columns"])
    text = (tmp_path / "page.html").read_text()
    assert not [value for value in y if f"{value:.9g}" in text]
    assert any("rows=False" in sentence for sentence in data["revealed"])
    with_rows = model.report(tmp_path / "rows.html").read_text()
    assert sum(f"{value:.9g}" in with_rows for value in y) > 100


def test_model_files_have_no_rows(numbers, additive, tmp_path):
    for X, _, model in (numbers, additive):
        model.save(tmp_path / "model.knotwork")
        content = (tmp_path / "model.knotwork").read_bytes()
        assert not any(np.float64(value).tobytes() in content for value in X["slope"][5:25])
        loaded = kw.load(tmp_path / "model.knotwork")
        assert data_of(loaded.report(tmp_path / "page.html"))["rows"] is None


def test_given_rows_are_checked(numbers, tmp_path):
    X, y, model = numbers
    with pytest.raises(ValueError, match=r"y must have as many values as X has rows, 240"):
        model.report(tmp_path / "page.html", X, y[:5])
    with pytest.raises(ValueError, match="X must be given together with y"):
        model.report(tmp_path / "page.html", y=y)
    with pytest.raises(ValueError, match="path must be a file"):
        model.report(tmp_path)
    with pytest.raises(TypeError, match="rows must be True or False"):
        model.report(tmp_path / "page.html", rows="no")
    X, y, model = fitted("classes")
    with pytest.raises(ValueError, match="y must have classes of the fit"):
        model.report(tmp_path / "page.html", X, y.replace("low", "tiny"))


def test_the_page_of_several_targets(tmp_path):
    random = np.random.default_rng(0)
    X, training = random.normal(size=(120, 2)), kw.TrainingConfig(max_epochs=2)
    y = X + random.normal(size=(120, 2))
    model = kw.TabularRegressor("PLE@6", "mlp", training=training, random_state=0, device="cpu").fit(X, y)
    data = data_of(model.report(tmp_path / "page.html"))
    assert data["outputs"] == ["target 1", "target 2"]
    assert data["shown"] == [0, 1]


@pytest.mark.parametrize("objective", ["absolute", "quantile", "poisson"])
def test_other_objectives(tmp_path, objective):
    X, y, _ = fitted("two columns")
    training = kw.TrainingConfig(max_epochs=2)
    model = kw.TabularRegressor("PLE@6", "mlp", objective=objective, training=training, random_state=0, device="cpu")
    data = data_of(model.fit(X, np.abs(y)).report(tmp_path / "page.html"))
    assert np.isfinite([row["error"] for row in data["errors"]]).all()


def test_a_notebook_shows_score_rows_and_importance(numbers, additive):
    for _, _, model in (numbers, additive):
        view = model._repr_html_()
        assert "R²" in view
        assert "240 rows" in view
        assert "wave" in view
        assert view.count("<svg") >= 4
        assert model._repr_mimebundle_()["text/html"].startswith(view.partition("<style>")[0])
    assert "<svg" not in kw.AdditiveRegressor()._repr_html_().split("</style>")[-1].replace("<svg class", "")


def test_short_of_time_is_said(tmp_path):
    X, y, _ = fitted("two columns")
    model = kw.TabularRegressor(effort="best", members="networks", time_limit=0.05, random_state=0, device="cpu")
    with pytest.warns(UserWarning, match="sufficed for"):
        model.fit(X, y)
    data = data_of(model.report(tmp_path / "page.html"))
    assert "sufficed for" in data["caution"]


def test_a_deadline_leaves_out_effects_and_the_curves_that_stand_for_a_large_model(numbers, additive, monkeypatch):
    monkeypatch.setattr("knotwork._model_page._page.MOST_BYTES", 1000)
    for model, n_shown in ((numbers[2], 1), (additive[2], 1)):
        subject = subject_of(model)
        for deadline, has_time in ((-np.inf, False), (np.inf, True)):
            text = report_text(limited(subject, deadline), subject.record.kept)
            data = json.loads(re.search(r'id="data">(.*?)</script>', text).group(1))
            shown = [each for each in data["columns"] if "effect" in each]
            assert len(shown) == (len(data["columns"]) if has_time else n_shown)
            assert ("Time was short: the effects of" in data["caution"]) != has_time
            is_exact = model is additive[2]  # its curves are the model, and cost nothing
            assert (data["tables"] is not None) == (has_time or is_exact)
    asked = []
    stub = replace(subject_of(numbers[2]), tables=lambda table, outputs: asked.append(table.n_rows))
    limited(stub, perf_counter() + 1000.0).tables(stub.record.kept.table, [0])
    assert asked == [stub.record.kept.table.n_rows]
