"""A fit in three steps: prepare a table, train a stack of networks, combine them into a model.

Estimators, streams and `knotwork.compare` call the same functions.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from numbers import Number
from time import perf_counter, time
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_bool, type_error, warn_user
from knotwork._model_page import FitRecord, PageRows, kept_places
from knotwork._preparation.columns import CodedTable, Columns, ReadTable
from knotwork._preparation.members import PreparedTable
from knotwork._preparation.misleading import misleading_split, unsorted_time
from knotwork._preparation.targets import target_name
from knotwork._preparation.validation import Holdout, group_codes
from knotwork._tables import is_stream
from knotwork._trees import TreeMember, boost
from knotwork.encoders import PER_FEATURE, FeatureChoice
from knotwork.estimators._combination import Combination, combine_members
from knotwork.estimators._model import FittedModel, Held, Task, Weights
from knotwork.estimators._plans import (
    FitPlan,
    Recipe,
    Warm,
    plan_members,
    refit_members,
    share_of_validation,
    warm_members,
)
from knotwork.estimators._settings import ENSEMBLE, FitSettings, check_source, choose_features
from knotwork.training import (
    LOGGER,
    ClassObjective,
    Member,
    Objective,
    ProgressBar,
    Reporter,
    Reporters,
    Trained,
    TrainingConfig,
    TrainingTable,
    connected,
    is_cluster,
    log_epoch,
    train_spread,
)

IMPORTANCE_ROWS = 1000
"""Most validation rows that are kept for `feature_importances_`."""

TOO_FEW_ROWS = 3
"""Tables of at most this many rows are fitted with a warning."""

ENOUGH = 0.5
"""Share of the usual epochs from which on networks are not called cut short, a convention: schedules end in time."""

AT_ONCE = 10.0
"""Seconds between two fits within which Ctrl-C in both means the loop around them, a convention."""

SHORTEST = 1e-3
"""Seconds for training where placing knots used up the time limit: every network still has one epoch."""


@dataclass(frozen=True, eq=False)
class Preparation:
    """A table, and what is trained on it in one fit.

    Parameters
    ----------
    settings : FitSettings
        The parameters of the estimator.
    task : Task
        What is predicted, with the classes of the target.
    columns : Columns
        The columns of the table.
    prepared : PreparedTable
        The table and its folds.
    plan : FitPlan
        The kinds of networks.
    members : list of Member
        Networks of every recipe, random seed and fold, in this order.
    config : TrainingConfig
        Names the metric and the time limit.
    random_state : tuple
        State of the random numbers before the rows of the folds were drawn.
    requested : FitPlan
        The plan that the parameters ask for; `plan` has fewer kinds where networks resume from those of an earlier fit.
    choices : list of FeatureChoice
        For ``search="per-feature"``, what was chosen for each numerical column, and why.
    target_name : str or None
        Name of the target.
    start : Trained, optional
        The networks to resume from.
    """

    settings: FitSettings
    task: Task
    columns: Columns
    prepared: PreparedTable
    plan: FitPlan
    members: list[Member]
    config: TrainingConfig
    random_state: Any
    requested: FitPlan
    choices: list[FeatureChoice]
    target_name: str | None = None
    start: Trained | None = None

    @property
    def table(self) -> TrainingTable:
        """The table as networks take it."""
        return self.prepared.table

    @property
    def seed(self) -> int:
        """The first random seed."""
        return self.prepared.splits[0].seed


@dataclass(frozen=True)
class Monitor:
    """Receivers of the progress of training.

    Parameters
    ----------
    callbacks : sequence of callable
        Functions that are called after every epoch, and may stop training.
    verbose : bool
        Whether a line of the terminal shows it.
    bar : ProgressBar or None
        The line; by default a fit makes its own one.
    """

    callbacks: Sequence[Reporter] | None = None
    verbose: bool = False
    bar: ProgressBar | None = None

    def __post_init__(self) -> None:
        check_bool(self.verbose, "verbose")

    def check(self, device: Any) -> None:
        """Raise an error for callbacks that cannot be called."""
        callbacks = self.callbacks
        if callbacks is None:
            return
        if is_cluster(device):
            hint = "Workers of a cluster send no reports. Or choose another device."
            raise argument_error("callbacks", f"be None if device={device!r}", callbacks, hint)
        if not isinstance(callbacks, Sequence) or not all(callable(each) for each in callbacks):
            hint = "Write callbacks=[function]; each is called with an EpochReport."
            raise type_error("callbacks", "be a sequence of functions", callbacks, hint)

    @cached_property
    def reporters(self) -> Reporters:
        """The callbacks as one."""
        return Reporters(self.callbacks or ())

    def stage(self, text: str) -> None:
        """Show what is done now, if a line of the terminal does."""
        if self.bar is not None:
            self.bar.stage(text)

    @contextmanager
    def reporter(self, *first: Reporter, begin: float = 0.0, end: float = 1.0) -> Iterator[Reporter | None]:
        """Provide one function of callbacks, the log and the terminal; None without receivers.

        The training is the work of the fit from the share `begin` to the share `end`.
        """
        with ExitStack() as stack:
            shown = [each for each in first if each is not self.reporters or self.callbacks]
            if LOGGER.isEnabledFor(logging.DEBUG):
                shown.append(log_epoch)
            if self.bar is not None:
                shown.append(stack.enter_context(self.bar.part(begin, end)))
            yield Reporters(shown) if shown else None


class CtrlC:
    """Ctrl-C in one fit, and in the next: a loop over fits, such as `cross_val_score`, does not see the first one."""

    def __init__(self) -> None:
        self._ended = -math.inf

    def check(self, began: float) -> None:
        """Raise KeyboardInterrupt if the fit that was stopped began at once after another one."""
        before, self._ended = self._ended, -math.inf
        if began - before < AT_ONCE:
            raise KeyboardInterrupt("The fit before this one was stopped as well.")

    def warn(self) -> None:
        """Say that the model is the best so far."""
        self._ended = perf_counter()
        reason = "Training was stopped by Ctrl-C before its end: the model is the best so far"
        warn_user(f"{reason}. In a loop over fits, as in cross_val_score, press Ctrl-C again to stop the loop.")


CTRL_C = CtrlC()


def fit_model(
    settings: FitSettings,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    scratch: Any,
    before: FittedModel | None,
    monitor: Monitor,
    **rows: Any,
) -> FittedModel:
    """Prepare a table, train, combine, and refit if requested.

    Parameters
    ----------
    settings : FitSettings
        The parameters of the estimator.
    X, y, sample_weight, scratch
        As in `TabularRegressor.fit`.
    before : FittedModel or None
        The model of the last fit.
    monitor : Monitor
        Receivers of the progress of training.
    **rows
        ``X_val``, ``y_val`` and ``groups`` of `TabularRegressor.fit`.
    """
    check_source(X, y, settings.device)
    monitor.check(settings.device)
    with ExitStack() as stack:
        if is_cluster(settings.device):
            stack.enter_context(connected())
        began = perf_counter()
        if monitor.verbose:
            monitor = replace(monitor, bar=stack.enter_context(ProgressBar()))
        monitor.stage("reading the table, placing knots")
        if is_stream(X):
            from knotwork.estimators._streams import prepare_stream, scratch_folder  # noqa: PLC0415 - only here

            rows["folder"] = stack.enter_context(scratch_folder(scratch))
            preparation = prepare_stream(settings, X, y, sample_weight, before=before, **rows)
        elif scratch is None:
            preparation = prepare(settings, X, y, sample_weight, before=before, **rows)
        else:
            hint = "Leave it out: nothing is written."
            raise argument_error("scratch", "be None if X is a table in memory", scratch, hint)
        trained = train(preparation, began, monitor)
        was_ctrl_c = trained.stopped and not monitor.reporters.stopped
        if was_ctrl_c:
            CTRL_C.check(began)
        model = combine(preparation, trained)
        caution = ""
        if was_ctrl_c:
            CTRL_C.warn()
        elif not monitor.reporters.stopped:
            caution = _warn_of_time(preparation, trained)
        if settings.validation.refit:
            may_refit = monitor.reporters.stopped or not trained.interrupted
            model = _refit(preparation, model, began, monitor, may_refit=may_refit)
        LOGGER.info(
            "%s: %d networks on %d rows in %.1f s, %s %.5g on validation rows",
            *(settings.task.name, len(model.weights), preparation.table.n_rows, perf_counter() - began),
            *(preparation.config.metric_for(model.trained.objective).name, model.score),
        )
        assert model.record is not None
        return replace(model, record=replace(model.record, seconds=perf_counter() - began, caution=caution))


def prepare(
    settings: FitSettings,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    X_val: Any = None,
    y_val: Any = None,
    groups: Any = None,
    before: FittedModel | None = None,
) -> Preparation:
    """Read a table in memory, divide its rows, and return what is trained; parameters as in `fit_model`.

    X may be a `ReadTable` as well, a table that was read before.
    """
    check_given(settings, X_val, y_val, groups)
    config = settings.columns
    about: dict[str, Any] = {"dates": config.dates, "least_count": config.least_count}
    read = X if isinstance(X, ReadTable) else Columns.learn(X, config.categorical, **about)
    columns, table = read
    validation = None if X_val is None else (columns.read(X_val), y_val)
    task, data, holdout = _training_table(
        settings, table, y, sample_weight, columns.cardinalities, validation=validation
    )
    columns = columns.with_copies(CodedTable(data.numbers, data.codes), data.target)
    columns.warn()
    warn_of_few(task, len(table.numbers))
    holdout = replace(holdout, groups=group_codes(groups, len(table.numbers)))
    _warn_of_division(settings, columns, data, holdout)
    plan = settings.plan(columns, data, n_folds=holdout.n_folds)
    check_smoothness(plan)
    random, state = drawn_from(settings, before)
    counts = {"n_folds": plan.n_folds, "n_seeds": plan.n_seeds}
    splits, seeds = holdout.draw(data.target, task=task.name, random=random, **counts)
    plan, prepared = replace(plan, n_folds=len(splits)), PreparedTable.from_table(data, splits)
    prepared = replace(prepared, missing=settings.columns.missing)
    about = {"seeds": seeds, "state": state, "before": before, "target_name": target_name(y)}
    return with_members(settings, task, columns, prepared, plan, **about)


def _warn_of_division(settings: FitSettings, columns: Columns, data: TrainingTable, holdout: Holdout) -> None:
    """Warn of rows that should not be divided as they are; nothing is divided otherwise."""
    rows, sentence = settings.validation.rows, ""
    if isinstance(rows, str):
        sentence = unsorted_time(columns, data)
    elif holdout.groups is None and not holdout.n_given and isinstance(rows, Number | NoneType):
        sentence = misleading_split(columns, data)
    if sentence:
        warn_user(sentence)


def check_given(settings: FitSettings, X_val: Any, y_val: Any, groups: Any) -> None:
    """Check which arguments of `fit` are given together."""
    if (X_val is None) != (y_val is None):
        raise argument_error("X_val", "be given together with y_val", None if X_val is None else type(X_val))
    if is_stream(X_val):
        hint = "Read the validation rows first, for example with pyarrow.parquet.read_table(path)."
        raise type_error("X_val", "be a table in memory", type(X_val).__name__, hint)
    if X_val is not None and (settings.validation.rows is not None or groups is not None):
        other = "groups" if settings.validation.rows is None else "validation"
        raise argument_error(other, "be None if X_val is given: its rows validate", type(X_val).__name__)


def drawn_from(settings: FitSettings, before: FittedModel | None) -> tuple[np.random.RandomState, Any]:
    """Return what seeds and rows are drawn from, and its state, that of the last fit if networks resume from it."""
    random = settings.random_numbers()
    if settings.warm_start and before is not None and before.warm is not None:
        random = np.random.RandomState()  # the rows that validated before do so again
        random.set_state(before.warm.random_state)
    return random, random.get_state()


def with_members(
    settings: FitSettings,
    task: Task,
    columns: Columns,
    prepared: PreparedTable,
    plan: FitPlan,
    *,
    seeds: npt.NDArray[np.int64],
    state: Any,
    before: FittedModel | None,
    target_name: str | None,
) -> Preparation:
    """Choose encodings if requested, and return the table with the members of a plan."""
    in_memory = replace(prepared, table=replace(prepared.table, chunks=None))
    choices: list[FeatureChoice] = []
    if settings.search == PER_FEATURE:  # training rows decide the encoding of each column
        choices = choose_features(in_memory, columns.numerical_names, settings.encoding)
    if choices:
        plan = plan.with_choices(choices)
    requested, start, warm = plan, None, None
    if settings.warm_start and before is not None:
        warm = _warm_members(before, task, columns, prepared, plan)
    if warm is None:
        members = plan_members(prepared, plan, seeds)
    else:
        assert before is not None
        (plan, members), start = warm, before.trained
    return Preparation(
        settings, task, columns, prepared, plan, members, settings.config, state, requested, choices, target_name, start
    )


def _training_table(
    settings: FitSettings,
    table: CodedTable,
    y: Any,
    sample_weight: Any,
    cardinalities: tuple[int, ...],
    *,
    validation: tuple[CodedTable, Any] | None = None,
) -> tuple[Task, TrainingTable, Holdout]:
    """Return a table with its target and weights, without rows of weight 0, and with given validation rows."""
    if y is None:
        raise argument_error("y", "be given", None, "This estimator requires y to be passed, but the target y is None.")
    task, target = settings.task.learn(y)
    if len(target) != len(table.numbers):
        raise argument_error("y", f"have as many values as X has rows, {len(table.numbers)}", len(target))
    weights = task.row_weights(target, sample_weight)
    kept = np.ones(len(target), dtype=bool) if weights is None else weights > 0
    holdout = Holdout(settings.validation.rows, settings.validation.share, target, kept)
    if weights is not None and not kept.all():
        table, target, weights = table.take(kept), target[kept], weights[kept]
    if validation is not None:
        n_rows, (valid, y_val) = table.n_rows, validation
        table, target, weights = followed_by(table, target, weights, valid, task.read(y_val))
        holdout = replace(holdout, n_given=table.n_rows - n_rows)
    kinds = (task.name, cardinalities, task.n_classes, weights, task.objective)
    return task, TrainingTable(table.numbers, table.codes, target, *kinds), holdout


def followed_by(
    table: CodedTable, target: npt.NDArray[Any], weights: Weights, valid: CodedTable, y_val: npt.NDArray[Any]
) -> tuple[CodedTable, npt.NDArray[Any], Weights]:
    """Return rows with given validation rows after them, whose weight is the mean of the others."""
    if len(y_val) != valid.n_rows:
        raise argument_error("y_val", f"have as many values as X_val has rows, {valid.n_rows}", len(y_val))
    if weights is not None:
        weights = np.append(weights, np.full(len(y_val), weights.mean()))
    return CodedTable.joined([table, valid]), np.concatenate([target, y_val]), weights


def warn_of_few(task: Task, n_rows: int) -> None:
    """Warn of a table from which next to nothing can be learned."""
    if n_rows <= TOO_FEW_ROWS:
        reason = f"the table has {n_rows} {'row' if n_rows == 1 else 'rows'}"
    elif task.n_classes == 1:
        reason = "y has one class, which every prediction will be"
    else:
        return
    warn_user(f"There is next to nothing to learn: {reason}. Check the table.")


def check_smoothness(plan: FitPlan) -> None:
    """Raise an error if curves of no column can be smooth."""
    encodings = {encoding for recipe in plan.recipes for encoding in recipe.encodings}
    if any(recipe.config.is_smooth for recipe in plan.recipes) and not any(each.has_knots for each in encodings):
        hint = "Choose such an encoding, or leave it out."
        raise argument_error("smoothness", "be 0 if no column is encoded by splines or PLE", "larger than 0", hint)


def _warm_members(
    before: FittedModel, task: Task, columns: Columns, prepared: PreparedTable, plan: FitPlan
) -> tuple[FitPlan, list[Member]] | None:
    """Return what resumes from the networks of the last fit; None, with a warning, if the table or plan differs."""
    warm, members = before.warm, None
    networks = before.trained.networks
    is_learned = {piece.network.encoding.missing is not None for piece in networks}
    if (
        warm is not None
        and columns == before.columns
        and task.labels == before.task.labels
        and prepared.indicated == before.indicated
        and _loss_of(before.trained.objective) == _loss_of(prepared.table.goal)
        and is_learned <= {prepared.missing == "learned" and bool(prepared.indicated)}
        and before.trained.pieces[0].shift.shape[1:] == prepared.table.target.shape[1:]
    ):
        members = warm_members(warm, prepared, plan)
    if members is None:
        reason = "columns, classes, objective or what is trained differ from those of the last fit, or it was loaded"
        warn_user(f"warm_start has no effect: {reason}. Networks are trained anew.")
    return members


def _loss_of(objective: Objective) -> Objective:
    """Return an objective without what may change between fits of the same networks."""
    other: dict[str, Any] = (
        dict.fromkeys(("class_weight", "calibrate")) if isinstance(objective, ClassObjective) else {}
    )
    return replace(objective, **other)


def train(preparation: Preparation, began: float, monitor: Monitor | None = None) -> Trained:
    """Train the members in the time that is left since `began`, on the clock of ``time.perf_counter``."""
    plan, monitor = preparation.plan, monitor or Monitor()
    share = share_of_validation(plan.n_folds) if preparation.settings.validation.refit else 1.0
    about: dict[str, Any] = {
        "start": preparation.start,
        "ensemble": plan.search == ENSEMBLE,
        "in_order": plan.in_order,
    }
    if any(isinstance(member, TreeMember) for member in preparation.members):
        monitor.stage("boosted trees")
    with monitor.reporter(monitor.reporters, end=share) as report:
        trained = _train_members(preparation, preparation.members, report, began=began, share=share, **about)
    monitor.stage("weights of the members")
    return trained


def _train_members(
    preparation: Preparation,
    members: Sequence[Member],
    report: Reporter | None,
    *,
    began: float,
    share: float = 1.0,
    start: Trained | None = None,
    **about: Any,
) -> Trained:
    """Train boosted trees, which take seconds and predict alone if networks have too little time, then networks."""
    are_trees = np.array([isinstance(member, TreeMember) for member in members])
    places = [np.flatnonzero(are_trees).tolist(), np.flatnonzero(~are_trees).tolist()]
    trees = [member for member in members if isinstance(member, TreeMember)]
    networks = [members[place] for place in places[1]]
    parts, settings = [], preparation.settings
    if trees:
        limit = _timed(preparation.config, began, share).time_limit
        n_categorical = len(preparation.columns.cardinalities)
        parts.append(boost(preparation.table, trees, n_categorical=n_categorical, seconds=limit or math.inf))
    if networks:
        assert networks[0].backbone is not None
        parts.append(
            train_spread(
                preparation.table,
                networks,
                networks[0].backbone,
                _timed(preparation.config, began, share),
                device=settings.device,
                categories=settings.columns.categories,
                report=report,
                **about,
                start=None if start is None else start.take(places[1]),
            )
        )
    return Trained.joined(parts, [group for group in places if group])


def _warn_of_time(preparation: Preparation, trained: Trained) -> str:
    """Warn if the time limit sufficed for a small part of the epochs of the first networks, or for none of them.

    Return the warning, or an empty text.
    """
    plan, limit = preparation.plan, preparation.config.time_limit
    if limit is None or not plan.usual_epochs:
        return ""
    first = next((place for place, recipe in enumerate(plan.recipes) if not recipe.has_trees), None)
    start = 0 if first is None else first * plan.n_folds * plan.n_seeds
    histories = [] if first is None else trained.histories[start : start + plan.n_folds * plan.n_seeds]
    config = None if first is None else plan.recipes[first].config
    planned, ended = (0, ()) if config is None else (config.max_epochs, config.cycle_ends[:-1])  # by scores, no clock
    epochs = min((history.epochs for history in histories if history.epochs not in ended), default=planned)
    if epochs >= ENOUGH * plan.usual_epochs:
        return ""
    done = f"{epochs} of {plan.usual_epochs} epochs of the networks" if epochs else "boosted trees alone"
    reason = f"time_limit={limit:g} seconds sufficed for {done}"
    caution = f"{reason}. More time, or effort='fast' without a limit, gives a better model."
    warn_user(caution)
    return caution


def _timed(config: TrainingConfig, began: float, share: float = 1.0) -> TrainingConfig:
    """Return a configuration whose time limit is a share of the fit's, less the time already used."""
    if config.time_limit is None:
        return config
    return replace(config, time_limit=max(share * config.time_limit - (perf_counter() - began), SHORTEST))


def combine(preparation: Preparation, trained: Trained) -> FittedModel:
    """Choose the members that predict and their weights, and return the model."""
    plan, table, columns = preparation.plan, preparation.table, preparation.columns
    finished = [history for history in trained.histories if history.best_epoch > 0]
    if not finished or (len(finished) < len(trained.histories) and plan.search == "all"):
        _refuse(preparation, trained)
    combination = combine_members(
        plan, trained, preparation.members, table=table, config=preparation.config, seed=preparation.seed
    )
    recipes = [plan.recipes[place] for place in combination.recipes]
    model = FittedModel(
        task=preparation.task,
        columns=columns,
        indicated=preparation.prepared.indicated,
        trained=combination.trained,
        weights=combination.weights,
        encodings=[dict(zip(columns.numerical_names, map(str, each.encodings), strict=False)) for each in recipes],
        config=preparation.config,
        calibration=preparation.task.calibrate(combination.held),
        candidates=combination.table,
        choices=[asdict(choice) for choice in preparation.choices],
        score=combination.score,
        target_name=preparation.target_name,
        held=_held(preparation, combination),
        warm=_warm(preparation, combination, recipes),
    )
    return replace(model, record=FitRecord(table.n_rows, 0.0, time(), _kept(model, combination, table)))


def _kept(model: FittedModel, combination: Combination, table: TrainingTable) -> PageRows | None:
    """Return some validation rows with predictions of members that were not trained on them; None if there are none."""
    held, boosted, rows, folds = combination.held, combination.boosted, combination.rows, combination.folds
    if held is None or rows is None or folds is None:
        return None
    chosen = kept_places(len(held.target))
    places, n_folds = rows[chosen], int(folds.max()) + 1
    how = f"({n_folds} folds)" if n_folds > 1 else "(held out of the fit)"
    return PageRows(
        CodedTable(table.numbers[places], table.codes[places, : len(model.columns.cardinalities)]),
        held.target[chosen],
        model.central(held.predictions[chosen]),
        f"each predicted by members that were not trained on it {how}",
        folds[chosen],
        None if boosted is None else model.central(boosted.predictions[chosen]),
    )


def _warm(preparation: Preparation, combination: Combination, recipes: list[Recipe]) -> Warm | None:
    """Return what a later fit needs to resume from the networks; None unless each has all its folds."""
    if not combination.has_all_folds(preparation.plan.n_folds):
        return None
    members = [preparation.members[place].without_rows() for place in combination.places]
    return Warm(preparation.requested, recipes, members, preparation.random_state)


def _held(preparation: Preparation, combination: Combination) -> Held:
    """Return validation rows of one fold, and which networks were not trained on them, for importances."""
    n_folds = preparation.plan.n_folds
    folds = np.array(combination.places) % n_folds
    members = np.flatnonzero(folds == folds[0])
    rows = preparation.prepared.splits[folds[0]].valid[:IMPORTANCE_ROWS]
    table, n_categorical = preparation.table, len(preparation.columns.cardinalities)
    return Held(
        CodedTable(table.numbers[rows], table.codes[rows, :n_categorical]),
        table.target[rows],
        combination.trained,
        members.tolist(),
        combination.weights[members] / combination.weights[members].sum(),
    )


def _refit(
    preparation: Preparation, model: FittedModel, began: float, monitor: Monitor, *, may_refit: bool
) -> FittedModel:
    """Train the chosen networks again on all rows; after Ctrl-C those of the validation stay."""
    limit, n_folds, warm = preparation.config.time_limit, preparation.plan.n_folds, model.warm
    time_is_up = limit is not None and perf_counter() - began >= share_of_validation(n_folds) * limit
    if not (may_refit or time_is_up) or warm is None:
        return model
    members = refit_members(preparation.prepared, warm.members, warm.recipes, trained=model.trained)
    monitor.stage("training again on all rows")
    with monitor.reporter(begin=share_of_validation(n_folds)) as report:
        trained = _train_members(preparation, members, report, began=began)
    if trained.interrupted:
        message = "refit was stopped before its end: the networks that were validated predict instead."
        warn_user(f"{message} Give a larger time_limit to refit on all rows.")
        return model
    unknown = [replace(each, score=np.full(each.epochs, np.nan)) for each in trained.histories]
    return replace(
        model,
        trained=replace(trained, histories=unknown),
        weights=model.weights.reshape(-1, n_folds).sum(axis=1),
        encodings=model.encodings[::n_folds],
        warm=None,  # networks of all rows have none left to validate them by
    )


def _refuse(preparation: Preparation, trained: Trained) -> None:
    """Raise an error that explains why there is no model."""
    if any(not history.epochs for history in trained.histories):
        raise KeyboardInterrupt("Training was stopped before the end of its first epoch: there is no model yet.")
    example = "training=TrainingConfig(learning_rate=1e-4)"
    hint = f"The loss became NaN or infinite: try a smaller learning rate, for example {example}."
    raise argument_error("training", "lead to finite scores", preparation.settings.training, hint)
