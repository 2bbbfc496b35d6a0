"""What an effort trains, when it decides, and fits on folds that are stopped or cut short."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

import knotwork as kw
from knotwork.estimators import _steps as steps
from knotwork.estimators._plans import DEVICE_EFFORTS, EFFORTS, _seconds, plan_effort
from knotwork.nn import MLPConfig
from knotwork.training import TrainingTable
from tests.estimators.saved_cases import of_all_backbones, plan_of_all_backbones, table, target

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns


DEVICES = ("cpu", "cuda")
ESTIMATORS = (kw.TabularRegressor, kw.TabularClassifier)


def make_table(n_rows=2000, n_columns=8, task="regression", n_categorical=0):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(n_rows, n_categorical))
    values = rng.normal(size=n_rows) if task == "regression" else rng.integers(0, 2, n_rows)
    n_classes = 0 if task == "regression" else 2
    return TrainingTable(rng.normal(size=(n_rows, n_columns)), codes, values, task, (3,) * n_categorical, n_classes)


def plan(effort="balanced", data=None, device="cpu", time_limit=None, members="networks"):
    data = make_table() if data is None else data
    return plan_effort(effort, data, device=device, time_limit=time_limit, members=members)


def work(plan, data=None):
    """Return the number of products of weights, in an arbitrary unit."""
    return _seconds(plan.recipes, make_table() if data is None else data, plan.n_folds, DEVICE_EFFORTS["cpu"])


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_every_effort_is_a_choice_among_networks_on_folds(effort, device, task):
    made = plan(effort, make_table(task=task), device)
    assert made.search == "ensemble"
    assert made.n_folds >= 3
    assert 1 <= made.most_kept <= len(made.recipes)
    assert len({(recipe.encodings, recipe.backbone) for recipe in made.recipes}) == len(made.recipes)
    assert len(made.recipes) > 1 or (effort, device) == ("fast", "cpu")
    for recipe in made.recipes:
        assert len(recipe.encodings) == 8
        assert recipe.config.metric_for(task).task == task
        assert recipe.config.time_limit is None, "the time limit is that of the whole fit"


@pytest.mark.parametrize("device", DEVICES)
def test_more_effort_is_more_work(device):
    amounts = [work(plan(effort, device=device)) for effort in ("fast", "balanced", "best")]
    assert amounts[0] < amounts[1] < amounts[2]


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("device", DEVICES)
def test_less_time_is_less_work(effort, device):
    data = make_table(50_000, 20)
    plans = [plan(effort, data, device, limit) for limit in (None, 1e6, 30.0, 3.0, 0.1, 1e-6)]
    amounts = [work(each, data) for each in plans]
    assert amounts[0] == amounts[1]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[-1] < amounts[0]
    quick = plan("fast", data, device).recipes[0]
    assert [recipe.encodings for recipe in plans[-1].recipes] == [quick.encodings], "the first of the smallest effort"


@pytest.mark.parametrize("limit", [100.0, 30.0, 10.0, 5.0, 2.0])
def test_several_kinds_are_trained_properly_or_one(limit):
    """What is cut short is worse than fewer kinds, also if it is more work."""
    data = make_table(20_000, 20)
    limited, efforts = plan("best", data, time_limit=limit), DEVICE_EFFORTS["cpu"]
    trained = [(recipe.backbone, recipe.config.max_epochs) for recipe in limited.recipes]
    prefixes = [
        (folds, [(kind.backbone, kind.epochs) for kind in kinds[: len(trained)]])
        for effort, kinds in efforts.kinds.items()
        for folds in efforts.folds[effort]
    ]
    assert len(trained) == 1 or (limited.n_folds, trained) in prefixes


def test_small_tables_have_more_folds():
    for effort, (most, *_, fewest) in (("fast", (6, 4)), ("balanced", (8, 5))):
        shapes = ((1000, 10), (30_000, 50))
        folds = [plan(effort, make_table(*shape), members="all").n_folds for shape in shapes]
        assert folds == [most, fewest]
    assert plan(data=make_table(1000, 10), members="trees").n_folds == 8


def test_beside_trees_networks_are_left_out_rather_than_cut_to_nothing():
    data = make_table(20_000, 20)
    assert not any(not each.has_trees for each in plan(data=data, time_limit=0.1, members="all").recipes)
    assert any(not each.has_trees for each in plan(data=data, time_limit=60.0, members="all").recipes)
    assert plan(data=data, time_limit=0.1).recipes, "without trees some network is trained"


def test_a_slow_machine_trains_less():
    data = make_table(20_000, 20)
    amounts = [
        work(plan_effort("balanced", data, device="cpu", time_limit=60.0, members="networks", speed=speed), data)
        for speed in (1.0, 0.3, 0.1)
    ]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0] > amounts[-1]
    unlimited = [plan_effort("balanced", data, device="cpu", time_limit=None, speed=speed) for speed in (1.0, 0.1)]
    assert unlimited[0] == unlimited[1], "results without a limit do not depend on the machine"


def test_trees_come_first_and_suit_table_and_time():
    trees = [each for each in plan("balanced", members="all").recipes if each.has_trees]
    assert trees
    assert plan("balanced", members="all").recipes[: len(trees)] == trees
    assert plan("balanced", members="trees").recipes == trees
    assert not any(each.has_trees for each in plan(members="networks").recipes)
    assert not any(each.has_trees for each in plan(data=make_table(59), members="all").recipes)
    few, many = (
        plan(data=make_table(n, 200), members="trees", time_limit=2.0).recipes[0].backbone for n in (60_000, 600)
    )
    assert few.rounds < many.rounds
    assert few.learning_rate > many.learning_rate


@pytest.mark.parametrize("effort", EFFORTS)
def test_large_tables_have_fewer_epochs_and_larger_batches(effort):
    small, large = (plan(effort, make_table(n_rows, 30)) for n_rows in (1000, 400_000))
    epochs = [sum(recipe.config.max_epochs for recipe in each.recipes) for each in (small, large)]
    assert epochs[1] < epochs[0] or effort != "balanced", "the time of the others grows with the rows"
    assert large.recipes[0].config.batch_size > small.recipes[0].config.batch_size


@pytest.mark.parametrize("n_rows", [1, 12, 59])
def test_few_rows_have_one_validation_part(n_rows):
    assert plan(data=make_table(n_rows)).n_folds == 1


@pytest.mark.parametrize("effort", EFFORTS)
def test_tables_without_numbers(effort):
    made = plan(effort, make_table(n_columns=0, n_categorical=2))
    assert {recipe.encodings for recipe in made.recipes} == {()}


SHORT = kw.TrainingConfig(max_epochs=2)
X = np.random.default_rng(0).normal(size=(80, 2))
y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("given", "n_networks"),
    [
        ({"encoding": "BS-Q@7"}, 1),
        ({"encoding": "recommended"}, 1),
        ({"encoding": {0: "Std"}}, 1),
        ({"backbone": "mlp"}, 1),
        ({"backbone": MLPConfig(widths=(8,))}, 1),
        ({"n_members": 1}, 1),
        ({"n_members": 3}, 3),
        ({"search": "per-feature"}, 1),
        ({"training": SHORT}, 1),
    ],
    ids=str,
)
def test_if_something_is_named_exactly_that_is_trained(monkeypatch, kind, given, n_networks):
    monkeypatch.setattr(
        "knotwork.estimators._settings.plan_effort", lambda *_, **settings: pytest.fail("effort has decided")
    )
    monkeypatch.setattr(MLPConfig, "training", lambda self, task: {"max_epochs": 2})
    model = kind(**given, device="cpu", random_state=0).fit(X, y)
    assert len(model.history_) == len(model.backbones_) == n_networks
    assert model.candidates_ == []
    assert model.backbones_[0] == given.get("backbone", MLPConfig()) or given == {"backbone": "mlp"}
    recommended = kw.recommend(model._task, "mlp", budget="medium")
    wanted = {"BS-Q@7": "BS-Q@7"}.get(str(given.get("encoding")), f"{recommended.method}@{recommended.size}")
    assert model.encoding_[0][1] == wanted or "search" in given


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_otherwise_the_effort_decides(monkeypatch, kind):
    calls = []

    def watched(effort, data, **settings):
        calls.append((effort, settings))
        return plan_of_all_backbones(effort, data)

    monkeypatch.setattr("knotwork.estimators._settings.plan_effort", watched)
    model = kind(effort="fast", time_limit=60, columns=kw.ColumnConfig(categories="code"), device="cpu", random_state=0)
    model.fit(X, y)
    given = {"device": "cpu", "time_limit": 60, "n_folds": None, "members": "all", "n_categorical": 0}
    ((effort, settings),) = calls
    assert settings.pop("speed") > 0.0
    assert (effort, settings) == ("fast", given)
    assert len(model.candidates_) == 5
    assert sum(each["weight"] for each in model.candidates_) == pytest.approx(1.0)


@pytest.fixture
def trained(monkeypatch):
    """Return what `train` was called with, and its result."""
    calls, original = [], steps.train_spread

    def watched(data, members, *others, **settings):
        calls.append((data, members, others, settings, original(data, members, *others, **settings)))
        return calls[-1][-1]

    monkeypatch.setattr(steps, "train_spread", watched)
    return calls


@pytest.mark.parametrize("kind", ["number", "text"])
def test_no_row_is_lost_and_scores_are_out_of_fold(monkeypatch, trained, kind):
    model = of_all_backbones(monkeypatch, kind)
    ((data, members, _, _, result),) = trained
    every, n_rows = result.outputs(data.numbers, data.codes), len(data.target)
    for place in range(0, len(members), 2):
        pair = members[place : place + 2]
        np.testing.assert_array_equal(np.sort(np.concatenate([member.valid for member in pair])), np.arange(n_rows))
        assert not any(np.intersect1d(member.train, member.valid).size for member in pair)
        own = np.empty_like(every[place])
        for member, outputs in zip(pair, every[place : place + 2], strict=True):
            own[member.valid] = outputs[member.valid]
        if kind == "number":
            score = metrics.root_mean_squared_error(data.target, own)
        else:
            shares = np.exp(own) / np.exp(own).sum(axis=1, keepdims=True)
            score = metrics.log_loss(data.target, shares)
        assert model.candidates_[place // 2]["score"] == pytest.approx(score, rel=0.05)


def test_the_validation_score_is_in_the_units_of_the_target(monkeypatch, tmp_path):
    only = {"weights": lambda rows, seed: np.eye(5)[1]}
    model = of_all_backbones(monkeypatch, **only)
    times = of_all_backbones(monkeypatch, **only).fit(table(), 10.0 * target(table()) + 1e4)
    assert times.validation_score_ == pytest.approx(10.0 * model.validation_score_, rel=1e-3)
    assert times.candidates_[1]["score"] == pytest.approx(10.0 * model.candidates_[1]["score"], rel=1e-3)
    for one, other in zip(times.history_, model.history_, strict=True):
        np.testing.assert_allclose(one["score"], 10.0 * other["score"], rtol=1e-3)
    model.save(tmp_path / "model")
    assert kw.load(tmp_path / "model", device="cpu").validation_score_ == model.validation_score_


def stop_at(monkeypatch, stack, epoch):
    original = steps.train_spread

    def stop(report):
        if (report.stack, report.epoch) == (stack, epoch):
            raise KeyboardInterrupt

    monkeypatch.setattr(
        steps, "train_spread", lambda *given, **settings: original(*given, **{**settings, "report": stop})
    )


def test_ctrl_c_in_the_second_stack_gives_the_best_so_far(monkeypatch):
    stop_at(monkeypatch, 1, 1)
    with pytest.warns(UserWarning, match="stopped by Ctrl-C"):
        model = of_all_backbones(monkeypatch, weights=lambda rows, seed: np.ones(len(rows.predictions)) / 2)
    assert model.trained_.interrupted
    assert [np.isfinite(each["score"]) for each in model.candidates_] == [True, True, False, False, False]
    assert [each["weight"] for each in model.candidates_] == [0.5, 0.5, 0.0, 0.0, 0.0]
    assert [len(history["loss"]) for history in model.history_] == [2, 2, 1, 1]
    assert np.isfinite(model.predict(table())).all()


def test_a_time_limit_reaches_the_engine(monkeypatch, trained):
    of_all_backbones(monkeypatch, time_limit=3000.0)
    ((_, _, (_, config), settings, _),) = trained
    assert 2000.0 < config.time_limit < 3000.0, "what the preparation has taken is not left"
    assert settings["ensemble"]


@pytest.mark.parametrize("failed", [{0}, {0, 3}, {0, 2, 4, 6, 8}])
def test_folds_that_fail_do_not_stop_a_fit(monkeypatch, failed):
    original = steps.train_spread

    def spoiled(*given, **settings):
        result = original(*given, **settings)
        histories = [
            replace(each, best_epoch=0) if place in failed else each for place, each in enumerate(result.histories)
        ]
        return replace(result, histories=histories)

    monkeypatch.setattr(steps, "train_spread", spoiled)
    model = of_all_backbones(
        monkeypatch, weights=lambda rows, seed: np.ones(len(rows.predictions)) / len(rows.predictions)
    )
    complete = [{2 * place, 2 * place + 1}.isdisjoint(failed) for place in range(5)]
    assert [np.isfinite(each["score"]) for each in model.candidates_] == complete
    if any(complete):
        assert [each["weight"] > 0 for each in model.candidates_] == complete
    else:
        assert len(model.weights_) == 5
        assert np.isnan(model.validation_score_)
    assert np.isfinite(model.predict(table())).all()
    assert np.isfinite(model.feature_importances_).all()


def test_a_seed_decides(monkeypatch):
    monkeypatch.setattr("knotwork.estimators._settings.plan_effort", plan_of_all_backbones)
    first, again, other = (
        kw.TabularRegressor(device="cpu", random_state=seed).fit(X, y.astype(float)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.predict(X), again.predict(X))
    np.testing.assert_array_equal(first.weights_, again.weights_)
    assert np.abs(first.predict(X) - other.predict(X)).max() > 1e-4


@pytest.mark.parametrize("effort", EFFORTS)
def test_very_wide_tables_with_little_time_have_no_encoding(effort):
    wide = make_table(n_rows=1000, n_columns=2000)
    (recipe,) = plan(effort, wide, time_limit=4.0).recipes
    assert {encoding.method for encoding in recipe.encodings} == {"Robust"}
    assert work(plan(effort, wide, time_limit=4.0), wide) <= 4.0
    narrow = plan(effort, make_table(n_rows=1000, n_columns=200), time_limit=1e-3)
    assert {each.encodings[0].method for each in narrow.recipes} == {"PLE-Q+L4x"}
