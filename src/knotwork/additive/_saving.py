"""Saving a fitted additive model to one file, and loading it: arrays and JSON, no code.

Every value of a file is checked before it is used, because the compiled loops of the sums do not check bounds.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

import knotwork
from knotwork._checks import argument_error, check_choice, check_installed, check_int, listed, type_error
from knotwork._model_files import damaged, open_model_file, write_model_file
from knotwork._preparation.columns import Columns
from knotwork._preparation.targets import Labels
from knotwork.additive._fitting import Solution
from knotwork.additive._models import LEVELS, AdditiveClassifier, AdditiveModel, AdditiveRegressor
from knotwork.additive._terms import Category, Curve, Space, Surface, Term
from knotwork.basis import BSpline, FloatArray
from knotwork.errors import PersistenceError

__all__ = ["SAVED_CLASSES", "load", "save"]

SAVED_CLASSES: dict[str, type[AdditiveModel]] = {
    kind.__name__: kind for kind in (AdditiveRegressor, AdditiveClassifier)
}
"""The models that files have, by name."""

ENTRIES = ("schema", "version", "class", "parameters", "columns", "labels", "terms", "scales", "units", "smoothing")
LARGEST_TRANSFORM = 10_000_000
"""Entries of the transform of a surface at most: it is computed from those of its sides."""

SCALARS = (bool, int, float, str)
HINT = "pickle saves the model without it."


def save(model: AdditiveModel, path: str | Path) -> None:
    """Write a fitted model to one file in the safetensors format; see `AdditiveModel.save`."""
    check_installed("save", "torch", "safetensors", hint=HINT)
    from safetensors.numpy import save as to_bytes  # noqa: PLC0415 - an installation without extras has none

    arrays: dict[str, npt.NDArray[Any]] = {"importances": model.term_importances_}
    terms = [_write_term(term, f"term{place}", arrays) for place, term in enumerate(model.terms_)]
    for place, solution in enumerate(model.solutions_):
        for name in ("beta", "covariance", "degrees"):
            arrays[f"fit{place}.{name}"] = getattr(solution, name)
    if isinstance(model, AdditiveRegressor):
        arrays["residuals"] = model.residuals_
    content = {
        "version": knotwork.__version__,
        "class": type(model).__name__,
        "parameters": {name: _write(value, name) for name, value in model.get_params(deep=False).items()},
        "columns": model.columns_.to_json(),
        "labels": model.labels_.to_json() if isinstance(model, AdditiveClassifier) else None,
        "terms": terms,
        "scales": [float(solution.scale) for solution in model.solutions_],
        "units": [float(solution.unit) for solution in model.solutions_],
        "smoothing": [[each.tolist() for each in solution.smoothing] for solution in model.solutions_],
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    n_bytes = sum(array.nbytes for array in arrays.values())
    write_model_file(path, content, partial(to_bytes, arrays), n_bytes=n_bytes)


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
    check_installed("load", "torch", "safetensors", hint=HINT)
    with open_model_file(path, "numpy") as (content, file):
        try:
            return _model(content, _Arrays(file))
        except (ValueError, TypeError, OverflowError, KeyError, MemoryError) as error:
            if isinstance(error, PersistenceError):
                raise
            raise damaged(path, error) from error


def _write(value: Any, name: str) -> Any:
    """Return a parameter in types of JSON: a mapping is a list of pairs, because keys in JSON can only be text."""
    if isinstance(value, Mapping):
        return {"pairs": [[_write(key, name), _write(item, name)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [_write(item, name) for item in value]}
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and type(value) not in SCALARS:
        raise PersistenceError(f"{name}={value!r} cannot be saved. Set it to a plain value, then save again.")
    return value


def _read(content: Any, name: str) -> Any:
    """Return a parameter that `_write` wrote."""
    if not isinstance(content, dict):
        if content is not None and type(content) not in SCALARS:
            raise type_error(name, "be a plain value", type(content).__name__)
        return content
    ((kind, items),) = content.items()
    check_choice(kind, name, ("pairs", "tuple", "list"))
    values = [_read(item, name) for item in _list(items, name)] if kind != "pairs" else []
    if kind == "pairs":
        return {_read(key, name): _read(item, name) for key, item in _list(items, name)}
    return tuple(values) if kind == "tuple" else values


def _list(content: Any, name: str) -> list[Any]:
    if not isinstance(content, list):
        raise type_error(name, "be a list", type(content).__name__)
    return content


def _write_term(term: Term, prefix: str, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Return a term without its arrays, which are added to `arrays`."""
    if isinstance(term, Surface):
        sides = [_write_term(side, f"{prefix}.side{place}", arrays) for place, side in enumerate(term.sides)]
        return {"kind": "surface", "sides": sides}
    assert isinstance(term, Curve | Category)
    arrays[f"{prefix}.transform"] = term.space.transform
    content = {"name": _write(term.name, "name"), "place": term.place}
    if isinstance(term, Category):
        arrays[f"{prefix}.groups"] = term.groups
        return {"kind": "category", **content}
    arrays[f"{prefix}.knots"] = term.basis.knots
    return {"kind": "curve", **content, "degree": term.basis.degree, "domain": [*term.basis.domain]}


@final
@dataclass(frozen=True, eq=False)
class _Arrays:
    """The arrays of an open file of safetensors, whose package has no types."""

    file: Any

    def read(self, name: str, shape: tuple[int | None, ...], dtype: str = "F64") -> npt.NDArray[Any]:
        """Return an array of a shape, of which None may be any length, and of a type, finite."""
        if name not in self.file.keys():  # noqa: SIM118 - the file is no mapping
            raise argument_error("tensors", f"include {name!r}", "others")
        header = self.file.get_slice(name)
        given = tuple(header.get_shape())
        if header.get_dtype() != dtype:
            raise argument_error(name, f"be of type {dtype}", header.get_dtype())
        if len(given) != len(shape) or any(n not in (None, length) for n, length in zip(shape, given, strict=True)):
            raise argument_error(name, f"be of shape {shape}", given)
        array: npt.NDArray[Any] = self.file.get_tensor(name)
        if not np.isfinite(array).all():
            raise argument_error(name, "be finite", given)
        return array


def _model(content: dict[str, Any], arrays: _Arrays) -> AdditiveModel:
    if set(content) != set(ENTRIES):
        raise argument_error("content", f"have the entries {listed(ENTRIES)}", listed(content))
    kind = SAVED_CLASSES[check_choice(content["class"], "class", SAVED_CLASSES)]
    known = kind._get_param_names()
    if not isinstance(content["parameters"], dict) or set(content["parameters"]) != set(known):
        raise argument_error("parameters", f"be {listed(known)}", listed(content["parameters"]))
    model = kind(**{name: _read(content["parameters"][name], name) for name in known})
    model.columns_ = Columns.from_json(content["columns"])
    model._set_names()
    n_fits = 1
    if isinstance(model, AdditiveClassifier):
        model.labels_ = Labels.from_json(content["labels"])
        n_fits = model.labels_.n_classes if model.labels_.n_classes > 2 else 1
    elif isinstance(model, AdditiveRegressor):
        model.residuals_ = arrays.read("residuals", LEVELS.shape)
    model.terms_ = [
        _term(term, f"term{place}", arrays, model.columns_)
        for place, term in enumerate(_list(content["terms"], "terms"))
    ]
    model.term_importances_ = arrays.read("importances", (len(model.terms_),))
    for name in ("scales", "units", "smoothing"):
        if len(_list(content[name], name)) != n_fits:
            raise argument_error(name, f"be {n_fits}, one for each fit", len(content[name]))
    model.solutions_ = [_solution(content, place, arrays, model.terms_) for place in range(n_fits)]
    return model


def _solution(content: dict[str, Any], place: int, arrays: _Arrays, terms: list[Term]) -> Solution:
    size = 1 + sum(term.width for term in terms)
    smoothing = [
        np.array([_number(each, "smoothing") for each in _list(strengths, "smoothing")])
        for strengths in _list(content["smoothing"][place], "smoothing")
    ]
    return Solution(
        arrays.read(f"fit{place}.beta", (size,)),
        arrays.read(f"fit{place}.covariance", (size, size)),
        arrays.read(f"fit{place}.degrees", (len(terms),)),
        smoothing,
        _number(content["scales"][place], "scales"),
        _number(content["units"][place], "units"),
    )


def _number(value: Any, name: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0.0:
        raise type_error(name, "be a number of at least 0", value)
    return float(value)


def _term(content: Any, prefix: str, arrays: _Arrays, columns: Columns) -> Term:
    if not isinstance(content, dict):
        raise type_error("terms", "be dicts", type(content).__name__)
    kind = check_choice(content.get("kind"), "kind", (*TERMS, "surface"))
    if kind != "surface":
        return TERMS[kind](content, prefix, arrays, columns)
    first, second = (
        _term(side, f"{prefix}.side{place}", arrays, columns)
        for place, side in enumerate(_list(content["sides"], "sides"))
    )
    if isinstance(first, Surface) or isinstance(second, Surface):
        raise argument_error("sides", "be curves or categories", kind)
    if first.space.transform.size * second.space.transform.size > LARGEST_TRANSFORM:
        raise argument_error("sides", "be of moderate size", first.space.transform.shape)
    return Surface.from_sides(first, second)


def _name(content: dict[str, Any], known: list[Any]) -> tuple[Any, int]:
    """Return name and place of a column, which must agree with the columns of the table."""
    place = check_int(content["place"], "place", minimum=0)
    name = _read(content["name"], "name")
    if place >= len(known) or known[place] != name:
        raise argument_error("name", "be that of a column", name)
    return name, place


def _transform(prefix: str, arrays: _Arrays, n_functions: int) -> Space:
    # Penalties are needed in a fit only.
    transform: FloatArray = arrays.read(f"{prefix}.transform", (n_functions, None))
    return Space(transform, ())


def _curve(content: dict[str, Any], prefix: str, arrays: _Arrays, columns: Columns) -> Term:
    name, place = _name(content, columns.numerical_names)
    degree = check_int(content["degree"], "degree", minimum=1)
    if degree > 3:
        raise argument_error("degree", "be at most 3", degree)
    basis = BSpline(arrays.read(f"{prefix}.knots", (None,)), degree=degree, domain=content["domain"])
    return Curve(name, _transform(prefix, arrays, basis.size + 1), place, basis)


def _category(content: dict[str, Any], prefix: str, arrays: _Arrays, columns: Columns) -> Term:
    name, place = _name(content, list(columns.categorical))
    groups = arrays.read(f"{prefix}.groups", (columns.cardinalities[place],), "I32")
    space = _transform(prefix, arrays, int(groups.max(initial=-1)) + 1)
    if groups.min(initial=0) < -1:
        raise argument_error("groups", "be at least -1", int(groups.min()))
    return Category(name, space, place, groups)


TERMS: dict[str, Callable[[dict[str, Any], str, _Arrays, Columns], Term]] = {"curve": _curve, "category": _category}
"""How the terms of one column are read."""
