"""Uses layers and estimators with nothing but the core and the extra `torch`."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

import knotwork as kw
from knotwork.errors import MissingPackageError

ABSENT = ("pandas", "pyarrow", "matplotlib", "jinja2", "typer", "rich", "onnx", "ray")
SHORT = kw.TrainingConfig(max_epochs=2)


def message(action):
    """Return the text of the error for a package that is not installed."""
    try:
        action()
    except MissingPackageError as error:
        return str(error)
    raise AssertionError("no MissingPackageError")


def use_regressor(X, folder):
    y = X[:, 0] ** 2
    model = kw.TabularRegressor("BS-Q@7", training=SHORT, random_state=0).fit(X, y)
    model.save(folder / "model.knotwork")
    np.testing.assert_array_equal(kw.load(folder / "model.knotwork").predict(X), model.predict(X))
    export = model.export_onnx
    assert message(lambda: model.fit(X, y, verbose=True)) == 'verbose=True needs rich: pip install "knotwork[study]"'
    assert message(lambda: export(folder / "model.onnx")) == 'export_onnx needs onnx: pip install "knotwork[onnx]"'


def use_classifier(X):
    table = np.empty((len(X), 3), dtype=object)  # numbers, text and missing values
    table[:, :2] = X
    table[:, 2] = np.resize(np.array(["Ulm", "Bonn", None], dtype=object), len(X))
    table[0, 0] = None
    labels = np.where(X[:, 1] > 0, "yes", "no")
    model = kw.TabularClassifier("PLE@7", training=SHORT, random_state=0).fit(table, labels)
    assert set(model.predict(table)) <= {"yes", "no"}
    np.testing.assert_allclose(model.predict_proba(table).sum(axis=1), 1, atol=1e-6)


def main(folder):
    assert [name for name in ABSENT if find_spec(name)] == [], "this script is for installations with [torch] only"
    X = np.random.default_rng(0).normal(size=(200, 2))
    use_regressor(X, folder)
    use_classifier(X)
    assert kw.nn.SplineEncoding(2, 7)(torch.rand(5, 2)).shape == (5, 2, 7)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    print("Estimators work with torch alone.")
