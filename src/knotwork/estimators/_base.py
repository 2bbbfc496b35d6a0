"""What the two estimators share: prepare a table, train a stack of networks, combine them into predictions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork._preparation.columns import Columns, Table
from knotwork._preparation.members import PreparedTable, Split, add_indicators, draw_folds, draw_split
from knotwork.estimators._combination import combine, shuffled_losses
from knotwork.estimators._plans import EFFORTS, Plan, plan_choice, plan_effort, plan_members
from knotwork.nn._backbones import Backbone, make_backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import resolve_device, train
from knotwork.training._members import Member, TrainingTable
from knotwork.training._network import CATEGORIES
from knotwork.training._progress import ProgressBar
from knotwork.training._results import Trained

__all__ = ["Preparation", "TabularEstimator", "doubled"]

MOST_HELD = 1000
"""Most validation rows that are kept for `feature_importances_`."""

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
    """

    columns: Columns
    prepared: PreparedTable
    plan: Plan
    members: list[Member]
    config: TrainingConfig

    @property
    def table(self) -> TrainingTable:
        """The table as networks take it."""
        return self.prepared.table

    @property
    def seed(self) -> int:
        """The first random seed."""
        return self.prepared.splits[0].seed


class TabularEstimator(BaseEstimator, ABC):
    """A network on encoded columns, with scikit-learn's interface; see `TabularRegressor`."""

    columns_: Columns
    trained_: Trained
    encoding_: list[dict[Any, str]]
    weights_: npt.NDArray[np.float64]
    candidates_: list[dict[str, Any]]
    validation_score_: float

    def __init__(
        self,
        encoding: str | Mapping[Any, str] = "auto",
        backbone: str | Backbone = "auto",
        *,
        effort: str = "balanced",
        time_limit: float | None = None,
        size: int | None = None,
        n_members: int | None = None,
        categories: str = "embedding",
        categorical: Any = None,
        validation_share: float = 0.1,
        training: TrainingConfig | None = None,
        device: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.encoding = encoding
        self.backbone = backbone
        self.effort = effort
        self.time_limit = time_limit
        self.size = size
        self.n_members = n_members
        self.categories = categories
        self.categorical = categorical
        self.validation_share = validation_share
        self.training = training
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _read_target(self, y: Any) -> npt.NDArray[Any]:
        """Check a target, keep what predictions need, and return numbers or class codes."""

    @property
    @abstractmethod
    def _task(self) -> str:
        """What is predicted."""

    @abstractmethod
    def _row_weights(self, target: npt.NDArray[Any], sample_weight: Any) -> npt.NDArray[np.float64] | None:
        """Return the weights of the rows, or None."""

    @abstractmethod
    def _loss(
        self, outputs: npt.NDArray[np.float64], target: npt.NDArray[Any], weights: npt.NDArray[np.float64]
    ) -> float:
        """Return the loss of a weighted mean of members."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train on a table.

        Parameters
        ----------
        X : table of shape (n, d)
            NumPy array, or pandas, polars or pyarrow table: numbers, booleans, text and categories. Values may be
            missing. Dates are refused, with advice.
        y : array-like of shape (n,)
            The target.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, not negative. Rows of weight 0 are dropped.

        Returns
        -------
        self
            The fitted estimator; after Ctrl-C, with the best weights so far.
        """
        began = perf_counter()
        prepared = self._prepare(X, y, sample_weight)
        self._combine(prepared, self._train(prepared, began))
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> "Preparation":
        """Read a table, divide its rows, and return what is trained."""
        config = self._settings()
        columns, table = Columns.learn(X, self.categorical)
        data = self._training_table(table, y, sample_weight, columns.cardinalities)
        plan = self._plan(columns, data)
        splits, seeds = self._splits(data, plan)
        prepared = PreparedTable.from_table(data, splits)
        return Preparation(columns, prepared, plan, plan_members(prepared, plan, seeds), config)

    def _splits(self, data: TrainingTable, plan: Plan) -> tuple[list[Split], npt.NDArray[np.int64]]:
        """Return the rows of each fold, and the random seeds of the networks."""
        settings: dict[str, Any] = {"task": self._task, "random": self._random(), "n_seeds": plan.n_seeds}
        if plan.n_folds > 1:
            return draw_folds(data.target, n_folds=plan.n_folds, **settings)
        split, seeds = draw_split(np.arange(len(data.target)), data.target, share=self.validation_share, **settings)
        return [split], seeds

    def _training_table(
        self, table: Table, y: Any, sample_weight: Any, cardinalities: tuple[int, ...]
    ) -> TrainingTable:
        """Return a table with its target and weights, without rows of weight 0."""
        if y is None:
            raise argument_error(
                "y", "be given", None, "This estimator requires y to be passed, but the target y is None."
            )
        target = self._read_target(y)
        if len(target) != len(table.numbers):
            raise argument_error("y", f"have as many values as X has rows, {len(table.numbers)}", len(target))
        weights = self._row_weights(target, sample_weight)
        numbers, codes = table
        if weights is not None and (weights == 0).any():
            kept = weights > 0
            numbers, codes, target, weights = numbers[kept], codes[kept], target[kept], weights[kept]
        return TrainingTable(numbers, codes, target, self._task, cardinalities, self._n_classes, weights)

    def _train(self, prepared: "Preparation", began: float) -> Trained:
        """Train the members in the time that is left."""
        config, first = prepared.config, prepared.members[0]
        if config.time_limit is not None:
            left = max(config.time_limit - (perf_counter() - began), SHORTEST)
            config = replace(config, time_limit=left)
        assert first.backbone is not None
        with ProgressBar() if self.verbose else nullcontext() as bar:
            return train(
                prepared.table,
                prepared.members,
                first.backbone,
                config,
                device=self.device,
                categories=self.categories,
                report=bar,
                ensemble=prepared.plan.search == "ensemble",
            )

    def _combine(self, prepared: "Preparation", trained: Trained) -> None:
        """Choose the members that predict and their weights, and set the fitted attributes."""
        plan, table = prepared.plan, prepared.table
        finished = [history for history in trained.histories if history.best_epoch >= 0]
        if not finished or (len(finished) < len(trained.histories) and plan.search == "all"):
            self._refuse(trained)
        combination = combine(plan, trained, prepared.members, table=table, config=prepared.config, seed=prepared.seed)
        self.columns_ = prepared.columns
        self._set_names(prepared.columns)
        names = prepared.columns.numerical_names
        self.trained_, self.weights_ = combination.trained, combination.weights
        self.candidates_, self.validation_score_ = combination.table, combination.score
        recipes = [plan.recipes[place] for place in combination.recipes]
        self.encoding_ = [dict(zip(names, map(str, recipe.encodings), strict=True)) for recipe in recipes]
        self.indicated_ = list(prepared.prepared.indicated)
        self.config_ = prepared.config
        rows = prepared.prepared.splits[0].valid[:MOST_HELD]
        n_categorical = len(prepared.columns.cardinalities)
        table_held = Table(table.numbers[rows], table.codes[rows, :n_categorical])
        self._held = (table_held, table.target[rows], [*range(0, len(self.weights_), plan.n_folds)])
        if hasattr(self, "_importances"):
            del self._importances

    @property
    def _is_automatic(self) -> bool:
        """Whether `effort` decides what is trained."""
        chosen = (self.n_members, self.size, self.training)
        return self.encoding == "auto" and self.backbone == "auto" and chosen == (None, None, None)

    def _plan(self, columns: Columns, data: TrainingTable) -> Plan:
        """Return what is trained."""
        if self._is_automatic:
            device = resolve_device(self.device).type
            return plan_effort(self.effort, data, device=device, time_limit=self.time_limit)
        return plan_choice(
            self.encoding, self.size, make_backbone("mlp" if self.backbone == "auto" else self.backbone),
            names=columns.numerical_names, task=self._task, training=self.training, n_members=self.n_members or 1,
        )  # fmt: skip

    def _settings(self) -> TrainingConfig:
        """Check all parameters but those that need the table; return the configuration of training."""
        check_choice(self.effort, "effort", EFFORTS)
        if self.n_members is not None:
            check_int(self.n_members, "n_members", minimum=1)
        if self.backbone != "auto":
            make_backbone(self.backbone)
        check_choice(self.categories, "categories", CATEGORIES)
        check_bool(self.verbose, "verbose")
        if not isinstance(self.validation_share, float) or not 0.0 < self.validation_share < 1.0:
            raise argument_error("validation_share", "be a number between 0 and 1", self.validation_share)
        config = TrainingConfig() if self.training is None else self.training
        if not isinstance(config, TrainingConfig):
            raise type_error(
                "training", "be a TrainingConfig", config, "Write TrainingConfig(max_epochs=50), for example."
            )
        config.metric_for(self._task)
        return config if self.time_limit is None else replace(config, time_limit=self.time_limit)

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
        raise argument_error(
            "training",
            "lead to finite scores",
            self.training,
            "The loss became NaN or infinite: try a smaller learning rate, for example "
            "training=TrainingConfig(learning_rate=1e-4).",
        )

    @property
    def _n_classes(self) -> int:
        return 0

    def _set_names(self, columns: Columns) -> None:
        self.n_features_in_ = len(columns.roles)
        if columns.names is not None:
            self.feature_names_in_ = np.array(columns.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _outputs(self, table: Table) -> npt.NDArray[np.float64]:
        """Return the outputs of every member, of shape (n_members, n, d_out)."""
        codes = add_indicators(table.numbers, table.codes, self.indicated_)
        return np.stack(self.trained_.outputs(table.numbers, codes))

    def _read(self, X: Any) -> Table:
        check_is_fitted(self)
        return self.columns_.read(X)

    @property
    def backbones_(self) -> list[Backbone]:
        """Configuration of each member's network behind the encoding."""
        by_place = {place: piece.backbone for piece in self.trained_.pieces for place in piece.places}
        return [by_place[place] for place in range(len(by_place))]

    @property
    def history_(self) -> list[dict[str, Any]]:
        """How each member was trained.

        A dict of ``loss`` (mean training loss of each epoch), ``score`` (validation metric of each epoch),
        ``learning_rate``, ``metric`` (its name), ``best_epoch`` (whose weights are kept) and ``seconds``.
        """
        metric = self.config_.metric_for(self._task)
        sign = 1.0 if metric.lower_is_better else -1.0
        return [
            {
                "loss": history.loss,
                "score": sign * history.score,
                "learning_rate": history.learning_rate,
                "metric": metric.name,
                "best_epoch": history.best_epoch,
                "seconds": history.seconds,
            }
            for history in self.trained_.histories
        ]

    @property
    def knots_(self) -> list[dict[Any, npt.NDArray[np.float64]]]:
        """Interior knots of each numerical column for each member after training, in the units of the table."""
        names = self.columns_.numerical_names
        units = self.trained_.units
        out: list[Any] = [None] * len(self.trained_.histories)
        for piece in self.trained_.pieces:
            knots = piece.network.encoding.interior_knots().double().cpu().numpy()
            for place, member in zip(piece.places, knots, strict=True):
                out[place] = {
                    name: _from_units(column[~np.isnan(column)], unit)
                    for name, column, unit in zip(names, member, units.T, strict=True)
                }
        return out

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """Increase of the loss on up to 1,000 validation rows when a column is shuffled, one number per column."""
        check_is_fitted(self)
        if not hasattr(self, "_importances"):
            if not hasattr(self, "_held"):
                raise AttributeError(
                    "feature_importances_ are not available: the estimator was loaded without them. For more than 500 "
                    "columns, access feature_importances_ before the estimator is saved."
                )
            table, target, members = self._held  # networks that were not trained on these rows
            weights = self.weights_[members] / self.weights_[members].sum()
            self._importances = shuffled_losses(
                table,
                self.columns_.roles,
                lambda shuffled: self._loss(self._outputs(shuffled)[members], target, weights),
            )
        return self._importances

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file that `knotwork.load` reads, without pickle.

        A file that is replaced keeps its mode. For more than 500 columns the importances are saved only if
        `feature_importances_` was used before: they take long.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        """
        from knotwork.estimators._persistence import save  # noqa: PLC0415 - only those who save need it

        check_is_fitted(self)
        save(self, path)

    def export_onnx(self, path: str | Path) -> None:
        """Write the whole predictor as an ONNX model: scaling, encoding, categories and network.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        """
        from knotwork.estimators._onnx import export_onnx  # noqa: PLC0415 - needs the onnx extra

        check_is_fitted(self)
        export_onnx(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trained_")


def _from_units(values: npt.NDArray[np.float64], units: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return values of a column in the units of the table."""
    return doubled(0.5 * units[0] + 0.5 * units[1] * values)


def doubled(halves: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return twice the values, at most the largest float: sums are formed by halves, because they may overflow."""
    most = 0.5 * np.finfo(np.float64).max
    doubled: npt.NDArray[np.float64] = 2.0 * np.clip(halves, -most, most)
    return doubled
