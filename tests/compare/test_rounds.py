"""Rounds of a comparison: what is done with the time that is left."""

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from knotwork.compare import _rounds as rounds_of
from knotwork.compare._budget import ComparisonSchedule
from knotwork.compare._inputs import CompareOptions, read_source
from knotwork.compare._rounds import Rounds, most_related
from knotwork.encoders import Encoding
from tests.compare.cases import write_flats

STD, BINS, SPLINE = Encoding("Std", None), Encoding("PLE", 6), Encoding("BS-Q", 6)
SCHEDULE = ComparisonSchedule((STD, BINS), 2, 120, 2, seconds=60.0, costs={6: 1.0})


@pytest.fixture
def rounds(tmp_path, monkeypatch):
    monkeypatch.setattr(rounds_of, "SCHEDULED", replace(rounds_of.SCHEDULED, most_epochs=2))
    monkeypatch.setattr(rounds_of, "score_baselines", lambda *args, **kw: ([], []))
    source, notes = read_source(write_flats(tmp_path), "rent"), []
    made = Rounds(source, CompareOptions(), [STD, BINS, SPLINE], "cpu", None, notes.append, time.perf_counter() + 600)
    made.notes = notes
    return made


def test_time_that_is_left_goes_to_rows_candidates_and_folds(rounds):
    rounds.run(SCHEDULE)
    assert rounds.compared.n_rows == rounds.source.n_rows == 240
    assert [row.candidate for row in rounds.networks] == [STD, BINS, SPLINE]
    assert len(rounds.repetitions) == 4
    for row in rounds.networks:
        assert len(row.scores["rmse"]) == len(row.epochs) == len(row.histories) == 8
        assert row.predictions.shape == (240,)
        assert len(set(row.scores["rmse"])) == 8
    assert [line.split(",")[0] for line in rounds.notes] == ["Time is left"] * 5
    assert "4 x 2 folds" in rounds.evidence
    assert rounds.rank().chosen.kind == "encoding"


def test_without_time_nothing_is_added(rounds):
    rounds.deadline = time.perf_counter() + 1e-6
    rounds.run(replace(SCHEDULE, max_epochs=50))
    assert (rounds.compared.n_rows, len(rounds.networks), len(rounds.repetitions)) == (120, 2, 1)
    assert rounds.notes == []
    assert "4 of 4 networks were stopped by the time limit" in rounds.banners[0]


def test_ctrl_c_in_a_larger_round_keeps_the_earlier_results(rounds, monkeypatch):
    original, calls = rounds_of.cross_validate, []

    def interrupted(*given, **settings):
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return original(*given, **settings)

    monkeypatch.setattr(rounds_of, "cross_validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rounds.run(SCHEDULE)
    assert rounds.schedule is SCHEDULE
    assert (rounds.compared.n_rows, len(rounds.repetitions)) == (120, 1)
    assert [row.candidate for row in rounds.networks] == [STD, BINS]


def test_an_ensemble_is_scored_on_the_test_rows_of_every_fold(rounds):
    rounds.deadline = np.inf
    rounds.run(replace(SCHEDULE, n_rows=240))
    target = rounds.source.target
    row = rounds.score_ensemble(np.arange(240), target + 3.0, candidate="ensemble (fast)", train_seconds=2.0)
    np.testing.assert_allclose(row.scores["rmse"], [3.0, 3.0])
    ranking = rounds.rank([row])
    assert ranking.lines[0].scored is ranking.chosen.scored is row


def test_the_most_related_columns_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 20)), columns=[f"x{place}" for place in range(20)])
    frame["word"] = "w"
    frame["y"] = frame["x3"] + np.abs(frame["x8"]) + 0.1 * rng.normal(size=300)
    frame.loc[:50, "x3"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    source = read_source(tmp_path / "t.parquet", "y")
    assert most_related(source, 1.0) is source
    kept = most_related(source, 0.1)
    assert list(kept.features) == ["x3", "x8", "word"]
    assert kept.n_rows == 300
