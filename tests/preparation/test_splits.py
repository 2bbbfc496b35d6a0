"""Folds are those of scikit-learn, and no class is too rare for them."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

from knotwork._preparation.members import make_splits


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
