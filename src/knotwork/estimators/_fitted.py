"""What can be asked of a fitted estimator: its members, its curves, explanations, files."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from knotwork._pictures import pictures_html
from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.members import add_indicators
from knotwork._tables import is_stream
from knotwork.estimators._combination import shuffled_losses
from knotwork.nn._backbones import Backbone
from knotwork.training._config import TrainingConfig
from knotwork.training._results import Trained

if TYPE_CHECKING:  # explanations are loaded when they are asked for
    from knotwork.additive import Contributions
    from knotwork.estimators._explanations import FeatureEffect, TableFunction

__all__ = ["FittedModel", "Held", "doubled", "restored_on_error"]


@dataclass(frozen=True, eq=False)
class Held:
    """Validation rows, and networks that were not trained on them.

    Parameters
    ----------
    table : CodedTable
        The rows.
    target : ndarray of shape (n,)
        Their target.
    trained : Trained
        Networks.
    members : list of int
        Those of them that were not trained on the rows.
    weights : ndarray of shape (n_members,)
        Weights of these, of sum one.
    """

    table: CodedTable
    target: npt.NDArray[Any]
    trained: Trained
    members: list[int]
    weights: npt.NDArray[np.float64]


class FittedModel(BaseEstimator, ABC):
    """A fitted estimator: members and their weights, how they were trained, explanations, and files."""

    columns_: Columns
    trained_: Trained
    config_: TrainingConfig
    indicated_: list[int]
    encoding_: list[dict[Any, str]]
    weights_: npt.NDArray[np.float64]
    _held: Held

    @property
    @abstractmethod
    def _task(self) -> str:
        """What is predicted."""

    @abstractmethod
    def _responses(self, table: CodedTable) -> npt.NDArray[np.float64]:
        """Return predictions or probabilities, of shape (n, n_outputs)."""

    @abstractmethod
    def _output_names(self) -> list[str]:
        """Return the names of the outputs: classes, or numbers."""

    @abstractmethod
    def _loss(
        self, outputs: npt.NDArray[np.float64], target: npt.NDArray[Any], weights: npt.NDArray[np.float64]
    ) -> float:
        """Return the loss of a weighted mean of members."""

    def _outputs(self, table: CodedTable, trained: Trained | None = None) -> npt.NDArray[np.float64]:
        """Return the outputs of every member, of shape (n_members, n, d_out); by default of those that predict."""
        codes = add_indicators(table.numbers, table.codes, self.indicated_)
        return np.stack((trained or self.trained_).outputs(table.numbers, codes))

    def _read(self, X: Any) -> CodedTable:
        check_is_fitted(self)
        return self.columns_.read(X)

    def _apply(self, predict: Callable[[CodedTable], Any], X: Any) -> Any:
        """Return what a function predicts for a table, or an iterator of its results for the batches of a stream."""
        check_is_fitted(self)
        if not is_stream(X):
            return predict(self.columns_.read(X))
        from knotwork.estimators._streams import predicted_batches  # noqa: PLC0415 - only streams need it

        return predicted_batches(self, X, predict)

    def _beside_target(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return target, predictions and weights; of a stream y and sample_weight are columns, read in one pass."""
        if not is_stream(X):
            return y, self.predict(X), sample_weight
        from knotwork.estimators._streams import read_beside_target  # noqa: PLC0415 - only streams need it

        return read_beside_target(self, X, y, sample_weight)

    @property
    def backbones_(self) -> list[Backbone]:
        """Configuration of each member's network behind the encoding."""
        by_place = {place: piece.backbone for piece in self.trained_.pieces for place in piece.places}
        return [by_place[place] for place in range(len(by_place))]

    @property
    def history_(self) -> list[dict[str, Any]]:
        """How each member was trained.

        A dict of ``loss`` (mean training loss of each epoch), ``score`` (validation metric of each epoch, in the units
        of the target; NaN for networks of a refit, which have no validation rows), ``learning_rate``, ``metric`` (its
        name), ``best_epoch`` (whose weights are kept, from 1) and ``seconds``.
        """
        metric = self.config_.metric_for(self.trained_.objective)
        return [
            {
                "loss": history.loss,
                "score": metric.in_units(history.score, spread),
                "learning_rate": history.learning_rate,
                "metric": metric.name,
                "best_epoch": history.best_epoch,
                "seconds": history.seconds,
            }
            for history, spread in zip(self.trained_.histories, self.trained_.spreads, strict=True)
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
    def interactions_(self) -> list[list[tuple[Any, Any]]]:
        """Pairs of numerical columns whose interactions each member has; empty lists without interactions."""
        names = self.columns_.numerical_names
        out: list[list[tuple[Any, Any]]] = [[] for _ in self.trained_.histories]
        for piece in self.trained_.pieces:
            embedding = piece.network.pair_embedding
            for place, pairs in zip(piece.places, embedding.pairs if embedding is not None else (), strict=False):
                out[place] = [(names[first], names[second]) for first, second in pairs]
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
            held = self._held
            self._importances = shuffled_losses(
                held.table,
                self.columns_,
                lambda table: self._loss(self._outputs(table, held.trained)[held.members], held.target, held.weights),
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

    def effects(self, X: Any, columns: Sequence[Any] | None = None, *, n_points: int = 40) -> "list[FeatureEffect]":
        """Return how predictions depend on each column: partial dependence, and the lines of single rows.

        A column takes values that rows of `X` have, in up to 200 random rows; all else stays as it is. It works on
        tables with text, dates and missing values.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows such as those of the fit.
        columns : sequence, optional
            Names of columns, or positions in an array; by default all that the model uses.
        n_points : int, default=40
            Values of a number at most.

        Returns
        -------
        list of FeatureEffect
            With ``name``, ``values``, ``mean``, ``lines`` and ``outputs``.
        """
        from knotwork.estimators._explanations import effects  # noqa: PLC0415 - only explanations need it

        return effects(self, X, columns, n_points=n_points)

    def contributions(
        self, X: Any, background: Any = None, *, n_permutations: int = 16, random_state: Any = 0
    ) -> "Contributions":
        """Return what each column adds to each prediction, by sampled Shapley values.

        Columns of a background row take the values of the row of `X` one after the other, in random orders, each
        followed by its reverse; a contribution is the mean change of the prediction. Together with the baseline they
        add up to the prediction exactly; single ones have a sampling error that falls with the number of orders.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows to explain.
        background : table of shape (m, d), optional
            Rows that stand for the average; by default validation rows of the fit, which a loaded model does not have.
        n_permutations : int, default=16
            Number of orders. Each takes as many predictions as there are columns.
        random_state : int, RandomState or None, default=0
            Random seed.

        Returns
        -------
        Contributions
            With ``names``, ``values`` of shape (n, n_columns), and ``baseline``: numbers, or probabilities of the
            second of two classes; with more classes, a last axis of classes.
        """
        from knotwork.estimators._explanations import contributions  # noqa: PLC0415 - only explanations need it

        return contributions(self, X, background, n_permutations=n_permutations, random_state=random_state)

    def as_function(self, X: Any) -> "TableFunction":
        """Return the model as a function of a matrix of numbers, for libraries that need one, such as SHAP.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows that become the matrix.

        Returns
        -------
        TableFunction
            With ``matrix`` (numbers, and codes of categories), ``names`` of its columns, and ``function``, as in
            ``shap.Explainer(explained.function, explained.matrix, feature_names=explained.names)``.
        """
        from knotwork.estimators._explanations import table_function  # noqa: PLC0415 - only explanations need it

        return table_function(self, X)

    def plot_effects(self, X: Any, columns: Sequence[Any] | None = None) -> Any:
        """Draw the effects of columns: mean predictions, over lines of single rows.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows such as those of the fit.
        columns : sequence, optional
            Names of columns, or positions in an array; by default the nine most important ones.

        Returns
        -------
        matplotlib.figure.Figure
            One panel for each column.
        """
        from knotwork.estimators._explanations import plot_effects  # noqa: PLC0415 - only explanations need it

        return plot_effects(self, X, columns)

    def plot_history(self) -> Any:
        """Draw training loss and validation score of each member by epoch; dots mark the weights that are kept.

        Returns
        -------
        matplotlib.figure.Figure
            Two panels.
        """
        from knotwork.estimators._explanations import plot_history  # noqa: PLC0415 - only explanations need it

        check_is_fitted(self)
        return plot_history(self)

    def _repr_html_inner(self) -> str:
        html: str = super()._repr_html_inner()
        if not hasattr(self, "trained_"):
            return html
        from knotwork.estimators._explanations import column_pictures  # noqa: PLC0415 - only notebooks need it

        return html + pictures_html(column_pictures(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle


def _from_units(values: npt.NDArray[np.float64], units: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return values of a column in the units of the table."""
    return doubled(0.5 * units[0] + 0.5 * units[1] * values)


def doubled(halves: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return twice the values, at most the largest float: sums are formed by halves, because they may overflow."""
    most = 0.5 * np.finfo(np.float64).max
    doubled: npt.NDArray[np.float64] = 2.0 * np.clip(halves, -most, most)
    return doubled


@contextmanager
def restored_on_error(estimator: Any) -> Iterator[None]:
    """Leave an estimator as it was if its fit fails: networks of one fit do not belong to the classes of another."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
