"""How `train` handles limits of memory and time, weights, and members without validation rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from knotwork.errors import ArgumentError
from knotwork.nn._backbones import FTTransformerConfig, MLPConfig, RealMLPConfig, ResNetConfig, TabMConfig
from knotwork.study._trainer import LEAST_SHIFT, knot_shifts
from knotwork.training import _engine as engine
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import resolve_device, train
from knotwork.training._members import TrainingTable, complete
from tests.training.cases import make_member, make_table

BACKBONE = MLPConfig(widths=(8,), dropout=0.0)
CONFIG = TrainingConfig(max_epochs=4, batch_size=64, learning_rate=1e-2, knot_warmup=1)


def run(table, members, config=CONFIG, **settings):
    return train(table, members, BACKBONE, config, device="cpu", **settings)


def same(one, other):
    for left, right in zip(one.histories, other.histories, strict=True):
        np.testing.assert_allclose(left.score, right.score, rtol=1e-6)


def test_a_stack_that_does_not_fit_is_split(monkeypatch):
    table = make_table()
    members = [make_member(table, method, seed=seed) for seed, method in enumerate(["BS-Q", "PLE", "IS-U", "Std"] * 2)]
    whole = run(table, members)
    assert len(whole.pieces) == 1
    need = engine._member_bytes(table, complete(members, BACKBONE, CONFIG))
    monkeypatch.setattr(engine, "_free_memory", lambda device: 3.5 * need / engine.MEMORY_SHARE)
    parts = run(table, members)
    assert sorted(len(piece.places) for piece in parts.pieces) == [2, 3, 3]
    same(whole, parts)
    for one, other in zip(*(t.outputs(table.numbers, table.codes) for t in (whole, parts)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_running_out_of_memory_halves_the_stack(monkeypatch):
    table = make_table()
    members = [make_member(table, "BS-Q", seed=seed) for seed in range(5)]
    whole = run(table, members)
    start = engine.starting_stacks

    def small(job, members, *rest, **settings):
        if len(members) > 2:
            raise torch.OutOfMemoryError("too much")
        return start(job, members, *rest, **settings)

    monkeypatch.setattr(engine, "starting_stacks", small)
    parts = run(table, members)
    assert sorted(len(piece.places) for piece in parts.pieces) == [1, 2, 2]
    same(whole, parts)

    def never(*arguments, **settings):
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(engine, "starting_stacks", never)
    with pytest.raises(torch.OutOfMemoryError):
        run(table, members)


def test_sizes_do_not_share_a_stack_and_scaled_members_join_the_smallest():
    table = make_table()
    members = [make_member(table, "BS-Q", size) for size in (7, 15)] + [make_member(table, "Std")]
    trained = run(table, members)
    assert sorted(piece.places for piece in trained.pieces) == [(1,), (2, 0)]
    embedded = [make_member(table, method) for method in ("BS-Q+L2", "Std+L2", "PLE", "Std+x")]
    assert sorted(sorted(piece.places) for piece in run(table, embedded).pieces) == [[0, 1], [2], [3]]


def test_time_runs_out():
    table = make_table()
    trained = run(table, [make_member(table)], replace(CONFIG, max_epochs=10_000, patience=10_000, time_limit=0.3))
    assert trained.interrupted
    assert 1 <= trained.histories[0].epochs < 10_000


def test_what_the_first_epoch_compiles_is_not_in_the_time_of_an_epoch(monkeypatch):
    table = make_table()
    seconds = iter([10.0, 2.0, 2.0, 2.0])
    monkeypatch.setattr(engine._TrainCall, "seconds", lambda self: next(seconds))
    trained = run(table, [make_member(table, "BS-Q", seed=seed) for seed in range(2)])
    for history in trained.histories:  # each has half of the stack's time
        assert history.seconds == pytest.approx(8.0)
        assert history.epoch_seconds == pytest.approx(1.0)


def test_stacks_share_the_time():
    table = make_table()
    members = [make_member(table, "BS-Q", size) for size in (7, 15)]
    clock = [0.0]

    def tick(report):
        clock[0] += 1.0

    config = replace(CONFIG, max_epochs=40, patience=40, time_limit=20.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.time, "perf_counter", lambda: clock[0])
        trained = run(table, members, config, report=tick)
        assert [history.epochs for history in trained.histories] == [8, 12]
        assert trained.interrupted
        clock[0] = 0.0
        short = run(table, members, replace(config, max_epochs=4), report=tick)
        assert [history.epochs for history in short.histories] == [4, 4]
        assert not short.interrupted
        clock[0] = 0.0
        uneven = run(table, [members[0], *[replace(members[1], seed=seed) for seed in range(3)]], config, report=tick)
        assert [history.epochs for history in uneven.histories] == [4, 16, 16, 16]


class Clock:
    """A clock that every epoch of a stack moves on, by the seconds of its size."""

    def __init__(self, monkeypatch, seconds):
        self.now, self.seconds, self.last = 0.0, seconds, 0.0
        self.train = engine._train_part
        monkeypatch.setattr(engine.time, "perf_counter", lambda: self.now)
        monkeypatch.setattr(engine, "_train_part", self.epoch)

    def epoch(self, stack, *others):
        self.last = self.seconds[stack.network.encoding.layout.size]
        self.now += self.last
        return self.train(stack, *others)


@pytest.mark.parametrize("limit", [3.0, 10.0, 10.5, 10.999, 37.2])
@pytest.mark.parametrize("max_epochs", [20, 100, 256])
def test_a_pace_reaches_the_end_of_its_schedule_in_time(limit, max_epochs):
    pace, now = engine.Pace(max_epochs), 0.0
    while now <= limit and not pace.is_done:
        now += 1.0
        pace.advance(limit - now, 1.0)
    assert pace.is_done
    assert pace.epochs == pytest.approx(max_epochs, abs=0.5)
    assert now == min(max_epochs, np.ceil(limit))


def test_a_pace_with_enough_time_is_an_epoch_for_each_epoch():
    for left in (1e9, float("inf")):
        pace = engine.Pace(7)
        for epoch in range(7):
            assert (pace.epochs, pace.speed) == (epoch, 1.0)
            pace.advance(left, 1.0)
        assert pace.is_done


def test_a_pace_follows_epochs_that_become_slower():
    pace, now, done = engine.Pace(100), 0.0, []
    for seconds in (1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0):
        now += seconds
        pace.advance(12.0 - now, seconds)
        done.append(pace.epochs)
        if pace.is_done:
            break
    assert pace.is_done
    assert now == 14.0, "the last epoch begins in time"
    assert (np.diff(done) > 0).all()


@pytest.mark.parametrize("schedule", ["cosine", "cycles"])
def test_with_too_little_time_the_learning_rate_still_falls_to_zero(monkeypatch, schedule):
    table = make_table()
    config = replace(CONFIG, schedule=schedule, max_epochs=200, patience=None, time_limit=12.0)
    rates, train_part = [], engine._train_part

    def watched(stack, *others):
        report = train_part(stack, *others)
        rates.extend(stack.rates[:, 0, 0].tolist())
        return report

    monkeypatch.setattr(engine, "_train_part", watched)
    Clock(monkeypatch, {7: 1.0})
    trained = run(table, [make_member(table)], config)
    assert trained.histories[0].epochs == 12
    assert max(rates) > 0.9 * config.learning_rate
    assert rates[-1] < 0.01 * config.learning_rate
    assert not trained.interrupted, "the schedule was shortened, not cut off"


@pytest.mark.parametrize("schedule", ["plateau", "cosine"])
@pytest.mark.parametrize("limit", [2.5, 7.0, 20.2, 41.0])
def test_an_ensemble_exceeds_its_time_limit_by_at_most_one_epoch(monkeypatch, schedule, limit):
    table = make_table()
    members = [make_member(table, "BS-Q", size) for size in (7, 11, 15)]
    clock = Clock(monkeypatch, {7: 1.0, 11: 2.0, 15: 1.5})
    config = replace(CONFIG, schedule=schedule, max_epochs=500, patience=None, time_limit=limit)
    trained = run(table, members, config, ensemble=True)
    assert limit - 2.0 <= clock.now < limit + clock.last
    assert sum(history.epochs > 0 for history in trained.histories) >= (2 if limit < 7 else 3)


def test_otherwise_every_stack_has_an_epoch(monkeypatch):
    table = make_table()
    members = [make_member(table, "BS-Q", size) for size in (7, 11, 15)]
    config = replace(CONFIG, time_limit=2.5)
    for ensemble, epochs in ((True, [1, 0, 0]), (False, [1, 1, 1])):
        with monkeypatch.context() as patch:
            Clock(patch, {7: 3.0, 11: 3.0, 15: 3.0})
            trained = run(table, members, config, ensemble=ensemble)
        assert [history.epochs for history in trained.histories] == epochs
        assert [history.best_epoch for history in trained.histories] == epochs
        assert trained.interrupted
        assert len(trained.take([0]).outputs(table.numbers, table.codes)) == 1
    enough = run(table, members, replace(CONFIG, time_limit=1e6), ensemble=True)
    assert [history.epochs for history in enough.histories] == [4, 4, 4]
    assert not enough.interrupted


MIX = {
    "mlp": (BACKBONE, None),
    "wide mlp": (MLPConfig(widths=(12,), dropout=0.0), replace(CONFIG, schedule="cosine", max_epochs=3)),
    "resnet": (ResNetConfig(width=8, n_blocks=1, hidden=12, dropout=0.0), replace(CONFIG, batch_size=32)),
    "tabm": (TabMConfig(widths=(8,), n_predictions=3, dropout=0.0), replace(CONFIG, max_epochs=2)),
    "realmlp": (RealMLPConfig(widths=(8,), dropout=0.0), replace(CONFIG, schedule="cycles", weight_average=0.5)),
    "ft": (FTTransformerConfig(d_token=8, n_blocks=1, n_heads=2, attention_dropout=0.0, ffn_dropout=0.0), None),
}
"""Backbones and configurations of members of one call."""


def make_mix(table):
    """Return two members of every backbone, with two encodings of the same size."""
    return [
        replace(make_member(table, method, seed=place), backbone=backbone, config=config)
        for place, (backbone, config) in enumerate(MIX.values())
        for method in ("BS-Q", "IS-Grad-U")
    ]


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_members_of_different_backbones_and_configurations_train_in_one_call(task):
    table = make_table(task)
    members = make_mix(table)
    order = np.random.default_rng(0).permutation(len(members)).tolist()
    together = run(table, [members[place] for place in order])
    assert sorted(len(piece.places) for piece in together.pieces) == [2] * len(MIX)
    outputs = together.outputs(table.numbers, table.codes)
    for piece in together.pieces:
        assert {members[order[place]].backbone for place in piece.places} == {piece.backbone}
    for place in range(0, len(members), 2):
        member, where = members[place], order.index(place)
        plain = replace(member, backbone=None, config=None)
        alone = train(table, [plain], member.backbone, member.config or CONFIG, device="cpu")
        assert together.histories[where].epochs == (member.config or CONFIG).max_epochs
        np.testing.assert_allclose(together.histories[where].score, alone.histories[0].score, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(outputs[where], alone.outputs(table.numbers, table.codes)[0], rtol=1e-4, atol=1e-4)


def test_some_members_of_a_mixed_stack_are_kept():
    table = make_table()
    trained = run(table, make_mix(table))
    outputs = trained.outputs(table.numbers, table.codes)
    for places in ([0], [1, 4, 5], [3, 6, 7, 10], list(range(len(outputs)))):
        kept = trained.take(places)
        assert len(kept.pieces) == len({place // 2 for place in places})
        for own, place in zip(kept.outputs(table.numbers, table.codes), places, strict=True):
            np.testing.assert_allclose(own, outputs[place], rtol=1e-5, atol=1e-5)
        assert kept.histories == [trained.histories[place] for place in places]
    after = trained.outputs(table.numbers, table.codes)
    assert all(np.array_equal(one, other) for one, other in zip(after, outputs, strict=True))


@pytest.mark.parametrize("ensemble", [False, True])
def test_ctrl_c_in_the_second_stack_keeps_the_first_and_the_best_so_far(ensemble):
    table = make_table()
    members = make_mix(table)[:6]
    complete = run(table, members)

    def stop(report):
        if (report.stack, report.epoch) == (1, 2):
            raise KeyboardInterrupt

    trained = run(table, members, report=stop, ensemble=ensemble)
    assert trained.interrupted
    assert [history.epochs for history in trained.histories] == [4, 4, 2, 2, 0, 0]
    for one, other in zip(trained.histories[:4], complete.histories, strict=False):
        np.testing.assert_array_equal(one.score, other.score[: one.epochs])
        assert one.best_epoch == one.score.argmin() + 1


def test_ctrl_c_while_a_stack_is_built_keeps_those_before(monkeypatch):
    table = make_table()
    members = make_mix(table)[:6]
    start, calls = engine.starting_stacks, []

    def interrupted(*arguments, **settings):
        calls.append(len(calls))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return start(*arguments, **settings)

    monkeypatch.setattr(engine, "starting_stacks", interrupted)
    trained = run(table, members)
    assert trained.interrupted
    assert [history.epochs for history in trained.histories] == [4, 4, 0, 0, 0, 0]
    assert len(trained.outputs(table.numbers, table.codes)) == 6


def test_ctrl_c_keeps_the_best_so_far():
    table = make_table()
    members = [make_member(table, "BS-Q", size) for size in (7, 15)]

    def stop(report):
        if report.epoch == 2:
            raise KeyboardInterrupt

    trained = run(table, members, report=stop)
    assert trained.interrupted
    assert [history.epochs for history in trained.histories] == [2, 0]
    assert trained.histories[0].best_epoch > 0
    outputs = trained.outputs(table.numbers, table.codes)
    assert np.isfinite(outputs[0]).all()


def test_reports_say_where_training_stands():
    table = make_table()
    reports = []
    run(table, [make_member(table, "BS-Q", size) for size in (7, 15)], report=reports.append)
    assert [(report.stack, report.epoch) for report in reports] == [(s, e) for s in (0, 1) for e in (1, 2, 3, 4)]
    assert {(report.n_stacks, report.max_epochs, report.n_members) for report in reports} == {(2, 4, 1)}


def test_without_validation_rows_the_last_weights_are_kept():
    table = make_table()
    member = make_member(table)
    member = replace(member, valid=np.empty(0, dtype=np.int64))
    history = run(table, [member]).histories[0]
    assert (history.epochs, history.best_epoch) == (4, 4)


def test_weights_count():
    table = make_table()
    plain = run(table, [make_member(table)]).histories[0]
    weights = np.ones(len(table.target))
    same_weights = run(replace(table, weights=3.0 * weights), [make_member(table)]).histories[0]
    np.testing.assert_allclose(same_weights.loss, plain.loss, rtol=1e-5)
    weights[::2] = 0.01
    other = run(replace(table, weights=weights), [make_member(table)]).histories[0]
    assert not np.allclose(other.loss, plain.loss, rtol=1e-3)


def test_learning_rates_and_seeds_are_each_members_own():
    table = make_table()
    members = [make_member(table, seed=1), make_member(table, seed=2), make_member(table, seed=1, learning_rate=1e-4)]
    one, other, slow = (history.loss for history in run(table, members).histories)
    assert not np.allclose(one, other)
    assert slow[-1] > one[-1]


def test_knots_move_only_where_they_are_learned():
    table = make_table()
    members = [make_member(table, "BS-U"), make_member(table, "BS-Grad-U")]
    trained = run(table, members)
    knots = {}
    for piece in trained.pieces:
        for place, own in zip(piece.places, piece.network.encoding.breaks, strict=True):
            moved = piece.network.encoding.spacings()[0][piece.places.index(place)].detach()
            knots[place] = float((moved - own).abs().max())
    assert knots[0] == 0.0
    assert knots[1] > 1e-4


def test_knots_that_are_moved_apart_before_training_have_not_moved():
    table = make_table()
    table.numbers[0, 0] = 1e6  # quantiles are nearer to each other than a thousandth of this range
    members = [make_member(table, "BS-Grad-Q"), make_member(table, "BS-Q")]
    waiting, moving = (run(table, members, replace(CONFIG, knot_warmup=epochs)) for epochs in (10, 0))
    (mean, most), fixed = knot_shifts(waiting)
    assert fixed is None
    assert 0.0 <= mean <= most < LEAST_SHIFT
    (encoding,) = (piece.network.encoding for piece in waiting.pieces)
    away = (encoding.starting_breaks() - encoding.breaks).abs().flatten(1).amax(dim=1)
    assert away[encoding.learned] > 1e-4, "the start must differ for this test to mean anything"
    assert away[~encoding.learned] == 0.0
    assert knot_shifts(moving)[0][1] > LEAST_SHIFT


def test_wrong_tables_and_devices_are_refused():
    table = make_table()
    with pytest.raises(ArgumentError, match="members must contain at least one member"):
        run(table, [])
    with pytest.raises(ArgumentError, match="device"):
        resolve_device("gpu42")
    with pytest.raises(ArgumentError, match="codes"):
        TrainingTable(table.numbers, table.codes[:-1], table.target, "regression", (4,))
    with pytest.raises(ArgumentError, match="cardinalities"):
        TrainingTable(table.numbers, table.codes, table.target, "regression")
    with pytest.raises(ArgumentError, match="train"):
        replace(make_member(table), train=np.empty(0, dtype=np.int64))
