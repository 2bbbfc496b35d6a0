"""Methods by name, and mappings from columns to methods."""

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import knotwork as kw
from knotwork.encoders import METHOD_TABLE, METHODS, PAPER_METHODS, Embedding, Encoding, Method
from knotwork.errors import ArgumentError
from knotwork.knots import CartPlacement, Column
from tests.encoders.cases import FIXED

RANDOM = np.random.default_rng(0)
X = pd.DataFrame(RANDOM.normal(size=(300, 3)), columns=["a", "b", "c"])
Y = np.sin(3 * X["a"]) + X["b"] ** 2


def test_nineteen_methods_are_those_of_the_paper():
    splines = {f"{s}-{p}" for s in ("BS", "IS", "MS") for p in ("U", "Q", "CART", "LGBM", "Grad-U")}
    assert set(PAPER_METHODS) == {"Std", "MinMax", "PLE", "PLE-Adaptive"} | splines
    beyond = ["Robust", "PLE-Q", "Periodic", "Cosine", "PLR", "PBLD"]
    others = {f"{family}-{end}" for family in ("CS", "NS", "RBF", "TPS") for end in ("U", "Q", "Grad-U")}
    assert (*PAPER_METHODS, *beyond) == kw.METHODS[:25]
    assert set(kw.METHODS[25:]) == others


@pytest.mark.parametrize(
    ("text", "method", "size", "start"),
    [
        ("CS-U@12%24", "CS-U%24", 12, "CS-U@12%24"),
        ("CS-Grad-Q@6%365.25", "CS-Grad-Q%365.25", 6, "CS-Q@6%365.25"),
        ("CS-U@8%24+LR4x", "CS-U%24+LR4x", 8, "CS-U@8%24"),
        ("CS-U%7", "CS-U%7", None, "CS-U%7"),
    ],
)
def test_a_period_is_a_part_of_the_name(text, method, size, start):
    encoding = Encoding.parse(text)
    assert (encoding.method, encoding.size) == (method, size)
    assert str(encoding) == text
    assert str(encoding.start) == start
    assert encoding.start.encoder().period == float(text.partition("%")[2].partition("+")[0])


@pytest.mark.parametrize("text", ["BS-U%24", "Std%24", "CS-U%0", "CS-U%-3", "CS-U%inf", "CS-U%day", "CS-U@5%"])
def test_a_period_that_is_not_valid(text):
    with pytest.raises(ValueError, match="have a period larger than 0, as in 'CS-U%24', and only for a cyclic family"):
        Encoding.parse(text)
    with pytest.raises(ValueError, match="period must be None for the family 'bspline'"):
        Method("bspline", "uniform", period=24.0)


@pytest.mark.parametrize("method", FIXED)
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
    with pytest.raises(ValueError, match="method must be a valid name.*Did you mean .Std"):
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


def test_the_period_has_an_effect():
    for period in (3.0, (-1.0, 4.0)):
        periods = [kw.SplineEncoder("cyclic", 7, period=value).fit(X).transform(X) for value in (None, period)]
        assert not np.array_equal(*periods)


def test_no_parameter_is_forgotten():
    for kind, new in CHANGES.items():
        names = set(inspect.signature(kind).parameters)
        assert names <= set(new) | ELSEWHERE | {"extrapolation", "period"}
    scaled = kw.ScalarEncoder("minmax"), kw.ScalarEncoder("minmax", extrapolation="linear")
    assert scaled[0].fit(X).transform(2 * X).max() < scaled[1].fit(X).transform(2 * X).max()


def test_the_task_has_an_effect():
    random = np.random.default_rng(1)
    x = random.uniform(size=2000)
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
    random = np.random.default_rng(1)
    x = random.uniform(size=5000)[:, None]
    wavy = kw.make_encoder("PLE-Adaptive").fit(x, np.sin(60 * x[:, 0]))
    flat = kw.make_encoder("PLE-Adaptive").fit(x, np.zeros(5000))
    assert len(wavy.knots_[0]) + 1 == 50
    assert len(flat.knots_[0]) + 1 == 5
    rows = np.histogram(x, np.concatenate(([-1], wavy.knots_[0], [2])))[0]
    assert rows.min() >= 25


def test_methods_that_are_not_listed_learn_their_knots_or_need_the_target():
    beyond = {name: method for name, method in METHOD_TABLE.items() if name not in METHODS}
    assert {name for name in beyond if name.startswith(("BS", "IS", "MS", "PLE"))} == {
        "PLE-Grad", *(f"{family}-Grad-{end}" for family in ("BS", "IS", "MS") for end in ("Q", "CART", "LGBM")),
    }  # fmt: skip
    assert all(method.learnable or method.supervised for method in beyond.values())
    for name, method in METHOD_TABLE.items():
        assert (method.start is not None) == (method.learnable or method.embedding is not None)
        assert method.learnable == ("Grad" in name)
        if method.start is not None:
            fixed = METHOD_TABLE[method.start]
            assert (fixed.family, fixed.placement, fixed.learnable) == (method.family, method.placement, False)
            assert fixed.embedding is None
            with pytest.raises(ArgumentError, match=f"The encoder .* is {method.start!r}"):
                kw.make_encoder(name)


@pytest.mark.parametrize(
    ("spec", "method", "size", "embedding"),
    [
        ("PLE@30+L8", "PLE+L8", 30, Embedding(8)),
        ("PLE@30+LR8", "PLE+LR8", 30, Embedding(8, relu=True)),
        ("BS-Grad-Q@7+L8x", "BS-Grad-Q+L8x", 7, Embedding(8, raw=True)),
        ("BS-Q@15+x", "BS-Q+x", 15, Embedding(0, raw=True)),
        ("Std+LR3x", "Std+LR3x", None, Embedding(3, relu=True, raw=True)),
        ("PLR@16", "PLR", 16, Embedding(16, relu=True)),
        ("PLR@16+LR24", "PLR+LR24", 16, Embedding(24, relu=True)),
        ("PBLD@8", "PBLD", 8, Embedding(3, raw=True)),
        ("BS-Q@15", "BS-Q", 15, None),
    ],
)
def test_embeddings_are_written_behind_a_plus(spec, method, size, embedding):
    encoding = Encoding.parse(spec)
    assert (encoding.method, encoding.size, encoding.embedding, str(encoding)) == (method, size, embedding, spec)
    assert encoding.start.embedding is None
    assert encoding.start.kind.start is None
    assert encoding.start.size == size
    assert (method in METHOD_TABLE, method in list(METHOD_TABLE)) == (True, "+" not in method)
    if embedding is not None:
        assert Embedding.parse(str(embedding)) == embedding
        with pytest.raises(ArgumentError, match=r"FeatureEmbedding|SplineEncoding"):
            encoding.encoder()


def test_the_default_embedding_of_a_method_is_left_out():
    assert Encoding.parse("PLR@16+LR16") == Encoding.parse("PLR@16")
    assert Encoding.parse("PBLD@4+L3x") == Encoding("PBLD", 4)


@pytest.mark.parametrize("wrong", ["PLE@30+", "PLE@30+8", "PLE+L8@30", "PLE+L0", "PLE+R8", "+L8", "PLE+L8xx", "no+L8"])
def test_wrong_embeddings_are_refused(wrong):
    with pytest.raises(ArgumentError, match=r"method must .* an embedding (such )?as (in )?'(PLE)?\+L"):
        Encoding.parse(wrong)
    assert wrong not in METHOD_TABLE


@pytest.mark.parametrize("settings", [{"width": 0}, {"width": 0, "relu": True, "raw": True}, {"width": -1}])
def test_embeddings_that_map_nothing_are_refused(settings):
    with pytest.raises(ArgumentError, match="width must"):
        Embedding(**settings)


def test_a_method_with_an_embedding_names_the_one_without():
    with pytest.raises(ArgumentError, match="start must be the name of the method without its embedding"):
        Method("ple", "quantile", embedding=Embedding(4))


def test_ple_at_quantiles_needs_no_target():
    encoder = kw.make_encoder("PLE-Q", 4).fit(X)
    np.testing.assert_allclose(encoder.knots_[0], np.quantile(X["a"], [0.25, 0.5, 0.75]))
    assert encoder.get_params() == kw.PiecewiseLinearEncoder(4, placement="quantile").get_params()


def test_a_mapping_takes_encoders_beside_names():
    X = pd.DataFrame({"a": np.linspace(0.0, 8.0, 50), "b": np.linspace(1.0, 2.0, 50)})
    fixed = kw.SplineEncoder(size=4, degree=1, placement=kw.knots.FixedPlacement([2.0, 5.0]))
    encoder = kw.make_encoder({"a": fixed}, default="BS-Q@5", dtype=np.float64)
    expected = np.hstack([
        kw.basis.evaluate("bspline", X["a"], [2.0, 5.0], degree=1, domain=(0.0, 8.0)),
        kw.make_encoder("BS-Q", size=5, dtype=np.float64).fit_transform(X[["b"]]),
    ])  # fmt: skip
    np.testing.assert_allclose(clone(encoder).fit_transform(X), expected)
    assert encoder.fit(X).get_feature_names_out().tolist()[:4] == ["a_bs0", "a_bs1", "a_bs2", "a_bs3"]
