"""Graphs as programs: their operations in numpy, one after the other, for a few rows at a time."""

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, final

import numpy as np

from knotwork._graph._graph import Array, Graph
from knotwork._graph._lanes import Source, plan
from knotwork._graph._operations import OPERATIONS

ROWS_IN_CACHE = 256
"""Rows that go through all operations together: their values stay in the cache of a processor."""


@final
class Program:
    """A graph that computes its outputs; members of the same form are computed together.

    Parameters
    ----------
    graph : Graph
        The graph, with the inputs ``numbers`` and ``codes``.
    n_numbers, n_codes : int
        Columns of the inputs.

    Examples
    --------
    >>> graph = Graph()
    >>> graph.outputs["prediction"] = graph("Mul", "numbers", np.float64(2.0))
    >>> Program(graph, 1, 0)(np.array([[1.0], [3.0]]), np.empty((2, 0), dtype=np.int64))["prediction"].tolist()
    [[2.0], [6.0]]
    """

    def __init__(self, graph: Graph, n_numbers: int, n_codes: int) -> None:
        graph = graph.needed(list(graph.outputs))
        row = {"numbers": np.zeros((1, n_numbers)), "codes": np.zeros((1, n_codes), dtype=np.int64)}
        ranks = {name: np.ndim(value) for name, value in traced(graph, row).items()}
        self._steps, self._constants, self._outputs = plan(graph, ranks)
        last: dict[Any, int] = {}
        for number, step in enumerate(self._steps):
            last |= {key: number for source in step.sources for key in _keys(source)}
        kept = {*self._constants, *(key for source in self._outputs.values() for key in _keys(source))}
        over: list[list[Any]] = [[] for _ in self._steps]
        for key, number in last.items():
            if key not in kept and key not in ("numbers", "codes"):
                over[number].append(key)
        self._over = over

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
        if n_rows <= ROWS_IN_CACHE:
            return self._part(numbers, codes)
        from threadpoolctl import threadpool_limits  # noqa: PLC0415 - few rows need none of it

        parts = [slice(start, start + ROWS_IN_CACHE) for start in range(0, n_rows, ROWS_IN_CACHE)]
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        # Threads of BLAS inside of ours would wait for each other.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_cores) as pool:
            results = list(pool.map(lambda rows: self._part(numbers[rows], codes[rows]), parts))
        return {name: np.concatenate([result[name] for result in results]) for name in self._outputs}

    def _part(self, numbers: Array, codes: Array) -> dict[str, Array]:
        values: dict[Any, Array] = {**self._constants, "numbers": numbers, "codes": codes}
        with np.errstate(all="ignore"):
            for step, over in zip(self._steps, self._over, strict=True):
                values[step.target] = step.call(*[_taken(values, source) for source in step.sources])
                for key in over:
                    del values[key]
        return {name: _taken(values, source) for name, source in self._outputs.items()}


def _taken(values: Mapping[Any, Array], source: Source) -> Array:
    key, lane = source
    if lane is not None:
        of_lane: Array = values[key][lane]
        return of_lane
    if key in values:
        return values[key]
    return np.stack([_taken(values, each) for each in key[1]])


def _keys(source: Source) -> list[Any]:
    """Return the values of which a source is made."""
    key = source[0]
    return [each[0] for each in key[1]] if isinstance(key, tuple) and key[0] == "some" else [key]


def traced(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return all values of a graph, by name, for some rows."""
    values: dict[str, Array] = {**graph.constants, **inputs}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            arguments = [values[name] for name in node.inputs]
            values[node.output] = OPERATIONS[node.operation].function(*arguments, **node.attributes)
    return values
