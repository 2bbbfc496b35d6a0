"""How `train` handles limits of memory and time, weights, and members without validation rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from knotwork.errors import ArgumentError
from knotwork.nn._backbones import MLPConfig
from knotwork.study._trainer import LEAST_SHIFT, knot_shifts
from knotwork.training import _engine as engine
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import resolve_device, train
from knotwork.training._members import TrainingTable
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
    need = engine._member_bytes(table, 7, BACKBONE, CONFIG)
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
    build = engine.TrainingStack

    def small(table, data, members, *rest, **settings):
        if len(members) > 2:
            raise torch.OutOfMemoryError("too much")
        return build(table, data, members, *rest, **settings)

    monkeypatch.setattr(engine, "TrainingStack", small)
    parts = run(table, members)
    assert sorted(len(piece.places) for piece in parts.pieces) == [1, 2, 2]
    same(whole, parts)

    def never(*arguments, **settings):
        raise torch.OutOfMemoryError("too much")

    monkeypatch.setattr(engine, "TrainingStack", never)
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
    monkeypatch.setattr(engine._Run, "seconds", lambda self: next(seconds))
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
        assert [history.epochs for history in trained.histories] == [8, 13]
        assert trained.interrupted
        clock[0] = 0.0
        short = run(table, members, replace(config, max_epochs=4), report=tick)
        assert [history.epochs for history in short.histories] == [4, 4]
        assert not short.interrupted
        clock[0] = 0.0
        uneven = run(table, [members[0], *[replace(members[1], seed=seed) for seed in range(3)]], config, report=tick)
        assert [history.epochs for history in uneven.histories] == [4, 17, 17, 17]


def test_ctrl_c_keeps_the_best_so_far():
    table = make_table()
    members = [make_member(table, "BS-Q", size) for size in (7, 15)]

    def stop(report):
        if report.epoch == 2:
            raise KeyboardInterrupt

    trained = run(table, members, report=stop)
    assert trained.interrupted
    assert [history.epochs for history in trained.histories] == [2, 0]
    assert trained.histories[0].best_epoch >= 0
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
    assert (history.epochs, history.best_epoch) == (4, 3)


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
