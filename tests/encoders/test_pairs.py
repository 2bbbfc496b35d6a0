"""Pairs of columns that interact are found, and none where there is none."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork.encoders import _pairs
from knotwork.encoders._pairs import RankedPairs, rank_pairs
from knotwork.errors import ArgumentError, ColumnError
from knotwork.knots import Target


def make_columns(n=2000, d=6, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=(n, d))


def noise(n=2000, seed=1):
    return np.random.default_rng(seed).normal(size=n)


PLANTED = {
    "product": lambda X: X[:, 1] * X[:, 4],
    "xor": lambda X: np.sign(X[:, 1] * X[:, 4]),
    "ring": lambda X: np.hypot(X[:, 1], X[:, 4]) < 0.6,
    "wave": lambda X: np.sin(5.0 * (X[:, 1] + X[:, 4])),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_pair_is_found_beside_strong_effects_of_single_columns(kind):
    X = make_columns()
    y = 5.0 * X[:, 0] ** 2 + np.exp(2.0 * X[:, 4]) + 2.0 * PLANTED[kind](X) + 0.5 * noise()
    found = kw.find_pairs(X, y)
    assert [pair.columns for pair in found] == [(1, 4)]
    assert found[0].z > 10.0
    assert 0.2 < found[0].gain < 1.0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_planted_pair_of_classes(n_classes):
    X = make_columns()
    signal = X[:, 0] + 3.0 * X[:, 1] * X[:, 4] + 0.5 * np.random.default_rng(2).logistic(size=len(X))
    labels = np.digitize(signal, np.quantile(signal, np.arange(1, n_classes) / n_classes))
    assert kw.find_pairs(X, labels, 1)[0].columns == (1, 4)
    assert kw.find_pairs(X, np.array(list("abc"))[labels], 1)[0].columns == (1, 4)


def test_an_additive_target_has_no_significant_pair():
    X = make_columns(4000)
    additive = np.sin(4.0 * X[:, 0]) + X[:, 1] ** 3
    probability = 1.0 / (1.0 + np.exp(-4.0 * X[:, 0] - 3.0 * X[:, 1]))
    classes = (np.random.default_rng(3).uniform(size=len(X)) < probability).astype(int)
    for y in (additive + noise(4000), np.random.default_rng(4).standard_cauchy(4000), classes):
        best = kw.find_pairs(X, y, 15)
        assert max(pair.z for pair in best) < 5.0
        assert len(kw.find_pairs(X, y)) == 1  # something to encode, however weak


def test_a_gain_is_the_share_of_variance_that_the_pair_explains():
    X = make_columns(20000)
    surface = np.where((X[:, 0] > 0) == (X[:, 1] > 0), 1.0, -1.0)
    y = surface + noise(20000)
    assert kw.find_pairs(X, y, 1)[0].gain == pytest.approx(0.5, abs=0.03)


def test_pairs_stand_out_by_significance_and_share_of_the_best():
    places = np.array([[0, 1], [0, 2], [1, 2], [0, 3]])
    ranked = RankedPairs(places, np.array([0.4, 0.3, 0.1, 0.01]), np.array([50.0, 4.0, 20.0, 9.0]))
    assert ranked.best().places.tolist() == [[0, 1], [1, 2]]
    assert ranked.best(least_share=0.5).places.tolist() == [[0, 1]]
    assert ranked.best(3).places.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert ranked._replace(z=np.zeros(4)).best().places.tolist() == [[0, 1]]


def test_names_missing_values_and_few_values():
    X = pd.DataFrame(make_columns(), columns=list("abcdef"))
    X["few"] = np.random.default_rng(5).integers(0, 2, len(X))
    y = 2.0 * np.where(X["few"] == 1, X["c"], -X["c"]) + 0.5 * noise()
    X.loc[::3, "c"] = np.nan
    y = y.fillna(0.0) if hasattr(y, "fillna") else np.nan_to_num(y)
    assert kw.find_pairs(X, y, 1)[0].columns == ("c", "few")


def test_whole_weights_are_repeated_rows_and_weight_zero_drops_a_row():
    X = make_columns(600)
    y = X[:, 1] * X[:, 4] + 0.3 * noise(600)
    weights = np.random.default_rng(6).integers(0, 4, 600)
    weighted = kw.find_pairs(X, y, 3, sample_weight=weights)
    repeated = kw.find_pairs(np.repeat(X, weights, axis=0), np.repeat(y, weights), 3)
    assert [pair.columns for pair in weighted] == [pair.columns for pair in repeated]
    np.testing.assert_allclose([pair.gain for pair in weighted], [pair.gain for pair in repeated], rtol=1e-6)
    fractions = kw.find_pairs(X, y, 1, sample_weight=weights + 0.5)
    assert fractions[0].columns == (1, 4)


def test_many_rows_are_drawn_from(monkeypatch):
    X = make_columns(3000)
    target = Target.from_values(X[:, 1] * X[:, 4] + 0.3 * noise(3000))
    everything = rank_pairs(X, target)
    monkeypatch.setattr(_pairs, "ADDITIVE", replace(_pairs.ADDITIVE, most_rows=1000))
    first, again, other = (rank_pairs(X, target, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.gains, again.gains)
    assert not np.array_equal(first.gains, other.gains)
    for ranked in (everything, first, other):
        assert ranked.places[0].tolist() == [1, 4]


def test_hard_columns_give_finite_scores():
    X = make_columns(300)
    X[:, 0], X[:, 2] = 7.0, np.nan
    X[0, 3] = 1e300
    ranked = rank_pairs(X, Target.from_values(noise(300)))
    assert len(ranked.places) == 15
    assert np.isfinite(ranked.gains).all()
    assert np.isfinite(ranked.z).all()
    constant = rank_pairs(X, Target.from_values(np.zeros(300)))
    assert np.isfinite(constant.gains).all()


def test_wrong_arguments():
    X = make_columns(50)
    with pytest.raises(ColumnError, match="at least 2 numerical columns"):
        kw.find_pairs(X[:, :1], X[:, 0])
    with pytest.raises(ArgumentError, match="n_pairs must be an integer of at least 1"):
        kw.find_pairs(X, X[:, 0], 0)
    with pytest.raises(ArgumentError, match="y must have as many values as X has rows, 50"):
        kw.find_pairs(X, X[:20, 0])


def test_the_unit_of_weights_has_no_effect():
    random = np.random.default_rng(0)
    X, weights = random.uniform(-1.0, 1.0, size=(400, 3)), random.uniform(0.5, 1.5, 400)
    y = X[:, 0] + 3.0 * X[:, 1] * X[:, 2] + random.normal(size=400)
    one, other = (kw.find_pairs(X, y, n_pairs=3, sample_weight=unit * weights) for unit in (1.0, 0.07))
    assert [pair.columns for pair in one] == [pair.columns for pair in other]
    np.testing.assert_allclose([pair.gain for pair in one], [pair.gain for pair in other])
    np.testing.assert_allclose([pair.z for pair in one], [pair.z for pair in other])
