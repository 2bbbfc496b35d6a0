"""The choice of an encoding for every column, by cross-validated additive ridge regressions on the encoded columns."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, type_error
from knotwork._equals import at_most, by_size, first_largest
from knotwork._tables import as_frame, check_weights, frame_names, read_numbers
from knotwork._writing import percent
from knotwork.basis import FittedColumn, FloatArray, compiled_table, encode_dense
from knotwork.encoders._methods import Encoding
from knotwork.knots import Column, Target

FEATURE_CANDIDATES = (
    "IS-CART@30",
    "PLE@30",
    "IS-Q@30",
    "BS-U@30",
    "BS-CART@30",
    "BS-Q@30",
    "IS-CART@15",
    "PLE@15",
    "IS-Q@15",
    "BS-U@15",
    "BS-Q@7",
    "Std",
)
"""Encodings to choose among for every column; of equally good ones the first is taken.

The first is among the best single encodings of MLP and ResNet for both tasks, by the test scores in `results/`."""


@dataclass(frozen=True)
class ChoiceRule:
    """How the encodings of columns are compared. All numbers are conventions.

    Parameters
    ----------
    fewest_rows : int
        With fewer rows the first candidate is taken without a comparison.
    most_rows, most_values : int
        Rows, and numbers of all columns encoded by the largest candidate, beyond which a random part of the rows is
        used: 30,000,000 numbers take 240 MB.
    n_folds, n_sweeps : int
        Folds of the cross-validation, and times that the curves of the additive model are fitted in turn.
    most_classes : int
        The indicators of this many most frequent classes are targets.
    penalties : tuple of float
        Ridge penalties among which the best is taken for each candidate, in rows: each is as strong as this many
        further rows at which the curve is zero.
    usual_penalty : float
        The penalty of the additive model.
    """

    fewest_rows: int = 40
    most_rows: int = 20_000
    most_values: int = 30_000_000
    n_folds: int = 5
    n_sweeps: int = 3
    most_classes: int = 10
    penalties: tuple[float, ...] = (0.3, 3.0, 30.0, 300.0)
    usual_penalty: float = 3.0


COMPARISON = ChoiceRule()


@dataclass(frozen=True)
class FeatureChoice:
    """The encoding that was chosen for a column, and why.

    Parameters
    ----------
    column : object
        Name of the column, or its place.
    encoding : str
        The chosen encoding, such as ``"PLE@30"``.
    losses : dict of str to float
        For each candidate the cross-validated squared error of the column's curve, as a share of that of no curve at
        all; empty if the table has too few rows to compare.
    reason : str
        The reason, with numbers.
    needs_none : bool, default=False
        Whether the column has at most two values, between which all encodings are straight lines.
    """

    column: Hashable
    encoding: str
    losses: Mapping[str, float]
    reason: str
    needs_none: bool = False


def choose_per_feature(
    X: Any,
    y: Any,
    *,
    candidates: Sequence[str] = FEATURE_CANDIDATES,
    task: str | None = None,
    sample_weight: Any = None,
    random_state: int = 0,
) -> list[FeatureChoice]:
    """Choose an encoding for every numerical column.

    Parameters
    ----------
    X : frame or array of shape (n, d)
        Training rows, numbers only; NaN is missing.
    y : array of shape (n,)
        Target.
    candidates : sequence of str
        Encodings with fixed knots, such as ``"BS-Q@15"``. The first one is chosen whose error is above the least by at
        most one standard error of the difference.
    task : {"regression", "classification"}, optional
        Task of the target. By default labels and integers with up to 20 distinct values are classes.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    random_state : int, default=0
        Random seed of the division of the rows.

    Returns
    -------
    list of FeatureChoice
        The choice for each column.

    Notes
    -----
    Knots are placed on one half of at most 20,000 rows. On the other half, in five folds, an additive model with the
    largest candidate for every column is fitted; without its curve for column j it leaves the partial residuals of j,
    on which each candidate is fitted by ridge regression. Losses are squared errors of these curves on the held rows;
    for classes the targets are their indicators. Of candidates whose errors are equal up to rounding the first is
    taken. The halves and folds are drawn by the order of the rows: permuted rows are divided in another way.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> y = np.sin(20 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=2000)
    >>> choices = choose_per_feature(X, y, candidates=["Std", "BS-Q@7", "BS-Q@15"])
    >>> [choice.encoding for choice in choices]
    ['BS-Q@15', 'Std']

    A transformer with these encodings:

    >>> from knotwork import make_encoder
    >>> encoder = make_encoder({choice.column: choice.encoding for choice in choices})
    """
    frame = as_frame(X)
    numbers = np.asarray(read_numbers(X), dtype=np.float64)
    names = list(range(numbers.shape[1])) if frame is None else frame_names(frame)
    target = Target.from_values(y, task)
    if len(target.values) != len(numbers):
        raise argument_error("y", f"have as many values as X has rows, {len(numbers)}", len(target.values))
    weights = check_weights(sample_weight, len(numbers))
    return choose_columns(
        numbers,
        target.values,
        names=names,
        task=target.task,
        weights=weights,
        candidates=_read_candidates(candidates),
        seed=random_state,
    )


def _read_candidates(candidates: Sequence[str]) -> list[Encoding]:
    """Return the encodings with these names; learned knots and embeddings raise an error."""
    if isinstance(candidates, str) or not isinstance(candidates, Sequence) or not len(candidates):
        raise type_error("candidates", "be a sequence of encodings", candidates, "Write ['Std', 'BS-Q@15'].")
    encodings = [Encoding.parse(spec, 15, argument="candidates") for spec in candidates]
    for encoding in encodings:
        encoding.encoder()  # raises if a part of it is learned with a network
    return list(dict.fromkeys(encodings))


def choose_columns(
    numbers: FloatArray,
    target: npt.NDArray[Any],
    *,
    names: Sequence[Hashable],
    task: str,
    weights: FloatArray | None = None,
    candidates: Sequence[Encoding] | None = None,
    seed: int = 0,
) -> list[FeatureChoice]:
    """Choose an encoding for every column of an array; see `choose_per_feature`.

    The target, of shape (n,) or (n, k), has numbers or codes of classes.
    """
    candidates = _read_candidates(FEATURE_CANDIDATES) if candidates is None else list(candidates)
    sizes = [candidate.size or 1 for candidate in candidates]
    n_rows = int(min(COMPARISON.most_rows, COMPARISON.most_values / max(numbers.shape[1] * max(sizes), 1)))
    rows = np.random.default_rng(seed).permutation(len(numbers))[:n_rows]
    if len(rows) < COMPARISON.fewest_rows or len(candidates) == 1:
        is_single = len(candidates) == 1
        reason = "It is the only candidate." if is_single else f"{len(numbers)} rows are too few to compare others."
        return [FeatureChoice(name, str(candidates[0]), {}, reason) for name in names]
    placing, scoring = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    goal = Target.from_values(target[placing] if target.ndim == 1 else target[placing, 0], task)
    encoders = [candidate.encoder() for candidate in candidates]
    candidates_of = []  # for each column, its encoding by each candidate
    for place, values in enumerate(numbers[placing].T):
        column = Column.from_values(values, None if weights is None else weights[placing])
        candidates_of.append([encoder.fit_column(column, goal, seed=seed + place) for encoder in encoders])
    weights = np.ones(len(scoring)) if weights is None else weights[scoring]
    columns, largest = numbers[scoring].T, int(np.argmax(sizes))
    designs = [next(_designs(column, fitted[largest:])) for column, fitted in zip(columns, candidates_of, strict=True)]
    additive = _Additive(_responses(target[scoring], task, weights), weights, designs, seed)
    choices = [
        _choice(name, candidates, *additive.errors(place, _designs(columns[place], candidates_of[place])), weights)
        for place, name in enumerate(names)
    ]
    return [_without_need(choice, values) for choice, values in zip(choices, numbers[rows].T, strict=True)]


def _designs(values: FloatArray, encodings: Sequence[FittedColumn]) -> Iterator[FloatArray]:
    """Yield the encoded columns of each fitted candidate of a column."""
    missing = np.isnan(values)
    for encoding in encodings:
        table = compiled_table((encoding,), extrapolation="clip", indicator=False)
        design = encode_dense(values[:, None], table, dtype=np.dtype(np.float64), n_threads=1)
        yield np.column_stack([design, missing]) if missing.any() else design


@final
class _Additive:
    """Additive ridge regressions, one for each fold, that leave partial residuals of every column.

    Parameters
    ----------
    responses : ndarray of shape (n, k)
        Targets.
    weights : ndarray of shape (n,)
        Weights of the rows.
    designs : sequence of ndarray of shape (n, m)
        The encoded values of each column; curves are fitted by backfitting.
    seed : int
        Random seed of the folds.
    """

    def __init__(self, responses: FloatArray, weights: FloatArray, designs: Sequence[FloatArray], seed: int) -> None:
        self.weights = weights
        self.folds = np.random.default_rng(seed).permutation(len(weights)) % COMPARISON.n_folds
        self.in_training = np.array([weights * (self.folds != fold) for fold in range(COMPARISON.n_folds)])
        self.residuals = np.array([responses - np.average(responses, axis=0, weights=w) for w in self.in_training])
        self.designs = [design - np.average(design, axis=0, weights=weights) for design in designs]
        self.curves = [np.zeros((COMPARISON.n_folds, design.shape[1], responses.shape[1])) for design in designs]
        solvers = [self._solvers(design, (COMPARISON.usual_penalty,)) for design in self.designs]
        strengths = []  # how much of the residuals the curves of a column explain by themselves
        for design, by_fold in zip(self.designs, solvers, strict=True):
            products = [self._products(design, part, fold) for fold, part in enumerate(self.residuals)]
            explained = [float((solver(each)[0] * each).sum()) for solver, each in zip(by_fold, products, strict=True)]
            strengths.append(sum(explained))
        # The strongest column comes first, so that the order of the columns in the table has no effect.
        for place in np.tile(by_size(strengths), COMPARISON.n_sweeps):
            for fold, solver in enumerate(solvers[place]):
                partial = self._partial(place, fold)
                [curve] = solver(self._products(self.designs[place], partial, fold))
                self.residuals[fold] = partial - self.designs[place] @ curve
                self.curves[place][fold] = curve

    def _products(self, design: FloatArray, residuals: FloatArray, fold: int) -> FloatArray:
        """Return the products of a design and residuals in the rows that a fold's model is fitted on."""
        products: FloatArray = design.T @ (residuals * self.in_training[fold][:, None])
        return products

    def _partial(self, place: int, fold: int) -> FloatArray:
        """Return the residuals of a fold's model without its curve of a column."""
        partial: FloatArray = self.residuals[fold] + self.designs[place] @ self.curves[place][fold]
        return partial

    def _solvers(self, design: FloatArray, penalties: Sequence[float]) -> list["_Solver"]:
        """Return the ridge regressions of each fold."""
        by_fold = [design[self.folds == fold] for fold in range(COMPARISON.n_folds)]
        weight = [self.weights[self.folds == fold][:, None] for fold in range(COMPARISON.n_folds)]
        products = [part.T @ (part * each) for part, each in zip(by_fold, weight, strict=True)]
        total = np.sum(products, axis=0)
        return [_Solver(total - product, self.in_training[f].sum(), penalties) for f, product in enumerate(products)]

    def errors(self, place: int, designs: Iterable[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return squared errors on held rows: of each design, of shape (n_designs, n), and of no curve at all."""
        partials = [self._partial(place, fold) for fold in range(COMPARISON.n_folds)]
        nothing: FloatArray = (np.array(partials)[self.folds, np.arange(len(self.folds))] ** 2).sum(axis=1)
        return np.array([self._errors(design, partials) for design in designs]), nothing

    def _errors(self, design: FloatArray, partials: Sequence[FloatArray]) -> FloatArray:
        """Return the squared errors of a design with its best penalty."""
        design = design - np.average(design, axis=0, weights=self.weights)
        out = np.empty((len(COMPARISON.penalties), len(design)))
        for fold, solver in enumerate(self._solvers(design, COMPARISON.penalties)):
            held = self.folds == fold
            for penalty, curve in enumerate(solver(self._products(design, partials[fold], fold))):
                out[penalty, held] = ((partials[fold][held] - design[held] @ curve) ** 2).sum(axis=1)
        best: FloatArray = out[first_largest(-(out @ self.weights))]
        return best


@final
class _Solver:
    """Ridge regressions with one matrix of products and several penalties."""

    def __init__(self, products: FloatArray, n_rows: float, penalties: Sequence[float]) -> None:
        self.values, self.vectors = np.linalg.eigh(products)
        self.penalties = [penalty * max(np.trace(products) / (n_rows * len(products)), 1e-12) for penalty in penalties]

    def __call__(self, products: FloatArray) -> list[FloatArray]:
        """Return the coefficients of each penalty, given the products with the targets."""
        rotated = self.vectors.T @ products
        values = np.maximum(self.values, 0.0)[:, None]
        return [self.vectors @ (rotated / (values + penalty)) for penalty in self.penalties]


def _responses(target: npt.NDArray[Any], task: str, weights: FloatArray) -> FloatArray:
    """Return targets of squared errors, of total variance 1: numbers, or indicators of the most frequent classes."""
    if task == "classification":
        classes, codes = np.unique(target, return_inverse=True)
        frequent = np.argsort(-np.bincount(codes, weights), kind="stable")[
            : 1 if len(classes) == 2 else COMPARISON.most_classes
        ]
        values = (codes[:, None] == frequent).astype(np.float64)
    else:
        values = target.astype(np.float64).reshape(len(target), -1)
        values = values / np.maximum(np.abs(values).max(axis=0), 1e-300)
    values -= np.average(values, axis=0, weights=weights)
    spread = np.sqrt(np.average(values**2, axis=0, weights=weights))
    scaled: FloatArray = values / np.where(spread > 0, spread, 1.0) / np.sqrt(values.shape[1])
    return scaled


def first_good(errors: FloatArray, weights: FloatArray) -> tuple[int, FloatArray]:
    """Return the first candidate that is at most one standard error of the difference worse than the best.

    Of several margins, and other rules, this one had the best validation scores of networks on the tables of the study
    (docs/choices.md).

    Parameters
    ----------
    errors : ndarray of shape (n_candidates, n)
        Squared errors.
    weights : ndarray of shape (n,)
        Weights of the rows.

    Returns
    -------
    int, ndarray of shape (n_candidates,)
        The candidate, and the standard error of the difference of each candidate to it.
    """
    shares = weights / weights.sum()
    losses = errors @ shares
    deviations = (errors - losses[:, None]) * shares
    best = first_largest(-losses)
    margins = np.linalg.norm(deviations - deviations[best], axis=1)
    place = int(np.argmax(at_most(losses, losses[best] + margins)))
    return place, np.linalg.norm(deviations - deviations[place], axis=1)


def _choice(
    name: Hashable, candidates: Sequence[Encoding], errors: FloatArray, nothing: FloatArray, weights: FloatArray
) -> FeatureChoice:
    """Return the choice for a column with its reason, by the squared errors of candidates and without a curve."""
    place, deviations = first_good(errors, weights)
    losses, without = (each @ (weights / weights.sum()) for each in (errors, nothing))
    least = 1e-300
    table = {str(each): float(loss / max(without, least)) for each, loss in zip(candidates, losses, strict=True)}
    gain, error = 1.0 - losses[place] / max(losses[0], least), deviations[0] / max(losses[0], least)
    reason = (
        f"{percent(gain)} less error than {candidates[0]} (standard error {percent(error)})."
        if place
        else f"No other candidate is better than {candidates[0]} by more than the standard error."
    )
    best = first_largest(-losses)
    gain, error = (float(each / max(losses[place], least)) for each in (losses[place] - losses[best], deviations[best]))
    if gain >= 0.0005:  # what is not written as less than 0.1 %
        reason += f" {candidates[best]} has {percent(gain)} less, within its standard error of {percent(error)}."
    return FeatureChoice(name, str(candidates[place]), table, reason)


def _without_need(choice: FeatureChoice, values: FloatArray) -> FeatureChoice:
    """Return the choice of a column, which says so if its values need no encoding."""
    n_values = len(np.unique(values[~np.isnan(values)]))
    if n_values > 2:
        return choice
    reason = f"It has {('no', 'one', 'two')[n_values]} value{'s' * (n_values != 1)} and needs no encoding."
    return replace(choice, reason=reason, needs_none=True)
