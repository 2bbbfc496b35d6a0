"""What both estimators share: reading a table, training a stack, predicting with it."""

from abc import ABC, abstractmethod
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork.estimators._candidates import Candidate, make_members, propose
from knotwork.estimators._columns import Columns, Table
from knotwork.estimators._combination import Combination, combine
from knotwork.estimators._importances import shuffled_losses
from knotwork.estimators._preparation import SEARCHES, add_indicators, hold_out
from knotwork.nn._backbones.config import Backbone, make_backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import TrainingTable
from knotwork.training._network import CATEGORIES
from knotwork.training._progress import ProgressBar
from knotwork.training._results import Trained

__all__ = ["TabularEstimator"]

BACKBONE_SETTINGS: dict[str, dict[str, Any]] = {"mlp": {"dropout": 0.15}}
"""What the estimators take where a backbone is named, and is not the paper's; see `benchmarks/README.md`."""

MOST_HELD = 1000
"""Validation rows that are kept for `feature_importances_`."""

SHORTEST = 1e-3
"""Seconds that are left for training where placing knots took all of the time limit: every network has an epoch."""


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
        backbone, config = self._settings()
        columns = Columns.from_table(X, self.categorical)
        table = columns.read(X)
        if y is None:
            raise argument_error(
                "y", "be given", None, "This estimator requires y to be passed, but the target y is None."
            )
        target = self._read_target(y)
        if len(target) != len(table.numbers):
            raise argument_error("y", f"have as many values as X has rows, {len(table.numbers)}", len(target))
        weights = self._row_weights(target, sample_weight)
        if weights is not None and (weights == 0).any():
            kept = weights > 0
            table, target, weights = Table(table.numbers[kept], table.codes[kept]), target[kept], weights[kept]
        self.columns_ = columns
        self._set_names(columns)
        self._fit(table, target, weights, backbone, config)
        return self

    def _fit(
        self,
        table: Table,
        target: npt.NDArray[Any],
        weights: npt.NDArray[np.float64] | None,
        backbone: Backbone,
        config: TrainingConfig,
    ) -> None:
        """Train on what was read."""
        began, random = perf_counter(), self._random()
        seeds = random.randint(2**31 - 1, size=self.n_members)
        rows, held = hold_out(target, task=self._task, share=self.validation_share, random=random)
        names = self._numerical_names()
        candidates = propose(self.encoding, self.size, names=names, task=self._task, backbone=backbone.name)
        indicated = np.flatnonzero(np.isnan(table.numbers[rows]).any(axis=0)).tolist()
        whole = TrainingTable(
            table.numbers,
            add_indicators(table, indicated),
            target,
            self._task,
            (*self.columns_.cardinalities, *[3] * len(indicated)),
            self._n_classes,
            weights,
        )
        members = make_members(candidates, whole, rows=rows, held=held, seeds=seeds)
        left = None if config.time_limit is None else max(config.time_limit - (perf_counter() - began), SHORTEST)
        with ProgressBar() if self.verbose else nullcontext() as bar:
            trained = train(
                whole,
                members,
                backbone,
                replace(config, time_limit=left),
                device=self.device,
                categories=self.categories,
                report=bar,
            )
        self._set_fitted(self._combined(trained, candidates, table=whole, held=held, config=config, seed=int(seeds[0])))
        self.indicated_, self.config_, self.backbone_ = indicated, config, backbone
        some = held[:MOST_HELD]
        self._held = Table(table.numbers[some], table.codes[some]), target[some]

    def _combined(
        self,
        trained: Trained,
        candidates: list[Candidate],
        *,
        table: TrainingTable,
        held: npt.NDArray[np.int64],
        config: TrainingConfig,
        seed: int,
    ) -> Combination:
        """Return the members that predict, and their weights."""
        if self.encoding not in SEARCHES:
            self._check_trained(trained)
            n_members = len(trained.histories)
            return Combination(trained, candidates * n_members, np.ones(n_members) / n_members, [])
        if all(history.best_epoch < 0 for history in trained.histories):
            self._check_trained(trained)
        return combine(self.encoding, trained, candidates, table=table, held=held, config=config, seed=seed)

    def _set_fitted(self, found: Combination) -> None:
        """Keep what was found."""
        names = self._numerical_names()
        self.trained_, self.weights_, self.candidates_ = found.trained, found.weights, found.table
        self.encoding_ = [
            {name: str(choice) for name, choice in zip(names, own.choices, strict=True)} for own in found.candidates
        ]
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
        settings = BACKBONE_SETTINGS.get(self.backbone) if isinstance(self.backbone, str) else None
        return make_backbone(self.backbone, settings), config

    def _random(self) -> np.random.RandomState:
        try:
            random: np.random.RandomState = check_random_state(self.random_state)
        except ValueError as error:
            wanted = "be None, an integer from 0 to 2**32 - 1 or a numpy.random.RandomState"
            raise argument_error("random_state", wanted, self.random_state) from error
        return random

    def _check_trained(self, trained: Trained) -> None:
        for history in trained.histories:
            if not history.epochs:
                raise KeyboardInterrupt("Training was stopped before its first epoch had ended: there is no model yet.")
            if history.best_epoch < 0 and history.epochs:
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

    def _numerical_names(self) -> list[Any]:
        names = self.columns_.names
        places = [place for place, role in enumerate(self.columns_.roles) if role == "numerical"]
        return [place if names is None else names[place] for place in places]

    def _outputs(self, table: Table) -> npt.NDArray[np.float64]:
        """Return the outputs of every member, of shape (n_members, n, d_out)."""
        codes = add_indicators(table, self.indicated_)
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
        names = self._numerical_names()
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
                raise AttributeError("feature_importances_ are not there: the estimator was loaded without them.")
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
