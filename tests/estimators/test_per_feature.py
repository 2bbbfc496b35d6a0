"""Estimators with an encoding for each column that training rows choose."""

import numpy as np
import pytest

import knotwork as kw
from tests.encoders.test_choice import planted

pytestmark = pytest.mark.xdist_group("per feature")  # one process fits the model that tests share

SHORT = kw.TrainingConfig(max_epochs=2)


@pytest.fixture(scope="module")
def model():
    X, y = planted(300)
    return kw.TabularRegressor(search="per-feature", training=SHORT, random_state=0).fit(X, y)


def test_columns_have_their_own_encodings_and_reasons(model):
    choices = {each["column"]: each for each in model.encoding_choices_}
    assert model.encoding_ == [{name: each["encoding"] for name, each in choices.items()}]
    assert list(choices) == ["line", "wave", "noise"]
    assert all(each["reason"].endswith(".") and len(each["losses"]) == 12 for each in choices.values())


def test_the_choice_is_saved(model, tmp_path):
    path = tmp_path / "model.knotwork"
    model.save(path)
    loaded = kw.load(path)
    assert loaded.encoding_choices_ == model.encoding_choices_
    X, _ = planted(50, seed=1)
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-6)


def test_the_model_is_that_of_the_named_encodings():
    X, y = planted(300)
    settings = {"training": SHORT, "random_state": 0}
    model = kw.TabularRegressor(search="per-feature", **settings).fit(X, y)
    alone = kw.TabularRegressor(model.encoding_[0], **settings).fit(X, y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-4)


def test_other_encodings_have_no_choice():
    X, y = planted(80)
    assert kw.TabularRegressor("PLE@7", training=SHORT).fit(X, y).encoding_choices_ == []


def test_classes():
    X, y = planted(200)
    model = kw.TabularClassifier(search="per-feature", training=SHORT, random_state=0).fit(X, y > 1.0)
    assert len(model.encoding_choices_) == 3


def test_a_list_is_what_columns_choose_from():
    X, y = planted(200)
    methods = ["IS-CART@7", "PLE@7", "BS-Q", "PLE@7", "Std"]
    model = kw.TabularRegressor(methods, search="per-feature", training=SHORT).fit(X, y)
    assert {*model.encoding_[0].values()} <= {"IS-CART@7", "PLE@7", "BS-Q@15", "Std"}
    assert {*model.encoding_choices_[0]["losses"]} == {"IS-CART@7", "PLE@7", "BS-Q@15", "Std"}
