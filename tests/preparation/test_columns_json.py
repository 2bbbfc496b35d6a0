"""Columns from JSON: content that cannot be is refused by name."""

import pytest

from tests.preparation.saved_columns import read, write

NAMES = {"type": "TableColumn", "name": "a"}
PLAIN = NAMES | {"role": "numerical", "kind": "number", "categories": [], "format": None, "notices": []}
TEXT = PLAIN | {"role": "categorical", "kind": "text", "name": "b", "categories": ["u", "v"]}
CODES = PLAIN | {"role": "categorical", "kind": "number", "name": "c", "categories": [1, 2.5]}
NUMBER = {"type": "NumberFormat", "decimal": ".", "group": ",", "unit": "$"}
DATE = {"type": "DateFormat", "order": "ymd", "parts": ["year"], "zone": None}
NOTICE = {"type": "Notice", "code": "copy", "text": "text", "hint": ""}
PARSED = NOTICE | {"code": "parsed", "text": "column 'a' is text.", "hint": "Check it."}
CONSTANT = NOTICE | {"code": "constant", "text": "column 'a' is ignored: it is constant."}
DATED = PLAIN | {"role": "date", "kind": "text", "format": DATE}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([], r"columns must be of type tuple\[TableColumn"),
        (NUMBER, r"columns must be of type tuple\[TableColumn"),
        (PLAIN | {"extra": 1}, "columns0 must have the entries 'type', 'role', 'kind'"),
        (NAMES, "columns0 must have the entries 'type', 'role', 'kind'"),
        ({"name": "a"}, "type of columns0 must be one of"),
        (PLAIN | {"name": 3}, r"name must be of type str \| None"),
        (PLAIN | {"name": None}, "names must be distinct text"),
        (PLAIN | {"name": "b"}, "names must be distinct text"),
        (PLAIN | {"role": None}, "role must be one of"),
        (PLAIN | {"role": "target"}, "role must be one of"),
        (PLAIN | {"role": "categorical"}, "categories must be integers, floats or decimals"),
        (TEXT | {"name": "a", "role": "numerical"}, "categories must be empty for a column of role 'numerical'"),
        (PLAIN | {"kind": "dates"}, "kind must be one of"),
        (PLAIN | {"kind": ["number"]}, "kind must be of type str"),
        (PLAIN | {"kind": "text"}, "must be 'categorical' for a column of kind 'text'"),
        (CODES | {"name": "a", "kind": "date"}, "kind must be one of .* for a categorical column"),
        (CODES | {"name": "a", "kind": "missing"}, "categories must be empty"),
        (TEXT | {"name": "a", "kind": "number"}, "categories must be integers, floats or decimals"),
        (TEXT | {"name": "a", "categories": "uv"}, "categories must be of type tuple"),
        (TEXT | {"name": "a", "categories": ["v", "u"]}, "categories must ascend"),
        (TEXT | {"name": "a", "categories": ["u", "u"]}, "categories must ascend"),
        (TEXT | {"name": "a", "categories": ["u", None]}, "categories must be of type tuple"),
        (CODES | {"name": "a", "categories": [True, 2]}, "categories must be integers"),
        (CODES | {"name": "a", "categories": [1, float("inf")]}, "categories must be finite"),
        (TEXT | {"name": "a", "categories": []}, "categories must be text"),
        (PLAIN | {"notices": "constant"}, "notices must be of type tuple"),
        (PLAIN | {"notices": [1]}, r"notices must be of type tuple\[Notice"),
        (PLAIN | {"notices": [NOTICE | {"hint": 1}]}, "hint must be of type str"),
        (PLAIN | {"notices": [NOTICE | {"code": "odd"}]}, "code must be one of"),
        (PLAIN | {"format": 1}, "format must be of type NumberFormat"),
        (PLAIN | {"format": {"type": "money"}}, "type of format must be one of"),
        (PLAIN | {"format": {"type": "NumberFormat"}}, "format must have the entries"),
        (PLAIN | {"format": NUMBER | {"decimal": ";"}}, "format must have one of the signs"),
        (PLAIN | {"format": NUMBER | {"unit": "2 kg"}}, "unit must be a currency"),
        (PLAIN | {"format": NUMBER | {"unit": ["$"]}}, "unit must be of type str"),
        (TEXT | {"name": "a", "format": NUMBER}, "format must suit a column of role 'categorical'"),
        (PLAIN | {"format": DATE}, "format must suit a column of role 'numerical'"),
        (PLAIN | {"format": {"type": "BooleanFormat", "true": "no", "false": "yes"}}, "be one of the pairs"),
        (DATED | {"format": DATE | {"parts": []}}, "parts must be some of"),
        (DATED | {"format": DATE | {"parts": ["year"] * 9}}, "parts must be some of"),
        (DATED | {"format": DATE | {"order": "mm"}}, "order must be one of"),
        (DATED | {"format": DATE | {"order": "time"}}, "parts must be the hour"),
        (DATED | {"format": DATE | {"zone": "../../etc/passwd"}}, "zone must be a known time zone"),
        (DATED | {"format": None}, "format must suit a column of role 'date'"),
    ],
)
def test_json_that_is_wrong_is_refused(column, message):
    assert write(read([PLAIN, TEXT, CODES])) == [PLAIN, TEXT, CODES]
    with pytest.raises((ValueError, TypeError), match=message):
        read([column, TEXT, CODES])


@pytest.mark.parametrize(
    "column",
    [
        PLAIN | {"format": NUMBER, "kind": "text", "notices": [PARSED]},
        DATED | {"format": DATE | {"zone": "Europe/Berlin"}},
        PLAIN | {"role": "ignored", "notices": [CONSTANT]},
    ],
)
def test_formats_and_notices_survive(column):
    columns = read([column, TEXT, CODES])
    assert write(columns) == [column, TEXT, CODES]
    assert read(write(columns)) == columns


def test_json_that_is_no_list_of_columns_is_refused():
    with pytest.raises(ValueError, match="type of columns must be one of"):
        read({"columns": [PLAIN]})
    with pytest.raises(ValueError, match="columns must be at least one"):
        read([])
