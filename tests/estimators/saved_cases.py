"""Small estimators to save, and files that are edited by hand."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.torch import save_file

from knotwork import ColumnConfig, TabularClassifier, TabularRegressor, TrainingConfig
from knotwork._model_files import checksum
from knotwork.encoders import Encoding
from knotwork.estimators._plans import FitPlan, Recipe
from knotwork.nn._backbones import FTTransformerConfig, MLPConfig, RealMLPConfig, ResNetConfig, TabMConfig

BACKBONES = {
    "mlp": MLPConfig(widths=(8, 4)),
    "resnet": ResNetConfig(width=8, n_blocks=2, hidden=6),
    "tabm": TabMConfig(widths=(8, 4), n_predictions=3),
    "realmlp": RealMLPConfig(widths=(8, 4)),
    "ft": FTTransformerConfig(d_token=8, n_heads=2, n_blocks=2),
    "coordinate": FTTransformerConfig(tokens="coordinate", d_token=8, n_heads=2, n_blocks=1),
}
SHORT = TrainingConfig(max_epochs=2)
CODED = ColumnConfig(categorical=["code"])


def table(n=240, seed=0):
    """Numbers, one column of which has missing values and one a single value, text, codes and booleans."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 20.0, n),
            "income": np.exp(rng.normal(8.0, 2.0, n)),
            "flat": np.full(n, 3.0),
            "town": rng.choice(["Ulm", "Bonn", "Köln"], n),
            "code": rng.integers(0, 4, n),
            "owns": rng.random(n) < 0.5,
        }
    )
    X.loc[rng.random(n) < 0.1, "age"] = np.nan
    X.loc[rng.random(n) < 0.1, "town"] = None
    return X


def target(X, kind="number"):
    y = 100.0 * np.sin(X["age"].fillna(0.0) / 10.0) + 30.0 * X["code"] + 7.0
    if kind == "number":
        return y.to_numpy()
    codes = np.searchsorted([0.0, 60.0], y.to_numpy())
    return {"text": np.array(["low", "mid", "high"], dtype=object), "int": np.array([-1, 4, 9])}[kind][codes]


def fitted(encoding="BS-Q@6", backbone="mlp", *, kind="number", n_members=1, **settings):
    X = table()
    estimator = TabularRegressor if kind == "number" else TabularClassifier
    model = estimator(
        encoding,
        BACKBONES[backbone],
        n_members=n_members,
        **{"columns": CODED, "training": SHORT, "device": "cpu", "random_state": 3, **settings},
    )
    return model.fit(X, target(X, kind))


def uneven_weights(rows, seed=0):
    """Return weights of four values, so that members of every size are kept, instead of the best ones."""
    weights = np.arange(1, len(rows.predictions) + 1) % 4
    return weights / weights.sum()


OF_ONE_SIZE = ["Std", "BS-Q@6", "PLE@6", "IS-Q@6", "BS-U@6", "IS-CART@6", "BS-Grad-U@6"]


def mixed(monkeypatch, backbone, **settings):
    """Return an ensemble of eight of ten encodings, one of them with learned knots, of different weights.

    With a token for each coordinate, of six of those of one size.
    """
    monkeypatch.setattr("knotwork.estimators._combination.bagged_weights", uneven_weights)
    encoding = OF_ONE_SIZE if backbone == "coordinate" else "auto"
    return fitted(encoding, backbone, search="ensemble", **settings)


RECIPES = {
    "mlp": ("BS-Q@6", {}),
    "tabm": ("PLE@4", {"schedule": "cosine", "learning_rate": 3e-3}),
    "resnet": ("IS-Grad-U@5", {"batch_size": 32}),
    "realmlp": ("PBLD@4", {"schedule": "cycles", "patience": None, "weight_average": 0.5}),
    "ft": ("Std", {"max_epochs": 1}),
}
"""Encoding and settings of training for each backbone, for a model with all of them."""


def plan_of_all_backbones(effort, data, **_):
    """Return a plan with a recipe for each of `RECIPES` on two folds."""
    recipes = [
        Recipe((Encoding.parse(spec),) * data.numbers.shape[1], BACKBONES[name], replace(SHORT, **settings))
        for name, (spec, settings) in RECIPES.items()
    ]
    return FitPlan(recipes, "ensemble", n_folds=2)


def of_trees_and_networks(kind="number", **settings):
    """Return a model with boosted trees and networks."""
    X = table()
    estimator = TabularRegressor if kind == "number" else TabularClassifier
    settings = {"effort": "fast", "columns": CODED, "device": "cpu", "random_state": 3, **settings}
    return estimator(**settings).fit(X, target(X, kind))


def of_all_backbones(monkeypatch, kind="number", weights=uneven_weights, **settings):
    """Return a model with networks of four of five backbones, encodings and settings of training, on two folds."""
    monkeypatch.setattr("knotwork.estimators._settings.plan_effort", plan_of_all_backbones)
    monkeypatch.setattr("knotwork.estimators._combination.bagged_weights", weights)
    X = table()
    estimator = TabularRegressor if kind == "number" else TabularClassifier
    model = estimator(columns=CODED, device="cpu", random_state=3, **settings)
    return model.fit(X, target(X, kind))


def read_file(path):
    with safe_open(path, framework="pt") as file:
        return json.loads(file.metadata()["knotwork"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def sealed(text):
    """Return the metadata of a model file."""
    return {"knotwork": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def write_file(path, content, tensors):
    """Write a file with a valid checksum, as an attacker who knows the format would."""
    if isinstance(content, dict) and "checksum" in content:
        content["checksum"] = checksum(tensors, lambda name: tensors[name].contiguous().numpy())
    text = content if isinstance(content, str) else json.dumps(content)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, sealed(text))
