"""What holds for any table: results depend on values alone, and survive JSON."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knotwork._preparation.columns import CodedTable, Columns
from knotwork._preparation.formats import is_mark
from tests.conftest import EVERYTHING
from tests.preparation.saved_columns import read, write

EXAMPLES = 100 if EVERYTHING else 40

finite = st.floats(allow_nan=True, allow_infinity=False)
whole = st.integers(-(2**63), 2**63 - 1)
words = st.text(max_size=3)
missing = st.sampled_from([None, float("nan"), pd.NA])


def objects(*values):
    return pd.Series(values, dtype=object)


def column(n_rows):
    def lists(values):
        return st.lists(values, min_size=n_rows, max_size=n_rows)

    return st.one_of(
        lists(finite),
        lists(whole),
        lists(st.booleans()),
        lists(words),
        lists(st.none()),
        lists(st.one_of(words, st.none())).map(pd.Categorical),
        lists(st.one_of(st.integers(-3, 3), st.none())).map(pd.Categorical),
        lists(st.one_of(whole, st.none())).map(lambda values: pd.array(values, dtype="Int64")),
        lists(st.one_of(words, missing)).map(lambda values: objects(*values)),
        lists(st.one_of(whole, finite, st.booleans(), missing)).map(lambda values: objects(*values)),
        lists(st.one_of(words, whole, finite, st.booleans(), missing)).map(lambda values: objects(*values)),
        lists(st.one_of(st.decimals(allow_infinity=False, allow_nan=False), missing)).map(lambda v: objects(*v)),
    )


@st.composite
def frames(draw):
    names = draw(st.lists(words, min_size=1, max_size=4, unique=True))
    n_rows = draw(st.integers(1, 8))
    X = pd.DataFrame({name: draw(column(n_rows)) for name in names})
    return X, draw(st.lists(st.sampled_from(names), unique=True))


def wild(test):
    checks = [HealthCheck.too_slow]
    return settings(deadline=None, max_examples=EXAMPLES, derandomize=True, suppress_health_check=checks)(test)


def assert_same(got, expected):
    np.testing.assert_array_equal(got.numbers, expected.numbers)
    np.testing.assert_array_equal(got.codes, expected.codes)


@wild
@given(frames())
def test_json_gives_back_equal_columns_and_reads(drawn):
    X, categorical = drawn
    columns = Columns.from_table(X, categorical)
    again = read(json.loads(json.dumps(write(columns), allow_nan=False)))
    assert again == columns
    assert repr(again) == repr(columns)  # True, 1 and 1.0 are equal, and written differently
    assert_same(again.read(X), columns.read(X))


@wild
@given(frames(), st.randoms(use_true_random=False))
def test_permuted_rows_permute_the_result_and_nothing_else(drawn, random):
    X, categorical = drawn
    order = random.sample(range(len(X)), len(X))
    columns, read = Columns.from_table(X, categorical), Columns.from_table(X, categorical).read(X)
    assert repr(Columns.from_table(X.iloc[order], categorical)) == repr(columns)
    assert_same(columns.read(X.iloc[order]), CodedTable(read.numbers[order], read.codes[order]))


@wild
@given(frames())
def test_a_row_alone_is_read_as_among_others(drawn):
    X, categorical = drawn
    columns = Columns.from_table(X, categorical)
    read = columns.read(X)
    for row in range(len(X)):
        assert_same(columns.read(X.iloc[[row]]), CodedTable(read.numbers[[row]], read.codes[[row]]))


@wild
@given(frames())
def test_the_result_is_complete_and_the_table_is_not_touched(drawn):
    X, categorical = drawn
    before = X.copy(deep=True)
    columns = Columns.from_table(X, categorical)
    read = columns.read(X)
    pd.testing.assert_frame_equal(X, before)
    assert not np.isinf(read.numbers).any()
    kept = [name for name, role in zip(X, columns.roles, strict=True) if role == "numerical"]
    assert columns.numerical_names == kept
    marked = X.astype(object).map(lambda value: isinstance(value, str) and is_mark(value))
    marked = marked & np.array([column.format is not None for column in columns])
    np.testing.assert_array_equal(np.isnan(read.numbers), X[kept].isna() | marked[kept])
    np.testing.assert_array_equal(read.codes == 0, X.drop(columns=kept).isna())
    for codes, count in zip(read.codes.T, columns.cardinalities, strict=True):
        assert set(codes) | {0} == set(range(count))
    read.numbers[:], read.codes[:] = 7.0, 7
    pd.testing.assert_frame_equal(X, before)


@wild
@given(frames())
def test_object_arrays_say_what_frames_say(drawn):
    X, _ = drawn
    array = np.empty(X.shape, dtype=object)
    for index, name in enumerate(X):
        array[:, index] = X[name].astype(object)
    before = array.copy()
    columns = Columns.from_table(X)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        from_array = columns.read(array)
    assert_same(from_array, columns.read(X))
    assert all(a is b for a, b in zip(array.ravel(), before.ravel(), strict=True))
