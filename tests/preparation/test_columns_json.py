"""Columns from JSON: content that cannot be is refused by name."""

import pytest

from knotwork._preparation.columns import Columns

GOOD = {
    "names": ["a", "b", "c"],
    "roles": ["numerical", "categorical", "categorical"],
    "kinds": ["number", "text", "number"],
    "categories": [["u", "v"], [1, 2.5]],
    "warnings": [],
}
NUMBER = {"type": "number", "decimal": ".", "group": ",", "unit": "$"}
DATE = {"type": "date", "order": "ymd", "parts": ["year"], "zone": None}
DATED = {"roles": ["date", "categorical", "categorical"], "kinds": ["text", "text", "number"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "content must have the entries 'names', 'roles'"),
        ({"names": "abc"}, "names must be a list"),
        ({"names": ["a", "b", 3]}, "names must be text"),
        ({"names": ["a", "b", "b"]}, "names must be 3 distinct names"),
        ({"names": ["a", "b"]}, "names must be 3 distinct names"),
        ({"roles": None}, "roles must be a list"),
        ({"roles": ["numerical", "categorical", "target"]}, r"categories must have|roles\[2\] must be one of"),
        ({"roles": ["categorical", "numerical", "categorical"]}, "categories must be|roles.* must be 'categorical'"),
        ({"kinds": ["number", "text"]}, "kinds must be one for each of 3 roles"),
        ({"kinds": ["number", "text", "date"]}, "kinds must be one of .* for a categorical column"),
        ({"kinds": ["number", "text", "dates"]}, r"kinds\[2\] must be one of"),
        ({"kinds": ["number", "text", ["number"]]}, r"kinds\[2\] must be one of"),
        ({"kinds": ["number", "text", "missing"]}, "categories must be empty"),
        ({"kinds": ["number", "number", "number"]}, "categories must be integers, floats or decimals"),
        ({"kinds": ["text", "text", "number"]}, "must be 'categorical' for a column of kind 'text'"),
        ({"categories": [["u", "v"]]}, "categories must have one entry for each of 2"),
        ({"categories": ["uv", [1, 2]]}, "categories must be a list of lists"),
        ({"categories": [["v", "u"], [1, 2]]}, "categories must ascend"),
        ({"categories": [["u", "u"], [1, 2]]}, "categories must ascend"),
        ({"categories": [["u", None], [1, 2]]}, "categories must be text"),
        ({"categories": [["u"], [True, 2]]}, "categories must be integers"),
        ({"categories": [["u"], [1, float("inf")]]}, "categories must be finite"),
        ({"categories": [[], [1]]}, "categories must be text"),
        ({"warnings": [1]}, "warnings must be text"),
        ({"inferred": [1]}, "inferred must be text"),
        ({"formats": [None]}, "formats must be one for each of 3 roles"),
        ({"formats": [1, None, None]}, "format must be a dict"),
        ({"formats": [{"type": "money"}, None, None]}, "type must be one of"),
        ({"formats": [{"type": "number"}, None, None]}, "format must have the entries"),
        ({"formats": [NUMBER | {"decimal": ";"}, None, None]}, "format must have one of the signs"),
        ({"formats": [NUMBER | {"unit": "2 kg"}, None, None]}, "unit must be a currency"),
        ({"formats": [NUMBER | {"unit": ["$"]}, None, None]}, "unit must be a currency"),
        ({"formats": [None, NUMBER, None]}, r"formats\[1\] must suit a column of role 'categorical'"),
        ({"formats": [DATE, None, None]}, r"formats\[0\] must suit a column of role 'numerical'"),
        ({"formats": [{"type": "boolean", "true": "no", "false": "yes"}, None, None]}, "be one of the pairs"),
        (DATED | {"formats": [DATE | {"parts": []}, None, None]}, "parts must be some of"),
        (DATED | {"formats": [DATE | {"parts": ["year"] * 9}, None, None]}, "parts must be some of"),
        (DATED | {"formats": [DATE | {"order": "mm"}, None, None]}, "order must be one of"),
        (DATED | {"formats": [DATE | {"order": "time"}, None, None]}, "parts must be the hour"),
        (DATED | {"formats": [DATE | {"zone": "../../etc/passwd"}, None, None]}, "zone must be a known time zone"),
        (DATED, r"formats\[0\] must suit a column of role 'date'"),
        ({"names": None, "roles": [], "kinds": [], "categories": []}, "kinds must be one for each"),
    ],
)
def test_json_that_is_wrong_is_refused(change, message):
    assert Columns.from_json(GOOD).to_json() == GOOD
    with pytest.raises((ValueError, TypeError), match=message):
        Columns.from_json(GOOD | change)


@pytest.mark.parametrize(
    "entries",
    [
        {"formats": [NUMBER, None, None], "kinds": ["text", "text", "number"], "inferred": ["column 'a' is text."]},
        DATED | {"formats": [DATE | {"zone": "Europe/Berlin"}, None, None]},
        {"roles": ["ignored", "categorical", "categorical"]},
    ],
)
def test_formats_survive(entries):
    columns = Columns.from_json(GOOD | entries)
    assert columns.to_json() == GOOD | entries
    assert Columns.from_json(columns.to_json()) == columns


def test_json_that_lacks_an_entry_or_is_no_dict_is_refused():
    with pytest.raises(ValueError, match="content must have the entries"):
        Columns.from_json({name: GOOD[name] for name in GOOD if name != "kinds"})
    with pytest.raises(TypeError, match="content must be a dict"):
        Columns.from_json(list(GOOD))
