"""Numbers of dates: what is equal on the calendar is equal as a number."""

import numpy as np
import pytest

from knotwork._preparation.formats import DateFormat


@pytest.mark.parametrize(("part", "n_distinct"), [("month", 7), ("weekday", 7)])
def test_equal_sines_are_equal_numbers(part, n_distinct):
    """Sines of 12 months take 7 values, those of 7 weekdays 7; rounding errors would make more of them."""
    moments = np.arange("2016-01-01", "2018-01-01", dtype="datetime64[D]")
    formatted = DateFormat("ymd", (part,)).numbers(moments)
    assert len(np.unique(formatted[:, 0])) == n_distinct
    assert not np.signbit(formatted[formatted == 0.0]).any()
    assert formatted.std(axis=0) == pytest.approx(np.sqrt(0.5), abs=0.02)
