"""What predictions need of a fitted model, without the library that trained it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from knotwork._graph import Graph, Program
from knotwork._light._residuals import Residuals
from knotwork._preparation.columns import Columns
from knotwork._preparation.targets import Labels

Floats = npt.NDArray[np.float64]

SMALLEST_PROBABILITY = 1e-300
"""Smallest probability: its logarithm is finite."""


@final
@dataclass(frozen=True, eq=False)
class Predictor:
    """A fitted model as a graph, for all formats and for the light runtime.

    Parameters
    ----------
    graph : Graph
        With the outputs ``probabilities``, of shape (n, n_classes), or ``prediction``, of the shape that `predict`
        returns, and where the model has them ``std``, and ``centre`` and ``spread`` of intervals, (n, n_targets).
    columns : Columns
        What the table holds: the graph takes numbers and codes as `Columns.read` returns them.
    labels : Labels or None
        The classes.
    response_names : tuple of str
        Names of the numbers of a row, classes, or targets and levels; one target has an empty name.
    target_name : str or None
        Name of the target.
    residuals : Residuals or None
        What intervals are made of.
    is_positive : bool
        Whether the target, and so the ends of intervals, are not negative.
    n_targets : int or None
        Number of targets; None for a target of shape (n,).
    """

    graph: Graph
    columns: Columns
    labels: Labels | None
    response_names: tuple[str, ...]
    target_name: str | None = None
    residuals: Residuals | None = None
    is_positive: bool = False
    n_targets: int | None = None

    def program(self, *outputs: str) -> Program:
        """Return what computes some outputs of the graph."""
        columns = self.columns
        return Program(self.graph.needed(outputs), len(columns.numerical_names), len(columns.cardinalities))

    @property
    def output(self) -> str:
        """The name of the main output."""
        return "prediction" if self.labels is None else "probabilities"


def add_mean(graph: Graph, values: list[str], weights: list[float]) -> str:
    """Add the weighted mean of members to a graph."""
    parts = [graph("Mul", value, np.float64(weight)) for value, weight in zip(values, weights, strict=True)]
    return graph("Sum", *parts)


def add_calibration(graph: Graph, probabilities: str, temperature: float, offsets: Sequence[float]) -> str:
    """Add probabilities whose logarithms are divided by a temperature, after offsets of classes are subtracted."""
    if temperature == 1.0 and not offsets:
        return probabilities
    logarithms = graph("Log", graph("Max", probabilities, np.float64(SMALLEST_PROBABILITY)))
    if offsets:
        logarithms = graph("Sub", logarithms, np.array(offsets))
    return graph("Softmax", graph("Div", logarithms, np.float64(temperature)), axis=1)
