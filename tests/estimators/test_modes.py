"""Searches by the validation rows: the winner is the best, weights are used, and nothing stops a fit."""

import functools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.base import clone

import knotwork as kw
from knotwork._preparation.validation import draw_split
from knotwork._recommend import CHOICES, RECOMMENDATIONS, TASKS
from knotwork.errors import ArgumentError
from knotwork.estimators import _steps as steps
from knotwork.estimators._settings import CANDIDATES, plan_choice
from knotwork.nn import FTTransformerConfig, MLPConfig, ResNetConfig
from knotwork.training._objectives import USUAL_OBJECTIVES
from tests.estimators.saved_cases import uneven_weights

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns


TRAINING = kw.TrainingConfig(max_epochs=4, learning_rate=0.01, batch_size=32)
SMALL = {"backbone": MLPConfig(widths=(16,)), "training": TRAINING, "random_state": 0, "device": "cpu"}
ESTIMATORS = (kw.TabularRegressor, kw.TabularClassifier)
MODES = ("validated", "ensemble")
FIRST_STACK = {each for each in CANDIDATES if each == "Std" or each.endswith("@7")}
"""Encodings whose networks are trained first: members of one size form a stack, and scaled ones join the smallest."""


def crossed(first, second):
    """Return pairs of values: each value is in a pair that is quick, and the other pairs are slow."""
    return [
        pytest.param(one, other, marks=[] if i % len(second) == j % len(first) else [pytest.mark.slow])
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]


def make(kind, search, encoding="auto", **parameters):
    return kind(encoding, search=search, **{**SMALL, **parameters})


def outputs(model, X):
    return model.predict(X) if isinstance(model, kw.TabularRegressor) else model.predict_proba(X)[:, -1]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "signal": rng.uniform(-2, 3, 200),
            "holes": np.where(rng.random(200) < 0.2, np.nan, rng.normal(size=200)),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], 200),
        }
    )


@pytest.fixture(scope="module")
def target(frame):
    return (np.sin(4 * frame["signal"]) + (frame["town"] == "Ulm") > 0.3).astype(int).to_numpy()


def split(target, kind, seed=0, share=0.1):
    """Return the rows that an estimator with one member trains on, and those it validates with."""
    random = np.random.RandomState(seed)
    task = "regression" if kind is kw.TabularRegressor else "classification"
    random.randint(2**31 - 1)  # the seed of the network
    return draw_split(np.arange(len(target)), target, task=task, share=share, random=random)


def spec(candidate):
    return candidate["method"] if candidate["size"] is None else f"{candidate['method']}@{candidate['size']}"


def test_candidates_have_all_that_is_recommended():
    for task in TASKS:
        for backbone in CHOICES["backbone"]:
            found = RECOMMENDATIONS[task, backbone, "medium"]
            assert (found.method if found.size is None else f"{found.method}@{found.size}") in CANDIDATES
    assert len(set(CANDIDATES)) == len(CANDIDATES)
    assert not [each for each in CANDIDATES if "LGBM" in each]


@pytest.mark.parametrize(("kind", "n_members"), crossed(ESTIMATORS, [1, 2]))
def test_the_winner_is_the_best_and_as_if_it_had_been_asked_for(kind, n_members, frame, target):
    model = make(kind, "validated", n_members=n_members).fit(frame, target)
    assert [spec(each) for each in model.candidates_] == list(CANDIDATES)
    scores = [each["score"] for each in model.candidates_]
    best = int(np.argmin(scores))
    assert [each["weight"] for each in model.candidates_] == [float(place == best) for place in range(10)]
    assert model.encoding_ == [{"signal": CANDIDATES[best], "holes": CANDIDATES[best]}] * n_members
    np.testing.assert_array_equal(model.weights_, np.full(n_members, 1 / n_members))
    assert len(model.history_) == len(model.knots_) == n_members
    alone = make(kind, None, CANDIDATES[best], n_members=n_members).fit(frame, target)
    np.testing.assert_allclose(outputs(model, frame), outputs(alone, frame), rtol=1e-3, atol=1e-3)
    if n_members == 1:
        assert scores[best] == pytest.approx(model.history_[0]["score"].min(), rel=1e-5)
    assert alone.candidates_ == []


@pytest.mark.parametrize("search", MODES)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_the_validation_rows(search, weighted, frame, target):
    weights = np.random.default_rng(1).uniform(0.1, 5.0, 200) if weighted else None
    model = make(kw.TabularClassifier, search).fit(frame, target, sample_weight=weights)
    _, held = split(target, kw.TabularClassifier)
    own = None if weights is None else weights[held]
    score = metrics.log_loss(target[held], model.predict_proba(frame.iloc[held]), sample_weight=own)
    scores = np.array([each["score"] for each in model.candidates_])
    if search == "validated":
        assert score == pytest.approx(scores.min(), rel=1e-5)
    else:
        assert score < np.median(scores)


def test_scores_of_numbers_are_in_the_units_of_the_target(frame):
    y = 100.0 * np.sin(4 * frame["signal"].to_numpy()) + 1e4
    model = make(kw.TabularRegressor, "validated").fit(frame, y)
    _, held = split(y, kw.TabularRegressor)
    error = metrics.root_mean_squared_error(y[held], model.predict(frame.iloc[held]))
    assert min(each["score"] for each in model.candidates_) == pytest.approx(error, rel=1e-4)


def test_metrics_that_are_better_when_larger(frame, target):
    training = replace(TRAINING, metric="auc")
    model = make(kw.TabularClassifier, "validated", training=training).fit(frame, target)
    scores = [each["score"] for each in model.candidates_]
    assert {each["metric"] for each in model.candidates_} == {"auc"}
    assert 0 <= min(scores) <= max(scores) <= 1
    assert model.candidates_[int(np.argmax(scores))]["weight"] == 1.0


def test_an_encoding_that_clearly_suits_wins():
    rng = np.random.default_rng(0)
    log = rng.normal(size=1100)
    X = np.exp(4 * log)[:, None]  # nearly all values are in the first of many uniform intervals
    y = np.sin(4 * log) + 0.05 * rng.normal(size=1100)
    training = kw.TrainingConfig(max_epochs=25, learning_rate=0.03, batch_size=128)
    chosen = make(kw.TabularRegressor, "validated", training=training).fit(X[:600], y[:600])
    scores = {spec(each): each["score"] for each in chosen.candidates_}
    blind, seeing = ("Std", "BS-U@15", "BS-Grad-U@30"), ("PLE@15", "PLE@30", "IS-Q@15", "IS-Q@30", "IS-CART@30")
    assert chosen.encoding_[0][0] in seeing
    assert min(scores[each] for each in blind) > 1.5 * max(scores[each] for each in seeing)
    together = make(kw.TabularRegressor, "ensemble", training=training).fit(X[:600], y[:600])
    uniform = make(kw.TabularRegressor, None, "BS-U@15", training=training).fit(X[:600], y[:600])
    scored = [metrics.r2_score(y[600:], model.predict(X[600:])) for model in (uniform, chosen, together)]
    assert scored[0] < 0.3
    assert min(scored[1:]) > 0.7
    assert not {each[0] for each in together.encoding_} & set(blind)


@pytest.mark.parametrize(("kind", "n_members"), crossed(ESTIMATORS, [1, 2]))
def test_an_ensemble_predicts_by_its_weights(monkeypatch, kind, n_members, frame, target):
    monkeypatch.setattr("knotwork.estimators._combination.bagged_weights", uneven_weights)
    model = make(kind, "ensemble", n_members=n_members).fit(frame, target)
    given = np.arange(1, 10 * n_members + 1) % 4 / (np.arange(1, 10 * n_members + 1) % 4).sum()
    kept = np.flatnonzero(given)
    weights = model.weights_
    np.testing.assert_array_equal(weights, given[kept])
    assert [each["signal"] for each in model.encoding_] == [CANDIDATES[place // n_members] for place in kept]
    np.testing.assert_allclose(
        [each["weight"] for each in model.candidates_], given.reshape(10, n_members).sum(axis=1), rtol=1e-12
    )
    assert len(weights) == len(model.history_) == len(model.knots_)
    each = model._model.outputs(model.columns_.read(frame))
    own = each[..., 0] if kind is kw.TabularRegressor else 1 / (1 + np.exp(each[..., 0] - each[..., 1]))
    np.testing.assert_allclose(outputs(model, frame), weights @ own, rtol=1e-9, atol=1e-12)
    for knots, encoding in zip(model.knots_, model.encoding_, strict=True):
        size = encoding["signal"].partition("@")[2]
        assert (len(knots["signal"]) > 0) == bool(size)


@pytest.mark.parametrize(("kind", "search"), crossed(ESTIMATORS, MODES))
def test_a_seed_decides(kind, search, frame, target):
    first, again, other = (make(kind, search, random_state=seed).fit(frame, target) for seed in (3, 3, 4))
    np.testing.assert_array_equal(outputs(first, frame), outputs(again, frame))
    np.testing.assert_array_equal(first.weights_, again.weights_)
    assert [each["score"] for each in first.candidates_] == [each["score"] for each in again.candidates_]
    assert np.abs(outputs(first, frame) - outputs(other, frame)).max() > 1e-4


OTHERS = {
    "backbone": MLPConfig(widths=(17,)),
    "encoding": ["Std", "BS-Q@5", "PLE@5"],
    "n_members": 2,
    "columns": kw.ColumnConfig(categories="code"),
    "validation": 0.4,
    "training": replace(TRAINING, learning_rate=0.02),
    "random_state": 1,
}


@pytest.fixture(scope="module")
def usual_models(frame, target):
    """Return a function of a search that fits a usual model once."""
    return functools.cache(lambda search: make(kw.TabularRegressor, search).fit(frame, target))


@pytest.mark.parametrize(
    ("search", "name"),
    [
        # Both modes read these parameters by the same code, but for the members of an ensemble.
        pytest.param(
            mode, name, marks=[pytest.mark.slow] * (mode == "ensemble" and name not in ("n_members", "encoding"))
        )
        for mode in MODES
        for name in OTHERS
    ],
)
def test_every_parameter_has_an_effect(search, name, usual_models, frame, target):
    usual = usual_models(search)
    other = make(kw.TabularRegressor, search, **{name: OTHERS[name]}).fit(frame, target)
    assert np.abs(usual.predict(frame) - other.predict(frame)).max() > 1e-4
    assert [each["score"] for each in usual.candidates_] != [each["score"] for each in other.candidates_]


@pytest.mark.parametrize("search", ["validated", pytest.param("ensemble", marks=pytest.mark.slow)])
def test_class_weights_have_an_effect(search, frame):
    rare = (np.arange(200) % 10 == 0).astype(int)
    usual = make(kw.TabularClassifier, search).fit(frame, rare)
    other = make(kw.TabularClassifier, search, objective=kw.LogLoss("balanced")).fit(frame, rare)
    assert outputs(other, frame).mean() > outputs(usual, frame).mean() + 0.1


@pytest.mark.parametrize("search", MODES)
def test_of_a_list_each_method_is_tried_once(search, frame, target):
    methods = ["Std", "BS-Q@6", "PLE", "BS-Q@6", "PLE@15", "IS-Q@6+L3x"]
    model = make(kw.TabularRegressor, search, methods).fit(frame, target)
    assert [spec(each) for each in model.candidates_] == ["Std", "BS-Q@6", "PLE@15", "IS-Q+L3x@6"]
    assert {each["signal"] for each in model.encoding_} <= {"Std", "BS-Q@6", "PLE@15", "IS-Q@6+L3x"}
    again = make(kw.TabularRegressor, search, tuple(methods)).fit(frame, target)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


def test_a_list_of_one_is_that_encoding(frame, target):
    model, alone = (
        make(kw.TabularRegressor, *each).fit(frame, target) for each in (("validated", ["BS-Q@6"]), (None, "BS-Q@6"))
    )
    np.testing.assert_array_equal(model.predict(frame), alone.predict(frame))


@pytest.mark.parametrize(
    ("backbone", "search"),
    [
        pytest.param(backbone, mode, marks=[] if (mode == "ensemble") == (backbone == "ft") else [pytest.mark.slow])
        for backbone in ("resnet", "ft", "coordinate")
        for mode in MODES
    ],
)
def test_other_backbones(backbone, search, frame, target):
    config = {
        "resnet": ResNetConfig(width=8, n_blocks=1, hidden=8),
        "ft": FTTransformerConfig(d_token=8, n_blocks=1, n_heads=2),
        "coordinate": FTTransformerConfig(tokens="coordinate", d_token=8, n_blocks=1, n_heads=2),
    }[backbone]
    model = make(
        kw.TabularClassifier, search, ["Std", "BS-Q@5"], backbone=config, training=replace(TRAINING, max_epochs=2)
    )
    shares = model.fit(frame, target).predict_proba(frame)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.ptp(shares[:, 0]) > 1e-3


@pytest.mark.parametrize(("kind", "search"), crossed(ESTIMATORS, MODES))
@pytest.mark.parametrize("n_rows", [1, 2, 9, 10, 13])
def test_tiny_tables(kind, search, n_rows, frame, target):
    model = make(kind, search).fit(frame[:n_rows], target[:n_rows])
    assert np.isfinite(outputs(model, frame)).all()
    assert len(model.candidates_) == 10
    assert np.isfinite(model.feature_importances_).all()


@pytest.mark.parametrize(("metric", "search"), crossed(["log_loss", "auc"], MODES))
def test_one_class(search, metric, frame):
    model = make(kw.TabularClassifier, search, training=replace(TRAINING, metric=metric))
    model.fit(frame, np.full(200, "only"))
    np.testing.assert_allclose(model.predict_proba(frame), 1.0)
    assert set(model.predict(frame)) == {"only"}


@pytest.mark.parametrize(("kind", "search"), crossed(ESTIMATORS, MODES))
def test_without_numbers_there_is_one_candidate(kind, search, frame, target):
    model = make(kind, search).fit(frame[["town"]], target)
    plain = make(kind, None, "recommended").fit(frame[["town"]], target)
    np.testing.assert_array_equal(outputs(model, frame[["town"]]), outputs(plain, frame[["town"]]))
    (only,) = model.candidates_
    assert (only["method"], only["size"]) == (None, None)
    assert (only["weight"], model.encoding_, model.knots_) == (1.0, [{}], [{}])


@pytest.mark.parametrize("search", MODES)
def test_a_constant_and_an_empty_column(search, frame, target):
    X = frame.assign(same=3.0, nothing=np.nan)
    model = make(kw.TabularRegressor, search).fit(X, target)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.predict(X.assign(same=-1e300, nothing=1.0))).all()


@pytest.mark.parametrize("search", MODES)
def test_time_that_is_too_short_still_gives_a_model(search, frame, target):
    training = kw.TrainingConfig(max_epochs=1_000_000, patience=1_000_000, time_limit=1e-6)
    model = make(kw.TabularRegressor, search, training=training).fit(frame, target)
    assert {len(history["loss"]) for history in model.history_} == {1}
    assert model.trained_.interrupted
    tried = [np.isfinite(each["score"]) for each in model.candidates_]
    if search == "validated":
        assert all(tried)
    else:  # stacks of an ensemble that have not begun in time are left out
        assert tried == [each in FIRST_STACK for each in CANDIDATES]
        assert {each["signal"] for each in model.encoding_} <= FIRST_STACK
    assert np.isfinite(model.predict(frame)).all()


def spoil(monkeypatch, failed):
    """Let members fail as if their loss had become NaN; return what train was called with."""
    calls, original = [], steps.train_spread

    def spoiled(table, members, *others, **settings):
        trained = original(table, members, *others, **settings)
        histories = [
            replace(each, best_epoch=0) if place in failed else each for place, each in enumerate(trained.histories)
        ]
        calls.append(members)
        return replace(trained, histories=histories)

    monkeypatch.setattr(steps, "train_spread", spoiled)
    return calls


@pytest.mark.parametrize(("search", "n_members"), crossed(MODES, [1, 2]))
def test_candidates_that_fail_are_left_out(monkeypatch, tmp_path, search, n_members, frame, target):
    best = make(kw.TabularRegressor, "validated", n_members=n_members).fit(frame, target).encoding_[0]["signal"]
    place = CANDIDATES.index(best)
    spoil(monkeypatch, set(range(place * n_members, (place + 1) * n_members)))
    model = make(kw.TabularRegressor, search, n_members=n_members).fit(frame, target)
    assert best not in {each["signal"] for each in model.encoding_}
    assert np.isnan(model.candidates_[place]["score"])
    assert model.candidates_[place]["weight"] == 0.0
    model.save(tmp_path / "model")
    loaded = kw.load(tmp_path / "model", device="cpu").candidates_
    assert np.isnan(loaded[place].pop("score"))
    del model.candidates_[place]["score"]
    assert loaded == model.candidates_


@pytest.mark.parametrize("search", MODES)
def test_if_all_candidates_fail_that_is_said(monkeypatch, search, frame, target):
    spoil(monkeypatch, set(range(10)))
    with pytest.raises(ArgumentError, match="training must lead to finite scores.*smaller learning rate"):
        make(kw.TabularRegressor, search).fit(frame, target)


@pytest.mark.parametrize("search", MODES)
def test_after_ctrl_c_those_that_were_trained_count(monkeypatch, search, frame, target):
    original = steps.train_spread

    def stop(report):
        if (report.stack, report.epoch) == (1, 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(
        steps, "train_spread", lambda *given, **settings: original(*given, **{**settings, "report": stop})
    )
    with pytest.warns(UserWarning, match="stopped by Ctrl-C"):
        model = make(kw.TabularRegressor, search).fit(frame, target)
    tried = [np.isfinite(each["score"]) for each in model.candidates_]
    assert tried == [each == "Std" or int(each.partition("@")[2]) < 30 for each in CANDIDATES]
    assert np.isfinite(model.predict(frame)).all()


@pytest.mark.parametrize("search", ["ensemble", pytest.param("validated", marks=pytest.mark.slow)])
def test_importances_find_the_column_that_matters(search):
    X = np.random.default_rng(0).normal(size=(250, 3))
    y = (X[:, 2] > 0).astype(float)
    model = make(kw.TabularRegressor, search, training=replace(TRAINING, max_epochs=12)).fit(X, y)
    assert model.feature_importances_.argmax() == 2


def test_fitting_again_forgets_what_was_before(frame, target):
    model = make(kw.TabularRegressor, "ensemble").fit(frame, target)
    before = model.feature_importances_
    model.set_params(search=None, encoding="BS-Q@7").fit(frame, target)
    assert (model.candidates_, model.weights_.tolist()) == ([], [1.0])
    assert model.encoding_ == [{"signal": "BS-Q@7", "holes": "BS-Q@7"}]
    assert not np.array_equal(model.feature_importances_, before)
    again = clone(model).set_params(encoding=model.encoding_[0]).fit(frame, target)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_recommended_is_auto(kind, frame, target):
    usual, named, mapped = (
        make(kind, None, encoding).fit(frame, target)
        for encoding in ("auto", "recommended", {"signal": "recommended", "holes": "auto"})
    )
    np.testing.assert_array_equal(outputs(usual, frame), outputs(named, frame))
    np.testing.assert_array_equal(outputs(usual, frame), outputs(mapped, frame))
    assert usual.encoding_ == named.encoding_


@pytest.mark.parametrize(
    ("search", "encoding", "message"),
    [
        (None, {"signal": "validated"}, "encoding must name a method.*Write search='validated' to choose among"),
        (None, "ensemble", "encoding must name a method.*Write search='ensemble' to choose among methods"),
        (None, "per-feature", "Write search='per-feature'"),
        (None, "ensemble@7", "encoding must name a method, got encoding='ensemble@7'. Write search='ensemble'"),
        (None, ["Std", "PLE"], "encoding must be one for all columns.*Set search to 'validated', 'ensemble'"),
        (None, [], "encoding must be one for all columns"),
        (None, np.array(["Std", "PLE"]), "encoding must be 'auto', 'recommended', the name of a method, or a mapping"),
        ("validate", "auto", "search must be one of 'validated', 'ensemble', 'per-feature'.*Did you mean 'validated'"),
        (True, "auto", "search must be one of"),
        ("validated", "BS-Q@7", "encoding must leave a choice if search is given, got encoding='BS-Q@7'. Give a list"),
        ("ensemble", "recommended", "encoding must leave a choice"),
        ("per-feature", {"signal": "Std"}, "encoding must leave a choice"),
        ("ensemble", np.array(["Std", "PLE"]), "encoding must leave a choice"),
        ("ensemble", [], "encoding must name at least one method"),
        ("validated", ["Std", "trees"], "encoding must be one of .*got encoding='trees'"),
        ("per-feature", ["Std", 3], "encoding must name at least one method, and methods only"),
        ("validated", ["BS-Q@2"], "size must be an integer of at least 4"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_words_are_named(search, encoding, message, frame, target):
    with pytest.raises((ValueError, TypeError), match=message):
        make(kw.TabularRegressor, search, encoding).fit(frame, target)


def test_what_is_tried_is_what_is_listed():
    about = {"names": ["a", "b"], "objective": USUAL_OBJECTIVES["regression"], "training": None, "n_members": 1}
    plan = plan_choice("auto", "ensemble", MLPConfig(), **about)
    assert [tuple(map(str, recipe.encodings)) for recipe in plan.recipes] == [(each, each) for each in CANDIDATES]
