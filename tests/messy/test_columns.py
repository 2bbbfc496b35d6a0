"""Columns as people write them: what each is taken for, its numbers, and what the user is told."""

import datetime as dt
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knotwork._preparation.columns import Columns
from knotwork._preparation.formats import NUMBER_SIGNS, DateFormat, NumberFormat, infer_format, misfit_mask
from knotwork.errors import ColumnError, ColumnWarning
from tests.preparation.saved_columns import read, write

N = 120
RNG = np.random.default_rng(0)
AMOUNTS = np.round(RNG.uniform(0.0, 1e5, N), 2)
DAYS = pd.date_range("2023-11-05", periods=N, freq="5D")
HOURS = pd.date_range("2024-03-01", periods=N, freq="7h")


def german(text):
    return text.translate(str.maketrans(",.", ".,"))


def days(pattern):
    return [day.strftime(pattern) for day in DAYS]


def signed(value, row):
    return f"({value:,.2f})" if row % 3 == 0 else f"{value:,.2f}"


SIGNALLING = decimal.Decimal("sNaN")
SIGNS = np.where(np.arange(N) % 3 == 0, -1.0, 1.0)
NUMBERS = {
    "decimals": ([f"{v:.2f}" for v in AMOUNTS], AMOUNTS),
    "thousands": ([f"{v:,.2f}" for v in AMOUNTS], AMOUNTS),
    "German": ([german(f"{v:,.2f}") for v in AMOUNTS], AMOUNTS),
    "decimal comma": ([f"{v:.2f}".replace(".", ",") for v in AMOUNTS], AMOUNTS),
    "French": ([german(f"{v:,.2f}").replace(".", "\u202f") for v in AMOUNTS], AMOUNTS),
    "Swiss": ([f"{v:,.2f}".replace(",", "'") for v in AMOUNTS], AMOUNTS),
    "Indian": (["12,34,567.5", "1,23,456", "999"] * (N // 3), [1234567.5, 123456, 999] * (N // 3)),
    "dollars": ([f"${v:,.0f}" for v in AMOUNTS], np.round(AMOUNTS)),
    "euros": ([german(f"{v:,.2f} \u20ac") for v in AMOUNTS], AMOUNTS),
    "percent": ([f"{v / 1e3:.1f}%" for v in AMOUNTS], np.round(AMOUNTS / 1e3, 1) / 100),
    "accountants": ([signed(v, row) for row, v in enumerate(AMOUNTS)], SIGNS * AMOUNTS),
    "minus behind": ([f"{v:.2f}-" for v in AMOUNTS], -AMOUNTS),
    "minus of typesetters": ([f"\u2212{v:.2f}" for v in AMOUNTS], -AMOUNTS),
    "minus before dollars": ([f"-${v:.2f}" for v in AMOUNTS], -AMOUNTS),
    "units": ([f"{v:,.2f} km/h" for v in AMOUNTS], AMOUNTS),
    "units without a space": ([f"{v:.2f}kg" for v in AMOUNTS], AMOUNTS),
    "exponents": ([f"{v:.6e}" for v in AMOUNTS], AMOUNTS),
    "spaces around": ([f"  {v:.2f} " for v in AMOUNTS], AMOUNTS),
    "marks": (["n/a", "-", "?", "NA", " 1,200 ", "7"] * (N // 6), [np.nan] * 4 + [1200, 7], ),
    "a word": (["closed", *(f"{v:,.2f}" for v in AMOUNTS[1:])], [np.nan, *AMOUNTS[1:]]),
    "a frequent word": ([f"{v:.2f}" if s > 0 else "<LOD" for v, s in zip(AMOUNTS, SIGNS, strict=True)],
                        np.where(SIGNS > 0, AMOUNTS, np.nan)),
    "objects and marks": (pd.Series([1.5, "n/a", 3, "2,000"] * (N // 4), dtype=object), [1.5, np.nan, 3, 2000]),
    "yes and no": (["Yes", "no", "NO ", None] * (N // 4), [1, 0, 0, np.nan]),
    "true and false": (["TRUE", "false"] * (N // 2), [1, 0]),
    "t and f": (["t", "f"] * (N // 2), [1, 0]),
    "y and n": (["Y", "N", "n/a"] * (N // 3), [1, 0, np.nan]),
    "on and off": (["on", "off"] * (N // 2), [1, 0]),
    "durations": (pd.to_timedelta(np.arange(N) % 7, unit="h"), np.arange(N) % 7 * 3600.0),
    "decimal objects": (pd.Series([SIGNALLING, decimal.Decimal("1.5")] * (N // 2), dtype=object), [np.nan, 1.5]),
    "polars Int128": (pl.Series([7, None, 2**70] * (N // 3), dtype=pl.Int128), [7, np.nan, 2.0**70]),
    "polars UInt128": (pl.Series([7, None, 2**70] * (N // 3), dtype=pl.UInt128), [7, np.nan, 2.0**70]),
}  # fmt: skip


def with_noise(values):
    """Return a frame of the library that the values belong to, with another column."""
    noise = np.random.default_rng(1).normal(size=len(values))
    if isinstance(values, pl.Series):
        return pl.DataFrame({"v": values, "noise": noise})
    return (
        pa.table({"v": values, "noise": noise})
        if isinstance(values, pa.Array)
        else pd.DataFrame({"v": values, "noise": noise})
    )


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_however_they_are_written(name):
    values, expected = NUMBERS[name]
    X = with_noise(values)
    columns, table = Columns.learn(X)
    assert columns.roles == ("numerical", "numerical")
    expected = np.resize(expected, N)
    np.testing.assert_allclose(table.numbers[:, 0], expected, rtol=1e-12)
    again = read(write(columns))
    assert again == columns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)  # the word that does not fit
        np.testing.assert_array_equal(again.read(X).numbers, table.numbers)
    if not isinstance(values, pl.Series) and name != "decimal objects":
        (notice,) = columns.notices
        assert notice.startswith("column 'v' ")
    np.testing.assert_allclose(columns.read(pd.DataFrame({"v": expected, "noise": 0.0})).numbers[:, 0], expected)


DAY_NUMBERS = (DAYS - pd.Timestamp("1970-01-01")).days
TOKYO = pl.Series(DAYS.to_pydatetime().tolist()).dt.replace_time_zone("Asia/Tokyo")
DATES = {
    "timestamps": (DAYS, DAY_NUMBERS, None),
    "seconds": (DAYS.astype("datetime64[s]"), DAY_NUMBERS, None),
    "dates of Python": (pd.Series([day.date() for day in DAYS], dtype=object), DAY_NUMBERS, None),
    "datetimes of Python": (pd.Series([day.to_pydatetime() for day in DAYS], dtype=object), DAY_NUMBERS, None),
    "periods": (DAYS.to_period("D"), DAY_NUMBERS, None),
    "polars dates": (pl.Series([day.date() for day in DAYS]), DAY_NUMBERS, None),
    "polars datetimes": (pl.Series([day.to_pydatetime() for day in DAYS]), DAY_NUMBERS, None),
    "pyarrow dates": (pa.array([day.date() for day in DAYS]), DAY_NUMBERS, None),
    "pyarrow in pandas": (pd.Series(DAYS).astype("timestamp[us][pyarrow]"), DAY_NUMBERS, None),
    "local time": (DAYS.tz_localize("Europe/Berlin"), DAY_NUMBERS, "Europe/Berlin"),
    "local time with an underscore": (DAYS.tz_localize("America/New_York"), DAY_NUMBERS, "America/New_York"),
    "polars in local time": (TOKYO, DAY_NUMBERS, "Asia/Tokyo"),
    "ISO": (days("%Y-%m-%d"), DAY_NUMBERS, None),
    "ISO with a time": (days("%Y-%m-%dT00:00:00"), DAY_NUMBERS, None),
    "ISO with a fraction": (days("%Y-%m-%d 00:00:00.000"), DAY_NUMBERS, None),
    "ISO in UTC": (days("%Y-%m-%dT00:00:00Z"), DAY_NUMBERS, "UTC"),
    "ISO with an offset": (days("%Y-%m-%dT02:00:00+02:00"), DAY_NUMBERS, "UTC"),
    "day first": (days("%d.%m.%Y"), DAY_NUMBERS, None),
    "day first, slashes": (days("%d/%m/%Y"), DAY_NUMBERS, None),
    "month first": (days("%m/%d/%Y"), DAY_NUMBERS, None),
    "two digits of a year": (days("%m/%d/%y"), DAY_NUMBERS, None),
    "year first, slashes": (days("%Y/%m/%d"), DAY_NUMBERS, None),
    "names of months": (days("%d %b %Y"), DAY_NUMBERS, None),
    "long names of months": (days("%B %d, %Y"), DAY_NUMBERS, None),
    "mail": (days("%a, %d %b %Y 00:00:00 GMT"), DAY_NUMBERS, None),
    "twelve hours": (days("%m/%d/%Y 12:00 AM"), DAY_NUMBERS, None),
    "missing": ([None, "n/a", *days("%d.%m.%Y")[2:]], [np.nan, np.nan, *DAY_NUMBERS[2:]], None),
    "NaT": (DAYS.where(np.arange(N) > 3), np.where(np.arange(N) > 3, DAY_NUMBERS, np.nan), None),
}  # fmt: skip


@pytest.mark.parametrize("name", DATES)
def test_dates_however_they_are_written(name):
    values, expected, zone = DATES[name]
    X = with_noise(values)
    columns, table = Columns.learn(X)
    assert columns.roles == ("date", "numerical")
    parts = ("elapsed days", "year", "month", "weekday", "day of year")
    assert columns[0].format.parts == parts
    assert columns[0].format.zone == zone
    assert columns.numerical_names[:3] == ["v (elapsed days)", "v (year)", "v (month, sine)"]
    np.testing.assert_allclose(table.numbers[:, 0], expected)
    there = ~np.isnan(table.numbers[:, 0])
    np.testing.assert_array_equal(table.numbers[there, 1], DAYS.year[there])
    for place, part, cycle in ((2, DAYS.month - 1, 12), (4, DAYS.day_of_week, 7), (6, DAYS.day_of_year - 1, 365.25)):
        angle = 2 * np.pi * part[there] / cycle
        np.testing.assert_allclose(
            table.numbers[there, place : place + 2], np.stack([np.sin(angle), np.cos(angle)], 1), atol=1e-9
        )
    again = read(write(columns))
    np.testing.assert_array_equal(again.read(X).numbers, table.numbers)
    np.testing.assert_array_equal(again.read(X[2:3]).numbers, table.numbers[2:3])


def test_only_parts_that_vary_become_numbers():
    columns = Columns.from_table(with_noise(HOURS))
    assert columns[0].format.parts == ("elapsed days", "month", "weekday", "hour", "day of year")
    times = with_noise([f"{row % 24}:{row % 60:02d}" for row in range(N)])
    columns, table = Columns.learn(times)
    assert columns[0].format == DateFormat("time", ("hour",))
    np.testing.assert_allclose(table.numbers[18, :2], [np.sin(2 * np.pi * 18.3 / 24), np.cos(2 * np.pi * 18.3 / 24)])
    same = with_noise(pd.Series([dt.time(row % 24, row % 60) for row in range(N)], dtype=object))
    np.testing.assert_allclose(Columns.learn(same)[1].numbers, table.numbers)


def test_an_instant_is_the_same_in_every_zone():
    berlin = with_noise(HOURS.tz_localize("Europe/Berlin", ambiguous="NaT", nonexistent="shift_forward"))
    columns, table = Columns.learn(berlin)
    for zone in ("UTC", "America/New_York"):
        np.testing.assert_allclose(
            columns.read(berlin.assign(v=berlin["v"].dt.tz_convert(zone))).numbers, table.numbers
        )
    texts = berlin.assign(v=[each.isoformat() for each in berlin["v"].dt.tz_convert("UTC")])
    np.testing.assert_allclose(columns.read(texts).numbers, table.numbers)


CODES = [f"{row:05d}" for row in range(N)]
TEXTS = {
    "towns": (["Ulm", "Bonn", "Rome"] * (N // 3), "categorical", ()),
    "yes, no and maybe": (["yes", "no", "maybe"] * (N // 3), "categorical", ()),
    "codes with zeros": (["01067", "80331", "04109"] * (N // 3), "categorical", ()),
    "currencies": (["$5", "\u20ac5", "\u20ac7"] * (N // 3), "categorical", ()),
    "units that differ": (["5 kg", "7 g", "9 lb"] * (N // 3), "categorical", ()),
    "versions": (["1.2.3", "1.10.0", "2.0.1"] * (N // 3), "categorical", ()),
    "ranges": (["10-20", "20-30", "30-40"] * (N // 3), "categorical", ()),
    "categories of digits": (pd.Categorical(["1", "2", "3"] * (N // 3)), "categorical", ()),
    "tuples": (pd.Categorical(pd.Series([("a", 1), ("b", 2)] * (N // 2), dtype=object)), "categorical", ()),
    "lone surrogates": (pd.Series(["\ud800", "b"] * (N // 2), dtype=object), "categorical", ()),
    "mixed": (pd.Series(["a", 1] * (N // 2), dtype=object), "categorical", "mixes text with numbers or booleans"),
    "identifiers": ([f"id{row}" for row in range(N)], "ignored", "looks like an identifier, text with 120 distinct"),
    "distinct codes": (CODES, "ignored", "looks like an identifier"),
    "free text": ([f"it was the day {row} of many" for row in range(N)], "ignored", "looks like free text"),
    "constant numbers": (np.full(N, 7.0), "ignored", "it is constant"),
    "constant text": (["a"] * N, "ignored", "it is constant"),
    "constant dates": ([dt.date(2020, 1, 1)] * N, "ignored", "it is constant"),
    "nothing": ([None] * N, "ignored", "all its values are missing"),
    "a number or nothing": ([1.0, None] * (N // 2), "numerical", ()),
    "row numbers": (np.arange(N), "ignored", "looks like an identifier, a different whole number in each row"),
    "row numbers from 1000": (np.arange(1000, 1000 + N), "ignored", "looks like an identifier"),
    "row numbers with gaps": (np.cumsum(np.arange(N) % 5 + 1), "ignored", "looks like an identifier"),
    "row numbers as floats": (np.arange(float(N)), "numerical", ()),
    "minutes as seconds": (1_600_000_000 + 60 * np.arange(N), "numerical", ()),
    "distinct numbers": (RNG.permutation(N), "numerical", ()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_other_columns_are_categories_or_ignored(name):
    values, role, word = TEXTS[name]
    X = with_noise(values)
    columns = Columns.from_table(X)
    assert columns.roles == (role, "numerical")
    assert [word in notice for notice in columns.warnings] == ([True] if word else [])
    assert columns.inferred == ()
    table = columns.read(X)
    assert table.numbers.shape[1] + table.codes.shape[1] == 2 - (role == "ignored")
    if role == "ignored":
        assert columns.read(X.drop(columns="v")).numbers.shape == (N, 1)
        assert columns.read(X.assign(v=[b"anything"] * N)).numbers.shape == (N, 1)


@pytest.mark.parametrize("name", ["Unnamed: 0", "id", "customer_id", "userId", "Row ID", "order.id", "index"])
def test_names_of_identifiers(name):
    values = np.random.default_rng(2).permutation(10**6)[:N]
    X = pd.DataFrame({name: values, "x": np.linspace(0.0, 1.0, N)})
    assert Columns.from_table(X).roles == ("ignored", "numerical")
    assert Columns.from_table(X.assign(**{name: values // 10**4})).roles[0] == "numerical"
    for other in ("paid", "price", "humid", "width", "year"):
        assert Columns.from_table(X.rename(columns={name: other})).roles[0] == "numerical"


def test_arrays_count_their_rows_or_not():
    rows, noise = np.arange(N), RNG.integers(0, 9, N)
    assert Columns.from_table(np.column_stack([rows, noise])).roles == ("ignored", "numerical")
    for other in (rows + 1, 2 * rows, rows[::-1]):
        assert Columns.from_table(np.column_stack([other, noise])).roles == ("numerical", "numerical")
    for small in (rows[:99], rows[:5]):
        assert Columns.from_table(np.column_stack([small, noise[: len(small)]])).warnings == ()
    assert Columns.from_table(rows[:, None]).roles == ("numerical",)  # nothing else is left


def test_listed_text_is_no_number_and_no_identifier():
    X = with_noise(NUMBERS["thousands"][0])
    columns = Columns.from_table(X, ["v"])
    assert columns.roles == ("categorical", "numerical")
    assert columns.warnings == ()
    with pytest.raises(ColumnError, match="column 'v' is a date"):
        Columns.from_table(with_noise(DAYS), ["v"])


def test_what_does_not_fit_later_is_missing_with_a_warning():
    columns = Columns.from_table(with_noise(NUMBERS["thousands"][0]))
    with pytest.warns(
        UserWarning, match="column 'v' is not written as when.*2 other texts, such as '1.234,5', are taken"
    ):
        read = columns.read(pd.DataFrame({"v": ["1,234.5", "1.234,5", "?", "abc"], "noise": 0.0}))
    np.testing.assert_array_equal(read.numbers[:, 0], [1234.5, np.nan, np.nan, np.nan])
    columns = Columns.from_table(with_noise(DATES["day first"][0]))
    with pytest.warns(UserWarning, match="The text '2023-31-12' is taken as missing"):
        read = columns.read(pd.DataFrame({"v": ["31.12.2023", "2023-31-12", ""], "noise": 0.0}))
    assert np.isnan(read.numbers[:, 0]).tolist() == [False, True, True]
    with pytest.raises(TypeError, match="column 'v' held dates when it was fitted, and now holds integers, floats"):
        columns.read(pd.DataFrame({"v": [1.0], "noise": 0.0}))
    with pytest.raises(TypeError, match="column 'noise' held numbers when it was fitted, and now is a date"):
        columns.read(pd.DataFrame({"v": ["31.12.2023"], "noise": DAYS[:1]}))


@pytest.mark.parametrize("transform", [lambda y: y, np.exp, lambda y: -(y**3), lambda y: np.round(y, 2)])
def test_copies_of_the_target_are_named(transform):
    y = np.random.default_rng(3).normal(size=300)
    X = pd.DataFrame({"x": np.random.default_rng(4).normal(size=300), "copy": transform(y)})
    columns, table = Columns.learn(X)
    (warning,) = columns.with_copies(table, y).warnings
    assert warning.startswith("column 'copy' determines the target")
    X.loc[::3, "copy"] = np.nan
    assert len(Columns.from_table(X).with_copies(Columns.learn(X)[1], y).warnings) == 1
    X["copy"] += np.where(np.arange(300) == 7, 1.0, 0.0)
    assert Columns.from_table(X).with_copies(Columns.learn(X)[1], y).warnings == ()
    one = X[["copy"]]
    assert Columns.from_table(one).with_copies(Columns.learn(one)[1], y).warnings == ()


def test_copies_of_classes_are_named():
    codes = np.random.default_rng(3).integers(0, 3, 300)
    X = pd.DataFrame({"x": np.arange(300) % 7, "text": np.array(["c", "a", "b"])[codes], "number": 10 - codes})
    columns, table = Columns.learn(X)
    assert [each[:15] for each in columns.with_copies(table, codes).warnings] == ["column 'text' d", "column 'number'"]
    codes[0] = (codes[0] + 1) % 3
    assert columns.with_copies(table, codes).warnings == ()


STYLES = st.sampled_from(NUMBER_SIGNS)
UNITS = st.sampled_from(["", "$", "\u20ac", "%", "EUR"])


@settings(deadline=None)
@given(
    st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=30), st.integers(0, 4), STYLES, UNITS, st.booleans()
)
def test_numbers_are_parsed_as_they_were_formatted(values, decimals, style, unit, parentheses):
    decimal_sign, group = style
    numbers = [value / 10**decimals for value in values]

    def written(number):
        digits = f"{abs(number):,.{decimals}f}".replace(",", "g").replace(".", decimal_sign).replace("g", group)
        amount = f"{digits}%" if unit == "%" else f"{unit}{digits}"
        return amount if number >= 0 else f"({amount})" if parentheses else f"-{amount}"

    texts = [written(number) for number in numbers]
    parsed = NumberFormat(decimal_sign, group, unit).parse(texts)
    expected = np.array(numbers) / (100 if unit == "%" else 1)
    assert not misfit_mask(texts, parsed).any()
    np.testing.assert_allclose(parsed, expected, rtol=1e-14)
    certain = [f"{unit if unit != '%' else ''}1{group}234{group}567{decimal_sign}5"] if group else [written(0.5)]
    distinct = list(dict.fromkeys(texts + certain))
    inferred, meaning = infer_format(distinct, np.ones(len(distinct), dtype=np.int64))
    if group:
        np.testing.assert_allclose(meaning[: len(set(texts))], [
            NumberFormat(decimal_sign, group, unit).parse([text])[0] for text in dict.fromkeys(texts)
        ], rtol=1e-14)  # fmt: skip
        assert isinstance(inferred, NumberFormat)


@settings(deadline=None)
@given(
    st.lists(st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2099, 12, 31)), min_size=1, max_size=20), st.booleans()
)
def test_dates_are_parsed_as_they_were_formatted(moments, fraction):
    expected = np.array(moments, dtype="datetime64[us]")
    if not fraction:
        expected = expected.astype("datetime64[s]").astype("datetime64[us]")
    tail = "%H:%M:%S.%f" if fraction else "%H:%M:%S"
    for order, head in (("ymd", "%Y-%m-%dT"), ("ymd", "%Y/%m/%d "), ("dmy", "%d.%m.%Y "), ("mdy", "%m/%d/%Y, ")):
        parsed = DateFormat(order, ("year",)).parse([each.strftime(head + tail) for each in moments])
        np.testing.assert_array_equal(parsed, expected)


@settings(deadline=None)
@given(
    st.lists(st.text(st.sampled_from("0123456789-T: /.Z+,%$()e"), max_size=20), min_size=1, max_size=20, unique=True)
)
def test_a_text_means_the_same_alone_and_among_others(texts):
    for written in (
        NumberFormat(),
        NumberFormat(",", ".", "$"),
        DateFormat("ymd", ("year",), "UTC"),
        DateFormat("time", ("hour",)),
    ):
        together = written.parse(texts)
        for place, text in enumerate(texts):
            alone = written.parse([text])
            np.testing.assert_array_equal(alone, together[place : place + 1])
            assert misfit_mask([text], alone)[0] == misfit_mask(texts, together)[place]


def test_usual_dates_are_valid_as_datetime_says():
    texts = [
        f"{year:04d}-{month:02d}-{day:02d}"
        for year in (0, 1, 1900, 2000, 2023)
        for month in range(14)
        for day in range(33)
    ]
    texts += [
        f"2023-02-28 {hour:02d}:{minute:02d}:{second:02d}"
        for hour in (0, 23, 24)
        for minute in (0, 59, 60)
        for second in (0, 60)
    ]

    def valid(text):
        try:
            return np.datetime64(dt.datetime.fromisoformat(text), "us")
        except ValueError:
            return np.datetime64("NaT", "us")

    parsed = DateFormat("ymd", ("year",)).parse(texts)
    np.testing.assert_array_equal(parsed, np.array([valid(text) for text in texts]))
