"""Columns from JSON: content that cannot be is refused by name."""

import pytest

from knotwork._preparation.columns import Columns

PLAIN = {"role": "numerical", "kind": "number", "name": "a", "categories": [], "format": None, "notices": []}
TEXT = PLAIN | {"role": "categorical", "kind": "text", "name": "b", "categories": ["u", "v"]}
CODES = PLAIN | {"role": "categorical", "kind": "number", "name": "c", "categories": [1, 2.5]}
NUMBER = {"type": "number", "decimal": ".", "group": ",", "unit": "$"}
DATE = {"type": "date", "order": "ymd", "parts": ["year"], "zone": None}
DATED = PLAIN | {"role": "date", "kind": "text", "format": DATE}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([], "column must be a dict"),
        (PLAIN | {"extra": 1}, "column must have the entries 'role', 'kind'"),
        ({"name": "a"}, "column must have the entries 'role', 'kind'"),
        (PLAIN | {"name": 3}, "names must be distinct text"),
        (PLAIN | {"name": None}, "names must be distinct text"),
        (PLAIN | {"name": "b"}, "names must be distinct text"),
        (PLAIN | {"role": None}, "role must be one of"),
        (PLAIN | {"role": "target"}, "role must be one of"),
        (PLAIN | {"role": "categorical"}, "categories must be integers, floats or decimals"),
        (TEXT | {"name": "a", "role": "numerical"}, "categories must be empty for a column of role 'numerical'"),
        (PLAIN | {"kind": "dates"}, "kind must be one of"),
        (PLAIN | {"kind": ["number"]}, "kind must be one of"),
        (PLAIN | {"kind": "text"}, "must be 'categorical' for a column of kind 'text'"),
        (CODES | {"name": "a", "kind": "date"}, "kind must be one of .* for a categorical column"),
        (CODES | {"name": "a", "kind": "missing"}, "categories must be empty"),
        (TEXT | {"name": "a", "kind": "number"}, "categories must be integers, floats or decimals"),
        (TEXT | {"name": "a", "categories": "uv"}, "categories must be a list"),
        (TEXT | {"name": "a", "categories": ["v", "u"]}, "categories must ascend"),
        (TEXT | {"name": "a", "categories": ["u", "u"]}, "categories must ascend"),
        (TEXT | {"name": "a", "categories": ["u", None]}, "categories must be text"),
        (CODES | {"name": "a", "categories": [True, 2]}, "categories must be integers"),
        (CODES | {"name": "a", "categories": [1, float("inf")]}, "categories must be finite"),
        (TEXT | {"name": "a", "categories": []}, "categories must be text"),
        (PLAIN | {"notices": "constant"}, "notices must be a list"),
        (PLAIN | {"notices": [1]}, "notices must be lists of a code, a text and a hint"),
        (PLAIN | {"notices": [["copy", "text", 1]]}, "notices must be lists of a code, a text and a hint"),
        (PLAIN | {"notices": [["odd", "text", ""]]}, "code must be one of"),
        (PLAIN | {"format": 1}, "format must be a dict"),
        (PLAIN | {"format": {"type": "money"}}, "type must be one of"),
        (PLAIN | {"format": {"type": "number"}}, "format must have the entries"),
        (PLAIN | {"format": NUMBER | {"decimal": ";"}}, "format must have one of the signs"),
        (PLAIN | {"format": NUMBER | {"unit": "2 kg"}}, "unit must be a currency"),
        (PLAIN | {"format": NUMBER | {"unit": ["$"]}}, "unit must be a currency"),
        (TEXT | {"name": "a", "format": NUMBER}, "format must suit a column of role 'categorical'"),
        (PLAIN | {"format": DATE}, "format must suit a column of role 'numerical'"),
        (PLAIN | {"format": {"type": "boolean", "true": "no", "false": "yes"}}, "be one of the pairs"),
        (DATED | {"format": DATE | {"parts": []}}, "parts must be some of"),
        (DATED | {"format": DATE | {"parts": ["year"] * 9}}, "parts must be some of"),
        (DATED | {"format": DATE | {"order": "mm"}}, "order must be one of"),
        (DATED | {"format": DATE | {"order": "time"}}, "parts must be the hour"),
        (DATED | {"format": DATE | {"zone": "../../etc/passwd"}}, "zone must be a known time zone"),
        (DATED | {"format": None}, "format must suit a column of role 'date'"),
    ],
)
def test_json_that_is_wrong_is_refused(column, message):
    assert Columns.from_json([PLAIN, TEXT, CODES]).to_json() == [PLAIN, TEXT, CODES]
    with pytest.raises((ValueError, TypeError), match=message):
        Columns.from_json([column, TEXT, CODES])


@pytest.mark.parametrize(
    "column",
    [
        PLAIN | {"format": NUMBER, "kind": "text", "notices": [["parsed", "column 'a' is text.", "Check it."]]},
        DATED | {"format": DATE | {"zone": "Europe/Berlin"}},
        PLAIN | {"role": "ignored", "notices": [["constant", "column 'a' is ignored: it is constant.", ""]]},
    ],
)
def test_formats_and_notices_survive(column):
    columns = Columns.from_json([column, TEXT, CODES])
    assert columns.to_json() == [column, TEXT, CODES]
    assert Columns.from_json(columns.to_json()) == columns


def test_json_that_is_no_list_of_columns_is_refused():
    with pytest.raises(TypeError, match="content must be a list"):
        Columns.from_json({"columns": [PLAIN]})
    with pytest.raises(ValueError, match="columns must be at least one"):
        Columns.from_json([])
