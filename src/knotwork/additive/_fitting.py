"""The fit of additive models: penalised least squares, and reweighted least squares for classes.

Let X be the rows of all terms behind a column of ones, W the weights, z the working response and S the penalty. The
coefficients are

    beta = V X'Wz,    V = (X'WX + S)^-1,    S = diag( sum_k lambda_k d_k ).

A row of a term has few functions that differ from zero, so that X'WX is summed from small products, in one pass over
the rows and in blocks of them. Each lambda is chosen by restricted maximum likelihood, by the updates of Fellner and
Schall as generalised by Wood and Fasiolo (2017),

    lambda_k <- lambda_k phi ( sum_j d_kj / s_j - sum_j d_kj V_jj ) / sum_j d_kj beta_j^2,    s = diag S,

where phi is the variance of the residuals, or 1 for classes. An update needs only the diagonal of V.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri
from scipy.optimize import nnls
from scipy.special import expit, softmax

from knotwork._preparation.columns import Table
from knotwork.additive._terms import Local, Term
from knotwork.basis._base import FloatArray
from knotwork.basis._compiled import compiled

__all__ = ["Design", "Solution", "fit_classes", "fit_numbers"]

LEAST, MOST = 1e-6, 1e8
"""Limits of a smoothing parameter, relative to the size of X'WX."""

RIDGE = 1e-10
"""Share of the diagonal of X'WX that is added to it, more if the matrix is singular."""

LARGEST_FACTOR = 100.0
"""A smoothing parameter changes by at most this factor in an update."""

FEWEST_FREE = 0.1
"""Share of the rows that count as free at least: few rows could all be fitted exactly, and the residuals vanish."""

MOST_UPDATES, MOST_STEPS, DRAFT_STEPS = 30, 25, 6
"""Updates of smoothing parameters, steps of reweighted least squares, and those of a first fit, at most."""

PRECISION = 0.02
"""Smoothing parameters are updated until the degrees of freedom of no term change by more than this share."""

SMALLEST_VARIANCE = 1e-6
"""Variance of a class in a row at least: of rows that are certain the working response would be infinite."""

ROWS_AT_ONCE = 1 << 15
MOST_KEPT = 1 << 28
"""Rows of a block, and bytes of encoded rows that are kept; if there are more, each pass encodes them again."""


@compiled()
def _add_products(first, first_values, second, second_values, weights, out):  # type: ignore[no-untyped-def]
    """Add the weighted products of the functions of two terms, row by row."""
    for row in range(len(weights)):
        for a in range(first.shape[1]):
            value = weights[row] * first_values[row, a]
            place = first[row, a]
            for b in range(second.shape[1]):
                out[place, second[row, b]] += value * second_values[row, b]


class Design:
    """The rows of a table as all terms encode them; the intercept is in front.

    Parameters
    ----------
    terms : sequence of Term
        The terms.
    table : Table
        The rows.
    """

    def __init__(self, terms: Sequence[Term], table: Table) -> None:
        self.terms, self.n_rows = terms, len(table.numbers)
        self._table = table
        ends = np.cumsum([1, *(term.width for term in terms)])
        self.slices = [slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        self.size = int(ends[-1])
        self._kept: list[tuple[slice, list[Local]]] | None = None

    def _blocks(self) -> Iterator[tuple[slice, list[Local]]]:
        """Yield rows and their functions; they are encoded once if they fit into memory."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[tuple[slice, list[Local]]] = []
        n_bytes = 0
        for start in range(0, self.n_rows, ROWS_AT_ONCE):
            rows = slice(start, min(start + ROWS_AT_ONCE, self.n_rows))
            part = Table(self._table.numbers[rows], self._table.codes[rows])
            block = rows, [term.encode(part) for term in self.terms]
            n_bytes += sum(array.nbytes for local in block[1] for array in local)
            kept = [*kept, block] if n_bytes <= MOST_KEPT else []
            yield block
        self._kept = kept if n_bytes <= MOST_KEPT else None

    def matrix(self, weights: FloatArray) -> FloatArray:
        """Return X'WX."""
        transforms = [term.space.transform for term in self.terms]
        sizes = [len(transform) for transform in transforms]
        pairs = [(s, t) for s in range(len(sizes)) for t in range(s + 1)]
        sums = {(s, t): np.zeros((sizes[s], sizes[t])) for s, t in pairs}
        totals = [np.zeros(size) for size in sizes]
        for rows, locals_ in self._blocks():
            for total, local in zip(totals, locals_, strict=True):
                total += _bincount(local, weights[rows], len(total))
            for s, t in pairs:
                _add_products(*locals_[s], *locals_[t], weights[rows], sums[s, t])
        out = np.empty((self.size, self.size))
        out[0, 0] = weights.sum()
        for s, t in pairs:
            block = transforms[s].T @ sums[s, t] @ transforms[t]
            out[self.slices[s], self.slices[t]], out[self.slices[t], self.slices[s]] = block, block.T
        for total, transform, place in zip(totals, transforms, self.slices, strict=True):
            out[0, place] = out[place, 0] = total @ transform
        return out

    def vector(self, values: FloatArray) -> FloatArray:
        """Return X' times values of the rows."""
        totals = [np.zeros(len(term.space.transform)) for term in self.terms]
        for rows, locals_ in self._blocks():
            for total, local in zip(totals, locals_, strict=True):
                total += _bincount(local, values[rows], len(total))
        parts = [total @ term.space.transform for total, term in zip(totals, self.terms, strict=True)]
        return np.concatenate([[values.sum()], *parts])

    def contributions(self, beta: FloatArray) -> Iterator[tuple[slice, list[FloatArray]]]:
        """Yield rows and what each term adds to them."""
        by_term = [term.space.transform @ beta[place] for term, place in zip(self.terms, self.slices, strict=True)]
        for rows, locals_ in self._blocks():
            pairs = zip(by_term, locals_, strict=True)
            yield rows, [np.einsum("nk,nk->n", local.values, coefs[local.places]) for coefs, local in pairs]

    def sums(self, beta: FloatArray) -> FloatArray:
        """Return X beta."""
        out = np.full(self.n_rows, beta[0])
        for rows, parts in self.contributions(beta):
            for part in parts:
                out[rows] += part
        return out


def _bincount(local: Local, weights: FloatArray, size: int) -> FloatArray:
    total: FloatArray = np.bincount(local.places.ravel(), (local.values * weights[:, None]).ravel(), size)
    return total


@dataclass(frozen=True, eq=False)
class Solution:
    """The fit of one response.

    Parameters
    ----------
    beta : ndarray of shape (p,)
        The intercept, then the coefficients of each term.
    covariance : ndarray of shape (p, p)
        Their covariance, given the smoothing parameters.
    degrees : ndarray of shape (n_terms,)
        Effective degrees of freedom of each term.
    smoothing : ndarray of shape (n_penalties,)
        Smoothing parameters, term by term.
    scale : float
        Variance of the residuals, 1 for classes.
    """

    beta: FloatArray
    covariance: FloatArray
    degrees: FloatArray
    smoothing: FloatArray
    scale: float


@dataclass(frozen=True, eq=False)
class _Penalty:
    """One penalty: the coefficients that it concerns, its diagonal, and their rotation."""

    term: int
    place: slice
    diagonal: FloatArray
    rotation: FloatArray | None


class _Penalties:
    """All penalties of a design, scaled so that smoothing parameters of one are neither large nor small."""

    def __init__(self, design: Design, matrix: FloatArray) -> None:
        self.design = design
        size = np.diag(matrix).copy()
        self.all: list[_Penalty] = []
        for place, (term, piece) in enumerate(zip(design.terms, design.slices, strict=True)):
            for diagonal in term.space.penalties:
                if diagonal.any():
                    used = size[piece] @ (diagonal > 0)
                    scaled = diagonal * (max(used, 1e-300) / diagonal.sum())
                    self.all.append(_Penalty(place, piece, scaled, term.space.rotation))

    def strengths(self, smoothing: FloatArray) -> FloatArray:
        """Return the diagonal of S in the rotated coefficients."""
        out = np.zeros(self.design.size)
        for strength, each in zip(smoothing, self.all, strict=True):
            out[each.place] += strength * each.diagonal
        return out

    def add(self, matrix: FloatArray, smoothing: FloatArray) -> FloatArray:
        """Return X'WX + S, with a little more on its diagonal."""
        strengths = self.strengths(smoothing)
        total = matrix.copy()
        diagonal = np.diag_indices_from(total)
        total[diagonal] += RIDGE * np.maximum(total[diagonal], total[0, 0] * RIDGE)
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
        spread = solved.spread
        factors = np.empty(len(self.all))
        for place, each in enumerate(self.all):
            used = each.diagonal > 0
            diagonal = each.diagonal[used]
            prior = float((diagonal / strengths[each.place][used]).sum())
            gain = max(prior - float(diagonal @ spread[each.place][used]), 1e-12 * prior)
            cost = max(float(diagonal @ squares[each.place][used]), 1e-300)
            factors[place] = np.clip(scale * gain / cost, 1.0 / LARGEST_FACTOR, LARGEST_FACTOR)
        return np.clip(smoothing * factors, LEAST, MOST)

    def start(self) -> FloatArray:
        """Return smoothing parameters of one."""
        return np.ones(len(self.all))


class _Solved:
    """The solution of (X'WX + S) beta = X'Wz, with coefficients of at least 0 where a term wants them.

    Parameters
    ----------
    penalties : _Penalties
        The penalties.
    matrix, vector : ndarray
        X'WX and X'Wz.
    smoothing : ndarray of shape (n_penalties,)
        Smoothing parameters.
    """

    def __init__(
        self, penalties: _Penalties, matrix: FloatArray, vector: FloatArray, smoothing: FloatArray
    ) -> None:
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
    def inverse(self) -> FloatArray:
        """V; zero for coefficients at their bound."""
        half = dtrtri(self._factor, lower=1)[0]
        out = np.zeros((len(self.beta), len(self.beta)))
        out[np.ix_(self.free, self.free)] = half.T @ half
        return out

    @cached_property
    def spread(self) -> FloatArray:
        """The diagonal of V in the rotated coefficients."""
        if any(term.space.rotation is not None for term in self._penalties.design.terms):
            return self._penalties.rotated(self.inverse)
        out = np.zeros(len(self.beta))
        out[self.free] = np.square(dtrtri(self._factor, lower=1)[0]).sum(axis=0)
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
        try:
            lower: FloatArray = cholesky(total, lower=True, check_finite=False)
            return lower
        except LinAlgError:
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
    return bool((np.abs(new - old) <= PRECISION * (0.5 + new)).all())


def fit_numbers(design: Design, y: FloatArray, weights: FloatArray) -> Solution:
    """Fit numbers by penalised least squares."""
    mean = float(np.average(y, weights=weights))
    deviations = y - mean
    largest = float(np.abs(deviations).max(initial=0.0)) or 1.0
    unit = largest * (float(np.sqrt(np.average((deviations / largest) ** 2, weights=weights))) or 1.0)
    scaled = deviations / unit  # so that nothing depends on the units, and squares do not overflow
    matrix, vector = design.matrix(weights), design.vector(weights * scaled)
    n_rows, square = float(weights.sum()), float(weights @ scaled**2)
    penalties = _Penalties(design, matrix)
    smoothing, degrees = penalties.start(), np.full(len(design.terms), np.inf)
    for _ in range(MOST_UPDATES):
        solved = _Solved(penalties, matrix, vector, smoothing)
        before, degrees = degrees, solved.degrees()
        residual = max(square - solved.beta @ (2.0 * vector - matrix @ solved.beta), 1e-12 * square, 1e-300)
        scale = residual / max(n_rows - 1.0 - degrees.sum(), FEWEST_FREE * n_rows)
        if _is_settled(before, degrees):
            break
        smoothing = penalties.updated(smoothing, solved, scale)
    beta = unit * solved.beta
    beta[0] += mean
    return Solution(beta, unit * scale * solved.inverse * unit, degrees, smoothing, unit * scale * unit)


def fit_classes(design: Design, responses: FloatArray, weights: FloatArray, *, is_draft: bool = False) -> list[Solution]:
    """Fit classes by penalised reweighted least squares.

    Parameters
    ----------
    design : Design
        The rows.
    responses : ndarray of shape (n_fits, n)
        0 or 1: of two classes one row, otherwise one for each class, of which each is fitted in turn, given the others.
    weights : ndarray of shape (n,)
        Weights of the rows.
    is_draft : bool
        Whether a few steps are enough.
    """
    state = _Classes(design, responses, weights)
    for step in range(DRAFT_STEPS if is_draft else MOST_STEPS):
        before, deviance = state.degrees.copy(), state.deviance(state.sums)
        for place in range(len(responses)):
            state.improve(place)
        after = state.deviance(state.sums)
        is_flat = abs(deviance - after) <= 1e-5 * (abs(after) + 1e-3)
        if step > 1 and is_flat and _is_settled(before, state.degrees):
            break
    return state.solutions()


class _Classes:
    """Reweighted least squares of one or more classes; parameters as for `fit_classes`."""

    def __init__(self, design: Design, responses: FloatArray, weights: FloatArray) -> None:
        self.design, self.responses, self.weights = design, responses, weights
        shares = np.clip(np.average(responses, axis=1, weights=weights), 1e-6, 1.0 - 1e-6)
        starts = np.log(shares / (1.0 - shares)) if len(responses) == 1 else np.log(shares)
        self.betas = np.zeros((len(responses), design.size))
        self.betas[:, 0] = starts
        self.sums = np.repeat(starts[:, None], design.n_rows, axis=1)
        self.smoothing: list[Any] = [None] * len(responses)
        self.solved: list[Any] = [None] * len(responses)
        self.penalties: list[Any] = [None] * len(responses)
        self.degrees = np.full((len(responses), len(design.terms)), np.inf)

    def deviance(self, sums: FloatArray) -> float:
        """Return -2 times the logarithm of the likelihood."""
        if len(sums) == 1:
            losses = np.logaddexp(0.0, np.where(self.responses[0] > 0.5, -sums[0], sums[0]))
        else:
            losses = np.logaddexp.reduce(sums, axis=0) - (self.responses * sums).sum(axis=0)
        return 2.0 * float(self.weights @ losses)

    def improve(self, place: int) -> None:
        """Take one step for a class, halved until the penalised likelihood does not fall."""
        mean = expit(self.sums[0]) if len(self.sums) == 1 else softmax(self.sums, axis=0)[place]
        curvature = self.weights * np.maximum(mean * (1.0 - mean), SMALLEST_VARIANCE)
        matrix = self.design.matrix(curvature)
        working = curvature * self.sums[place] + self.weights * (self.responses[place] - mean)
        vector = self.design.vector(working)
        if self.penalties[place] is None:  # its scale stays that of the first step
            self.penalties[place] = _Penalties(self.design, matrix)
            self.smoothing[place] = self.penalties[place].start()
        else:
            self.smoothing[place] = self.penalties[place].updated(self.smoothing[place], self.solved[place], 1.0)
        solved = _Solved(self.penalties[place], matrix, vector, self.smoothing[place])
        self.solved[place], self.degrees[place] = solved, solved.degrees()
        self._step(place, solved.beta)

    def _step(self, place: int, target: FloatArray) -> None:
        penalties = self.penalties[place]
        strengths = penalties.strengths(self.smoothing[place])

        def objective(beta: FloatArray, sums: FloatArray) -> float:
            everything = self.sums.copy()
            everything[place] = sums
            return self.deviance(everything) + float(strengths @ np.square(penalties.rotated(beta)))

        old, old_sums = self.betas[place], self.sums[place]
        beta, sums = target, self.design.sums(target)
        before = objective(old, old_sums)
        for _ in range(6):
            if objective(beta, sums) <= before + 1e-7 * abs(before):
                break
            beta, sums = 0.5 * (beta + old), 0.5 * (sums + old_sums)
        self.betas[place], self.sums[place] = beta, sums

    def solutions(self) -> list[Solution]:
        """Return the fits."""
        return [
            Solution(beta.copy(), solved.inverse, degrees, smoothing, 1.0)
            for beta, solved, degrees, smoothing in zip(
                self.betas, self.solved, self.degrees, self.smoothing, strict=True
            )
        ]
