"""Compiled loops in threads: pieces of an array shared out to as many threads as torch uses."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import torch

__all__ = ["in_threads", "over_chunks"]


def over_chunks(work: Callable[[int, slice], None], n_groups: int, n_rows: int, *, rows_per_chunk: int) -> None:
    """Call ``work(group, rows)`` on slices that cover all rows of all groups, in as many threads as torch uses.

    Parameters
    ----------
    work : callable
        Must hold no lock for most of its time (compiled loops do not) and write to places of its own.
    n_groups, n_rows : int
        Number of groups, and of rows in each.
    rows_per_chunk : int
        Rows of a slice. The slices do not depend on the number of threads.
    """
    chunks = [
        (group, slice(start, min(start + rows_per_chunk, n_rows)))
        for group in range(n_groups)
        for start in range(0, n_rows, rows_per_chunk)
    ]
    in_threads(work, chunks)


def in_threads(work: Callable[..., None], parts: Sequence[tuple[Any, ...]]) -> None:
    """Call `work` with the arguments of every part, in as many threads as torch uses."""
    if torch.get_num_threads() == 1 or len(parts) < 2:
        for part in parts:
            work(*part)
        return
    for _ in _pool(torch.get_num_threads()).map(lambda part: work(*part), parts):
        pass


@lru_cache(maxsize=1)
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="knotwork")
