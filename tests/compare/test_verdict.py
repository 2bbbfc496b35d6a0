"""Rankings and recommendations from given scores."""

import numpy as np
import pytest

from knotwork._writing import significant
from knotwork.compare._scoring import Scored
from knotwork.compare._verdict import KINDS, rank_candidates
from knotwork.encoders import Encoding

FOLDS = np.array([1.00, 1.10, 0.95, 1.02, 1.05])
NOISE = np.array([0.03, -0.03, 0.04, -0.02, -0.01])
NAMES = {"linear": "linear model", "additive": "additive model (splines)", "boosting": "boosting (LightGBM)",
         "ensemble": "ensemble (fast, 10 models)"}  # fmt: skip


def scored(name, values, *, n_parameters=100, seconds=1.0):
    return row(Encoding(name, None), values, epochs=9, seconds=seconds, n_parameters=n_parameters)


def row(candidate, values, *, epochs, seconds, **others):
    values = np.asarray(values, dtype=float)
    counts = {"epochs": np.full(len(values), epochs), "best_epochs": np.full(len(values), epochs)}
    return Scored(
        candidate=candidate, scores={"rmse": values}, train_seconds=seconds, **counts, **{"n_trained": 80, **others}
    )


def other(kind, values, **others):
    return row(NAMES[kind], values, epochs=0, seconds=0.1, kind=kind, **others)


def rank(*rows, naive=2.0):
    return rank_candidates(rows, task="regression", naive=naive, test_to_train=0.25)


def every_kind(winner, factor=0.8):
    """Return rows of all kinds, of which one is better than all others."""
    scores = {kind: FOLDS * (1 + 0.05 * place) + 0.1 * NOISE for place, kind in enumerate(KINDS)}
    scores[winner] = factor * FOLDS + 0.1 * NOISE
    rows = [other(kind, values) for kind, values in scores.items() if kind != "encoding"]
    return [*rows, scored("PLE", scores["encoding"]), scored("Std", scores["encoding"] + 0.3)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_recommended_where_it_wins(kind):
    ranking = rank(*every_kind(kind))
    assert ranking.chosen.kind == kind
    assert ranking.chosen is ranking.best
    second = ranking.lines[1]
    assert ranking.other is second
    change = 100 * (1 - ranking.chosen.mean / second.mean)
    expected = (
        f"take {ranking.chosen.name}: RMSE {significant(ranking.chosen.mean)}, {change:.1f} % below the best other "
        f"row, {second.name} ({significant(second.mean)})"
    )
    assert ranking.verdict == expected
    assert (second.difference, second.p < 0.05) == (pytest.approx(second.mean - ranking.chosen.mean), True)
    text = " ".join(ranking.sentences)
    for each, word in KINDS.items():
        best = min(line.mean for line in ranking.lines if line.kind == each)
        assert (
            f"{word} (PLE) {significant(best)}" in text if each == "encoding" else f"{word} {significant(best)}" in text
        )
    assert f"{100 * (1 - ranking.chosen.mean / 2):.0f} % lower in RMSE" in text


def test_the_saved_model_may_not_be_behind_another():
    """A short budget: the ensemble is far behind a single network, and so is not recommended."""
    ranking = rank(
        scored("PLE", 20.1 * FOLDS), other("ensemble", 25.3 * FOLDS), other("linear", 22.4 * FOLDS), naive=99
    )
    assert ranking.chosen.kind == "encoding"
    assert "10.3 % below the best other row, the linear model (22.94)" in ranking.verdict
    assert "simplicity" not in " ".join([ranking.verdict, *ranking.sentences])


@pytest.mark.parametrize("simple", ["linear", "additive", "boosting"])
def test_of_rows_within_one_percent_the_simplest_is_recommended(simple):
    ranking = rank(scored("PLE", FOLDS), other("ensemble", 0.99 * FOLDS + NOISE), other(simple, FOLDS))
    assert ranking.best.kind == "ensemble"
    assert ranking.chosen.kind == simple
    assert ranking.verdict.endswith("within 1 % of the best, the ensemble (fast, 10 models) (1.016), and simpler")


def test_ties_go_to_the_simplest():
    ranking = rank(*(other(kind, FOLDS) for kind in NAMES), scored("PLE", FOLDS), scored("Std", FOLDS, n_parameters=50))
    assert [line.kind for line in ranking.lines] == [
        "linear",
        "additive",
        "boosting",
        "encoding",
        "encoding",
        "ensemble",
    ]
    assert ranking.chosen is ranking.best
    assert ranking.verdict == "take the linear model: RMSE 1.024, as good as the additive model (splines), and simpler"
    assert ranking.encoding.candidate.method == "Std"


def test_a_simpler_row_that_is_proven_to_be_worse_is_not_recommended():
    ranking = rank(scored("PLE", FOLDS), other("linear", 1.008 * FOLDS))
    assert ranking.lines[1].p < 0.05
    assert ranking.chosen.kind == "encoding"


def test_a_lead_that_is_not_proven_is_said():
    noise = np.array([0.2, -0.1, 0.3, -0.1, 0.1])
    ranking = rank(scored("PLE", FOLDS), other("boosting", FOLDS + noise))
    assert ranking.verdict.endswith("boosting (LightGBM) (1.104), though 5 folds do not prove it")


def test_models_worse_than_the_mean_are_not_to_be_trusted():
    ranking = rank(scored("PLE", FOLDS), scored("Std", FOLDS + 0.1), other("linear", FOLDS + 0.2), naive=0.9)
    assert ranking.verdict == (
        "trust none of these models: predicting the mean of the target has RMSE 0.9, and the best of them, single "
        "networks with PLE, 1.024"
    )
    assert any(sentence.startswith("Warning") for sentence in ranking.sentences)
    near = rank(other("ensemble", FOLDS), other("linear", 1.005 * FOLDS + 0.1 * NOISE), naive=1.025)
    assert near.chosen.kind == "ensemble"  # the simpler one is worse than the mean


def test_one_row_alone():
    ranking = rank(scored("PLE", FOLDS))
    assert ranking.verdict == "take single networks with PLE: RMSE 1.024, the only row"
    assert ranking.other is None
    assert len(ranking.sentences) == 1


def test_rows_of_training_are_said_where_they_differ():
    def text(n_trained):
        return " ".join(rank(scored("PLE", FOLDS), other("ensemble", 0.9 * FOLDS, n_trained=n_trained)).sentences)

    assert "trained on 9857 rows each, others on 80" in text(9857)
    assert "trained on" not in text(82)
    assert "score of the ensemble is a little too good" in text(82)


def test_encodings_are_compared_among_each_other():
    noise = np.array([0.001, -0.001, 0.002, -0.002, 0.0])
    ranking = rank(scored("PLE", FOLDS), scored("Std", FOLDS + 0.3 + noise), other("boosting", 0.5 * FOLDS))
    assert any("PLE is significantly better than all other encodings" in line for line in ranking.sentences)
    ranking = rank(scored("PLE", FOLDS, n_parameters=900), scored("Std", FOLDS + 0.005 + NOISE))
    assert ranking.encoding is ranking.chosen
    assert ranking.chosen.candidate.method == "Std"
    assert any("no difference between the encodings is proven by 5 folds, which does not mean" in line
               for line in ranking.sentences)  # fmt: skip


def test_equal_parameters_are_ordered_by_seconds():
    ranking = rank(scored("BS-Q", FOLDS, seconds=3.0), scored("IS-Q", FOLDS, seconds=1.0))
    assert ranking.chosen.candidate.method == "IS-Q"


def test_the_recommended_row_is_never_more_than_one_percent_above_the_best():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows = [
            scored(name, FOLDS * rng.normal(1, 0.01) + rng.normal(0, 0.005, 5), n_parameters=int(rng.integers(9, 99)))
            for name in ("PLE", "Std", "BS-Q")
        ]
        rows += [other(kind, FOLDS * rng.normal(1, 0.02) + rng.normal(0, 0.005, 5)) for kind in NAMES]
        ranking = rank(*rows)
        near = [line for line in ranking.lines if line.mean <= 1.01 * ranking.best.mean and line.p >= 0.05]
        assert ranking.chosen in near
        assert all(ranking.chosen.cost <= line.cost for line in near)


def test_intervals_and_p_values_belong_to_one_procedure():
    rng = np.random.default_rng(1)
    for scale in np.geomspace(0.001, 0.1, 60):
        rows = [
            scored(name, FOLDS + place * 0.02 + rng.normal(0, scale, 5)) for place, name in enumerate(("PLE", "Std"))
        ]
        ranking = rank(*rows, other("boosting", FOLDS + 0.05 + rng.normal(0, scale, 5)))
        for line in ranking.lines:
            assert (line.low > 0 or line.high < 0) == (line.p < 0.05)
