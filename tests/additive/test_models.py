"""Additive models: curves that are right, smooth where they should be, and of the shape that is asked for."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline

import knotwork as kw
from tests.encoders.checks import is_repeated, parametrize_checks

RANDOM = np.random.default_rng(0)
N = 2000
X = pd.DataFrame(
    {
        "wave": RANDOM.uniform(0, 6, N),
        "jump": RANDOM.uniform(0, 1, N),
        "line": RANDOM.normal(size=N),
        "nothing": RANDOM.normal(size=N),
        "city": RANDOM.choice(["Oslo", "Rome", "Lima"], N),
    }
)
MEAN = np.sin(X["wave"]) + 2.0 * (X["jump"] > 0.37) + 0.5 * X["line"] + 1.5 * (X["city"] == "Oslo")
Y = MEAN + 0.2 * RANDOM.normal(size=N)


def effect_of(model, name, **options):
    (effect,) = model.effects([name], **options)
    return effect


@pytest.fixture(scope="module")
def model():
    return kw.AdditiveRegressor().fit(X, Y)


def test_curves_are_the_true_ones_and_intervals_cover_them(model):
    wave = effect_of(model, "wave")
    truth = np.sin(wave.values) - np.sin(X["wave"]).mean()
    assert np.abs(wave.effect - truth).max() < 0.1
    assert ((wave.low <= truth) & (truth <= wave.high)).mean() > 0.85
    jump = effect_of(model, "jump")
    below, above = (jump.effect[part].mean() for part in (jump.values < 0.33, jump.values > 0.41))
    assert above - below == pytest.approx(2.0, abs=0.06)


def test_intervals_grow_with_their_probability(model):
    narrow, wide = (effect_of(model, "wave", interval=share) for share in (0.5, 0.99))
    assert ((wide.high - wide.low) > 2.0 * (narrow.high - narrow.low)).all()
    np.testing.assert_array_equal(narrow.effect, wide.effect)


def test_smoothness_follows_from_the_data(model):
    degrees = {effect.name: effect.degrees for effect in model.effects()}
    assert degrees["nothing"] < 1.5
    assert 0.9 < degrees["line"] < 3.0
    assert 4.0 < degrees["wave"] < 16.0 < degrees["jump"]
    assert np.ptp(effect_of(model, "nothing").effect) < 0.1
    importances = dict(zip(X, model.feature_importances_, strict=True))
    assert importances["nothing"] < 0.02
    assert 0.3 < importances["line"] < importances["jump"]


def test_the_size_limits_curves():
    small = kw.AdditiveRegressor(size=5).fit(X, Y)
    assert effect_of(small, "jump").degrees <= 4.0
    assert small.score(X, Y) < kw.AdditiveRegressor().fit(X, Y).score(X, Y) - 0.01


def test_categories(model):
    city = effect_of(model, "city")
    effects = dict(zip(city.values, city.effect, strict=True))
    assert effects["Oslo"] - effects["Rome"] == pytest.approx(1.5, abs=0.05)
    unseen = model.contributions(X.head(3).assign(city="Bergen"))
    np.testing.assert_array_equal(unseen.values[:, unseen.names.index("city")], 0.0)


def test_predictions_are_sums_of_contributions(model):
    parts = model.contributions(X)
    assert parts.names == model.term_names_ == list(X)
    np.testing.assert_allclose(parts.values.sum(axis=1) + parts.baseline, model.predict(X))
    np.testing.assert_allclose(parts.values.mean(axis=0), 0.0, atol=1e-9)
    assert model.intercept_ == pytest.approx(Y.mean())
    assert np.sqrt(np.mean((model.predict(X) - MEAN) ** 2)) < 0.12


@pytest.mark.parametrize("noise", ["normal", "standard_t"])
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_of_predictions_cover_new_rows(noise, coverage):
    random = np.random.default_rng(3)
    x = random.uniform(0, 6, (4000, 2))
    errors = random.normal(size=4000) if noise == "normal" else random.standard_t(3, size=4000)
    y = np.sin(x[:, 0]) + 0.5 * errors
    fitted = kw.AdditiveRegressor().fit(x[:400], y[:400])
    low, high = fitted.predict_interval(x[400:], coverage).T
    assert ((low <= y[400:]) & (y[400:] <= high)).mean() == pytest.approx(coverage, abs=0.05)


def test_better_than_a_ridge_on_the_same_splines():
    train, test = X.iloc[:1000], X.iloc[1000:]
    names = ["wave", "jump", "line", "nothing"]
    additive = kw.AdditiveRegressor().fit(train[names], Y[:1000]).score(test[names], Y[1000:])
    ridge = make_pipeline(kw.make_encoder("BS-Q", size=12), RidgeCV()).fit(train[names], Y[:1000])
    assert additive > ridge.score(test[names], Y[1000:]) + 0.005


@pytest.mark.parametrize("rising", [None, "increasing", "decreasing"])
@pytest.mark.parametrize("bending", [None, "convex", "concave"])
@pytest.mark.parametrize("kind", [kw.AdditiveRegressor, pytest.param(kw.AdditiveClassifier, marks=pytest.mark.slow)])
def test_shapes_hold_whatever_the_data_say(kind, rising, bending):
    given = {
        "monotone": None if rising is None else {"wave": rising},
        "curvature": None if bending is None else {"wave": bending},
    }
    target = Y if kind is kw.AdditiveRegressor else Y.gt(Y.mean())
    effect = effect_of(kind(**given).fit(X[:800], target[:800]), "wave")
    steps = np.diff(effect.effect)
    chosen = np.searchsorted(effect.values, np.linspace(*effect.values[[0, -1]], 40))  # values may be close together
    bends = np.diff(np.diff(effect.effect[chosen]) / np.diff(effect.values[chosen]))
    if rising is not None:
        assert ((1 if rising == "increasing" else -1) * steps >= -1e-9).all()
    if bending is not None:
        assert ((1 if bending == "convex" else -1) * bends >= -1e-9).all()
    if rising is None and bending is None:
        assert (steps < -1e-3).any()
        assert (steps > 1e-3).any()


def test_a_shape_that_is_true_costs_nothing():
    random = np.random.default_rng(1)
    x = np.sort(random.uniform(0, 4, (500, 1)), axis=0)
    y = np.sqrt(x[:, 0]) + 0.1 * random.normal(size=500)
    shaped = kw.AdditiveRegressor(monotone={0: "increasing"}, curvature={0: "concave"}).fit(x, y)
    free = kw.AdditiveRegressor().fit(x, y)
    errors = [np.sqrt(np.mean((each.predict(x) - np.sqrt(x[:, 0])) ** 2)) for each in (shaped, free)]
    assert errors[0] < max(errors[1], 0.02)


def test_pairs():
    target = Y + (X["wave"] - 3.0) * X["line"]
    alone, named, searched = (
        kw.AdditiveRegressor(pairs=pairs).fit(X.iloc[:1500], target[:1500]) for pairs in (0, [("wave", "line")], 1)
    )
    assert named.term_names_[-1] == "wave x line"
    assert set(searched.term_names_[-1].split(" x ")) == {"wave", "line"}
    scores = [each.score(X.iloc[1500:], target[1500:]) for each in (alone, named, searched)]
    assert scores[0] + 0.2 < scores[1] == pytest.approx(scores[2], abs=0.01)
    effect = effect_of(named, ("wave", "line"))
    assert effect.values.shape == (1600, 2)
    corner = np.argmax(effect.values[:, 0] + effect.values[:, 1])
    assert effect.effect[corner] > 3.0
    np.testing.assert_allclose(named.contributions(X).values.sum(axis=1) + named.intercept_, named.predict(X))


def test_pairs_with_categories():
    target = Y + X["line"] * (X["city"] == "Rome")
    fitted = kw.AdditiveRegressor(pairs=1).fit(X, target)
    assert set(fitted.term_names_[-1].split(" x ")) == {"line", "city"}
    assert fitted.score(X, target) > kw.AdditiveRegressor().fit(X, target).score(X, target) + 0.02
    assert isinstance(fitted.plot_effects([("line", "city")] if fitted.terms_[-1].name[0] == "line" else
                                          [("city", "line")]), Figure)  # fmt: skip


def test_two_classes():
    random = np.random.default_rng(1)
    labels = np.where(MEAN.to_numpy() + random.logistic(size=N) > MEAN.mean(), "high", "low")
    fitted = kw.AdditiveClassifier().fit(X.iloc[:1500], labels[:1500])
    assert fitted.classes_.tolist() == ["high", "low"]
    names = ["wave", "jump", "line"]
    linear = LogisticRegression().fit(X[names].iloc[:1500], labels[:1500])
    assert fitted.score(X.iloc[1500:], labels[1500:]) > linear.score(X[names].iloc[1500:], labels[1500:])
    shares = fitted.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares[:, 1], 1 / (1 + np.exp(-fitted.decision_function(X))))
    np.testing.assert_allclose(fitted.contributions(X).values.sum(axis=1) + fitted.intercept_,
                               fitted.decision_function(X))  # fmt: skip
    assert shares[:1500, 1].mean() == pytest.approx((labels[:1500] == "low").mean(), abs=1e-4)


def test_several_classes():
    labels = pd.qcut(Y, 3, labels=["a", "b", "c"]).astype(str)
    fitted = kw.AdditiveClassifier().fit(X, labels)
    sums = fitted.decision_function(X)
    parts = fitted.contributions(X)
    np.testing.assert_allclose(parts.values.sum(axis=1) + parts.baseline, sums)
    np.testing.assert_allclose(fitted.predict_proba(X), np.exp(sums) / np.exp(sums).sum(axis=1, keepdims=True))
    assert fitted.score(X, labels) > 0.85
    assert effect_of(fitted, "wave").effect.shape[1] == 3
    assert isinstance(fitted.plot_effects(), Figure)


def test_separable_classes_have_finite_curves():
    random = np.random.default_rng(1)
    x = random.normal(size=(300, 2))
    fitted = kw.AdditiveClassifier().fit(x, x[:, 0] > 0)
    assert fitted.score(x, x[:, 0] > 0) > 0.99
    assert np.abs(fitted.decision_function(x)).max() < 1e3


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # the constant column
def test_difficult_columns():
    table = X.assign(
        constant=1.0,
        huge=np.where(np.arange(N) == 7, 1e300, X["line"]),
        zeros=np.where(np.arange(N) % 10 == 0, X["line"], 0.0),
        binary=np.arange(N) % 2 == 0,
        missing=X["line"].where(np.arange(N) % 3 > 0),
        twice=2.0 * X["wave"],
        date=pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), unit="h"),
    )
    fitted = kw.AdditiveRegressor(pairs=2).fit(table, Y)
    assert fitted.score(table, Y) > 0.95
    assert len(fitted.feature_importances_) == table.shape[1]
    assert np.isfinite(fitted.predict(table.head(5).assign(wave=[np.nan, 1e300, -1e300, 0.0, 1.0]))).all()
    assert isinstance(fitted.plot_effects([effect.name for effect in fitted.effects()]), Figure)


def test_missing_values_have_their_own_effect():
    random = np.random.default_rng(1)
    table = X[["line"]].where(np.arange(N)[:, None] % 4 > 0)
    target = np.where(table["line"].isna(), 3.0, table["line"]) + 0.1 * random.normal(size=N)
    fitted = kw.AdditiveRegressor().fit(table, target)
    effect = effect_of(fitted, "line")
    assert np.isnan(effect.values[0])
    assert not np.isnan(effect.values[1:]).any()
    assert effect.effect[0] + fitted.intercept_ == pytest.approx(3.0, abs=0.05)
    assert isinstance(fitted.plot_effects(), Figure)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 10])
def test_few_rows(n_rows):
    table = X.head(n_rows)
    assert np.isfinite(kw.AdditiveRegressor(pairs=1).fit(table, Y[:n_rows]).predict(X.head(20))).all()
    shares = kw.AdditiveClassifier().fit(table, np.arange(n_rows) % 3).predict_proba(X.head(20))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_a_wide_table():
    random = np.random.default_rng(1)
    table = random.normal(size=(220, 120))
    target = table[:, 0] + np.sin(2 * table[:, 1])
    fitted = kw.AdditiveRegressor().fit(table[:120], target[:120])
    assert fitted.score(table[120:], target[120:]) > 0.2


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "pyarrow"])
def test_frames_of_other_libraries(convert, model):
    fitted = kw.AdditiveRegressor().fit(convert(X), Y.to_numpy())
    np.testing.assert_allclose(fitted.predict(convert(X[["city", *X.columns[:-1]]])), model.predict(X))


def test_weights_are_repeated_rows():
    random = np.random.default_rng(1)
    counts = random.integers(0, 3, N)
    repeated = np.repeat(np.arange(N), counts)
    weighted = kw.AdditiveRegressor().fit(X, Y, sample_weight=counts)
    expected = kw.AdditiveRegressor().fit(X.iloc[repeated], Y.iloc[repeated])
    np.testing.assert_allclose(weighted.predict(X), expected.predict(X), atol=1e-6)
    np.testing.assert_allclose(weighted.predict_interval(X), expected.predict_interval(X), atol=1e-6)


def test_plots_show_the_most_important_terms(model):
    figure = model.plot_effects()
    assert figure.axes[0].get_title() == "jump"
    assert len(model.plot_effects(["wave", "city"]).axes) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 3}, "size must be an integer of at least 4"),
        ({"monotone": {"wav": "increasing"}}, "monotone must name numerical columns.*Did you mean 'wave'"),
        ({"monotone": {"wave": "up"}}, r"monotone\['wave'\] must be one of 'increasing', 'decreasing'"),
        ({"curvature": "convex"}, "curvature must be a mapping"),
        ({"pairs": [("wave", "wave")]}, "pairs must be a number, or pairs of columns"),
        ({"pairs": [("wave", "town")]}, "pairs must name columns that the model uses"),
        ({"pairs": "wave"}, "pairs must be a number, or pairs of columns"),
        ({"pairs": -1}, "pairs must be an integer of at least 0"),
        ({"pairs": True}, "pairs must be a number, or pairs of columns"),
    ],
)
def test_wrong_parameters(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kw.AdditiveRegressor(**given).fit(X.head(50), Y.head(50))


def test_wrong_calls(model):
    with pytest.raises(ValueError, match="columns must name terms of the model.*Did you mean 'wave'"):
        model.effects(["wav"])
    with pytest.raises(ValueError, match="interval must be a number between 0 and 1"):
        model.effects(interval=1.0)
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        model.predict_interval(X, 90)
    with pytest.raises(ValueError, match="y must have as many values as X has rows, 2000"):
        kw.AdditiveRegressor().fit(X, Y[:10])
    with pytest.raises(ValueError, match="y must have one column"):
        kw.AdditiveRegressor().fit(X, np.stack([Y, Y], axis=1))


OF_PAIRS = [
    "check_dict_unchanged",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
    "check_regressors_train",
]
"""Checks that pairs may matter to; the others are slow for a model with a pair."""


def is_slow(estimator, check):
    return is_repeated(check) or (getattr(estimator, "pairs", 0) == 1 and check.func.__name__ not in OF_PAIRS)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # constant columns of the checks
@parametrize_checks([kw.AdditiveRegressor(), kw.AdditiveClassifier(), kw.AdditiveRegressor(pairs=1)], is_slow)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_a_column_and_its_copy_in_other_units_share_their_effect():
    celsius = np.random.default_rng(0).normal(15.0, 5.0, 300)
    X = np.column_stack([celsius, np.random.default_rng(1).normal(size=300), 1.8 * celsius + 32.0])
    model = kw.AdditiveRegressor().fit(X, np.sin(celsius / 4.0) + 0.3 * X[:, 1])
    parts = model.contributions(X).values
    np.testing.assert_allclose(parts[:, 0], parts[:, 2], atol=1e-8)
    assert np.ptp(parts[:, 0]) > 0.5
    solution = model.solutions_[0]
    np.testing.assert_allclose(solution.smoothing[0], solution.smoothing[2], rtol=1e-12)


def test_a_perfect_fit_does_not_hang_on_the_order_of_the_rows():
    """What is left is 1e-11 of the squares: the difference of two sums of their size has no valid digits."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    y = 1e6 * X[:, 0] + 3.0 * np.sin(3.0 * X[:, 1]) + 0.1 * random.normal(size=300)
    order = random.permutation(300)
    one, other = (kw.AdditiveRegressor().fit(X[rows], y[rows]).solutions_[0] for rows in (np.arange(300), order))
    for mine, theirs in zip(one.smoothing, other.smoothing, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("size", [20, 100])
@pytest.mark.parametrize("seed", [0, 1])
def test_curves_do_not_swing_between_clumped_values(size, seed):
    """Each value of the column has an effect of its own beside a trend; between two values no row says more."""
    random = np.random.default_rng(seed)
    first = random.choice(np.arange(60, 3000, 20), 25, replace=False)
    values = np.unique(np.concatenate([first, first + 1, first + 3, first + 10])).astype(float)
    place = random.integers(len(values), size=1500)
    z = random.normal(size=1500)
    X = np.column_stack([values[place], z])
    y = 1000 * np.log(X[:, 0]) + 500 * random.normal(size=len(values))[place] + 200 * z + 100 * random.normal(size=1500)
    model = kw.AdditiveRegressor(size=size).fit(X, y)
    shares = np.linspace(0.0, 1.0, 9)
    gaps = values[:-1, None] + shares * np.diff(values)[:, None]
    curve = model.predict(np.column_stack([gaps.ravel(), np.zeros(gaps.size)])).reshape(gaps.shape)
    low, high = np.sort(curve[:, [0, -1]], axis=1).T[:, :, None]
    assert (curve >= low - 1e-6).all()
    assert (curve <= high + 1e-6).all()
    is_new = np.isin(place, np.flatnonzero(random.integers(5, size=len(values)) == 0))
    unseen = kw.AdditiveRegressor(size=size).fit(X[~is_new], y[~is_new])
    assert unseen.score(X[is_new], y[is_new]) > 0.3


def test_very_many_columns_have_lines():
    X = np.random.default_rng(0).normal(size=(40, 150))
    model = kw.AdditiveRegressor().fit(X, X[:, 3])
    assert {term.basis.size for term in model.terms_} == {2}
    assert model.score(X, X[:, 3]) > 0.5


def test_a_summary_has_the_most_important_term_first():
    model = kw.AdditiveRegressor().fit(X, Y)
    header, first, *others, last = model.summary().splitlines()
    assert header.split() == ["term", "mean", "effect", "degrees"]
    assert first.split()[0] == model.term_names_[int(np.argmax(model.term_importances_))]
    assert len(others) == len(model.terms_) - 1
    assert float(last.split()[1]) == pytest.approx(model.intercept_, rel=1e-3)


def test_contributions_as_a_frame():
    model = kw.AdditiveRegressor().fit(X, Y)
    frame = model.contributions(X[:7]).to_frame()
    assert list(frame.columns) == model.term_names_
    np.testing.assert_allclose(frame.sum(axis=1) + model.intercept_, model.predict(X[:7]))
    classes = kw.AdditiveClassifier().fit(X, X["city"])
    parts = classes.contributions(X[:7])
    frame = parts.to_frame()
    np.testing.assert_allclose(frame.loc[(3, 2)], parts.values[3, :, 2])
    assert frame.shape == (21, len(classes.terms_))


@pytest.mark.parametrize("missing", [False, True])
def test_lines_of_all_columns_are_a_linear_model(missing):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(500, 3)), columns=list("abc"))
    y = 2 * X["a"] - X["b"] + 0.3 * rng.normal(size=500)
    if missing:
        X.loc[rng.uniform(size=500) < 0.1, "a"] = np.nan
    model = kw.AdditiveRegressor(curvature="linear").fit(X, y)
    known = X.dropna()
    slopes = np.diff(model.predict(pd.DataFrame({"a": [0.2, 0.4, 0.8], "b": 0.5, "c": 0.5}))) / [0.2, 0.4]
    assert slopes[0] == pytest.approx(slopes[1])
    expected = LinearRegression().fit(known, y[known.index])
    np.testing.assert_allclose(model.predict(known), expected.predict(known), atol=0.05)
    assert [term.width for term in model.terms_] == [1 + missing, 1, 1]


def test_a_line_of_one_column_beside_curves():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(size=(500, 2)), columns=list("ab"))
    y = np.sin(6 * X["a"]) + np.sin(6 * X["b"]) + 0.1 * rng.normal(size=500)
    model = kw.AdditiveRegressor(curvature={"a": "linear"}, monotone={"a": "decreasing"}).fit(X, y)
    line, curve = model.effects()
    np.testing.assert_allclose(np.diff(line.effect, 2), 0.0, atol=1e-9)
    assert np.diff(line.effect).max() <= 0.0
    assert np.abs(np.diff(curve.effect, 2)).max() > 1e-4
    rising = kw.AdditiveRegressor(curvature={"a": "linear"}, monotone={"a": "increasing"}).fit(X, y).effects()[0]
    np.testing.assert_allclose(rising.effect, 0.0, atol=1e-6)  # the slope that it may not have
    with pytest.raises(ValueError, match="no columns of monotone or curvature"):
        kw.AdditiveRegressor(curvature="linear", pairs=[("a", "b")]).fit(X, y)
    with pytest.raises(ValueError, match="must be one of 'convex', 'concave', 'linear'"):
        kw.AdditiveRegressor(curvature={"a": "straight"}).fit(X, y)


def test_a_model_keeps_the_name_of_its_target(tmp_path):
    X = pd.DataFrame({"a": np.arange(50.0)})
    model = kw.AdditiveRegressor().fit(X, (X["a"] ** 2).rename("area"))
    model.save(tmp_path / "m")
    assert model.target_name_ == kw.load(tmp_path / "m").target_name_ == "area"
    assert kw.AdditiveRegressor().fit(X, X["a"].to_numpy()).target_name_ is None
