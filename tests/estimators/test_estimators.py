"""Both estimators: every parameter has an effect, what is random is seeded, and what is wrong is said."""

import functools

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork.nn import FTTransformerConfig, MLPConfig, RealMLPConfig, ResNetConfig

TRAINING = kw.TrainingConfig(max_epochs=4, learning_rate=0.01, batch_size=32)
SMALL = {"backbone": MLPConfig(widths=(16,)), "training": TRAINING, "random_state": 0}
ESTIMATORS = (kw.TabularRegressor, kw.TabularClassifier)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "signal": rng.uniform(-2, 3, 200),
            "noise": rng.normal(size=200),
            "holes": np.where(rng.random(200) < 0.2, np.nan, rng.normal(size=200)),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], 200),
            "grade": rng.integers(0, 4, 200),
        }
    )


@pytest.fixture(scope="module")
def target(frame):
    return (np.sin(2 * frame["signal"]) + (frame["town"] == "Ulm") > 0.3).astype(int).to_numpy()


def make(kind, **parameters):
    return kind(**{**SMALL, **parameters})


def outputs(model, X):
    return model.predict(X) if isinstance(model, kw.TabularRegressor) else model.predict_proba(X)[:, 1]


OTHERS = {
    "encoding": "Std",
    "backbone": MLPConfig(widths=(17,)),
    "search": "per-feature",
    "n_members": 2,
    "interactions": 1,
    "columns__missing": "learned",
    "columns__categories": "code",
    "columns__categorical": ["grade"],
    "validation": 0.4,
    "validation__rows": "time",
    "validation__refit": True,
    "training": kw.TrainingConfig(max_epochs=4, learning_rate=0.02, batch_size=32),
    "random_state": 1,
}
"""Other values of parameters; of the rest other tests show the effect."""


@pytest.fixture(scope="module")
def usual_outputs(frame, target):
    """Return a function of an estimator that fits it once."""
    return functools.cache(lambda kind: outputs(make(kind).fit(frame, target), frame))


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", OTHERS)
def test_every_parameter_has_an_effect(kind, name, usual_outputs, frame, target):
    usual = usual_outputs(kind)
    other = outputs(make(kind).set_params(**{name: OTHERS[name]}).fit(frame, target), frame)
    assert np.abs(usual - other).max() > 1e-4


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 20.0}])
def test_class_weights_have_an_effect(class_weight, frame):
    rare = (np.arange(200) % 10 == 0).astype(int)
    usual = make(kw.TabularClassifier).fit(frame, rare)
    other = make(kw.TabularClassifier, objective=kw.LogLoss(class_weight)).fit(frame, rare)
    assert outputs(other, frame).mean() > outputs(usual, frame).mean() + 0.1


def test_the_last_rows_of_a_share_validate(frame, target):
    usual, other = (
        make(kw.TabularRegressor, validation=each).fit(frame, target)
        for each in ("time", kw.ValidationConfig("time", share=0.4))
    )
    assert [len(each._model.held.target) for each in (usual, other)] == [20, 80]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_sample_weights_have_an_effect(kind, frame, target):
    usual = outputs(make(kind).fit(frame, target), frame)
    heavy = outputs(make(kind).fit(frame, target, sample_weight=np.where(target == 1, 20.0, 1.0)), frame)
    assert heavy.mean() > usual.mean() + 0.05


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_rows_of_weight_zero_are_left_out(kind, frame, target):
    weights = (np.arange(200) % 4 > 0).astype(float)
    kept = weights > 0
    with_zeros = make(kind, encoding="BS-Q").fit(frame, target, sample_weight=weights)
    without = make(kind, encoding="BS-Q").fit(frame[kept], target[kept])
    np.testing.assert_array_equal(outputs(with_zeros, frame), outputs(without, frame))


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    "backbone",
    [
        MLPConfig(widths=(16,)),
        ResNetConfig(width=16, n_blocks=1, hidden=16),
        FTTransformerConfig(d_token=8, n_blocks=1, n_heads=2),
    ],
    ids=lambda backbone: backbone.name,
)
def test_a_seed_decides(kind, backbone, frame, target):
    first, again, other = (
        outputs(make(kind, backbone=backbone, random_state=seed).fit(frame, target), frame) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-4


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_without_a_seed_fits_differ(kind, frame, target):
    first, second = (outputs(make(kind, random_state=None).fit(frame, target), frame) for _ in range(2))
    assert np.abs(first - second).max() > 1e-4


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_prediction_is_the_mean_of_the_members(kind, frame, target):
    model = make(kind, n_members=3).fit(frame, target)
    each = model._model.outputs(model.columns_.read(frame))
    assert each.shape[0] == 3
    if kind is kw.TabularRegressor:
        expected = sum(each[..., 0]) / 3
    else:
        expected = sum(np.exp(own[:, 1]) / (np.exp(own[:, 0]) + np.exp(own[:, 1])) for own in each) / 3
    np.testing.assert_allclose(outputs(model, frame), expected, rtol=1e-10)
    assert np.abs(each[0] - each[1]).max() > 1e-4


def test_the_first_of_several_members_is_the_only_one_of_one(frame, target):
    alone = make(kw.TabularRegressor, encoding="BS-U").fit(frame, target)
    several = make(kw.TabularRegressor, encoding="BS-U", n_members=3).fit(frame, target)
    assert len(several.history_) == 3
    assert len(alone.history_) == 1
    assert several.history_[0]["loss"][0] != several.history_[1]["loss"][0]


@pytest.mark.parametrize(("kind", "metric"), [(kw.TabularRegressor, "rmse"), (kw.TabularClassifier, "log_loss")])
def test_histories(kind, metric, frame, target):
    model = make(kind, n_members=2).fit(frame, target)
    assert len(model.history_) == 2
    for history in model.history_:
        assert set(history) == {"loss", "score", "learning_rate", "metric", "best_epoch", "seconds"}
        assert {len(history[name]) for name in ("loss", "score", "learning_rate")} == {4}
        assert history["metric"] == metric
        assert history["best_epoch"] == np.argmin(history["score"]) + 1
        assert history["seconds"] > 0
        np.testing.assert_allclose(history["learning_rate"], 0.01, rtol=1e-6)


def test_scores_of_metrics_that_are_better_when_larger(frame, target):
    training = kw.TrainingConfig(max_epochs=4, learning_rate=0.01, batch_size=32, metric="auc")
    history = make(kw.TabularClassifier, training=training).fit(frame, target).history_[0]
    assert history["metric"] == "auc"
    assert ((history["score"] >= 0) & (history["score"] <= 1)).all()
    assert history["best_epoch"] == np.argmax(history["score"]) + 1


def test_quantile_knots_are_in_the_units_of_the_table():
    x = np.linspace(-50, 150, 401)
    model = make(kw.TabularRegressor, encoding="PLE@5")
    uniform = make(kw.TabularRegressor, encoding="BS-U@7").fit(x[:, None], x).knots_
    held = model.fit(x[:, None], x)
    low, high = -50.0, 150.0
    assert len(uniform) == 1
    np.testing.assert_allclose(uniform[0][0], np.linspace(low, high, 5)[1:-1], atol=2.0)
    assert ((held.knots_[0][0] > low) & (held.knots_[0][0] < high)).all()
    quantile = make(kw.TabularRegressor, encoding="BS-Q@7").fit(np.square(x)[:, None], x).knots_[0][0]
    np.testing.assert_allclose(quantile, np.quantile(np.square(x), [0.25, 0.5, 0.75]), rtol=0.1)


def test_learned_knots_move_and_fixed_ones_do_not(frame, target):
    training = kw.TrainingConfig(max_epochs=12, learning_rate=0.02, batch_size=32, knot_warmup=1, patience=12)
    start, learned = (
        make(kw.TabularRegressor, encoding=encoding, training=training).fit(frame, target).knots_[0]["signal"]
        for encoding in ("BS-U", "BS-Grad-U")
    )
    low, high = frame["signal"].min(), frame["signal"].max()
    np.testing.assert_allclose(np.diff(start), np.diff(start)[0], rtol=1e-4)
    assert np.abs(learned - start).max() > 1e-3 * (high - low)
    assert (np.diff(learned) > 0).all()


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("backbone", [MLPConfig(widths=(16,)), FTTransformerConfig(d_token=16, n_heads=2, n_blocks=1)])
def test_every_column_may_have_a_method_of_its_own(kind, backbone, frame, target, tmp_path):
    methods = {"signal": "BS-Grad-U@9", "noise": "Std", "holes": "PLE-Grad@5", "grade": "IS-Grad-Q@6"}
    fixed = {"signal": "BS-U@9", "noise": "Std", "holes": "PLE@5", "grade": "IS-Q@6"}
    training = kw.TrainingConfig(max_epochs=4, learning_rate=0.02, batch_size=32, knot_warmup=0)
    settings = {"backbone": backbone, "training": training}
    models = [make(kind, encoding=each, **settings).fit(frame, target) for each in (methods, fixed)]
    learned, start = (model.knots_[0] for model in models)
    moved = {name: np.abs(learned[name] - start[name]).max(initial=0.0) for name in methods}
    assert [name for name, far in moved.items() if far > 1e-4] == ["signal", "holes", "grade"]
    for model in models:
        model.save(tmp_path / "model.knotwork")
        same = kw.load(tmp_path / "model.knotwork")
        np.testing.assert_array_equal(outputs(same, frame), outputs(model, frame))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_importances_find_the_column_that_matters(kind):
    X = np.random.default_rng(0).normal(size=(500, 4))
    y = (X[:, 2] > 0).astype(int)
    training = kw.TrainingConfig(max_epochs=15, learning_rate=0.01, batch_size=64)
    model = make(kind, training=training).fit(X, y)
    importances = model.feature_importances_
    assert importances.shape == (4,)
    assert importances.argmax() == 2
    assert np.abs(np.delete(importances, 2)).max() < 0.3 * importances[2]  # of 50 validation rows
    model.fit(X[:, ::-1], y)
    assert model.feature_importances_.argmax() == 1


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_unseen_categories_and_missing_values(kind, frame, target):
    model = make(kind).fit(frame, target)
    other = frame.head(3).copy()
    other["town"] = "Rome"
    missing = other.assign(town=None)
    np.testing.assert_array_equal(outputs(model, other), outputs(model, missing))
    assert np.isfinite(outputs(model, other.assign(signal=np.nan, holes=np.nan, grade=None))).all()
    shuffled = frame[list(frame.columns[::-1])]
    np.testing.assert_array_equal(outputs(model, shuffled), outputs(model, frame))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_auto_is_what_is_recommended(kind, frame, target):
    for backbone in (MLPConfig(widths=(8,)), FTTransformerConfig(d_token=8, n_blocks=1, n_heads=2)):
        model = make(kind, backbone=backbone).fit(frame, target)
        found = kw.recommend(model._task, backbone.name, budget="medium")
        wanted = found.method if found.size is None else f"{found.method}@{found.size}"
        assert {each for member in model.encoding_ for each in member.values()} == {wanted}
        assert list(model.encoding_[0]) == ["signal", "noise", "holes", "grade"]


def test_the_protocol_of_the_paper_trains(frame, target):
    model = kw.TabularClassifier(backbone=MLPConfig(widths=(8,)), training=kw.TrainingConfig.paper(), random_state=0)
    history = model.fit(frame, target).history_[0]
    assert history["metric"] == "auc"
    assert history["learning_rate"][0] == pytest.approx(1e-4)
    assert len(history["loss"]) > 15


@pytest.mark.parametrize("kind", [ESTIMATORS[0], pytest.param(ESTIMATORS[1], marks=pytest.mark.slow)])
def test_realmlp_is_trained_by_its_settings(kind, frame, target):
    backbone = RealMLPConfig(widths=(16, 16))
    frame, target = frame[:80], target[:80]  # 256 epochs
    mixed = kw.ColumnConfig(categories="mixed")
    model = kind("PLE@7", backbone, columns=mixed, random_state=0).fit(frame, target)
    task = "regression" if kind is kw.TabularRegressor else "classification"
    assert model.history_[0]["loss"].shape == (256,)
    assert max(model.history_[0]["learning_rate"]) == pytest.approx(0.2 if task == "regression" else 0.04, rel=0.01)
    training = kw.TrainingConfig(**backbone.training(task))
    same = kind("PLE@7", backbone, columns=mixed, training=training, random_state=0).fit(frame, target)
    np.testing.assert_array_equal(outputs(model, frame), outputs(same, frame))
    other = kind("PLE@7", backbone, columns=mixed, training=kw.TrainingConfig(), random_state=0).fit(frame, target)
    assert not np.allclose(outputs(model, frame), outputs(other, frame))


@pytest.mark.parametrize("n_rows", [1, 2, 3])
def test_very_few_rows_are_said(n_rows):
    table, target = np.arange(2.0 * n_rows).reshape(n_rows, 2), np.arange(float(n_rows))
    model = kw.TabularRegressor("BS-Q", training=kw.TrainingConfig(max_epochs=2), device="cpu")
    with pytest.warns(UserWarning, match=f"next to nothing to learn: the table has {n_rows} row"):
        model.fit(table, target)
    assert np.isfinite(model.predict(table)).all()


def test_one_class_is_said():
    table = np.random.default_rng(0).normal(size=(30, 2))
    model = kw.TabularClassifier("BS-Q", training=kw.TrainingConfig(max_epochs=2), device="cpu")
    with pytest.warns(UserWarning, match="y has one class, which every prediction will be"):
        model.fit(table, np.full(30, "yes"))
    assert set(model.predict(table)) == {"yes"}
