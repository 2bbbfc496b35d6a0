"""Boosted trees of a fit: folds, objectives, time limits, and the choice between them and networks."""

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import knotwork as kw
from knotwork._trees import SYMMETRIC, TREE_NAMES, BoostedTrees, TreeMember, boost
from knotwork.errors import ArgumentError
from knotwork.nn import BACKBONES
from knotwork.training import Member, TrainingTable, make_objective
from tests.estimators.saved_cases import table, target

FEW, MANY = BoostedTrees(rounds=30), BoostedTrees(rounds=200)
WITH_TREES = ["squared", "absolute", "huber", "quantile", kw.Quantile((0.1, 0.5, 0.9)), "poisson", "gamma", "tweedie"]


def numbers(n=400, task="regression", objective=None, n_targets=None, seed=0):
    """Steps of a number, and a category, as training takes them."""
    rng = np.random.default_rng(seed)
    X, codes = rng.normal(size=(n, 2)), rng.integers(1, 4, (n, 1))
    y = np.where(X[:, 0] > 0.3, 2.0, 0.5) + codes[:, 0]
    if n_targets is not None:
        y = np.column_stack([y * (place + 1) for place in range(n_targets)])
    if task == "classification":
        y = (y > 3.0).astype(np.int64)
    about = {"objective": None if objective is None else make_objective(objective, task)}
    return TrainingTable(X, codes, y, task, (4,), 2 * (task == "classification"), **about)


def members(data, n_folds=3, kind=FEW):
    places = np.arange(len(data.target))
    folds = np.array_split(places, n_folds)
    return [TreeMember(np.setdiff1d(places, fold), fold, (), seed=seed, kind=kind) for seed, fold in enumerate(folds)]


def error(data, **settings):
    made = members(data, **settings)
    trained = boost(data, made, n_categorical=1)
    outputs = trained.outputs(data.numbers, data.codes, [member.valid for member in made])
    return trained, np.concatenate(outputs)


@pytest.mark.parametrize("objective", WITH_TREES, ids=str)
def test_every_objective_of_lightgbm_is_learned(objective):
    data = numbers(objective=objective)
    _, predicted = error(data, kind=MANY)
    central = data.goal.central(data.goal.result(predicted.reshape(len(predicted), -1)))
    wanted = data.target
    assert np.mean(np.abs(central - wanted)) < 0.25 * wanted.std()


def test_classes_and_several_targets():
    data = numbers(task="classification")
    _, logits = error(data, kind=MANY)
    assert (logits.argmax(axis=1) == data.target).mean() > 0.95
    data = numbers(n_targets=3)
    trained, predicted = error(data, kind=MANY)
    assert predicted.shape == data.target.shape
    assert np.abs(predicted - data.target).mean() < 0.3
    assert trained.pieces[0].scale.shape == (3, 3)


@pytest.mark.parametrize("objective", ["gaussian", kw.Tweedie(2.5), lambda outputs, target: (outputs - target) ** 2])
def test_other_objectives_have_no_trees(objective):
    for kind in (FEW, SYMMETRIC):
        assert not kind.suits(make_objective(objective, "regression"), 0)
        assert not kind.suits(make_objective("focal", "classification"), 2)
        assert not kind.suits(make_objective("log_loss", "classification"), 1)


def test_targets_of_any_size():
    for factor in (1e300, 1e-300):
        data = numbers()
        data = TrainingTable(data.numbers, data.codes, data.target * factor, "regression", (4,))
        _, predicted = error(data, kind=MANY)
        assert np.isfinite(predicted).all()
        assert np.abs(predicted[:, 0] / factor - numbers().target).mean() < 0.3


def test_the_same_trees_for_any_number_of_threads():
    data, before = numbers(), torch.get_num_threads()
    made = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            made.append(error(data)[1])
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.2}, {"leaves": 4}, {"least_rows": 60}, {"row_share": 0.5}, {"column_share": 0.3},
        {"penalty": 20.0}, {"extra": True}, {"rounds": 5}, {"patience": 1, "learning_rate": 0.5},
    ],
    ids=str,
)  # fmt: skip
def test_every_setting_of_trees_changes_predictions(change):
    data = numbers()
    _, before = error(data, kind=FEW)
    _, after = error(data, kind=replace(FEW, **change))
    assert np.abs(before - after).max() > 1e-6


def test_history_has_losses_of_every_tree():
    trained, _ = error(numbers())
    for history in trained.histories:
        assert len(history.loss) == len(history.score) == history.epochs <= FEW.rounds
        assert history.best_epoch == 1 + np.argmin(history.score)
        assert history.loss[-1] < history.loss[0]
    unmeasured, _ = error(numbers(objective="poisson"))
    assert np.isnan(unmeasured.histories[0].score).all(), "LightGBM's metric is another"


def test_members_without_validation_rows_have_all_rounds():
    data = numbers()
    everything = TreeMember(np.arange(400), np.arange(0), (), kind=FEW)
    (history,) = boost(data, [everything], n_categorical=1).histories
    assert history.best_epoch == history.epochs == FEW.rounds


def test_a_time_limit_is_kept():
    data = numbers(20_000)
    long = BoostedTrees(rounds=100_000, patience=100_000)
    began = time.perf_counter()
    trained = boost(data, members(data, kind=long), n_categorical=1, seconds=1.0)
    assert trained.interrupted
    assert time.perf_counter() - began < 30.0, "of hours"


Y = target(table())
X = table().drop(columns="flat")  # a constant column is a warning


def test_trees_and_networks_share_the_prediction():
    made = {
        members: kw.TabularRegressor(effort="fast", members=members, random_state=0).fit(X, Y)
        for members in ("all", "networks", "trees")
    }
    names = {key: [each["backbone"] for each in model.candidates_] for key, model in made.items()}
    assert names["all"] == names["trees"] + names["networks"]
    assert set(names["trees"]) <= set(TREE_NAMES)
    assert len(set(names["trees"])) == len(names["trees"]) > 0
    assert set(names["networks"]) <= set(BACKBONES)
    scores = {key: model.validation_score_ for key, model in made.items()}
    assert scores["all"] <= 1.001 * min(scores.values()), "weights are chosen by these rows"
    assert made["trees"].encoding_[0] == made["trees"].knots_[0] == {}
    assert made["trees"].backbones_[0] is None
    assert set(made["networks"].encoding_[0]) == set(made["networks"].columns_.numerical_names)


def test_what_trees_are_explained_by(tmp_path):
    model = kw.TabularRegressor(effort="fast", members="trees", random_state=0).fit(X, Y)
    assert np.argmax(model.feature_importances_) in (X.columns.get_loc("age"), X.columns.get_loc("code"))
    given = model.contributions(X[:5])
    np.testing.assert_allclose(given.values.sum(axis=1) + given.baseline, model.predict(X[:5]))
    assert len(model.effects(X[:50])) > 3
    assert "<" in model._repr_html_()
    model.plot_history()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(kw.load(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize("members", ["all", "trees"])
def test_refit_and_warm_start(members):
    refitted = kw.TabularRegressor(effort="fast", members=members, validation=kw.ValidationConfig(refit=True)).fit(X, Y)
    assert len(refitted.weights_) == sum(each["weight"] > 0 for each in refitted.candidates_)
    assert refitted.score(X, Y) > 0.5
    warm = kw.TabularRegressor(effort="fast", members=members, warm_start=True, random_state=0).fit(X, Y)
    before = warm.validation_score_
    assert warm.fit(X, Y).validation_score_ < 1.2 * before


def test_what_is_refused():
    with pytest.raises(ArgumentError, match="members must be one of 'all', 'networks', 'trees'"):
        kw.TabularRegressor(members="forest").fit(X, Y)
    with pytest.raises(ArgumentError, match="members must be left at 'all'.*Leave members out"):
        kw.TabularRegressor("PLE", members="networks").fit(X, Y)
    with pytest.raises(
        ArgumentError,
        match="members must be 'all' or 'networks': there are no boosted trees for the objective 'gaussian'",
    ):
        kw.TabularRegressor(members="trees", objective="gaussian").fit(X, Y)


def test_without_lightgbm_trees_are_symmetric(monkeypatch):
    monkeypatch.setattr("knotwork._trees._lightgbm.find_spec", lambda name: None)
    model = kw.TabularRegressor(effort="fast", random_state=0).fit(X, Y)
    assert {each["backbone"] for each in model.candidates_} - set(BACKBONES) == {SYMMETRIC.name}
    with pytest.raises(ArgumentError, match="no boosted trees for the objective 'absolute'"):
        kw.TabularRegressor(members="trees", objective="absolute").fit(X, Y)


@pytest.mark.slow
def test_without_docstrings_which_lightgbm_needs_trees_are_symmetric():
    code = (
        "import numpy as np, knotwork as kw\n"
        "X = np.random.default_rng(0).normal(size=(100, 2))\n"
        "model = kw.TabularRegressor(effort='fast', members='trees', random_state=0).fit(X, X[:, 0])\n"
        "print(*[each['backbone'] for each in model.candidates_], sep=';')\n"
    )
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split(";") == [SYMMETRIC.name + "\n"]


def test_a_starved_fit_is_as_good_as_trees():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(4000, 10)))
    goal = np.sin(9 * frame[0]) + (frame[1] > 0.5) + frame[2] * frame[3] + 0.1 * rng.normal(size=4000)
    train, test = slice(0, 3000), slice(3000, 4000)
    trees = kw.TabularRegressor(members="trees", random_state=0).fit(frame[train], goal[train])
    with pytest.warns(UserWarning, match="sufficed for boosted trees alone"):
        starved = kw.TabularRegressor(time_limit=1e-3, random_state=0).fit(frame[train], goal[train])
    assert starved.score(frame[test], goal[test]) > 0.8
    assert trees.score(frame[test], goal[test]) > 0.9


def test_networks_that_were_cut_short_are_a_warning():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(size=(20_000, 6)))
    with pytest.warns(UserWarning, match=r"time_limit=0.5 seconds sufficed for \d+ of \d+ epochs of the networks"):
        kw.TabularRegressor(time_limit=0.5, members="networks", random_state=0).fit(frame, frame[0] * frame[1])


def test_tree_members_are_members():
    member = TreeMember(np.arange(3), np.arange(1), (), kind=FEW)
    assert isinstance(member, Member)
    assert isinstance(member.without_rows(), TreeMember)
