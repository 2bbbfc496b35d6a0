"""From a table and a target to members: validation rows, encodings, indicators of missing values."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_int, listed, type_error
from knotwork._recommend import recommend
from knotwork.basis._blocks import Block
from knotwork.encoders._methods import METHOD_TABLE, Encoding
from knotwork.estimators._columns import Table
from knotwork.knots._columns import Column, Target
from knotwork.training._members import to_usual_range

__all__ = ["SEARCHES", "add_indicators", "choose_encodings", "fit_blocks", "hold_out"]

RECOMMENDED = ("auto", "recommended")
"""Words for what `recommend` says."""

SEARCHES = ("validated", "ensemble")
"""Words for what validation rows decide, of all columns at once."""

DEFAULT_SIZE = 15
BUDGET = "medium"
"""Of `recommend`, for ``encoding="recommended"``."""

FEWEST_ROWS = 10
"""With fewer rows than this none are held out: training stops by the rows it trains on."""


def choose_encodings(encoding: Any, size: int | None, *, names: list[Any], task: str, backbone: str) -> list[Encoding]:
    """Return the encoding of each numerical column.

    Parameters
    ----------
    encoding : str or mapping
        ``"recommended"`` or ``"auto"``, a method with or without a size, or a mapping from column names to these;
        columns that the mapping does not name have what is recommended. Knots are learned in all columns that have
        some, or in none.
    size : int or None
        The size of methods that name none.
    names : list
        Names of the numerical columns, or their places in the table.
    task, backbone : str
        What to recommend for.
    """
    if size is not None:
        check_int(size, "size", minimum=2)
    if not isinstance(encoding, Mapping):
        return [_choice(encoding, size, task, backbone)] * len(names)
    unknown = [name for name in encoding if name not in names]
    if unknown:
        raise argument_error("encoding", "name numerical columns of X", unknown, f"The numerical columns are {names}.")
    choices = [_choice(encoding.get(name, "auto"), size, task, backbone) for name in names]
    with_knots = [(name, choice) for name, choice in zip(names, choices, strict=True) if choice.has_knots]
    fixed = [name for name, choice in with_knots if not choice.learnable]
    if 0 < len(fixed) < len(with_knots):
        raise argument_error(
            "encoding",
            "have learned knots for all columns that have knots, or for none",
            {name: str(choice) for name, choice in zip(names, choices, strict=True)},
            f"Name methods with learned knots, such as 'IS-Grad-U', or 'Std', which has none, for {fixed}.",
        )
    return choices


def _choice(spec: Any, size: int | None, task: str, backbone: str) -> Encoding:
    if not isinstance(spec, str):
        wanted = (
            f"be {', '.join(map(repr, (*RECOMMENDED, *SEARCHES)))}, the name of a method, or a mapping from columns"
        )
        raise type_error("encoding", wanted, spec, "Write encoding='BS-Q@15', or {'age': 'BS-Q@15'} for one column.")
    if spec in RECOMMENDED:
        found = recommend(task, backbone, budget=BUDGET)
        return Encoding(found.method, found.size if size is None or found.size is None else size)
    if spec in SEARCHES:
        raise argument_error(
            "encoding", "name a method for each column", spec, f"Write encoding={spec!r} to choose for all columns."
        )
    if spec.partition("@")[0] not in METHOD_TABLE:
        known = listed((*RECOMMENDED, *SEARCHES, *METHOD_TABLE), most=60)
        raise argument_error("encoding", f"be one of {known}, or a method and a size as in 'BS-Q@15'", spec)
    encoding = Encoding.parse(spec, DEFAULT_SIZE if size is None else size)
    if size is not None and encoding.size not in (None, size):
        raise argument_error("size", f"agree with the encoding {spec!r}", size)
    return encoding


def fit_blocks(
    choices: list[Encoding],
    numbers: npt.NDArray[np.float64],
    target: npt.NDArray[Any],
    *,
    task: str,
    weights: npt.NDArray[np.float64] | None,
    seed: int,
) -> list[Block]:
    """Fit the encoding of each column on training rows, and return the blocks.

    The range of splines and PLE is the `usual_range` of the column: values that lie far out are moved to its ends, here
    and in the network, to which values outside of the range are those at its ends. What is only scaled stays as it is.
    """
    goal = Target.from_values(target, task)
    blocks = []
    for index, (choice, values) in enumerate(zip(choices, numbers.T, strict=True)):
        encoder = choice.start.encoder()
        encoder.check_settings()
        kept = to_usual_range(values) if choice.has_knots else values
        column = Column.from_values(np.ascontiguousarray(kept), weights)
        blocks.append(encoder.fit_column(column, goal, seed=seed + index))
    return blocks


def hold_out(
    target: npt.NDArray[Any], *, task: str, share: float, random: np.random.RandomState
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows to train on and the rows to stop early by.

    Classes are held out by their shares, none of them wholly. Of a table with fewer than `FEWEST_ROWS` rows all are
    in both.
    """
    n_rows = len(target)
    everything = np.arange(n_rows)
    if n_rows < FEWEST_ROWS:
        return everything, everything
    held = np.zeros(n_rows, dtype=bool)
    if task == "regression":
        held[random.permutation(n_rows)[: max(round(share * n_rows), 1)]] = True
    else:
        for code in np.unique(target):
            own = random.permutation(np.flatnonzero(target == code))
            held[own[: min(round(share * len(own)), len(own) - 1)]] = True
        if not held.any():
            return everything, everything
    return everything[~held], everything[held]


def add_indicators(table: Table, indicated: list[int]) -> npt.NDArray[np.int64]:
    """Return the codes, and behind them, for each indicated numerical column, 1 where it is missing, otherwise 2."""
    missing = np.isnan(table.numbers[:, indicated])
    return np.concatenate([table.codes, np.where(missing, 1, 2).astype(np.int64)], axis=1)
