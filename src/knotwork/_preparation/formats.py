"""How numbers, truth values, dates and times are written in a column, and the numbers that they become."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, listed
from knotwork._preparation.cells import UTC, Label, is_zone
from knotwork._writing import MONTH_NAMES

Floats: TypeAlias = npt.NDArray[np.float64]

MISSING_MARKS = frozenset({
    "", "na", "n/a", "n.a.", "n.a", "#n/a", "#na", "nan", "null", "none", "nil", "-", "--", "---", "\u2013", "\u2014",
    "?", "??", ".", "..", "...", "*", "missing", "unknown", "not available", "#value!", "#ref!", "#div/0!", "#num!",
})  # fmt: skip
"""Texts that stand for a missing value in columns of numbers, truth values and dates, in lower case."""

BOOLEAN_WORDS = (("true", "false"), ("yes", "no"), ("t", "f"), ("y", "n"), ("on", "off"))
"""Words for true and false, in lower case."""


@dataclass(frozen=True)
class MisfitRule:
    """How many texts of a column need not fit its format. The numbers are conventions.

    Parameters
    ----------
    fewest : int
        Distinct values that must fit, unless all do.
    share : float
        Largest share of the rows with texts that do not fit.
    few_texts : int
        If no more distinct texts than these do not fit, such as ``"not measured"``, half of the rows may have them.
    """

    fewest: int = 20
    share: float = 0.05
    few_texts: int = 3


MISFITS = MisfitRule()

MOST_TEXT = 60
"""Characters of a text that may be a number or a date; patterns would take long to refuse a long one."""

N_INSPECTED = 1000
"""Distinct texts by which a format is chosen; all of them are then checked against it."""


def is_mark(text: str) -> bool:
    """Return whether a text stands for a missing value."""
    return text.strip().casefold() in MISSING_MARKS


def misfit_mask(labels: Sequence[Label], values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which labels have no value, by a format, although they do not stand for a missing one."""
    mask: npt.NDArray[np.bool_] = values != values  # noqa: PLR0124 - only NaN and NaT differ from themselves
    mask[mask] = [not is_mark(str(labels[place])) for place in np.flatnonzero(mask).tolist()]
    return mask


# Numbers ------------------------------------------------------------------------------------------------------------

CURRENCIES = (
    r"(?:US\$|R\$|C\$|A\$|[$€£¥₹₽₩₺₪฿¢]|USD|EUR|GBP|JPY|CHF|CAD|AUD|CNY|INR|SEK|NOK|DKK|PLN|CZK|BRL|MXN|RUB|ZAR|kr\.?)"
)
MEASURE = r"(?:[A-Za-z\u00b5\u00b0][A-Za-z\u00b0\u00b2\u00b3/.]{0,9})"
"""A unit of measure after a number, such as kg or km/h."""

SPACES = " \u00a0\u2009\u202f"
"""Spaces that group digits: the ordinary one, and those that do not break a line."""

NUMBER_SIGNS = ((".", ""), (".", ","), (",", ""), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
"""Signs for decimals and for groups of digits: of those that fit all numbers of a column, the first is chosen."""

GROUPS = {"": "", ",": ",", ".": r"\.", " ": f"[{SPACES}]", "'": "['\u2019]"}
CODE = re.compile(r"\s*0\d+\s*")
"""Digits after a zero are a code, such as the one of a town, and no number."""

AMOUNT = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[-+\u2212])?\s*(?P<before>{CURRENCIES})?\s*(?P<second>[-+\u2212])?\s*(?P<body>[\d.,'\u2019{SPACES}]*\d"
    rf"[\d.,]*?(?:[eE][-+]?\d{{1,3}})?)\s*(?P<after>%|{CURRENCIES}|{MEASURE})?\s*(?P<last>-)?\s*(?P<close>\))?"
)


@dataclass(frozen=True)
class NumberFormat:
    """How the numbers of a column are written.

    A minus sign may stand in front of the digits, in front of the currency or after both, and parentheses mean a
    negative number, as in ``(300)``. The number ``12%`` is 0.12.

    Parameters
    ----------
    decimal : {".", ","}
        The sign in front of decimals.
    group : {"", ",", ".", " ", "'"}
        The sign between groups of three digits.
    unit : str
        The currency, the unit of measure, ``"%"``, or nothing; a number may be written without it.

    Examples
    --------
    >>> NumberFormat(",", ".").parse(["1.234,5", "(300)", "n/a", "12 apples"])
    array([1234.5, -300. ,    nan,    nan])
    """

    decimal: str = "."
    group: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if (self.decimal, self.group) not in NUMBER_SIGNS:
            raise argument_error("format", f"have one of the signs {listed(NUMBER_SIGNS)}", (self.decimal, self.group))
        if not isinstance(self.unit, str) or not re.fullmatch(f"%|{CURRENCIES}|{MEASURE}|", self.unit):
            raise argument_error("unit", "be a currency, a unit of measure, '%' or nothing", self.unit)

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """Return the patterns of usual numbers, which are recognised faster, and of the digits of any number."""
        group, decimal = GROUPS[self.group], re.escape(self.decimal)
        whole = r"0|[1-9]\d*"
        if group:
            whole += rf"|[1-9]\d{{0,2}}(?:{group}\d{{3}})+"
        if group == ",":
            whole += r"|[1-9]\d?(?:,\d{2})+,\d{3}"  # as in India
        body = rf"(?:(?:{whole})(?:{decimal}\d*)?|{decimal}\d+)(?:[eE].*)?"
        return re.compile(rf"-?(?:{whole})(?:{decimal}\d+)?"), re.compile(body)

    def parse(self, texts: Sequence[Label]) -> Floats:
        """Return the numbers of texts, NaN where they do not fit; other labels are numbers."""
        signs = f"{self.group}{SPACES}'\u2019" if self.group else ""
        table = str.maketrans({**dict.fromkeys(signs), self.decimal: "."})
        usual = self.patterns[0].fullmatch
        values = np.empty(len(texts))
        for place, text in enumerate(texts):
            if isinstance(text, str) and usual(text) is None:
                values[place] = self._number(text, table)
            else:
                values[place] = float(text.translate(table) if isinstance(text, str) else text)
        for place in np.flatnonzero(np.isinf(values)).tolist():
            if isinstance(texts[place], str):  # hundreds of digits
                values[place] = np.nan
        return values

    def _number(self, text: str, table: dict[int, Any]) -> float:
        match = _amount(text)
        if match is None:
            return math.nan
        opened, sign, before, second, body, after, last, closed = match.groups()
        unit = after or before
        if (
            self.patterns[1].fullmatch(body) is None
            or (unit and unit != self.unit)
            or (before and after)
            or (opened is None) != (closed is None)
            or sum(each is not None for each in (opened, sign, second, last)) > 1
        ):
            return math.nan
        number = float(body.translate(table))
        number = number / 100 if unit == "%" else number
        return -number if opened or last or "-" in (sign, second) or "\u2212" in (sign, second) else number

    def describe(self) -> str:
        """Return what the numbers look like, for a sentence."""
        example = f"1{self.group}234{self.decimal}5" if self.group else f"1{self.decimal}5"
        if self.unit == "%":
            return f"numbers such as {example}%, where 100% is 1"
        if re.fullmatch(CURRENCIES, self.unit):
            return f"numbers such as {self.unit}{example}"
        return f"numbers such as {example} {self.unit}".rstrip()


def _amount(text: str) -> re.Match[str] | None:
    return AMOUNT.fullmatch(text.strip()) if len(text) <= MOST_TEXT else None


def _infer_number(texts: Sequence[str]) -> NumberFormat | None:
    """Return the format of numbers that fits most texts."""
    matches = [match for text in texts if (match := _amount(text)) is not None]
    if not matches or any(map(CODE.fullmatch, texts)):
        return None
    units = Counter(unit for match in matches if (unit := match["after"] or match["before"]))
    unit = max(units, key=units.__getitem__, default="")
    formats = [NumberFormat(decimal, group, unit) for decimal, group in NUMBER_SIGNS]
    return _best(formats, texts)


# Truth values -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BooleanFormat:
    """The words for true and false in a column, whose case does not matter.

    Parameters
    ----------
    true, false : str
        The words, a pair of `BOOLEAN_WORDS`.
    """

    true: str
    false: str

    def __post_init__(self) -> None:
        if (self.true, self.false) not in BOOLEAN_WORDS:
            raise argument_error("format", f"be one of the pairs {listed(BOOLEAN_WORDS)}", (self.true, self.false))

    def parse(self, texts: Sequence[Label]) -> Floats:
        """Return 1 for true, 0 for false and NaN for anything else."""
        meanings = {self.true: 1.0, self.false: 0.0, "1": 1.0, "0": 0.0}
        return np.array([meanings.get(str(text).strip().casefold(), np.nan) for text in texts], dtype=np.float64)

    def describe(self) -> str:
        """Return the words, for a sentence."""
        return f"truth values: {self.true!r} is 1 and {self.false!r} is 0"


def _infer_boolean(texts: Sequence[str]) -> BooleanFormat | None:
    """Return the pair of words that a column consists of; both must occur."""
    words = {text.strip().casefold() for text in texts}
    return next((BooleanFormat(*pair) for pair in BOOLEAN_WORDS if words == set(pair)), None)


# Dates and times ----------------------------------------------------------------------------------------------------

MONTHS = tuple(name.casefold() for name in MONTH_NAMES)
CLOCK = (
    r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?\s?(?P<ap>[AaPp]\.?[Mm]\.?)?"
    r"\s?(?P<z>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
)
NAME = r"(?:[A-Za-z]{3,9}\.?)"
NTH = "(?:st|nd|rd|th)?"
# Not dateutil: it comes with pandas only, reads "may" and "10 am" as dates, decides on the order of day and month for
# each text by itself, and takes five times as long.
DATE_ORDERS = {
    "ymd": rf"(?P<y>\d{{4}})(?P<s>[-/.])(?P<m>\d{{1,2}}|{NAME})(?:(?P=s)(?P<d>\d{{1,2}}))?",
    "mdy": rf"(?P<m>\d{{1,2}}|{NAME})(?P<s>[-/. ])\s?(?P<d>\d{{1,2}}){NTH}(?:(?P=s)|,)\s?(?P<y>\d{{4}}|\d{{2}})",
    "dmy": rf"(?P<d>\d{{1,2}}){NTH}(?P<s>[-/. ])\s?(?P<m>\d{{1,2}}|{NAME}),?(?P=s)\s?(?P<y>\d{{4}}|\d{{2}})",
}
"""Orders of year, month and day."""

PATTERNS = {
    **{
        order: re.compile(rf"(?:[A-Za-z]{{3,9}},?\s)?{pattern}(?:(?:T|,?\s+){CLOCK})?")
        for order, pattern in DATE_ORDERS.items()
    },
    "time": re.compile(CLOCK),
}
WORDS = {
    "ymd": "dates (year, month, day)",
    "mdy": "dates (month, day, year)",
    "dmy": "dates (day, month, year)",
    "time": "times of day",
}

ISO_DATE = re.compile(
    r"(?!0000)\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))(?:[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)?",
    re.ASCII,
)
"""Valid dates that NumPy reads, a hundred times faster than they are read one by one; 29 February may be none."""

DATE_CYCLES = {"month": 12.0, "weekday": 7.0, "hour": 24.0, "day of year": 365.25}
"""Parts of a date that recur, and their periods."""

CYCLE_DECIMALS = 12
"""Decimals of sines and cosines: far more than a date has, and fewer than those in which rounding errors are."""

ELAPSED = "elapsed days"
DATE_PARTS = (ELAPSED, "year", *DATE_CYCLES)
"""Parts of a date that become numbers: those of `DATE_CYCLES` by sine and cosine."""


@dataclass(frozen=True)
class DateFormat:
    """How the dates or times of a column are written, and the numbers that they become.

    Parameters
    ----------
    order : {"ymd", "mdy", "dmy", "time"}
        The order of year, month and day in text; ``"time"`` for times of day without a date.
    parts : tuple of str
        The parts that become numbers, some of `DATE_PARTS` in their order: those that vary when fitting.
    zone : str, optional
        The time zone to which dates with a time zone are converted.
    """

    order: str
    parts: tuple[str, ...]
    zone: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.order, "order", PATTERNS)
        if not self.parts or tuple(part for part in DATE_PARTS if part in self.parts) != self.parts:
            raise argument_error("parts", f"be some of {listed(DATE_PARTS)}, in this order", self.parts)
        if self.order == "time" and self.parts != ("hour",):
            raise argument_error("parts", "be the hour, for times of day", self.parts)
        if self.zone is not None and not is_zone(self.zone):
            raise argument_error("zone", "be a known time zone", self.zone, "Install the package tzdata.")

    @property
    def names(self) -> list[str]:
        """Names of the numbers, such as ``"year"`` and ``"month, sine"``."""
        return [
            name
            for part in self.parts
            for name in ([f"{part}, sine", f"{part}, cosine"] if part in DATE_CYCLES else [part])
        ]

    def parse(self, texts: Sequence[Label]) -> npt.NDArray[Any]:
        """Return dates as datetime64, or times of day as timedelta64; NaT where texts do not fit."""
        values = np.full(len(texts), np.datetime64("NaT"), dtype="datetime64[us]")
        if self.order == "ymd":
            usual = [place for place, text in enumerate(texts) if isinstance(text, str) and ISO_DATE.fullmatch(text)]
            values[usual] = np.array([texts[place] for place in usual], dtype="datetime64[us]")
        for place in np.flatnonzero(np.isnat(values)).tolist():
            moment = self._moment(texts[place])
            if moment is not None:
                values[place] = moment
        return values.view("timedelta64[us]") if self.order == "time" else values

    def _moment(self, text: Label) -> datetime | None:
        if not isinstance(text, str) or len(text) > MOST_TEXT:
            return None
        match = PATTERNS[self.order].fullmatch(text.strip())
        try:
            return None if match is None else _moment_of(match, None if self.order == "time" else self.zone)
        except (ValueError, OverflowError):  # there is no such day or time of day
            return None

    def describe(self) -> str:
        """Return how the dates are written and the numbers that they become, for a sentence."""
        return f"{WORDS[self.order]}, which become numbers: {', '.join(self.parts)}"

    def numbers(self, moments: npt.NDArray[Any]) -> Floats:
        """Return the numbers of dates or times of day, of shape (n, len(names)); NaN where they are missing."""
        values = date_parts(moments)
        columns: list[Floats] = []
        for part in self.parts:
            if part in DATE_CYCLES:
                angle = 2.0 * np.pi * values[part] / DATE_CYCLES[part]
                # Rounded, so that equal values are equal: sin(pi) and sin(2 pi) differ in their last bits only.
                waves: list[Floats] = [np.sin(angle), np.cos(angle)]
                columns += [np.asarray(np.round(wave, CYCLE_DECIMALS) + 0.0) for wave in waves]
            else:
                columns.append(values[part])
        return np.stack(columns, axis=1)


def date_parts(moments: npt.NDArray[Any]) -> dict[str, Floats]:
    """Return the parts of dates, or of times of day, which are NaN where the value is missing.

    Months and days of a year count from 0, so does the weekday, which is 0 on Mondays; hours have fractions.
    """
    missing = np.isnat(moments)
    if moments.dtype.kind == "m":
        return {"hour": np.where(missing, np.nan, moments / np.timedelta64(1, "h"))}
    days, years = moments.astype("datetime64[D]"), moments.astype("datetime64[Y]")
    whole = days.astype(np.int64)
    parts = {
        ELAPSED: (moments - np.datetime64(0, "us")) / np.timedelta64(1, "D"),
        "year": years.astype(np.int64) + 1970.0,
        "month": moments.astype("datetime64[M]").astype(np.int64) % 12.0,
        "weekday": (whole + 3) % 7.0,
        "hour": (moments - days) / np.timedelta64(1, "h"),
        "day of year": (days - years).astype(np.int64) + 0.0,
    }
    return {part: np.where(missing, np.nan, values) for part, values in parts.items()}


def _moment_of(match: re.Match[str], zone: str | None) -> datetime:
    """Return the date of a text, in the local time of `zone` if it has an offset; for a time of day that of 1970-01-01.

    Raises a ValueError if it is not valid.
    """
    year, month, day = 1970, 1, 1
    if "y" in match.groupdict():
        year, day = int(match["y"]), int(match["d"] or 1)
        month = int(match["m"]) if match["m"].isdigit() else MONTHS.index(match["m"][:3].casefold()) + 1
        if len(match["y"]) == 2:
            year += 1900 if year >= 69 else 2000  # as in POSIX
    hour, minute, second = (int(match[part] or 0) for part in "HMS")
    if match["ap"] is not None:
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        hour = hour % 12 + (12 if match["ap"][0] in "pP" else 0)
    moment = datetime(year, month, day, hour, minute, second).replace(second=0)
    moment += timedelta(seconds=second + float(f"0.{match['f'] or 0}"))
    if zone is not None and match["z"] is not None:
        moment = moment.replace(tzinfo=_offset(match["z"])).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return moment


def _offset(text: str) -> timezone:
    """Return the difference to UTC of a text such as ``+02:00`` or ``Z``."""
    if text[0] not in "+-":
        return timezone(timedelta())
    size = timedelta(hours=int(text[1:3]), minutes=int(text[-2:]))
    return timezone(size if text[0] == "+" else -size)


def _infer_date(texts: Sequence[str]) -> DateFormat | None:
    """Return the order of dates that fits most texts; if two fit equally well, slashes mean that the month is first."""
    texts = [text for text in texts if len(text) <= MOST_TEXT]
    if not texts or not any(sign.isdigit() for sign in texts[0]):
        return None
    zone = UTC if any((match := PATTERNS["ymd"].fullmatch(text.strip())) and match["z"] for text in texts) else None
    ties = ("mdy", "dmy") if "/" in texts[0] else ("dmy", "mdy")
    formats = [DateFormat(order, (ELAPSED,), zone) for order in ("ymd", *ties)]
    formats.append(DateFormat("time", ("hour",)))
    return _best(formats, texts)


# One format for each column -------------------------------------------------------------------------------------------

Format: TypeAlias = NumberFormat | BooleanFormat | DateFormat

INFERENCES: tuple[Callable[[Sequence[str]], Format | None], ...] = (_infer_boolean, _infer_number, _infer_date)


Written = TypeVar("Written", NumberFormat, DateFormat)


def _best(formats: Sequence[Written], texts: Sequence[str]) -> Written:
    """Return the first of the formats that fit most texts."""
    return min(formats, key=lambda each: misfit_mask(texts, each.parse(texts)).sum())


def infer_format(
    labels: Sequence[Label], counts: npt.NDArray[np.int64]
) -> tuple[Format | None, npt.NDArray[Any] | None]:
    """Return how the distinct values of a column of text are written, and what they mean; None if they are just text.

    Values that are no text are numbers or booleans. `counts` has the rows of each, of shape (k,).
    """
    step = max(len(labels) // N_INSPECTED, 1)
    texts = [label for label in labels[::step] if isinstance(label, str) and not is_mark(label)]
    if not texts:
        are_numbers = all(is_mark(label) if isinstance(label, str) else not isinstance(label, bool) for label in labels)
        if not are_numbers or all(isinstance(label, str) for label in labels):
            return None, None
        return NumberFormat(), NumberFormat().parse(labels)
    for infer in INFERENCES:
        written = infer(texts)
        if written is None or not _fits(written, texts, written.parse(texts), np.ones(len(texts)), fewest=1):
            continue
        values = written.parse(labels)
        if _fits(written, labels, values, counts, fewest=MISFITS.fewest):
            return written, values
    return None, None


def _fits(
    written: Format, labels: Sequence[Label], values: npt.NDArray[Any], counts: npt.NDArray[Any], *, fewest: int
) -> bool:
    """Return whether enough labels fit a format, `fewest` of them if not all do."""
    is_misfit = misfit_mask(labels, values)
    is_known = is_misfit | (values == values)  # noqa: PLR0124 - only NaN and NaT differ from themselves
    misfits = np.flatnonzero(is_misfit).tolist()
    if isinstance(written, NumberFormat) and any(CODE.fullmatch(str(labels[place])) for place in misfits):
        return False
    share = counts[is_misfit].sum() / max(counts[is_known].sum(), 1)
    are_few = share <= MISFITS.share or (share <= 0.5 and len(misfits) <= MISFITS.few_texts)
    return share == 0.0 or (are_few and bool(is_known.sum() - len(misfits) >= fewest))
