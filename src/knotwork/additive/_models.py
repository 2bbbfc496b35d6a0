"""Additive models: the sum of a curve for each column, and of surfaces for chosen pairs."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from time import perf_counter
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from knotwork._checks import argument_error, check_int, warn_user
from knotwork._equals import by_size
from knotwork._graph import Graph
from knotwork._light import Predictor, check_suffix, export
from knotwork._model_page import PageSubject, ReportedEstimator
from knotwork._preparation.columns import CodedTable, Columns, ReadTable
from knotwork._preparation.targets import Labels, check_target, target_name
from knotwork._tables import check_weights
from knotwork.additive._edits import EditScores, with_edits
from knotwork.additive._effects import AdditiveEffect, Contributions, effects_of, plot
from knotwork.additive._fitting import ROWS_PER_PART, Design, Solution, fit_classes, fit_numbers
from knotwork.additive._growing import AdditiveFit, owners_of
from knotwork.additive._terms import (
    Term,
)
from knotwork.basis import FloatArray
from knotwork.knots import Column

MANY_CLASSES = 50
"""Classes from which on a fit takes so long that it is said before."""

LEVELS = np.linspace(0.0, 1.0, 2001)
"""Levels of the quantiles of residuals that are kept for intervals."""


class AdditiveModel(ReportedEstimator):
    """The common part of the two estimators."""

    columns_: Columns
    target_name_: str | None
    terms_: list[Term]
    solutions_: list[Solution]
    term_importances_: FloatArray
    edit_scores_: EditScores | None = None

    def __init__(
        self,
        *,
        size: int = 100,
        pairs: int | Sequence[tuple[Any, Any]] = 0,
        monotone: Mapping[Any, str] | None = None,
        curvature: Mapping[Any, str] | str | None = None,
        categorical: Any = None,
    ) -> None:
        self.size = size
        self.pairs = pairs
        self.monotone = monotone
        self.curvature = curvature
        self.categorical = categorical

    @abstractmethod
    def _read_target(self, y: Any) -> FloatArray:
        """Return the responses of the fits, of shape (n_fits, n)."""

    @abstractmethod
    def _solve(self, fit: AdditiveFit, draft: list[Solution] | None, *, is_draft: bool) -> list[Solution]:
        """Fit all responses, from the start that a first fit gives."""

    @abstractmethod
    def _residuals(self, fit: AdditiveFit) -> tuple[FloatArray, FloatArray]:
        """Return responses minus their fitted means, and the variances of the responses, of shape (n_fits, n)."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the curves.

        Parameters
        ----------
        X : table of shape (n, d)
            NumPy array, or pandas, polars or pyarrow table: numbers, booleans, dates, text and categories.
        y : array-like of shape (n,)
            The target.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows: a row of weight 2 counts as two rows, one of weight 0 as none.

        Returns
        -------
        self
            The fitted model.
        """
        from knotwork.additive._page import remembered  # noqa: PLC0415 - it imports this module

        check_int(self.size, "size", minimum=4)
        if y is None:
            hint = "This estimator requires y to be passed, but the target y is None."
            raise argument_error("y", "be given", None, hint)
        began = perf_counter()
        columns, table = X if isinstance(X, ReadTable) else Columns.learn(X, self.categorical)
        columns.warn()
        table, target, weights = _used_rows(table, y, sample_weight)
        responses = self._read_target(target)
        self.columns_, self.target_name_ = columns, target_name(y)
        self._set_names()
        fit = AdditiveFit(self, table, responses, weights)
        self.terms_, self.solutions_ = fit.run()
        self.term_importances_ = fit.importances()
        self._finish(fit)
        self._record = remembered(self, table, fit.responses, sums=fit.sums, weights=weights, began=began)
        return self

    def _finish(self, fit: AdditiveFit) -> None:
        """Keep what is needed later of the fit, besides terms and solutions."""

    def _set_names(self) -> None:
        self.n_features_in_ = len(self.columns_)
        if self.columns_.names is not None:
            self.feature_names_in_ = np.array(self.columns_.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _read(self, X: Any) -> CodedTable:
        check_is_fitted(self)
        return X if isinstance(X, CodedTable) else self.columns_.read(X)

    def _sums(self, X: Any) -> FloatArray:
        """Return the sums of all terms, of shape (n_fits, n)."""
        table = self._read(X)
        design = Design(self.terms_, table)
        return np.stack([design.sums(solution.beta) for solution in self.solutions_])

    def contributions(self, X: Any) -> Contributions:
        """Return what each term adds to each prediction: together with the intercept exactly the prediction.

        Those of a classifier add up to `decision_function`.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit.

        Returns
        -------
        Contributions
            With ``names`` of the terms, ``values`` of shape (n, n_terms), for more than two classes (n, n_terms,
            n_classes), and ``baseline``, the intercept.
        """
        table = self._read(X)
        values = np.zeros((len(table.numbers), len(self.terms_), len(self.solutions_)))
        design = Design(self.terms_, table)
        for place, solution in enumerate(self.solutions_):
            for rows, parts in design.contributions(solution.beta):
                for term, part in enumerate(parts):
                    values[rows, term, place] = part
        names = [term.label for term in self.terms_]
        return Contributions(names, values[:, :, 0] if len(self.solutions_) == 1 else values, self.intercept_)

    @property
    def term_names_(self) -> list[str]:
        """Names of the terms: columns, then pairs."""
        check_is_fitted(self)
        return [term.label for term in self.terms_]

    @property
    def intercept_(self) -> Any:
        """What is predicted where all terms are zero: a number, or one for each class."""
        check_is_fitted(self)
        intercepts = np.array([solution.beta[0] for solution in self.solutions_])
        return float(intercepts[0]) if len(intercepts) == 1 else intercepts

    @property
    def feature_importances_(self) -> FloatArray:
        """Mean absolute contribution of each column to the training rows; that of a pair counts half for each."""
        check_is_fitted(self)
        names = self.columns_.labels
        owners = owners_of(self.columns_)
        out = np.zeros(len(names))
        for term, importance in zip(self.terms_, self.term_importances_, strict=True):
            pair = term.name if isinstance(term.name, tuple) else (term.name,)
            for name in pair:
                out[owners[name]] += importance / len(pair)
        return out

    def effects(self, columns: Sequence[Any] | None = None, *, interval: float = 0.95) -> list[AdditiveEffect]:
        """Return the curve of each column, and the surface of each pair, with intervals.

        Parameters
        ----------
        columns : str or sequence, optional
            Names of columns, or positions in an array; pairs as tuples. By default all terms.
        interval : float, default=0.95
            Probability that the effect at a value lies in its interval.

        Returns
        -------
        list of AdditiveEffect
            With ``name``, ``values``, ``effect``, ``low``, ``high`` and ``degrees``.
        """
        check_is_fitted(self)
        return effects_of(self, columns, _check_share(interval, "interval"))

    def plot_effects(self, columns: Sequence[Any] | None = None, *, interval: float = 0.95) -> Any:
        """Draw curves with their intervals, and pairs as maps.

        Parameters
        ----------
        columns : sequence, optional
            As in `effects`; by default the nine most important terms.
        interval : float, default=0.95
            As in `effects`.

        Returns
        -------
        matplotlib.figure.Figure
            One panel for each term.
        """
        if columns is None:
            check_is_fitted(self)
            order = by_size(self.term_importances_)
            columns = [self.terms_[place].name for place in order[:9]]
        return plot(self, self.effects(columns, interval=interval))

    def with_edits(self, edits: Any, X: Any = None, y: Any = None) -> Self:
        """Return a copy of the fitted model whose curves are those that a person has drawn.

        The page of `knotwork.explore_model` writes such edits. The model predicts the edited curves exactly; all
        others, the intercept, importances and widths of intervals remain. It is saved and exported as any other.

        Parameters
        ----------
        edits : mapping, str or path
            The edits, or a JSON file with them: see Notes.
        X, y : table of shape (n, d) and array-like of shape (n,), optional
            Further rows and their target, for ``edit_scores_`` of the returned model: scores before and after.

        Returns
        -------
        AdditiveRegressor or AdditiveClassifier
            The edited model; this one remains as it is.

        Notes
        -----
        The JSON has ``"format": "knotwork edits 1"`` and ``"curves"``, a list of objects with these keys only:
        ``"column"``, its name or position; ``"points"``, pairs ``[value, effect]`` that straight lines join, or
        ``"coefficients"`` of the column's B-splines, to whose knots ``"knots"`` may add some; ``"missing"``, the effect
        of missing values; ``"class"``, if there are more than two. Effects are in the target's units, or log odds.

        Examples
        --------
        >>> X = np.random.default_rng(0).uniform(size=(500, 1))
        >>> model = AdditiveRegressor().fit(X, X[:, 0] ** 2)
        >>> curve = {"column": 0, "points": [[0.0, -0.3], [0.5, 0.0], [1.0, 0.0]]}
        >>> edited = model.with_edits({"format": "knotwork edits 1", "curves": [curve]})
        >>> (edited.predict([[0.25], [0.7]]) - edited.intercept_).round(6)
        array([-0.15,  0.  ])
        """
        check_is_fitted(self)
        return with_edits(self, edits, X, y)

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that `knotwork.load` reads, without pickle.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        """
        from knotwork.additive._saving import save  # noqa: PLC0415 - it imports this module

        check_is_fitted(self)
        save(self, path)

    def _page_subject(self) -> PageSubject:
        from knotwork.additive._page import page_subject  # noqa: PLC0415 - it imports this module

        return page_subject(self)

    def export(self, path: str | Path) -> None:
        """Write the model as code or in another format; the suffix of the file says which.

        Predictions are those of `predict` to a relative 1e-5, missing values and unseen categories included. Formats
        are those of `knotwork.TabularRegressor.export`; ``.sql`` as well.

        Parameters
        ----------
        path : str or Path
            The file; an existing one is replaced.
        """
        check_is_fitted(self)
        export(self._predictor, path, check_suffix(path))

    def _predictor(self) -> Predictor:
        """Return the fitted model as a graph."""
        from knotwork.additive._graph import predictor_of_terms  # noqa: PLC0415 - only exports need it

        check_is_fitted(self)
        labels = self.labels_ if isinstance(self, AdditiveClassifier) else None
        names = [""] if labels is None else [str(label) for label in labels.values]
        return predictor_of_terms(
            self.terms_,
            self.solutions_,
            Predictor(Graph(), self.columns_, labels, tuple(names), target_name=self.target_name_),
        )

    def summary(self) -> str:
        """Return a text of the terms, the most important first: how much they add, and how curved they are."""
        check_is_fitted(self)
        degrees = np.max([solution.degrees for solution in self.solutions_], axis=0)
        width = max((len(term.label) for term in self.terms_), default=4)
        lines = [f"{'term':{width}}  mean effect  degrees"]
        for place in by_size(self.term_importances_).tolist():
            term, importance = self.terms_[place], self.term_importances_[place]
            lines.append(f"{term.label:{width}}  {importance:11.4g}  {degrees[place]:7.1f}")
        return "\n".join(
            [*lines, f"{'intercept':{width}}  {np.array2string(np.asarray(self.intercept_), precision=4)}"]
        )

    def _output_names(self) -> list[str]:
        """Return the names of the fits: the target, or classes."""
        return ["prediction"]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "solutions_")


def _check_share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < 1.0:
        raise argument_error(name, "be a number between 0 and 1", value)
    return float(value)


def _used_rows(table: CodedTable, y: Any, sample_weight: Any) -> tuple[CodedTable, Any, FloatArray]:
    """Return the rows, their target and their weights without rows of weight zero."""
    n_rows = len(table.numbers)
    target = y if hasattr(y, "shape") or isinstance(y, list | tuple) else np.asarray(y)
    if np.ndim(target) and len(target) != n_rows:
        raise argument_error("y", f"have as many values as X has rows, {n_rows}", len(target))
    weights = check_weights(sample_weight, n_rows)
    if weights is None:
        return table, target, np.ones(n_rows)
    used = np.flatnonzero(weights)
    if len(used) < n_rows:
        target = np.asarray(target, dtype=object if isinstance(target, list | tuple) else None)[used]
        table = table.take(used)
    return table, target, weights[used]


@final
class AdditiveRegressor(RegressorMixin, AdditiveModel):
    """Predict a number by the sum of a curve for each column: a model whose every part can be read.

    A curve consists of cubic B-splines with knots at quantiles, or, in a column with wide gaps between its values, of
    straight lines, which do not swing where there are no rows. How smooth it is follows from the data: each has two
    penalties, whose strengths are chosen by restricted maximum likelihood, so that a column without effect vanishes.
    Categories are shrunk towards their mean, and missing values have an effect of their own. The fit is a closed form,
    and needs neither torch nor a random seed: the order of rows and columns, and weights in place of repeated rows,
    change it by rounding errors only. Rows outside the range of the training rows are moved to its ends.

    Parameters
    ----------
    size : int, default=100
        Splines per column at most, at least 4. All columns begin with 32; those that use them get up to `size`. With
        few rows or very many columns there are fewer.
    pairs : int or sequence of pairs of columns, default=0
        Surfaces of two columns beyond their curves: a number of pairs, those that explain most of the residuals, or
        named pairs, as in ``[("latitude", "longitude")]``. Columns of `monotone` and `curvature` are in no pair.
    monotone : mapping, optional
        Columns whose curves must rise or fall: ``{"age": "increasing", "distance": "decreasing"}``.
    curvature : mapping or "linear", optional
        Columns whose curves must be ``"convex"``, ``"concave"`` or ``"linear"``; the word alone makes all of them
        straight lines, which is a linear model.
    categorical : sequence, optional
        Columns of numbers that are categories: names, or positions in an array.

    Attributes
    ----------
    term_names_ : list of str
        Names of the terms: columns, then pairs.
    intercept_ : float
        What is predicted where all terms are zero.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Mean absolute contribution of each column.
    term_importances_ : ndarray of shape (n_terms,)
        Mean absolute contribution of each term.
    columns_ : Columns
        What each column of the table holds.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> model = AdditiveRegressor().fit(X, np.sin(6 * X[:, 0]))
    >>> round(model.score(X, np.sin(6 * X[:, 0])), 3)
    1.0
    >>> [round(effect.degrees, 1) > 1 for effect in model.effects()]
    [True, False]
    """

    def predict(self, X: Any) -> FloatArray:
        """Return predictions, of shape (n,).

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names.
        """
        sums: FloatArray = self._sums(X)[0]
        return sums

    def predict_interval(self, X: Any, coverage: float = 0.9) -> FloatArray:
        """Return intervals that contain the target of a share of new rows.

        Their widths are quantiles of the residuals of the training rows, enlarged by the degrees of freedom that the
        fit used and by the standard error of each prediction.

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names.
        coverage : float, default=0.9
            Share of rows whose target is inside, between 0 and 1; equal shares are below and above.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends.
        """
        share = _check_share(coverage, "coverage")
        return self._intervals(self._read(X), share)

    def _intervals(self, table: CodedTable, share: float) -> FloatArray:
        """Return intervals for a table as it was read."""
        solution = self.solutions_[0]
        ends = np.interp([0.5 - 0.5 * share, 0.5 + 0.5 * share], LEVELS, self.residuals_)
        means = Design(self.terms_, table).sums(solution.beta)
        parts = [np.einsum("ij,jk,ik->i", rows, solution.covariance, rows) for rows in self._rows(table)]
        variances = np.concatenate(parts) / max(solution.scale, 1e-300)
        widths = np.sqrt(1.0 + np.maximum(variances, 0.0))
        intervals: FloatArray = means[:, None] + ends * widths[:, None]
        return intervals

    def _rows(self, table: CodedTable) -> Iterator[FloatArray]:
        """Yield the rows of the design in chunks."""
        for start in range(0, len(table.numbers), ROWS_PER_PART):
            rows = slice(start, start + ROWS_PER_PART)
            part = table.take(rows)
            yield np.concatenate(
                [np.ones((len(part.numbers), 1)), *(term.combine(term.encode(part)) for term in self.terms_)], axis=1
            )

    def _read_target(self, y: Any) -> FloatArray:
        target = check_target(y)
        if target.ndim > 1:
            raise argument_error("y", "have one column", tuple(target.shape), "Fit one model for each target.")
        return target[None]

    def _solve(self, fit: AdditiveFit, draft: list[Solution] | None, *, is_draft: bool) -> list[Solution]:
        start = None if draft is None else draft[0]
        return [fit_numbers(fit.design, fit.responses[0], fit.weights, draft=start, is_draft=is_draft)]

    def _residuals(self, fit: AdditiveFit) -> tuple[FloatArray, FloatArray]:
        solution = fit.solutions[0]
        residuals = (fit.responses - fit.sums) / solution.unit
        return residuals, np.full_like(residuals, max(solution.scale, 1e-300))

    def _finish(self, fit: AdditiveFit) -> None:
        n_rows = float(fit.weights.sum())
        used = min(1.0 + float(self.solutions_[0].degrees.sum()), 0.9 * n_rows)
        column = Column.from_values(fit.responses[0] - fit.sums[0], fit.weights)
        self.residuals_ = column.quantiles(LEVELS) * np.sqrt(n_rows / (n_rows - used))


@final
class AdditiveClassifier(ClassifierMixin, AdditiveModel):
    """Predict classes by sums of curves, which are the log odds of the second of two classes.

    Of more than two classes each has its own curves, and their sums become probabilities by the softmax function.
    Classes that columns separate completely have finite curves, because all of them are penalised.

    Parameters
    ----------
    size, pairs, monotone, curvature, categorical
        As in `AdditiveRegressor`; shapes are those of the log odds of the second of two classes, or of all classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    term_names_, intercept_, feature_importances_, term_importances_, columns_, n_features_in_, feature_names_in_
        As in `AdditiveRegressor`.

    Examples
    --------
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> model = AdditiveClassifier().fit(X, X[:, 0] > 0.5)
    >>> model.predict_proba(X[:5]).shape
    (5, 2)
    """

    def decision_function(self, X: Any) -> FloatArray:
        """Return log odds of the second of two classes, of shape (n,), or sums of every class, of shape (n, n_classes).

        Parameters
        ----------
        X : table of shape (n, d)
            The columns of the fit, in any order if they have names.
        """
        sums = self._sums(X)
        return sums[0] if len(sums) == 1 else sums.T

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, of shape (n, n_classes); parameters as in `decision_function`."""
        sums = self._sums(X)
        if self.labels_.n_classes == 1:
            return np.ones((sums.shape[1], 1))
        if len(sums) == 1:
            return np.stack([expit(-sums[0]), expit(sums[0])], axis=1)
        shares: FloatArray = softmax(sums.T, axis=1)
        return shares

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the most probable class of each row, of shape (n,); parameters as in `decision_function`."""
        codes = self.predict_proba(X).argmax(axis=1)
        return self.labels_.decode(codes)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels, sorted."""
        check_is_fitted(self)
        return self.labels_.classes

    def _output_names(self) -> list[str]:
        names = [str(label) for label in self.classes_.tolist()]
        return names if len(self.solutions_) > 1 else names[-1:]

    def _read_target(self, y: Any) -> FloatArray:
        self.labels_, codes = Labels.from_values(y)
        n_classes = self.labels_.n_classes
        if n_classes > MANY_CLASSES:
            hint = "If they are numbers, AdditiveRegressor takes seconds."
            warn_user(f"y has {n_classes} classes, each of which gets curves of its own: that may take long. {hint}")
        fitted = range(n_classes) if n_classes > 2 else [n_classes - 1]
        return np.stack([(codes == code).astype(np.float64) for code in fitted])

    def _solve(self, fit: AdditiveFit, draft: list[Solution] | None, *, is_draft: bool) -> list[Solution]:
        start = None if draft is None else (draft, fit.sums)
        return fit_classes(fit.design, fit.responses, fit.weights, draft=start, is_draft=is_draft)

    def _residuals(self, fit: AdditiveFit) -> tuple[FloatArray, FloatArray]:
        means = expit(fit.sums) if len(fit.sums) == 1 else softmax(fit.sums, axis=0)
        return fit.responses - means, np.maximum(means * (1.0 - means), 1e-6)
