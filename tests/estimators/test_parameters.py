"""Parameters by name: those of configurations in a grid search, and hints for names that are not quite right."""

import inspect
import pickle
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import knotwork as kw
from knotwork.errors import ArgumentError, ArgumentTypeError
from knotwork.estimators._settings import AT_FIT, ELSEWHERE, OTHER_NAMES, _homes
from knotwork.nn import BACKBONES, FTTransformerConfig, MLPConfig, RealMLPConfig, TabMConfig

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
    for outer, config in (("columns", kw.ColumnConfig()), ("validation", kw.ValidationConfig())):
        for field in fields(config):
            assert parameters[f"{outer}__{field.name}"] == getattr(config, field.name)
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
        (
            {"columns__size": 1},
            "columns__size is not a valid parameter: ColumnConfig has no size. Available: 'categorical'",
        ),
        ({"columns__mising": 1}, "ColumnConfig has no mising. Did you mean columns__missing?"),
        ({"columns__missing": "mean"}, "missing must be one of 'zeros', 'learned'"),
        ({"columns": 3, "columns__missing": "zeros"}, "columns__missing is not a valid parameter: int has no missing"),
        ({"validation__share": 0.3}, "share must be left at 0.1 unless rows='time'"),
        ({"validation__folds": 3}, "ValidationConfig has no folds. Available: 'rows', 'share', 'refit'"),
        (
            {"objective__power": 1.2},
            r"Squared has no power: it has no settings. power is a parameter of Tweedie: objective=knotwork.Tweedie\(",
        ),
        ({"objective__gamma": 2.0}, "Squared has no gamma: it has no settings.$"),  # Focal is for classes
        ({"interactions__rank": 3}, "interactions__rank is not a valid parameter while interactions is None"),
    ],
)
def test_parameters_that_do_not_exist_or_are_not_valid(parameters, message):
    with pytest.raises((ValueError, AttributeError), match=message):
        kw.TabularRegressor().set_params(**parameters)


def test_a_setting_that_the_default_objective_has_not_names_the_one_that_has_it():
    with pytest.raises(ArgumentError) as caught:
        kw.TabularRegressor().set_params(objective__delta=2.0)
    assert str(caught.value) == (
        "objective__delta is not a valid parameter: Squared has no delta: it has no settings. "
        "delta is a parameter of Huber: objective=knotwork.Huber(delta=2.0)."
    )
    with pytest.raises(ArgumentError, match=r"LogLoss has no delta\. Available: 'class_weight', 'calibrate'\.$"):
        kw.TabularClassifier().set_params(objective__delta=2.0)


@dataclass(frozen=True)
class OtherTransformer(FTTransformerConfig):
    name: ClassVar[str] = "other"


@pytest.mark.parametrize("backbone", ["ft", FTTransformerConfig(d_token=8, n_heads=2), OtherTransformer()])
@pytest.mark.parametrize("categories", ["code", "mixed"])
def test_an_ft_transformer_refuses_categories_that_are_not_learned_vectors(backbone, categories, monkeypatch):
    """It has learned vectors of categories in any case, so the parameter would have no effect."""
    monkeypatch.setitem(BACKBONES, "other", OtherTransformer)
    model = kw.TabularRegressor(backbone=backbone, columns=kw.ColumnConfig(categories=categories), device="cpu")
    with pytest.raises(ArgumentError, match="categories must be 'embedding'.* always learns vectors of categories"):
        model.fit(X, y)


def test_nested_parameters_of_columns_validation_and_objective():
    model = kw.TabularRegressor(validation=5, objective="tweedie")
    model.set_params(columns__missing="learned", columns__categorical=["a"], validation__refit=True)
    assert model.columns == kw.ColumnConfig(categorical=("a",), missing="learned")
    assert model.validation == kw.ValidationConfig(5, refit=True)
    model.set_params(validation__rows="time", validation__share=0.3, objective__power=1.2, columns__dates="error")
    assert model.columns == kw.ColumnConfig(categorical=("a",), missing="learned", dates="error")
    assert model.validation == kw.ValidationConfig("time", share=0.3, refit=True)
    assert model.objective == kw.Tweedie(1.2)
    model.set_params(objective="quantile", objective__quantiles=(0.1, 0.9), columns=None, columns__missing="learned")
    assert model.objective == kw.Quantile((0.1, 0.9))
    assert model.columns == kw.ColumnConfig(missing="learned")
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    again = kw.TabularRegressor().set_params(**model.get_params())
    assert (again.columns, again.validation, again.objective) == (model.columns, model.validation, model.objective)
    assert "columns=ColumnConfig(" in repr(model)
    classes = kw.TabularClassifier().set_params(objective__class_weight={"no": 2}, objective__calibrate="temperature")
    assert classes.objective == kw.LogLoss({"no": 2.0}, "temperature")
    assert classes.get_params()["objective__class_weight"] == (("no", 2.0),)
    assert kw.TabularClassifier("auto", objective=kw.Focal()).set_params(objective__gamma=1).objective == kw.Focal(1)


def test_parameters_are_stored_as_they_are_given():
    columns, validation = kw.ColumnConfig(), kw.ValidationConfig()
    model = kw.TabularRegressor(columns=columns, validation=validation)
    assert model.columns is columns
    assert model.validation is validation
    assert kw.TabularRegressor(validation=3, columns=None).get_params(deep=False)["validation"] == 3


GRID = {
    "encoding": ["Std", "BS-U@5"],
    "backbone": [MLPConfig(widths=(4,)), "mlp"],
    "time_limit": [None, 60.0],
    "n_members": [1, 2],
    "interactions": [None, 1],
    "columns": [None, kw.ColumnConfig(categories="code")],
    "columns__missing": ["zeros", "learned"],
    "columns__categories": ["embedding", "code"],
    "columns__categorical": [None, [2]],
    "validation": ["time", 2],
    "validation__rows": [0.1, 0.3],
    "validation__refit": [False, True],
    "objective": ["squared", kw.Huber(0.1)],
    "warm_start": [False, True],
    "random_state": [0, 1],
    "training__learning_rate": [1e-3, 1e-1],
    "training__max_epochs": [1, 2],
    "training__metric": ["rmse", "mae"],
    "backbone__widths": [(4,), (5, 3)],
    "backbone__dropout": [0.0, 0.5],
}


WITHOUT_EFFECT = ("time_limit", "warm_start", "training__metric")
HOLES = np.column_stack([np.where(X > 1.0, np.nan, X), np.arange(60) % 3])


@pytest.mark.parametrize("name", GRID)
def test_a_grid_search_reaches_every_parameter(name):
    model = kw.TabularRegressor(**SMALL)
    if name == "columns__categories":
        model.set_params(columns__categorical=[2])
    search = GridSearchCV(model, {name: GRID[name]}, cv=2).fit(HOLES, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(scores) == 2
    chosen = search.best_estimator_.get_params()[name]
    assert chosen == search.best_params_[name] or name == "columns__categorical"
    assert (scores[0] != scores[1]) == (name not in WITHOUT_EFFECT)


def test_a_grid_search_over_searches():
    methods = ["Std", "BS-U@5", "PLE@4"]
    model = kw.TabularRegressor(**{**SMALL, "encoding": methods})
    grid = {"search": ["validated", "ensemble", "per-feature"]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert {each for member in search.best_estimator_.encoding_ for each in member.values()} <= set(methods)


def test_a_grid_search_in_a_pipeline():
    model = make_pipeline(FunctionTransformer(), kw.TabularRegressor(**SMALL))
    grid = {"tabularregressor__training__learning_rate": [1e-3, 1e-1]}
    assert len(GridSearchCV(model, grid, cv=2).fit(X, y).cv_results_["params"]) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"max_epochs": 50},
            "max_epochs is a parameter of TrainingConfig: training=knotwork.TrainingConfig(max_epochs=50).",
        ),
        (
            {"epochs": 50},
            "max_epochs is a parameter of TrainingConfig: training=knotwork.TrainingConfig(max_epochs=50).",
        ),
        (
            {"lr": 0.1},
            "learning_rate is a parameter of TrainingConfig: training=knotwork.TrainingConfig(learning_rate=0.1).",
        ),
        (
            {"batch_sise": 8},
            "batch_size is a parameter of TrainingConfig: training=knotwork.TrainingConfig(batch_size=8).",
        ),
        ({"n_estimators": 5}, "Did you mean n_members=5?"),
        ({"n_member": 5}, "Did you mean n_members=5?"),
        ({"seed": 5}, "Did you mean random_state=5?"),
        ({"cv": 5}, "Did you mean validation=5?"),
        (
            {"hidden_layer_sizes": (9,)},
            "widths is a parameter of MLPConfig: backbone=knotwork.nn.MLPConfig(widths=(9,))",
        ),
        ({"n_heads": 2}, "n_heads is a parameter of FTTransformerConfig: backbone=knotwork.nn.FTTransformerConfig(n_"),
        ({"categoricals": ["a"]}, "columns=knotwork.ColumnConfig(categorical=['a'])"),
        ({"cat_features": ["a"]}, "columns=knotwork.ColumnConfig(categorical=['a'])"),
        ({"loss": "log_loss"}, "Did you mean objective='log_loss'?"),
        ({"class_weights": "balanced"}, "objective=knotwork.LogLoss(class_weight='balanced')"),
        ({"eval_set": []}, "It is an argument of fit: fit(X, y, X_val=..., y_val=...)."),
        ({"groups": []}, "It is an argument of fit: fit(X, y, groups=...)."),
        ({"n_jobs": 2}, "threads"),
        ({"xyz": 2}, "Available: 'encoding', 'backbone'"),
        ({"size": 7}, "The size is part of a method: encoding='BS-Q@15'."),
        (
            {"missing": "learned"},
            "missing is a parameter of ColumnConfig: columns=knotwork.ColumnConfig(missing='learn",
        ),
        ({"categories": "code"}, "columns=knotwork.ColumnConfig(categories='code')."),
        ({"categorical": ["a"]}, "columns=knotwork.ColumnConfig(categorical=['a'])."),
        ({"dates": "error"}, "columns=knotwork.ColumnConfig(dates='error')."),
        ({"validation_share": 0.3}, "Write the share itself, validation=0.2, or ValidationConfig('time', share=0.2)."),
        (
            {"refit": True},
            "refit is a parameter of ValidationConfig: validation=knotwork.ValidationConfig(refit=True).",
        ),
        ({"quantiles": 0.9}, "quantiles is a parameter of Quantile: objective=knotwork.Quantile(quantiles=0.9)."),
        ({"power": 1.2}, "objective=knotwork.Tweedie(power=1.2)."),
        ({"delta": 2.0}, "objective=knotwork.Huber(delta=2.0)."),
        ({"gamma": 2.0}, "objective=knotwork.Focal(gamma=2.0)."),
        ({"class_weight": "balanced"}, "objective=knotwork.LogLoss(class_weight='balanced')."),
        ({"calibrate": "temperature"}, "objective=knotwork.LogLoss(calibrate='temperature')."),
        ({"engine": "ray"}, "Networks are trained on a Ray cluster with device='ray'."),
        ({"callbacks": [print]}, "It is an argument of fit: fit(X, y, callbacks=...)."),
        ({"verbose": True}, "It is an argument of fit: fit(X, y, verbose=...)."),
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
    constructor, homes = {*inspect.signature(kw.TabularClassifier).parameters}, _homes()
    known = {*constructor, *homes}
    assert set(OTHER_NAMES) <= known
    others = [name for names in OTHER_NAMES.values() for name in names]
    assert len(others) == len(set(others))
    assert not {*others, *AT_FIT, *ELSEWHERE} & known
    for name, (parameter, path, kind) in homes.items():
        assert parameter in constructor
        module, _, of_module = path.removeprefix("knotwork.").rpartition(".")
        assert getattr(getattr(kw, module) if module else kw, of_module) is kind
        assert name in {field.name for field in fields(kind)}
    assert {*AT_FIT} - {"eval_set"} <= {*inspect.signature(kw.TabularClassifier.fit).parameters}


def test_signatures_are_those_of_the_constructor():
    names = list(inspect.signature(kw.TabularRegressor).parameters)
    assert names == [
        *("encoding", "backbone", "effort", "time_limit", "search", "members", "n_members", "interactions"),
        *("columns", "validation", "objective", "training", "warm_start", "device", "random_state"),
    ]
    assert inspect.signature(kw.TabularClassifier) == inspect.signature(kw.TabularRegressor)
    assert inspect.signature(kw.TabularClassifier.fit) == inspect.signature(kw.TabularRegressor.fit)
    with pytest.raises(TypeError, match="positional"):
        kw.TabularRegressor("auto", "auto", "fast")
