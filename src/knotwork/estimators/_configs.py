"""Parameters of the estimators that belong together: how columns are read, and which rows validate."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from knotwork._checks import argument_error, check_bool, check_choice, type_error
from knotwork._preparation.columns import DATES
from knotwork._preparation.members import MISSING
from knotwork._preparation.validation import check_validation
from knotwork.training import CATEGORIES

__all__ = ["ColumnConfig", "ValidationConfig"]

USUAL_SHARE = 0.1


@final
@dataclass(frozen=True)
class ColumnConfig:
    """How the columns of a table enter the networks.

    Parameters
    ----------
    categorical : iterable, optional
        Columns of numbers or text that are categories: names, or positions in an array.
    categories : {"embedding", "code", "mixed"}, default="embedding"
        Whether a category is a learned vector or, as in the paper, an integer code, or, in columns of at most eight
        categories, one-hot and otherwise a learned vector; an FT-Transformer always learns vectors.
    missing : {"zeros", "learned"}, default="zeros"
        What a missing number becomes, besides the vector that marks it: zeros, or a learned vector in place of the
        functions, one for each column, which starts at zero.
    dates : {"features", "error"}, default="features"
        Whether dates and times become numbers (elapsed days, year, and month, weekday, hour and day of the year by sine
        and cosine, those that vary), or dates, times and durations are refused, also if they are text.

    Examples
    --------
    >>> ColumnConfig(categorical=["zip_code"], missing="learned").categorical
    ('zip_code',)
    """

    categorical: Iterable[str | int] | None = None
    categories: str = "embedding"
    missing: str = "zeros"
    dates: str = "features"

    def __post_init__(self) -> None:
        check_choice(self.categories, "categories", CATEGORIES)
        check_choice(self.missing, "missing", MISSING)
        check_choice(self.dates, "dates", DATES)
        if self.categorical is not None:
            if isinstance(self.categorical, str) or not isinstance(self.categorical, Iterable):
                hint = "Write categorical=['zip_code'], for example."
                raise type_error("categorical", "be a list of columns", self.categorical, hint)
            object.__setattr__(self, "categorical", tuple(self.categorical))

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Return a configuration, the usual one for None."""
        if value is not None and not isinstance(value, cls):
            raise type_error("columns", "be a ColumnConfig", value, "Write ColumnConfig(categorical=['zip_code']).")
        return cls() if value is None else value


@final
@dataclass(frozen=True)
class ValidationConfig:
    """Which rows are held out, and what they are used for.

    Parameters
    ----------
    rows : None, "time", float, int, splitter or sequence of pairs, default=None
        Which rows: the values that `validation` of `TabularRegressor` may have.
    share : float, default=0.1
        With ``rows="time"``, the share of the last rows that are held out.
    refit : bool, default=False
        Whether the networks that were chosen are trained again on all rows, one in place of those of all folds, for the
        number of epochs that was best on the validation rows. `validation_score_`, `candidates_` and
        `feature_importances_` are those of the networks before.

    Examples
    --------
    >>> ValidationConfig("time", share=0.2)
    ValidationConfig(rows='time', share=0.2, refit=False)
    """

    rows: Any = None
    share: float = USUAL_SHARE
    refit: bool = False

    def __post_init__(self) -> None:
        check_validation(self.rows)
        if not isinstance(self.share, float | np.floating) or not 0.0 < self.share < 1.0:
            raise argument_error("share", "be a number between 0 and 1", self.share)
        if self.share != USUAL_SHARE and not isinstance(self.rows, str):
            hint = f"Write rows={self.share!r} for one random part of this share, or rows='time' for the last rows."
            raise argument_error("share", f"be left at {USUAL_SHARE} unless rows='time'", self.share, hint)
        check_bool(self.refit, "refit")

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Return a configuration from one, or from its rows."""
        return value if isinstance(value, cls) else cls(value)
