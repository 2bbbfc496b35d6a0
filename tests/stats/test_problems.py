"""Relative errors, averages by data set and the noise floor by hand; tests over data sets keep their level."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import knotwork as kw

ERRORS = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(2, 5)), elements=st.integers(0, 9).map(float))


@given(ERRORS)
def test_relative_errors_by_hand(errors):
    actual = kw.stats.relative_errors(errors)
    for row, relative in zip(errors, actual, strict=True):
        expected = row / row.mean() if row.any() else np.ones(len(row))
        np.testing.assert_allclose(relative, expected)
    np.testing.assert_allclose(actual.mean(axis=1), 1)


def test_relative_errors_do_not_depend_on_the_unit_of_a_table():
    errors = np.random.default_rng(0).uniform(0.1, 1, size=(5, 3))
    units = np.array([1e-300, 1e-6, 1.0, 1e6, 1e300])[:, None]
    np.testing.assert_allclose(kw.stats.relative_errors(errors * units), kw.stats.relative_errors(errors))


def test_small_relative_differences_are_logarithms_of_ratios():
    first, second = kw.stats.relative_errors([[0.50, 0.49]])[0]
    assert first - second == pytest.approx(2 * 0.01 / 0.99)
    assert first - second == pytest.approx(np.log(0.50 / 0.49), rel=1e-4)


def test_averages_of_groups_by_hand():
    scores = np.arange(12.0).reshape(4, 3) ** 2
    names, actual = kw.stats.average_problems(scores, ["b", "a", "b", "c"])
    assert names == ["b", "a", "c"]
    np.testing.assert_allclose(actual, [(scores[0] + scores[2]) / 2, scores[1], scores[3]])


def test_correlation_of_problems_agrees_with_scipy():
    scores = np.random.default_rng(1).integers(0, 6, size=(9, 7)).astype(float)
    groups = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    pairs = [(i, j) for i, j in combinations(range(9), 2) if groups[i] == groups[j]]
    expected = np.mean([stats.spearmanr(scores[i], scores[j]).statistic for i, j in pairs])
    assert kw.stats.problem_correlation(scores, groups) == pytest.approx(expected)
    ranks = stats.rankdata(scores, axis=1)
    rest = ranks - ranks.mean(axis=0)
    specific = np.mean([np.corrcoef(rest[i], rest[j])[0, 1] for i, j in pairs])
    assert kw.stats.problem_correlation(scores, groups, without_averages=True) == pytest.approx(specific)


def test_correlation_of_problems_is_not_defined_without_pairs():
    assert kw.stats.problem_correlation([[1, 2], [2, 1]], ["a", "b"]) is None
    assert kw.stats.problem_correlation([[1, 1], [2, 1]], ["a", "a"]) is None
    assert kw.stats.problem_correlation([[1, 2], [1, 2]], ["a", "a"], without_averages=True) is None


def test_the_noise_floor_by_hand():
    differences, groups = [0.1, -0.3, 0.2, 0.0], ["a", "a", "b", "b"]
    mean_square = ((0.01 + 0.09) / 2 + 0.04 / 2) / 2
    assert kw.stats.noise_floor(differences, groups) == pytest.approx(1.959964 * np.sqrt(mean_square / 2))
    floor = kw.stats.noise_floor(differences, groups, n_groups=8, n_averaged=3, level=0.9)
    assert floor == pytest.approx(1.644854 * np.sqrt(mean_square / 24))
    assert kw.stats.noise_floor([0.0, 0.0], ["a", "b"]) == 0


def test_identical_networks_stay_below_the_noise_floor():
    # Each data set has its own noise, most pairs are equal, and the two networks of a pair are exchangeable.
    random = np.random.default_rng(3)
    scale = random.uniform(0.001, 0.1, size=13)

    def drawn(n_repeats, n_averaged):
        values = random.normal(size=(n_repeats, 13, n_averaged)) * scale[:, None]
        return values * (random.random(values.shape) < 0.5)

    pairs = drawn(1, 200)[0]
    floor = kw.stats.noise_floor(pairs.ravel(), np.repeat(np.arange(13), 200).tolist(), n_averaged=15)
    means = drawn(4000, 15).mean(axis=(1, 2))
    assert np.mean(np.abs(means) < floor) == pytest.approx(0.95, abs=0.015)


def networks_on_data_sets(random, *, n_sets=13, n_methods=5, effect=0.0):
    """Return errors of three backbones on each data set, which suit the same methods there, and the data sets."""
    level = random.lognormal(sigma=1.5, size=(n_sets, 1, 1))
    common = random.normal(size=(n_sets, 1, n_methods))
    backbone = random.normal(scale=0.7, size=(n_sets, 3, n_methods))
    errors = level * np.exp(0.05 * (common + backbone) + effect * np.arange(n_methods))
    return errors.reshape(-1, n_methods), np.repeat(np.arange(n_sets), 3).tolist()


def by_data_set(errors, groups):
    return kw.stats.average_problems(kw.stats.relative_errors(errors), groups)[1]


def test_tests_over_data_sets_keep_their_level_and_tests_over_problems_do_not():
    random = np.random.default_rng(0)
    n_repeats, false = 250, np.zeros(4)
    for _ in range(n_repeats):
        errors, groups = networks_on_data_sets(random)
        averages = by_data_set(errors, groups)
        false += [
            (kw.stats.wilcoxon_holm(averages).adjusted < 0.05).any(),
            kw.stats.friedman(averages).p_F < 0.05,
            (kw.stats.wilcoxon_holm(kw.stats.relative_errors(errors)).adjusted < 0.05).any(),
            kw.stats.friedman(errors).p_F < 0.05,
        ]
    margin = 3 * np.sqrt(0.05 * 0.95 / n_repeats)
    assert (false[:2] / n_repeats < 0.05 + margin).all()
    assert (false[2:] / n_repeats > 0.05 + 3 * margin).all(), "three problems of one data set are not independent"


def test_a_real_effect_is_detected():
    random = np.random.default_rng(1)
    detected = 0
    for _ in range(50):
        result = kw.stats.wilcoxon_holm(by_data_set(*networks_on_data_sets(random, effect=0.05)))
        detected += result.adjusted[0, -1] < 0.05 and result.direction[0, -1] == 1
    assert detected >= 45


def test_intervals_by_data_set_cover_the_average_rank():
    # Two methods with equal chances: the expected average rank is 1.5.
    random = np.random.default_rng(2)
    covered = np.zeros(2)
    n_repeats = 200
    for _ in range(n_repeats):
        errors, groups = networks_on_data_sets(random, n_sets=25, n_methods=2)
        for place, given_groups in enumerate((groups, None)):
            intervals = kw.stats.bootstrap_ranks(errors, groups=given_groups, n_resamples=500)
            covered[place] += intervals.low[0] <= 1.5 <= intervals.high[0]
    assert covered[0] / n_repeats > 0.90, "the bootstrap of 25 data sets is slightly too narrow"
    assert covered[1] / n_repeats < covered[0] / n_repeats - 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kw.stats.relative_errors([[0.1, -0.1]]), "errors must be at least 0"),
        (
            lambda: kw.stats.average_problems([[1, 2]], ["a", "b"]),
            "groups must have an entry for each of the 1 problems",
        ),
        (lambda: kw.stats.noise_floor([0.1, np.nan], ["a", "b"]), "differences must be finite"),
        (lambda: kw.stats.noise_floor([0.1], ["a"], n_averaged=0), "n_averaged must"),
        (lambda: kw.stats.noise_floor([0.1], ["a"], level=1.0), "level must"),
        (lambda: kw.stats.bootstrap_ranks([[1, 2], [2, 1]], groups=["a", "a"]), "groups must have at least 2"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
