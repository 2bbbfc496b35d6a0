"""How the fit of an additive model grows: a draft, more functions where it uses most of them, and pairs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, check_int, listed, suggestion, type_error
from knotwork._equals import by_size, whole
from knotwork._preparation.columns import CodedTable, Columns
from knotwork.additive._fitting import Design, Solution
from knotwork.additive._terms import (
    FEW_VALUES,
    MOST_LEVELS,
    SIDE_LEVELS,
    Category,
    Curve,
    Shape,
    Surface,
    Term,
    Ties,
)
from knotwork.basis import FloatArray
from knotwork.encoders import bin_codes, number_of_bins, rank_cells
from knotwork.knots import Column, without_outliers

if TYPE_CHECKING:
    from knotwork.additive._models import AdditiveModel

FIRST_SIZE, FIRST_SIDE = 32, 6
"""Functions of a curve, and of each side of a surface, in the first fit."""

LARGEST_SIDE = 14
"""Maximum number of functions of each side of a surface."""

MOST_USED, SPARE = 0.55, 4.0
"""A term that uses more than this share of its coefficients in the first fit gets more: this many for each used one."""

MOST_COEFFICIENTS = 3000
"""Maximum number of coefficients of all terms: tables with very many columns have simpler curves, at last lines."""

ROWS_PER_COEFFICIENT = 3
"""Rows for each coefficient at least, if that leaves curves four functions."""

LINES_FROM = 10
"""Coefficients for each row from which on curves of four functions would be too many: each column has a line."""

MOST_SCREENED = 40
"""Columns among which pairs are searched: those with the largest effects."""

RISING = {"increasing": 1, "decreasing": -1}
BENDING = {"convex": 1, "concave": -1}
STRAIGHT = "linear"


class AdditiveFit:
    """One fit: draft, refinement, pairs.

    Parameters
    ----------
    model : AdditiveModel
        The model, with `columns_`.
    table : CodedTable
        The rows.
    responses : ndarray of shape (n_fits, n)
        What is fitted.
    weights : ndarray of shape (n,)
        Weights of the rows, all positive.
    """

    def __init__(self, model: "AdditiveModel", table: CodedTable, responses: FloatArray, weights: FloatArray) -> None:
        self.model, self.table, self.responses, self.weights = model, table, responses, weights
        numbers = [Column.from_values(column, weights, with_rows=False) for column in table.numbers.T]
        self.numbers = [without_outliers(each) if len(each.distinct) > FEW_VALUES else each for each in numbers]
        ties = enumerate(map(Ties.from_values, table.numbers.T, numbers))
        self.design = Design([], table, ties={place: each for place, each in ties if each is not None})
        self.names = model.columns_.numerical_names
        self.coded = list(model.columns_.categorical)
        self.shapes = _shapes(model, self.names)
        n_columns = max(len(self.names) + len(self.coded), 1)
        affordable = min(MOST_COEFFICIENTS, weights.sum() / ROWS_PER_COEFFICIENT) / n_columns
        # Of very many columns each has a straight line, which is one coefficient.
        fewest = 4 if 3 * n_columns <= min(MOST_COEFFICIENTS, LINES_FROM * weights.sum()) else 2
        self.most = int(np.clip(whole(affordable), fewest, model.size))
        self.solutions: list[Solution] = []

    def run(self) -> tuple[list[Term], list[Solution]]:
        """Return the terms and their fits."""
        terms = self._first_terms()
        chosen = self._named_pairs()
        self._solve(terms, is_draft=True)
        if chosen is None:
            chosen = self._screen()[: check_int(self.model.pairs, "pairs", minimum=0)]
        if chosen:
            terms = terms + [self._surface(*pair, size=FIRST_SIDE) for pair in chosen]
            self._solve(terms, is_draft=True)
        degrees = np.max([solution.degrees for solution in self.solutions], axis=0)
        terms = [self._refined(term, used) for term, used in zip(terms, degrees, strict=True)]
        self._solve(terms, is_draft=False)
        return terms, self.solutions

    def _solve(self, terms: list[Term], *, is_draft: bool) -> None:
        draft = self.solutions if self.solutions else None
        self.design = self.design.replaced(terms)
        self.solutions = self.model._solve(self, draft, is_draft=is_draft)
        self.sums = np.stack([self.design.sums(solution.beta) for solution in self.solutions])

    def _first_terms(self) -> list[Term]:
        """Return a curve for each number and the effects of each categorical column, of columns that vary."""
        size = min(self.most, FIRST_SIZE)
        terms: list[Term] = [
            self._curve(place, size=size) for place, column in enumerate(self.numbers) if len(column.distinct)
        ]
        terms += [self._category(place) for place in range(len(self.coded))]
        order = owners_of(self.model.columns_)
        return sorted((term for term in terms if term.width), key=lambda term: order[term.name])

    def _curve(self, place: int, *, size: int, shape: Shape | None = None, with_missing: bool = True) -> Curve:
        name, column = self.names[place], self.numbers[place]
        missing = float(self.weights[np.isnan(self.table.numbers[:, place])].sum()) if with_missing else 0.0
        return Curve.from_column(
            name, place, column, size=size, shape=self.shapes[name] if shape is None else shape, missing=missing
        )

    def _category(self, place: int, *, most: int = MOST_LEVELS) -> Category:
        codes, n_codes = self.table.codes[:, place], self.model.columns_.cardinalities[place]
        counts = np.bincount(codes, self.weights, n_codes).astype(np.float64, copy=False)
        return Category.from_counts(self.coded[place], place, counts, most=most)

    def _surface(self, first: Any, second: Any, *, size: int) -> Surface:
        sides = [
            self._category(self.coded.index(name), most=SIDE_LEVELS)
            if name in self.coded
            else self._curve(self.names.index(name), size=size, shape=Shape(), with_missing=False)
            for name in (first, second)
        ]
        return Surface.from_sides(*sides)

    def _refined(self, term: Term, degrees: float) -> Term:
        """Return a term with more functions if it uses most of those that it has."""
        if isinstance(term, Category) or degrees < MOST_USED * term.width:
            return term
        if isinstance(term, Surface):
            return self._surface(*term.name, size=min(LARGEST_SIDE, self.most))
        assert isinstance(term, Curve)
        return self._curve(term.place, size=min(-whole(-SPARE * degrees), self.most))

    def _named_pairs(self) -> list[tuple[Any, Any]] | None:
        """Return the pairs that were named, or None if they are to be searched."""
        pairs, names = self.model.pairs, [*self.names, *self.coded]
        if isinstance(pairs, int | np.integer) and not isinstance(pairs, bool):
            return None if pairs else []
        requirement = "be a number, or pairs of columns such as [('lat', 'lon')]"
        if isinstance(pairs, str) or not isinstance(pairs, Sequence):
            raise type_error("pairs", requirement, pairs)
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or pair[0] == pair[1]:
                raise argument_error("pairs", requirement, pairs)
            shaped = [name for name in pair if name in self.shapes and not self.shapes[name].is_free]
            if shaped:
                hint = "A surface of two columns has no such shape, and would undo that of the curve."
                raise argument_error("pairs", "name no columns of monotone or curvature", shaped[0], hint)
            for name in pair:
                if name not in names:
                    hint = suggestion(name, names)
                    raise argument_error("pairs", f"name columns that the model uses, {listed(names)}", name, hint)
        return [(pair[0], pair[1]) for pair in pairs]

    def _screen(self) -> list[tuple[Any, Any]]:
        """Return pairs of columns as `find_pairs` ranks them, by the residuals of the curves."""
        residuals, variances = self.model._residuals(self)
        order = by_size(self.importances())[:MOST_SCREENED]
        names = [self.design.terms[place].name for place in np.sort(order)]
        names = [name for name in names if name not in self.shapes or self.shapes[name].is_free]
        if len(names) < 2:
            return []
        n_bins = number_of_bins(float(self.weights.sum()))
        codes = np.stack([self._coarse(name, n_bins) for name in names])
        ranked = rank_cells(codes, self.weights * residuals, self.weights * variances, n_bins + 1)
        return [(names[first], names[second]) for first, second in ranked.places.tolist()]

    def _coarse(self, name: Any, n_bins: int) -> npt.NDArray[np.int64]:
        """Return the bin of each row, or its category, of which the most frequent have codes of their own."""
        if name in self.coded:
            term = self._category(self.coded.index(name))
            return np.clip(term.groups[self.table.codes[:, term.place]], 0, n_bins).astype(np.int64)
        place = self.names.index(name)
        return bin_codes(self.table.numbers[:, place], self.numbers[place], n_bins)

    def importances(self) -> FloatArray:
        """Return the mean absolute contribution of each term, the mean of all classes."""
        out = np.zeros(len(self.design.terms))
        for solution in self.solutions:
            for rows, parts in self.design.contributions(solution.beta):
                out += [self.weights[rows] @ np.abs(part) for part in parts]
        means: FloatArray = out / (self.weights.sum() * len(self.solutions))
        return means


def _shapes(model: "AdditiveModel", names: Sequence[Any]) -> dict[Any, Shape]:
    """Return what each curve must be."""
    shapes = dict.fromkeys(names, Shape())
    curvature = dict.fromkeys(names, STRAIGHT) if model.curvature == STRAIGHT else model.curvature
    for argument, given, words in (("monotone", model.monotone, RISING), ("curvature", curvature, BENDING)):
        if given is not None and not isinstance(given, Mapping):
            raise type_error(argument, "be a mapping from columns to words", given)
        for name, word in (given or {}).items():
            if name not in shapes:
                hint = suggestion(name, names)
                raise argument_error(argument, f"name numerical columns, {listed(names)}", name, hint)
            known = words if argument == "monotone" else {**words, STRAIGHT: 0}
            code = known[check_choice(word, f"{argument}[{name!r}]", known)]
            rising = shapes[name].rising
            shapes[name] = Shape(code) if argument == "monotone" else Shape(rising, code, word == STRAIGHT)
    return shapes


def owners_of(columns: Columns) -> dict[Any, int]:
    """Return for each name of a term the place of its column in the table: those of a date are of one column."""
    names = columns.numerical_names
    owners: dict[Any, int] = {}
    for place, (field, places) in enumerate(columns.spans):
        owners |= dict.fromkeys(names[places] if field == "numbers" else [columns.labels[place]], place)
    return owners
