"""Targets: classes are sorted, coded and given back with their type; numbers are finite; all else is refused."""

import datetime
import decimal
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from knotwork._model_files import Reader, Writer
from knotwork._preparation.targets import Labels, check_target

NAN = float("nan")

ARRAYS = {
    "integers": np.array([3, -1, 3, 2]),
    "small integers": np.array([3, 1, 3], dtype=np.int8),
    "unsigned integers": np.array([2**64 - 1, 0], dtype=np.uint64),
    "whole floats": np.array([3.0, -1.0, 3.0]),
    "single precision": np.array([3.0, 1.0], dtype=np.float32),
    "half precision": np.array([3.0, 1.0], dtype=np.float16),
    "booleans": np.array([True, False, True]),
    "text": np.array(["yes", "no", "maybe", "no"]),
    "objects that are text": np.array(["yes", "no", "maybe", "no"], dtype=object),
    "one class": np.array(["yes", "yes"]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_classes_are_those_of_numpy(name):
    y = ARRAYS[name]
    before = y.copy()
    expected, inverse = np.unique(y, return_inverse=True)
    labels, codes = Labels.from_values(y)
    np.testing.assert_array_equal(labels.classes, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert codes.dtype == np.int64
    assert labels.classes.dtype == expected.dtype
    assert labels.n_classes == len(expected)
    np.testing.assert_array_equal(labels.decode(codes), y)
    assert labels.decode(codes).dtype == y.dtype
    np.testing.assert_array_equal(y, before)


OTHERS = {
    "list of text": (["b", "a", "b"], ["a", "b"], "U"),
    "list of integers": ([3, 1, 3], [1, 3], "i"),
    "objects that are integers": (np.array([3, 1, 3], dtype=object), [1, 3], "i"),
    "objects that are booleans": (np.array([True, False, True], dtype=object), [False, True], "b"),
    "objects that are whole": (np.array([3, 1.0, 3], dtype=object), [1.0, 3.0], "f"),
    "objects beyond 64 bits": (np.array([2**70, 1, 2**70], dtype=object), [1.0, 2.0**70], "f"),
    "pandas text": (pd.Series(["b", "a", "b"]), ["a", "b"], "O"),
    "pandas nullable text": (pd.Series(["b", "a", "b"], dtype="string"), ["a", "b"], "O"),
    "pandas nullable integers": (pd.Series([3, 1, 3], dtype="Int64"), [1, 3], "i"),
    "pandas nullable booleans": (pd.Series([True, False, True], dtype="boolean"), [False, True], "b"),
    "pandas categories": (pd.Series(pd.Categorical(["b", "a", "b"], categories=list("cba"))), ["a", "b"], "O"),
    "pandas categories of integers": (pd.Series(pd.Categorical([3, 1, 3])), [1, 3], "i"),
    "pandas index": (pd.Index(["b", "a", "b"]), ["a", "b"], "O"),
    "bare categories": (pd.Categorical(["b", "a", "b"]), ["a", "b"], "O"),
    "polars text": (pl.Series(["b", "a", "b"]), ["a", "b"], "OU"),
    "polars enum": (pl.Series(["b", "a", "b"], dtype=pl.Enum(["b", "a"])), ["a", "b"], "O"),
    "polars integers": (pl.Series([3, 1, 3]), [1, 3], "i"),
    "pyarrow text": (pa.array(["b", "a", "b"]), ["a", "b"], "O"),
    "pyarrow chunks": (pa.chunked_array([[3], [1, 3]]), [1, 3], "i"),
    "pyarrow booleans": (pa.chunked_array([[True], [False, True]]), [False, True], "b"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_labels_of_any_container_are_taken(name):
    y, classes, kind = OTHERS[name]
    labels, codes = Labels.from_values(y)
    assert labels.classes.tolist() == classes
    assert labels.classes.dtype.kind in kind
    assert codes.tolist() == [1, 0, 1]


REFUSED_LABELS = {
    "floats": (np.array([0.5, 1.0]), "Unknown label type: continuous.*Use a regressor"),
    "objects that are floats": (np.array([0.5, 1.0], dtype=object), "Unknown label type: continuous"),
    "NaN": (np.array([1.0, NAN, NAN]), "Input y contains NaN. 2 of its values are missing"),
    "infinity": (np.array([1.0, np.inf]), "Input y contains infinity or a value too large for dtype"),
    "None among text": (["a", None], "Input y contains NaN. 1 of"),
    "NaN among text": (["a", NAN], "Input y contains NaN. 1 of"),
    "nullable integers": (pd.Series([1, None, 2], dtype="Int64"), "Input y contains NaN. 1 of"),
    "missing categories": (pd.Categorical(["a", None]), "Input y contains NaN. 1 of"),
    "polars null": (pl.Series(["a", None]), "Input y contains NaN. 1 of"),
    "polars NaN": (pl.Series([1.0, NAN]), "Input y contains NaN. 1 of"),
    "text and numbers": (["a", 1], "Unknown label type.*one type.*'int', 'str'.*astype"),
    "booleans and numbers": (np.array([True, 2], dtype=object), "Unknown label type.*'bool', 'int'"),
    "dates": (pd.Series(pd.to_datetime(["2020-01-01"])), "Unknown label type: datetime64"),
    "objects that are dates": ([datetime.date(2020, 1, 1)], "Unknown label type.*'date'"),
    "bytes": (np.array([b"a"]), "Unknown label type: bytes"),
    "complex numbers": (np.array([1j]), "Complex data not supported"),
    "two columns": (np.zeros((3, 2)), r"y should be a 1d array, got an array of shape \(3, 2\).*one classifier"),
    "nothing": (None, "y should be a 1d array"),
    "no rows": ([], "0 sample"),
    "sparse": (sparse.csr_array(np.eye(2)), "toarray"),
}


@pytest.mark.parametrize("name", REFUSED_LABELS)
def test_labels_that_cannot_be_used_are_refused(name):
    y, message = REFUSED_LABELS[name]
    with pytest.raises((ValueError, TypeError), match=message):
        Labels.from_values(y)


@pytest.mark.parametrize("take", [check_target, lambda y: Labels.from_values(y)[1]])
@pytest.mark.parametrize("wrap", [np.array, pd.DataFrame, lambda y: pl.DataFrame(y, schema=["y"], orient="row")])
def test_a_single_column_is_taken_with_a_warning(take, wrap):
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        assert take(wrap([[0], [1], [0]])).tolist() == [0, 1, 0]


def test_codes_of_no_class_are_refused():
    labels, _ = Labels.from_values(["a", "b"])
    assert labels.decode(np.array([[0, 1], [1, 1]], dtype=np.int32)).tolist() == [["a", "b"], ["b", "b"]]
    assert labels.decode(np.empty(0, dtype=int)).shape == (0,)
    for wrong in ([-1], [2]):
        with pytest.raises(ValueError, match="codes must be from 0 to 1"):
            labels.decode(wrong)
    with pytest.raises(TypeError, match="codes must be integers"):
        labels.decode([0.0])


KINDS = {"Labels": Labels}


def read(content):
    return Reader(KINDS).read(content, Labels, "labels")


@settings(deadline=None)
@given(
    st.one_of(
        st.lists(st.text(max_size=3), min_size=1),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
        st.lists(st.booleans(), min_size=1),
        st.lists(st.integers(-(2**53), 2**53).map(float), min_size=1),
    )
)
def test_json_gives_back_classes_of_the_same_type(y):
    labels, codes = Labels.from_values(y)
    again = read(json.loads(json.dumps(Writer(KINDS).write(labels), allow_nan=False)))
    assert again == labels
    assert again.classes.dtype == labels.classes.dtype
    assert [type(value) for value in again.values] == [type(y[0])] * again.n_classes
    assert again.decode(codes).tolist() == [value.rstrip("\0") if isinstance(value, str) else value for value in y]
    assert list(again.values) == sorted(set(again.values))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["a"], "labels must be of type Labels"),
        ({"values": ["a"]}, "labels must have the entries 'type', 'values', 'dtype'"),
        ({"values": ["a"], "dtype": "str", "code": 1}, "labels must have the entries"),
        ({"values": "ab", "dtype": "str"}, "values must be of type tuple"),
        ({"values": [1], "dtype": "str"}, "values must be one or more str"),
        ({"values": [True], "dtype": "int64"}, "values must be one or more int"),
        ({"values": [1], "dtype": "float64"}, "values must be one or more float"),
        ({"values": [], "dtype": "str"}, "values must be one or more str"),
        ({"values": [0.5], "dtype": "float64"}, "values must be whole"),
        ({"values": [NAN], "dtype": "float64"}, "values must be whole"),
        ({"values": [float("inf")], "dtype": "float64"}, "values must be whole"),
        ({"values": ["b", "a"], "dtype": "str"}, "values must ascend"),
        ({"values": [1, 1], "dtype": "int8"}, "values must ascend"),
        ({"values": [300], "dtype": "int8"}, "values must fit in int8"),
        ({"values": ["a"], "dtype": "datetime64"}, "dtype must be one of 'bool', 'int8'"),
        ({"values": ["a"], "dtype": ["str"]}, "dtype must be of type str"),
    ],
)
def test_json_that_is_wrong_is_refused(content, message):
    with pytest.raises((ValueError, TypeError), match=message):
        read(content if isinstance(content, list) else {"type": "Labels", **content})


TARGETS = {
    "floats": (np.array([0.5, -1.0]), [0.5, -1.0]),
    "single precision": (np.array([0.5, 1.0], dtype=np.float32), [0.5, 1.0]),
    "integers": ([3, 1], [3, 1]),
    "booleans": (np.array([True, False]), [1, 0]),
    "objects": (np.array([1, 2.5, True, decimal.Decimal("0.5")], dtype=object), [1, 2.5, 1, 0.5]),
    "nullable": (pd.Series([1, 2], dtype="Int64"), [1, 2]),
    "categories of numbers": (pd.Series(pd.Categorical([3, 1])), [3, 1]),
    "polars decimals": (pl.Series([decimal.Decimal("0.5")]), [0.5]),
    "pyarrow chunks": (pa.chunked_array([[3], [1]]), [3, 1]),
}


@pytest.mark.parametrize("name", TARGETS)
def test_numbers_are_taken(name):
    y, expected = TARGETS[name]
    got = check_target(y)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, expected)


REFUSED_TARGETS = {
    "text": (["1.5", "2"], "y must hold numbers, but has text.*use a classifier"),
    "text among objects": (np.array([1.5, "2"], dtype=object), "y must hold numbers, but has text"),
    "pandas text": (pd.Series(["a", "b"]), "y must hold numbers, but has text"),
    "dates": (pd.Series(pd.to_datetime(["2020-01-01"])), "y must hold numbers, but has text or dates"),
    "objects that are dates": ([datetime.date(2020, 1, 1)], "y holds datetime.date"),
    "complex numbers": (np.array([1j]), "Complex data not supported"),
    "objects that are complex": (np.array([1j, 1], dtype=object), "y holds 1j"),
    "NaN": (np.array([1.0, NAN, NAN]), "Input y contains NaN. 2 of its values are missing"),
    "None": ([1.0, None], "Input y contains NaN. 1 of"),
    "nullable": (pd.Series([1, None], dtype="Int64"), "Input y contains NaN. 1 of"),
    "infinity": (np.array([1.0, -np.inf]), r"Input y contains infinity or a value too large for dtype\('float64'\)"),
    "too large": (np.array([np.longdouble("1e4000")]), "Input y contains infinity"),
    "too large an integer": ([10**400], "y holds 1000"),
    "two columns, one with text": (np.array([[1, "a"], [2, "b"]], dtype=object), "Column 1 of y: y must hold numbers"),
    "two columns of a frame": (pd.DataFrame({"a": [1.0], "b": [np.nan]}), "Column 'b' of y: Input y contains NaN"),
    "three axes": (np.zeros((3, 2, 2)), "dim 3"),
    "a number": (3.0, "y should be a 1d array"),
    "nothing": (None, "y should be a 1d array"),
    "no rows": ([], "0 sample"),
}


@pytest.mark.parametrize("name", REFUSED_TARGETS)
def test_targets_that_cannot_be_used_are_refused(name):
    y, message = REFUSED_TARGETS[name]
    with pytest.raises((ValueError, TypeError), match=message):
        check_target(y)
