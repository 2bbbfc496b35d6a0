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
        ({"kinds": ["number", "text", "date"]}, r"kinds\[2\] must be one of"),
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
        ({"names": None, "roles": [], "kinds": [], "categories": []}, "kinds must be one for each"),
    ],
)
def test_json_that_is_wrong_is_refused(change, message):
    assert Columns.from_json(GOOD).to_json() == GOOD
    with pytest.raises((ValueError, TypeError), match=message):
        Columns.from_json(GOOD | change)


def test_json_that_lacks_an_entry_or_is_no_dict_is_refused():
    with pytest.raises(ValueError, match="content must have the entries"):
        Columns.from_json({name: GOOD[name] for name in GOOD if name != "kinds"})
    with pytest.raises(TypeError, match="content must be a dict"):
        Columns.from_json(list(GOOD))
