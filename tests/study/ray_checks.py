"""What holds for units on a cluster, real or in one process."""

import pandas as pd
import pytest

from knotwork.study import _runner as runner
from knotwork.study import load_results, run
from tests.study.cases import comparable, many_units


def check_records_of_a_cluster(folder, expected):
    """Run a plan twice: the records are those of a local run, and nothing is trained again."""
    summary = run(many_units(), folder, "ray", device="cpu")
    assert (summary.n_ok, summary.n_failed) == (20, 0)
    frame = load_results(folder)
    pd.testing.assert_frame_equal(comparable(frame), expected)
    assert (frame["started_at"] < frame["recorded_at"]).all()
    assert run(many_units(), folder, "ray", device="cpu").n_ok == 0
    assert not list((folder / "locks").iterdir())


def check_locks_after_an_error(folder, monkeypatch):
    """All locks are released when a task raises an error that is not the unit's."""

    def task(*arguments):
        raise ImportError("no knotwork on this machine")

    monkeypatch.setattr(runner, "_train_unit", task)
    with pytest.raises(ImportError, match="no knotwork on this machine"):
        run(many_units(), folder, "ray", device="cpu")
    assert not list((folder / "locks").iterdir())
