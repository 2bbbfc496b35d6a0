"""New rows for a fitted model: what drifted, and training that goes on with what the model has learned."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2_contingency, ks_2samp

from knotwork._checks import argument_error, listed, warn_user
from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.members import N_FLAGS, PreparedTable, add_indicators
from knotwork._preparation.targets import target_name
from knotwork._preparation.validation import Holdout
from knotwork._trees import ForestPiece, TreeMember
from knotwork.estimators._combination import SMALLEST_PROBABILITY, ValidationRows
from knotwork.estimators._model import FittedModel
from knotwork.estimators._plans import Warm, plan_members, warm_members
from knotwork.estimators._settings import FitSettings
from knotwork.estimators._steps import Monitor, Preparation, combine, train
from knotwork.training import LOGGER, Member, Trained, TrainingTable

Floats = npt.NDArray[np.float64]

FEWEST_NEW = 30
"""New rows that an update has at least: some of them validate."""


@dataclass(frozen=True)
class DriftRule:
    """When a column has drifted; conventions.

    Parameters
    ----------
    significance : float
        Probability that no drift looks like one, of all columns together.
    distance : float
        Least distance of two distributions, from 0 to 1, that is called drift.
    outside : float
        Share of new rows outside of the former range from which on knots are placed again.
    """

    significance: float = 0.01
    distance: float = 0.1
    outside: float = 0.05


DRIFT = DriftRule()


class Drift(NamedTuple):
    """How a column differs in new rows.

    Parameters
    ----------
    column : object
        The column, or the target.
    distance : float
        The largest difference of the distribution functions, or half the sum of differences of shares of categories.
    shift : float
        Difference of the means in former standard deviations; NaN for categories.
    outside : float
        Share of the new rows outside of the former range, or of a category that is new.
    missing : float
        Share of new rows without a value, less that of former ones.
    drifted : bool
        Whether the distance is too large for chance.
    """

    column: Any
    distance: float
    shift: float
    outside: float
    missing: float
    drifted: bool


@dataclass(frozen=True, eq=False)
class Update:
    """A model after new rows, and what they showed.

    Parameters
    ----------
    model : FittedModel
        The model; the former one if training did not improve it on new rows.
    drift : list of Drift
        One for each column that the model uses, then the target.
    sentence : str
        What drifted, and the score before and after.
    """

    model: FittedModel
    drift: list[Drift]
    sentence: str


def update_model(
    settings: FitSettings, model: FittedModel, X: Any, y: Any, sample_weight: Any, *, monitor: Monitor
) -> Update:
    """Return a model that has learned from new rows as well; see `TabularRegressor.update`."""
    began = perf_counter()
    if model.warm is None or model.held is None:
        hint = "Fit it again on all rows: a file has no rows to compare new ones with, and a refit no folds."
        raise argument_error("model", "have been fitted in this process, without refit", "loaded or refitted", hint)
    data = _new_rows(model, X, y, sample_weight)
    drift = list(_drifts(model, data))
    before = _score(model, data)
    preparation = _preparation(settings, model, data, name=target_name(y), is_moved=_is_moved(drift[:-1]))
    trained = train(preparation, began, monitor)
    new = replace(combine(preparation, trained), choices=model.choices)
    metric = model.config.metric_for(model.trained.objective)
    is_better = new.score <= before if metric.lower_is_better else new.score >= before
    moved = [each.column for each in drift[:-1] if each.drifted]
    what = f"{listed(moved, most=5)} drifted" if moved else "No column drifted"
    goal = "and the target drifted" if drift[-1].drifted else "and the target did not"
    result = f"{metric.label} on new rows: {before:.4g} before, {new.score:.4g} after"
    kept = "" if is_better else "; the model stays as it was"
    sentence = f"{what}, {goal}. {result}{kept}."
    LOGGER.info(sentence)
    if moved or drift[-1].drifted:
        warn_user(f"{sentence} drift_ has each column.")
    return Update(new if is_better else model, drift, sentence)


def _new_rows(model: FittedModel, X: Any, y: Any, sample_weight: Any) -> TrainingTable:
    """Return new rows as the model's columns and classes read them."""
    table, target = model.columns.read(X), model.task.read(y)
    if len(target) != table.n_rows:
        raise argument_error("y", f"have as many values as X has rows, {table.n_rows}", len(target))
    if len(target) < FEWEST_NEW:
        raise argument_error("X", f"have at least {FEWEST_NEW} new rows", len(target), "Collect more rows first.")
    weights = model.task.row_weights(target, sample_weight)
    if weights is not None and not (weights > 0).all():
        kept = weights > 0
        table, target, weights = table.take(kept), target[kept], weights[kept]
    codes = add_indicators(table.numbers, table.codes, model.indicated)
    cardinalities = (*model.columns.cardinalities, *[N_FLAGS] * len(model.indicated))
    task = model.task
    return TrainingTable(
        table.numbers, codes, target, task.name, cardinalities, task.n_classes, weights, task.objective
    )


def _preparation(
    settings: FitSettings, model: FittedModel, data: TrainingTable, *, name: str | None, is_moved: bool
) -> Preparation:
    """Return what is trained: the members that predict, from where they stopped, or with new knots where data moved."""
    assert model.warm is not None
    warm: Warm = model.warm
    holdout = Holdout(None, settings.validation.share, data.target, np.ones(data.n_rows, dtype=bool))
    random = settings.random_numbers()
    state = random.get_state()
    counts = {"n_folds": warm.plan.n_folds, "n_seeds": len(warm.members) // warm.plan.n_folds}
    splits, seeds = holdout.draw(data.target, task=model.task.name, random=random, **counts)
    prepared = PreparedTable(data, tuple(splits), model.indicated, settings.columns.missing)
    resumed = warm_members(warm, prepared, warm.plan)
    assert resumed is not None
    plan, members = resumed
    start: Trained | None = model.trained
    if is_moved:
        members, start = plan_members(prepared, plan, seeds[: plan.n_seeds]), None
    members = _continued(members, model.trained)
    columns, config = model.columns, settings.config
    return Preparation(
        settings, model.task, columns, prepared, plan, members, config, state, warm.plan, [], name, start
    )


def _continued(members: list[Member], trained: Trained) -> list[Member]:
    """Return members of which boosted trees begin with those of the model; symmetric ones are grown anew."""
    before = {
        place: (forest, piece.shift[index : index + 1], piece.scale[index : index + 1])
        for piece in trained.pieces
        if isinstance(piece, ForestPiece)
        for index, (place, forest) in enumerate(zip(piece.places, piece.forests, strict=True))
    }
    return [
        replace(member, before=before[place])
        if isinstance(member, TreeMember) and not member.kind.symmetric
        else member
        for place, member in enumerate(members)
    ]


def _score(model: FittedModel, data: TrainingTable) -> float:
    """Return the metric of a model's predictions of new rows."""
    n_categorical = len(model.columns.cardinalities)
    mean = model.task.mean(model.outputs(CodedTable(data.numbers, data.codes[:, :n_categorical])), model.weights)
    if model.task.name == "classification":
        mean = np.log(np.maximum(mean, SMALLEST_PROBABILITY))
    rows = ValidationRows.from_predictions(
        mean[None], data.target, data.weights, trained=model.trained, config=model.config
    )
    return rows.score_of(np.ones(1))


def _is_moved(drift: list[Drift]) -> bool:
    """Return whether knots and scaling of numbers no longer suit the rows."""
    return any(each.drifted and each.outside > DRIFT.outside and not np.isnan(each.shift) for each in drift)


def _drifts(model: FittedModel, data: TrainingTable) -> Iterator[Drift]:
    """Yield how each column differs from the rows that validated the model, then how the target does."""
    held = model.held
    assert held is not None
    columns: Columns = model.columns
    n_tests = len(columns.seen) + 1
    new = CodedTable(data.numbers, data.codes[:, : len(columns.cardinalities)])
    for place in columns.seen:
        span = columns.spans[place]
        former, later = (table.values(span)[:, 0] for table in (held.table, new))
        compare = _of_codes if span.field == "codes" else _of_numbers
        yield compare(columns.labels[place], former, later, n_tests)
    name = model.target_name or "target"
    if model.task.name == "classification":
        yield _of_codes(name, held.target + 1, data.target + 1, n_tests)
    else:
        first, second = (np.asarray(each).reshape(len(each), -1)[:, 0] for each in (held.target, data.target))
        yield _of_numbers(name, first, second, n_tests)


def _of_numbers(name: Any, former: Floats, later: Floats, n_tests: int) -> Drift:
    first, second = former[~np.isnan(former)], later[~np.isnan(later)]
    missing = float(np.isnan(later).mean() - np.isnan(former).mean())
    if not len(first) or not len(second):
        return Drift(name, 0.0, 0.0, float(len(second) > 0), missing, bool(abs(missing) > DRIFT.distance))
    test = ks_2samp(first, second, method="asymp")
    spread = float(first.std()) or 1.0
    outside = float(((second < first.min()) | (second > first.max())).mean())
    drifted = test.pvalue < DRIFT.significance / n_tests and test.statistic > DRIFT.distance
    shift = float((second.mean() - first.mean()) / spread)
    return Drift(name, float(test.statistic), shift, outside, missing, bool(drifted or abs(missing) > DRIFT.distance))


def _of_codes(name: Any, former: npt.NDArray[Any], later: npt.NDArray[Any], n_tests: int) -> Drift:
    """Compare codes, of which 0 is a missing or new category."""
    n_codes = int(max(former.max(), later.max())) + 1
    counts = np.stack([np.bincount(each, minlength=n_codes) for each in (former, later)])
    shares = counts / counts.sum(axis=1, keepdims=True)
    distance = 0.5 * float(np.abs(np.diff(shares, axis=0)).sum())
    used = counts[:, counts.sum(axis=0) > 0]
    chance = 1.0 if used.shape[1] < 2 else float(chi2_contingency(used).pvalue)
    drifted = chance < DRIFT.significance / n_tests and distance > DRIFT.distance
    new = float(shares[1, 0] - shares[0, 0])
    return Drift(name, distance, np.nan, new, new, bool(drifted))
