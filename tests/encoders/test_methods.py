"""Methods by name, and mappings from columns to methods."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import knotwork as kw
from knotwork.encoders._methods import METHOD_TABLE, METHODS
from knotwork.errors import ArgumentError
from knotwork.knots import CartPlacement, Column

RANDOM = np.random.default_rng(0)
X = pd.DataFrame(RANDOM.normal(size=(300, 3)), columns=["a", "b", "c"])
Y = np.sin(3 * X["a"]) + X["b"] ** 2


def test_there_are_nineteen_methods():
    assert len(kw.METHODS) == 19
    assert {"Std", "MinMax", "PLE", "PLE-Adaptive"} < set(kw.METHODS)
    splines = {f"{s}-{p}" for s in ("BS", "IS", "MS") for p in ("U", "Q", "CART", "LGBM", "Grad-U")}
    assert splines < set(kw.METHODS)


@pytest.mark.parametrize("method", [name for name in kw.METHODS if "Grad" not in name])
def test_every_fixed_method_encodes(method):
    encoded = kw.make_encoder(method, size=8).fit(X, Y).transform(X)
    if METHOD_TABLE[method].has_size:
        assert encoded.shape == (300, 24)
    elif method != "PLE-Adaptive":
        assert encoded.shape == (300, 3)


@pytest.mark.parametrize("method", ["BS-Grad-U", "IS-Grad-U", "MS-Grad-U"])
def test_the_error_of_a_learnable_method_names_the_layer(method):
    with pytest.raises(ValueError, match=r"knotwork\.nn\.SplineEncoding") as caught:
        kw.make_encoder(method)
    assert METHOD_TABLE[method].family in str(caught.value)
    assert method.replace("Grad-", "") in str(caught.value)


def test_size_in_the_name():
    assert kw.make_encoder("BS-Q@9").get_params() == kw.make_encoder("BS-Q", 9).get_params()
    assert kw.make_encoder("BS-Q").size == 15
    with pytest.raises(ValueError, match="agree"):
        kw.make_encoder("BS-Q@9", size=7)
    for wrong in ("BS-Q@", "BS-Q@x", "BS-Q@-3", "Std@5", "BSQ@5", 7):
        with pytest.raises(ValueError, match="method must"):
            kw.make_encoder(wrong)


def test_unknown_options_are_refused_with_the_known_ones():
    with pytest.raises(TypeError, match="no option 'knots' here, only .*'missing'"):
        kw.make_encoder("BS-Q", knots=3)
    with pytest.raises(TypeError, match="no option 'family'"):
        kw.make_encoder("BS-Q", family="ispline")
    assert kw.make_encoder("Std", missing="indicator").missing == "indicator"


def test_a_mapping_is_the_encoders_side_by_side():
    methods = {"a": "BS-Q@7", "b": "PLE@5", "c": "MinMax"}
    mapped = kw.make_encoder(methods, dtype=np.float64).fit(X, Y)
    parts = [kw.make_encoder(m, dtype=np.float64).fit(X[[c]], Y).transform(X[[c]]) for c, m in methods.items()]
    np.testing.assert_allclose(mapped.transform(X), np.hstack(parts), atol=1e-12)
    assert len(mapped.knots_) == 3
    assert mapped.domain_.shape == (3, 2)
    clone(mapped)


def test_a_mapping_by_index_for_arrays():
    mapped = kw.make_encoder({0: "BS-Q@7", 2: "Std"}, default="MinMax").fit(X.to_numpy())
    assert mapped.transform(X.to_numpy()).shape == (300, 9)


def test_mistakes_in_a_mapping():
    with pytest.raises(ValueError, match="name columns of X, got methods=.*'d'.*The columns of X are 'a', 'b', 'c'"):
        kw.make_encoder({"d": "Std"}, default="Std").fit(X)
    with pytest.raises(ValueError, match="Without a method: 'b', 'c'"):
        kw.make_encoder({"a": "Std"}).fit(X)
    with pytest.raises(ValueError, match="method must be one of"):
        kw.make_encoder({"a": "Stdd"}, default="Std").fit(X)
    with pytest.raises(ValueError, match="learned"):
        kw.make_encoder({"a": "BS-Grad-U"}, default="Std").fit(X)
    with pytest.raises(ValueError, match="size must be None for a mapping"):
        kw.make_encoder({"a": "Std"}, size=3)
    with pytest.raises(TypeError, match="methods must be a mapping"):
        kw.PerFeatureEncoder("Std").fit(X)


CHANGES = {
    kw.SplineEncoder: {
        "family": "ispline", "size": 8, "placement": "uniform", "degree": 2, "extrapolation": "linear",
        "missing": "indicator", "sparse_output": True, "dtype": "float64",
    },
    kw.PiecewiseLinearEncoder: {
        "size": 8, "placement": "uniform", "adaptive": True, "extrapolation": "linear", "missing": "indicator",
        "sparse_output": True, "dtype": "float64",
    },
    kw.ScalarEncoder: {"scaling": "minmax", "missing": "indicator", "sparse_output": True, "dtype": "float64"},
    kw.PerFeatureEncoder: {
        "methods": {"a": "Std"}, "default": "IS-Q", "extrapolation": "linear", "missing": "indicator",
        "sparse_output": True, "dtype": "float64",
    },
}  # fmt: skip
ELSEWHERE = {"task", "n_jobs", "random_state"}  # shown to have an effect below, and by tests of threads


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(kind, name, value) for kind, new in CHANGES.items() for name, value in new.items()]
)
def test_every_parameter_has_an_effect(kind, name, value):
    default = kind({}, default="BS-Q") if kind is kw.PerFeatureEncoder else kind()
    changed = clone(default).set_params(**{name: value})
    before, after = (encoder.fit(X, Y).transform(2 * X) for encoder in (default, changed))
    assert type(before) is not type(after) or before.dtype != after.dtype or not np.array_equal(before, after)


def test_no_parameter_is_forgotten():
    for kind, new in CHANGES.items():
        names = set(inspect.signature(kind).parameters)
        assert names <= set(new) | ELSEWHERE | {"extrapolation"}
    scaled = kw.ScalarEncoder("minmax"), kw.ScalarEncoder("minmax", extrapolation="linear")
    assert scaled[0].fit(X).transform(2 * X).max() < scaled[1].fit(X).transform(2 * X).max()


def test_the_task_has_an_effect():
    x = RANDOM.uniform(size=2000)
    y = np.select([x < 0.4, x < 0.8], [0, 1], 100)  # as classes 0 stands apart, as a number 100 does
    tasks = ["classification", "regression", None]
    by_task = [kw.make_encoder("PLE", 2, task=task).fit(x[:, None], y).knots_[0] for task in tasks]
    assert not np.array_equal(by_task[0], by_task[1])
    np.testing.assert_array_equal(by_task[2], by_task[0])


def test_a_user_defined_placement():
    class Halves:
        supervised = False

        def __call__(self, column: Column, n_knots, target=None, seed=0):
            low, high = column.domain
            return low + (high - low) * 0.5 ** np.arange(n_knots, 0, -1.0)

    encoder = kw.SplineEncoder(size=6, placement=Halves()).fit(np.array([[0.0], [8.0]]))
    np.testing.assert_allclose(encoder.knots_[0], [2.0, 4.0])
    shallow = kw.SplineEncoder(size=9, placement=CartPlacement(max_depth=1)).fit(X, Y)
    assert not np.array_equal(shallow.knots_[0], kw.make_encoder("BS-CART", 9).fit(X, Y).knots_[0])


def test_fewer_bins_than_columns_leave_zeros():
    x = np.repeat([0.0, 1.0], 50)[:, None]
    encoded = kw.make_encoder("PLE", 6).fit(x, x[:, 0]).transform(x)
    assert encoded.shape == (100, 6)
    assert (encoded[:, 2:] == 0).all()
    assert (encoded[-1, :2] == 1).all()


def test_adaptive_bins_are_between_five_and_fifty():
    x = RANDOM.uniform(size=5000)[:, None]
    wavy = kw.make_encoder("PLE-Adaptive").fit(x, np.sin(60 * x[:, 0]))
    flat = kw.make_encoder("PLE-Adaptive").fit(x, np.zeros(5000))
    assert len(wavy.knots_[0]) + 1 == 50
    assert len(flat.knots_[0]) + 1 == 5
    rows = np.histogram(x, np.concatenate(([-1], wavy.knots_[0], [2])))[0]
    assert rows.min() >= 25


def test_methods_beyond_the_paper_learn_their_knots():
    beyond = {name: method for name, method in METHOD_TABLE.items() if name not in METHODS}
    assert len(METHODS) == 19
    assert set(beyond) == {"PLE-Grad", *(f"{family}-Grad-{end}" for family in ("BS", "IS", "MS")
                                         for end in ("Q", "CART", "LGBM"))}  # fmt: skip
    for name, method in METHOD_TABLE.items():
        assert (method.start is not None) == method.learnable == ("Grad" in name)
        if method.start is not None:
            fixed = METHOD_TABLE[method.start]
            assert (fixed.family, fixed.placement, fixed.learnable) == (method.family, method.placement, False)
            with pytest.raises(ArgumentError, match=f"The encoder that they start from is {method.start!r}"):
                kw.make_encoder(name)
