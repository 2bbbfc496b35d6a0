"""Cross-validation against the clock, and against Ctrl-C in the middle of a training."""

import time

import pytest

from knotwork import TrainingConfig
from knotwork.compare._budget import measure_speed
from knotwork.compare._options import CompareOptions
from knotwork.compare._scoring import CrossValidation, fold_table, groups_of
from knotwork.compare._source import read_source
from knotwork.encoders import Encoding
from tests.compare.cases import write_flats

CANDIDATES = [Encoding("Std", None), Encoding("BS-Q", 6), Encoding("PLE", 8)]


@pytest.fixture
def source(tmp_path):
    return read_source(write_flats(tmp_path), "rent")


def validation(source, *, max_epochs, progress=None):
    prepared = fold_table(source, folds=2, seed=0)
    config = TrainingConfig(max_epochs=max_epochs)
    return CrossValidation(prepared, CompareOptions().network, config, "cpu", progress)


def test_each_size_is_a_group_and_scalings_join_the_smallest():
    assert groups_of(CANDIDATES) == {6: CANDIDATES[:2], 8: CANDIDATES[2:]}
    assert groups_of(CANDIDATES[:1]) == {1: CANDIDATES[:1]}


def test_the_deadline_stops_every_group(source):
    result = validation(source, max_epochs=10_000)
    result.run(CANDIDATES, costs={6: 2.0, 8: 1.0}, deadline=time.perf_counter() + 0.3)
    assert result.out_of_time
    assert [each.candidate for each in result.scored] == CANDIDATES
    assert all((each.epochs >= 1).all() and each.is_finite for each in result.scored)


class Interrupting:
    """A display that is interrupted after the second epoch."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def __call__(self, report):
        if report.epoch == 2:
            raise KeyboardInterrupt


def test_ctrl_c_in_a_stack_keeps_its_scores(source):
    result = validation(source, max_epochs=50, progress=Interrupting)
    with pytest.raises(KeyboardInterrupt):
        result.run(CANDIDATES, costs={6: 2.0, 8: 1.0}, deadline=time.perf_counter() + 600)
    assert [each.candidate for each in result.scored] == CANDIDATES[:2]
    assert all(each.epochs.tolist() == [2, 2] for each in result.scored)
    assert not result.out_of_time


def test_speed_is_measured_for_every_candidate(source):
    speed = measure_speed(source, CANDIDATES, backbone=CompareOptions().network, device="cpu")
    assert set(speed.steps) == {6, 8}
    assert set(speed.prepare) == set(CANDIDATES)
    assert all(seconds > 0 for seconds in speed.prepare.values())
    assert all(fixed >= 0 and per_row > 0 for fixed, per_row in speed.steps.values())
    assert speed.epoch(6, 10_000) > speed.epoch(6, 1_000) > 0
