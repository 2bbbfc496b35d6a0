"""How much a prediction needs each column."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from knotwork._preparation.columns import Table

__all__ = ["shuffled_losses"]


def shuffled_losses(table: Table, roles: Sequence[str], loss: Callable[[Table], float]) -> npt.NDArray[np.float64]:
    """Return by how much a loss grows when a column is shuffled, one number for each column.

    Parameters
    ----------
    table : Table
        Rows that were not trained on.
    roles : sequence of {"numerical", "categorical"}
        What each column is.
    loss : callable
        Maps a table with these rows to a loss.
    """
    before = loss(table)
    order = np.random.RandomState(0).permutation(len(table.numbers))
    gains, numerical, categorical = [], 0, 0
    for role in roles:
        numbers, codes = table.numbers.copy(), table.codes.copy()
        if role == "numerical":
            numbers[:, numerical] = numbers[order, numerical]
            numerical += 1
        else:
            codes[:, categorical] = codes[order, categorical]
            categorical += 1
        gains.append(loss(Table(numbers, codes)) - before)
    return np.array(gains)
