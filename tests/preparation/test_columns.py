"""Tables of all kinds are read by value, without touching them, or refused with the column and the next step."""

import datetime
import decimal
import enum
import fractions

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.preprocessing import OrdinalEncoder

from knotwork._preparation.columns import CodedTable, Columns

NAN = float("nan")
LARGEST = np.finfo(float).max


def frame(bad):
    return pd.DataFrame({"good": np.arange(float(len(bad))), "bad": bad})


def objects(*values):
    return pd.Series(values, dtype=object)


class Town(str, enum.Enum):  # noqa: UP042 - whose str() is not its value
    ULM = "Ulm"


NUMERICAL = {
    "integers": (np.array([3, 1, 2]), [3, 1, 2]),
    "small integers": (np.array([3, 1, 2], dtype=np.int8), [3, 1, 2]),
    "large integers": (np.array([2**64 - 1, 0, 1], dtype=np.uint64), [2.0**64, 0, 1]),
    "half precision": (np.array([0.5, NAN], dtype=np.float16), [0.5, NAN]),
    "long doubles": (np.array([0.5, NAN], dtype=np.longdouble), [0.5, NAN]),
    "booleans": (np.array([True, False]), [1, 0]),
    "nullable booleans": (pd.array([True, None, False], dtype="boolean"), [1, NAN, 0]),
    "nullable integers": (pd.array([1, None, 3], dtype="Int64"), [1, NAN, 3]),
    "nullable floats": (pd.array([1.5, None], dtype="Float64"), [1.5, NAN]),
    "arrow integers": (pd.array([1, None, 3], dtype="int64[pyarrow]"), [1, NAN, 3]),
    "decimals": (objects(decimal.Decimal("1.5"), None, decimal.Decimal("NaN")), [1.5, NAN, NAN]),
    "fractions": (objects(fractions.Fraction(1, 4), 2), [0.25, 2]),
    "objects": (objects(1, None, 2.5, pd.NA, NAN), [1, NAN, 2.5, NAN, NAN]),
    "booleans among numbers": (objects(True, 2.5, 0), [1, 2.5, 0]),
    "objects that are booleans": (objects(True, None, np.False_), [1, NAN, 0]),
    "objects beyond 64 bits": (objects(2**70, 1), [2.0**70, 1]),
    "all None": (objects(None, None), [NAN, NAN]),
    "all NaN": (np.full(2, NAN), [NAN, NAN]),
    "all NaT": (pd.to_datetime([None, None]), [NAN, NAN]),
    "no text": (pd.array([None, None], dtype="string"), [NAN, NAN]),
    "no categories": (pd.Categorical([None, None]), [NAN, NAN]),
    "polars decimals": (pl.Series([decimal.Decimal("1.5"), None]), [1.5, NAN]),
    "polars null": (pl.Series([None, None]), [NAN, NAN]),
    "polars NaN and null": (pl.Series([1.0, NAN, None]), [1, NAN, NAN]),
    "polars booleans": (pl.Series([True, None]), [1, NAN]),
    "pyarrow integers": (pa.chunked_array([[1], [None, 3]]), [1, NAN, 3]),
    "pyarrow half precision": (pa.array(np.array([0.5], dtype=np.float16)), [0.5]),
}


def one_column(values):
    if isinstance(values, pl.Series):
        return pl.DataFrame({"bad": values})
    return (
        pa.table({"bad": values}) if isinstance(values, pa.Array | pa.ChunkedArray) else pd.DataFrame({"bad": values})
    )


@pytest.mark.parametrize("name", NUMERICAL)
def test_numbers_are_numbers_whatever_their_type(name):
    values, expected = NUMERICAL[name]
    table = one_column(values)
    columns = Columns.from_table(table)
    assert columns.roles == ("numerical",)
    read = columns.read(table)
    assert read.numbers.dtype == np.float64
    assert read.codes.shape == (len(expected), 0)
    np.testing.assert_array_equal(read.numbers[:, 0], expected)


CATEGORICAL = {
    "text": (["b", "a", None], ("a", "b"), [2, 1, 0]),
    "objects": (objects("b", "a", None, NAN, pd.NA), ("a", "b"), [2, 1, 0, 0, 0]),
    "nullable text": (pd.array(["b", None, "a"], dtype="string"), ("a", "b"), [2, 0, 1]),
    "arrow text": (pd.array(["b", None, "a"], dtype="string[pyarrow]"), ("a", "b"), [2, 0, 1]),
    "categories": (pd.Categorical(["b", "a", None], categories=["c", "b", "a"]), ("a", "b"), [2, 1, 0]),
    "categories of integers": (pd.Categorical([10, 9, None]), (9, 10), [2, 1, 0]),
    "categories of booleans": (pd.Categorical([True, False, None]), (False, True), [2, 1, 0]),
    "categories of text and numbers": (pd.Categorical(["b", 1]), ("1", "b"), [2, 1]),
    "intervals": (pd.Categorical.from_codes([1, 0], pd.interval_range(0, 2)), ("(0, 1]", "(1, 2]"), [2, 1]),
    "mixed": (objects("b", 1, 1.0, True, None, 2.5), ("1", "2.5", "True", "b"), [4, 1, 1, 3, 0, 2]),
    "text with zeros": (objects("a\0c", "a\0b"), ("a\0b", "a\0c"), [2, 1]),
    "text that is not Unicode": (objects("\ud801", "\ud800"), ("\ud800", "\ud801"), [2, 1]),
    "empty text": (["", "a"], ("", "a"), [1, 2]),
    "numbers in categories": (pd.Categorical(["10", "9"]), ("10", "9"), [1, 2]),
    "codes in text": (["010", "09"], ("010", "09"), [1, 2]),
    "text of NumPy": (objects(np.str_("b"), "a"), ("a", "b"), [2, 1]),
    "members of an enum": (objects(Town.ULM, "Bonn"), ("Bonn", "Ulm"), [2, 1]),
    "arrow dictionary in pandas": (
        pd.array(["b", None, "a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string()))), ("a", "b"), [2, 0, 1],
    ),
    "polars text": (pl.Series(["b", None, "a"]), ("a", "b"), [2, 0, 1]),
    "polars categories": (pl.Series(["b", None, "a"], dtype=pl.Categorical), ("a", "b"), [2, 0, 1]),
    "polars enum": (pl.Series(["b", None, "a"], dtype=pl.Enum(["c", "b", "a"])), ("a", "b"), [2, 0, 1]),
    "pyarrow text": (pa.chunked_array([["b"], [None, "a"]]), ("a", "b"), [2, 0, 1]),
    "pyarrow large text": (pa.array(["b", None, "a"], type=pa.large_string()), ("a", "b"), [2, 0, 1]),
    "pyarrow dictionary": (pa.array(["b", None, "a"]).dictionary_encode(), ("a", "b"), [2, 0, 1]),
    "pyarrow dictionary that repeats itself": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["a", None, "a"])), ("a",), [1, 0, 1, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CATEGORICAL)
def test_text_and_categories_are_codes_whatever_their_type(name):
    values, categories, codes = CATEGORICAL[name]
    table = one_column(values)
    columns = Columns.from_table(table)
    assert columns.roles == ("categorical",)
    assert columns.categories == (categories,)
    assert [type(label) for label in columns.categories[0]] == [type(label) for label in categories]
    assert columns.cardinalities == (len(categories) + 1,)
    read = columns.read(table)
    assert read.codes.dtype == np.int64
    assert read.numbers.shape == (len(codes), 0)
    np.testing.assert_array_equal(read.codes[:, 0], codes)


SAME = ["text", "nullable text", "categories", "polars text", "polars categories", "polars enum", "pyarrow text"]


@pytest.mark.parametrize("seen", SAME)
@pytest.mark.parametrize("read", SAME)
def test_the_same_texts_are_the_same_categories(seen, read):
    columns = Columns.from_table(one_column(CATEGORICAL[seen][0]))
    assert columns == Columns.from_table(one_column(CATEGORICAL[read][0]))
    values, _, codes = CATEGORICAL[read]
    np.testing.assert_array_equal(columns.read(one_column(values)).codes[:, 0], codes)


REFUSED = {
    "datetimes among text": (
        frame(objects(datetime.datetime(2020, 1, 1), "a")),
        "column 'bad' mixes dates.*2020-01-01 00:00:00, with other",
    ),
    "objects that are bytes": (frame(objects(b"a", "b")), "column 'bad' holds bytes"),
    "lists": (frame(objects([1, 2], [3])), "column 'bad' holds lists"),
    "lists after text": (frame(objects("a", [3])), "column 'bad' holds lists"),
    "dictionaries": (frame(objects({"a": 1}, {})), "column 'bad' holds records"),
    "arrays": (frame(objects(np.ones(2), None)), "column 'bad' holds arrays"),
    "other objects": (frame(objects(object(), 1)), "column 'bad' holds <object.*argument must be a string or a real"),
    "complex numbers": (frame([1 + 2j, 3j]), "column 'bad' is complex: Complex data not supported"),
    "objects that are complex": (frame(objects(1 + 2j, 3)), "column 'bad' holds .*Complex data not supported"),
    "too large an integer": (frame(objects(10**400, 1)), "column 'bad' holds 1000"),
    "too large an integer among text": (frame(objects(10**400, "a")), "column 'bad' holds 1000"),
    "infinity": (frame([1.0, np.inf]), "column 'bad' contains infinity in 1 row. Replace it"),
    "infinity among objects": (frame(objects(1.0, -np.inf)), "column 'bad' contains infinity"),
    "infinite category": (frame(pd.Categorical([1.0, np.inf])), "column 'bad' contains infinity"),
    "polars lists": (pl.DataFrame({"bad": [[1], [2]]}), "column 'bad' holds lists"),
    "polars records": (pl.DataFrame({"bad": [{"a": 1}, {"a": 2}]}), "column 'bad' holds records"),
    "polars bytes": (pl.DataFrame({"bad": [b"a", b"b"]}), "column 'bad' holds bytes"),
    "polars lazy frame": (pl.LazyFrame({"a": [1.0, 2.0]}), "Call .collect()"),
    "repeated names": (pd.DataFrame(np.eye(2), columns=["bad", "bad"]), "occur more than once: 'bad'"),
    "names of several types": (pd.DataFrame(np.eye(2), columns=["a", 1]), "all input features have string names"),
    "array of bytes": (np.array([[b"a"]]), "column 0 holds bytes"),
    "array of records": (np.zeros(2, dtype=[("a", float), ("b", int)]), "pandas.DataFrame(X)"),
    "array with infinity": (np.array([[1.0, np.inf], [2.0, 3.0]]), "column 1 contains infinity"),
    "array of complex numbers": (np.array([[1j], [2j]]), "Complex data not supported"),
    "ragged list": ([[1.0, 2.0], [3.0]], "inhomogeneous"),
    "one dimension": (np.arange(3.0), "Reshape your data"),
    "one dimension of text": (["a", "b"], "Reshape your data"),
    "a series": (pd.Series([1.0]), "2-dimensional"),
    "three dimensions": (np.zeros((2, 2, 2)), "dim 3"),
    "a string": ("table.csv", "X must be a table: a frame, or an array of two dimensions, got X='str'. Read files"),
    "nothing": (None, "X must be a table"),
    "no rows": (np.empty((0, 2)), "0 sample(s) (shape=(0, 2)) while a minimum of 1 is required."),
    "no columns": (np.empty((5, 0)), "0 feature(s) (shape=(5, 0)) while a minimum of 1 is required."),
    "frame without rows": (pd.DataFrame({"a": np.empty(0)}), "0 sample(s) (shape=(0, 1)) while a minimum of 1"),
    "frame without columns": (pd.DataFrame(index=[0, 1]), "0 feature(s) (shape=(2, 0)) while a minimum of 1"),
    "sparse matrix": (sparse.csr_array(np.eye(3)), "Sparse input is not supported: call X.toarray() first"),
}


DATES = {
    "dates": (frame(pd.to_datetime(["2020-01-01", "2021-01-01"])), "column 'bad' is a date. Convert"),
    "dates with a zone": (frame(pd.to_datetime(["2020-01-01", "2021-01-01"], utc=True)), "column 'bad' is a date"),
    "durations": (frame(pd.to_timedelta([1, 2], unit="D")), "column 'bad' is a duration"),
    "periods": (frame(pd.period_range("2020", periods=2)), "column 'bad' is a date"),
    "objects that are dates": (frame(objects(datetime.date(2020, 1, 1), None)), "column 'bad' is a date"),
    "objects that are times": (frame(objects(datetime.time(1), None)), "column 'bad' is a time of day"),
    "polars dates": (pl.DataFrame({"bad": [datetime.date(2020, 1, 1)]}), "column 'bad' is a date"),
    "polars times": (pl.DataFrame({"bad": [datetime.time(1, 2)]}), "column 'bad' is a time of day"),
    "pyarrow dates": (pa.table({"bad": [datetime.date(2020, 1, 1)]}), "column 'bad' is a date"),
    "array of dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), "column 0 is a date"),
    "array of durations": (np.array([[1]], dtype="timedelta64[D]"), "column 0 is a duration"),
    "text": (frame(["2020-01-31", "2021-01-01"]), "column 'bad' is text that holds dates, such as '2020-01-31'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_column_and_the_next_step(name):
    table, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(").replace(")", r"\)")):
        Columns.from_table(table)


@pytest.mark.parametrize("name", DATES)
def test_dates_are_refused_on_request(name):
    table, message = DATES[name]
    assert {"numerical", "date"} >= set(Columns.from_table(table).roles)
    with pytest.raises(TypeError, match=message):
        Columns.from_table(table, dates="error")
    with pytest.raises(ValueError, match="dates must be one of 'features', 'error', got dates='refuse'"):
        Columns.from_table(table, dates="refuse")


def test_a_column_refused_when_fitting_is_refused_when_reading():
    columns = Columns.from_table(frame(["a", "b"]))
    with pytest.raises(TypeError, match="column 'bad' is a date"):
        columns.read(frame(pd.to_datetime(["2020-01-01"])))


def test_arrays_are_read_column_by_column():
    X = np.array([["b", 1, None], ["a", 2.5, None]], dtype=object)
    for table in (X, X.tolist(), tuple(map(tuple, X))):
        columns = Columns.from_table(table)
        assert columns.names is None
        assert columns.roles == ("categorical", "numerical", "numerical")
        read = columns.read(table)
        np.testing.assert_array_equal(read.numbers, [[1, NAN], [2.5, NAN]])
        np.testing.assert_array_equal(read.codes, [[2], [1]])


def test_arrays_of_text_are_categories_and_arrays_of_numbers_are_numbers():
    assert Columns.from_table(np.array([["1", "2"], ["x", "3"]])).roles == ("categorical", "numerical")
    for dtype in (bool, np.int8, np.float32, np.float64):
        X = np.array([[1, 0], [0, 1]], dtype=dtype)
        columns = Columns.from_table(X)
        assert columns.roles == ("numerical", "numerical")
        np.testing.assert_array_equal(columns.read(X).numbers, X)


def test_the_first_rows_do_not_say_what_all_objects_are():
    X = pd.DataFrame({"a": objects(*["x"] * 150, True, 1)})
    columns = Columns.from_table(X)
    assert columns.categories == (("1", "True", "x"),)
    assert columns.read(X).codes[-3:, 0].tolist() == [3, 2, 1]
    with pytest.raises(TypeError, match="column 'a' mixes dates"):
        Columns.from_table(pd.DataFrame({"a": objects(*["x"] * 150, datetime.date(2020, 1, 1))}))


def test_masked_values_are_missing():
    X = np.ma.masked_equal([[1, 2], [9, 4]], 9)
    np.testing.assert_array_equal(Columns.from_table(X).read(X).numbers, [[1, 2], [NAN, 4]])


def test_frames_whose_names_are_no_text_are_read_by_position():
    X = pd.DataFrame({1: [1.0, 2.0], 0: ["a", "b"]})
    columns = Columns.from_table(X)
    assert columns.names is None
    assert columns.read(X.to_numpy()).codes.tolist() == [[1], [2]]


def test_columns_of_frames_are_found_by_name():
    X = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"], "c": [3, 4]})
    columns = Columns.from_table(X)
    expected = CodedTable(np.array([[1.0, 3.0], [2.0, 4.0]]), np.array([[1], [2]]))
    for table in (X, X[["c", "b", "a"]], pl.from_pandas(X[["b", "c", "a"]]), pa.Table.from_pandas(X)):
        for got, wanted in zip(columns.read(table), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    with pytest.warns(UserWarning, match="X does not have valid feature names.*in the order of the fit"):
        np.testing.assert_array_equal(columns.read(X.to_numpy()).numbers, expected.numbers)


def test_columns_that_lack_or_are_too_many_are_named():
    X = pd.DataFrame({"a": [1.0], "b": ["u"]})
    columns = Columns.from_table(X)
    with pytest.raises(ValueError, match="seen at fit time, yet now missing: 'b'. Add them"):
        columns.read(X[["a"]])
    with pytest.raises(ValueError, match="unseen at fit time: 'c', 'd'. Drop them"):
        columns.read(X.assign(d=1, c=2))
    with pytest.raises(ValueError, match="unseen at fit time: 'B'.*yet now missing: 'b'"):
        columns.read(X.rename(columns={"b": "B"}))
    with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 2 features as input"):
        columns.read(np.ones((1, 3)))


def test_infinite_numbers_are_clipped_when_reading():
    columns = Columns.from_table(np.array([[1.0], [2.0]]))
    read = columns.read(np.array([[np.inf], [-np.inf], [NAN], [LARGEST]]))
    np.testing.assert_array_equal(read.numbers[:, 0], [LARGEST, -LARGEST, NAN, LARGEST])


def test_text_in_a_column_of_numbers_is_parsed_or_refused():
    columns = Columns.from_table(frame([1.0, 2.0]))
    for text in (["1.5", " 2e3 ", None], pd.Categorical(["1.5", "2e3", None]), objects(1.5, "2e3", None)):
        np.testing.assert_array_equal(columns.read(frame(text)).numbers[:, 1], [1.5, 2000, NAN])
    for word in ("many", "", "1_000", "1,5"):
        with pytest.raises(TypeError, match=f"column 'bad' held numbers when it was fitted.*the text '{word}'. Conv"):
            columns.read(frame(["1.5", word]))
    np.testing.assert_array_equal(columns.read(frame(pd.Categorical([7, 5, None]))).numbers[:, 1], [7, 5, NAN])


def test_numbers_that_are_listed_are_categories_matched_by_value():
    columns = Columns.from_table(pd.DataFrame({"code": [10, 9, 10], "x": 1.0}), categorical=["code"])
    assert columns.categories == ((9, 10),)
    for values, codes in (
        ([10, 9, 8], [2, 1, 0]),
        ([10.0, NAN, 9.5], [2, 0, 0]),
        (["10", "9", None], [0, 0, 0]),
        (objects(10, "9", decimal.Decimal(9)), [2, 0, 1]),
        (pd.Categorical([10, 9, None]), [2, 1, 0]),
        (pd.array([10, None, 9], dtype="Int64"), [2, 0, 1]),
        ([None, None, None], [0, 0, 0]),
        ([np.inf, -np.inf, 9], [0, 0, 1]),
    ):
        read = columns.read(pd.DataFrame({"code": values, "x": 1.0}))
        np.testing.assert_array_equal(read.codes[:, 0], codes)
        np.testing.assert_array_equal(read.codes[:, 0], np.array(codes))


def test_large_integers_that_are_listed_are_told_apart():
    X = pd.DataFrame({"code": pd.array([2**53, 2**53 + 1, None], dtype="Int64")})
    columns = Columns.from_table(X, categorical=["code"])
    assert columns.categories == ((2**53, 2**53 + 1),)
    assert columns.read(X).codes[:, 0].tolist() == [1, 2, 0]


def test_large_integers_among_floats_stay_what_they_are():
    values = [0, 0.5, None, 2**70, 2**53 + 1, 0.0, float(2**53)]
    X = pd.DataFrame({"code": pd.Series(values, dtype=object)})
    columns = Columns.from_table(X, ["code"])
    assert columns.categories == ((0, 0.5, 2**53, 2**53 + 1, float(2**70)),)
    together = columns.read(X).codes[:, 0]
    assert together.tolist() == [1, 2, 0, 5, 4, 1, 3]
    assert [int(columns.read(X.iloc[[row]]).codes[0, 0]) for row in range(len(X))] == together.tolist()


def test_numbers_in_a_column_of_text_are_matched_by_their_text():
    columns = Columns.from_table(pd.DataFrame({"code": ["1", "2.5", "True", "x"]}))
    for values, codes in (([1, 2, 7], [1, 0, 0]), ([1.0, 2.5, NAN], [1, 2, 0]), ([True, False, True], [3, 0, 3])):
        np.testing.assert_array_equal(columns.read(pd.DataFrame({"code": values})).codes[:, 0], codes)


def test_columns_to_take_as_categories_are_listed_by_name_or_position():
    named, array = pd.DataFrame({"a": [1, 2], "b": [True, False], "c": [1.5, NAN]}), np.eye(2)
    assert Columns.from_table(named, categorical=("b", "c")).categories == ((False, True), (1.5,))
    assert Columns.from_table(array, categorical=np.array([1])).roles == ("numerical", "categorical")
    assert Columns.from_table(np.full((2, 1), NAN), categorical=[0]).categories == ((),)
    with pytest.raises(ValueError, match="got categorical='d'. Known are: 'a', 'b', 'c'"):
        Columns.from_table(named, categorical=["d"])
    with pytest.raises(ValueError, match="names of columns, got categorical=0. Known are"):
        Columns.from_table(named, categorical=[0])
    with pytest.raises(ValueError, match="positions of columns.*got categorical=2. Known are: 0, 1"):
        Columns.from_table(array, categorical=[2])
    with pytest.raises(ValueError, match="got categorical=True"):
        Columns.from_table(array, categorical=[True, False])
    for wrong in ("a", 1):
        with pytest.raises(TypeError, match="categorical must be a list of names"):
            Columns.from_table(named, categorical=wrong)


def test_codes_agree_with_an_independent_encoder():
    random = np.random.default_rng(0)
    X, new = (
        "x" + pd.DataFrame(random.integers(0, high, (500, 3)).astype(str), columns=list("abc")) for high in (30, 40)
    )
    X.iloc[::7, 1] = new.iloc[::5, 0] = None
    other = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1).fit(X)
    columns = Columns.from_table(X)
    np.testing.assert_array_equal(columns.read(X).codes - 1, other.transform(X))
    np.testing.assert_array_equal(columns.read(new).codes - 1, other.transform(new))
