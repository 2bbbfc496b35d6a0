"""The page of an additive model: its curves, which can be edited, and their score on held-out rows."""

from typing import Any

import numpy as np

from knotwork._checks import argument_error, listed, type_error
from knotwork._explore._page import Explorer, render
from knotwork._explore._prepare import as_shares, as_text, name_of
from knotwork.additive import (
    EDITS_FORMAT,
    AdditiveClassifier,
    AdditiveEffect,
    AdditiveRegressor,
    editable_curves,
)
from knotwork.basis import FloatArray

CURVE_SCRIPTS = ("numerics", "page", "curves")
"""The files of the script; as `TABLE_SCRIPTS`."""

MOST_HELD_OUT = 2_000
"""Held-out rows in a page."""

BAND_POINTS = 61
"""Points at which a page knows the width of the interval of a curve."""


def explore_model(model: Any, X: Any = None, y: Any = None, *, name: str = "model") -> Explorer:
    """Return a page on which the curves of an additive model can be edited.

    Points of a curve can be dragged, and stretches be made flat, straight, rising or falling. The page shows the score
    on held-out rows before and after, and saves the edits as JSON for `with_edits`. Effects of categories and surfaces
    of pairs are only listed.

    Parameters
    ----------
    model : AdditiveRegressor or AdditiveClassifier
        The fitted model.
    X : table of shape (n, d), optional
        Rows that the model was not fitted to; of more than 2,000 the page has a random part. Without them it shows no
        score.
    y : array-like of shape (n,), optional
        Their target.
    name : str, default="model"
        Name of the model in the page.

    Returns
    -------
    Explorer
        The page: a notebook shows it, and `Explorer.save` writes it to a file.

    Examples
    --------
    >>> import numpy as np
    >>> import knotwork as kw
    >>> X = np.random.default_rng(0).uniform(size=(300, 1))
    >>> y = np.sin(9 * X[:, 0])
    >>> page = kw.explore_model(kw.AdditiveRegressor().fit(X[:200], y[:200]), X[200:], y[200:])
    >>> page.finding
    'R² 1.00 on 100 held-out rows; 1 curve can be edited'
    """
    if not isinstance(model, AdditiveRegressor | AdditiveClassifier):
        raise type_error("model", "be an AdditiveRegressor or AdditiveClassifier", type(model).__name__)
    if (X is None) != (y is None):
        raise argument_error("X and y", "be given together", "one of them")
    effects = {effect.name: effect for effect in model.effects()}
    curves = editable_curves(model)
    if not curves:
        raise argument_error("model", "have a curve of a number", listed(model.term_names_))
    outputs = model._output_names()
    page = {
        "table": str(name),
        "format": EDITS_FORMAT,
        "isClass": isinstance(model, AdditiveClassifier),
        "outputs": outputs,
        "curves": [_describe(model, curve, effects[curve.name]) for curve in curves],
        "others": [str(each) for each in effects if each not in {curve.name for curve in curves}],
        "rows": _held_out(model, curves, X, y) if X is not None else None,
        "targetName": str(getattr(y, "name", None) or "prediction"),
    }
    return Explorer(render(page, "curves", CURVE_SCRIPTS), _finding(model, X, y, len(curves)))


def _finding(model: Any, X: Any, y: Any, n_curves: int) -> str:
    editable = f"{n_curves} curve{'s' * (n_curves != 1)} can be edited"
    if X is None:
        return editable
    scores = model.with_edits({"format": EDITS_FORMAT, "curves": []}, X, y).edit_scores_
    metric = {"R2": "R\u00b2", "log loss": "log loss"}[scores.metric]
    return f"{metric} {scores.before:.2f} on {scores.n_rows} held-out rows; {editable}"


def _describe(model: Any, curve: Any, effect: AdditiveEffect) -> dict[str, Any]:
    """Return a curve in the form that ``json.dumps`` takes."""
    low, high = curve.basis.domain
    shares = np.linspace(0.0, 1.0, BAND_POINTS)
    known = ~np.isnan(effect.values)
    margins = (effect.high - effect.effect).reshape(len(effect.values), -1)[known].T
    grid = (1.0 - shares) * low + shares * high
    return name_of(model.columns_, curve.name) | {
        "domain": [low, high],
        "degree": curve.basis.degree,
        "knots": as_text(as_shares(curve.basis.knots, (low, high)), np.float64),
        "knotValues": as_text(curve.basis.knots, np.float64),
        "coefficients": [as_text(each, np.float64) for each in curve.coefficients.T],
        "missing": None if curve.missing is None else curve.missing.tolist(),
        "margins": [np.round(np.interp(grid, effect.values[known], each), 9).tolist() for each in margins],
        "importance": float(model.term_importances_[[term.name for term in model.terms_].index(curve.name)]),
    }


def _held_out(model: Any, curves: list[Any], X: Any, y: Any) -> dict[str, Any]:
    """Return the rows that edits are scored on: values of the curves, sums of all terms, and the target."""
    table = model.columns_.read(X)
    target = np.asarray(y)
    if len(target) != table.n_rows or target.ndim != 1:
        raise argument_error("y", f"have one value for each of the {table.n_rows} rows of X", target.shape)
    sums: FloatArray = np.atleast_2d(
        model.decision_function(X).T if isinstance(model, AdditiveClassifier) else model.predict(X)
    )
    if isinstance(model, AdditiveClassifier):
        codes = np.searchsorted(model.classes_, target).clip(max=len(model.classes_) - 1)
        if not (model.classes_[codes] == target).all():
            raise argument_error("y", f"have classes of the model, {listed(model.classes_.tolist())}", "others")
        target = codes
    rows = np.random.default_rng(0).permutation(table.n_rows)[:MOST_HELD_OUT]
    values = [as_shares(table.numbers[rows, curve.place], curve.basis.domain) for curve in curves]
    return {
        "count": len(rows),
        "target": as_text(target[rows], np.float64),
        "sums": [as_text(each[rows], np.float64) for each in sums],
        "values": [as_text(each, np.float64) for each in values],
    }
