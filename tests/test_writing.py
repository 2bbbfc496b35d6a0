"""Numbers, shares, times and dates as readers see them; the script of pages writes the same as Python."""

import json
import math
import shutil
import subprocess

import numpy as np
import pytest

from knotwork import _writing as writing

NODE = shutil.which("node")

NUMBERS = [
    0.0, -0.0, 1.0, -1.0, 3, 1975, 1975.0, 1975.4, 9999, 9999.5, 9999.96, 10_000, 12_345, -12_345.678, 999_999.5, 1e6,
    2.5e6, 123_456_789.0, 9.9999e11, 1e12, 1.5e12, 1e15, 1.23456e17, 1e22, 1e300, 5e-324, 1e-9, 1.2345e-5, 9.99996e-5,
    1e-4, 0.00012345, 0.1, 0.2 + 0.1, 0.5, 0.25, 0.125, 0.123449999, 0.9999, 0.99996, 2.5, 20.1037, 20.5, 99.996,
    -0.0004, 0.05, 1.005, 2.675, math.nan, math.inf, -math.inf, None, 1 / 3, 2 / 3, math.pi, -math.e,
]  # fmt: skip
SHARES = [0, 1, -1, 0.5, 0.5876, 0.29, 0.9999, 0.99951, 0.9994, 0.0003, -0.0003, 0.00051, -0.02, 1.5, -1.2, -0.99999,
          1 - 1e-15, 1e-15, None, math.nan, 0.005, 0.045, 12.0, 200.5]  # fmt: skip
SECONDS = [0, 1e-7, 0.00035, 0.0009, 0.00999, 0.035, 0.5, 0.9994, 0.9996, 1, 1.234, 9.94, 9.96, 10.4, 59.6, 69, 119.4,
           119.6, 121, 181, 599, 600.5, 5000, 7169, 7171, 10_000, 86_400, 172_799,
           172_801, 500_000, 1e8, None]  # fmt: skip
DAYS = [0.0, -1.0, 0.5, 17_289.0, 17_289.49, 17_289.99999, 17_409.0, -719_162.0, -719_163.5, 2_932_896.0, 2_932_897.0,
        1e7, -1e7, 1e12, math.nan, None]  # fmt: skip
SPANS = [0.0, 1.0, 2.0, 2.1, 30.0, 150.0, 151.0, 400.0, 6000.0, 6001.0]
AXES = [
    (0, 1, 4), (0, 1, 6), (-1, 1, 5), (0.1, 0.7, 5), (2016.6, 2017.6, 5), (1970, 1990, 4), (0, 12_500, 5),
    (0, 400_000, 4), (0, 2.5e6, 5), (1_000_000, 1_000_010, 5), (-3e9, 7e9, 6), (0, 5e12, 4), (0, 5e-5, 5),
    (0.5, 0.5001, 4),
    (3, 3, 4), (5, 4, 3), (-1e308, 1e308, 3), (-0.3, 0.3, 3), (99, 101, 4), (0, 1e-7, 3), (-120, -20, 7), (0, 20, 1),
    (0, 99_999, 4),
]  # fmt: skip
DATE_AXES = [
    (17_000, 17_400, 4), (17_000, 17_010, 4), (17_000, 17_001, 4), (17_000.2, 17_000.9, 3), (17_000, 17_003, 5),
    (17_000, 17_060, 4), (0, 20_000, 5), (-700_000, 2_900_000, 4), (5, 5, 3), (-1e9, 1e9, 3), (16_984, 17_409, 6),
    (17_000, 17_800, 8), (17_289.01, 17_289.02, 4), (-719_162, -719_000, 3),
]  # fmt: skip


def cases():
    """Return calls as the name in Python, the name in the script, and the arguments."""
    rng = np.random.default_rng(0)
    numbers = [*NUMBERS, *(rng.normal(size=60) * 10.0 ** rng.integers(-7, 14, size=60)).tolist()]
    for value in numbers:
        yield from (("significant", "significant", [value, digits]) for digits in (2, 3, 4))
        yield from (("fixed", "fixed", [value, decimals]) for decimals in (0, 1, 2, 4))
    yield from (("percent", "percent", [value, decimals]) for value in SHARES for decimals in (0, 1))
    yield from (("duration", "duration", [value]) for value in SECONDS)
    yield from (("date_text", "dateText", [value, span]) for value in DAYS for span in SPANS)
    yield from (("axis_ticks", "axisTicks", list(ends)) for ends in AXES)
    yield from (("date_ticks", "dateTicks", list(ends)) for ends in DATE_AXES)
    yield from (
        ("counted", "counted", each)
        for each in ([1, "row"], [2500, "row"], [12_345], [2, "knot"], [0, "city", "cities"])
    )
    yield from (("between", "between", [each]) for each in ([10, 10], [0.25, 1.5, 1.0], [2.0, 2.0001], [-3, 12_000]))


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_script_of_pages_writes_the_same():
    every = list(cases())
    program = writing.script() + (
        "const odd = {nan: NaN, inf: Infinity, '-inf': -Infinity}, read = (value) => odd[value] ?? value;\n"
        "const calls = JSON.parse(require('fs').readFileSync(0, 'utf8'));\n"
        "process.stdout.write(JSON.stringify(calls.map(([name, given]) => writing[name](...given.map(read)))));\n"
    )
    calls = [
        (name, [str(v) if isinstance(v, float) and not math.isfinite(v) else v for v in given])
        for _, name, given in every
    ]
    run = subprocess.run(
        [NODE, "-e", program], input=json.dumps(calls), capture_output=True, text=True, timeout=120, check=True
    )
    for (name, _, given), shown in zip(every, json.loads(run.stdout), strict=True):
        here = getattr(writing, name)(*given)
        expected = [list(pair) for pair in here] if isinstance(here, list) else here
        assert shown == expected, (name, given)


@pytest.mark.parametrize("value", [-0.0, -1e-9, -0.0004])
def test_minus_zero_never_appears(value):
    texts = [writing.fixed(value, 2), writing.fixed(value, 2, signed=True), writing.significant(-0.0)]
    assert not any(sign in text for text in texts for sign in ("-", writing.MINUS, "+"))


@pytest.mark.parametrize("kind", [np.int64, np.float32, np.float64, np.uint8, int, float])
def test_numbers_of_numpy_are_numbers(kind):
    assert writing.significant(kind(12)) == writing.fixed(kind(12), 0) == writing.counted(kind(12)) == "12"


@pytest.mark.parametrize("year", [1975, 1975.0, 2017])
def test_years_have_no_separators(year):
    assert writing.significant(year) == writing.fixed(year, 0) == str(int(year))


@pytest.mark.parametrize("ends", AXES)
def test_ticks_are_inside_increasing_and_distinct(ends):
    low, high, most = ends
    values, texts = zip(*writing.axis_ticks(*ends), strict=True)
    if low < high:
        assert low - 1e-9 * (high - low) <= values[0] <= values[-1] <= high + 1e-9 * (high - low)
        assert len(values) <= most + 1
    assert len(set(texts)) == len(texts)
    assert list(values) == sorted(values)


@pytest.mark.parametrize("ends", DATE_AXES)
def test_date_ticks_are_inside_increasing_and_distinct(ends):
    low, high, most = ends
    ticks = writing.date_ticks(*ends)
    assert all(low <= day <= high for day, _ in ticks)
    assert len(ticks) <= most + 2
    assert len({text for _, text in ticks}) == len(ticks)


def test_weeks_begin_on_mondays():
    days = [day for day, _ in writing.date_ticks(17_000, 17_030, 5)]
    assert {(int(day) - 4) % 7 for day in days} == {0}
    assert writing.date_text(days[0]) == "2016-07-18"


@pytest.mark.parametrize("number", [np.int64(80), np.int32(80), np.float64(80.0), np.float32(80.0), 80])
def test_numbers_of_numpy_are_written_like_others(number):
    assert writing.counted(number, "row") == "80 rows"
