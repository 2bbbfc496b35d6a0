"""Folds are those of scikit-learn, and no class is too rare for them."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from knotwork._preparation.members import make_splits
from knotwork._preparation.validation import as_splits, draw_folds


def test_folds_of_numbers_are_those_of_the_protocol():
    y = np.random.default_rng(0).normal(size=103)
    expected = KFold(5, shuffle=True, random_state=42).split(y)
    for split, (rest, test) in zip(make_splits(y, "regression"), expected, strict=True):
        train, valid = train_test_split(rest, test_size=0.1, random_state=42 + split.fold)
        for ours, theirs in ((split.train, train), (split.valid, valid), (split.test, test)):
            np.testing.assert_array_equal(ours, theirs)
        assert split.seed == 42 + split.fold


def test_folds_of_classes_are_those_of_the_protocol():
    y = np.repeat([0, 1, 2], [60, 90, 50])
    expected = StratifiedKFold(5, shuffle=True, random_state=7).split(y, y)
    for split, (rest, test) in zip(make_splits(y, "classification", seed=7), expected, strict=True):
        train, valid = train_test_split(rest, test_size=0.1, random_state=7 + split.fold, stratify=y[rest])
        for ours, theirs in ((split.train, train), (split.valid, valid), (split.test, test)):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("counts", [[100, 1], [100, 2, 1], [40, 3, 3, 3], [1] * 30, [2] * 20, [3, 3]])
@pytest.mark.parametrize("split", ["folds", "holdout"])
def test_rare_classes_do_not_stop_a_study(counts, split):
    y = np.repeat(np.arange(len(counts)), counts)
    for each in make_splits(y, "classification", split=split):
        rows = np.concatenate([each.train, each.valid, each.test])
        np.testing.assert_array_equal(np.sort(rows), np.arange(len(y)))
        assert min(len(each.train), len(each.valid), len(each.test)) > 0


def test_holdout_tests_on_a_fifth_and_differs_by_seed():
    splits = make_splits(np.arange(1000.0), "regression", split="holdout", folds=3)
    assert [len(each.test) for each in splits] == [200] * 3
    assert [len(each.valid) for each in splits] == [80] * 3
    assert len({tuple(each.test) for each in splits}) == 3


def test_too_few_rows_are_explained():
    with pytest.raises(ValueError, match="folds"):
        make_splits(np.arange(4.0), "regression")


def folds(target, task="regression", n_folds=5, seed=0, n_seeds=1):
    random = np.random.RandomState(seed)
    seeds = random.randint(2**31 - 1, size=n_seeds)
    return as_splits(draw_folds(target, task=task, n_folds=n_folds, random=random), seeds), seeds


@pytest.mark.parametrize("n_rows", [10, 11, 103])
@pytest.mark.parametrize("n_folds", [2, 3, 8])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_folds_of_an_estimator_hold_out_every_row_once(n_rows, n_folds, task):
    target = np.random.default_rng(0).integers(0, 3, n_rows)
    splits, _ = folds(target, task, n_folds)
    assert [split.fold for split in splits] == list(range(n_folds))
    np.testing.assert_array_equal(np.sort(np.concatenate([split.valid for split in splits])), np.arange(n_rows))
    for split in splits:
        np.testing.assert_array_equal(np.sort(np.concatenate([split.train, split.valid])), np.arange(n_rows))
        assert n_rows // n_folds <= len(split.valid) <= -(-n_rows // n_folds)
        assert len(split.test) == 0


@pytest.mark.parametrize("counts", [[500, 300, 20], [40, 3, 3, 1], [1] * 30])
def test_folds_of_an_estimator_have_equal_shares_of_each_class(counts):
    target = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    splits, _ = folds(target, "classification", 4)
    for code, count in enumerate(counts):
        held = [int((target[split.valid] == code).sum()) for split in splits]
        assert sum(held) == count
        assert max(held) - min(held) <= 1
    lengths = [len(split.valid) for split in splits]
    assert max(lengths) - min(lengths) <= 1, "rows that remain of a class must not all go to the first folds"


def test_folds_of_an_estimator_are_random_and_reproducible():
    target = np.random.default_rng(0).normal(size=50)
    first, again, other = (folds(target, seed=seed, n_seeds=3) for seed in (4, 4, 5))
    for one, same, different in zip(first[0], again[0], other[0], strict=True):
        np.testing.assert_array_equal(one.valid, same.valid)
        assert not np.array_equal(one.valid, different.valid)
        assert one.seed == same.seed == first[1][0]
    np.testing.assert_array_equal(first[1], again[1])
    assert len({*first[1], *other[1]}) == 6
    by_place = [np.arange(50)[fold::5] for fold in range(5)]
    assert not any(np.array_equal(split.valid, rows) for split, rows in zip(first[0], by_place, strict=True))


@pytest.mark.parametrize(("n_rows", "n_folds"), [(1, 3), (2, 3), (9, 3), (11, 12)])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_very_few_rows_are_in_both_parts_of_every_fold(n_rows, n_folds, task):
    splits, _ = folds(np.arange(n_rows) % 2, task, n_folds)
    assert len(splits) == n_folds
    for split in splits:
        np.testing.assert_array_equal(split.train, np.arange(n_rows))
        np.testing.assert_array_equal(split.valid, np.arange(n_rows))
