"""Linear models in a plan are those of scikit-learn behind the transformers of the library."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline

from knotwork._preparation.members import make_splits
from knotwork.datasets import load_dataset
from knotwork.datasets._synthetic import illustration_curve, illustration_probability
from knotwork.encoders import PiecewiseLinearEncoder, SplineEncoder
from knotwork.study import load_curves, load_histories, load_plan, load_results, run
from knotwork.study._prepared import from_dataset
from tests.study.cases import tiny_plan

ENCODERS = {
    "PLE": PiecewiseLinearEncoder(10, placement="uniform", dtype=np.float64),
    "BS-U": SplineEncoder("bspline", 10, placement="uniform", dtype=np.float64),
}


@pytest.fixture(scope="module")
def illustration(tmp_path_factory):
    out = tmp_path_factory.mktemp("illustration")
    assert run("illustration", out).n_ok == load_plan("illustration").n_networks == 4
    return out


def rows_of(name):
    data = from_dataset(load_dataset(name), name)
    (split,) = make_splits(data.table.target, data.table.task, folds=1, split="holdout")
    return data, split


@pytest.mark.parametrize("method", ENCODERS)
def test_ridge_is_that_of_scikit_learn(illustration, method):
    data, split = rows_of("illustration_regression")
    numbers, target = data.table.numbers[split.train], data.table.target[split.train]
    model = make_pipeline(ENCODERS[method], Ridge()).fit(numbers, target)
    frame = load_results(illustration)
    row = frame[(frame["method"] == method) & (frame["task"] == "regression")].iloc[0]
    residuals = model.predict(data.table.numbers[split.test]) - data.table.target[split.test]
    np.testing.assert_allclose(row["rmse"], np.sqrt(np.mean(residuals**2)), rtol=1e-8)
    assert (row["backbone"], row["size"], row["n_parameters"]) == ("linear", 10, 11)
    curve = load_curves(illustration).query("key == @row.key")
    np.testing.assert_allclose(curve["value"], model.predict(curve[["x"]].to_numpy()), rtol=1e-8)


@pytest.mark.parametrize("method", ENCODERS)
def test_logistic_regression_is_that_of_scikit_learn(illustration, method):
    data, split = rows_of("illustration_classification")
    model = make_pipeline(ENCODERS[method], LogisticRegression(max_iter=2000))
    model.fit(data.table.numbers[split.train], data.table.target[split.train])
    frame = load_results(illustration)
    row = frame[(frame["method"] == method) & (frame["task"] == "classification")].iloc[0]
    shares = model.predict_proba(data.table.numbers[split.test])
    np.testing.assert_allclose(row["auc"], roc_auc_score(data.table.target[split.test], shares[:, 1]), rtol=1e-6)
    np.testing.assert_allclose(row["log_loss"], log_loss(data.table.target[split.test], shares), rtol=1e-5)
    curve = load_curves(illustration).query("key == @row.key")
    np.testing.assert_allclose(curve["value"], model.predict_proba(curve[["x"]].to_numpy())[:, 1], rtol=1e-5)


def test_the_picture_of_the_paper_comes_out(illustration):
    """B-splines are nearer to the smooth curve, PLE to the probability with flat parts."""
    frame = load_results(illustration).set_index("key")
    errors = {}
    for key, curve in load_curves(illustration).groupby("key", observed=True):
        truth = illustration_curve if frame.loc[key, "task"] == "regression" else illustration_probability
        error = np.sqrt(np.mean((curve["value"] - truth(curve["x"])) ** 2))
        errors[frame.loc[key, "task"], frame.loc[key, "method"]] = error
    assert errors["regression", "BS-U"] < errors["regression", "PLE"]
    assert errors["classification", "PLE"] < errors["classification", "BS-U"]
    assert load_histories(illustration).empty


def test_several_classes_and_features_and_a_class_that_is_not_trained_on(tmp_path):
    assert run(tiny_plan(methods=["BS-Q"], backbones=["linear"]), tmp_path).n_ok == 2
    frame = load_results(tmp_path)
    assert (frame["auc"] > 0.9).all()
    assert load_curves(tmp_path).empty
    rare = tmp_path / "rare.csv"
    rare.write_text("x,y\n" + "".join(f"{i % 17},{'ab'[i % 2]}\n" for i in range(40)) + "3,c\n")
    table = {"path": str(rare), "target": "y", "task": "classification"}
    plan = tiny_plan(datasets=[], tables=[table], methods=["BS-U"], backbones=["linear"])
    assert run(plan, tmp_path / "rare").n_ok == 2


def test_the_penalty_has_an_effect(tmp_path):
    for penalty in (1.0, 1e4):
        plan = tiny_plan(datasets=["sk_diabetes"], methods=["BS-Q"], backbones=[{"name": "linear", "penalty": penalty}])
        run(plan, tmp_path / str(penalty))
    weak, strong = (load_results(tmp_path / str(penalty))["rmse"].mean() for penalty in (1.0, 1e4))
    assert weak < strong


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"backbones": ["linear"]}, "IS-Grad-U"),
        ({"methods": ["Std"], "sizes": [], "backbones": [{"name": "linear", "alpha": 1.0}]}, "penalty"),
        ({"methods": ["Std"], "sizes": [], "backbones": [{"name": "linear", "penalty": 0.0}]}, "larger than 0"),
    ],
)
def test_invalid_linear_models_raise_an_error(changes, word):
    with pytest.raises(ValueError, match=word):
        tiny_plan(**changes)
