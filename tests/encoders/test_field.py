"""Problems that users of other libraries have reported."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

import knotwork as kw
from knotwork.encoders import METHOD_TABLE
from tests.encoders.cases import FIXED


@pytest.mark.parametrize("method", FIXED)
def test_deeptab_160_267_tabm_19_a_constant_column_in_one_fold_does_not_kill_fit(method):
    X = np.random.default_rng(0).normal(size=(50, 2))
    X[:40, 1] = 5.0  # constant in the training part of the last fold only
    for train, test in KFold(5).split(X):
        encoder = kw.make_encoder(method, 6).fit(X[train], X[train, 0])
        assert np.isfinite(encoder.transform(X[test])).all()


@pytest.mark.parametrize("method", [name for name in FIXED if METHOD_TABLE[name].has_knots])
def test_pretab_12_the_training_maximum_and_all_above_are_not_zeros(method):
    X = np.random.default_rng(0).normal(size=(200, 1))
    encoder = kw.make_encoder(method, 9).fit(X, np.sin(X[:, 0]))
    top = encoder.transform([[X.max()], [X.max() + 1.0], [1e9]])
    assert (top.sum(axis=1) > 0.99).all()
    if not METHOD_TABLE[method].is_cyclic:  # above the maximum, a cycle begins again
        np.testing.assert_array_equal(top[1:], top[[0, 0]])


@pytest.mark.parametrize("method", ["BS-LGBM", "BS-CART"])
def test_pretab_10_tree_knots_do_not_cluster_in_a_corner(method):
    x = np.random.default_rng(0).uniform(size=5000)
    y = np.sin(12 * x)  # informative everywhere
    knots = kw.make_encoder(method, 15).fit(x[:, None], y).knots_[0]
    counts, _ = np.histogram(knots, bins=4, range=(0, 1))
    assert (counts >= 1).all()


@pytest.mark.parametrize("method", ["BS-Q", "IS-Q", "MS-Q", "BS-CART", "IS-LGBM"])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_pretab_56_zero_inflated_columns_leave_no_dead_columns(method, share):
    random = np.random.default_rng(0)
    x = np.where(random.uniform(size=4000) < share, 0.0, random.exponential(size=4000))
    encoded = kw.make_encoder(method, 15).fit(x[:, None], np.sin(x)).transform(x[:, None])
    assert (np.ptp(encoded, axis=0) > 0).all()


def test_deeptab_422_one_table_drives_methods_validation_and_message():
    with pytest.raises(ValueError, match="method must be one of") as caught:
        kw.make_encoder("nope")
    for name in kw.METHODS:
        assert repr(name) in str(caught.value)
    for name in FIXED:
        kw.make_encoder(name)


@pytest.mark.parametrize("labels", [["no", "yes"], [10, 20, 30], [True, False], [-1, 1]])
@pytest.mark.parametrize("method", ["PLE", "BS-CART", "IS-LGBM"])
def test_deeptab_409_labels_of_any_kind_place_the_same_knots(method, labels):
    x = np.random.default_rng(0).normal(size=600)
    codes = np.searchsorted(np.linspace(-1, 1, len(labels) + 1)[1:-1], x)
    expected = kw.make_encoder(method, 7).fit(x[:, None], codes).knots_[0]
    got = kw.make_encoder(method, 7).fit(x[:, None], np.sort(np.array(labels))[codes]).knots_[0]
    np.testing.assert_array_equal(got, expected)


def test_deeptab_361_nothing_is_fitted_outside_the_training_rows():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 2)), random.integers(0, 2, 200)
    train = np.arange(150)
    pipeline = make_pipeline(kw.make_encoder("PLE", 7), LogisticRegression()).fit(X[train], y[train])
    other = X.copy()
    other[150:] = 1e6 * random.normal(size=(50, 2))
    again = make_pipeline(kw.make_encoder("PLE", 7), LogisticRegression()).fit(other[train], y[train])
    np.testing.assert_array_equal(pipeline[0].knots_[0], again[0].knots_[0])


def test_deeptab_256_features_of_different_widths_stand_side_by_side():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(100, 3)), columns=list("abc"))
    encoder = kw.make_encoder({"a": "BS-Q@5", "b": "PLE@12", "c": "Std"}).fit(X, X["a"])
    assert encoder.transform(X).shape == (100, 18)
    adaptive = kw.make_encoder("PLE-Adaptive").fit(X, np.sin(5 * X["a"]))
    widths = [len(knots) + 1 for knots in adaptive.knots_]
    assert all(5 <= width <= 50 for width in widths)
    assert adaptive.transform(X).shape == (100, sum(widths))
