"""An additive model as a graph: curves and surfaces as polynomials between their knots."""

from collections.abc import Sequence
from dataclasses import replace
from math import factorial
from typing import Any

import numpy as np
from scipy import interpolate

from knotwork._graph import Graph
from knotwork._light import Predictor
from knotwork.additive._fitting import Solution
from knotwork.additive._terms import Category, Curve, Surface, Term
from knotwork.basis import BSpline, FloatArray, binary_unit


def predictor_of_terms(terms: Sequence[Term], solutions: Sequence[Solution], empty: Predictor) -> Predictor:
    """Return a predictor with the graph of the sums of terms.

    Parameters
    ----------
    terms : sequence of Term
        The terms.
    solutions : sequence of Solution
        Their coefficients, for each fit.
    empty : Predictor
        The columns and classes.
    """
    graph, betas = Graph(), np.stack([solution.beta for solution in solutions], axis=1)
    parts, start = [], 1
    for term in terms:
        stop = start + term.width
        parts.append(_add_term(graph, term, term.space.transform @ betas[start:stop]))
        start = stop
    # Rows are counted by an input, also if there are no terms.
    given = "numbers" if empty.columns.numerical_names else "codes"
    first = graph("Cast", graph("IsNaN", graph("Cast", graph.slice(given, 0, 1, axis=1), to="float64")), to="float64")
    sums = graph("Sum", graph("Add", graph("Mul", first, np.float64(0.0)), betas[0]), *parts)
    if empty.labels is None:
        graph.outputs["prediction"] = graph.reshape(sums, -1)
    else:
        n_classes = empty.labels.n_classes
        scores = sums if n_classes > 2 else graph("Mul", sums, np.array([0.0, 1.0][:n_classes]))
        graph.outputs["probabilities"] = graph("Softmax", scores, axis=1)
    return replace(empty, graph=graph)


def _add_term(graph: Graph, term: Term, coefficients: FloatArray) -> str:
    """Add a term, of shape (n, n_fits); `coefficients` are those of its functions, (n_functions, n_fits)."""
    if isinstance(term, Curve):
        breaks, pieces = _pieces(term.basis, coefficients[1:])
        return graph("Curve", _scaled_column(graph, term), breaks, pieces, coefficients[0])
    if isinstance(term, Category):
        table = np.append(coefficients, np.zeros((1, coefficients.shape[1])), axis=0)[term.groups]
        return graph("Gather", table, _codes(graph, term), axis=0)
    assert isinstance(term, Surface)
    first, second = (_side(graph, side) for side in term.sides)
    tensor = coefficients.reshape(first[2].shape[0], second[2].shape[0], -1)
    cells = np.einsum("fia,gjb,fgk->ijabk", first[2], second[2], tensor)
    return graph("Surface", first[0], second[0], first[1], second[1], cells)


def _codes(graph: Graph, term: Category) -> str:
    return graph("Gather", "codes", graph.constant(term.place, np.int64), axis=1)


def _scaled_column(graph: Graph, term: Curve) -> str:
    column = graph.slice("numbers", term.place, term.place + 1, axis=1)
    unit = binary_unit(*term.basis.domain)
    return column if unit == 1.0 else graph("Mul", column, np.float64(unit))


def _pieces(basis: BSpline, coefficients: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of intervals, and the coefficients of polynomials in them, of shape (K + 1, p + 1, k)."""
    unit, degree = binary_unit(*basis.domain), basis.degree
    low, high = (end * unit for end in basis.domain)
    breaks = np.concatenate([[low], basis.knots * unit, [high]])
    t = np.concatenate([np.full(degree, low), breaks, np.full(degree, high)])
    spline = interpolate.BSpline(t, coefficients, degree)
    powers: list[Any] = [spline(breaks[:-1], nu=power) / factorial(power) for power in range(degree + 1)]
    return breaks, np.stack(powers, axis=1)


def _side(graph: Graph, term: Term) -> tuple[str, FloatArray, FloatArray]:
    """Return the values of a side of a surface, its breaks, and its functions, of shape (n_functions, K + 1, p + 1).

    A category is a number, that of its function, and is missing if it has none.
    """
    if isinstance(term, Curve):
        breaks, pieces = _pieces(term.basis, np.eye(term.basis.size))
        functions = pieces.transpose(2, 0, 1)
        return _scaled_column(graph, term), breaks, np.append(np.zeros((1, *functions.shape[1:])), functions, axis=0)
    assert isinstance(term, Category)
    places = np.where(term.groups < 0, np.nan, term.groups.astype(np.float64))[:, None]
    n_groups = int(term.groups.max(initial=-1)) + 1
    values = graph("Gather", places, _codes(graph, term), axis=0)
    return values, np.arange(n_groups + 1.0), np.eye(n_groups)[:, :, None]
