"""What the efforts train on a CPU is what was measured out of fold: `benchmarks/efforts`."""

import csv
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from knotwork._trees import RANDOM, SMALL, SYMMETRIC, USUAL
from knotwork.estimators._plans import DEVICE_EFFORTS, ON_CPU, TREES

SCORES = Path(__file__).parents[1] / "benchmarks" / "efforts" / "scores.csv"
BAGS = SCORES.with_name("bags.csv")


@pytest.fixture(scope="module")
def losses():
    """Losses by kind and table."""
    found = {}
    with SCORES.open() as file:
        for row in csv.DictReader(file):
            found.setdefault(row["kind"], {})[row["table"]] = float(row["loss"])
    return found


def name_of(kind):
    return f"{kind.backbone.name} {'-'.join(map(str, kind.backbone.widths))} {kind.encoding} {kind.epochs}"


@pytest.mark.parametrize("effort", ON_CPU)
def test_every_kind_of_network_was_measured_on_every_table(losses, effort):
    tables = {table for of_kind in losses.values() for table in of_kind}
    assert len(tables) == 30
    for kind in ON_CPU[effort]:
        assert set(losses[name_of(kind)]) == tables


def test_b_splines_are_among_the_networks_of_the_default():
    assert any(kind.encoding.startswith("BS-Q") for kind in ON_CPU["balanced"])


def test_trees_are_those_that_were_measured(losses):
    tables = set(losses["trees"])
    assert TREES.kinds["balanced"] == TREES.kinds["best"] == (SMALL, SYMMETRIC, USUAL, RANDOM)
    assert all(set(losses[f"trees, {kind}"]) == tables for kind in ("15 leaves", "symmetric", "random thresholds"))
    assert TREES.kinds["fast"] == (replace(SMALL, learning_rate=0.1), SYMMETRIC)
    assert set(losses["trees, 15 leaves, rate 0.1"]) == tables


def test_more_folds_were_better_on_held_out_rows():
    """The numbers of folds of the efforts are those of the smallest mean error on rows that were held out."""
    errors = {}
    with BAGS.open() as file:
        for row in csv.DictReader(file):
            errors.setdefault(row["set"], {})[row["table"]] = float(row["error"])
    for effort, (most, fewest) in (("fast", (6, 4)), ("balanced", (8, 5))):
        assert DEVICE_EFFORTS["cpu"].folds[effort] == (most, fewest)
        more, fewer = (errors[f"{effort}, {count} folds"] for count in (most, fewest))
        ratios = [math.log(more[table] / fewer[table]) for table in fewer]
        assert len(ratios) == 30
        assert statistics.mean(ratios) < -0.005
        assert statistics.median(ratios) < -0.002
