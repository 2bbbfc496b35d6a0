"""The choice of an encoding for each column: planted curves are recognised, and ties go to the first candidate."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork.encoders import _choice as choice_file
from knotwork.encoders._choice import _Solver, first_good

CANDIDATES = ["BS-Q@7", "Std", "PLE@7", "BS-Q@30"]


def planted(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.uniform(size=n) for name in ("line", "wave", "noise")})
    y = 2.0 * X["line"] + np.sin(40 * X["wave"]) + 0.2 * rng.normal(size=n)
    return X, y.to_numpy()


def chosen(*args, **options):
    return {each.column: each.encoding for each in kw.choose_per_feature(*args, **options)}


def test_planted_curves_are_recognised():
    X, y = planted()
    choices = chosen(X, y, candidates=["Std", "BS-Q@7", "BS-Q@30"])
    assert choices == {"line": "Std", "wave": "BS-Q@30", "noise": "Std"}


def test_classes_are_chosen_by_their_indicators():
    X, y = planted()
    labels = np.where(y > np.quantile(y, 0.7), "high", np.where(y > np.median(y), "middle", "low"))
    assert chosen(X, labels, candidates=CANDIDATES)["wave"] == "BS-Q@30"
    assert chosen(X, labels == "high", candidates=CANDIDATES)["wave"] == "BS-Q@30"


def test_the_first_of_equal_candidates_is_chosen_with_a_reason():
    X, y = planted()
    for first, second in (("BS-Q@7", "BS-U@7"), ("BS-U@7", "BS-Q@7")):
        [line, *_] = kw.choose_per_feature(X, y, candidates=[first, second])
        assert line.encoding == first
        assert line.reason == f"No other candidate is better than {first} by more than the standard error."
    [wave] = kw.choose_per_feature(X[["wave"]], y, candidates=["Std", "BS-Q@30"])
    assert "less error than Std (standard error" in wave.reason
    assert wave.losses["BS-Q@30"] < wave.losses["Std"] <= 1.01


def test_a_second_column_is_judged_by_what_the_first_leaves():
    """A weak curve beside a strong one is seen in the partial residuals."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1500, 2))
    y = 10 * np.sin(9 * X[:, 0]) + 0.5 * np.sin(30 * X[:, 1]) + 0.2 * rng.normal(size=1500)
    assert chosen(X, y, candidates=["Std", "BS-Q@30"]) == {0: "BS-Q@30", 1: "BS-Q@30"}
    assert chosen(X[:, 1:], y, candidates=["Std", "BS-Q@30"]) == {0: "Std"}


def test_rows_of_weight_zero_have_no_influence():
    X, y = planted(400)
    weights = np.ones(400)
    weights[:200] = 0.0
    other = y.copy()
    other[:200] = np.random.default_rng(2).normal(5.0, 3.0, size=200)
    options = {"sample_weight": weights, "candidates": CANDIDATES}
    losses, with_other = (
        [list(each.losses.values()) for each in kw.choose_per_feature(X, target, **options)] for target in (y, other)
    )
    np.testing.assert_allclose(losses, with_other, rtol=1e-6)
    unweighted = [list(each.losses.values()) for each in kw.choose_per_feature(X, other, candidates=CANDIDATES)]
    assert np.abs(np.subtract(unweighted, with_other)).max() > 0.01


def test_the_first_within_a_standard_error_of_the_best_is_chosen():
    """On random errors, with the standard error of the difference of every two candidates computed directly."""
    rng = np.random.default_rng(0)
    errors = rng.gamma(1.0, size=(40, 4, 60)) + rng.normal(0, 0.05, size=(40, 4, 1))
    weights = rng.uniform(0.5, 2.0, size=60)
    shares = weights / weights.sum()
    places = []
    for each in errors:
        best = min(range(4), key=lambda place: each[place] @ shares)
        for place in range(4):
            excess = (each[place] - each[best]) @ shares
            error = np.sqrt((((each[place] - each[best]) - excess) * shares) ** 2 @ np.ones(60))
            if excess <= error + 1e-12:
                break
        chosen_place, deviations = first_good(each, weights)
        assert chosen_place == place
        differences = (each - each[place]) * shares
        expected = np.sqrt(((differences - shares * differences.sum(axis=1)[:, None]) ** 2).sum(axis=1))
        np.testing.assert_allclose(deviations, expected, atol=1e-12)
        places.append(place)
    assert len(set(places)) > 1


@pytest.mark.parametrize("column", [[np.nan] * 200, [1.0] * 200, [0.0, 1e300] * 100, [np.nan, 1.0] * 100])
def test_difficult_columns(column):
    X = np.column_stack([column, np.linspace(0, 1, 200)])
    choices = kw.choose_per_feature(X, X[:, 1] ** 2)
    assert len(choices) == 2
    assert all(np.isfinite(list(each.losses.values())).all() for each in choices)


def test_two_values_need_no_encoding():
    """All encodings of two values are straight lines; with a third value they are not."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"two": rng.choice([3.0, np.nan, 9.0], 400), "one": 1.0, "three": rng.choice([0.0, 1.0, 2.0], 400)}
    )
    two, one, three = kw.choose_per_feature(X, X["two"].fillna(0.0) + X["three"] ** 2)
    assert (two.needs_none, one.needs_none, three.needs_none) == (True, True, False)
    assert two.reason == "It has two values and needs no encoding."
    assert one.reason == "It has one value and needs no encoding."
    assert "standard error" in three.reason


def test_a_choice_that_is_not_the_best_says_why():
    X, y = planted(600)
    for choice in kw.choose_per_feature(X, y, candidates=CANDIDATES):
        best = min(choice.losses, key=choice.losses.__getitem__)
        if choice.losses[choice.encoding] > choice.losses[best] * 1.001:
            assert f"{best} has" in choice.reason
            assert "within its standard error" in choice.reason
        if best == choice.encoding:
            assert "within its standard error" not in choice.reason


def test_few_rows_and_single_candidates_have_the_first():
    X, y = planted(30)
    assert {each.reason for each in kw.choose_per_feature(X, y)} == {"30 rows are too few to compare others."}
    X, y = planted(300)
    assert chosen(X, y, candidates=["PLE@7"]) == dict.fromkeys(X, "PLE@7")


def test_wrong_arguments():
    X, y = planted(60)
    with pytest.raises(ValueError, match="as many values as X has rows, 60"):
        kw.choose_per_feature(X, y[:50])
    with pytest.raises(TypeError, match="candidates must be a sequence of encodings"):
        kw.choose_per_feature(X, y, candidates="BS-Q@7")
    with pytest.raises(ValueError, match="fixed knots"):
        kw.choose_per_feature(X, y, candidates=["BS-Grad-U@7"])


def test_ridge_regressions_are_those_of_the_normal_equations():
    rng = np.random.default_rng(0)
    design, target = rng.normal(size=(50, 4)), rng.normal(size=(50, 2))
    products = design.T @ design
    for penalty, coefficients in zip((0.3, 30.0), _Solver(products, 50, (0.3, 30.0))(design.T @ target), strict=True):
        strength = penalty * np.trace(products) / (50 * 4)
        expected = np.linalg.solve(products + strength * np.eye(4), design.T @ target)
        np.testing.assert_allclose(coefficients, expected, rtol=1e-10)


def test_many_columns_use_fewer_rows(monkeypatch):
    monkeypatch.setattr(choice_file, "COMPARISON", replace(choice_file.COMPARISON, most_values=15 * 3 * 100))
    X, y = planted()
    assert len(kw.choose_per_feature(X, y, candidates=["BS-Q@15", "Std"])) == 3
