"""Saving a fitted additive model to one file, and loading it: arrays and JSON, no code.

Every value of a file is checked before it is used, because the compiled loops of the sums do not check bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from knotwork._checks import argument_error, check_choice, check_int
from knotwork._model_files import (
    Reader,
    Writer,
    check_entries,
    check_shape,
    open_model_file,
    write_model_file,
)
from knotwork._preparation.columns import Columns
from knotwork._preparation.learning import SAVED_COLUMNS, TableColumn
from knotwork._preparation.targets import Labels
from knotwork.additive._fitting import Solution
from knotwork.additive._models import LEVELS, AdditiveClassifier, AdditiveModel, AdditiveRegressor
from knotwork.additive._terms import Category, Curve, Space, Surface, Term
from knotwork.basis import BSpline, FloatArray

SAVED_CLASSES: dict[str, type[AdditiveModel]] = {
    kind.__name__: kind for kind in (AdditiveRegressor, AdditiveClassifier)
}
"""The models that files have, by name."""


@final
@dataclass(frozen=True, eq=False)
class SavedTerms:
    """What a fit has learned, in a file."""

    columns: tuple[TableColumn, ...]
    target_name: str | None
    labels: Labels | None
    terms: tuple[Term, ...]
    solutions: tuple[Solution, ...]
    importances: FloatArray
    residuals: FloatArray | None


TERM_TYPES = SAVED_COLUMNS | {
    kind.__name__: kind for kind in (SavedTerms, Labels, Solution, Space, BSpline, Curve, Category, Surface)
}
"""The values of which files consist, by name."""

LARGEST_TRANSFORM = 10_000_000
"""Entries of the transform of a surface at most: it is computed from those of its sides."""


def save(model: AdditiveModel, path: str | Path) -> None:
    """Write a fitted model to one file in the safetensors format; see `AdditiveModel.save`."""
    writer = Writer(TERM_TYPES)
    fitted = SavedTerms(
        tuple(model.columns_),
        model.target_name_,
        model.labels_ if isinstance(model, AdditiveClassifier) else None,
        tuple(map(_without_penalties, model.terms_)),
        tuple(model.solutions_),
        model.term_importances_,
        model.residuals_ if isinstance(model, AdditiveRegressor) else None,
    )
    content = {
        "class": type(model).__name__,
        "parameters": {name: writer.write(value, name) for name, value in model.get_params(deep=False).items()},
        "model": writer.write(fitted),
    }
    write_model_file(path, content, writer.arrays)


def _without_penalties(term: Term) -> Term:
    """Return what predictions need of a term; the transform of a surface follows from its sides."""
    if isinstance(term, Surface):
        first, second = map(_without_penalties, term.sides)
        return replace(term, space=Space(np.empty((0, 0)), ()), sides=(first, second))
    return replace(term, space=Space(term.space.transform, ()))


def load(path: str | Path) -> Any:
    """Return the additive model that `save` wrote; `knotwork.load` returns it too, but needs torch.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    AdditiveRegressor or AdditiveClassifier
        The fitted model.

    Raises
    ------
    PersistenceError
        If the file was not written by knotwork, is damaged, or was written by another version; a ValueError.
    FileNotFoundError
        If the file does not exist.
    """
    with open_model_file(path) as file:
        content, reader = file.content, Reader(TERM_TYPES, file)
        kind = SAVED_CLASSES[check_choice(content["class"], "class", SAVED_CLASSES)]
        check_entries(content["parameters"], "parameters", kind._get_param_names())
        model = kind(**{name: reader.read(each, Any, name) for name, each in content["parameters"].items()})
        _set_fitted(model, reader.read(content["model"], SavedTerms))
        file.check_arrays()
    return model


def _set_fitted(model: AdditiveModel, saved: SavedTerms) -> None:
    """Give a model what its fit has learned, after a check that all parts suit each other."""
    model.columns_, labels, residuals = Columns(saved.columns), saved.labels, saved.residuals
    model._set_names()
    model.target_name_ = saved.target_name
    model.terms_ = [_checked(term, model.columns_) for term in saved.terms]
    model.solutions_, model.term_importances_ = list(saved.solutions), saved.importances
    n_fits = 1 if labels is None or labels.n_classes <= 2 else labels.n_classes
    if len(saved.solutions) != n_fits:
        raise argument_error("solutions", f"be {n_fits}, one for each fit", len(saved.solutions))
    if isinstance(model, AdditiveClassifier) and labels is not None:
        model.labels_ = labels
    elif isinstance(model, AdditiveRegressor) and residuals is not None and labels is None:
        model.residuals_ = residuals
        check_shape("residuals", residuals.shape, LEVELS.shape)
    else:
        raise argument_error("labels", "be those of the class", type(model).__name__)
    n_terms, size = len(model.terms_), 1 + sum(term.width for term in model.terms_)
    check_shape("importances", saved.importances.shape, (n_terms,))
    for solution in saved.solutions:
        for name, shape in {"beta": (size,), "covariance": (size, size), "degrees": (n_terms,)}.items():
            check_shape(name, getattr(solution, name).shape, shape)
        if min(solution.scale, solution.unit, *(each.min(initial=0.0) for each in solution.smoothing)) < 0.0:
            raise argument_error("scale, unit and smoothing", "be at least 0", (solution.scale, solution.unit))


def _checked(term: Term, columns: Columns) -> Term:
    """Return a term whose functions are in bounds, a surface with its transform."""
    if isinstance(term, Surface):
        if any(isinstance(side, Surface) for side in term.sides):
            raise argument_error("sides", "be curves or categories", term.label)
        first, second = (_checked(side, columns) for side in term.sides)
        if first.space.transform.size * second.space.transform.size > LARGEST_TRANSFORM:
            raise argument_error("sides", "be of moderate size", first.space.transform.shape)
        return Surface.from_sides(first, second)
    assert isinstance(term, Curve | Category)
    names: Sequence[Any] = columns.numerical_names if isinstance(term, Curve) else list(columns.categorical)
    if check_int(term.place, "place", minimum=0) >= len(names) or names[term.place] != term.name:
        raise argument_error("name", "be that of a column", term.name)
    if isinstance(term, Curve):
        n_functions = term.basis.size + 1
        if not 1 <= term.basis.degree <= 3:
            raise argument_error("degree", "be from 1 to 3", term.basis.degree)
    else:
        n_functions = int(term.groups.max(initial=-1)) + 1
        check_shape("groups", term.groups.shape, (columns.cardinalities[term.place],))
        if term.groups.min(initial=0) < -1:
            raise argument_error("groups", "be at least -1", int(term.groups.min()))
    check_shape("transform", term.space.transform.shape, (n_functions, None))
    return term
