"""The fit of additive models: penalised least squares, and reweighted least squares for classes.

Let X be the rows of all terms after a column of ones, W the weights, z the working response and S the penalty. The
coefficients are

    beta = V X'Wz,    V = (X'WX + S)^-1,    S = diag( sum_k lambda_k d_k ).

A row of a term has few functions that differ from zero, so that X'WX is summed from small products, in one pass over
the rows and in chunks of them. Each lambda is chosen by restricted maximum likelihood, by the updates of Fellner and
Schall as generalised by Wood and Fasiolo (2017),

    lambda_k <- lambda_k phi ( sum_j d_kj / s_j - sum_j d_kj V_jj ) / sum_j d_kj beta_j^2,    s = diag S,

where phi is the variance of the residuals, or 1 for classes. An update needs only the diagonal of V.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dlauum, dtrtri
from scipy.optimize import nnls
from scipy.special import expit, softmax

from knotwork._equals import EQUAL
from knotwork._loops import compiled
from knotwork._preparation.columns import CodedTable
from knotwork.additive._terms import Curve, Local, Term, Ties
from knotwork.basis import FloatArray

DIAGONAL_SHARE = 1e-10
"""Share of the diagonal of X'WX that is added to it, more if the matrix is singular."""

CANCELLED = 1e-4
"""If less than this share of the squares is left, it is summed over the rows: the difference of two sums would have few
valid digits."""

FEWEST_FREE = 0.1
"""Share of the rows that count as free at least: few rows could all be fitted exactly, and the residuals vanish."""

NO_COVARIANCE = np.empty((0, 0))
"""The covariance of a first fit, which is unused."""

DENSE_SPEED = 8.0
"""How much faster a product of dense matrices is than one of single entries, by the number of products."""

DENSE_ENTRIES = 1 << 23
"""Entries of a dense matrix of rows at most: more rows are multiplied in parts."""

Products = dict[tuple[Term, Term], FloatArray]
"""The weighted products of the functions of two terms, of which the first does not come before the second."""

ROWS_PER_PART = 1 << 15
MOST_KEPT_BYTES = 1 << 28
"""Rows that are encoded together, and bytes of encoded rows that are kept; with more, each pass encodes them again."""


@dataclass(frozen=True)
class UpdateRule:
    """The updates of smoothing parameters; conventions, except that larger updates than the formula's arrive earlier.

    Parameters
    ----------
    smallest, largest : float
        Limits of a smoothing parameter, relative to the size of X'WX.
    largest_factor, haste : float
        Factor of a smoothing parameter in an update at most, and its power that is used: updates approach their end
        from one side.
    most, of_draft : int
        Maximum number of updates, and that of a first fit.
    precision : float
        Updates end when the degrees of freedom of all terms change by no more than this share.
    """

    smallest: float = 1e-6
    largest: float = 1e8
    largest_factor: float = 20.0
    haste: float = 1.5
    most: int = 30
    of_draft: int = 6
    precision: float = 0.02


UPDATES = UpdateRule()


@dataclass(frozen=True)
class StepRule:
    """The steps of reweighted least squares, each of which computes the products of all rows again; conventions.

    Parameters
    ----------
    most, of_draft : int
        Maximum number of steps, and that of a first fit.
    flat : float
        Steps end when the likelihood changes by no more than this share.
    most_halved : int
        Maximum number of halvings of a step.
    most_worse : float
        Factor of the deviance after a step, at most: it may rise a little for a smoother fit.
    smallest_variance : float
        Minimum variance of a class in a row: the working response of rows that are certain would be infinite.
    """

    most: int = 25
    of_draft: int = 4
    flat: float = 1e-4
    most_halved: int = 10
    most_worse: float = 1.1
    smallest_variance: float = 1e-6


CLASS_STEPS = StepRule()


@compiled()
def _add_products(windows, others, first, second, weights, out):
    """Add the weighted products of the functions of two terms.

    `windows` and `others` have the shapes of their values, runs and functions of a run: with lengths that the compiler
    knows, all but the outermost loop become a few vector operations.
    """
    for row in range(len(weights)):
        for run in range(len(windows)):
            start = np.uintp(first.starts[row, run])
            for other in range(len(others)):
                place = np.uintp(second.starts[row, other])
                for a in range(len(windows[0])):
                    value = weights[row] * first.values[row, run, a]
                    for b in range(len(others[0])):
                        out[start + np.uintp(a), place + np.uintp(b)] += value * second.values[row, other, b]


@compiled()
def _spread(first, starts, values, out):
    """Add the functions of a term to the rows of a dense matrix, from the column `first` on."""
    for row in range(len(out)):
        for run in range(starts.shape[1]):
            for a in range(values.shape[2]):
                out[row, first + starts[row, run] + a] += values[row, run, a]


@compiled()
def _add_totals(starts, values, weights, out):
    """Add the weighted functions of a term."""
    for row in range(len(weights)):
        for run in range(starts.shape[1]):
            for a in range(values.shape[2]):
                out[starts[row, run] + a] += weights[row] * values[row, run, a]


@compiled()
def _add_sums(starts, values, coefficients, out):
    """Add a term to each row."""
    for row in range(len(out)):
        for run in range(starts.shape[1]):
            for a in range(values.shape[2]):
                out[row] += coefficients[starts[row, run] + a] * values[row, run, a]


class Design:
    """The rows of a table as all terms encode them; the intercept is in front.

    Parameters
    ----------
    terms : sequence of Term
        The terms.
    table : CodedTable
        The rows.
    ties : mapping from int to Ties, optional
        Places in `CodedTable.numbers` of columns with few distinct values, and which of them each row has: functions of
        such a curve are the indicators of these values.
    """

    def __init__(self, terms: Sequence[Term], table: CodedTable, *, ties: Mapping[int, Ties] | None = None) -> None:
        self.terms, self.n_rows = list(terms), len(table.numbers)
        self._table, self._ties = table, ties or {}
        self._tied = [self._ties.get(term.place) if isinstance(term, Curve) else None for term in terms]
        self._transforms = [
            term.combine(tied.encode(term)) if isinstance(term, Curve) and tied is not None else term.space.transform
            for term, tied in zip(terms, self._tied, strict=True)
        ]
        ends = np.cumsum([1, *(term.width for term in terms)]).tolist()
        self.slices, self.size = [slice(a, b) for a, b in pairwise(ends)], int(ends[-1])
        self._kept: list[tuple[slice, list[Local]]] | None = None
        self._known: list[dict[Term, Local]] = []
        self._products: tuple[FloatArray | None, Products] = (None, {})

    def replaced(self, terms: Sequence[Term]) -> "Design":
        """Return the same rows with other terms; what is known of those that both designs have is used again."""
        other = Design(terms, self._table, ties=self._ties)
        shared = set(terms) & set(self.terms)
        for _, locals_ in self._kept or ():
            pairs = zip(self.terms, locals_, strict=True)
            other._known.append({term: local for term, local in pairs if term in shared})
        weights, products = self._products
        other._products = weights, {pair: sums for pair, sums in products.items() if shared.issuperset(pair)}
        return other

    def _chunks(self) -> Iterator[tuple[slice, list[Local]]]:
        """Yield rows and their functions; they are encoded once if they fit into memory."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[tuple[slice, list[Local]]] = []
        n_bytes = 0
        for start in range(0, self.n_rows, ROWS_PER_PART):
            rows = slice(start, min(start + ROWS_PER_PART, self.n_rows))
            chunk = rows, self._encode(rows, len(kept))
            n_bytes += sum(array.nbytes for local in chunk[1] for array in local)
            kept = [*kept, chunk] if n_bytes <= MOST_KEPT_BYTES else []
            yield chunk
        self._kept = kept if n_bytes <= MOST_KEPT_BYTES else None

    def _encode(self, rows: slice, place: int) -> list[Local]:
        """Return the functions at rows, those of a former design where it has them; `place` is that of the chunk."""
        part = self._table.take(rows)
        known = self._known[place] if self._known else {}
        return [
            known[term] if term in known else term.encode(part) if tied is None else tied.local(rows)
            for term, tied in zip(self.terms, self._tied, strict=True)
        ]

    @cached_property
    def _windows(self) -> dict[Term, tuple[tuple[int, ...], ...]]:
        """For each term a value with the shape of its functions in a row: runs, and functions of a run."""
        samples = self._encode(slice(0, 1), 0)
        return {term: ((0,) * v.shape[2],) * v.shape[1] for term, (_, v) in zip(self.terms, samples, strict=True)}

    def matrix(self, weights: FloatArray) -> FloatArray:
        """Return X'WX, from the products of the functions of each pair of terms, or of dense rows if they are few."""
        n_nonzero = sum(len(window) * len(window[0]) for window in self._windows.values())
        if sum(map(len, self._transforms)) ** 2 < DENSE_SPEED * n_nonzero**2:
            return self._dense_matrix(weights)
        products = self._all_products(weights)
        parts = list(zip(self.terms, self._transforms, self.slices, strict=True))
        out = np.full((self.size, self.size), weights.sum())
        for number, (term, transform, place) in enumerate(parts):
            for other, second, before in parts[: number + 1]:
                part = transform.T @ products[term, other] @ second
                out[place, before], out[before, place] = part, part.T
            # The functions of a term add up to one.
            out[0, place] = out[place, 0] = products[term, term].sum(axis=1) @ transform
        return out

    def _all_products(self, weights: FloatArray) -> Products:
        """Return the weighted products of the functions of each pair of terms."""
        windows = self._windows
        sizes = dict(zip(self.terms, map(len, self._transforms), strict=True))
        known = self._products[1] if self._products[0] is weights else {}
        pairs = [pair for pair in combinations_with_replacement(self.terms[::-1], 2) if pair not in known]
        # The longer run is in a row of the result.
        order = {pair: sorted(pair, key=lambda term: len(windows[term][0])) for pair in pairs}
        sums = {pair: np.zeros((sizes[first], sizes[second])) for pair, (first, second) in order.items()}
        for rows, locals_ in self._chunks() if pairs else ():
            by_term = dict(zip(self.terms, locals_, strict=True))
            for pair, (first, second) in order.items():
                shapes = windows[first], windows[second]
                _add_products(*shapes, by_term[first], by_term[second], weights[rows], sums[pair])
        out = known | {pair: sums[pair] if pair[0] is order[pair][0] else sums[pair].T for pair in pairs}
        self._products = weights, out
        return out

    def _dense_matrix(self, weights: FloatArray) -> FloatArray:
        """Return X'WX as a product of dense rows, a part of them at a time."""
        total = np.zeros((self.size, self.size))
        n_rows = max(DENSE_ENTRIES // self.size, 1)
        for rows, locals_ in self._chunks():
            for start in range(0, rows.stop - rows.start, n_rows):
                part = slice(start, start + n_rows)
                dense = self._dense_rows([Local(starts[part], values[part]) for starts, values in locals_])
                total += (dense * weights[rows][part, None]).T @ dense
        return total

    def _dense_rows(self, locals_: Sequence[Local]) -> FloatArray:
        """Return X of some rows, whose functions are given."""
        dense = np.ones((len(locals_[0].starts), self.size))
        for local, transform, place in zip(locals_, self._transforms, self.slices, strict=True):
            functions = np.zeros((len(dense), len(transform)))
            _spread(0, *local, functions)
            dense[:, place] = functions @ transform
        return dense

    def vector(self, values: FloatArray) -> FloatArray:
        """Return X' times values of the rows."""
        totals = [np.zeros(len(transform)) for transform in self._transforms]
        for rows, locals_ in self._chunks():
            for total, local in zip(totals, locals_, strict=True):
                _add_totals(*local, values[rows], total)
        parts = [total @ transform for total, transform in zip(totals, self._transforms, strict=True)]
        return np.concatenate([[values.sum()], *parts])

    def contributions(self, beta: FloatArray) -> Iterator[tuple[slice, list[FloatArray]]]:
        """Yield rows and what each term adds to them."""
        by_term = [transform @ beta[place] for transform, place in zip(self._transforms, self.slices, strict=True)]
        for rows, locals_ in self._chunks():
            parts = [np.zeros(rows.stop - rows.start) for _ in locals_]
            for part, local, coefficients in zip(parts, locals_, by_term, strict=True):
                _add_sums(*local, coefficients, part)
            yield rows, parts

    def sums(self, beta: FloatArray) -> FloatArray:
        """Return X beta."""
        out = np.full(self.n_rows, beta[0])
        for rows, parts in self.contributions(beta):
            out[rows] += sum(parts)
        return out


@dataclass(frozen=True, eq=False)
class Solution:
    """The fit of one response.

    Parameters
    ----------
    beta : ndarray of shape (p,)
        The intercept, then the coefficients of each term.
    covariance : ndarray of shape (p, p)
        Their covariance, given the smoothing parameters; a first fit has none.
    degrees : ndarray of shape (n_terms,)
        Effective degrees of freedom of each term.
    smoothing : list of ndarray
        Smoothing parameters of each term.
    scale : float
        Variance of the residuals, 1 for classes.
    unit : float
        Unit of standard deviations: `covariance` and `scale` are in its square, which could overflow.
    """

    beta: FloatArray
    covariance: FloatArray
    degrees: FloatArray
    smoothing: list[FloatArray]
    scale: float
    unit: float


class _Penalties:
    """All penalties of a design, scaled so that smoothing parameters of one are neither large nor small.

    Parameters
    ----------
    design : Design
        The rows.
    matrix : ndarray of shape (p, p)
        X'WX.
    """

    def __init__(self, design: Design, matrix: FloatArray) -> None:
        self.design = design
        size = np.diag(matrix)
        owners, diagonals = [], [np.empty((0, design.size))]
        for number, (term, place) in enumerate(zip(design.terms, design.slices, strict=True)):
            for diagonal in term.space.penalties:
                if diagonal.any():
                    used = size[place] @ (diagonal > 0)
                    whole = np.zeros((1, design.size))
                    whole[0, place] = diagonal * (max(used, 1e-300) / diagonal.sum())
                    diagonals.append(whole)
                    owners.append(number)
        self._owners = np.array(owners, dtype=np.intp)
        self._diagonals = np.concatenate(diagonals)  # d_k, of shape (n_penalties, p)
        self._shared = _equal_terms(design, matrix)

    def strengths(self, smoothing: FloatArray) -> FloatArray:
        """Return the diagonal of S in the rotated coefficients."""
        strengths: FloatArray = smoothing @ self._diagonals
        return strengths

    def add(self, matrix: FloatArray, smoothing: FloatArray) -> FloatArray:
        """Return X'WX + S, with a little more on its diagonal."""
        strengths = self.strengths(smoothing)
        total = matrix.copy()
        diagonal = np.diag_indices_from(total)
        total[diagonal] += DIAGONAL_SHARE * np.maximum(total[diagonal], total[0, 0] * DIAGONAL_SHARE)
        plain = strengths.copy()
        for term, place in zip(self.design.terms, self.design.slices, strict=True):
            rotation = term.space.rotation
            if rotation is not None:
                total[place, place] += (rotation * strengths[place]) @ rotation.T
                plain[place] = 0.0
        total[diagonal] += plain
        return total

    def rotated(self, values: FloatArray) -> FloatArray:
        """Return coefficients, or a covariance's diagonal of them, as the penalties see them."""
        out = values.copy() if values.ndim == 1 else np.diag(values).copy()
        for term, place in zip(self.design.terms, self.design.slices, strict=True):
            rotation = term.space.rotation
            if rotation is not None and values.ndim == 1:
                out[place] = rotation.T @ values[place]
            elif rotation is not None:
                out[place] = np.einsum("ij,ik,kj->j", rotation, values[place, place], rotation)
        return out

    def updated(self, smoothing: FloatArray, solved: "_Solved", scale: float) -> FloatArray:
        """Return the smoothing parameters after one update."""
        strengths = self.strengths(smoothing)
        squares = np.square(self.rotated(solved.beta))
        prior = self._diagonals @ np.divide(1.0, strengths, out=np.zeros_like(strengths), where=strengths > 0)
        gain = np.maximum(prior - self._diagonals @ solved.spread, 1e-12 * prior)
        cost = np.maximum(self._diagonals @ squares, 1e-300)
        factors = np.clip(scale * gain / cost, 1.0 / UPDATES.largest_factor, UPDATES.largest_factor) ** UPDATES.haste
        new = np.clip(smoothing * factors, UPDATES.smallest, UPDATES.largest)
        for numbers in self._shared:
            places = np.stack([np.flatnonzero(self._owners == number) for number in numbers])
            new[places] = np.exp(np.log(new[places]).mean(axis=0))
        return new

    def start(self, draft: Solution | None) -> FloatArray:
        """Return smoothing parameters of one, or those of the same terms in a first fit."""
        out = np.ones(len(self._owners))
        for place, known in enumerate([] if draft is None else draft.smoothing):
            if (self._owners == place).sum() == len(known):
                out[self._owners == place] = known
        return out

    def by_term(self, smoothing: FloatArray) -> list[FloatArray]:
        """Return the smoothing parameters of each term."""
        return [smoothing[self._owners == place] for place in range(len(self.design.terms))]


def _equal_terms(design: Design, matrix: FloatArray) -> list[list[int]]:
    """Return groups of curves with the same functions in all rows, as those of a column and of its copy in other units.

    They share the effect equally. Without a rule their smoothing parameters would drift apart in the updates, from
    rounding errors on.
    """
    curves = np.array([number for number, term in enumerate(design.terms) if isinstance(term, Curve)], dtype=np.intp)
    places = [design.slices[number] for number in curves]
    traces = np.array([np.trace(matrix[place, place]) for place in places])
    groups: dict[int, list[int]] = {}
    for count, place in enumerate(places):
        alike = np.flatnonzero(np.abs(traces[:count] - traces[count]) <= EQUAL * traces[count])
        first = next((int(each) for each in alike if _are_equal(matrix, places[each], place)), count)
        groups.setdefault(first, []).append(int(curves[count]))
    return [group for group in groups.values() if len(group) > 1]


def _are_equal(matrix: FloatArray, first: slice, second: slice) -> bool:
    """Return whether two terms have the same functions, by the products X'WX."""
    one, joint, other = matrix[first, first], matrix[first, second], matrix[second, second]
    least = EQUAL * np.abs(one).max(initial=0.0)
    return one.shape == other.shape and all(np.abs(one - each).max() <= least for each in (joint, other))


class _Solved:
    """The solution of (X'WX + S) beta = X'Wz, with coefficients of at least 0 where a term needs them.

    Parameters
    ----------
    penalties : _Penalties
        The penalties.
    matrix, vector : ndarray
        X'WX and X'Wz.
    smoothing : ndarray of shape (n_penalties,)
        Smoothing parameters.
    """

    def __init__(self, penalties: _Penalties, matrix: FloatArray, vector: FloatArray, smoothing: FloatArray) -> None:
        self._penalties, self._smoothing = penalties, smoothing
        total = penalties.add(matrix, smoothing)
        bounded = _bounded(penalties.design)
        self.free = np.ones(len(vector), dtype=bool)
        if not bounded.any():
            self._factor = _factor(total)
            self.beta = cho_solve((self._factor, True), vector, check_finite=False)
            return
        self.beta = _bounded_solution(total, vector, bounded)
        self.free = ~bounded | (self.beta > 0.0)
        self._factor = _factor(total[np.ix_(self.free, self.free)])

    @cached_property
    def _half(self) -> FloatArray:
        """The inverse of the Cholesky factor."""
        half: FloatArray = dtrtri(self._factor, lower=1)[0]
        return half

    @cached_property
    def inverse(self) -> FloatArray:
        """V; zero for coefficients at their bound."""
        lower = dlauum(self._half, lower=1)[0]
        whole: FloatArray = np.tril(lower) + np.tril(lower, -1).T
        if self.free.all():
            return whole
        out = np.zeros((len(self.beta), len(self.beta)))
        out[np.ix_(self.free, self.free)] = whole
        return out

    @cached_property
    def spread(self) -> FloatArray:
        """The diagonal of V in the rotated coefficients."""
        if any(term.space.rotation is not None for term in self._penalties.design.terms):
            return self._penalties.rotated(self.inverse)
        out = np.zeros(len(self.beta))
        out[self.free] = np.einsum("ij,ij->j", self._half, self._half)
        return out

    def degrees(self) -> FloatArray:
        """Return the effective degrees of freedom of each term: the trace of its part of V X'WX."""
        strengths = self._penalties.strengths(self._smoothing)
        shares = self.free.astype(np.float64) - strengths * self.spread
        return np.array([max(shares[place].sum(), 0.0) for place in self._penalties.design.slices])


def _bounded(design: Design) -> npt.NDArray[np.bool_]:
    """Return which coefficients must not be negative."""
    out = np.zeros(design.size, dtype=bool)
    for term, place in zip(design.terms, design.slices, strict=True):
        out[place] = False if term.space.bounded is None else term.space.bounded
    return out


def _factor(total: FloatArray) -> FloatArray:
    """Return the lower Cholesky factor, with as little added to the diagonal as it needs."""
    share = 0.0
    while True:
        with suppress(LinAlgError):
            lower: FloatArray = cholesky(total, lower=True, check_finite=False)
            return lower
        share = max(1e3 * share, 1e-12)
        total = total + np.diag(share * np.maximum(np.diag(total), 1e-300))


def _bounded_solution(total: FloatArray, vector: FloatArray, bounded: npt.NDArray[np.bool_]) -> FloatArray:
    """Minimise b'Ab / 2 - b'v where some b are at least 0: the others are eliminated, which leaves least squares."""
    free = ~bounded
    factor = _factor(total[np.ix_(free, free)])
    joint = solve_triangular(factor, total[np.ix_(free, bounded)], lower=True)
    known = solve_triangular(factor, vector[free], lower=True)
    lower = _factor(total[np.ix_(bounded, bounded)] - joint.T @ joint)
    beta = np.empty(len(vector))
    beta[bounded] = nnls(lower.T, solve_triangular(lower, vector[bounded] - joint.T @ known, lower=True))[0]
    beta[free] = solve_triangular(factor, known - joint @ beta[bounded], lower=True, trans="T")
    return beta


def _is_settled(old: FloatArray, new: FloatArray) -> bool:
    return bool(np.abs(new - old).sum() <= UPDATES.precision * (1.0 + new.sum()))


def fit_numbers(
    design: Design, y: FloatArray, weights: FloatArray, *, draft: Solution | None = None, is_draft: bool = False
) -> Solution:
    """Fit numbers by penalised least squares; `draft` is a first fit, whose smoothing parameters are the start."""
    mean = float(np.average(y, weights=weights))
    deviations = y - mean
    largest = float(np.abs(deviations).max(initial=0.0)) or 1.0
    unit = largest * (float(np.sqrt(np.average((deviations / largest) ** 2, weights=weights))) or 1.0)
    scaled = deviations / unit  # so that nothing depends on the units, and squares do not overflow
    matrix, vector = design.matrix(weights), design.vector(weights * scaled)
    n_rows, square = float(weights.sum()), float(weights @ scaled**2)
    penalties = _Penalties(design, matrix)
    degrees, following = np.full(len(design.terms), np.inf), penalties.start(draft)
    for _ in range(UPDATES.of_draft if is_draft else UPDATES.most):
        smoothing = following
        solved = _Solved(penalties, matrix, vector, smoothing)
        before, degrees = degrees, solved.degrees()
        residual = square - float(solved.beta @ (2.0 * vector - matrix @ solved.beta))
        if residual < CANCELLED * square:
            residual = float(weights @ (scaled - design.sums(solved.beta)) ** 2)
        residual = max(residual, 1e-12 * square, 1e-300)
        scale = residual / max(n_rows - 1.0 - degrees.sum(), FEWEST_FREE * n_rows)
        if _is_settled(before, degrees):
            break
        following = penalties.updated(smoothing, solved, scale)
    beta = unit * solved.beta
    beta[0] += mean
    covariance = NO_COVARIANCE if is_draft else scale * solved.inverse
    return Solution(beta, covariance, degrees, penalties.by_term(smoothing), scale, unit)


def fit_classes(
    design: Design,
    responses: FloatArray,
    weights: FloatArray,
    *,
    draft: "tuple[list[Solution], FloatArray] | None" = None,
    is_draft: bool = False,
) -> list[Solution]:
    """Fit classes by penalised reweighted least squares.

    Parameters
    ----------
    design : Design
        The rows.
    responses : ndarray of shape (n_fits, n)
        0 or 1: of two classes one row, otherwise one for each class, of which each is fitted in turn, given the others.
    weights : ndarray of shape (n,)
        Weights of the rows.
    draft : tuple of list of Solution and ndarray of shape (n_fits, n), optional
        A first fit and its sums, from which this one starts.
    is_draft : bool
        Whether a few steps are enough.
    """
    state = _Classes(design, responses, weights, draft)
    for step in range(CLASS_STEPS.of_draft if is_draft else CLASS_STEPS.most):
        before, deviance = state.degrees.copy(), state.deviance
        for place in range(len(responses)):
            state.improve(place)
        is_flat = abs(deviance - state.deviance) <= CLASS_STEPS.flat * (state.deviance + 1e-3)
        if step > 1 and is_flat and _is_settled(before, state.degrees):
            break
    return state.solutions(is_draft=is_draft)


class _Classes:
    """Reweighted least squares of one or more classes; parameters as for `fit_classes`."""

    def __init__(
        self,
        design: Design,
        responses: FloatArray,
        weights: FloatArray,
        draft: tuple[list[Solution], FloatArray] | None,
    ) -> None:
        self.design, self.responses, self.weights = design, responses, weights
        n_fits = len(responses)
        shares = np.clip(np.average(responses, axis=1, weights=weights), 1e-6, 1.0 - 1e-6)
        starts = np.log(shares / (1.0 - shares)) if n_fits == 1 else np.log(shares)
        self.drafts: Sequence[Solution | None] = [None] * n_fits if draft is None else draft[0]
        self.sums = np.repeat(starts[:, None], design.n_rows, axis=1) if draft is None else draft[1]
        self.starts = starts
        self.betas: list[Any] = [None if draft is not None else self._constant(place) for place in range(n_fits)]
        self.smoothing: list[Any] = [None] * n_fits
        self.solved: list[Any] = [None] * n_fits
        self.penalties: list[Any] = [None] * n_fits
        self.degrees = np.full((n_fits, len(design.terms)), np.inf)
        self.deviance = self._deviance(self.sums)

    def _deviance(self, sums: FloatArray) -> float:
        """Return -2 times the logarithm of the likelihood."""
        if len(sums) == 1:
            losses = np.logaddexp(0.0, np.where(self.responses[0] > 0.5, -sums[0], sums[0]))
        else:
            losses = np.logaddexp.reduce(sums, axis=0) - (self.responses * sums).sum(axis=0)
        return 2.0 * float(self.weights @ losses)

    def improve(self, place: int) -> None:
        """Take one step for a class."""
        mean = expit(self.sums[0]) if len(self.sums) == 1 else softmax(self.sums, axis=0)[place]
        curvature = self.weights * np.maximum(mean * (1.0 - mean), CLASS_STEPS.smallest_variance)
        matrix = self.design.matrix(curvature)
        vector = self.design.vector(curvature * self.sums[place] + self.weights * (self.responses[place] - mean))
        if self.penalties[place] is None:  # its scale stays that of the first step
            self.penalties[place] = _Penalties(self.design, matrix)
            self.smoothing[place] = self.penalties[place].start(self.drafts[place])
        else:
            self.smoothing[place] = self.penalties[place].updated(self.smoothing[place], self.solved[place], 1.0)
        solved = _Solved(self.penalties[place], matrix, vector, self.smoothing[place])
        self.solved[place], self.degrees[place] = solved, solved.degrees()
        self._step(place, solved.beta)

    def _constant(self, place: int) -> FloatArray:
        """Return the coefficients of a class without effects."""
        beta = np.zeros(self.design.size)
        beta[0] = self.starts[place]
        return beta

    def _step(self, place: int, beta: FloatArray) -> None:
        """Move to new coefficients, or a part of the way that does not make the fit worse, or stay."""
        penalties, old, old_sums = self.penalties[place], self.betas[place], self.sums[place]
        strengths = penalties.strengths(self.smoothing[place])
        sums = self.design.sums(beta)
        everything = self.sums.copy()
        for _ in range(CLASS_STEPS.most_halved):
            everything[place] = sums
            deviance = self._deviance(everything)
            is_near = deviance <= CLASS_STEPS.most_worse * self.deviance + 1.0
            if old is None:
                break
            new, before = (float(strengths @ np.square(penalties.rotated(each))) for each in (beta, old))
            is_near = is_near and deviance + new <= (self.deviance + before) * (1.0 + 1e-7)
            if is_near:
                break
            beta, sums = 0.5 * (beta + old), 0.5 * (sums + old_sums)
        if is_near:
            self.betas[place], self.sums, self.deviance = beta, everything, deviance
        elif old is None:  # the first fit was no good start
            self.betas[place], self.sums = self._constant(place), self.sums.copy()
            self.sums[place] = self.starts[place]
            self.deviance, self.penalties[place] = self._deviance(self.sums), None
            self.improve(place)

    def solutions(self, *, is_draft: bool) -> list[Solution]:
        """Return the fits."""
        return [
            Solution(
                beta, NO_COVARIANCE if is_draft else solved.inverse, degrees, penalties.by_term(smoothing), 1.0, 1.0
            )
            for beta, solved, degrees, penalties, smoothing in zip(
                self.betas, self.solved, self.degrees, self.penalties, self.smoothing, strict=True
            )
        ]
