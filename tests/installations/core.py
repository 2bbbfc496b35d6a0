"""Uses what `pip install knotwork` has to offer, where no extra is installed."""

import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline

import knotwork as kw
from knotwork.encoders import METHOD_TABLE
from knotwork.errors import MissingPackageError

ABSENT = (
    "torch",
    "lightgbm",
    "pandas",
    "pyarrow",
    "matplotlib",
    "jinja2",
    "typer",
    "rich",
    "onnx",
    "ray",
)
NEEDS = {"torch": ("ColumnConfig", "LogLoss", "TabularClassifier", "TabularRegressor", "TrainingConfig",
                   "ValidationConfig", "nn", "training"),
         "study": ("compare", "datasets", "report", "study")}  # fmt: skip


def message(action):
    """Return the text of the error for a package that is not installed."""
    try:
        action()
    except MissingPackageError as error:
        return str(error)
    raise AssertionError("no MissingPackageError")


def use_transformers(X, y):
    for method in kw.METHODS:
        if not method.endswith("LGBM") and METHOD_TABLE[method].start is None:
            scores = make_pipeline(kw.make_encoder(method, size=7), RidgeCV()).fit(X, y).predict(X)
            assert scores.shape == (len(X),)
            assert np.isfinite(scores).all(), method
    whole = kw.make_encoder("IS-Q", size=7).fit(X).transform(X)
    batches = kw.make_encoder("IS-Q", size=7).fit(iter(np.array_split(X, 4))).transform(X)
    np.testing.assert_allclose(whole, batches, atol=1e-6)
    labels = np.where(y > 0, "high", "low").astype(object)
    assert kw.make_encoder("BS-CART", size=7).fit_transform(X, labels).shape == (len(X), 14)


def use_additive_models(X, y):
    model = kw.AdditiveRegressor(monotone={1: "increasing"}).fit(X, y)
    assert model.score(X, y) > 0.95
    assert kw.AdditiveClassifier(pairs=1).fit(X, y > 0).score(X, y > 0) > 0.95
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.knotwork")
        np.testing.assert_array_equal(kw.load(Path(folder) / "model.knotwork").predict(X), model.predict(X))
    assert "needs matplotlib" in message(model.plot_effects)


def use_saved_model(folder):
    """Predict with networks and boosted trees that `make_model.py` trained and saved where torch is installed."""
    saved = np.load(folder / "predictions.npz", allow_pickle=False)
    model = kw.load(folder / "model.knotwork")
    X = [[None if cell == "" else float(cell) if place < 2 else cell for place, cell in enumerate(row)]
         for row in saved["cells"].tolist()]  # fmt: skip
    X = np.array(X, dtype=object)
    np.testing.assert_allclose(model.predict(X), saved["predictions"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(model.predict_interval(X, 0.8), saved["intervals"], rtol=1e-5, atol=1e-5)
    assert "torch" not in sys.modules


def check_errors(X, y):
    for extra, names in NEEDS.items():
        for name in names:
            text = message(lambda name=name: getattr(kw, name))
            assert text.startswith(f"knotwork.{name} needs "), text
            assert text.endswith(f': pip install "knotwork[{extra}]"'), text
    assert (
        message(lambda: kw.TabularRegressor) == 'knotwork.TabularRegressor needs torch: pip install "knotwork[torch]"'
    )
    for name in ("compare", "datasets", "estimators", "nn", "report", "study", "training"):
        assert message(lambda name=name: __import__(f"knotwork.{name}")).startswith(f"knotwork.{name} needs ")
    lightgbm = message(lambda: kw.make_encoder("BS-LGBM", size=7).fit(X, y))
    assert lightgbm.startswith("placement='lgbm' needs lightgbm: pip install \"knotwork[lightgbm]\".")


def main(folder):
    assert [name for name in ABSENT if find_spec(name)] == [], "this script is for installations without extras"
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 2))
    y = X[:, 0] ** 2 - 0.5
    use_transformers(X, y)
    use_additive_models(X, y)
    use_saved_model(folder)
    check_errors(X, y)
    assert kw.basis.evaluate("ispline", [0.5], knots=[0.3, 0.6]).shape == (1, 6)
    assert kw.stats.friedman(random.normal(loc=[0, 1, 2, 3], size=(20, 4))).p_F < 0.01
    assert kw.recommend(task="regression").method in kw.METHODS
    assert "torch, which is not installed" in kw.explore(X, y).html
    names = {}
    exec("from knotwork import *", names)
    assert {"SplineEncoder", "stats", "recommend"} <= set(names)
    assert "nn" not in names
    assert {"nn", "TabularRegressor"} <= set(dir(kw))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("The core works without extras.")
