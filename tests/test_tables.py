"""Missing and distinct objects are those of pandas, which need not be installed."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from knotwork._tables import factorize, is_missing, missing_mask

MISSING = [None, float("nan"), np.float32("nan"), complex("nan"), Decimal("NaN"), pd.NA, pd.NaT,
           np.datetime64("NaT"), np.timedelta64("NaT")]  # fmt: skip
PRESENT = ["", "nan", 0, 0.0, False, np.bool_(True), 2**70, Decimal("1.5"), float("inf"), b"", 1j,
           datetime.date(2024, 1, 1), np.datetime64("2024-01-01"), pd.Timestamp("2024-01-01")]  # fmt: skip
OBJECTS = st.sampled_from([*MISSING, "a", "b", 0, 1, 1.0, True, -0.0, 2**60, 0.5])


def object_array(values):
    return np.fromiter(values, dtype=object, count=len(values))  # each as it is, without a conversion


@pytest.mark.parametrize(
    ("value", "expected"), [(each, True) for each in MISSING] + [(each, False) for each in PRESENT]
)
def test_missing_values(value, expected):
    assert is_missing(value) is expected
    assert missing_mask(object_array([value])).tolist() == [expected]
    assert pd.isna(value) == expected


@given(st.lists(OBJECTS))
def test_objects_are_factorized_as_by_pandas(values):
    positions, distinct = factorize(object_array(values))
    theirs, uniques = pd.factorize(object_array(values))
    assert positions.tolist() == theirs.tolist()
    assert distinct.tolist() == uniques.tolist()


NUMBERS = st.sampled_from(["bool", "int8", "int64", "uint8", "uint64", "float32", "float64"])


@given(NUMBERS.flatmap(lambda dtype: arrays.arrays(dtype, st.integers(0, 30))))
def test_numbers_are_factorized_as_by_pandas(values):
    positions, distinct = factorize(values)
    theirs, uniques = pd.factorize(values, sort=True)
    assert positions.dtype == np.int64
    assert distinct.dtype == values.dtype
    assert positions.tolist() == theirs.tolist()
    assert distinct.tolist() == uniques.tolist()


@pytest.mark.parametrize("ends", [(0, 2**16 - 1), (0, 2**16), (-(2**63), 2**63 - 1), (-(2**63), -(2**63) + 3)])
def test_integers_of_narrow_and_wide_ranges(ends):
    positions, distinct = factorize(np.array([*ends[::-1], ends[1]], dtype=np.int64))
    assert positions.tolist() == [1, 0, 1]
    assert distinct.tolist() == list(ends)


def test_objects_without_a_hash_are_refused():
    with pytest.raises(TypeError, match="unhashable"):
        factorize(object_array([[1], [2]]))
