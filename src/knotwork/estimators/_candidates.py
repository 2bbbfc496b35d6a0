"""Encodings to try where validation rows decide, and what is trained to try them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import check_int
from knotwork.encoders._methods import Encoding
from knotwork.estimators._preparation import SEARCHES, choose_encodings, fit_blocks
from knotwork.training._members import Member, TrainingTable

__all__ = ["CANDIDATES", "Candidate", "make_members", "propose"]

CANDIDATES = (
    "Std",
    "BS-Q@7",
    "PLE@7",
    "PLE@15",
    "IS-Q@15",
    "BS-U@15",
    "PLE@30",
    "IS-Q@30",
    "IS-CART@30",
    "BS-Grad-U@30",
)
"""What ``encoding="validated"`` and ``"ensemble"`` try: all that is recommended for a medium budget, and what covers
most.

By the records in `results/` of MLP and ResNet on 25 tables, the best of these ten is on average 0.9 % above the error
(NRMSE, or 1 - AUC) of the best of the paper's 38 methods and sizes, where the recommended encoding is 10.6 % above it
and the best of all at size 15, 5.0 %. Knots from LightGBM are left out: they take longer to place than those of CART,
and with them it is no better. Small sizes stand first: where time is short, what their stacks leave goes to the others.
"""


@dataclass(frozen=True)
class Candidate:
    """An encoding of all numerical columns that is one of several, or the only one.

    Parameters
    ----------
    choices : tuple of Encoding
        The encoding of each column.
    method : str or None, default=None
        The method, where it is one of several.
    size : int or None, default=None
        Its size.
    """

    choices: tuple[Encoding, ...]
    method: str | None = None
    size: int | None = None

    @property
    def learnable(self) -> bool:
        """Whether knots are learned."""
        return any(choice.learnable for choice in self.choices)


def propose(encoding: Any, size: int | None, *, names: list[Any], task: str, backbone: str) -> list[Candidate]:
    """Return the encodings to train: `CANDIDATES` for ``"validated"`` and ``"ensemble"``, otherwise one.

    With a size, candidates have that one, and those that are then the same are one. Of a table without numerical
    columns all encodings are the same: there is one candidate, the recommended one. Parameters as in
    `choose_encodings`.
    """
    if not isinstance(encoding, str) or encoding not in SEARCHES:
        return [Candidate(tuple(choose_encodings(encoding, size, names=names, task=task, backbone=backbone)))]
    if size is not None:
        check_int(size, "size", minimum=2)
    specs: Sequence[str] = CANDIDATES
    if not names:
        specs = [str(choose_encodings("recommended", size, names=[""], task=task, backbone=backbone)[0])]
    choices = [Encoding.parse(spec) for spec in specs]
    if size is not None:
        choices = [Encoding(each.method, size) if each.kind.has_size else each for each in choices]
    return [Candidate((choice,) * len(names), choice.method, choice.size) for choice in dict.fromkeys(choices)]


def make_members(
    candidates: Sequence[Candidate],
    table: TrainingTable,
    *,
    rows: npt.NDArray[np.int64],
    held: npt.NDArray[np.int64],
    seeds: npt.NDArray[np.int64],
) -> list[Member]:
    """Fit the encoding of every candidate on training rows, and return its members, candidate after candidate.

    Parameters
    ----------
    candidates : sequence of Candidate
        The candidates.
    table : TrainingTable
        The table.
    rows, held : ndarray of int
        Rows to train on, and to stop early by.
    seeds : ndarray of shape (n_members,)
        Seeds of the networks of each candidate: the same for all, so that chance does not tell them apart.
    """
    members = []
    weights = None if table.weights is None else table.weights[rows]
    for candidate in candidates:
        blocks = fit_blocks(
            list(candidate.choices),
            table.numbers[rows],
            table.target[rows],
            task=table.task,
            weights=weights,
            seed=int(seeds[0]) % 2**30,
        )
        members += [Member(rows, held, blocks, candidate.learnable, int(seed)) for seed in seeds]
    return members
