"""The encodings that `encoding=` of an estimator names for the columns."""

import pytest

from knotwork.encoders import METHOD_TABLE, Embedding
from knotwork.errors import ArgumentError
from knotwork.estimators._settings import choose_encodings

NAMES = ["age", "income", "rooms"]


def chosen(encoding):
    return [str(each) for each in choose_encodings(encoding, names=NAMES, task="regression", backbone="mlp")]


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("PLR", "PLR@15"),
        ("PLR@8", "PLR@8"),
        ("PLR@16+LR24", "PLR@16+LR24"),
        ("PLE@30+L8x", "PLE@30+L8x"),
        ("Robust+L4", "Robust+L4"),
    ],
)
def test_one_encoding_for_all_columns(encoding, expected):
    assert chosen(encoding) == [expected] * 3


def test_columns_that_are_not_named_have_the_embedding_of_the_others():
    first, *others = chosen({"age": "PBLD@4"})
    assert first == "PBLD@4"
    assert others == [f"{chosen('auto')[0]}+L3x"] * 2
    assert METHOD_TABLE["PBLD"].embedding == Embedding(3, raw=True)
    assert chosen({}) == chosen("auto")


@pytest.mark.parametrize("other", ["PLE@30", "PLE@30+L4", "PLE@30+LR8", "PLR"])
def test_different_embeddings_are_refused(other):
    with pytest.raises(ArgumentError, match="encoding must have the same embedding for all columns, got .*BS-Q@15.L8"):
        chosen({"age": "BS-Q@15+L8", "income": other})


def test_unknown_methods_are_refused_by_the_name_of_the_argument():
    with pytest.raises(ArgumentError, match=r"encoding must have an embedding such as '\+L8'.*got encoding='PLE\+8'"):
        chosen("PLE+8")
    with pytest.raises(ArgumentError, match="encoding must be one of 'auto', .*'BS-Q'.*got encoding='trees'"):
        chosen("trees")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BSQ", "BS-Q"),
        ("bs-q", "BS-Q"),
        ("bsq@15", "BS-Q"),
        ("recomended", "recommended"),
        ("ple_q", "PLE-Q"),
        ("BSGradQ", "BS-Grad-Q"),
    ],
)
def test_a_misspelt_method_is_answered_by_the_nearest_one_alone(written, meant):
    with pytest.raises(ArgumentError, match=f"encoding must .*Did you mean '{meant}'") as raised:
        chosen(written)
    assert len(str(raised.value)) < 160
