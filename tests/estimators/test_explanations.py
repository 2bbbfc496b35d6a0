"""Explanations of fitted estimators on a frame with numbers, text, dates and missing values."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.inspection import partial_dependence, permutation_importance

import knotwork as kw

pytestmark = [
    pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning"),  # the constant column
    pytest.mark.xdist_group("explanations"),  # one process fits the models that tests share
]

RANDOM = np.random.default_rng(0)
N = 400
X = pd.DataFrame(
    {
        "age": RANDOM.uniform(20, 80, N),
        "<city>$x$": RANDOM.choice(["Oslo", "Bergen", "Rome"], N),
        "flag": RANDOM.random(N) > 0.5,
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RANDOM.integers(0, 600, N), unit="D"),
        "constant": 1.0,
    }
)
X.loc[::9, "age"] = np.nan
Y = 3.0 * (X["<city>$x$"] == "Oslo") + 0.05 * X["age"].fillna(50)
QUICK = kw.TrainingConfig(max_epochs=60, patience=60, learning_rate=5e-3)


@pytest.fixture(scope="module")
def regressor():
    return kw.TabularRegressor("PLE@8", training=QUICK, random_state=0, device="cpu").fit(X, Y)


@pytest.fixture(scope="module")
def classifiers():
    labels = {2: np.where(Y.gt(Y.median()), "high", "low"), 3: pd.qcut(Y, 3, labels=["a", "b", "c"]).astype(str)}
    kinds = {n: kw.TabularClassifier("PLE@8", training=QUICK, random_state=0, device="cpu") for n in labels}
    return {n: kinds[n].fit(X, labels[n]) for n in labels}


def test_effects_are_means_of_predictions_with_the_value_set(regressor):
    effect = next(each for each in regressor.effects(X.iloc[:150]) if each.name == "<city>$x$")
    assert set(effect.values) == {"Oslo", "Bergen", "Rome"}
    for value, mean in zip(effect.values, effect.mean[:, 0], strict=True):
        expected = regressor.predict(X.iloc[:150].assign(**{"<city>$x$": value})).mean()
        assert mean == pytest.approx(expected, rel=1e-5)
    by_city = dict(zip(effect.values, effect.mean[:, 0], strict=True))
    assert by_city["Oslo"] - by_city["Rome"] == pytest.approx(3.0, abs=0.5)
    np.testing.assert_allclose(effect.lines.mean(axis=0), effect.mean)


def test_effects_of_numbers_dates_and_chosen_columns(regressor):
    names = [effect.name for effect in regressor.effects(X)]
    assert names == ["age", "<city>$x$", "flag", "day"]  # a constant column is not used
    age, day = regressor.effects(X, ["age", "day"], n_points=12)
    assert len(age.values) <= 12
    assert (np.diff(age.values) > 0).all()
    assert (np.diff(day.values) > 0).all()
    assert age.mean[-1, 0] - age.mean[0, 0] == pytest.approx(0.05 * (age.values[-1] - age.values[0]), abs=0.6)
    with pytest.raises(ValueError, match="columns must name columns that the model uses.*Did you mean 'age'"):
        regressor.effects(X, ["Age"])


@pytest.mark.parametrize("n_permutations", [1, 5])
def test_contributions_add_up_to_predictions(regressor, n_permutations):
    result = regressor.contributions(X.iloc[:20], n_permutations=n_permutations)
    assert result.names == ["age", "<city>$x$", "flag", "day"]
    np.testing.assert_allclose(
        result.baseline + result.values.sum(axis=1), regressor.predict(X.iloc[:20]), rtol=1e-6, atol=1e-6
    )


def test_contributions_of_classes(classifiers):
    two, three = (classifiers[n].contributions(X.iloc[:10], X.iloc[50:90], n_permutations=4) for n in (2, 3))
    np.testing.assert_allclose(
        two.baseline + two.values.sum(axis=1), classifiers[2].predict_proba(X[:10])[:, 1], atol=1e-6
    )
    np.testing.assert_allclose(
        three.baseline + three.values.sum(axis=1), classifiers[3].predict_proba(X[:10]), atol=1e-6
    )


def test_the_strongest_contribution_is_that_of_the_cause(regressor):
    oslo = X[X["<city>$x$"] == "Oslo"].iloc[:20]
    result = regressor.contributions(oslo, X[X["<city>$x$"] == "Rome"], n_permutations=8)
    means = dict(zip(result.names, result.values.mean(axis=0), strict=True))
    assert means["<city>$x$"] == pytest.approx(3.0, abs=0.5)
    assert abs(means["flag"]) < 0.4


def test_contributions_of_a_loaded_model_need_a_background(regressor, tmp_path):
    regressor.save(tmp_path / "model.knotwork")
    loaded = kw.load(tmp_path / "model.knotwork", device="cpu")
    with pytest.raises(ValueError, match="background must be given.*pass rows of the training table"):
        loaded.contributions(X.iloc[:5])
    expected = regressor.contributions(X.iloc[:5], X.iloc[:50], n_permutations=2)
    np.testing.assert_allclose(
        loaded.contributions(X.iloc[:5], X.iloc[:50], n_permutations=2).values, expected.values, atol=1e-5
    )


def test_a_function_of_numbers(regressor, classifiers):
    explained = regressor.as_function(X.iloc[:30])
    assert explained.matrix.shape == (30, len(explained.names))
    np.testing.assert_allclose(explained.function(explained.matrix), regressor.predict(X.iloc[:30]), rtol=1e-6)
    halves = explained.matrix.copy()
    halves[:, -1] += 0.3  # between two codes
    np.testing.assert_allclose(explained.function(halves), regressor.predict(X.iloc[:30]), rtol=1e-6)
    shares = classifiers[3].as_function(X.iloc[:30])
    np.testing.assert_allclose(shares.function(shares.matrix), classifiers[3].predict_proba(X.iloc[:30]), atol=1e-6)


def test_tools_of_scikit_learn(regressor):
    importances = permutation_importance(regressor, X, Y, n_repeats=2, random_state=0)["importances_mean"]
    assert importances[1] == importances.max()
    average = partial_dependence(regressor, X, ["<city>$x$"], categorical_features=["<city>$x$"])["average"]
    assert average.shape == (1, 3)


def test_plots_and_pictures(regressor, classifiers, tmp_path):
    for place, model in enumerate((regressor, classifiers[2], classifiers[3])):
        figures = [model.plot_effects(X), model.plot_history()]
        for which, figure in enumerate(figures):
            assert isinstance(figure, Figure)
            figure.savefig(tmp_path / f"{place}{which}.png")
        html = model._repr_mimebundle_()["text/html"]
        drawn = ElementTree.fromstring(html[: html.index("<style>")])
        assert len(list(drawn.iter("svg"))) == 1 + len(model.columns_.seen)  # errors, and an effect of each column
    titles = [axis.get_title() for axis in regressor.plot_effects(X, ["<city>$x$"]).axes]
    assert titles == ["<city>$x$"]
    assert "<svg role" not in kw.TabularRegressor()._repr_html_()


def test_effects_share_one_scale_and_curves_have_a_legend(regressor):
    axes = regressor.plot_effects(X).axes
    assert len({axis.get_ylim() for axis in axes}) == 1
    assert axes[0].get_ylabel().startswith("mean ")
    assert all(len(line) <= 44 for axis in axes for line in axis.get_title().splitlines())
    texts = [text.get_text() for text in regressor.plot_history().axes[1].get_legend().get_texts()]
    assert texts[-1] == "weights that are kept"
    assert texts[0].startswith("member 1, weight ")
    assert len(texts) == 1 + len(regressor.weights_)


def test_several_outputs_have_names():
    short = kw.TrainingConfig(max_epochs=5)
    several = kw.TabularRegressor("PLE@6", training=short, random_state=0, device="cpu").fit(
        X, np.stack([Y, -Y], axis=1)
    )
    (effect,) = several.effects(X, ["age"])
    assert effect.outputs == ["target 1", "target 2"]
    assert effect.mean.shape[1] == 2
    result = several.contributions(X.iloc[:4], n_permutations=2)
    np.testing.assert_allclose(result.baseline + result.values.sum(axis=1), several.predict(X.iloc[:4]), atol=1e-5)
