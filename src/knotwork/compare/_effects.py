"""Features of a model: distribution, knots, and partial dependence."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork.compare._source import Source
from knotwork.encoders._transformers import SplineEncoder
from knotwork.estimators._estimators import TabularClassifier
from knotwork.knots import PLACEMENTS
from knotwork.knots._placements import placement_traits
from knotwork.training._members import to_usual_range

__all__ = ["MODEL_KNOTS", "Effect", "feature_effects"]

Floats = npt.NDArray[np.float64]

MODEL_KNOTS = "this model"

ROWS_SHOWN, ROWS_PLACED, ROWS_AVERAGED = 20_000, 5_000, 150
"""Rows of histograms, rows for placing knots, and rows over which a partial dependence is averaged."""

N_GRID, N_BINS = 33, 32
MOST_CATEGORIES, MOST_CLASSES = 12, 4
TAIL = 0.005
"""Share of the values at each end that figures omit, because a single outlier would compress the others."""


@dataclass(frozen=True, eq=False)
class Effect:
    """One feature of a model.

    `importance` is the increase of the loss when the column is shuffled. `values` are numbers, or categories with the
    most frequent first, and `curves` the mean prediction at each, or the mean probability of each class shown.
    `counts` are rows per bin or category, `edges` those of the bins, None for categories. `knots` has those of each
    placement and of the model, `missing` the share of missing values.
    """

    name: str
    importance: float
    values: npt.NDArray[Any]
    curves: Mapping[str, Floats]
    counts: npt.NDArray[np.int64]
    edges: Floats | None
    knots: Mapping[str, Floats]
    missing: float


def feature_effects(
    model: Any, source: Source, *, size: int, most: int = 12, deadline: float | None = None
) -> Iterator[Effect]:
    """Yield the most important features of a fitted estimator, the most important first, at most `most` of them.

    Knots of placements are for `size` columns per feature. After `deadline`, on the clock of ``time.perf_counter``, no
    feature but the first is computed.
    """
    shown = source.draw(ROWS_SHOWN, seed=1)
    averaged = shown.draw(ROWS_AVERAGED, seed=2).features
    importances = model.feature_importances_
    read = model.columns_.read(shown.features)
    roles, spans = model.columns_.roles, model.columns_.spans
    known = [place for place, role in enumerate(roles) if role in ("numerical", "categorical")]
    ordered = [place for place in np.argsort(-importances, kind="stable").tolist() if place in known]
    for n_done, place in enumerate(ordered[:most]):
        if n_done and deadline is not None and time.perf_counter() > deadline:
            return
        name, importance = model.columns_.names[place], float(importances[place])
        if roles[place] == "numerical":
            column = read.numbers[:, spans[place][1].start]
            yield _number_effect(model, name, importance, column, averaged=averaged, shown=shown, size=size)
        else:
            yield _category_effect(model, name, importance, averaged, shown)


def _number_effect(
    model: Any, name: str, importance: float, column: Floats, *, averaged: pd.DataFrame, shown: Source, size: int
) -> Effect:
    known = ~np.isnan(column)
    present = column[known]
    if len(present) == 0:
        present = np.zeros(1)
    low, high = np.quantile(present, [TAIL, 1 - TAIL])
    if low == high:
        low, high = float(present.min()), float(present.max())
    distinct = np.unique(present)
    inside = distinct[(distinct >= low) & (distinct <= high)]
    grid = inside if len(inside) <= N_GRID else np.linspace(low, high, N_GRID)
    counts, edges = np.histogram(present, bins=N_BINS, range=(low, high) if low < high else None)
    knots = _placed(column[known][:ROWS_PLACED], shown.target[known][:ROWS_PLACED], shown.task, size)
    of_networks = [network[name] for network in model.knots_ if len(network[name])]  # waves have none
    if of_networks:
        knots[MODEL_KNOTS] = of_networks[0]
    curves = _dependence(model, averaged, name, grid)
    rows = counts.astype(np.int64)
    return Effect(name, importance, grid, curves, rows, edges, knots, 1 - float(known.mean()))


def _placed(column: Floats, target: npt.NDArray[Any], task: str, size: int) -> dict[str, Floats]:
    """Return the knots of each placement, as a model would place them; none for a constant column."""
    if len(column) == 0:
        return {}
    column = to_usual_range(column)
    if column.min() == column.max():
        return {}
    encoder = SplineEncoder(size=max(size, 5), task=task)
    return {
        placement_traits(name).label: encoder.set_params(placement=name).fit(column[:, None], target).knots_[0]
        for name in PLACEMENTS
    }


def _category_effect(model: Any, name: str, importance: float, averaged: pd.DataFrame, shown: Source) -> Effect:
    column = shown.features[name]
    frequent = column.value_counts().head(MOST_CATEGORIES)
    values = np.array(frequent.index.tolist(), dtype=object)
    curves = _dependence(model, averaged, name, values)
    counts = np.array(frequent.tolist(), dtype=np.int64)
    return Effect(name, importance, values, curves, counts, None, {}, float(column.isna().mean()))


def _dependence(model: Any, rows: pd.DataFrame, name: str, values: npt.NDArray[Any]) -> dict[str, Floats]:
    """Return the mean prediction over rows with a feature set to each value."""
    repeated = pd.concat([rows] * len(values), ignore_index=True)
    repeated[name] = np.repeat(values, len(rows))
    if not isinstance(model, TabularClassifier):
        return {"": model.predict(repeated).reshape(len(values), -1).mean(axis=1)}
    shares = model.predict_proba(repeated).reshape(len(values), len(rows), -1).mean(axis=1)
    labels = [str(label) for label in model.classes_.tolist()]
    if len(labels) == 2:
        return {labels[1]: shares[:, 1]}
    largest = np.sort(np.argsort(-shares.mean(axis=0))[:MOST_CLASSES])
    return {labels[place]: shares[:, place] for place in largest.tolist()}
