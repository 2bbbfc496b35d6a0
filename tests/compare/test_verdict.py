"""Rankings and recommendations from given scores."""

import numpy as np
import pytest

from knotwork.compare._scoring import Scored
from knotwork.compare._verdict import explain_gain, rank_candidates
from knotwork.encoders import Encoding

FOLDS = np.array([1.00, 1.10, 0.95, 1.02, 1.05])


def scored(name, values, *, n_parameters=100, seconds=1.0):
    values = np.asarray(values, dtype=float)
    pooled = {"rmse": float(np.sqrt(np.mean(values**2)))}
    return row(Encoding(name, None), values, pooled, epochs=9, seconds=seconds, n_parameters=n_parameters)


def row(candidate, values, pooled, *, epochs, seconds, **others):
    counts = {"epochs": np.full(len(values), epochs), "best_epochs": np.full(len(values), epochs)}
    return Scored(
        candidate=candidate, scores={"rmse": values}, pooled=pooled, train_seconds=seconds, **counts, **others
    )


def other(name, values, kind, *, seconds=0.1):
    values = np.asarray(values, dtype=float)
    return row(name, values, {"rmse": float(values.mean())}, epochs=0, seconds=seconds, kind=kind)


def rank(*rows, naive=2.0):
    return rank_candidates(rows, task="regression", naive=naive, test_to_train=0.25)


def test_a_clear_winner():
    noise = np.array([0.001, -0.001, 0.002, -0.002, 0.0])
    ranking = rank(scored("PLE", FOLDS, n_parameters=900), scored("Std", FOLDS + 0.3 + noise))
    assert ranking.chosen.candidate.method == "PLE"
    assert "significantly better than all other encodings" in ranking.verdict
    assert ranking.lines[1].difference == pytest.approx(0.3)


def test_no_significant_difference_takes_the_cheapest():
    noise = np.array([0.03, -0.03, 0.04, -0.02, -0.01])
    ranking = rank(scored("PLE", FOLDS, n_parameters=900), scored("Std", FOLDS + 0.005 + noise))
    assert ranking.lines[0].candidate.method == "PLE"
    assert ranking.chosen.candidate.method == "Std"
    assert ranking.verdict == "take Std, the cheapest within 1 % of the best: no difference is proven"
    assert any("between the encodings is proven by 5 folds, which does not mean" in line for line in ranking.sentences)


def test_a_lead_that_is_not_significant_is_kept_and_reported():
    noise = np.array([0.2, -0.1, 0.3, -0.1, 0.1])
    ranking = rank(scored("PLE", FOLDS, n_parameters=900), scored("Std", FOLDS + noise))
    assert ranking.chosen.candidate.method == "PLE"
    assert "though not proven by 5 folds" in ranking.verdict
    assert any("is not proven, but no other encoding is within 1 %" in sentence for sentence in ranking.sentences)


def test_equal_parameters_are_ordered_by_seconds():
    ranking = rank(scored("BS-Q", FOLDS, seconds=3.0), scored("IS-Q", FOLDS, seconds=1.0))
    assert ranking.chosen.candidate.method == "IS-Q"


def test_features_that_predict_nothing():
    ranking = rank(scored("PLE", FOLDS), scored("Std", FOLDS + 0.1), naive=0.9)
    assert any(sentence.startswith("Warning") for sentence in ranking.sentences)


NOISE = np.array([0.03, -0.03, 0.04, -0.02, -0.01])
BOOSTING = "boosting (scikit-learn)"


def test_a_baseline_that_wins_is_recommended_and_named():
    ranking = rank(scored("PLE", FOLDS), scored("Std", FOLDS + 0.1), other(BOOSTING, 0.9 * FOLDS, "boosting"))
    assert ranking.chosen.candidate == ranking.best_baseline.candidate == ranking.lines[0].candidate == BOOSTING
    assert ranking.reference.candidate.method == ranking.encoding.candidate.method == ranking.saved.candidate.method
    assert ranking.verdict.startswith(f"take {BOOSTING}: RMSE 0.9216, 10.0 % below the best single network (PLE)")
    assert any("is better than a network with PLE by 10.0 % and is trained in 0.1 s: take it, or" in line
               for line in ranking.sentences)  # fmt: skip


def test_a_small_lead_of_a_baseline_is_told_but_the_saved_model_is_recommended():
    ranking = rank(scored("PLE", FOLDS), other("linear model", 0.995 * FOLDS + 0.01 * NOISE, "linear"))
    assert ranking.lines[0].kind == "linear"
    assert ranking.chosen is ranking.encoding
    assert any("Linear model is better" in line and "if speed or simplicity matters" in line
               for line in ranking.sentences)  # fmt: skip


def test_baselines_that_lose_are_named_with_their_scores():
    ranking = rank(scored("PLE", FOLDS), other("linear model", 1.5 * FOLDS, "linear"))
    assert any(line.startswith("Baselines on the same folds: linear model 1.536") for line in ranking.sentences)


def test_the_ensemble_is_recommended_unless_a_row_is_better_by_more_than_one_percent():
    ensemble = other("ensemble (balanced, 15 models)", 0.9 * FOLDS, "ensemble", seconds=20.0)
    ranking = rank(scored("PLE", FOLDS), ensemble, other(BOOSTING, 0.895 * FOLDS, "boosting"))
    assert ranking.chosen is ranking.saved
    assert ranking.chosen.kind == "ensemble"
    assert "10.0 % below the best single network (PLE)" in ranking.verdict
    ranking = rank(scored("PLE", FOLDS), ensemble, other(BOOSTING, 0.85 * FOLDS, "boosting"))
    assert ranking.chosen.kind == "boosting"
    assert "5.6 % below the saved model" in ranking.verdict
    bad = rank(scored("PLE", FOLDS), scored("Std", 1.2 * FOLDS), other("ensemble (fast)", 1.1 * FOLDS, "ensemble"))
    assert bad.chosen is bad.encoding


def test_the_recommended_row_is_never_more_than_one_percent_above_the_best():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = [
            scored(name, FOLDS * rng.normal(1, 0.01) + rng.normal(0, 0.005, 5), n_parameters=int(rng.integers(9, 99)))
            for name in ("PLE", "Std", "BS-Q")
        ]
        rows.append(other(BOOSTING, FOLDS * rng.normal(1, 0.02), "boosting"))
        rows.append(other("ensemble", FOLDS * rng.normal(0.98, 0.02), "ensemble"))
        ranking = rank(*rows)
        assert ranking.chosen.mean <= 1.01 * ranking.lines[0].mean


def test_intervals_and_verdict_belong_to_one_procedure():
    rng = np.random.default_rng(1)
    verdicts = set()
    for scale in np.geomspace(0.001, 0.1, 60):
        rows = [
            scored(name, FOLDS + place * 0.02 + rng.normal(0, scale, 5)) for place, name in enumerate(("PLE", "Std"))
        ]
        ranking = rank(*rows, other(BOOSTING, FOLDS + 0.05 + rng.normal(0, scale, 5), "boosting"))
        for line in ranking.lines:
            assert (line.low > 0 or line.high < 0) == (line.p < 0.05)
        others = [line for line in ranking.lines if line.kind == "encoding" and line is not ranking.reference]
        assert ("significantly better" in ranking.verdict) == all(line.low > 0 for line in others)
        verdicts.add("significantly better" in ranking.verdict)
    assert verdicts == {True, False}


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (0.5, "RMSE 0.5 out of fold, 50.0 % less than the 1 of a single network with PLE. Both scores are over "
              "the same 100 rows, each"),
        (1.1, "10.0 % more than the 1 "),
    ],
)  # fmt: skip
def test_the_gain_of_an_ensemble(score, expected):
    text = explain_gain(rank(scored("PLE", np.ones(5))), score, n_models=15, n_compared=100)
    assert text.startswith("The saved model is an ensemble of 15 models: ")
    assert expected in text
    assert ("--effort single" in text) == (score > 1)
