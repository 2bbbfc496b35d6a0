"""How numbers, shares, times and dates are written, and where an axis has ticks: one set of rules for all readers.

Terminal, pages, figures and notebooks use these functions; ``_writing.js`` has the same rules for scripts in pages, and
a test compares the two. Rounding is to the nearest number, ties away from zero, as in JavaScript.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from importlib.resources import files
from numbers import Integral

DASH = "\N{EN DASH}"
"""Shown for a number that is missing or not finite."""

MINUS = "\N{MINUS SIGN}"

USUAL_DIGITS = 4
"""Significant digits of a number, unless a place has less room."""

LEAST_GROUPED = 10_000
"""Numbers from here on have separators of thousands: years have none."""

LARGEST, SMALLEST = 1e12, 1e-4
"""Larger and smaller numbers are written with an exponent."""

EXACT = 1e-9
"""Relative difference below which a number counts as the short decimal that it is written as."""

DAY_SPAN, MONTH_SPAN = 150.0, 6000.0
"""Longest span in days of dates that are written with the day, and with the month."""

MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

EPOCH = datetime(1970, 1, 1)
"""Dates of tables have no time zone."""

STEPS_OF_DAYS = (1 / 24, 3 / 24, 6 / 24, 12 / 24, 1, 2, 7, 14)
"""Steps of an axis of dates that are shorter than a month, in days; weeks begin on Mondays."""

STEPS_OF_MONTHS = (1, 2, 3, 6, *(12 * m * 10**k for k in range(4) for m in (1, 2, 5)))
"""Steps of an axis of dates from a month on, in months."""


def _exact(value: float) -> Decimal:
    """Return the exact value of a number, of NumPy as well."""
    return Decimal(int(value) if isinstance(value, Integral) else float(value))


def _rounded(value: float, decimals: int) -> Decimal:
    """Return the exact value of a float, rounded to a number of decimals, ties away from zero."""
    return _exact(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def _place(value: float, digits: int) -> int:
    """Return the power of ten of the first digit, after rounding to significant digits."""
    exact = _exact(value)
    return exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), ROUND_HALF_UP).adjusted()


def fixed(value: float | None, decimals: int, *, signed: bool = False) -> str:
    """Write a number with a number of decimals; minus zero never appears.

    With `signed`, positive numbers have a plus sign.

    Examples
    --------
    >>> fixed(1975.4, 0), fixed(12345.678, 1), fixed(-0.0004, 3), fixed(0.25, 1, signed=True)
    ('1975', '12,345.7', '0.000', '+0.3')
    """
    if value is None or not math.isfinite(value):
        return DASH
    if abs(value) >= 1e3 * LARGEST:
        return significant(value)
    exact = _rounded(value, decimals)
    size = abs(exact)
    text = f"{size:,f}" if size >= LEAST_GROUPED else f"{size:f}"
    plus = "+" if signed else ""
    return text if size == 0 else (MINUS if exact < 0 else plus) + text


def significant(value: float | None, digits: int = USUAL_DIGITS) -> str:
    """Write a number with significant digits: whole numbers as such, short decimals without further zeros.

    Examples
    --------
    >>> significant(1234.567), significant(20.1037), significant(20.5), significant(3.0), significant(-0.0)
    ('1235', '20.10', '20.5', '3', '0')
    >>> significant(1975), significant(123456), significant(1.5e15)
    ('1975', '123,456', '1.5e15')
    """
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    size = abs(value)
    if not SMALLEST <= size < LARGEST:
        place = _place(size, digits)
        mantissa = size / 10.0**place if abs(place) < 300 else float(Decimal(size).scaleb(-place))
        text = f"{_shortest(mantissa, digits - 1)}e{MINUS if place < 0 else ''}{abs(place)}"
        return (MINUS if value < 0 else "") + text
    whole = float(_rounded(value, 0))
    if abs(value - whole) <= EXACT * size and whole:
        return fixed(whole, 0)
    return _shortest(value, max(digits - 1 - _place(size, digits), 0))


def _shortest(value: float, decimals: int) -> str:
    """Write a number with a number of decimals, without zeros at the end if it is a shorter decimal."""
    is_short = abs(value - float(_rounded(value, decimals))) <= EXACT * abs(value)
    return _without_zeros(fixed(value, decimals)) if is_short else fixed(value, decimals)


def _without_zeros(text: str) -> str:
    """Return a number without the zeros at the end of its decimals."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def between(values: Iterable[float], digits: int = USUAL_DIGITS) -> str:
    """Write the range of some numbers; one number if both ends look the same.

    Examples
    --------
    >>> between([10, 10]), between([0.25, 1.5, 1.0]), between([2.0, 2.0001])
    ('10', '0.25 to 1.5', '2')
    """
    every = list(values)
    low, high = significant(min(every), digits), significant(max(every), digits)
    shortest = [_without_zeros(text) for text in (low, high)]
    return shortest[0] if shortest[0] == shortest[1] else f"{low} to {high}"


def counted(n: int, word: str = "", plural: str = "") -> str:
    """Write a number of things; `plural` is only needed if it is not the word with an s.

    Examples
    --------
    >>> counted(1, "row"), counted(2500, "row"), counted(12345), counted(2, "category", "categories")
    ('1 row', '2500 rows', '12,345', '2 categories')
    """
    return f"{fixed(n, 0)} {word if n == 1 else plural or word + 's'}" if word else fixed(n, 0)


def percent(value: float | None, decimals: int = 1) -> str:
    """Write a share in percent, without zeros at the end; what is not 0 or 1 does not look like it.

    Examples
    --------
    >>> percent(0.5876), percent(0.5), percent(1.0), percent(0.9999), percent(0.0003), percent(0.256, 0)
    ('58.8 %', '50 %', '100 %', '> 99.9 %', '< 0.1 %', '26 %')
    """
    if value is None or not math.isfinite(value):
        return DASH
    size, sign = 100.0 * abs(value), MINUS if value < 0 else ""
    step = 10.0**-decimals
    if size > 100.0 * EXACT and _rounded(size, decimals) == 0:
        return f"{'>' if sign else '<'} {sign}{fixed(step, decimals)} %"
    if size < 100.0 * (1.0 - EXACT) and _rounded(size, decimals) == 100:
        return f"{'<' if sign else '>'} {sign}{fixed(100.0 - step, decimals)} %"
    text = _without_zeros(fixed(size, decimals))
    return f"{text if text == '0' else sign + text} %"


def duration(seconds: float | None) -> str:
    """Write a time: milliseconds, seconds, minutes, hours or days.

    Examples
    --------
    >>> [duration(seconds) for seconds in (0.00035, 0.035, 1.234, 69, 181, 5000, 500_000)]
    ['0.35 ms', '35 ms', '1.2 s', '69 s', '3 min', '83 min', '5 d 19 h']
    """
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if 0 < seconds < 0.9995:  # ends of units are where the next one would begin after rounding
        return f"{_amount(1000.0 * seconds)} ms"
    if seconds < 119.5:
        return f"{_amount(seconds)} s"
    minutes = seconds / 60.0
    if minutes < 119.5:
        return f"{_amount(minutes)} min"
    # Of two units, the smaller one is rounded.
    small, n, unit, lower = (minutes, 60, "h", "min") if minutes < 2880 else (minutes / 60, 24, "d", "h")
    whole = int(_rounded(small, 0))
    return f"{fixed(whole // n, 0)} {unit}" + (f" {whole % n} {lower}" if whole % n else "")


def _amount(value: float) -> str:
    if 0 < value < 1:
        return significant(value, 2)
    return _without_zeros(fixed(value, 1)) if value < 10 else fixed(value, 0)


def date_text(days: float | None, span: float = 0.0) -> str:
    """Write a date as long as the span of its axis or column needs: the time, the day, the month or the year.

    Parameters
    ----------
    days : float or None
        Days since 1970-01-01, with fractions.
    span : float
        Days between the first and the last date; of 2 days or less, the time is written unless it is midnight.

    Examples
    --------
    >>> date_text(17289, 30), date_text(17289, 400), date_text(17289, 9000), date_text(17289.5)
    ('2017-05-03', 'May 2017', '2017', '2017-05-03 12:00')
    """
    if days is None or not math.isfinite(days):
        return DASH
    moment = _moment(days)
    if moment is None:
        return fixed(1970 + days / 365.2425, 0)
    if span > MONTH_SPAN:
        return str(moment.year)
    if span > DAY_SPAN:
        return f"{MONTH_NAMES[moment.month - 1]} {moment.year}"
    clock = f" {moment:%H:%M}" if span <= 2 and (moment.hour or moment.minute) else ""
    return f"{moment.year:04d}-{moment:%m-%d}{clock}"


def _moment(days: float) -> datetime | None:
    """Return the nearest minute; None outside of the calendar."""
    try:
        return EPOCH + timedelta(minutes=math.floor(1440.0 * days + 0.5))
    except OverflowError:
        return None


def axis_ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Return about `most` round numbers between two ends, and how an axis shows them: all with the same decimals.

    Examples
    --------
    >>> axis_ticks(0.0, 1.0, 4)
    [(0.0, '0'), (0.5, '0.5'), (1.0, '1.0')]
    >>> [text for _, text in axis_ticks(1970, 1990, 4)], [text for _, text in axis_ticks(0, 2.5e6, 3)]
    (['1970', '1975', '1980', '1985', '1990'], ['0', '1M', '2M'])
    """
    if not high > low or not math.isfinite(high - low):
        return [(low, significant(low))]
    raw = (high - low) / most
    power = Decimal(raw).adjusted()
    multiple, power = next((m, power + (m == 10)) for m in (1, 2, 5, 10) if m * float(f"1e{power}") >= raw * 0.999)
    multiple = 1 if multiple == 10 else multiple
    step = multiple * float(f"1e{power}")
    first = math.ceil(low / step - EXACT)
    last = min(math.floor(high / step + EXACT), first + 19)
    values = [float(f"{place * multiple}e{power}") for place in range(first, last + 1)]
    return list(zip(values, _tick_texts(values, power), strict=True))


def _tick_texts(values: Sequence[float], power: int) -> list[str]:
    """Write the numbers of an axis, whose step is a multiple of a power of ten, in thousands or millions if large."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest >= LARGEST or 0 < largest < SMALLEST:
        return [significant(value, 3) for value in values]
    units = ((9, "bn", 1e9), (6, "M", 1e6), (3, "k", 1e5))
    shift, unit = next(((n, unit) for n, unit, least in units if largest >= least and power >= n - 2), (0, ""))
    decimals = max(shift - power, 0)
    return ["0" if value == 0 else fixed(value / 10**shift, decimals) + unit for value in values]


def date_ticks(low: float, high: float, most: int = 5) -> list[tuple[float, str]]:
    """Return about `most` round dates between two days since 1970, and how an axis shows them.

    Examples
    --------
    >>> [text for _, text in date_ticks(17000, 17400, 4)], [text for _, text in date_ticks(17000, 17010, 4)]
    (['Oct 2016', 'Jan 2017', 'Apr 2017', 'Jul 2017'], ['2016-07-18', '2016-07-25'])
    """
    ends = (_moment(low), _moment(high)) if math.isfinite(high - low) else (None, None)
    if ends[0] is None or ends[1] is None or not high > low:
        return [(low, date_text(low))]
    days = next((step for step in STEPS_OF_DAYS if (high - low) / step < most + 1), None)
    if days is not None:
        return _ticks_of_days(low, high, days)
    months = [12 * end.year + end.month - 1 for end in ends if end is not None]
    step = next((n for n in STEPS_OF_MONTHS if (months[1] - months[0]) / n < most + 1), STEPS_OF_MONTHS[-1])
    places = range(max(-(-months[0] // step) * step, 12), min(months[1], 12 * datetime.max.year) + 1, step)
    span = math.inf if step % 12 == 0 else MONTH_SPAN
    return [(day, date_text(day, span)) for day in map(_first_day, places) if low <= day <= high]


def _first_day(month: int) -> float:
    """Return the first day of a month since 1970-01-01; months count from those of the year 0."""
    return float((datetime(month // 12, month % 12 + 1, 1) - EPOCH).days)


def _ticks_of_days(low: float, high: float, step: float) -> list[tuple[float, str]]:
    """Return ticks up to two weeks apart; of ticks within a day, only midnights and the first one have the date."""
    shift = 4.0 if step in (7, 14) else 0.0  # 1970-01-05 was a Monday
    first, last = math.ceil((low - shift) / step - EXACT), math.floor((high - shift) / step + EXACT)
    days = [place * step + shift for place in range(first, last + 1)]
    texts = [date_text(day) for day in days]
    return [(day, text if i == 0 else text[11:] or text) for i, (day, text) in enumerate(zip(days, texts, strict=True))]


def script() -> str:
    """Return the same rules as a script for pages, which defines ``writing``."""
    return files("knotwork").joinpath("_writing.js").read_text("utf-8")
