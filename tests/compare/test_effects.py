"""Effects of features: partial dependence in closed form, knots, histograms."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork._preparation.columns import Columns
from knotwork.compare._effects import MODEL_KNOTS, feature_effects, ordered_categories
from knotwork.compare._figures import effect_picture
from knotwork.compare._inputs import read_source
from knotwork.errors import ColumnWarning
from knotwork.estimators import EFFECTS
from tests.compare.cases import MESSY, shorten, write_flats


class Known:
    """A model in closed form: 3 a + b**2, and 10 more for the category u."""

    task = SimpleNamespace(name="regression")
    response_names = ("",)

    def __init__(self, source):
        self.columns = source.read.columns
        self.importances = np.array([1.0, 3.0, 2.0])
        self.knots = [{"a": np.empty(0), "b": np.empty(0)}, {"a": np.array([0.5]), "b": np.empty(0)}]

    def responses(self, table):
        u = 1 + self.columns[2].categories.index("u")
        return self.predict(*table.numbers.T, table.codes[:, 0] == u)[:, None]

    def predict(self, a, b, is_u):
        return 3 * a + b**2 + 10 * is_u


@pytest.fixture
def known(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(size=500), "b": rng.normal(size=500), "c": ["u", "v", "v", "w"] * 125})
    frame["y"] = rng.normal(size=500)
    frame.to_parquet(tmp_path / "t.parquet")
    return read_source(tmp_path / "t.parquet", "y")


def test_partial_dependence_is_the_mean_over_rows(known):
    effects = list(feature_effects(Known(known), known, size=9))
    assert [each.name for each in effects] == ["b", "c", "a"]
    b, c, a = effects
    slope = np.diff(a.curves[""]) / np.diff(a.values)
    np.testing.assert_allclose(slope, 3.0)
    np.testing.assert_allclose(b.curves[""] - b.curves[""][0], b.values**2 - b.values[0] ** 2)
    assert c.values.tolist()[0] == "v"
    assert c.counts.tolist() == [250, 125, 125]
    by_label = dict(zip(c.values, c.curves[""], strict=True))
    assert by_label["u"] - by_label["v"] == pytest.approx(10.0)
    assert by_label["v"] == pytest.approx(by_label["w"])
    assert EFFECTS.n_rows < 500  # so that the rows are a sample


def test_knots_of_every_placement_and_of_the_model(known):
    effects = {each.name: each for each in feature_effects(Known(known), known, size=9)}
    a = effects["a"]
    assert set(a.knots) == {"uniform", "quantile", "CART", "LightGBM", MODEL_KNOTS}
    values = known.features["a"].to_numpy()
    for name, placement in (("uniform", "uniform"), ("quantile", "quantile")):
        expected = kw.SplineEncoder(size=9, placement=placement).fit(values[:, None]).knots_[0]
        np.testing.assert_allclose(a.knots[name], expected)
    assert a.knots[MODEL_KNOTS].tolist() == [0.5]
    assert MODEL_KNOTS not in effects["b"].knots
    assert effects["c"].knots == {}
    inside = (values >= a.edges[0]) & (values <= a.edges[-1])
    assert a.counts.sum() == inside.sum()


def test_knots_are_placed_where_a_model_would_place_them_beside_a_value_far_out(known):
    features = known.features.copy()
    features.loc[3, "a"] = -1e12
    known = replace(known, features=features, read=Columns.learn(features))
    effects = {each.name: each for each in feature_effects(Known(known), known, size=9)}
    for knots in effects["a"].knots.values():
        assert ((knots > 0.0) & (knots < 1.0)).all()


def test_a_deadline_and_a_number_end_it(known):
    model = Known(known)
    assert len(list(feature_effects(model, known, size=9, deadline=0.0))) == 1
    assert len(list(feature_effects(model, known, size=9, most=2))) == 2


@pytest.mark.parametrize(
    ("target", "ensemble"),
    [
        ("rent", True),
        ("cheap", False),
        pytest.param("rent", False, marks=pytest.mark.slow),  # either value is in a case above
        pytest.param("cheap", True, marks=pytest.mark.slow),
    ],
)
def test_every_column_of_a_messy_table_is_drawn(tmp_path, monkeypatch, target, ensemble):
    shorten(monkeypatch)
    source = read_source(write_flats(tmp_path, target=target), target)
    kind = kw.TabularRegressor if target == "rent" else kw.TabularClassifier
    settings = (
        {"effort": "balanced"} if ensemble else {"encoding": "BS-Q@7", "training": kw.TrainingConfig(max_epochs=1)}
    )
    model = kind(**settings, random_state=0, device="cpu")
    with pytest.warns(ColumnWarning):
        model.fit(source.features, source.labels)
    effects = list(feature_effects(model._model, source, size=7))
    assert {each.name for each in effects} == set(MESSY) - {"constant", "empty", "listing"}
    for place, each in enumerate(effects):
        picture = effect_picture(each, place, target=target, limits=(0.0, 1.0), has_classes=target == "cheap")
        drawn = picture.figure.findobj(lambda artist: artist.get_gid() == "curve")
        assert len(drawn) == 1
        assert each.name in picture.label
    missing = {each.name: each.missing for each in effects}
    assert missing["area"] == 0.0
    built = next(each for each in effects if each.name == "built")
    assert np.datetime64("1990") < built.values[0] < built.values[-1] < np.datetime64("2016")
    assert missing["rooms"] == pytest.approx(source.features["rooms"].isna().mean())


def test_knots_of_an_ordered_table_are_those_of_all_rows(tmp_path):
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(1, 366), 40)  # 14,600 rows, in order
    frame = pd.DataFrame({"a": day, "b": rng.normal(size=len(day)), "c": ["u", "v"] * (len(day) // 2)})
    frame["y"] = np.sin(day / 30) + rng.normal(scale=0.1, size=len(day))
    frame.to_parquet(tmp_path / "t.parquet")
    source = read_source(tmp_path / "t.parquet", "y")
    effects = {each.name: each for each in feature_effects(Known(source), source, size=9)}
    column, target = day[:, None].astype(float), frame["y"].to_numpy()
    for name in ("uniform", "quantile", "cart", "lgbm"):
        encoder = kw.SplineEncoder(size=9, placement=name, task="regression").fit(column, target)
        label = {"cart": "CART", "lgbm": "LightGBM"}.get(name, name)
        np.testing.assert_allclose(effects["a"].knots[label], encoder.knots_[0])
    # Whole numbers have bins of the same number of values: the distribution is even, and looks so.
    assert len(set(effects["a"].counts[1:-1].tolist())) == 1
    # Single rows are of the whole year: their order has nothing to do with that of the table.
    assert len(effects["b"].lines) > 20


def test_few_values_are_counted_one_by_one(tmp_path):
    frame = pd.DataFrame({"a": np.tile(np.arange(24), 10), "b": np.tile([0, 1, 1, 1], 60), "c": ["u", "v"] * 120})
    frame["y"] = np.arange(240.0)
    frame.to_parquet(tmp_path / "t.parquet")
    source = read_source(tmp_path / "t.parquet", "y")
    effects = {each.name: each for each in feature_effects(Known(source), source, size=9)}
    assert effects["a"].counts.tolist() == [10] * 24
    assert effects["a"].edges is None
    assert effects["b"].values.tolist() == [0.0, 1.0]
    assert effects["b"].counts.tolist() == [60, 180]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["May", "april", "January"], ["January", "april", "May"]),
        (["Sun", "Mon"], ["Mon", "Sun"]),
        (["10-20", "5-9", "100+"], ["5-9", "10-20", "100+"]),
        (["v", "u", "w"], ["v", "u", "w"]),  # as given: the most frequent first
        ([True, False], [True, False]),
    ],
)
def test_categories_have_their_order(values, expected):
    assert ordered_categories(pd.Series(values), values).tolist() == expected


def test_an_ordered_column_keeps_its_order():
    column = pd.Series(pd.Categorical(["high", "low", "mid"], ["low", "mid", "high"], ordered=True))
    assert ordered_categories(column, ["mid", "high", "low"]).tolist() == ["low", "mid", "high"]


class Product(Known):
    """A model in closed form whose features have no effect on their own: a times b."""

    def predict(self, a, b, is_u):
        return a * b


def test_a_flat_curve_has_the_feature_that_explains_its_lines(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=500), "b": rng.normal(size=500), "c": ["u", "v"] * 250})
    frame["y"] = frame["a"] * frame["b"]
    frame.to_parquet(tmp_path / "t.parquet")
    source = read_source(tmp_path / "t.parquet", "y")
    effects = {each.name: each for each in feature_effects(Product(source), source, size=9)}
    pair = effects["b"].pair
    assert pair.other_name == "a"
    np.testing.assert_allclose(pair.surface, np.outer(pair.others, pair.values))
    assert np.ptp(effects["b"].lines, axis=1).max() > 1
    assert effects["c"].pair is None  # it has no effect at all
    additive = {each.name: each for each in feature_effects(Known(source), source, size=9)}
    assert all(each.pair is None for each in additive.values())
