"""Validation as the user has it: groups, time, splitters, given rows; refit, callbacks, the log, warm start."""

import logging
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import metrics
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_val_score,
)

import knotwork as kw
from knotwork.encoders import Encoding
from knotwork.estimators import _steps as steps
from knotwork.estimators._plans import FitPlan, Recipe
from knotwork.nn import MLPConfig
from knotwork.training import EpochReport, StopTraining

rng = np.random.default_rng(0)
N = 120
X = rng.normal(size=(N, 3))
y = 500.0 + 100.0 * (np.sin(2 * X[:, 0]) + X[:, 1])
LABELS = np.where(y > 520.0, "high", "low")
GROUPS = np.repeat(np.arange(24), 5)[rng.permutation(N)]
SMALL = {
    "backbone": MLPConfig(widths=(8,)),
    "training": kw.TrainingConfig(max_epochs=4, learning_rate=0.02, batch_size=32),
}
SETTINGS = {"device": "cpu", "random_state": 0}
REFIT = kw.ValidationConfig(refit=True)
KINDS = [kw.TabularRegressor, kw.TabularClassifier]


def plan_small(effort, table, *, n_folds=None, **_):
    """Return two kinds of small networks, on three folds unless the user says otherwise."""
    choices = [(Encoding.parse(spec),) * table.numbers.shape[1] for spec in ("BS-U@5", "Std")]
    recipes = [Recipe(choice, *SMALL.values()) for choice in choices]
    return FitPlan(recipes, "ensemble", n_folds=n_folds or 3)


@pytest.fixture
def trained(monkeypatch):
    """Return the members and the results of all calls of `train`; an effort is `plan_small`."""
    calls, original = [], steps.train_spread

    def watched(data, members, *others, **settings):
        calls.append((data, members, original(data, members, *others, **settings)))
        return calls[-1][-1]

    monkeypatch.setattr(steps, "train_spread", watched)
    monkeypatch.setattr("knotwork.estimators._settings.plan_effort", plan_small)
    return calls


BOTH = [
    (kw.TabularRegressor, "choice"),
    (kw.TabularClassifier, "effort"),
    pytest.param(kw.TabularClassifier, "choice", marks=pytest.mark.slow),
    pytest.param(kw.TabularRegressor, "effort", marks=pytest.mark.slow),
]
"""Estimators by a choice and by an effort, of which a half is slow."""


def make(kind, by="choice", **parameters):
    chosen = {"encoding": "BS-U@5", **SMALL} if by == "choice" else {}
    return kind(**{**chosen, **SETTINGS, **parameters})


def target(kind):
    return y if kind is kw.TabularRegressor else LABELS


def parts(calls):
    return [(member.train, member.valid) for member in calls[0][1]]


@pytest.mark.parametrize(("kind", "by"), BOTH)
@pytest.mark.parametrize("validation", [None, 0.3, 4, GroupKFold(3), ShuffleSplit(2, random_state=0), "time"])
def test_no_group_is_on_both_sides(trained, kind, by, validation):
    if isinstance(validation, ShuffleSplit):
        with pytest.raises(ValueError, match="validation must keep groups together, .* GroupKFold"):
            make(kind, by, validation=validation).fit(X, target(kind), groups=GROUPS)
        return
    groups = np.repeat(np.arange(24), 5) if validation == "time" else GROUPS
    make(kind, by, validation=validation).fit(X, target(kind), groups=groups)
    for train, valid in parts(trained):
        assert len(train)
        assert len(valid)
        assert not np.intersect1d(groups[train], groups[valid]).size
    folds = {None: 3 if by == "effort" else 1, 4: 4}.get(validation, 3 if isinstance(validation, GroupKFold) else 1)
    if folds > 1:
        held = np.concatenate([valid for _, valid in parts(trained)[:folds]])
        np.testing.assert_array_equal(np.sort(held), np.arange(N))
    elif validation != "time":
        share = len(parts(trained)[0][1]) / N
        assert share == pytest.approx(validation or 0.1, abs=0.05)


@pytest.mark.parametrize("validation", [0.25, 4])
def test_groups_keep_the_shares_of_classes(trained, validation):
    rare = np.arange(N) % 12 == 0
    groups = np.arange(N) // 3
    make(kw.TabularClassifier, validation=validation).fit(X, rare, groups=groups)
    for train, valid in parts(trained):
        assert rare[train].sum() >= 5
        assert 1 <= rare[valid].sum() <= 4


def test_a_class_of_one_group_is_never_held_out_wholly(trained):
    labels = np.where(GROUPS == 3, "only here", LABELS)
    for seed in range(4):
        make(kw.TabularClassifier, random_state=seed, validation=0.4).fit(X, labels, groups=GROUPS)
    for _, members, _ in trained:
        assert 3 in GROUPS[members[0].train]


@pytest.mark.parametrize("of", [list, pd.Series, pl.Series, pd.Categorical])
def test_groups_of_any_type_are_the_same(trained, of):
    names = [f"day {group}" for group in GROUPS]
    for groups in (GROUPS, of(names)):
        make(kw.TabularRegressor).fit(X, y, groups=groups)
    for _, (member,), _ in trained:
        rows = member.valid
        assert 0 < len(rows) < N
        others = np.setdiff1d(np.arange(N), rows)
        assert not np.intersect1d(GROUPS[rows], GROUPS[others]).size


@pytest.mark.parametrize(
    ("groups", "validation", "message"),
    [
        (np.zeros(N), None, "groups must name at least two groups, got groups=1"),
        (GROUPS[:-1], None, "groups must have one label for each of 120 rows of X"),
        ([None, *GROUPS[1:]], None, "groups must have no missing labels: there are 1"),
        (GROUPS % 3, 5, "validation must be at most 3, the number of groups, got validation=5"),
        (np.arange(N) % 2, "time", "validation must leave groups to train on"),
    ],
)
def test_groups_that_do_not_serve(groups, validation, message):
    with pytest.raises(ValueError, match=message):
        make(kw.TabularRegressor, validation=validation).fit(X, y, groups=groups)


def test_an_effort_has_no_more_folds_than_groups(trained):
    make(kw.TabularRegressor, "effort").fit(X, y, groups=GROUPS % 2)
    assert len(trained[0][1]) == 2 * 2


@pytest.mark.parametrize(("kind", "by"), BOTH)
def test_the_last_rows_validate(trained, kind, by):
    model = make(kind, by, validation=kw.ValidationConfig("time", share=0.25)).fit(X, target(kind))
    for train, valid in parts(trained):
        np.testing.assert_array_equal(train, np.arange(90))
        np.testing.assert_array_equal(valid, np.arange(90, N))
    assert np.isfinite(model.validation_score_)


def knot_ends(calls, member):
    return np.array([encoding.basis.domain for encoding in calls[0][1][member].encodings])


def test_encodings_do_not_know_later_rows(trained):
    rising = X + np.linspace(0.0, 9.0, N)[:, None]
    make(kw.TabularRegressor, validation=kw.ValidationConfig("time", share=0.5)).fit(rising, y)
    np.testing.assert_allclose(knot_ends(trained, 0)[:, 1], rising[:60].max(axis=0))
    trained.clear()
    make(kw.TabularRegressor, validation=TimeSeriesSplit(2)).fit(rising, y)
    for member, (train, valid) in enumerate(parts(trained)):
        assert train.max() < valid.min()
        np.testing.assert_allclose(knot_ends(trained, member)[:, 1], rising[train].max(axis=0))


@pytest.mark.parametrize("by", ["choice", "effort"])
def test_splitters_and_pairs_of_rows(trained, by):
    splitter = KFold(3, shuffle=True, random_state=5)
    model = make(kw.TabularRegressor, by, validation=splitter).fit(X, y)
    again = make(kw.TabularRegressor, by, validation=list(splitter.split(X))).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    for (train, valid), expected in zip(parts(trained), splitter.split(X), strict=False):
        np.testing.assert_array_equal(train, expected[0])
        np.testing.assert_array_equal(valid, expected[1])
    assert len(model.weights_) % 3 == 0


def test_a_splitter_sees_the_rows_as_the_user_has_them(trained):
    weights = np.where(np.arange(N) % 3 == 0, 0.0, 1.0)
    make(kw.TabularRegressor, validation=PredefinedSplit(np.where(np.arange(N) < 30, 0, -1))).fit(X, y, weights)
    ((train, valid),) = parts(trained)
    data = trained[0][0]
    np.testing.assert_array_equal(data.numbers[valid], X[:30][weights[:30] > 0])
    np.testing.assert_array_equal(data.numbers[train], X[30:][weights[30:] > 0])


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ("last", "validation must be None, 'time', a share"),
        (True, "validation must be None, 'time', a share"),
        (1, "validation must be at least 2 if it is a number of folds"),
        (1.5, "validation must be a number between 0 and 1"),
        (object(), "validation must be None, 'time', a share"),
        ([(np.arange(5), np.arange(500))], "validation must divide the rows"),
        ([(np.arange(5), np.arange(3, 9))], "validation must hold out rows that do not train"),
        ([(np.arange(5), [])], "validation must"),
        ([], "validation must leave rows"),
    ],
)
def test_validation_that_is_not_valid(validation, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(kw.TabularRegressor, validation=validation).fit(X, y)
    with pytest.raises((ValueError, TypeError), match=message):
        make(kw.TabularRegressor, validation=kw.ValidationConfig(validation)).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": "time", "share": 1.0}, "share must be a number between 0 and 1"),
        ({"rows": "time", "share": "0.1"}, "share must be a number between 0 and 1"),
        ({"rows": "time", "share": 1}, "share must be a number between 0 and 1"),
        (
            {"share": 0.3},
            "share must be left at 0.1 unless rows='time', got share=0.3. Write rows=0.3 for one random part",
        ),
        ({"rows": 5, "share": 0.3}, "share must be left at 0.1 unless rows='time'"),
        ({"rows": 0.2, "share": 0.3}, "share must be left at 0.1 unless rows='time'"),
        ({"refit": 1}, "refit must be True or False"),
        ({"rows": kw.ValidationConfig()}, "validation must be None, 'time', a share"),
    ],
)
def test_configurations_that_are_not_valid(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        kw.ValidationConfig(**settings)


@pytest.mark.parametrize(
    "validation", [None, "time", 0.3, 4, KFold(3), list(KFold(2).split(X))], ids=lambda each: str(each)[:9]
)
def test_a_configuration_of_rows_alone_is_these_rows(validation):
    plain, configured = (
        make(kw.TabularRegressor, validation=each).fit(X, y) for each in (validation, kw.ValidationConfig(validation))
    )
    np.testing.assert_array_equal(plain.predict(X), configured.predict(X))


@pytest.mark.parametrize("validation", [None, "time", 0.2, 3, kw.ValidationConfig("time", share=0.3)])
def test_rows_that_validate_are_saved(tmp_path, validation):
    make(kw.TabularRegressor, validation=validation).fit(X, y).save(tmp_path / "model")
    assert kw.load(tmp_path / "model", device="cpu").validation == validation


@pytest.mark.parametrize(("kind", "by"), BOTH)
@pytest.mark.parametrize("weighted", [False, True])
def test_given_rows_validate_and_all_others_train(trained, kind, by, weighted):
    weights = np.linspace(0.0, 5.0, 100) if weighted else None
    model = make(kind, by).fit(X[:100], target(kind)[:100], weights, X_val=X[100:], y_val=target(kind)[100:])
    data = trained[0][0]
    for train, valid in parts(trained):
        np.testing.assert_array_equal(data.numbers[train], X[int(weighted) : 100])
        np.testing.assert_array_equal(data.numbers[valid], X[100:])
    if kind is kw.TabularRegressor:
        score = metrics.root_mean_squared_error(y[100:], model.predict(X[100:]))
    else:
        score = metrics.log_loss(LABELS[100:], model.predict_proba(X[100:]))
    assert model.validation_score_ == pytest.approx(score, rel=1e-4)


def test_given_rows_are_read_like_those_of_the_fit(trained):
    frame = pd.DataFrame({"a": X[:, 0], "town": np.where(X[:, 1] > 0, "Ulm", "Bonn")})
    later = frame.iloc[100:, ::-1].assign(town="Kiel")
    make(kw.TabularRegressor).fit(frame[:100], y[:100], X_val=later, y_val=y[100:])
    data, ((_, valid),) = trained[0][0], parts(trained)
    np.testing.assert_array_equal(data.numbers[valid, 0], X[100:, 0])
    assert (data.codes[valid, 0] == 0).all()


@pytest.mark.parametrize(
    ("parameters", "given", "message"),
    [
        ({}, {"X_val": X}, "X_val must be given together with y_val"),
        ({}, {"X_val": X, "y_val": LABELS[:-1]}, "y_val must have as many values as X_val has rows, 120"),
        ({}, {"X_val": X, "y_val": np.repeat("new", N)}, "y_val must have classes of y, 'high', 'low'"),
        ({"validation": 3}, {"X_val": X, "y_val": LABELS}, "validation must be None if X_val is given"),
        ({}, {"X_val": X, "y_val": LABELS, "groups": GROUPS}, "groups must be None if X_val is given"),
        (
            {"validation": kw.ValidationConfig(refit=True), "warm_start": True},
            {},
            "warm_start must be False if the networks are refitted",
        ),
        (
            {"validation": kw.ValidationConfig(3)},
            {"X_val": X, "y_val": LABELS},
            "validation must be None if X_val is given",
        ),
        ({}, {"callbacks": print}, "callbacks must be a sequence of functions"),
        ({}, {"callbacks": [3]}, "callbacks must be a sequence of functions"),
        ({}, {"verbose": 1}, "verbose must be True or False"),
    ],
)
def test_what_contradicts_itself_is_refused(parameters, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make(kw.TabularClassifier, **parameters).fit(X, LABELS, **given)


@pytest.mark.parametrize(("kind", "by"), BOTH)
@pytest.mark.parametrize("given", [False, True])
def test_a_refit_trains_the_chosen_networks_on_all_rows(trained, kind, by, given):
    n = 90 if given else N
    fit = {"X_val": X[n:], "y_val": target(kind)[n:]} if given else {}
    plain = make(kind, by).fit(X[:n], target(kind)[:n], **fit)
    model = make(kind, by, validation=REFIT).fit(X[:n], target(kind)[:n], **fit)
    n_folds = 3 if by == "effort" and not given else 1
    members = trained[2][1]
    assert len(members) == len(model.weights_) == len(plain.weights_) // n_folds
    for member, history in zip(members, model.history_, strict=True):
        np.testing.assert_array_equal(member.train, np.arange(N))
        assert not len(member.valid)
        assert np.isnan(history["score"]).all()
    epochs = np.array([history["best_epoch"] for history in plain.history_]).reshape(-1, n_folds)
    assert [len(history["loss"]) for history in model.history_] == np.median(epochs, axis=1).tolist()
    assert model.validation_score_ == plain.validation_score_
    assert model.candidates_ == [
        {**each, "seconds": other["seconds"]} for each, other in zip(plain.candidates_, model.candidates_, strict=True)
    ]
    np.testing.assert_array_equal(model.feature_importances_, plain.feature_importances_)
    assert np.abs(model.predict(X) != plain.predict(X)).any() or kind is kw.TabularClassifier


@pytest.mark.parametrize("schedule", ["plateau", "constant", "cosine", "cycles"])
def test_a_refit_goes_through_the_same_learning_rates(schedule):
    training = replace(SMALL["training"], max_epochs=12, schedule=schedule, plateau_patience=0, learning_rate=0.05)
    plain, model = (make(kw.TabularRegressor, training=training, validation=each).fit(X, y) for each in (None, REFIT))
    (before,), (after,) = plain.history_, model.history_
    np.testing.assert_allclose(after["learning_rate"], before["learning_rate"][: before["best_epoch"]], rtol=1e-6)
    assert schedule == "constant" or len(set(after["learning_rate"])) > 1


def test_after_ctrl_c_there_is_no_refit(trained):
    def press(report):
        if report.epoch == 2:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="stopped by Ctrl-C"):
        make(kw.TabularRegressor, validation=REFIT).fit(X, y, callbacks=[press])
    assert len(trained) == 1


def test_a_refit_with_a_time_limit_predicts(trained):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on a busy machine the time may not suffice
        training = replace(SMALL["training"], max_epochs=100_000, patience=None)
        model = make(kw.TabularRegressor, validation=REFIT, training=training, time_limit=1.0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert 1 <= len(trained) <= 2


class Recorder:
    """Keep reports, and stop after an epoch in one of several ways."""

    def __init__(self, epoch=None, how="return"):
        self.epoch, self.how, self.reports = epoch, how, []

    def __call__(self, report):
        self.reports.append(report)
        if report.epoch == self.epoch and self.how == "raise":
            raise StopTraining
        return {"return": report.epoch == self.epoch, "numpy": np.bool_(report.epoch == self.epoch), "list": [1]}.get(
            self.how
        )


@pytest.mark.parametrize("how", ["return", "numpy", "raise"])
@pytest.mark.parametrize(("kind", "by"), BOTH)
def test_a_callback_that_stops_stops(trained, kind, by, how):
    stopping, other = Recorder(2, how), Recorder()
    model = make(kind, by).fit(X, target(kind), callbacks=[stopping, other])
    assert [report.epoch for report in stopping.reports] == [report.epoch for report in other.reports] == [1, 2]
    assert {len(history["loss"]) for history in model.history_} == {2}
    assert trained[0][-1].interrupted
    assert len(model.predict(X)) == N


@pytest.mark.parametrize("kind", KINDS)
def test_reports_are_in_the_units_of_the_target(kind):
    recorder = Recorder(how="list")  # what is not True does not stop
    model = make(kind, n_members=2).fit(X, target(kind), callbacks=(recorder,))
    assert all(isinstance(report, EpochReport) for report in recorder.reports)
    assert [report.epoch for report in recorder.reports] == [1, 2, 3, 4]
    scores = np.array([report.scores for report in recorder.reports])
    np.testing.assert_allclose(scores, np.transpose([history["score"] for history in model.history_]))
    losses = np.mean([history["loss"] for history in model.history_], axis=0)
    np.testing.assert_allclose([report.loss for report in recorder.reports], losses)
    assert {report.metric for report in recorder.reports} == {model.history_[0]["metric"]}
    seconds = [report.seconds for report in recorder.reports]
    assert seconds[0] > 0
    assert seconds == sorted(seconds)
    if kind is kw.TabularRegressor:
        assert scores.min() == pytest.approx(model.history_[0]["score"].min(), rel=0.5)
        assert scores.min() > 1.0  # y has a standard deviation of about 120
    with pytest.raises(AttributeError):
        recorder.reports[0].epoch = 3


def test_an_error_in_a_callback_is_raised():
    def fail(report):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make(kw.TabularRegressor).fit(X, y, callbacks=[fail])


def test_callbacks_and_progress_are_arguments_of_a_cross_validation(capfd):
    """They are passed on to each fit; a list of as many functions as rows is one too."""
    recorder = Recorder()
    model = make(kw.TabularRegressor)
    cross_val_score(model, X, y, cv=3, params={"callbacks": [recorder], "verbose": True})
    assert [report.epoch for report in recorder.reports] == [1, 2, 3, 4] * 3
    assert "epoch" in capfd.readouterr().err
    search = GridSearchCV(model, {"validation__refit": [False, True]}, cv=2, refit=False)
    search.fit(X, y, callbacks=[recorder])
    assert len(recorder.reports) == 12 + 2 * 2 * 4


def test_the_log_has_a_line_for_each_epoch_and_each_fit(caplog):
    with caplog.at_level(logging.DEBUG, logger="knotwork"):
        make(kw.TabularRegressor).fit(X, y)
    levels = [record.levelno for record in caplog.records if record.name == "knotwork"]
    assert levels == [logging.DEBUG] * 4 + [logging.INFO]
    assert caplog.messages[1].startswith("epoch 2 of 4, stack 1 of 1: loss ")
    assert "regression: 1 networks on 120 rows" in caplog.messages[-1]
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="knotwork"):
        make(kw.TabularRegressor).fit(X, y)
    assert not caplog.records


@pytest.mark.parametrize(("kind", "by"), BOTH)
@pytest.mark.parametrize("random_state", [0, None])
def test_a_warm_start_goes_on(trained, kind, by, random_state):
    model = make(kind, by, warm_start=True, random_state=random_state)
    scores, epochs = [], []
    for _ in range(3):
        model.fit(X, target(kind))
        scores.append(model.validation_score_)
        epochs.append({len(history["loss"]) for history in model.history_})
    assert epochs == [{4}, {8}, {12}]
    # Without a seed, no later epoch may have a better score.
    assert scores[2] <= scores[0] if random_state is None else scores[2] < scores[0]
    first = {member.valid.tobytes() for member in trained[0][1]}
    assert {member.valid.tobytes() for member in trained[2][1]} == first
    for history in model.history_:
        assert history["score"][history["best_epoch"] - 1] == history["score"].min()


def test_a_warm_start_is_never_worse_and_takes_other_settings():
    model = make(kw.TabularRegressor, warm_start=True).fit(X, y)
    before, score = model.predict(X), model.validation_score_
    model.set_params(training__learning_rate=1e3, training__max_epochs=2).fit(X, y)
    np.testing.assert_allclose(model.predict(X), before, rtol=1e-6)
    assert model.validation_score_ == pytest.approx(score)
    assert len(model.history_[0]["loss"]) == 6


def test_a_warm_start_with_more_rows_keeps_the_encoding():
    model = make(kw.TabularRegressor, "choice", warm_start=True, encoding="BS-Q@6").fit(X[:90], y[:90])
    knots = model.knots_[0][0]
    model.fit(10.0 + X, y)
    np.testing.assert_allclose(model.knots_[0][0], knots)
    assert len(model.history_[0]["loss"]) == 8


@pytest.mark.parametrize("change", ["columns", "encoding", "loaded"])
def test_without_the_same_columns_and_plan_networks_are_trained_anew(tmp_path, change):
    model = make(kw.TabularRegressor, warm_start=True).fit(X, y)
    if change == "encoding":
        model.set_params(encoding="PLE@5")
    if change == "loaded":
        model.save(tmp_path / "model")
        model = kw.load(tmp_path / "model", device="cpu")
        assert model.warm_start
    with pytest.warns(UserWarning, match="warm_start has no effect"):
        model.fit(X[:, :2] if change == "columns" else X, y)
    assert len(model.history_[0]["loss"]) == 4


@pytest.mark.parametrize(
    "parameters",
    [
        {"encoding": "Std"},
        {"backbone": "mlp"},
        {"search": "ensemble"},
        {"n_members": 1},
        {"training": SMALL["training"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", KINDS)
def test_an_effort_without_effect_is_refused(kind, parameters):
    message = "effort must be left at 'balanced': it decides what is trained only if none of encoding, backbone, search"
    for effort in ("fast", "best"):
        with pytest.raises(ValueError, match=message):
            kind(effort=effort, **SETTINGS, **parameters).fit(X, target(kind))


@pytest.mark.parametrize("failed", [(), (0,), (0, 1, 3, 5), (1, 2, 3, 4)])
def test_importances_are_of_networks_that_did_not_see_the_rows(monkeypatch, trained, failed):
    """Networks that fail, as those that Ctrl-C prevents, leave bags without some of their folds."""
    watched = steps.train_spread

    def without(*given, **settings):
        result = watched(*given, **settings)
        histories = [
            replace(each, best_epoch=0) if place in failed else each for place, each in enumerate(result.histories)
        ]
        return replace(result, histories=histories)

    monkeypatch.setattr(steps, "train_spread", without)
    model = make(kw.TabularRegressor, "effort").fit(X, y)
    data, members, result = trained[0]
    held, every = model._model.held, result.outputs(data.numbers, data.codes)
    rows = [np.flatnonzero((data.numbers == row).all(axis=1))[0] for row in held.table.numbers]
    assert held.members
    for outputs in model._model.outputs(held.table)[held.members]:
        places = [place for place, own in enumerate(every) if np.allclose(own[rows], outputs, rtol=1e-4)]
        assert places
        assert not any(np.intersect1d(members[place].train, rows).size for place in places)
    assert model.feature_importances_.shape == (3,)
    np.testing.assert_allclose(held.weights.sum(), 1.0)


@pytest.mark.parametrize("validation", [None, "time", 0.2, 3, KFold(3)])
def test_parameters_are_saved(tmp_path, validation):
    model = make(kw.TabularRegressor, validation=kw.ValidationConfig(validation, refit=True)).fit(X, y)
    model.save(tmp_path / "model")
    loaded = kw.load(tmp_path / "model", device="cpu")
    assert not loaded.warm_start
    assert loaded.validation == kw.ValidationConfig(None if isinstance(validation, KFold) else validation, refit=True)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.history_[0]["best_epoch"] == model.history_[0]["best_epoch"]
