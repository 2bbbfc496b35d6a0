"""Hostile tables: estimators train and predict without a warning, or raise a clear error."""

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import knotwork as kw
from knotwork.encoders import Encoding
from knotwork.errors import ColumnError
from knotwork.estimators._settings import CANDIDATES
from knotwork.nn import FTTransformerConfig, MLPConfig, ResNetConfig
from tests.estimators.hostile import CLASSES, COLUMNS, TARGETS, as_container, make_frame

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns

BACKBONES = {
    "mlp": MLPConfig(widths=(8,)),
    "resnet": ResNetConfig(width=8, n_blocks=1, hidden=8),
    "ft": FTTransformerConfig(d_token=8, n_blocks=1, n_heads=2),
}
SHORT = kw.TrainingConfig(max_epochs=2, batch_size=16, knot_warmup=0, learning_rate=0.01)
EXAMPLES = 4
"""Tables for each method and task: more than 300 in all, of which 100 are quick."""

SEARCHES = ("validated", "ensemble")
ENCODINGS = [*kw.METHODS, *SEARCHES]


def every_third(first):
    """Return places and names of all encodings, of which every third is quick; values far outside have all of them."""
    return [
        pytest.param(place, name, marks=[] if place % 3 == first else [pytest.mark.slow], id=name)
        for place, name in enumerate(ENCODINGS)
    ]


CASES = st.fixed_dictionaries(
    {
        "kinds": st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5),
        "n_rows": st.sampled_from([1, 2, 3, 9, 10, 11, 40, 70]),
        "container": st.sampled_from(["pandas", "polars", "numpy"]),
        "empty_row": st.booleans(),
        "weighted": st.booleans(),
        "backbone": st.sampled_from(sorted(BACKBONES)),
        "categories": st.sampled_from(["embedding", "code"]),
        "missing": st.sampled_from(["zeros", "learned"]),
        "n_members": st.sampled_from([1, 2]),
        "size": st.sampled_from([None, 4, 7]),
        "random": st.integers(0, 2**32 - 1),
    }
)


def make_tables(case, rng):
    """Return a table to train on, and one to predict that has other rows and, if they have names, another order."""
    frame = make_frame(case["kinds"], case["n_rows"], rng, empty_row=case["empty_row"])
    other = make_frame(case["kinds"], 7, rng, empty_row=case["empty_row"])
    if case["container"] != "numpy":
        other = other[rng.permutation(other.columns)]
    return as_container(frame, case["container"]), as_container(other, case["container"])


def make_weights(case, rng):
    """Return weights of which some are zero and some tiny, or None."""
    if not case["weighted"]:
        return None
    weights = rng.choice([0.0, 1e-30, 1.0, 3.0], case["n_rows"])
    weights[rng.integers(case["n_rows"])] = 2.0
    return weights


def encoding(method, size):
    """Return a method with a size, or all that a search tries with it."""
    if size is None:
        return "auto" if method in SEARCHES else method
    every = [Encoding.parse(each).method for each in CANDIDATES] if method in SEARCHES else [method]
    sized = [str(Encoding.parse(each, size)) for each in dict.fromkeys(every)]
    return sized if method in SEARCHES else sized[0]


def fitted(kind, method, case, *, target, rng):
    """Return an estimator that was trained on a case, and the table to predict."""
    train, other = make_tables(case, rng)
    y = target(rng, case["n_rows"])
    estimator = kind(
        encoding(method, case["size"]),
        BACKBONES[case["backbone"]],
        search=method if method in SEARCHES else None,
        n_members=case["n_members"],
        columns=kw.ColumnConfig(
            categories="embedding" if case["backbone"] == "ft" else case["categories"], missing=case["missing"]
        ),
        training=SHORT,
        random_state=case["random"] % 2**31,
    )
    return estimator.fit(train, y, sample_weight=make_weights(case, rng)), train, other


def readable(model, train, other):
    """Return both tables, or only the first if the other has text in a column of numbers."""
    try:
        model.predict(other)
    except ColumnError as error:
        if "held numbers when it was fitted, and now holds the text" not in str(error):
            raise
        return [train]
    return [train, other]


@pytest.mark.parametrize(("place", "method"), every_third(0))
def test_regressors_predict_numbers(place, method):
    @seed(place)
    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(CASES, st.sampled_from(sorted(TARGETS)))
    def check(case, target):
        rng = np.random.default_rng(case["random"])
        model, train, other = fitted(kw.TabularRegressor, method, case, target=TARGETS[target], rng=rng)
        for table in readable(model, train, other):
            predicted = model.predict(table)
            assert predicted.shape == (len(table),)
            assert np.isfinite(predicted).all()
        assert np.isfinite(model.feature_importances_).all()
        assert all(np.isfinite(knots).all() for member in model.knots_ for knots in member.values())

    check()


@pytest.mark.parametrize(("place", "method"), every_third(1))
def test_classifiers_predict_probabilities(place, method):
    @seed(1000 + place)
    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(CASES, st.sampled_from(sorted(CLASSES)))
    def check(case, target):
        rng = np.random.default_rng(case["random"])
        model, train, other = fitted(kw.TabularClassifier, method, case, target=CLASSES[target], rng=rng)
        for table in readable(model, train, other):
            shares = model.predict_proba(table)
            assert shares.shape == (len(table), len(model.classes_))
            assert (shares >= 0).all()
            np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
            labels = model.predict(table)
            assert labels.shape == (len(table),)
            assert set(labels.tolist()) <= set(model.classes_.tolist())
        assert np.isfinite(model.feature_importances_).all()

    check()


@pytest.mark.parametrize("kind", [kw.TabularRegressor, kw.TabularClassifier])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("container", ["pandas", "polars", "numpy"])
def test_infinite_numbers_are_refused_with_the_name_of_the_column(kind, value, container):
    frame = make_frame(["float64", "text", "holes"], 20, np.random.default_rng(0))
    frame.loc[3, "holes 2"] = value
    name = "column 2" if container == "numpy" else "column 'holes 2'"
    with pytest.raises(ColumnError, match=f"{name}.*contains infinity.*Replace it by NaN"):
        kind(training=SHORT).fit(as_container(frame, container), np.arange(20) % 2)


@pytest.mark.parametrize(
    ("method", "backbone"),
    [
        pytest.param(method, backbone, marks=[] if backbone == "mlp" or place % 9 == 0 else [pytest.mark.slow])
        for place, method in enumerate(kw.METHODS)
        for backbone in BACKBONES
    ],
)
def test_values_far_outside_are_predicted(method, backbone):
    X = np.random.default_rng(0).normal(size=(30, 2))
    far = np.array([[1e300, 0.0], [-1.7e308, 1e-300], [1e38, -1e38], [1e20, np.nan], [np.inf, -np.inf]])
    model = kw.TabularRegressor(method, BACKBONES[backbone], training=SHORT, random_state=0).fit(X, X[:, 0])
    assert np.isfinite(model.predict(far)).all()


@pytest.mark.parametrize(
    ("method", "backbone"),
    [
        pytest.param(method, backbone, marks=[] if backbone == "mlp" or method == "Std" else [pytest.mark.slow])
        for method in ("Std", "MinMax", "BS-Q", "IS-Grad-U")
        for backbone in BACKBONES
    ],
)
@pytest.mark.parametrize("outlier", [1e20, -1e300])
def test_an_outlier_among_the_validation_rows(method, backbone, outlier):
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = kw.TabularRegressor(method, BACKBONES[backbone], training=SHORT, random_state=0)
    y = X[:, 0].copy()
    for row in range(len(X)):
        places = X.copy()
        places[row, 0] = outlier
        y[row] = -outlier
        if row % 7 == 0:
            assert np.isfinite(model.fit(places, y).predict(X)).all()
        y[row] = X[row, 0]


@pytest.mark.parametrize(
    "method",
    ["BS-Q@15", "IS-Grad-U@15", *(pytest.param(each, marks=pytest.mark.slow) for each in ("PLE@15", "BS-Grad-Q@15"))],
)
def test_one_wrong_cell_does_not_cost_its_column(method):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(800, 1)), rng.normal(size=(400, 1))
    training = kw.TrainingConfig(max_epochs=30, batch_size=64, learning_rate=0.01)
    errors = []
    for wrong in (None, 1e12, -1e300):
        if wrong is not None:
            X[7] = wrong
        model = kw.TabularRegressor(method, MLPConfig(widths=(64,)), training=training, random_state=0)
        y = np.sin(3 * np.where(np.abs(X) < 10, X, 0.0)).ravel()
        errors.append(np.std(model.fit(X, y).predict(new) - np.sin(3 * new).ravel()))
    assert errors[0] < 0.25
    assert max(errors) < errors[0] + 0.1, "a model without this column would have 0.7"


@pytest.mark.parametrize("per_column", [{"b": "PLE@5"}, {"a": "BS-U@7", "b": "Std"}, {"b": "MinMax", "a": "MS-CART"}])
@pytest.mark.parametrize("kind", [kw.TabularRegressor, kw.TabularClassifier])
def test_columns_with_encodings_of_their_own(per_column, kind):
    frame = make_frame(["holes", "text", "outlier"], 40, np.random.default_rng(0)).set_axis(["a", "t", "b"], axis=1)
    model = kind(per_column, BACKBONES["mlp"], training=SHORT, random_state=0).fit(frame, np.arange(40) % 3)
    assert np.isfinite(model.predict(frame)).all()
    assert [spec.split("@")[0] for spec in model.encoding_[0].values()] == [
        per_column.get(name, kw.recommend(model._task, budget="medium").method).split("@")[0] for name in ("a", "b")
    ]


def test_text_in_a_column_that_was_missing_stays_missing():
    X = np.array([[1.0, None], [2.0, None], [3.0, None]], dtype=object)
    model = kw.TabularRegressor(training=SHORT, random_state=0).fit(X, [1.0, 2.0, 3.0])
    other = X.copy()
    other[1, 1] = "text"
    np.testing.assert_array_equal(model.predict(other), model.predict(X))
