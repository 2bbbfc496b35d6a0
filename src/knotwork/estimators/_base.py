"""What the two estimators share: prepare a table, train a stack of networks, combine them into predictions."""

import inspect
import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error, warn_user
from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.members import MISSING, PreparedTable
from knotwork._preparation.targets import target_name
from knotwork._preparation.validation import Holdout, check_validation, group_codes
from knotwork._tables import is_stream
from knotwork.encoders._choice import FeatureChoice
from knotwork.encoders._methods import PER_FEATURE
from knotwork.encoders._pairs import place_pairs
from knotwork.estimators._combination import Combination, HeldOut, combine
from knotwork.estimators._fitted import FittedModel, Held, restored_on_error
from knotwork.estimators._parameters import check_source, hinted, nested_parameters, with_nested
from knotwork.estimators._plans import (
    EFFORTS,
    Plan,
    Recipe,
    Warm,
    choose_features,
    plan_choice,
    plan_effort,
    plan_members,
    refit_members,
    share_of_validation,
    warm_members,
)
from knotwork.nn._backbones import Backbone, make_backbone
from knotwork.nn._interactions import InteractionConfig
from knotwork.training._config import TrainingConfig
from knotwork.training._members import Member, TrainingTable
from knotwork.training._network import CATEGORIES
from knotwork.training._objective import Objective
from knotwork.training._progress import LOGGER, ProgressBar, Reporter, Reporters, log_epoch, shown_stage
from knotwork.training._results import Trained
from knotwork.training._spread import check_engine, connected, device_type, train_spread

__all__ = ["Preparation", "TabularEstimator"]

MOST_HELD = 1000
"""Most validation rows that are kept for `feature_importances_`."""

FEW_ROWS = 3
"""Tables of at most so many rows are fitted with a warning."""

SHORTEST = 1e-3
"""Seconds for training where placing knots used up the time limit: every network still has one epoch."""


@dataclass(frozen=True, eq=False)
class Preparation:
    """A table, and what is trained on it in one fit.

    Parameters
    ----------
    columns : Columns
        The columns of the table.
    prepared : PreparedTable
        The table and its folds.
    plan : Plan
        The kinds of networks.
    members : list of Member
        Networks of every recipe, random seed and fold, in this order.
    config : TrainingConfig
        Names the metric and the time limit.
    random_state : tuple
        State of the random numbers before the rows of the folds were drawn.
    asked : Plan
        The plan as the parameters say; `plan` has fewer kinds where networks go on from those of an earlier fit.
    choices : list of FeatureChoice
        For ``encoding="per-feature"``, what was chosen for each numerical column, and why.
    start : Trained, optional
        The networks that they go on from.
    """

    columns: Columns
    prepared: PreparedTable
    plan: Plan
    members: list[Member]
    config: TrainingConfig
    random_state: Any
    asked: Plan
    choices: list[FeatureChoice]
    start: Trained | None = None

    @property
    def table(self) -> TrainingTable:
        """The table as networks take it."""
        return self.prepared.table

    @property
    def seed(self) -> int:
        """The first random seed."""
        return self.prepared.splits[0].seed


class TabularEstimator(FittedModel):
    """A network on encoded columns, with scikit-learn's interface; see `TabularRegressor`."""

    columns_: Columns
    trained_: Trained
    encoding_: list[dict[Any, str]]
    weights_: npt.NDArray[np.float64]
    candidates_: list[dict[str, Any]]
    encoding_choices_: list[dict[str, Any]]
    validation_score_: float
    target_name_: str | None

    def __init__(  # noqa: PLR0913 - scikit-learn wants every parameter here
        self,
        encoding: str | Mapping[Any, str] = "auto",
        backbone: str | Backbone = "auto",
        *,
        effort: str = "balanced",
        time_limit: float | None = None,
        size: int | None = None,
        n_members: int | None = None,
        interactions: Any = None,
        missing: str = "zeros",
        categories: str = "embedding",
        categorical: Any = None,
        dates: str = "features",
        validation_share: float = 0.1,
        validation: Any = None,
        refit: bool = False,
        callbacks: Sequence[Reporter] | None = None,
        warm_start: bool = False,
        training: TrainingConfig | None = None,
        device: Any = "auto",
        engine: str = "local",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.encoding = encoding
        self.backbone = backbone
        self.effort = effort
        self.time_limit = time_limit
        self.size = size
        self.n_members = n_members
        self.interactions = interactions
        self.missing = missing
        self.categories = categories
        self.categorical = categorical
        self.dates = dates
        self.validation_share = validation_share
        self.validation = validation
        self.refit = refit
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.training = training
        self.device = device
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    def __init_subclass__(cls) -> None:
        """Let unknown arguments of the constructor raise an error that names the right one."""
        super().__init_subclass__()
        cls.__init__ = hinted(cls.__init__)  # type: ignore[method-assign]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of `training` and `backbone` are included, as in ``training__learning_rate``; where these are
            not set, as the values that they would have if one of them were.
        """
        parameters: dict[str, Any] = super().get_params(deep=False)
        return {**parameters, **nested_parameters(parameters, self._task)} if deep else parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of `training` and `backbone` as in ``training__learning_rate=0.01``.

        A parameter of `training` or `backbone` that is not set replaces one of its defaults; what is trained is then no
        longer decided by `effort`.

        Parameters
        ----------
        **params
            The parameters.
        """
        super().set_params(**with_nested(super().get_params(deep=False), params, self._task))
        return self

    @abstractmethod
    def _read_target(self, y: Any) -> npt.NDArray[Any]:
        """Check a target, keep what predictions need, and return numbers or class codes."""

    @abstractmethod
    def _read_validation_target(self, y: Any) -> npt.NDArray[Any]:
        """Check the target of validation rows, and return it as `_read_target` does."""

    @abstractmethod
    def _objective(self) -> Objective:
        """Return what networks are trained for, as the parameters say."""

    @abstractmethod
    def _calibrate(self, held: HeldOut | None) -> None:
        """Learn from predictions of rows that networks were not trained on; None: there are no such rows."""

    @abstractmethod
    def _row_weights(self, target: npt.NDArray[Any], sample_weight: Any) -> npt.NDArray[np.float64] | None:
        """Return the weights of the rows, or None."""

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups: Any = None,
        scratch: Any = None,
    ) -> Self:
        """Train on a table, in memory or larger than memory.

        Parameters
        ----------
        X : table of shape (n, d)
            NumPy array, or pandas, polars or pyarrow table: numbers, booleans, dates, text and categories. Values may
            be missing. Numbers and dates written as text are parsed; columns that are unusual are named in a
            `ColumnWarning`, and `columns_.notices` has all that was inferred. A table larger than memory is a
            ``pyarrow.parquet.ParquetFile``, a ``pyarrow.dataset.Dataset``, or any iterable of tables that starts from
            the beginning each time, see Notes.
        y : array-like of shape (n,)
            The target; of a regressor several targets may have the shape (n, n_targets). In a table that is read in
            batches, the name of its column, or a list of names.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative. Rows of weight 0 are dropped. In a table that is read in batches, the
            name of its column.
        X_val, y_val : table of shape (n_val, d), array-like of shape (n_val,), optional
            Validation rows and their target; networks are then trained on all rows of `X`.
        groups : array-like of shape (n,), optional
            Group of each row, such as a person or a day: rows of one group never train and validate the same network.
        scratch : str or Path, optional
            Folder for the rows of a table that is read in batches, in compact form; by default that of the system for
            temporary files. They are removed after the fit.

        Returns
        -------
        self
            The fitted estimator; after Ctrl-C, with the best weights so far.

        Notes
        -----
        Networks agree with those of another machine, BLAS or order of the rows only up to differences that training
        makes of rounding errors; on one machine `random_state` gives the same ones.

        Ctrl-C stops training at the end of a step. It has no effect where it is ignored, as in a process that a shell
        has started in the background (``nohup python fit.py &``, cron): `time_limit` and `callbacks` stop it there.

        Batches are read twice. The first time, rows with the smallest hashes of their numbers are kept: validation rows
        (`validation_share`, at most 100,000), and a random sample of up to 200,000 others, by which columns are learned
        and knots are placed that depend on the target. The second time, columns are summarised, by which other knots
        are placed (`knotwork.knots.QuantileSketch` states the error), and rows are written to `scratch`, as float32 in
        the units of their columns, which is what networks see. Each row goes to one of the chunks, of up to 4 million
        rows, at random. Networks take the chunks, and the rows of each chunk, in another random order in every pass;
        two chunks are in memory, at most 512 MiB. After each chunk the validation rows are scored: in `history_` and
        for `TrainingConfig.patience` a chunk is an epoch, while `max_epochs` counts passes over all rows.
        """
        self._settings()  # before a cluster is started
        given = {"X_val": X_val, "y_val": y_val, "groups": groups}
        check_source(X, y, self.engine)
        with ExitStack() as stack:
            stack.enter_context(restored_on_error(self))
            if self.engine == "ray":
                stack.enter_context(connected())
            began = perf_counter()
            with shown_stage("reading the table, placing knots") if self.verbose is True else nullcontext():
                prepared = stack.enter_context(self._prepared(X, y, sample_weight, scratch=scratch, **given))
            return self._fit(prepared, began)

    def _prepared(
        self, X: Any, y: Any, sample_weight: Any, *, scratch: Any, **given: Any
    ) -> AbstractContextManager["Preparation"]:
        """Prepare a table, or one that is read in batches, whose rows are in files until the fit ends."""
        if is_stream(X):
            from knotwork.estimators._streams import prepared_stream  # noqa: PLC0415 - only streams need it

            return prepared_stream(self, X, y, sample_weight, scratch=scratch, **given)
        if scratch is not None:
            hint = "Leave it out: nothing is written."
            raise argument_error("scratch", "be None if X is a table in memory", scratch, hint)
        return nullcontext(self._prepare(X, y, sample_weight, **given))

    def _fit(self, prepared: "Preparation", began: float) -> Self:
        """Train what was prepared, and choose the members that predict."""
        reporters = Reporters(self.callbacks) if self.callbacks else None
        trained = self._train(prepared, began, reporters)
        combination = self._combine(prepared, trained)
        if self.refit:
            asked = reporters is not None and reporters.stopped
            self._refit(prepared, combination, began, may_go_on=asked or not trained.interrupted)
        LOGGER.info(
            "%s: %d networks on %d rows in %.1f s, %s %.5g on validation rows",
            *(type(self).__name__, len(self.weights_), prepared.table.n_rows, perf_counter() - began),
            *(prepared.config.metric_for(self.trained_.objective).name, self.validation_score_),
        )
        return self

    def _prepare(
        self, X: Any, y: Any, sample_weight: Any, *, X_val: Any = None, y_val: Any = None, groups: Any = None
    ) -> "Preparation":
        """Read a table, divide its rows, and return what is trained."""
        self._settings()
        self._check_given(X_val, y_val, groups)
        self.target_name_ = target_name(y)
        columns, table = Columns.learn(X, self.categorical, dates=self.dates)
        given = None if X_val is None else (columns.read(X_val), y_val)
        data, holdout = self._training_table(table, y, sample_weight, columns.cardinalities, given=given)
        columns = columns.with_copies(CodedTable(data.numbers, data.codes), data.target)
        columns.warn()
        self._warn_of_few(len(table.numbers))
        holdout = replace(holdout, groups=group_codes(groups, len(table.numbers)))
        plan = self._plan(columns, data, n_folds=holdout.n_folds)
        self._warn_unused(holdout, plan)
        random, state = self._drawn_from()
        counts = {"n_folds": plan.n_folds, "n_seeds": plan.n_seeds}
        splits, seeds = holdout.draw(data.target, task=self._task, random=random, **counts)
        plan, prepared = replace(plan, n_folds=len(splits)), PreparedTable.from_table(data, splits)
        return self._with_members(columns, replace(prepared, missing=self.missing), plan, seeds=seeds, state=state)

    def _check_given(self, X_val: Any, y_val: Any, groups: Any) -> None:
        """Check which arguments of `fit` are given together."""
        if (X_val is None) != (y_val is None):
            raise argument_error("X_val", "be given together with y_val", None if X_val is None else type(X_val))
        if is_stream(X_val):
            hint = "Read the validation rows first, for example with pyarrow.parquet.read_table(path)."
            raise type_error("X_val", "be a table in memory", type(X_val).__name__, hint)
        if X_val is not None and (self.validation is not None or groups is not None):
            other = "groups" if self.validation is None else "validation"
            raise argument_error(other, "be None if X_val is given: its rows validate", type(X_val).__name__)

    def _drawn_from(self) -> tuple[np.random.RandomState, Any]:
        """Return what seeds and rows are drawn from, and its state, that of the last fit if networks go on from it."""
        random = self._random()
        if self.warm_start and hasattr(self, "_warm"):  # the rows that validated before do so again
            random = np.random.RandomState()
            random.set_state(self._warm.random_state)
        return random, random.get_state()

    def _with_members(
        self, columns: Columns, prepared: PreparedTable, plan: Plan, *, seeds: npt.NDArray[np.int64], state: Any
    ) -> "Preparation":
        """Choose encodings if wanted, and return the table with the members of a plan."""
        config = self._settings()
        in_memory = replace(prepared, table=replace(prepared.table, chunks=None))
        choices = choose_features(in_memory, columns.numerical_names, size=self.size) if self._is_per_feature else []
        if choices:
            plan = plan.with_choices(choices)
        warm = self._warm_members(columns, prepared, plan) if self.warm_start and self.__sklearn_is_fitted__() else None
        if warm is not None:
            return Preparation(columns, prepared, *warm, config, state, plan, choices, self.trained_)
        members = plan_members(prepared, plan, seeds)
        return Preparation(columns, prepared, plan, members, config, state, plan, choices)

    @property
    def _is_per_feature(self) -> bool:
        """Whether training rows decide the encoding of each column."""
        return isinstance(self.encoding, str) and self.encoding == PER_FEATURE

    def _training_table(
        self,
        table: CodedTable,
        y: Any,
        sample_weight: Any,
        cardinalities: tuple[int, ...],
        *,
        given: tuple[CodedTable, Any] | None = None,
    ) -> tuple[TrainingTable, Holdout]:
        """Return a table with its target and weights, without rows of weight 0, and with given validation rows."""
        if y is None:
            raise argument_error(
                "y", "be given", None, "This estimator requires y to be passed, but the target y is None."
            )
        target = self._read_target(y)
        if len(target) != len(table.numbers):
            raise argument_error("y", f"have as many values as X has rows, {len(table.numbers)}", len(target))
        weights = self._row_weights(target, sample_weight)
        kept = np.ones(len(target), dtype=bool) if weights is None else weights > 0
        arrays = [table.numbers, table.codes, target, np.ones(len(target)) if weights is None else weights]
        if not kept.all():
            arrays = [array[kept] for array in arrays]
        n_given = 0
        if given is not None:
            y_val = self._read_validation_target(given[1])
            n_given = len(y_val)
            if n_given != len(given[0].numbers):
                raise argument_error(
                    "y_val", f"have as many values as X_val has rows, {len(given[0].numbers)}", n_given
                )
            # Validation rows count equally; a weight like that of others keeps the numbers in range.
            behind = [*given[0], y_val, np.full(n_given, arrays[-1].mean())]
            arrays = [np.concatenate(pair) for pair in zip(arrays, behind, strict=True)]
        numbers, codes, targets, all_weights = arrays
        kinds = (
            self._task,
            cardinalities,
            self._n_classes,
            None if weights is None else all_weights,
            self._objective(),
        )
        holdout = Holdout(self.validation, self.validation_share, target, kept, n_given=n_given)
        return TrainingTable(numbers, codes, targets, *kinds), holdout

    def _warn_of_few(self, n_rows: int) -> None:
        """Warn of a table from which next to nothing can be learned."""
        if n_rows <= FEW_ROWS:
            reason = f"the table has {n_rows} {'row' if n_rows == 1 else 'rows'}"
        elif self._task == "classification" and self._n_classes == 1:
            reason = "y has one class, which every prediction will be"
        else:
            return
        warn_user(f"There is next to nothing to learn: {reason}. Check the table.")

    def _warn_unused(self, holdout: Holdout, plan: Plan) -> None:
        """Warn of parameters that were set and have no effect."""
        usual = inspect.signature(type(self)).parameters
        if not self._is_automatic and self.effort != usual["effort"].default:
            others = "encoding, backbone, size, n_members and training"
            message = f"effort={self.effort!r} has no effect: it decides what is trained only if none of {others} is"
            warn_user(f"{message} given. Leave effort out, or these parameters.")
        configs = [recipe.config for recipe in plan.recipes]
        encodings = {encoding for recipe in plan.recipes for encoding in recipe.encodings}
        if any(config.is_smooth for config in configs) and not any(encoding.has_knots for encoding in encodings):
            message = "smoothness has no effect: no column is encoded by splines or PLE"
            warn_user(f"{message}. Choose such an encoding, or leave it out.")
        share = self.validation_share
        if share != usual["validation_share"].default and not holdout.uses_share(plan.n_folds):
            reason = "rows are held out by folds, validation or X_val"
            hint = f"validation={share!r} holds out one random part of this share."
            warn_user(f"validation_share={share!r} has no effect: {reason}. {hint}")

    def _warm_members(self, columns: Columns, prepared: PreparedTable, plan: Plan) -> tuple[Plan, list[Member]] | None:
        """Return what goes on from the fitted networks; None, with a warning, if the table or the plan is another."""
        same = hasattr(self, "_warm") and columns == self.columns_
        same = same and self._warm.labels == vars(self).get("labels_") and list(prepared.indicated) == self.indicated_
        same = same and self.trained_.objective == prepared.table.goal
        learned = self.trained_.pieces[0].network.encoding.missing is not None
        same = same and learned == (prepared.missing == "learned" and bool(prepared.indicated))
        same = same and self.trained_.pieces[0].shift.shape[1:] == prepared.table.target.shape[1:]
        warm = warm_members(self._warm, prepared, plan) if same else None
        if warm is None:
            reason = (
                "columns, classes, objective or what is trained differ from those of the last fit, or it was loaded"
            )
            warn_user(f"warm_start has no effect: {reason}. Networks are trained anew.")
        return warm

    def _train(self, prepared: "Preparation", began: float, reporters: Reporters | None = None) -> Trained:
        """Train the members in the time that is left."""
        share = share_of_validation(prepared.plan.n_folds) if self.refit else 1.0
        ensemble = prepared.plan.search == "ensemble"
        settings = {"start": prepared.start, "ensemble": ensemble, "config": self._timed(prepared.config, began, share)}
        return self._call_train(prepared.table, prepared.members, reporters, **settings)

    def _timed(self, config: TrainingConfig, began: float, share: float = 1.0) -> TrainingConfig:
        """Return a configuration whose time limit is a share of the one of the fit, less the time that has passed."""
        if config.time_limit is None:
            return config
        return replace(config, time_limit=max(share * config.time_limit - (perf_counter() - began), SHORTEST))

    def _call_train(
        self, table: TrainingTable, members: Sequence[Member], reporters: Reporters | None, **settings: Any
    ) -> Trained:
        """Train members, with progress in the log and, if wanted, on the screen."""
        with ExitStack() as stack:
            shown: list[Reporter] = [] if reporters is None else [reporters]
            if LOGGER.isEnabledFor(logging.DEBUG):
                shown.append(log_epoch)
            if self.verbose:
                shown.append(stack.enter_context(ProgressBar()))
            assert members[0].backbone is not None
            return train_spread(
                table,
                members,
                members[0].backbone,
                settings.pop("config"),
                device=self.device,
                engine=self.engine,
                categories=self.categories,
                report=Reporters(shown) if shown else None,
                **settings,
            )

    def _combine(self, prepared: "Preparation", trained: Trained) -> Combination:
        """Choose the members that predict and their weights, and set the fitted attributes."""
        plan, table = prepared.plan, prepared.table
        finished = [history for history in trained.histories if history.best_epoch > 0]
        if not finished or (len(finished) < len(trained.histories) and plan.search == "all"):
            self._refuse(trained)
        combination = combine(plan, trained, prepared.members, table=table, config=prepared.config, seed=prepared.seed)
        self.columns_ = prepared.columns
        self._set_names(prepared.columns)
        self.candidates_, self.validation_score_ = combination.table, combination.score
        self.indicated_ = list(prepared.prepared.indicated)
        self.config_ = prepared.config
        recipes = [plan.recipes[place] for place in combination.recipes]
        self.encoding_choices_ = [asdict(choice) for choice in prepared.choices]
        self._set_members(combination.trained, combination.weights, recipes)
        self._calibrate(combination.held)
        self._hold(prepared, combination)
        if combination.has_all_folds(plan.n_folds):
            members = [prepared.members[place].without_rows() for place in combination.places]
            self._warm = Warm(prepared.asked, recipes, members, prepared.random_state, vars(self).get("labels_"))
        elif hasattr(self, "_warm"):
            del self._warm
        return combination

    def _set_members(self, trained: Trained, weights: npt.NDArray[np.float64], recipes: Sequence[Recipe]) -> None:
        """Set the networks that predict."""
        names = self.columns_.numerical_names
        self.trained_, self.weights_ = trained, weights
        self.encoding_ = [dict(zip(names, map(str, recipe.encodings), strict=True)) for recipe in recipes]

    def _hold(self, prepared: "Preparation", combination: Combination) -> None:
        """Keep validation rows of one fold, and which networks were not trained on them, for importances."""
        folds = np.array(combination.places) % prepared.plan.n_folds
        members = np.flatnonzero(folds == folds[0])
        rows = prepared.prepared.splits[folds[0]].valid[:MOST_HELD]
        table, n_categorical = prepared.table, len(prepared.columns.cardinalities)
        weights = combination.weights[members] / combination.weights[members].sum()
        self._held = Held(
            CodedTable(table.numbers[rows], table.codes[rows, :n_categorical]),
            table.target[rows],
            combination.trained,
            members.tolist(),
            weights,
        )
        if hasattr(self, "_importances"):
            del self._importances

    def _refit(self, prepared: "Preparation", combination: Combination, began: float, *, may_go_on: bool) -> None:
        """Train the chosen networks again on all rows; after Ctrl-C those of the validation stay."""
        limit, plan = prepared.config.time_limit, prepared.plan
        time_is_up = limit is not None and perf_counter() - began >= share_of_validation(plan.n_folds) * limit
        if not (may_go_on or time_is_up) or not combination.has_all_folds(plan.n_folds):
            return
        kept = [prepared.members[place] for place in combination.places]
        recipes = [plan.recipes[place] for place in combination.recipes]
        members = refit_members(prepared.prepared, kept, recipes, trained=combination.trained)
        config = self._timed(prepared.config, began)
        trained = self._call_train(prepared.table, members, None, config=config)
        if trained.interrupted:
            message = "refit was stopped before its end: the networks that were validated predict instead."
            warn_user(f"{message} Give a larger time_limit to refit on all rows.")
            return
        unknown = [replace(each, score=np.full(each.epochs, np.nan)) for each in trained.histories]
        n_folds = plan.n_folds
        weights = combination.weights.reshape(-1, n_folds).sum(axis=1)
        self._set_members(replace(trained, histories=unknown), weights, recipes[::n_folds])

    @property
    def _is_automatic(self) -> bool:
        """Whether `effort` decides what is trained."""
        chosen = (self.n_members, self.size, self.training)
        return self.encoding == "auto" and self.backbone == "auto" and chosen == (None, None, None)

    def _plan(self, columns: Columns, data: TrainingTable, *, n_folds: int | None) -> Plan:
        """Return what is trained, on the number of folds that the user has decided, if any."""
        interactions = self._interactions(columns)
        if self._is_automatic:
            device, limit = device_type(self.device, self.engine), self.time_limit
            if limit is not None and self.refit:
                limit = share_of_validation(n_folds) * limit
            plan = plan_effort(self.effort, data, device=device, time_limit=limit, n_folds=n_folds)
            return plan.with_interactions(interactions)
        encoding = columns.spread(self.encoding) if isinstance(self.encoding, Mapping) else self.encoding
        encoding = "recommended" if self._is_per_feature else encoding  # until the rows of the folds are drawn
        plan = plan_choice(
            encoding, self.size, make_backbone("mlp" if self.backbone == "auto" else self.backbone),
            names=columns.numerical_names, objective=data.goal, training=self._training_of(columns),
            n_members=self.n_members or 1,
        )  # fmt: skip
        return replace(plan, n_folds=n_folds or plan.n_folds).with_interactions(interactions)

    def _interactions(self, columns: Columns) -> InteractionConfig | None:
        """Return the interactions with places of the pairs among the numerical columns, unless they are to be found."""
        if self.interactions is None:
            return None
        config, labels = InteractionConfig.from_value(self.interactions), columns.numerical_names
        if len(labels) < 2:
            hint = f"The numerical columns are {labels}."
            raise argument_error("interactions", "be None for fewer than two numerical columns", config.pairs, hint)
        if not isinstance(config.pairs, tuple):
            return config
        by_place = dict(enumerate(columns.names or ()))  # columns of a table with names may be given by places
        pairs = [
            [column if column in labels else by_place.get(column, column) for column in pair] for pair in config.pairs
        ]
        return replace(config, pairs=tuple(place_pairs(pairs, labels, argument="interactions")))

    def _training_of(self, columns: Columns) -> TrainingConfig | None:
        """Return `training` with the smoothness of each numerical column; a date's is that of all its numbers."""
        return self.training and self.training.for_columns(columns.numerical_names, spread=columns.spread)

    def _settings(self) -> TrainingConfig:
        """Check all parameters but those that need the table; return the configuration of training."""
        check_choice(self.effort, "effort", EFFORTS)
        if self.n_members is not None:
            check_int(self.n_members, "n_members", minimum=1)
        if self.backbone != "auto":
            make_backbone(self.backbone)
        if self.interactions is not None:
            InteractionConfig.from_value(self.interactions)
        check_choice(self.missing, "missing", MISSING)
        check_choice(self.categories, "categories", CATEGORIES)
        check_bool(self.verbose, "verbose")
        check_engine(self.engine, self.device)
        if not isinstance(self.validation_share, float) or not 0.0 < self.validation_share < 1.0:
            raise argument_error("validation_share", "be a number between 0 and 1", self.validation_share)
        check_validation(self.validation)
        for name in ("refit", "warm_start"):
            check_bool(getattr(self, name), name)
        if self.refit and self.warm_start:
            hint = "Networks of a refit were trained on all rows: none is left to validate them by."
            raise argument_error("refit", "be False if warm_start is True", self.refit, hint)
        self._check_callbacks()
        config = TrainingConfig() if self.training is None else self.training
        if not isinstance(config, TrainingConfig):
            raise type_error(
                "training", "be a TrainingConfig", config, "Write TrainingConfig(max_epochs=50), for example."
            )
        config.metric_for(self._objective())
        return config if self.time_limit is None else replace(config, time_limit=self.time_limit)

    def _check_callbacks(self) -> None:
        callbacks = self.callbacks
        if callbacks is None:
            return
        if self.engine == "ray":
            hint = "Workers of a cluster send no reports. Or choose engine='local'."
            raise argument_error("callbacks", "be None if engine='ray'", callbacks, hint)
        if not isinstance(callbacks, Sequence) or not all(callable(each) for each in callbacks):
            hint = "Write callbacks=[function]; each is called with an EpochReport."
            raise type_error("callbacks", "be a sequence of functions", callbacks, hint)

    def _random(self) -> np.random.RandomState:
        try:
            random: np.random.RandomState = check_random_state(self.random_state)
        except ValueError as error:
            wanted = "be None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState"
            raise argument_error("random_state", wanted, self.random_state) from error
        return random

    def _refuse(self, trained: Trained) -> None:
        """Raise an error that explains why there is no model."""
        if any(not history.epochs for history in trained.histories):
            raise KeyboardInterrupt("Training was stopped before the end of its first epoch: there is no model yet.")
        example = "training=TrainingConfig(learning_rate=1e-4)"
        hint = f"The loss became NaN or infinite: try a smaller learning rate, for example {example}."
        raise argument_error("training", "lead to finite scores", self.training, hint)

    @property
    def _n_classes(self) -> int:
        return 0

    def _set_names(self, columns: Columns) -> None:
        self.n_features_in_ = len(columns)
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
