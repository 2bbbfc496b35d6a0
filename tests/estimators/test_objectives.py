"""Objectives, intervals and calibrated probabilities of the estimators, beside models of scikit-learn."""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from sklearn import metrics
from sklearn.base import clone
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from sklearn.model_selection import GridSearchCV

import knotwork
from knotwork import TabularClassifier, TabularRegressor, TrainingConfig
from knotwork._light import Residuals
from knotwork.errors import ArgumentError, ColumnError, PersistenceError
from knotwork.estimators._combination import HeldOut, temperature, tempered
from knotwork.nn import MLPConfig, TabMConfig
from knotwork.training._objectives import USUAL_OBJECTIVES, Focal, Gaussian, LogLoss, Poisson, Quantile

pytestmark = pytest.mark.xdist_group("objectives")  # one process fits the models that tests share

RNG = np.random.default_rng(1)
N = 3000
X = RNG.normal(size=(N, 3))
MEAN = np.exp(X @ [0.5, -0.4, 0.3] + 0.7)
LINE = X @ [2.0, -1.0, 0.5] + 10.0
TRAIN, TEST = slice(0, 2000), slice(2000, None)
LINEAR = {
    "encoding": "Std",
    "backbone": MLPConfig(widths=(), dropout=0.0),
    "training": TrainingConfig(max_epochs=40, learning_rate=0.02, schedule="cosine", batch_size=128),
    "random_state": 0,
    "device": "cpu",
}
"""A linear model: what other libraries fit as well."""

FEW = TrainingConfig(max_epochs=8, learning_rate=0.05, schedule="cosine", batch_size=128)
"""Enough where models are compared with each other."""

SHORT = {**LINEAR, "encoding": "PLE-Q@6", "backbone": MLPConfig(widths=(16,)),
         "training": TrainingConfig(max_epochs=4, batch_size=128)}  # fmt: skip


def huber(y, predicted):
    errors = torch.nn.HuberLoss(delta=1.35)(torch.tensor(predicted), torch.tensor(y))
    return float(errors)


LAWS = {
    "squared": (LINE + RNG.normal(size=N), LinearRegression(), metrics.mean_squared_error),
    "absolute": (LINE + RNG.laplace(size=N), QuantileRegressor(quantile=0.5, alpha=0), metrics.mean_absolute_error),
    "huber": (LINE + RNG.standard_t(2, size=N), HuberRegressor(), huber),
    "quantile": (
        LINE + RNG.exponential(size=N),
        QuantileRegressor(quantile=0.8, alpha=0),
        lambda y, predicted: metrics.mean_pinball_loss(y, predicted, alpha=0.8),
    ),
    "poisson": (RNG.poisson(MEAN), PoissonRegressor(alpha=0), metrics.mean_poisson_deviance),
    "gamma": (RNG.gamma(3, MEAN / 3), GammaRegressor(alpha=0), metrics.mean_gamma_deviance),
    "tweedie": (
        RNG.poisson(MEAN) * RNG.gamma(2, 0.5, size=N),
        TweedieRegressor(power=1.5, alpha=0, link="log"),
        lambda y, predicted: metrics.mean_tweedie_deviance(y, predicted, power=1.5),
    ),
    "gaussian": (LINE + np.exp(0.3 * X[:, 1]) * RNG.normal(size=N), None, None),
}
"""Data of a law, the model of scikit-learn for it, and its loss."""

OBJECTIVES = {name: name for name in LAWS} | {"quantile": Quantile(0.8), "huber": knotwork.Huber(0.5)}
"""The objective of each law."""


@functools.cache
def fitted(name):
    """Return a model that several tests read."""
    return TabularRegressor(objective=OBJECTIVES[name], **LINEAR).fit(X[TRAIN], LAWS[name][0][TRAIN])


@pytest.mark.parametrize("name", [name for name in LAWS if name != "gaussian"])
def test_the_loss_is_that_of_scikit_learns_model(name):
    y, reference, loss = LAWS[name]
    reference.fit(X[TRAIN], y[TRAIN])
    ours, theirs = (loss(y[TEST], model.predict(X[TEST])) for model in (fitted(name), reference))
    assert ours < 1.03 * theirs
    wrong = loss(y[TEST], np.full(1000, y[TRAIN].mean()))
    assert theirs < 0.9 * wrong, "the data must tell a fit from a constant"


def test_mean_and_deviation_are_those_of_the_law():
    y, (mean, std) = LAWS["gaussian"][0][TEST], fitted("gaussian").predict(X[TEST], return_std=True)
    ours = -norm(mean, std).logpdf(y).mean()
    best = -norm(LINE[TEST], np.exp(0.3 * X[TEST, 1])).logpdf(y).mean()
    assert ours < best + 0.03
    np.testing.assert_allclose(std, np.exp(0.3 * X[TEST, 1]), rtol=0.35)
    np.testing.assert_array_equal(fitted("gaussian").predict(X[TEST]), mean)


@pytest.mark.parametrize("name", LAWS)
def test_scores_of_validation_follow_the_objective(name):
    names = {"squared": "rmse", "absolute": "mae", "huber": "huber", "quantile": "pinball", "gaussian": "gaussian_nll"}
    assert fitted(name).history_[0]["metric"] == names.get(name, f"{name}_deviance")
    y, _, loss = LAWS[name]
    if name not in ("gaussian", "huber"):
        here = loss(y[TEST], fitted(name).predict(X[TEST]))
        assert fitted(name).validation_score_ == pytest.approx(np.sqrt(here) if name == "squared" else here, rel=0.35)


@pytest.mark.parametrize("name", LAWS)
def test_scores_of_epochs_are_in_the_units_of_the_target(name):
    history = fitted(name).history_[0]
    assert history["score"][history["best_epoch"] - 1] == pytest.approx(fitted(name).validation_score_, rel=1e-4)


def test_a_warm_start_needs_the_same_objective():
    model = TabularRegressor(warm_start=True, **SHORT).fit(X, LINE)
    with pytest.warns(UserWarning, match="warm_start has no effect: columns, classes, objective"):
        model.set_params(objective=Quantile((0.1, 0.9))).fit(X, LINE)
    assert model.predict(X).shape == (N, 2)
    with pytest.warns(UserWarning, match="warm_start has no effect"):
        model.fit(X, np.stack([LINE, LINE], axis=1))
    assert model.predict(X).shape == (N, 2, 2)


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie"])
def test_predictions_of_positive_laws_are_positive_far_outside(name):
    random = np.random.default_rng(1)
    far = np.concatenate([1e6 * random.normal(size=(200, 3)), np.full((1, 3), np.nan)])
    assert (fitted(name).predict(far) > 0).all()
    assert (fitted(name).predict_interval(far) >= 0).all()


@pytest.mark.parametrize("settings", ["network", "TabM", "effort"])
def test_quantiles_never_cross(settings):
    random = np.random.default_rng(1)
    kinds = {
        "network": {**SHORT, "n_members": 2},
        "TabM": {**SHORT, "backbone": TabMConfig(widths=(16,), n_predictions=4)},
        "effort": {"effort": "fast", "time_limit": 1.0, "random_state": 0, "device": "cpu"},
    }
    levels = (0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
    model = TabularRegressor(objective=Quantile(levels), **kinds[settings])
    model.fit(X[:600], LINE[:600] + random.normal(size=600))
    for rows in (X, 1e4 * X):
        predicted = model.predict(rows)
        assert predicted.shape == (N, 7)
        assert (np.diff(predicted, axis=1) >= 0).all()
    assert model.score(X, LINE) == pytest.approx(metrics.r2_score(LINE, model.predict(X)[:, 3]))


@pytest.mark.parametrize("name", LAWS)
def test_weights_count_in_each_objective(name):
    """Rows of another law with a tiny weight hardly matter; with equal weights they do."""
    y = np.array(LAWS[name][0], dtype=float)
    shifted = np.where(np.arange(N) % 2, y, 8.0 * y + 5.0)
    light = np.where(np.arange(N) % 2, 1.0, 1e-6)
    settings = {**LINEAR, "objective": OBJECTIVES[name], "training": FEW}
    weighted = TabularRegressor(**settings).fit(X[TRAIN], shifted[TRAIN], sample_weight=light[TRAIN]).predict(X[TEST])
    plain = TabularRegressor(**settings).fit(X[TRAIN], shifted[TRAIN]).predict(X[TEST])
    assert np.median(weighted) < 0.7 * np.median(plain)


@pytest.mark.parametrize("name", LAWS)
def test_saved_models_predict_the_same(tmp_path, name):
    model = fitted(name)
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict(X[TEST]), model.predict(X[TEST]))
    np.testing.assert_array_equal(loaded.predict_interval(X[TEST], 0.8), model.predict_interval(X[TEST], 0.8))
    assert loaded.get_params()["objective"] == OBJECTIVES[name]
    assert loaded.history_[0]["metric"] == model.history_[0]["metric"]
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied.predict(X[:5]), model.predict(X[:5]))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


VALUES = [Quantile(), Quantile((0.1, 0.9)), knotwork.Huber(), knotwork.Huber(1.35), knotwork.Tweedie()]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_objectives_as_values_are_those_of_the_words(tmp_path, value):
    settings = {f"objective__{name}": setting for name, setting in vars(value).items()}
    rows, target = X[:300], np.exp(LINE[:300] / 10.0)
    by_word = TabularRegressor(**SHORT, objective=value.name)
    if value != type(value)():
        by_word.set_params(**settings)
    by_word.fit(rows, target)
    by_value = clone(TabularRegressor(**SHORT, objective=value)).fit(rows, target)
    np.testing.assert_array_equal(by_value.predict(rows), by_word.predict(rows))
    by_value.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    assert loaded.get_params()["objective"] == value
    np.testing.assert_array_equal(loaded.predict(rows), by_value.predict(rows))


SEVERAL = {
    "squared": {},
    "gaussian": {"objective": "gaussian"},
    "quantile": {"objective": Quantile((0.1, 0.9))},
    "poisson": {"objective": "poisson"},
    "tree knots": {"encoding": "BS-CART@6"},
}


Y = np.stack([MEAN + np.random.default_rng(2).normal(size=N) ** 2, 1000.0 * (X[:, 1] ** 2 + 1.0)], axis=1)


@functools.cache
def of_several(name):
    """Return a model of two targets that several tests read."""
    training = TrainingConfig(max_epochs=20, batch_size=128, learning_rate=0.005)
    return TabularRegressor(**{**SHORT, "training": training, **SEVERAL[name]}).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("name", SEVERAL)
def test_several_targets_at_once(tmp_path, name):
    model = of_several(name)
    predicted = model.predict(X[TEST])
    assert predicted.shape == ((1000, 2, 2) if name == "quantile" else (1000, 2))
    middle = predicted.mean(axis=-1) if name == "quantile" else predicted
    assert all(metrics.r2_score(Y[TEST], middle, multioutput="raw_values") > 0.5)
    ends = model.predict_interval(X[TEST])
    assert ends.shape == (1000, 2, 2)
    inside = (ends[..., 0] <= Y[TEST]) & (Y[TEST] <= ends[..., 1])
    # Of 200 validation and 1000 test rows the share has a standard error of 0.023, of which this is three.
    assert (np.abs(inside.mean(axis=0) - 0.9) < 0.07).all()
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict(X[TEST]), predicted)
    assert len(model.feature_importances_) == 3


def test_a_table_of_targets_is_accepted():
    Y = pd.DataFrame({"a": LINE, "b": MEAN})
    model = TabularRegressor(**SHORT).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X[:9]), TabularRegressor(**SHORT).fit(X, Y.to_numpy()).predict(X[:9]))
    with pytest.raises(ColumnError, match="Column 'b' of y: Input y contains NaN. 3 of its values"):
        TabularRegressor(**SHORT).fit(X, Y.assign(b=np.where(np.arange(N) < 3, np.nan, MEAN)))


def exported(model, path, rows):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install knotwork[onnx]")
    model.export_onnx(path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return dict(zip([each.name for each in session.get_outputs()], session.run(None, {"numbers": rows}), strict=True))


@pytest.mark.parametrize("name", LAWS)
def test_onnx_models_predict_the_same(tmp_path, name):
    wanted = {"prediction": fitted(name).predict(X[TEST])}
    if name == "gaussian":
        wanted["std"] = fitted(name).predict(X[TEST], return_std=True)[1]
    given = exported(fitted(name), tmp_path / "model.onnx", X[TEST])
    assert set(given) == set(wanted)
    for output, values in wanted.items():
        np.testing.assert_allclose(given[output], values, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [*SEVERAL, "TabM"])
def test_onnx_models_of_several_targets_predict_the_same(tmp_path, name):
    settings = {**SHORT, "backbone": TabMConfig(widths=(16,), n_predictions=4)}
    model = TabularRegressor(**settings).fit(X[:500], Y[:500]) if name == "TabM" else of_several(name)
    given = exported(model, tmp_path / "model.onnx", X[TEST])["prediction"]
    wanted = model.predict(X[TEST])
    assert given.shape == wanted.shape
    np.testing.assert_allclose(given, wanted, rtol=1e-3, atol=1e-2)


def test_a_function_is_pickled_but_not_saved(tmp_path):
    model = TabularRegressor(objective=torch.nn.functional.l1_loss, **SHORT)
    with pytest.raises(ArgumentError, match="objective must return one loss for each row"):
        model.fit(X, LINE)
    model = clone(model).set_params(objective=absolute_error).fit(X[TRAIN], LINE[TRAIN])
    assert model.history_[0]["metric"] == "objective"
    assert model.validation_score_ == pytest.approx(np.abs(model.predict(X[TEST]) - LINE[TEST]).mean(), rel=0.3)
    with pytest.raises(PersistenceError, match=r"cannot be saved, because model files contain no code. Use pickle"):
        model.save(tmp_path / "model")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert exported(model, tmp_path / "model.onnx", X)["prediction"].shape == (N,)


def absolute_error(outputs, targets):
    return (outputs - targets).abs()


@pytest.mark.parametrize("size", [1e-9, pytest.param(1e9, marks=pytest.mark.slow)])
def test_the_units_of_the_target_do_not_matter_to_a_function(size):
    settings = {**SHORT, "training": TrainingConfig(max_epochs=12, learning_rate=0.005, batch_size=128)}
    plain = TabularRegressor(objective=absolute_error, **settings).fit(X, LINE).predict(X)
    scaled = TabularRegressor(objective=absolute_error, **settings).fit(X, size * LINE).predict(X)
    np.testing.assert_allclose(scaled / size, plain, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"objective": "poisson"}, LINE - 100, "y must not be negative for objective='poisson'.*'squared'"),
        ({"objective": "gamma"}, np.zeros(N), "y must be larger than 0"),
        ({"objective": "mae"}, LINE, "objective must be one of 'auto', 'squared'"),
        ({"objective": None}, LINE, "objective must be one of 'auto', 'squared'"),
        ({"objective": "log_loss"}, LINE, "objective must be one of 'auto', 'squared'"),
        ({"objective": LogLoss()}, LINE, "objective must be one for regression: 'squared'"),
        ({"objective": "gaussian", "training": TrainingConfig(metric="mae")}, LINE, "metric must be 'auto'"),
    ],
)
def test_errors_name_the_next_step(settings, y, message):
    with pytest.raises(ValueError, match=message):
        TabularRegressor(**{**SHORT, **settings}).fit(X, y)


def test_the_usual_objective_is_that_of_its_name():
    for kind, name, target in ((TabularRegressor, "squared", LINE), (TabularClassifier, "log_loss", LABELS)):
        usual, named = (kind(objective=each, **SHORT).fit(X[:300], target[:300]) for each in ("auto", name))
        assert usual._model.task.objective == named._model.task.objective == USUAL_OBJECTIVES[kind._task]
        assert kind().objective == "auto"
        of = "predict" if kind is TabularRegressor else "predict_proba"
        np.testing.assert_array_equal(getattr(usual, of)(X), getattr(named, of)(X))


def test_standard_deviations_and_intervals_that_are_not_available():
    with pytest.raises(ArgumentError, match=r"return_std must be False for objective='squared'.*Fit with"):
        fitted("squared").predict(X, return_std=True)
    for coverage in (0, 1.0, True, "0.9", 90):
        with pytest.raises(ArgumentError, match="coverage must be a number between 0 and 1"):
            fitted("squared").predict_interval(X, coverage)
    with pytest.raises(ArgumentError, match=r"coverage must be at most 0.9\d*, because few rows were held out"):
        fitted("squared").predict_interval(X, 0.999)
    few = TabularRegressor(**SHORT).fit(X[:8], LINE[:8])
    with pytest.raises(AttributeError, match=r"no rows were held out in the fit.*at least 10 rows"):
        few.predict_interval(X)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_cover_as_many_rows_as_they_say(name, coverage):
    y = LAWS[name][0][TEST]
    low, high = fitted(name).predict_interval(X[TEST], coverage).T
    # 200 validation rows: the share itself varies by its standard error, 0.02 to 0.035.
    assert ((low <= y) & (y <= high)).mean() == pytest.approx(coverage, abs=0.1)


def test_the_coverage_over_many_fits_is_exact():
    """Of exchangeable rows the expected coverage is k / (n + 1), for one law as for another."""
    shares = []
    rng = np.random.default_rng(0)
    for _ in range(400):
        residuals = rng.exponential(size=59)
        kept = Residuals.from_rows(HeldOut(np.zeros((59, 1)), residuals, None), USUAL_OBJECTIVES["regression"])
        low, high = kept.interval(np.zeros((1, 1)), USUAL_OBJECTIVES["regression"], coverage=0.9)[0, 0]
        shares.append(np.exp(-low) - np.exp(-high))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.01)


def test_residuals_of_many_rows_are_kept_as_quantiles():
    rng = np.random.default_rng(0)
    values = rng.normal(size=50_000)
    kept = Residuals.from_rows(HeldOut(np.zeros((50_000, 1)), values, None), USUAL_OBJECTIVES["regression"])
    assert kept.values.size <= 2000
    ends = kept.interval(np.zeros((1, 1)), USUAL_OBJECTIVES["regression"], coverage=0.8)[0, 0]
    np.testing.assert_allclose(ends, np.quantile(values, [0.1, 0.9]), atol=0.01)


def test_intervals_by_weights_are_those_of_repeated_rows():
    rng = np.random.default_rng(0)
    values, counts = rng.normal(size=400), rng.integers(1, 4, size=400)
    weighted = Residuals.from_rows(
        HeldOut(np.zeros((400, 1)), values, counts.astype(float)), USUAL_OBJECTIVES["regression"]
    )
    repeated = np.repeat(values, counts)
    plain = Residuals.from_rows(HeldOut(np.zeros((len(repeated), 1)), repeated, None), USUAL_OBJECTIVES["regression"])
    ends = [each.interval(np.zeros((1, 1)), USUAL_OBJECTIVES["regression"], coverage=0.8) for each in (weighted, plain)]
    np.testing.assert_allclose(*ends, atol=0.05)


@pytest.mark.parametrize("objective", [Gaussian(), Quantile((0.2, 0.8)), Poisson()])
def test_intervals_are_wider_where_the_objective_says_so(objective):
    rng = np.random.default_rng(0)
    spread = np.repeat([1.0, 3.0], 2000)
    mean = 16.0 * spread**2 if objective.name == "poisson" else 10.0 * np.ones(4000)
    predictions = {
        "gaussian": np.stack([mean, spread], axis=1),
        "quantile": np.stack([mean - spread, mean + spread], axis=1),
        "poisson": mean[:, None],
    }[objective.name]
    y = mean + (4.0 if objective.name == "poisson" else 1.0) * spread * rng.normal(size=4000)
    ends = Residuals.from_rows(HeldOut(predictions, y, None), objective).interval(predictions, objective, coverage=0.9)
    inside = (ends[:, 0, 0] <= y) & (y <= ends[:, 0, 1])
    for part in (slice(0, 2000), slice(2000, None)):
        assert inside[part].mean() == pytest.approx(0.9, abs=0.03)


LOGITS = X @ np.array([[2.0, -1.0, 0.0], [0.0, 1.0, -1.0], [0.5, 0.0, 1.0]])
CODES = (LOGITS + RNG.gumbel(size=LOGITS.shape)).argmax(axis=1)
LABELS = np.array(["a", "b", "c"])[CODES]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("objective", ["log_loss", "focal"])
def test_decisions_logarithms_and_probabilities_agree(n_classes, objective):
    y = LABELS if n_classes == 3 else np.where(LABELS == "a", "a", "b")
    model = TabularClassifier(objective=objective, **{**LINEAR, "training": FEW}).fit(X[TRAIN], y[TRAIN])
    probabilities, decisions = model.predict_proba(X[TEST]), model.decision_function(X[TEST])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X[TEST])), probabilities)
    if n_classes == 2:
        assert decisions.shape == (1000,)
        np.testing.assert_allclose(1 / (1 + np.exp(-decisions)), probabilities[:, 1])
        chosen = (decisions > 0).astype(int)
    else:
        assert decisions.shape == (1000, 3)
        chosen = decisions.argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[chosen], model.predict(X[TEST]))
    assert model.history_[0]["metric"] == {"focal": "focal_loss"}.get(objective, objective)
    assert model.score(X[TEST], y[TEST]) > 0.6


def test_a_function_of_logits_and_codes():
    def losses(logits, codes):
        return -torch.log_softmax(logits, dim=-1).gather(-1, codes[..., None])[..., 0]

    settings = {**LINEAR, "training": FEW}
    own = TabularClassifier(objective=losses, **settings).fit(X[TRAIN], LABELS[TRAIN])
    named = TabularClassifier(**settings).fit(X[TRAIN], LABELS[TRAIN])
    np.testing.assert_allclose(own.predict_proba(X), named.predict_proba(X), atol=1e-3)


def test_a_temperature_corrects_probabilities(tmp_path):
    """Labels that are smoothed much make probabilities timid: a temperature below one corrects them."""
    training = TrainingConfig(max_epochs=20, learning_rate=0.02, label_smoothing=0.6, batch_size=128)
    settings = {**LINEAR, "training": training, "validation": 0.3}
    timid = TabularClassifier(**settings).fit(X[TRAIN], LABELS[TRAIN])
    model = TabularClassifier(objective=LogLoss(calibrate="temperature"), **settings).fit(X[TRAIN], LABELS[TRAIN])
    assert timid.temperature_ == 1.0
    assert model.temperature_ < 0.7
    np.testing.assert_array_equal(model.predict(X), timid.predict(X))
    losses = [metrics.log_loss(LABELS[TEST], each.predict_proba(X[TEST])) for each in (model, timid)]
    assert losses[0] < 0.95 * losses[1]
    gaps = [
        np.mean([abs(group["probability"] - group["frequency"]) for group in each.calibration_])
        for each in (model, timid)
    ]
    assert gaps[0] < 0.06 < gaps[1]
    assert sum(group["rows"] for group in model.calibration_) == 600
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.calibration_ == model.calibration_
    np.testing.assert_allclose(
        exported(model, tmp_path / "onnx", X)["probabilities"], model.predict_proba(X), atol=1e-5
    )


def test_temperature_of_known_probabilities():
    rng = np.random.default_rng(0)
    sharp = np.exp(rng.normal(size=(20_000, 3)))
    sharp /= sharp.sum(axis=1, keepdims=True)
    codes = (np.log(sharp) + rng.gumbel(size=sharp.shape)).argmax(axis=1)
    blurred = tempered(sharp, 2.5)
    assert temperature(HeldOut(blurred, codes, None)) == pytest.approx(1 / 2.5, rel=0.05)
    assert temperature(HeldOut(sharp, codes, np.ones(20_000))) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("squared", "objective must be one of 'auto', 'log_loss', 'focal'"),
        (Quantile(), "objective must be one for classification: 'log_loss', 'focal'"),
    ],
)
def test_wrong_objectives_of_a_classifier(objective, message):
    with pytest.raises(ArgumentError, match=message):
        TabularClassifier(objective=objective, **SHORT).fit(X, LABELS)


@pytest.mark.parametrize("kind", [LogLoss, Focal])
def test_no_rows_to_calibrate_by(kind):
    with pytest.raises(ArgumentError, match="calibrate must be None where no rows are held out"):
        TabularClassifier(objective=kind(calibrate="temperature"), **SHORT).fit(X[:8], LABELS[:8])


WEIGHTED = [
    LogLoss("balanced"),
    LogLoss({"b": 20}),
    LogLoss({"a": 0.5, "c": 2.0}, "temperature"),
    Focal(1.0, class_weight="balanced", calibrate="temperature"),
    Focal(class_weight={"b": 3}),
]


@pytest.mark.parametrize("objective", WEIGHTED, ids=str)
def test_weights_of_classes_are_saved_pickled_and_copied(tmp_path, objective):
    rows, labels = X[:600], LABELS[:600]
    model = clone(TabularClassifier(objective=objective, **SHORT)).fit(rows, labels)
    assert (model.temperature_ != 1.0) == (objective.calibrate is not None)
    model.save(tmp_path / "model")
    loaded = knotwork.load(tmp_path / "model", device="cpu")
    copied = pickle.loads(pickle.dumps(model))
    for other in (loaded, copied):
        assert other.objective == objective
        assert other.temperature_ == model.temperature_
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    again = clone(loaded).fit(rows, labels)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    plain = TabularClassifier(objective=type(objective)(), **SHORT).fit(rows, labels)
    assert np.abs(plain.predict_proba(X) - model.predict_proba(X)).max() > 1e-3


def test_weights_of_classes_are_weights_of_their_rows():
    weights = {"a": 1.0, "b": 4.0, "c": 0.25}
    by_class = TabularClassifier(objective=LogLoss(weights), **SHORT).fit(X[:600], LABELS[:600])
    of_rows = np.array([weights[label] for label in LABELS[:600]])
    by_row = TabularClassifier(**SHORT).fit(X[:600], LABELS[:600], sample_weight=of_rows)
    np.testing.assert_array_equal(by_class.predict_proba(X), by_row.predict_proba(X))


def test_labels_of_every_type_have_weights(tmp_path):
    for labels in (CODES, CODES > 0, CODES.astype(float), LABELS):
        weights = dict.fromkeys(np.unique(labels), 2.0)
        model = TabularClassifier(objective=LogLoss(weights), **SHORT).fit(X[:300], labels[:300])
        model.save(tmp_path / "model")
        assert knotwork.load(tmp_path / "model", device="cpu").objective == model.objective


def test_a_function_of_classes_has_weights_too():
    def losses(logits, codes):
        return -torch.log_softmax(logits, dim=-1).gather(-1, codes[..., None])[..., 0]

    settings = {"class_weight": "balanced", "calibrate": "temperature"}
    model = TabularClassifier(objective=losses, **SHORT)
    model.set_params(**{f"objective__{name}": value for name, value in settings.items()}).fit(X[:600], LABELS[:600])
    named = TabularClassifier(objective=LogLoss(**settings), **SHORT).fit(X[:600], LABELS[:600])
    np.testing.assert_allclose(model.predict_proba(X), named.predict_proba(X), atol=1e-3)
    with pytest.raises(ArgumentError, match="class_weight must be None for an objective of numbers"):
        TabularRegressor(objective=absolute_error).set_params(objective__class_weight="balanced")


def test_a_warm_start_may_have_other_weights_of_classes_and_a_temperature():
    model = TabularClassifier(warm_start=True, **SHORT).fit(X[:600], LABELS[:600])
    model.set_params(objective__class_weight="balanced", objective__calibrate="temperature")
    model.fit(X[:600], LABELS[:600])
    assert len(model.history_[0]["loss"]) == 8
    assert model.temperature_ != 1.0
    with pytest.warns(UserWarning, match="warm_start has no effect: columns, classes, objective"):
        model.set_params(objective="focal").fit(X[:600], LABELS[:600])


@pytest.mark.parametrize("name", ["objective__class_weight", "objective__calibrate", "objective__gamma"])
def test_a_grid_search_over_settings_of_an_objective(name):
    values = {
        "objective__class_weight": [None, "balanced", {"a": 5.0}],
        "objective__calibrate": [None, "temperature"],
        "objective__gamma": [0.0, 3.0],
    }[name]
    model = TabularClassifier(objective=Focal(), **SHORT)
    search = GridSearchCV(model, {name: values}, cv=2, scoring="neg_log_loss").fit(X[:300], LABELS[:300])
    assert len(set(search.cv_results_["mean_test_score"])) == len(values)
    assert type(search.best_estimator_.objective) is Focal


def test_a_temperature_of_balanced_classes_is_that_of_their_frequencies(tmp_path):
    """Training weighs the rare class 15 times as much; probabilities are those of the rows nevertheless."""
    random = np.random.default_rng(0)
    numbers = random.normal(size=(3000, 2))
    codes = (random.uniform(size=3000) < 1 / (1 + np.exp(3.5 - 1.5 * numbers[:, 0]))).astype(int)
    training = TrainingConfig(max_epochs=15)
    objective = LogLoss("balanced", calibrate="temperature")
    model = TabularClassifier(
        "Std", objective=objective, training=training, validation=5, random_state=0, device="cpu"
    ).fit(numbers, codes)
    rate = codes.mean()
    assert model.predict_proba(numbers)[:, 1].mean() == pytest.approx(rate, abs=0.25 * rate)
    for group in model.calibration_:
        assert group["frequency"] == pytest.approx(group["probability"], abs=0.1)
    model.save(tmp_path / "model")
    again = knotwork.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(again.predict_proba(numbers), model.predict_proba(numbers))
    weighted = model.set_params(objective=LogLoss("balanced")).fit(numbers, codes)
    assert weighted.predict_proba(numbers)[:, 1].mean() > 3 * rate
    right = np.mean([each["frequency"] for each in weighted.calibration_])  # of rows, not of their weights
    assert right == pytest.approx(weighted.score(numbers, codes), abs=0.05)
