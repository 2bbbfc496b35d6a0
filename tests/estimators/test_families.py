"""Families beyond the paper, periods and learned vectors of missing values in fitted estimators and studies."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch

import knotwork as kw
from knotwork.basis._fitted import FittedBasis
from knotwork.training import Member, train
from knotwork.training._members import TrainingTable

SHORT = kw.TrainingConfig(max_epochs=3)
RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"hour": RANDOM.integers(0, 24, 160).astype(float), "x": RANDOM.lognormal(size=160)})
X.loc[RANDOM.uniform(size=160) < 0.2, "hour"] = np.nan
Y = np.where(X["hour"].isna(), 2.0, np.sin(2 * np.pi * X["hour"].fillna(0.0) / 24)) + 0.1 * X["x"]

LEARNED = kw.ColumnConfig(missing="learned")
ENCODINGS = [
    {"hour": "CS-U@6%24", "x": "NS-Q@5"},
    {"hour": "RBF-Q@5", "x": "TPS-CART@5"},
    {"hour": "CS-Grad-U@6%24", "x": "NS-Grad-Q@5"},
    {"hour": "RBF-Grad-U@6", "x": "TPS-Grad-U@4"},
    "RBF-Q@5+L3x",
]


def fitted(encoding, **settings):
    options = {"training": SHORT, "random_state": 0, "device": "cpu"} | settings
    return kw.TabularRegressor(encoding, kw.nn.MLPConfig(widths=(8,)), **options).fit(X, Y)


def exported(model, path):
    model.export_onnx(path)
    return onnxruntime.InferenceSession(path).run(["prediction"], {"numbers": X.to_numpy(dtype=float)})[0]


@pytest.mark.parametrize(
    ("encoding", "missing"),
    [
        pytest.param(encoding, missing, marks=[] if place % 2 == (missing == "learned") else [pytest.mark.slow])
        for place, encoding in enumerate(ENCODINGS)
        for missing in ("zeros", "learned")
    ],
    ids=str,
)
def test_saved_and_exported_models_predict_the_same(encoding, missing, tmp_path):
    model = fitted(encoding, columns=kw.ColumnConfig(missing=missing))
    expected = model.predict(X)
    model.save(tmp_path / "model")
    loaded = kw.load(tmp_path / "model", device="cpu")
    assert loaded.columns.missing == missing
    np.testing.assert_array_equal(loaded.predict(X), expected)
    np.testing.assert_allclose(exported(model, tmp_path / "model.onnx"), expected, rtol=0, atol=1e-5)


def test_predictions_repeat_with_the_period():
    model = fitted({"hour": "CS-Q@6%24", "x": "Std"})
    later = X.assign(hour=X["hour"] + 24 * 7)
    np.testing.assert_allclose(model.predict(later), model.predict(X), rtol=0, atol=1e-5)
    assert model.encoding_[0]["hour"] == "CS-Q@6%24"
    assert 0 < min(model.knots_[0]["hour"]) < max(model.knots_[0]["hour"]) < 24


def test_learned_vectors_are_learned_where_values_are_missing():
    zeros, learned = fitted("BS-Q@5"), fitted("BS-Q@5", columns=LEARNED)
    vectors = learned.trained_.pieces[0].network.encoding.missing_vectors()
    assert bool((vectors[:, 0] != 0).any())
    assert bool((vectors[:, 1] == 0).all())
    assert zeros.trained_.pieces[0].network.encoding.missing is None
    assert not np.array_equal(zeros.predict(X), learned.predict(X))
    with pytest.raises(ValueError, match="missing must be one of"):
        kw.ColumnConfig(missing="mean")
    complete = kw.TabularRegressor("BS-Q@5", columns=LEARNED, training=SHORT, random_state=0, device="cpu")
    complete.fit(X[["x"]], Y)  # nothing is missing, so nothing is learned
    assert complete.trained_.pieces[0].network.encoding.missing is None


def test_going_on_needs_the_same_kind_of_missing_values():
    model = fitted("BS-Q@5", warm_start=True)
    with pytest.warns(UserWarning, match="warm_start has no effect"):
        model.set_params(columns__missing="learned").fit(X, Y)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.filterwarnings("ignore:A column of cyclic splines has the whole numbers:UserWarning")
def test_members_do_not_depend_on_others_in_their_stack(learned):
    numbers = X.to_numpy(dtype=float)
    table = TrainingTable(numbers, np.empty((160, 0), np.int64), Y.to_numpy(), "regression")
    rows, valid = np.arange(120), np.arange(120, 160)
    encoders = [kw.make_encoder(name).fit(X, Y) for name in ("CS-U@5", "NS-Q@7", "RBF-U@6", "TPS-Q@7")]
    members = [
        Member(rows, valid, encoder.fitted_, learnable, seed, learned_missing=learned)
        for seed, encoder in enumerate(encoders)
        for learnable in (False, True)
    ]
    assert all(isinstance(encoding, FittedBasis) for member in members for encoding in member.encodings)
    backbone = kw.nn.MLPConfig(widths=(8,), dropout=0.0)
    together = train(table, members, backbone, SHORT, device="cpu")
    tests = [rows[:10]] * len(members)
    outputs = together.outputs(numbers, table.codes, tests)
    for place in (0, 3, 4, 7):
        alone = train(table, [members[place]], backbone, SHORT, device="cpu")
        expected = alone.outputs(numbers, table.codes, tests[:1])[0]
        torch.testing.assert_close(torch.as_tensor(outputs[place]), torch.as_tensor(expected), rtol=0, atol=1e-4)


def test_a_study_trains_them(tmp_path):
    plan = kw.study.Plan(
        name="families",
        datasets=["sk_wine"],
        methods=["CS-Q", "CS-U%24", "NS-Q", "RBF-Q", "TPS-U", "NS-Grad-U", "RBF-Grad-U"],
        sizes=[5],
        folds=2,
        training=SHORT,
        backbones=["mlp"],
    )
    assert kw.study.run(plan, tmp_path, device="cpu").n_ok == 14
    assert set(kw.study.load_results(tmp_path)["method"]) == set(plan.methods)
