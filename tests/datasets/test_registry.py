"""The registry contains the 25 data sets of the study, and unknown keys are explained."""

import dataclasses
import json
from collections import Counter

import pytest

import knotwork as kw
from knotwork.datasets._loading import DATASET_SOURCES
from knotwork.datasets._registry import DATASETS, get_spec
from knotwork.errors import ArgumentError


def test_counts_are_those_of_the_paper():
    assert Counter(spec.task for spec in DATASETS.values()) == {"regression": 13, "classification": 12}
    assert sum((spec.n_classes or 0) > 2 for spec in DATASETS.values()) == 3
    assert {key: spec.subsample for key, spec in DATASETS.items() if spec.subsample} == {
        "sgemm": 20_000,
        "shuttle": 25_000,
    }
    assert list(DATASET_SOURCES) == list(DATASETS)


def test_entries_agree_with_those_beside_the_tables(data_folder):
    entries = json.loads((data_folder / "datasets.json").read_text())
    assert [entry["key"] for entry in entries] == list(DATASETS)
    for entry in entries:
        spec = dataclasses.asdict(DATASETS[entry["key"]])
        del spec["content_sha256"]
        assert json.loads(json.dumps(spec)) == entry


def test_a_wrong_key_gets_close_ones():
    with pytest.raises(ArgumentError, match="got key='abalon'. Did you mean 'abalone'"):
        get_spec("abalon")
    with pytest.raises(ArgumentError, match="Available keys: 'abalone', .*'shuttle'\\."):
        get_spec("zzz")
    with pytest.raises(ArgumentError, match="key must be"):
        get_spec(3)
    with pytest.raises(ArgumentError, match="Did you mean 'sk_iris'"):
        kw.datasets.load_dataset("sk_irs")


def test_entries_cannot_be_changed():
    with pytest.raises(TypeError):
        DATASETS["abalone"] = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        DATASETS["abalone"].target = "Sex"


@pytest.mark.parametrize("change", [{"task": "ranking"}, {"n_classes": 2}, {"target": "Sex"}, {"n_rows": 0}])
def test_an_entry_checks_itself(change):
    with pytest.raises(ArgumentError):
        dataclasses.replace(DATASETS["abalone"], **change)
