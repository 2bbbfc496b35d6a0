"""What trees are grown on, and what growing returns."""

from dataclasses import dataclass
from typing import final

from knotwork._graph import Floats, Forest


@final
@dataclass(frozen=True, eq=False)
class TreeColumns:
    """The columns of a table as trees are grown on them: numbers, then codes.

    Parameters
    ----------
    values : ndarray of shape (n, n_numerical + n_categorical)
        Numbers, NaN where missing, and codes.
    n_numerical : int
        Number of numerical columns.
    cardinalities : tuple of int
        Number of codes of each categorical column.
    """

    values: Floats
    n_numerical: int
    cardinalities: tuple[int, ...]

    @property
    def categorical(self) -> list[int]:
        """Places of the categorical columns."""
        return list(range(self.n_numerical, self.n_numerical + len(self.cardinalities)))


@final
@dataclass(frozen=True, eq=False)
class Grown:
    """Trees of one model, and how it was trained.

    Parameters
    ----------
    forest : Forest
        The trees up to the best number of rounds.
    loss, score : ndarray of shape (n_rounds,)
        The metric on training and validation rows after every round; scores are NaN without such rows.
    best : int
        The number of rounds that was kept.
    """

    forest: Forest
    loss: Floats
    score: Floats
    best: int
