"""Graphs as programs: their operations in numpy, one after the other, for a few rows at a time."""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, final

import numpy as np

from knotwork._graph._graph import Array, Graph
from knotwork._graph._operations import OPERATIONS

ROWS_AT_A_TIME_IN_CACHE = 512
"""Rows that go through all operations together: their values stay in the cache of a processor."""

Step = tuple[Callable[..., Array], tuple[int, ...], int, tuple[int, ...]]
"""A function, the places of its inputs and of its result, and of values that are not needed after it."""


@final
class Program:
    """A graph that computes its outputs.

    Parameters
    ----------
    graph : Graph
        The graph, with the inputs ``numbers`` and ``codes``.

    Examples
    --------
    >>> graph = Graph()
    >>> graph.outputs["prediction"] = graph("Mul", "numbers", np.float64(2.0))
    >>> Program(graph)(np.array([[1.0], [3.0]]), np.empty((2, 0), dtype=np.int64))["prediction"].tolist()
    [[2.0], [6.0]]
    """

    def __init__(self, graph: Graph) -> None:
        graph = graph.needed(list(graph.outputs))
        names = ["numbers", "codes", *graph.constants, *(node.output for node in graph.nodes)]
        places = {name: place for place, name in enumerate(names)}
        self._outputs = {name: places[value] for name, value in graph.outputs.items()}
        self._values: list[Any] = [None, None, *graph.constants.values(), *([None] * len(graph.nodes))]
        last = {places[name]: number for number, node in enumerate(graph.nodes) for name in node.inputs}
        kept = {*range(2 + len(graph.constants)), *self._outputs.values()}
        self._steps: list[Step] = []
        for number, node in enumerate(graph.nodes):
            function = OPERATIONS[node.operation].function
            inputs = tuple(places[name] for name in node.inputs)
            over = tuple({place for place in inputs if last[place] == number} - kept)
            attributes = {key: value for key, value in node.attributes.items()}
            call = partial(function, **attributes) if attributes else function
            self._steps.append((call, inputs, places[node.output], over))

    def __call__(self, numbers: Array, codes: Array) -> dict[str, Array]:
        """Return the outputs by name, each with a row for every row of the inputs.

        Parameters
        ----------
        numbers : ndarray of shape (n, n_numerical)
            Numerical columns, NaN where missing.
        codes : ndarray of int64, shape (n, n_categorical)
            Codes of categories; 0 where missing or unseen.
        """
        n_rows = len(numbers)
        if n_rows <= ROWS_AT_A_TIME_IN_CACHE:
            return self._part(numbers, codes)
        starts = range(0, n_rows, ROWS_AT_A_TIME_IN_CACHE)
        parts = [slice(start, start + ROWS_AT_A_TIME_IN_CACHE) for start in starts]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None) as pool:
            results = list(pool.map(lambda rows: self._part(numbers[rows], codes[rows]), parts))
        return {name: np.concatenate([result[name] for result in results]) for name in self._outputs}

    def _part(self, numbers: Array, codes: Array) -> dict[str, Array]:
        values = self._values.copy()
        values[0], values[1] = numbers, codes
        with np.errstate(all="ignore"):
            for function, inputs, place, over in self._steps:
                values[place] = function(*[values[each] for each in inputs])
                for each in over:
                    values[each] = None
        return {name: values[place] for name, place in self._outputs.items()}


def traced(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return all values of a graph, by name, for some rows."""
    values = {**graph.constants, **inputs}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            arguments = [values[name] for name in node.inputs]
            values[node.output] = OPERATIONS[node.operation].function(*arguments, **node.attributes)
    return values
