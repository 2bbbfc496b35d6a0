"""Plans that fit into a budget, from given speeds."""

import pytest

from knotwork.compare._budget import SCHEDULED, Speed, make_schedule, refit_rows, unlimited_schedule
from knotwork.compare._inputs import make_candidates
from knotwork.encoders import Encoding

CANDIDATES, COUNTS = make_candidates(None, None, task="regression", backbone="mlp")


def speed(per_row=2e-5, prepare=1e-5):
    steps = dict.fromkeys((7, 15), (1e-4, per_row))
    return Speed(steps, dict.fromkeys(CANDIDATES, prepare), dict.fromkeys((7, 15), 0.001))


def schedule(n_rows, budget, *, folds=None, left=None, counts=COUNTS):
    left = budget if left is None else left
    return make_schedule(speed(), CANDIDATES, counts, n_rows=n_rows, folds=folds, budget=budget, left=left)


def seconds_of(chosen, measured):
    """Return the seconds of a schedule, network by network."""
    fit = chosen.n_rows * (chosen.folds - 1) / chosen.folds
    total = 0.0
    for candidate in chosen.candidates:
        smallest = min(other.size for other in chosen.candidates if other.size is not None)
        epoch = measured.epoch(candidate.size or smallest, round(0.9 * fit))
        total += chosen.folds * (chosen.max_epochs * epoch + measured.prepare[candidate] * fit)
    return total


@pytest.mark.parametrize("n_rows", [200, 5_000, 50_000, 1_000_000])
@pytest.mark.parametrize("budget", [60.0, 300.0, 3_600.0])
def test_plans_fit_into_the_budget(n_rows, budget):
    chosen = schedule(n_rows, budget)
    assert chosen.fits
    assert chosen.seconds + chosen.refit_seconds + chosen.report_seconds <= 0.97 * budget
    assert seconds_of(chosen, speed()) <= chosen.seconds


def test_a_small_table_is_not_reduced():
    chosen = schedule(600, 300.0)
    assert (chosen.n_rows, chosen.folds, chosen.candidates, chosen.max_epochs) == (600, 5, tuple(CANDIDATES), 200)


def test_rows_of_a_large_table_are_reduced_first():
    chosen = schedule(1_000_000, 3_600.0)
    assert 10_000 <= chosen.n_rows < 1_000_000
    assert (chosen.folds, chosen.candidates) == (5, tuple(CANDIDATES))
    assert chosen.max_epochs >= SCHEDULED.good_epochs


def test_then_candidates_then_folds_then_epochs():
    seen = [schedule(1_000_000, budget) for budget in (3_000.0, 400.0, 200.0, 60.0, 30.0)]
    assert [len(each.candidates) for each in seen] == sorted((len(each.candidates) for each in seen), reverse=True)
    assert [each.folds for each in seen] == sorted((each.folds for each in seen), reverse=True)
    assert len(seen[0].candidates) == len(CANDIDATES)
    assert len(seen[-1].candidates) == 6
    assert (seen[0].folds, seen[-1].folds) == (5, 3)
    assert seen[0].n_rows > seen[1].n_rows > seen[-1].n_rows
    assert seen[-1].max_epochs < SCHEDULED.good_epochs <= seen[0].max_epochs


def test_options_of_the_user_are_kept():
    chosen = schedule(1_000_000, 60.0, folds=10, counts=(len(CANDIDATES),))
    assert chosen.folds == 10
    assert chosen.candidates == tuple(CANDIDATES)


def test_a_plan_that_exceeds_the_budget_is_marked():
    settings = {"n_rows": 1_000_000, "folds": None, "budget": 2.0, "left": 2.0, "n_columns": 1_500}
    chosen = make_schedule(speed().scaled(1_000.0), CANDIDATES, COUNTS, **settings)
    assert not chosen.fits
    assert chosen.max_epochs == SCHEDULED.fewest_epochs
    assert chosen.n_rows == 500
    assert chosen.column_share == 0.02
    text = " ".join(chosen.describe(CANDIDATES, n_rows=1_000_000, backbone="mlp"))
    assert "expected to exceed the time budget" in text


def test_a_wide_table_is_compared_with_fewer_columns():
    slow = speed(per_row=2e-4, prepare=1e-3).scaled(4.0)
    assert slow.steps[7] == (4e-4, 8e-4)
    settings = {"n_rows": 1_000, "folds": None, "budget": 30.0, "left": 25.0, "final": 60.0}
    few = make_schedule(slow, CANDIDATES, COUNTS, **settings, n_columns=30)
    assert (few.column_share, few.fits) == (1.0, False)
    chosen = make_schedule(slow, CANDIDATES, COUNTS, **settings, n_columns=2_000)
    assert chosen.fits
    assert 0.02 < chosen.column_share < 1
    assert len(chosen.candidates) == 3
    needed = seconds_of(chosen, slow.scaled(chosen.column_share))
    assert needed <= chosen.seconds
    text = " ".join(chosen.describe(CANDIDATES, n_rows=1_000, backbone="mlp"))
    assert f"uses {100 * chosen.column_share:.0f} % of the numerical columns" in text


def test_only_the_remaining_time_is_used():
    assert schedule(1_000_000, 300.0, left=150.0).n_rows < schedule(1_000_000, 300.0).n_rows


def test_time_for_the_final_model_is_at_most_a_share():
    def refit(final):
        settings = {"n_rows": 10_000, "folds": None, "budget": 300.0, "left": 300.0}
        return make_schedule(speed(), CANDIDATES, COUNTS, **settings, final=final).refit_seconds

    assert refit(20.0) == 20.0
    assert refit(1e6) == pytest.approx(0.3 * (0.96 * 300 - 13))
    assert refit(None) not in (20.0, refit(1e6))


def test_without_a_budget_everything_is_trained():
    chosen = unlimited_schedule(CANDIDATES, folds=None, n_rows=10**6)
    assert (chosen.n_rows, chosen.folds, chosen.max_epochs, chosen.n_networks) == (10**6, 5, 200, 5 * len(CANDIDATES))
    assert set(chosen.costs) == {7, 15}


def test_rows_of_the_final_model():
    assert refit_rows(1_000, prepare=1e-6, epoch=1e-5, seconds=60.0) == 1_000
    few = refit_rows(10**6, prepare=0.0, epoch=1e-4, seconds=69.0, epochs=4)
    assert few == 50_000  # four epochs of 1.15 * 3 * 1e-4 s for every row
    assert refit_rows(10**6, prepare=1.0, epoch=1.0, seconds=1.0) == 500


def test_candidates():
    assert CANDIDATES[0] == Encoding("Std", None)
    assert CANDIDATES[1] == Encoding("IS-Q", 15)  # the recommendation for regression
    assert len(set(CANDIDATES)) == len(CANDIDATES)
    assert (len(CANDIDATES), 8, 6) == COUNTS
    assert all(each.size != 7 for each in CANDIDATES[:8])
    requested, counts = make_candidates(["BS-Q", "PLE@30", "Std"], [7, 15], task="regression", backbone="mlp")
    assert {str(each) for each in requested} == {"BS-Q@7", "BS-Q@15", "PLE@30", "Std"}
    assert counts == (4,)


@pytest.mark.parametrize(
    ("methods", "sizes", "message"),
    [(["XX"], None, "method must be one of"), ([], None, "name at least one"), (None, [], "name at least one"),
     (["BS-Q"], [1], "sizes must be an integer of at least 2"), (["BS-Q"], [3], "size must be")],
)  # fmt: skip
def test_invalid_candidates(methods, sizes, message):
    with pytest.raises(ValueError, match=message):
        make_candidates(methods, sizes, task="regression", backbone="mlp")
