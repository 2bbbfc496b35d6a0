"""What users of other libraries have asked for or complained of, each as a test of this one."""

import socket
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import knotwork as kw

RANDOM = np.random.default_rng(0)
N = 240
X = pd.DataFrame(
    {
        "a": RANDOM.normal(size=N),
        "b": RANDOM.uniform(size=N),
        "city": RANDOM.choice(["Oslo", "Rome", "Lima"], N),
    }
)
Y = np.sin(3 * X["a"]) + X["b"] + (X["city"] == "Rome")
NETWORK = {"training": kw.TrainingConfig(max_epochs=3), "random_state": 0, "device": "cpu"}
MODELS = {
    "network": lambda: kw.TabularRegressor("BS-Q@7", **NETWORK),
    "trees": lambda: kw.TabularRegressor(members="trees", effort="fast", random_state=0, device="cpu"),
    "additive": kw.AdditiveRegressor,
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]().fit(X, Y)


def test_values_may_be_missing_at_predict_only(model):
    gaps = X.assign(a=np.nan, city=None)
    assert np.isfinite(model.predict(gaps)).all()
    np.testing.assert_array_equal(model.predict(gaps.assign(a=X["a"], city=X["city"])), model.predict(X))


def test_a_category_may_be_new(model):
    new = model.predict(X.assign(city="Quito"))
    assert np.isfinite(new).all()
    np.testing.assert_array_equal(new, model.predict(X.assign(city=None)))


def test_a_prediction_depends_on_its_row_alone(model):
    """Sums of a batch may be formed in another order."""
    together, order = model.predict(X), RANDOM.permutation(N)
    spread = 1e-5 * together.std()
    np.testing.assert_allclose(model.predict(X.iloc[order]), together[order], rtol=0, atol=spread)
    alone = np.concatenate([model.predict(X.iloc[place : place + 1]) for place in range(0, N, 24)])
    np.testing.assert_allclose(alone, together[::24], rtol=0, atol=spread)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", [0.0, 3.25])
def test_a_constant_target_is_predicted(name, target):
    np.testing.assert_allclose(MODELS[name]().fit(X, np.full(N, target)).predict(X), target, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_columns_may_be_constant_or_empty(name):
    table = X[["a"]].assign(same=7.0, empty=np.nan, word="x", nothing=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are ignored, with a warning for each
        fitted = MODELS[name]().fit(table, Y)
    assert np.isfinite(fitted.predict(table.assign(same=-1e300, empty=2.0, word="y", nothing="z"))).all()
    assert fitted.predict(table).std() > 0.0


@pytest.mark.parametrize("name", MODELS)
def test_nothing_but_such_columns(name):
    table = pd.DataFrame({"same": np.full(N, 7.0), "empty": np.full(N, np.nan)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        predictions = MODELS[name]().fit(table, Y).predict(table)
    np.testing.assert_allclose(predictions, predictions[0], rtol=1e-12)
    assert abs(predictions[0] - Y.mean()) < 0.5 * Y.std()


@pytest.mark.parametrize("name", MODELS)
def test_no_socket_is_opened(name, monkeypatch, tmp_path):
    def refuse(*given, **named):
        raise AssertionError("a socket is opened")

    for each in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, each, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    fitted = MODELS[name]().fit(X, Y)
    fitted.save(tmp_path / "model.knotwork")
    again = kw.load(tmp_path / "model.knotwork", **({} if name == "additive" else {"device": "cpu"}))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    fitted.plot_effects(*([] if name == "additive" else [X]))


@pytest.mark.parametrize("name", MODELS)
def test_the_size_of_a_file_is_that_of_its_numbers(name, tmp_path):
    """Four times the rows may not make it four times as large: it has none of them."""
    sizes = []
    for copies in (1, 4):
        rows = pd.concat([X] * copies, ignore_index=True)
        noise = 1e-3 * RANDOM.normal(size=len(rows))
        table = rows.assign(a=rows["a"] + noise, b=rows["b"] - noise)
        MODELS[name]().fit(table, np.tile(Y, copies)).save(tmp_path / "model.knotwork")
        sizes.append((tmp_path / "model.knotwork").stat().st_size)
    assert max(sizes) < 30_000_000
    if name == "network":  # of more rows trees are deeper, and curves have more functions
        assert sizes[1] < 1.5 * sizes[0]


def test_the_device_is_chosen_when_a_model_is_loaded(tmp_path):
    MODELS["network"]().fit(X, Y).save(tmp_path / "model.knotwork")
    again = kw.load(tmp_path / "model.knotwork", device="cpu")
    assert again.device == "cpu"
    assert {piece.shift.device.type for piece in again.trained_.pieces} == {"cpu"}


@pytest.mark.parametrize("method", ["IS-Q", "IS-U", "IS-CART", "PLE", "PLE-Adaptive", "Std", "MinMax"])
@pytest.mark.parametrize("missing", ["zeros", "indicator"])
def test_what_rises_can_be_inverted(method, missing):
    """scikit-learn issue 28551."""
    numbers = X[["a", "b"]].assign(a=1e6 + 1e3 * X["a"])
    sizes = {} if method in ("Std", "MinMax", "PLE-Adaptive") else {"size": 9}
    options = {} if method in ("Std", "MinMax") else {"missing": missing}
    encoder = kw.make_encoder(method, dtype=np.float64, **sizes, **options).fit(numbers, Y)
    np.testing.assert_allclose(encoder.inverse_transform(encoder.transform(numbers)), numbers, rtol=1e-9, atol=1e-9)
    if options:
        gap = encoder.inverse_transform(encoder.transform(numbers[:1].assign(b=np.nan)))[0, 1]
        expected = np.nan if missing == "indicator" else numbers["b"].min()
        np.testing.assert_allclose(gap, expected, atol=1e-9)


def test_other_functions_cannot_be_inverted():
    encoder = kw.make_encoder("BS-Q", size=7).fit(X[["a", "b"]])
    with pytest.raises(AttributeError) as caught:
        encoder.inverse_transform(encoder.transform(X[["a", "b"]]))
    assert "have rising functions of column 'a'" in str(caught.value.__cause__)
    encoder = kw.make_encoder("IS-Q", size=7).fit(X[["a", "b"]])
    with pytest.raises(ValueError, match=r"have the shape \(n, 14\)"):
        encoder.inverse_transform(np.zeros((3, 4)))


def test_a_penalty_of_differences_in_a_pipeline():
    """scikit-learn issue 20760: curves are as smooth as the rows say, in a pipeline and in a search."""
    random = np.random.default_rng(3)
    numbers = random.uniform(size=(400, 2))
    y = np.sin(7 * numbers[:, 0]) + 0.4 * random.normal(size=400)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), kw.AdditiveRegressor())
    search = GridSearchCV(pipeline, {"additiveregressor__size": [8, 60]}, cv=3).fit(numbers, y)
    grid = random.uniform(size=(500, 2))
    error = search.predict(grid) - np.sin(7 * grid[:, 0])
    assert np.sqrt(np.mean(error**2)) < 0.12
    wave, nothing = search.best_estimator_[-1].effects()
    assert nothing.degrees < 1.5
    assert 3.0 < wave.degrees < 20.0
