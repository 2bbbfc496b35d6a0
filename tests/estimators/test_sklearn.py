"""scikit-learn's own checks, on both estimators: all with small networks that train fast, some as they are by default.

Those in `EXCUSED` are expected to fail, those in `ROUNDED` are run with the tolerance of float32, each for its reason.
With one network all checks are quick; where several are trained, most of what checks ask is done by the same code, and
only those in `OF_SEVERAL` are quick.
"""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.utils import estimator_checks
from sklearn.utils._testing import assert_allclose

import knotwork as kw
from knotwork.encoders import Encoding
from knotwork.estimators._plans import FitPlan, Recipe
from knotwork.nn import MLPConfig
from tests.encoders.checks import is_repeated, parametrize_checks

SMALL = {
    "backbone": MLPConfig(widths=(16,)),
    "training": kw.TrainingConfig(max_epochs=40, learning_rate=0.02, batch_size=32),
}
BRIEF = {**SMALL, "training": kw.TrainingConfig(max_epochs=12, learning_rate=0.05, batch_size=32)}
"""Enough where several candidates are trained, the best of which count."""
FEW = kw.TrainingConfig(max_epochs=2, learning_rate=0.05, batch_size=32)
"""Enough for checks that do not ask how good predictions are."""

VARIANTS = [
    kw.TabularRegressor(**SMALL),
    kw.TabularClassifier(**SMALL),
    kw.TabularRegressor(["Std", "BS-Q@4", "PLE@4"], search="ensemble", **BRIEF),
    kw.TabularClassifier(["Std", "BS-Q@4", "PLE@4"], search="validated", **BRIEF),
    kw.TabularRegressor(),
    kw.TabularClassifier(),
]
"""Of the last two an effort decides what is trained: here `plan_small`."""


def plan_small(effort, table, *, training=BRIEF["training"], **_):
    """Return two kinds of small networks on three folds."""
    choices = [(Encoding.parse(spec),) * table.numbers.shape[1] for spec in ("PLE@4", "Std")]
    recipes = [Recipe(choice, BRIEF["backbone"], training) for choice in choices]
    return FitPlan(recipes, "ensemble", n_folds=3)


OF_DEFAULTS = [
    "check_parameters_default_constructible",
    "check_no_attributes_set_in_init",
    "check_get_params_invariance",
    "check_fit2d_1sample",
]
"""Checks that are run on estimators as they are by default as well; for the others their networks take too long."""

OF_SEVERAL = [
    "check_classifiers_train",
    "check_regressors_train",
    "check_estimators_pickle",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_subset_invariance",
]
"""Checks that several networks, their weights and folds may matter to."""

OF_QUALITY = ["check_classifiers_train", "check_classifiers_classes", "check_regressors_train"]
"""Checks of how good predictions are, and of those whose predictions must contain every class."""

EXCUSED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "validation rows and batches are drawn by place, so rows with weights and repeated rows are drawn otherwise"
    ),
}
ROUNDED = {
    "check_methods_subset_invariance": "matrix products in float32 add up otherwise for another number of rows",
    "check_methods_sample_order_invariance": "matrix products in float32 add up otherwise in another order of rows",
}


def assert_allclose_in_float32(actual, desired, **others):
    assert_allclose(actual, desired, **{**others, "rtol": 1e-5, "atol": 1e-5})


def is_slow(estimator, check):
    if is_repeated(check) or estimator in VARIANTS[:2]:
        return is_repeated(check)
    name = check.func.__name__
    # How good predictions are is asked of one regressor and one classifier, of one search and of one effort.
    return name not in OF_SEVERAL or (name in OF_QUALITY and estimator in VARIANTS[3:5])


@parametrize_checks(VARIANTS, is_slow, lambda estimator: EXCUSED)
def test_scikit_learn_checks(estimator, check, monkeypatch):
    plan = plan_small if check.func.__name__ in OF_QUALITY else partial(plan_small, training=FEW)
    monkeypatch.setattr("knotwork.estimators._settings.plan_effort", plan)
    if check.func.__name__ not in OF_QUALITY and estimator.training is not None:
        estimator = clone(estimator).set_params(training=FEW)  # checks share it
    if check.func.__name__ in ROUNDED:
        monkeypatch.setattr(estimator_checks, "assert_allclose", assert_allclose_in_float32)
    check(estimator)


@pytest.mark.parametrize("name", sorted({*EXCUSED, *ROUNDED, *OF_QUALITY, *OF_SEVERAL}))
def test_excuses_are_of_checks_that_exist(name):
    assert callable(getattr(estimator_checks, name))


@pytest.mark.parametrize("kind", [kw.TabularRegressor, kw.TabularClassifier])
@pytest.mark.parametrize("name", OF_DEFAULTS)
def test_some_checks_on_defaults(kind, name):
    getattr(estimator_checks, name)(kind.__name__, kind(random_state=0))


@pytest.mark.slow
def test_default_regressors_learn():
    """What scikit-learn's check of training asks for; tests/test_journeys.py fits one of less effort."""
    estimator_checks.check_regressors_train("TabularRegressor", kw.TabularRegressor(random_state=0))


@pytest.mark.slow  # test_journeys.py fits and scores both estimators with effort="fast"
def test_default_classifiers_learn():
    """What scikit-learn's check of training asks for, which fits twice and takes long."""
    X, y = make_blobs(n_samples=90, centers=3, random_state=0)
    classes = np.array(["one", "three", "two"])[y]
    model = kw.TabularClassifier(random_state=0).fit(X, classes)
    assert model.score(X, classes) > 0.83
    assert (model.classes_[model.predict_proba(X).argmax(axis=1)] == model.predict(X)).all()
