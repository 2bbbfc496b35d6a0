"""Curves that a person has changed: edits as JSON, and a fitted model that predicts by them.

An edited curve is a curve as any other: its coefficients become those of the edit, and the combinations that are fitted
become the functions themselves. Saving, exports, effects and plots need to know nothing of edits.
"""

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import block_diag
from sklearn.base import is_classifier
from sklearn.metrics import log_loss, r2_score

from knotwork._checks import argument_error, listed, suggestion
from knotwork._preparation.columns import CodedTable
from knotwork._writing import counted
from knotwork.additive._fitting import Solution
from knotwork.additive._terms import Curve, Space, Term, centres_of
from knotwork.basis import BSpline, FloatArray

if TYPE_CHECKING:
    from knotwork.additive._models import AdditiveModel

Model = TypeVar("Model", bound="AdditiveModel")

EDITS_FORMAT = "knotwork edits 1"
"""What the JSON says that it is, with the version of its keys."""

EDIT_METRICS = ("R2", "log loss")
"""The scores of numbers and of classes."""

EDITS_KEYS = ("format", "curves")
CURVE_KEYS = ("column", "class", "knots", "coefficients", "points", "missing")


@dataclass(frozen=True)
class EditScores:
    """The score of a model before and after edits, on rows that it was not fitted to.

    Parameters
    ----------
    metric : str
        ``"R2"``, of which more is better, or for classes ``"log loss"``, of which less is better.
    before, after : float
        The scores of the model without and with the edits.
    n_rows : int
        Number of rows.
    """

    metric: str
    before: float
    after: float
    n_rows: int

    def __str__(self) -> str:
        return (
            f"{self.metric} {self.before:.4f} before, {self.after:.4f} after the edits, on {counted(self.n_rows)} rows"
        )


@dataclass(frozen=True, eq=False)
class CurveEdit:
    """What is changed in the curve of one column, for one fit; what is None remains."""

    name: Any
    fit: int
    basis: BSpline
    coefficients: FloatArray | None
    missing: float | None


def with_edits(model: Model, edits: Any, X: Any, y: Any) -> Model:
    """Return a copy of a fitted model with edited curves and its scores; see `AdditiveModel.with_edits`."""
    if (X is None) != (y is None):
        raise argument_error("X and y", "be given together", "one of them")
    edited = _with_curves(model, edits)
    edited.edit_scores_ = None
    if X is not None:
        before, after = (_score(each, X, y) for each in (model, edited))
        edited.edit_scores_ = EditScores(EDIT_METRICS[is_classifier(model)], before, after, len(y))
    return edited


def _score(model: Any, X: Any, y: Any) -> float:
    if is_classifier(model):
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
    return float(r2_score(y, model.predict(X)))


def _with_curves(model: Model, edits: Any) -> Model:
    by_name: dict[Any, list[CurveEdit]] = {}
    for edit in _read(model, edits):
        by_name.setdefault(edit.name, []).append(edit)
    terms, pieces = list(model.terms_), _pieces(model)
    betas = [[solution.beta[piece] for piece in pieces] for solution in model.solutions_]
    maps: list[FloatArray] = [np.eye(len(beta)) for beta in betas[0]]
    for place, term in enumerate(model.terms_, start=1):
        if term.name in by_name:
            assert isinstance(term, Curve)
            before = np.stack([beta[place] for beta in betas], axis=1)
            terms[place - 1], maps[place], coefficients = _edited(term, before, by_name[term.name])
            for fit, beta in enumerate(betas):
                beta[place] = coefficients[:, fit]
    changed = copy(model)
    changed.terms_ = terms
    changed.solutions_ = [
        _moved(solution, np.concatenate(beta), maps) for solution, beta in zip(model.solutions_, betas, strict=True)
    ]
    return changed


def _pieces(model: "AdditiveModel") -> list[slice]:
    """Return where the intercept and the coefficients of each term are."""
    ends = np.cumsum([0, 1, *(term.width for term in model.terms_)]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _moved(solution: Solution, beta: FloatArray, maps: Sequence[FloatArray]) -> Solution:
    """Return a fit with other coefficients; intervals keep their widths and move with their curves."""
    across = block_diag(*maps)
    return replace(solution, beta=beta, covariance=across @ solution.covariance @ across.T)


def _edited(term: Curve, beta: FloatArray, edits: Sequence[CurveEdit]) -> tuple[Term, FloatArray, FloatArray]:
    """Return the edited curve, the map from its former coefficients, and its new ones, of shape (width, n_fits)."""
    basis = edits[0].basis
    across = term.space.transform if basis is term.basis else _in_basis(term, basis)
    coefficients = across @ beta
    for edit in edits:
        if edit.coefficients is not None:
            coefficients[1:, edit.fit] = edit.coefficients
        if edit.missing is not None:
            coefficients[0, edit.fit] = edit.missing
    first = 0 if term.has_missing or any(edit.missing is not None for edit in edits) else 1
    space = Space(np.eye(basis.size + 1)[:, first:], ())
    return replace(term, space=space, basis=basis), across[first:], coefficients[first:]


def _in_basis(term: Curve, basis: BSpline) -> FloatArray:
    """Return the map from the coefficients of a curve to those of other splines that interpolate it.

    They equal the curve if their knots contain its own.
    """
    shares, (low, high) = centres_of(basis), basis.domain
    x = (1.0 - shares) * low + shares * high
    table = CodedTable(np.repeat(x[:, None], term.place + 1, axis=1), np.empty((len(x), 0), dtype=np.int64))
    plain = replace(term, space=Space(np.eye(basis.size + 1)[:, 1:], ()), basis=basis)
    splines, curve = (each.combine(each.encode(table)) for each in (plain, term))
    return np.concatenate([term.space.transform[:1], np.linalg.solve(splines, curve)])


def _read(model: "AdditiveModel", edits: Any) -> list[CurveEdit]:
    """Return edits after a check of all their entries."""
    content = _content(edits)
    _check_keys(content, "edits", EDITS_KEYS)
    if content.get("format") != EDITS_FORMAT:
        raise argument_error("edits['format']", f"be {EDITS_FORMAT!r}", content.get("format"))
    curves = content.get("curves")
    if not isinstance(curves, list):
        raise argument_error("edits['curves']", "be a list of edits of curves", curves)
    out = [_read_curve(model, entry, f"curves[{place}]") for place, entry in enumerate(curves)]
    pairs = [(edit.name, edit.fit) for edit in out]
    for pair in pairs:
        if pairs.count(pair) > 1:
            raise argument_error("edits", "have one edit for each curve", pair[0])
    for edit in out:
        others = [other.basis.knots.tolist() for other in out if other.name == edit.name]
        if others.count(edit.basis.knots.tolist()) < len(others):
            raise argument_error("edits", "have the same knots for all classes of a column", edit.name)
    return out


def _content(edits: Any) -> Any:
    if not isinstance(edits, str | PathLike):
        return edits
    path = Path(edits)
    if not path.is_file():
        hint = "Pass the file that the page saved, or its content as a dict."
        raise argument_error("edits", "be a file that exists, or a mapping", str(edits), hint)
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise argument_error("edits", "be a file of JSON", str(path), f"It is damaged: {error}.") from error


def _check_keys(entry: Any, name: str, known: Sequence[str]) -> None:
    if not isinstance(entry, Mapping):
        raise argument_error(name, f"be a mapping with the keys {listed(known)}", entry)
    for key in entry:
        if key not in known:
            raise argument_error(name, f"have no keys but {listed(known)}", key, suggestion(key, known))


def _read_curve(model: "AdditiveModel", entry: Any, name: str) -> CurveEdit:
    """Return the edit of one curve."""
    _check_keys(entry, name, CURVE_KEYS)
    curves = {term.name: term for term in model.terms_ if isinstance(term, Curve)}
    column = entry.get("column")
    if not isinstance(column, str | int) or column not in curves:
        hint = suggestion(column, list(curves)) or "Only the curves of numbers can be edited."
        raise argument_error(f"{name}['column']", f"name a curve of the model, {listed(list(curves))}", column, hint)
    given = {key for key in CURVE_KEYS[2:] if entry.get(key) is not None}
    if not given or {"coefficients", "points"} <= given or ("knots" in given and "coefficients" not in given):
        raise argument_error(name, "have 'coefficients', also with 'knots', or 'points', or 'missing'", listed(entry))
    basis, missing = curves[column].basis, entry.get("missing")
    if "knots" in given:
        basis = _refined(basis, entry["knots"], f"{name}['knots']")
    coefficients = None
    if "coefficients" in given:
        coefficients = _numbers(entry["coefficients"], f"{name}['coefficients']", (basis.size,))
    if "points" in given:  # the coefficients of straight lines between points are the values there
        x, coefficients = _points(model, entry["points"], f"{name}['points']").T
        basis = BSpline(x[1:-1], degree=1, domain=(float(x[0]), float(x[-1])))
    if missing is not None:
        missing = float(_numbers(missing, f"{name}['missing']", ()))
    return CurveEdit(column, _fit_of(model, entry.get("class"), name), basis, coefficients, missing)


def _refined(basis: BSpline, values: Any, name: str) -> BSpline:
    """Return the splines with further knots."""
    knots, (low, high) = _numbers(values, name, (None,)), basis.domain
    if not np.isin(basis.knots, knots).all() or not (np.diff([low, *knots, high]) > 0.0).all():
        raise argument_error(name, f"increase from {low} to {high} and contain the knots of the curve", values)
    return BSpline(knots, degree=basis.degree, domain=basis.domain)


def _numbers(values: Any, name: str, shape: tuple[int | None, ...]) -> FloatArray:
    """Return finite numbers of a shape, in which None stands for any length."""
    words = " x ".join("n" if size is None else str(size) for size in shape)
    requirement = f"be {words} finite numbers" if shape else "be a finite number"
    leaves = np.ravel(np.array(values, dtype=object)).tolist()
    if any(isinstance(each, bool) or not isinstance(each, Real) for each in leaves):
        raise argument_error(name, requirement, values)
    array = np.array(values, dtype=np.float64)
    fits = array.ndim == len(shape) and all(b in (None, a) for a, b in zip(array.shape, shape, strict=True))
    if not fits or not np.isfinite(array).all():
        raise argument_error(name, requirement, array.shape if shape and not fits else values)
    return array


def _points(model: "AdditiveModel", values: Any, name: str) -> FloatArray:
    """Return the points of a curve of straight lines, of shape (n, 2)."""
    points = _numbers(values, name, (None, 2))
    if len(points) < 2 or not (np.diff(points[:, 0]) > 0.0).all():
        raise argument_error(name, "be at least two pairs [value, effect] with increasing values", values)
    if len(model.solutions_) > 1:
        hint = "The curves of all classes share their knots: give coefficients."
        raise argument_error(name, "be left out in a model of more than two classes", len(points), hint)
    return points


def _fit_of(model: "AdditiveModel", label: Any, name: str) -> int:
    """Return the place of the fit of a class; a model of one fit has no classes to name."""
    names = model._output_names()
    if len(model.solutions_) == 1:
        if label is not None:
            raise argument_error(f"{name}['class']", "be left out: the model has one curve for each column", label)
        return 0
    if label not in names:
        raise argument_error(f"{name}['class']", f"be a class, one of {listed(names)}", label, suggestion(label, names))
    return names.index(label)


class EditableCurve(NamedTuple):
    """A curve of a fitted model as edits see it.

    Parameters
    ----------
    name : object
        The column.
    place : int
        Its place in `CodedTable.numbers`.
    basis : BSpline
        Its splines.
    coefficients : ndarray of shape (size, n_fits)
        Those of the splines, for each fit.
    missing : ndarray of shape (n_fits,) or None
        The effect of missing values, if the training rows had any.
    """

    name: Any
    place: int
    basis: BSpline
    coefficients: FloatArray
    missing: FloatArray | None


def editable_curves(model: "AdditiveModel") -> list[EditableCurve]:
    """Return the curves of a fitted model that can be edited."""
    out = []
    for term, piece in zip(model.terms_, _pieces(model)[1:], strict=True):
        if isinstance(term, Curve):
            beta = np.stack([solution.beta[piece] for solution in model.solutions_], axis=1)
            missing, *coefficients = term.space.transform @ beta
            has_missing = missing if term.has_missing else None
            out.append(EditableCurve(term.name, term.place, term.basis, np.array(coefficients), has_missing))
    return out
