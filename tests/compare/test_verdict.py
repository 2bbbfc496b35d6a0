"""Rankings and recommendations from given scores."""

import numpy as np
import pytest

from knotwork.compare._scoring import Scored
from knotwork.compare._verdict import explain_gain, rank_candidates, significant
from knotwork.encoders import Encoding

FOLDS = np.array([1.00, 1.10, 0.95, 1.02, 1.05])


def scored(name, values, *, n_parameters=100, seconds=1.0):
    values = np.asarray(values, dtype=float)
    epochs, pooled = np.full(len(values), 9), {"rmse": float(np.sqrt(np.mean(values**2)))}
    return Scored(Encoding(name, None), {"rmse": values}, 0.0, seconds, epochs, epochs, n_parameters, pooled)


def rank(*candidates, baseline=2.0):
    return rank_candidates(candidates, task="regression", baseline=np.full(5, baseline))


def test_a_clear_winner():
    noise = np.array([0.001, -0.001, 0.002, -0.002, 0.0])
    ranking = rank(scored("PLE", FOLDS, n_parameters=900), scored("Std", FOLDS + 0.3 + noise))
    assert ranking.chosen.candidate.method == "PLE"
    assert "significantly better than all others" in ranking.verdict
    assert ranking.lines[1].difference == pytest.approx(0.3)


def test_no_significant_difference_takes_the_cheapest():
    noise = np.array([0.03, -0.03, 0.04, -0.02, -0.01])
    ranking = rank(scored("PLE", FOLDS, n_parameters=900), scored("Std", FOLDS + 0.005 + noise))
    assert ranking.lines[0].candidate.method == "PLE"
    assert ranking.chosen.candidate.method == "Std"
    assert ranking.verdict == "no significant difference: take Std, the cheapest equally good one"
    assert "No significant difference between the candidates." in ranking.sentences


def test_a_lead_that_is_not_significant_is_kept_and_reported():
    noise = np.array([0.2, -0.1, 0.3, -0.1, 0.1])
    ranking = rank(scored("PLE", FOLDS, n_parameters=900), scored("Std", FOLDS + noise))
    assert ranking.chosen.candidate.method == "PLE"
    assert "though not significantly" in ranking.verdict
    assert any("is not significant with 5 folds" in sentence for sentence in ranking.sentences)


def test_equal_parameters_are_ordered_by_seconds():
    ranking = rank(scored("BS-Q", FOLDS, seconds=3.0), scored("IS-Q", FOLDS, seconds=1.0))
    assert ranking.chosen.candidate.method == "IS-Q"


def test_features_that_predict_nothing():
    ranking = rank(scored("PLE", FOLDS), scored("Std", FOLDS + 0.1), baseline=0.9)
    assert any(sentence.startswith("Warning") for sentence in ranking.sentences)


@pytest.mark.parametrize(
    ("score", "rows", "expected"),
    [
        (0.5, (100, 100), "RMSE 0.5000 out of fold, 50.0 % less than the 1.000 of a single network with PLE. Both "
                          "scores are over the same 100 rows, each"),
        (1.1, (100, 100), "10.0 % more than the 1.000"),
        (0.9, (900, 100), "over the same 100 rows, each predicted by networks that were not trained on it; the "
                          "ensemble learned from 900 rows."),
        (0.9, (50, 100), "Its score is over 50 rows, that of the single network over 100 rows"),
    ],
)  # fmt: skip
def test_the_gain_of_an_ensemble(score, rows, expected):
    ranking = rank(scored("PLE", np.ones(5)))
    text = explain_gain(ranking, score, n_networks=15, n_rows=rows[0], n_compared=rows[1])
    assert text.startswith("The saved model is an ensemble of 15 networks: ")
    assert expected in text
    assert ("--effort single" in text) == (score > 1)


def test_numbers_have_four_significant_digits():
    assert [significant(x) for x in (12345.6, 0.5, 1.0, -0.00123)] == ["12,346", "0.5000", "1.000", "-0.001230"]
