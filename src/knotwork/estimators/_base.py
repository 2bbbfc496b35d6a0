"""What both estimators share: reading a table, training a stack, predicting with it."""

from abc import ABC, abstractmethod
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
from knotwork._preparation.members import PreparedTable, add_indicators
from knotwork._preparation.splits import Split, draw_split
from knotwork.encoders._methods import Encoding
from knotwork.estimators._combination import Combination, combine
from knotwork.estimators._encodings import choose_encodings, propose
from knotwork.estimators._importances import shuffled_losses
from knotwork.nn._backbones.config import Backbone, make_backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member, TrainingTable
from knotwork.training._network import CATEGORIES
from knotwork.training._progress import ProgressBar
from knotwork.training._results import Trained

__all__ = ["TabularEstimator"]

MOST_HELD = 1000
"""Validation rows that are kept for `feature_importances_`."""

SHORTEST = 1e-3
"""Seconds that are left for training where placing knots took all of the time limit: every network has an epoch."""


@dataclass(frozen=True, eq=False)
class Preparation:
    """What is trained in one fit.

    Parameters
    ----------
    columns : Columns
        The columns of the table.
    prepared : PreparedTable
        The table and its one fold.
    candidates : list of tuple of Encoding
        For each candidate, the encoding of every numerical column.
    tried : list of Encoding
        The same as one encoding for all columns, if validation rows choose among them; otherwise empty.
    members : list of Member
        Networks of every candidate, candidate after candidate.
    backbone, config
        The network, and how it is trained.
    """

    columns: Columns
    prepared: PreparedTable
    candidates: list[tuple[Encoding, ...]]
    tried: list[Encoding]
    members: list[Member]
    backbone: Backbone
    config: TrainingConfig

    @property
    def table(self) -> TrainingTable:
        """The table as networks take it."""
        return self.prepared.table

    @property
    def split(self) -> Split:
        """The rows that are trained on, and held out."""
        return self.prepared.splits[0]


class TabularEstimator(BaseEstimator, ABC):
    """A network on encoded columns, with scikit-learn's interface; see `TabularRegressor`."""

    encoding: Any
    backbone: Any
    size: int | None
    n_members: int
    categories: str
    categorical: Any
    validation_share: float
    training: TrainingConfig | None
    device: Any
    random_state: Any
    verbose: bool

    columns_: Columns
    trained_: Trained
    encoding_: list[dict[Any, str]]
    weights_: npt.NDArray[np.float64]
    candidates_: list[dict[str, Any]]

    @abstractmethod
    def _read_target(self, y: Any) -> npt.NDArray[Any]:
        """Check a target, keep what predictions need of it, and return numbers or class codes."""

    @property
    @abstractmethod
    def _task(self) -> str:
        """What is predicted."""

    @abstractmethod
    def _row_weights(self, target: npt.NDArray[Any], sample_weight: Any) -> npt.NDArray[np.float64] | None:
        """Return the weights of the rows, or None."""

    @abstractmethod
    def _loss(self, outputs: npt.NDArray[np.float64], target: npt.NDArray[Any]) -> float:
        """Return the loss of the members' weighted mean."""

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
            Weights of the rows, not negative. Rows of weight 0 are left out.

        Returns
        -------
        self
            The fitted estimator. After Ctrl-C it is the best so far.
        """
        began = perf_counter()
        prepared = self._prepare(X, y, sample_weight)
        self._combine(prepared, self._train(prepared, began))
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> "Preparation":
        """Read a table, hold out validation rows, and return what is trained."""
        backbone, config = self._settings()
        columns, table = Columns.learn(X, self.categorical)
        whole = self._training_table(table, y, sample_weight, columns.cardinalities)
        rows = np.arange(len(whole.target))
        split, seeds = draw_split(
            rows,
            whole.target,
            task=self._task,
            share=self.validation_share,
            random=self._random(),
            n_seeds=self.n_members,
        )
        names = columns.numerical_names
        about: dict[str, Any] = {"names": names, "task": self._task, "backbone": backbone.advice}
        tried = propose(self.encoding, self.size, **about)
        candidates = [(each,) * len(names) for each in tried] or [choose_encodings(self.encoding, self.size, **about)]
        prepared = PreparedTable.from_table(whole, [split])
        members = prepared.members(candidates, split, seeds.tolist())
        return Preparation(columns, prepared, candidates, tried, members, backbone, config)

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
        config = prepared.config
        if config.time_limit is not None:
            left = max(config.time_limit - (perf_counter() - began), SHORTEST)
            config = replace(config, time_limit=left)
        with ProgressBar() if self.verbose else nullcontext() as bar:
            return train(
                prepared.table,
                prepared.members,
                prepared.backbone,
                config,
                device=self.device,
                categories=self.categories,
                report=bar,
            )

    def _combine(self, prepared: "Preparation", trained: Trained) -> None:
        """Keep the members that predict, their weights, and what else predictions need."""
        finished = [history for history in trained.histories if history.best_epoch >= 0]
        if not finished or (len(finished) < len(trained.histories) and not prepared.tried):
            self._refuse(trained)
        if prepared.tried:
            combination = combine(
                self.encoding,
                trained,
                prepared.tried,
                table=prepared.table,
                held=prepared.split.valid,
                config=prepared.config,
                seed=prepared.split.seed,
            )
        else:
            n_members = len(trained.histories)
            combination = Combination(trained, [0] * n_members, np.ones(n_members) / n_members, [])
        self.columns_ = prepared.columns
        self._set_names(prepared.columns)
        names = prepared.columns.numerical_names
        self.trained_, self.weights_ = combination.trained, combination.weights
        self.candidates_ = combination.table
        self.encoding_ = [
            {name: str(each) for name, each in zip(names, prepared.candidates[place], strict=True)}
            for place in combination.candidates
        ]
        self.indicated_ = list(prepared.prepared.indicated)
        self.config_, self.backbone_ = prepared.config, prepared.backbone
        rows = prepared.split.valid[:MOST_HELD]
        n_categorical = len(prepared.columns.cardinalities)
        self._held = (
            Table(prepared.table.numbers[rows], prepared.table.codes[rows, :n_categorical]),
            prepared.table.target[rows],
        )
        if hasattr(self, "_importances"):
            del self._importances

    def _settings(self) -> tuple[Backbone, TrainingConfig]:
        """Check all parameters."""
        check_int(self.n_members, "n_members", minimum=1)
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
        return make_backbone(self.backbone), config

    def _random(self) -> np.random.RandomState:
        try:
            random: np.random.RandomState = check_random_state(self.random_state)
        except ValueError as error:
            wanted = "be None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState"
            raise argument_error("random_state", wanted, self.random_state) from error
        return random

    def _refuse(self, trained: Trained) -> None:
        """Say why there is no model."""
        if any(not history.epochs for history in trained.histories):
            raise KeyboardInterrupt("Training was stopped before its first epoch had ended: there is no model yet.")
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
            for place, own in zip(piece.places, knots, strict=True):
                out[place] = {
                    name: _from_units(own[index][~np.isnan(own[index])], units[:, index])
                    for index, name in enumerate(names)
                }
        return out

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """How much the loss on up to 1,000 validation rows grows when a column is shuffled, one number for each."""
        check_is_fitted(self)
        if not hasattr(self, "_importances"):
            if not hasattr(self, "_held"):
                raise AttributeError("feature_importances_ are not available: the estimator was loaded without them.")
            table, target = self._held
            self._importances = shuffled_losses(
                table, self.columns_.roles, lambda shuffled: self._loss(self._outputs(shuffled), target)
            )
        return self._importances

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file that `knotwork.load` reads, without pickle.

        Parameters
        ----------
        path : str or Path
            The file; it is replaced if it is there.
        """
        from knotwork.estimators._persistence import save  # noqa: PLC0415 - only those who save need it

        check_is_fitted(self)
        save(self, path)

    def export_onnx(self, path: str | Path) -> None:
        """Write the whole predictor as an ONNX model: scaling, encoding, categories and network.

        Parameters
        ----------
        path : str or Path
            The file; it is replaced if it is there.
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
    half = 0.5 * units[0] + 0.5 * units[1] * values  # the whole of a range may overflow
    most = 0.5 * np.finfo(np.float64).max
    whole: npt.NDArray[np.float64] = 2.0 * np.clip(half, -most, most)
    return whole
