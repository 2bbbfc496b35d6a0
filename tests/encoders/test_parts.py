"""Fitting parts of a table, and merging the encoders of parts."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import knotwork as kw
from knotwork.encoders._sketch import RowSample


class MiddlePlacement:
    """A placement whose representation has an address in memory."""

    supervised = False

    def __init__(self, share=0.5):
        self.share = share

    def __call__(self, column, n_knots, target=None, seed=0):
        low, high = column.domain
        return low + (high - low) * self.share ** np.arange(n_knots, 0, -1)


N = 1500
RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RANDOM.normal(size=N), "b": RANDOM.integers(0, 9, size=N), "c": RANDOM.lognormal(size=N)})
TABLE.loc[::7, "a"] = np.nan
TARGET = np.sin(3.0 * TABLE["a"].fillna(0.0)) + 2.0 * TABLE["b"] * TABLE["c"]
WEIGHTS = RANDOM.integers(0, 3, size=N).astype(float)
ENCODERS = {
    **{name: kw.make_encoder(name, 7) for name in ("BS-Q", "IS-U", "MS-CART", "PLE", "PLE-Q", "Periodic")},
    **{name: kw.make_encoder(name) for name in ("PLE-Adaptive", "Std", "MinMax", "Robust")},
    "cyclic": kw.SplineEncoder("cyclic", 6, period=4.0),
    "per feature": kw.make_encoder({"a": "BS-CART@8", "b": "Std"}, default="PLE-Q@5"),
    "pairs": kw.TensorSplineEncoder([("a", "c")], size=4, remainder="splines"),
    "pairs that are found": kw.TensorSplineEncoder(size=4),
}


def fitted_in_parts(encoder, weights=None, *, n_parts=5, seed=0):
    """Return an encoder that has seen the table in parts of different sizes, merged in a random order and shape."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, N), n_parts - 1, replace=False))
    parts = []
    for rows in np.array_split(np.arange(N), cuts):
        part = clone(encoder)
        for some in np.array_split(rows, 2):
            part.partial_fit(TABLE.iloc[some], TARGET.iloc[some], None if weights is None else weights[some])
        parts.append(part)
    while len(parts) > 1:
        first, second = rng.choice(len(parts), 2, replace=False)
        parts[first].merge(pickle.loads(pickle.dumps(parts[second])))
        del parts[second]
    return parts[0]


# Weights of one are weights as well: without weights only a few are quick.
@pytest.mark.parametrize(
    ("name", "weighted"),
    [
        pytest.param(name, weighted, marks=[] if weighted or name in ("BS-Q", "PLE", "Std") else [pytest.mark.slow])
        for name in ENCODERS
        for weighted in (False, True)
    ],
)
def test_parts_in_any_order_give_the_knots_of_the_whole(name, weighted):
    weights = WEIGHTS if weighted else None
    whole = clone(ENCODERS[name]).fit(TABLE, TARGET, weights)
    merged = fitted_in_parts(ENCODERS[name], weights)
    np.testing.assert_array_equal(merged.domain_, whole.domain_)
    for got, expected in zip(merged.knots_, whole.knots_, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9)
    assert list(merged.get_feature_names_out()) == list(whole.get_feature_names_out())
    np.testing.assert_allclose(merged.transform(TABLE), whole.transform(TABLE), atol=1e-5)


def test_an_encoder_can_be_used_between_parts():
    encoder = kw.SplineEncoder(size=6).partial_fit(TABLE.iloc[:500])
    first = encoder.transform(TABLE)
    np.testing.assert_array_equal(first, kw.SplineEncoder(size=6).fit(TABLE.iloc[:500]).transform(TABLE))
    encoder.partial_fit(TABLE.iloc[500:])
    np.testing.assert_array_equal(encoder.transform(TABLE), kw.SplineEncoder(size=6).fit(TABLE).transform(TABLE))
    assert "svg" in encoder._repr_html_()


def test_parts_without_rows_and_encoders_without_parts_add_nothing():
    encoder = kw.SplineEncoder(size=6)
    assert encoder.partial_fit(TABLE.iloc[:0]) is encoder
    with pytest.raises(NotFittedError):
        encoder.transform(TABLE)
    other = kw.SplineEncoder(size=6).partial_fit(TABLE)
    encoder.merge(other).merge(kw.SplineEncoder(size=6))
    np.testing.assert_array_equal(encoder.transform(TABLE), other.transform(TABLE))
    encoder.partial_fit(10.0 + TABLE)
    assert other.domain_[0, 1] < encoder.domain_[0, 1], "a merged encoder is not changed by parts that come later"


def test_parts_of_weight_zero_add_nothing():
    expected = kw.make_encoder("BS-CART", 6).fit(TABLE, TARGET)
    encoder = kw.make_encoder("BS-CART", 6).partial_fit(10.0 * TABLE, TARGET, np.zeros(N))
    with pytest.raises(NotFittedError):
        encoder.transform(TABLE)
    encoder.partial_fit(TABLE, TARGET, np.ones(N)).partial_fit(10.0 * TABLE, TARGET, np.zeros(N))
    np.testing.assert_array_equal(encoder.transform(TABLE), expected.transform(TABLE))
    with pytest.raises(ValueError, match="at least one batch with rows"):
        kw.make_encoder("BS-Q", 6).fit(iter([TABLE.assign(weight=0.0)]), sample_weight="weight")


def test_a_part_that_fails_changes_nothing():
    encoder = kw.SplineEncoder(size=6)
    for fit in (encoder.fit, encoder.partial_fit):
        with pytest.raises(ValueError, match="column 'a' contains infinity"):
            fit(TABLE.assign(a=np.inf))
        for use in (encoder.transform, encoder.plot, lambda X: encoder.fitted_):
            with pytest.raises(NotFittedError):
                use(TABLE)
    encoder.merge(kw.SplineEncoder(size=6).partial_fit(TABLE.to_numpy()))
    assert not hasattr(encoder, "feature_names_in_"), "names of a part that failed are forgotten"
    encoder = kw.SplineEncoder(size=6).partial_fit(TABLE.assign(price=TARGET), "price")
    with pytest.raises(ValueError, match="feature names"):
        encoder.partial_fit(TABLE.assign(price=TARGET, cost=TARGET), "cost")
    assert encoder.transform(TABLE.assign(price=TARGET)).shape == (N, 18)


def test_a_merged_encoder_knows_the_names_of_targets_of_both():
    named = kw.SplineEncoder(size=6).partial_fit(TABLE.assign(price=TARGET), "price")
    plain = kw.SplineEncoder(size=6).partial_fit(TABLE, TARGET)
    assert plain.merge(named).transform(TABLE.assign(price=TARGET)).shape == (N, 18)


def test_placements_of_other_processes_are_compared_by_their_settings():
    for make in (
        lambda share: kw.SplineEncoder(size=6, placement=MiddlePlacement(share)),
        lambda share: kw.make_encoder({"a": kw.SplineEncoder(placement=MiddlePlacement(share))}, default="Std"),
    ):
        first = make(0.5).partial_fit(TABLE)
        first.merge(pickle.loads(pickle.dumps(make(0.5).partial_fit(TABLE))))
        with pytest.raises(ValueError, match="must be the same in encoders"):
            first.merge(make(0.25).partial_fit(TABLE))


def test_target_and_weights_by_name():
    table = TABLE.assign(price=TARGET, weight=WEIGHTS)
    expected = kw.make_encoder("BS-CART", 8).fit(TABLE, TARGET, WEIGHTS)
    batches = (table.iloc[start : start + 400] for start in range(0, N, 400))
    for encoder in (
        kw.make_encoder("BS-CART", 8).fit(table, "price", "weight"),
        kw.make_encoder("BS-CART", 8).fit(batches, "price", "weight"),
        kw.make_encoder("BS-CART", 8).partial_fit(table, "price", "weight"),
    ):
        assert list(encoder.feature_names_in_) == ["a", "b", "c"]
        np.testing.assert_array_equal(encoder.transform(table), expected.transform(TABLE))
        np.testing.assert_array_equal(encoder.transform(TABLE), expected.transform(TABLE))
    again = kw.make_encoder("BS-Q", 8).fit(table, "price", "weight").fit(table)
    assert list(again.feature_names_in_) == list(table.columns), "names of an earlier fit are forgotten"
    assert again.transform(table).shape == (N, 5 * 8)


def test_invalid_parts():
    fitted = kw.SplineEncoder(size=6).fit(TABLE)
    part = kw.SplineEncoder(size=6).partial_fit(TABLE)
    with pytest.warns(UserWarning, match="starts from scratch"):
        clone(fitted).fit(TABLE * 2).partial_fit(TABLE)
    with pytest.raises(NotFittedError, match="fit keeps only knots"):
        part.merge(fitted)
    with pytest.raises(ValueError, match="size must be the same"):
        part.merge(kw.SplineEncoder(size=7).partial_fit(TABLE))
    with pytest.raises(ValueError, match="same columns, 'a', 'b', 'c', in this order, got 'a', 'b'"):
        part.merge(kw.SplineEncoder(size=6).partial_fit(TABLE[["a", "b"]]))
    with pytest.raises(TypeError, match="one part of a table, got X='list_iterator'. Call fit"):
        part.partial_fit(iter([TABLE]))
    with pytest.raises(ValueError, match="placement must need the target in all parts"):
        kw.SplineEncoder(size=6).partial_fit(TABLE).set_params(placement="cart").partial_fit(TABLE, TARGET)
    with pytest.raises(TypeError, match="be a SplineEncoder"):
        part.merge(kw.ScalarEncoder().partial_fit(TABLE))
    with pytest.raises(ValueError, match="feature names"):
        part.partial_fit(TABLE.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="column 'a' contains infinity"):
        part.partial_fit(TABLE.assign(a=np.inf))
    with pytest.raises(ValueError, match="y must be given"):
        kw.make_encoder("BS-CART").partial_fit(TABLE)
    with pytest.raises(ValueError, match="y must be the name"):
        part.partial_fit(TABLE, "price")
    np.testing.assert_array_equal(part.transform(TABLE), fitted.transform(TABLE))


def sampled(x, n_parts, size, *, reverse=False):
    samples = []
    for part in np.array_split(x, n_parts):
        samples.append(RowSample(3, size))
        samples[-1].update(part[:, None], part)
    merged = RowSample(3, size)
    for sample in reversed(samples) if reverse else samples:
        merged.merge(sample)
    return merged


def test_a_sample_of_rows_is_uniform_and_does_not_depend_on_the_order_of_merges():
    x, size = np.arange(20_000.0), 2000
    values, target, weights = sampled(x, 37, size).rows()
    assert weights is None
    np.testing.assert_array_equal(values[:, 0], target)
    assert len(np.unique(target)) == size
    counts = np.histogram(target, bins=20, range=(0, 20_000))[0]
    assert ((counts - 100.0) ** 2 / 90.0).sum() < 45.0  # chi-square of 19 degrees of freedom: one in a thousand
    np.testing.assert_array_equal(np.sort(sampled(x, 37, size, reverse=True).rows()[1]), np.sort(target))


def test_equal_parts_have_different_priorities():
    sample = RowSample(0, 300)
    for row in np.random.default_rng(0).integers(0, 2, size=(1000, 1)).astype(float):
        sample.update(row[:, None], row)
    assert 100 < sample.rows()[1].sum() < 200, "both values are in a sample of rows that come one by one"


def test_supervised_knots_of_many_rows_come_from_a_sample():
    x = np.random.default_rng(0).uniform(size=150_000)
    steps = (x > 0.3).astype(float) + 2.0 * (x > 0.8)
    encoder = kw.make_encoder("PLE", 3)
    for rows in np.array_split(np.arange(len(x)), 3):
        encoder.partial_fit(x[rows, None], steps[rows])
    np.testing.assert_allclose(encoder.knots_[0], [0.3, 0.8], atol=2e-4)
    np.testing.assert_array_equal(encoder.domain_, [[x.min(), x.max()]])


def test_the_sample_of_parts_with_equal_features_is_uniform():
    """As of a grid of places that is measured every day: each part has its own rows in the sample."""
    random = np.random.default_rng(0)
    values = np.arange(2000.0)[:, None]
    sample = RowSample(size=4000)
    for _ in range(10):
        sample.merge(_updated(values, random))
    distinct = len(np.unique(sample.rows()[0]))
    assert distinct > 0.8 * 2000  # 1 - 0.8^10 = 0.89 of the places are expected, and 0.2 if parts kept the same ones


def _updated(values, random):
    sample = RowSample(size=4000)
    sample.update(values, random.normal(size=len(values)))
    return sample


@pytest.mark.parametrize("merged", [False, True])
def test_parts_have_targets_of_one_type(merged):
    X = pd.DataFrame({"a": np.arange(50.0)})
    encoder = kw.make_encoder("PLE", 5).partial_fit(X, np.arange(50.0))
    labels = np.where(np.arange(50) % 2, "p", "q")
    other = kw.make_encoder("PLE", 5).partial_fit(X, labels)
    add = (lambda: encoder.merge(other)) if merged else (lambda: encoder.partial_fit(X, labels))
    with pytest.raises(TypeError, match="y must have one type in all parts, but has labels and numbers"):
        add()
