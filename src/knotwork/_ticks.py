"""Ticks of matplotlib's axes by the rules of `knotwork._writing`."""

from collections.abc import Iterable
from typing import Any, final

from matplotlib.axis import Axis
from matplotlib.ticker import Formatter, Locator

from knotwork._writing import axis_ticks, date_text, date_ticks, significant


@final
class _RoundLocator(Locator):
    """Round numbers, or round dates if the axis has days since 1970."""

    def __init__(self, most: int, *, dates: bool) -> None:
        self.most, self.dates = most, dates

    def texts(self, low: float, high: float) -> dict[float, str]:
        """Return the ticks between two ends, with their texts."""
        first, last = min(float(low), float(high)), max(float(low), float(high))
        return dict((date_ticks if self.dates else axis_ticks)(first, last, self.most))

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks between two ends."""
        return list(self.texts(vmin, vmax))

    def __call__(self) -> Any:
        """Return the ticks of the axis."""
        assert self.axis is not None
        return self.tick_values(*self.axis.get_view_interval())


@final
class _RoundFormatter(Formatter):
    """The texts of the ticks of a `_RoundLocator`."""

    def __init__(self, locator: _RoundLocator) -> None:
        self.locator = locator

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        """Return the texts of all ticks."""
        assert self.axis is not None
        texts = self.locator.texts(*self.axis.get_view_interval())
        return [texts.get(float(value), "") for value in values]

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the text of any value, for a reader who points at it."""
        return date_text(x) if self.locator.dates else significant(x)


def round_ticks(axis: Axis, most: int = 5, *, dates: bool = False) -> None:
    """Give an axis about `most` ticks at round numbers, or at round dates if it has days since 1970."""
    locator = _RoundLocator(most, dates=dates)
    axis.set_major_locator(locator)
    axis.set_major_formatter(_RoundFormatter(locator))
