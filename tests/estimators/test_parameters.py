"""Parameters by name: those of configurations in a grid search, and hints for names that are not quite right."""

import inspect
import pickle
from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import knotwork as kw
from knotwork.errors import ArgumentTypeError
from knotwork.estimators._parameters import AT_FIT, OTHER_NAMES
from knotwork.nn import BACKBONES, MLPConfig, RealMLPConfig, TabMConfig

X = np.random.default_rng(0).normal(size=(60, 2))
y = X[:, 0] + X[:, 1] ** 2
SMALL = {
    "encoding": "BS-U",
    "backbone": MLPConfig(widths=(4,)),
    "training": kw.TrainingConfig(max_epochs=2, batch_size=32),
    "device": "cpu",
    "random_state": 0,
}
KINDS = [kw.TabularRegressor, kw.TabularClassifier]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backbone", ["auto", *BACKBONES, TabMConfig(widths=(9,))])
def test_all_parameters_of_configurations_are_listed(kind, backbone):
    model = kind(backbone=backbone)
    config = backbone if isinstance(backbone, TabMConfig) else BACKBONES["mlp" if backbone == "auto" else backbone]()
    parameters = model.get_params()
    for field in fields(config):
        assert parameters[f"backbone__{field.name}"] == getattr(config, field.name)
    for field in fields(kw.TrainingConfig):
        assert f"training__{field.name}" in parameters
    assert set(model.get_params(deep=False)) == set(inspect.signature(kind).parameters)
    copied = clone(model)
    assert copied.get_params() == parameters
    assert pickle.loads(pickle.dumps(copied)).get_params() == parameters


@pytest.mark.parametrize("kind", KINDS)
def test_every_listed_parameter_can_be_set(kind):
    model = kind()
    for name, value in model.get_params().items():
        assert kind().set_params(**{name: value}).get_params()[name] == value


@pytest.mark.parametrize("training", [None, kw.TrainingConfig(batch_size=7)])
def test_a_nested_parameter_replaces_one_setting(training):
    model = kw.TabularRegressor(training=training)
    assert model.set_params(training__learning_rate=0.5, training__patience=3) is model
    assert (model.training.learning_rate, model.training.patience) == (0.5, 3)
    assert model.training.batch_size == (None if training is None else 7)
    assert training is None or training.learning_rate != 0.5


def test_settings_that_are_not_set_are_those_of_the_backbone():
    model = kw.TabularRegressor(backbone="realmlp").set_params(training__max_epochs=3)
    assert (model.training.max_epochs, model.training.schedule) == (3, "cycles")
    both = kw.TabularClassifier().set_params(training__max_epochs=4, backbone=RealMLPConfig(), backbone__widths=(5,))
    assert both.backbone == RealMLPConfig(widths=(5,))
    assert both.training == kw.TrainingConfig(**{**RealMLPConfig().training("classification"), "max_epochs": 4})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"training__learning_rat": 1}, "TrainingConfig has no learning_rat. Did you mean training__learning_rate?"),
        ({"backbone__n_blocks": 3}, "MLPConfig has no n_blocks. Available: 'widths', 'dropout'"),
        ({"training__learning_rate": -1.0}, "learning_rate must be a number larger than 0"),
        ({"encodings": 1}, "Invalid parameter 'encodings'"),
        ({"device__index": 1}, "device__index is not a valid parameter: only 'backbone', 'training', 'interactions'"),
    ],
)
def test_parameters_that_do_not_exist_or_are_not_valid(parameters, message):
    with pytest.raises((ValueError, AttributeError), match=message):
        kw.TabularRegressor().set_params(**parameters)


GRID = {
    "encoding": ["Std", "BS-U@5"],
    "backbone": [MLPConfig(widths=(4,)), "mlp"],
    "time_limit": [None, 60.0],
    "size": [None, 6],
    "n_members": [1, 2],
    "categories": ["embedding", "code"],
    "validation_share": [0.1, 0.3],
    "validation": ["time", 2],
    "refit": [False, True],
    "callbacks": [None, [lambda report: report.epoch == 1]],
    "warm_start": [False, True],
    "random_state": [0, 1],
    "training__learning_rate": [1e-3, 1e-1],
    "training__max_epochs": [1, 2],
    "training__metric": ["rmse", "mae"],
    "backbone__widths": [(4,), (5, 3)],
    "backbone__dropout": [0.0, 0.5],
}


@pytest.mark.parametrize("name", GRID)
def test_a_grid_search_reaches_every_parameter(name):
    search = GridSearchCV(kw.TabularRegressor(**SMALL), {name: GRID[name]}, cv=2).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(scores) == 2
    chosen = search.best_estimator_.get_params()[name]
    assert chosen == search.best_params_[name]
    if name.startswith(("training__learning", "training__max", "backbone", "encoding", "random", "refit")):
        assert scores[0] != scores[1]


def test_a_grid_search_in_a_pipeline():
    model = make_pipeline(FunctionTransformer(), kw.TabularRegressor(**SMALL))
    grid = {"tabularregressor__training__learning_rate": [1e-3, 1e-1]}
    assert len(GridSearchCV(model, grid, cv=2).fit(X, y).cv_results_["params"]) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"max_epochs": 50}, "max_epochs is a parameter of TrainingConfig: training=TrainingConfig(max_epochs=50)."),
        ({"epochs": 50}, "max_epochs is a parameter of TrainingConfig: training=TrainingConfig(max_epochs=50)."),
        ({"lr": 0.1}, "learning_rate is a parameter of TrainingConfig: training=TrainingConfig(learning_rate=0.1)."),
        ({"batch_sise": 8}, "batch_size is a parameter of TrainingConfig: training=TrainingConfig(batch_size=8)."),
        ({"n_estimators": 5}, "Did you mean n_members=5?"),
        ({"n_member": 5}, "Did you mean n_members=5?"),
        ({"seed": 5}, "Did you mean random_state=5?"),
        ({"cv": 5}, "Did you mean validation=5?"),
        (
            {"hidden_layer_sizes": (9,)},
            "widths is a parameter of a backbone: backbone=knotwork.nn.MLPConfig(widths=(9,))",
        ),
        ({"n_heads": 2}, "n_heads is a parameter of a backbone: backbone=knotwork.nn.FTTransformerConfig(n_heads=2)"),
        ({"eval_set": []}, "It is an argument of fit: fit(X, y, X_val=..., y_val=...)."),
        ({"groups": []}, "It is an argument of fit: fit(X, y, groups=...)."),
        ({"n_jobs": 2}, "threads"),
        ({"xyz": 2}, "Available: 'encoding', 'backbone'"),
    ],
)
def test_arguments_that_belong_elsewhere(kind, given, message):
    (name,) = given
    with pytest.raises(ArgumentTypeError) as caught:
        kind(**given)
    assert str(caught.value).startswith(f"{kind.__name__}() got an unexpected keyword argument {name!r}. ")
    assert message in str(caught.value)
    assert isinstance(caught.value, TypeError)


def test_hints_are_of_parameters_that_exist():
    known = {*inspect.signature(kw.TabularClassifier).parameters, *(field.name for field in fields(kw.TrainingConfig))}
    assert set(OTHER_NAMES) - known == {"widths"}
    others = [name for names in OTHER_NAMES.values() for name in names]
    assert len(others) == len(set(others))
    assert not {*others, *AT_FIT} & known


def test_signatures_are_those_of_the_constructor():
    names = list(inspect.signature(kw.TabularRegressor).parameters)
    assert names[:2] == ["encoding", "backbone"]
    assert "kwargs" not in names
    with pytest.raises(TypeError, match="positional"):
        kw.TabularRegressor("auto", "auto", "fast")
