"""Encodings of a study are fitted once, on training rows only, and equal those of the encoders."""

from dataclasses import replace

import numpy as np
import pytest

from knotwork._preparation.members import Fitted, PreparedTable, make_splits
from knotwork.datasets import Dataset
from knotwork.encoders import METHOD_TABLE, METHODS, Encoding
from knotwork.knots import LightGBMPlacement
from knotwork.nn._backbones import MLPConfig
from knotwork.study._networks import FoldEncoding, expand
from knotwork.study._prepared import fit_all, from_dataset, load_data
from knotwork.training import Member, TrainingConfig, train
from tests.study.cases import SMALL_MLP, TRAINING, tiny_plan


@pytest.fixture(scope="module")
def diabetes():
    return load_data(tiny_plan(datasets=["sk_diabetes"]), "sk_diabetes")


def everything(sizes=(7,), folds=(0,)):
    return [
        FoldEncoding(Encoding(method, size).start, fold)
        for method in METHODS
        for size in (sizes if METHOD_TABLE[method].has_size else (None,))
        for fold in folds
    ]


def assert_same(first, second):
    assert first.keys() == second.keys()
    for key, fitted in first.items():
        assert isinstance(fitted, Fitted), fitted
        for ours, theirs in zip(fitted.encodings, second[key].encodings, strict=True):
            assert type(ours) is type(theirs)
            assert ours.size == theirs.size
            if hasattr(ours, "basis"):
                assert ours.basis.domain == theirs.basis.domain
                np.testing.assert_array_equal(ours.basis.knots, theirs.basis.knots)
            else:
                assert (ours.shift, ours.scale) == (theirs.shift, theirs.scale)


def test_encodings_are_those_of_the_encoders(diabetes, tmp_path):
    data = diabetes
    fitted = fit_all(data, everything(sizes=(5, 12)), folder=tmp_path)
    rows = data.splits[0].train
    for wanted in everything(sizes=(5, 12)):
        options = {"task": data.table.task} if wanted.encoding.has_knots else {}
        encoder = wanted.encoding.encoder(**options).fit(data.table.numbers[rows], data.table.target[rows])
        for encoding, knots in zip(fitted[wanted].encodings, encoder.knots_, strict=True):
            np.testing.assert_array_equal(encoding.basis.knots if hasattr(encoding, "basis") else [], knots)


def test_test_and_validation_rows_change_nothing_that_is_fitted(diabetes, tmp_path):
    data = diabetes
    random, splits = np.random.default_rng(1), data.splits
    others = np.concatenate([splits[0].valid, splits[0].test])
    numbers, target = data.table.numbers.copy(), data.table.target.copy()
    numbers[others] = random.normal(scale=50.0, size=numbers[others].shape)
    target[others] = random.normal(scale=1e4, size=len(others))
    changed = replace(data, table=replace(data.table, numbers=numbers, target=target))
    before = fit_all(data, everything(), folder=tmp_path / "a")
    assert_same(before, fit_all(changed, everything(), folder=tmp_path / "b"))
    names = [sorted(path.name for path in (tmp_path / folder).iterdir()) for folder in "ab"]
    assert names[0] == names[1]
    scales = []
    for each in (data, changed):
        table = PreparedTable.from_table(each.table, splits[:1]).table
        member = Member(splits[0].train, splits[0].valid, before[FoldEncoding(Encoding("BS-Q", 7), 0)].encodings)
        piece = train(table, [member], MLPConfig(widths=(4,)), TrainingConfig(max_epochs=1), device="cpu").pieces[0]
        scales.append((float(piece.shift[0]), float(piece.scale[0])))
    assert scales[0] == scales[1]
    np.testing.assert_allclose(scales[0][0], data.table.target[splits[0].train].mean(), rtol=1e-12)


def test_training_rows_change_the_fitted_encoding(diabetes, tmp_path):
    data = diabetes
    numbers = data.table.numbers.copy()
    numbers[data.splits[0].train] *= 2.0
    before = fit_all(data, [FoldEncoding(Encoding("BS-Q", 7), 0)], folder=tmp_path)
    after = fit_all(
        replace(data, table=replace(data.table, numbers=numbers)),
        [FoldEncoding(Encoding("BS-Q", 7), 0)],
        folder=tmp_path,
    )
    with pytest.raises(AssertionError):
        assert_same(before, after)


def test_stored_encodings_are_not_fitted_again_and_need_no_lightgbm(diabetes, tmp_path, monkeypatch):
    data = diabetes
    wanted = everything(folds=(0, 1))
    before = fit_all(data, wanted, folder=tmp_path)

    def refuse(*args, **kwargs):
        raise AssertionError("fitted again")

    monkeypatch.setattr("knotwork.study._prepared.fit_column", refuse)
    assert_same(before, fit_all(data, wanted, folder=tmp_path))


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b.replace(b"1", b"2"), lambda b: b"", lambda b: b"[]"]
)
def test_a_damaged_file_is_fitted_again(diabetes, tmp_path, damage):
    data = diabetes
    wanted = [FoldEncoding(Encoding("IS-CART", 6), 1)]
    before = fit_all(data, wanted, folder=tmp_path)
    path = next(tmp_path.iterdir())
    content = path.read_bytes()
    path.write_bytes(damage(content))
    assert_same(before, fit_all(data, wanted, folder=tmp_path))
    assert len(path.read_bytes()) > len(content) // 2


def test_trees_are_grown_once_for_all_sizes_and_families(diabetes, tmp_path, monkeypatch):
    data = diabetes
    grown = []
    original = LightGBMPlacement.thresholds

    def counted(self, column, target, seed):
        grown.append(seed)
        return original(self, column, target, seed)

    monkeypatch.setattr(LightGBMPlacement, "thresholds", counted)
    wanted = [FoldEncoding(Encoding(method, size), 0) for method in ("BS-LGBM", "IS-LGBM") for size in (5, 7, 9)]
    fit_all(data, wanted, folder=tmp_path)
    assert len(grown) == data.table.numbers.shape[1]


def test_threads_fit_the_same(diabetes, tmp_path):
    data = diabetes
    table = replace(data.table, numbers=data.table.numbers[:, :2])
    data = replace(data, table=table, identity=replace(data.identity, numerical=("a", "b")))
    one = fit_all(data, everything(), folder=tmp_path / "one", n_jobs=1)
    assert_same(one, fit_all(data, everything(), folder=tmp_path / "two", n_jobs=2))


def test_categories_are_coded_by_training_rows_alone():
    import pandas as pd

    frame = pd.DataFrame({"c": list("abcabcadab"), "x": np.arange(10.0), "y": np.arange(10.0)})
    data = from_dataset(
        Dataset("t", frame, target="y", task="regression", numerical=("x",), categorical=("c",), sha256=""), "t"
    )
    table = data.table
    assert table.cardinalities == (5,)
    splits = make_splits(table.target, table.task, folds=3)
    prepared = PreparedTable.from_table(table, splits)
    for split, moved in zip(splits, prepared.splits, strict=True):
        start = moved.train[0] - split.train[0]
        rows = np.arange(10) + start
        seen = sorted({frame["c"][row] for row in split.train})
        codes = [seen.index(label) + 1 if label in seen else 0 for label in frame["c"]]
        np.testing.assert_array_equal(prepared.table.codes[rows, 0], codes)
        np.testing.assert_array_equal(prepared.table.numbers[rows], table.numbers)
        np.testing.assert_array_equal(prepared.table.target[rows], table.target)


def test_a_process_reads_encodings_that_another_has_fitted(tmp_path, monkeypatch):
    """While the lock is held nothing is fitted; then what was kept is read."""
    from knotwork.study import _prepared as fitting
    from knotwork.study import _runner as runner

    first, second = (runner.StudyRun(tiny_plan(methods=["BS-Q"]), tmp_path) for _ in range(2))
    networks = expand(first.plan, "sk_iris", first.load("sk_iris").identity)
    second.load("sk_iris")
    lock = first._claim_preparation("sk_iris")
    assert second.is_being_prepared("sk_iris")
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        fit_all(first.data, [each.fold_encoding for each in networks], folder=tmp_path / "prepared")
        monkeypatch.setattr(fitting, "fit_column", lambda *args, **kwargs: pytest.fail("fitted twice"))
        lock.release()

    monkeypatch.setattr(runner.time, "sleep", sleep)
    assert len(second.prepare("sk_iris", networks).fitted) == len(networks) == 2
    assert waited == [runner.POLL]
    assert not list((tmp_path / "locks").iterdir())


def test_a_plan_is_prepared_and_then_trained_without_fitting(tmp_path, monkeypatch):
    from knotwork.study import Plan, prepare_plan, run
    from knotwork.study import _prepared as fitting
    from knotwork.study import _runner as runner

    plan = Plan(
        name="two", datasets=["sk_iris", "sk_wine"], methods=["Std", "BS-LGBM"], sizes=[5], backbones=[SMALL_MLP],
        folds=2, training=TRAINING,
    )  # fmt: skip
    order = []
    with monkeypatch.context() as patch:
        busy = {"sk_iris"}  # another process is at it until the other data set is done
        patch.setattr(runner.StudyRun, "is_being_prepared", lambda self, name: name in busy - set(order))
        summary = prepare_plan(plan, tmp_path, report=order.append)
    assert [sentence.split(":")[0] for sentence in order] == ["sk_wine", "sk_iris"]
    assert (summary.n_ok, summary.n_failed, summary.n_networks) == (8, 0, 8)
    monkeypatch.setattr(fitting, "fit_column", lambda *args, **kwargs: pytest.fail("fitted again"))
    assert run(plan, tmp_path, device="cpu").n_ok == 8
