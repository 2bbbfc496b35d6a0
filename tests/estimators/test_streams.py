"""Fits and predictions of tables that are read in batches: the same as of tables in memory, whatever the batches."""

import contextlib
import errno
import threading
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import knotwork as kw
from knotwork._preparation import streams
from knotwork.estimators import _streams
from knotwork.training import _chunks

N_ROWS = 6000
CONFIG = kw.TrainingConfig(max_epochs=4, batch_size=128, learning_rate=3e-3, patience=None)


def make_table(n_rows=N_ROWS, seed=0):
    """Return rows with missing values, text, dates as text, an identifier, and a category of the last rows only."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "id": np.arange(n_rows),
            "a": random.normal(size=n_rows),
            "b": random.lognormal(size=n_rows),
            "town": random.choice(["Ulm", "Bonn", "Trier"], size=n_rows),
            "count": random.integers(0, 40, size=n_rows),
            "price": [f"{value:,.2f}" for value in random.uniform(500, 5000, size=n_rows)],
        }
    )
    table.loc[::9, "a"] = np.nan
    table.loc[n_rows - 3 :, "town"] = "Jena"
    effect = np.sin(2 * table["a"].fillna(0.7)) + np.log(table["b"]) + (table["town"] == "Ulm")
    table["target"] = effect + 0.1 * random.normal(size=n_rows)
    table["label"] = np.where(table["target"] > 0.5, "high", "low")
    table["weight"] = random.choice([0.0, 1.0, 2.0], size=n_rows)
    return table


TABLE = make_table()
FEATURES = ["id", "a", "b", "town", "count", "price"]
NEW = make_table(1000, seed=1)[FEATURES]


class Frames:
    """Batches of different sizes that start from the beginning each time."""

    def __init__(self, table, sizes=(1000, 1, 2500)):
        self.table, self.ends = table, np.cumsum(sizes)
        self.n_passes = 0

    def __iter__(self):
        self.n_passes += 1
        for start, stop in zip([0, *self.ends], [*self.ends, None], strict=True):
            yield self.table.iloc[start:stop]


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks, samples and batches so small that a table of the tests has several of each."""
    monkeypatch.setattr(_chunks, "MOST_CHUNK_ROWS", 1800)
    monkeypatch.setattr(streams, "KEPT_ROWS", streams.KeptRows(n_valid=500, n_sampled=1500))
    monkeypatch.setattr(streams, "BATCH_ROWS", 700)


def classifier():
    return kw.TabularClassifier("PLE-Q@12", training=CONFIG, random_state=0, device="cpu")


def regressor(**settings):
    settings = {"training": CONFIG, "random_state": 0, "device": "cpu", **settings}
    return kw.TabularRegressor("PLE-Q@12", **settings)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
@pytest.mark.parametrize("encoding", [pytest.param("BS-Q@9", marks=pytest.mark.slow), "IS-CART@9"])
def test_a_stream_of_one_chunk_gives_the_model_of_the_table(encoding):
    """With validation rows of their own, all others train: same knots, same steps, same predictions."""
    held = TABLE.iloc[100:600]
    given = {"X_val": held[FEATURES], "y_val": held["target"]}
    model = regressor().set_params(encoding=encoding)
    table = TABLE[[*FEATURES, "target"]]
    streamed = model.fit(Frames(table), "target", **given)
    predictions, knots = streamed.predict(NEW), streamed.knots_
    in_memory = model.fit(TABLE[FEATURES], TABLE["target"], **given)
    assert repr(streamed.columns_) == repr(in_memory.columns_)
    assert streamed.columns_.categories == (("Bonn", "Jena", "Trier", "Ulm"),)
    for name, values in in_memory.knots_[0].items():
        np.testing.assert_array_equal(knots[0][name], values)
    np.testing.assert_array_equal(predictions, in_memory.predict(NEW))


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_chunks_of_files_train_as_well_as_the_table(tmp_path, small_chunks):
    for start in range(0, N_ROWS, 1500):
        part = TABLE[[*FEATURES, "target"]].iloc[start : start + 1500]
        pq.write_table(pa.Table.from_pandas(part, preserve_index=False), tmp_path / f"{start:05d}.parquet")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    threads = threading.active_count()
    source = ds.dataset(sorted(map(str, tmp_path.glob("*.parquet"))))
    model = regressor().fit(source, "target", scratch=scratch)
    assert not list(scratch.iterdir())
    assert threading.active_count() == threads
    assert len(model._model.held.target) == 500  # of 600 rows, a tenth: at most so many are held out
    assert len(model.history_[0]["loss"]) == 4 * 4  # chunks and passes
    in_memory = regressor().fit(TABLE[FEATURES], TABLE["target"])
    truth = make_table(1000, seed=1)["target"]
    errors = [np.sqrt(np.mean((each.predict(NEW) - truth) ** 2)) for each in (model, in_memory)]
    assert errors[0] < 1.1 * errors[1] < 0.5
    ordered = np.sort(TABLE["b"])
    ranks = [np.searchsorted(ordered, each.knots_[0]["b"]) / N_ROWS for each in (model, in_memory)]
    np.testing.assert_allclose(*ranks, atol=0.02)  # other training rows: a tenth is held out
    whole = model.predict(TABLE[FEATURES])
    streamed = list(model.predict(source))
    np.testing.assert_array_equal(np.concatenate(streamed), whole)
    assert {len(part) for part in streamed} <= {700, 100}
    assert model.target_name_ == "target"


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_every_training_row_is_trained_once_in_a_pass(small_chunks, monkeypatch):
    """Chunks hold every row that is not held out once, and passes take them in different orders."""
    seen = []
    read = _chunks.RowChunks.read

    def spy(self, chunk, out):
        n_rows = read(self, chunk, out)
        seen.append((chunk, out[:n_rows].view(self.form.dtype)["target"].ravel().copy()))
        return n_rows

    monkeypatch.setattr(_chunks.RowChunks, "read", spy)
    model = regressor(training=kw.TrainingConfig(max_epochs=3, patience=None)).fit(
        [TABLE[[*FEATURES, "target"]]], "target"
    )
    passes = [seen[start : start + 4] for start in (0, 4, 8)]
    trained = np.sort(np.concatenate([values for _, values in passes[0]]))
    expected = np.sort(np.concatenate([trained, model._model.held.target]))
    np.testing.assert_array_equal(expected, np.sort(TABLE["target"]))
    orders = {tuple(chunk for chunk, _ in each) for each in passes}
    assert len(orders) > 1
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    first = passes[0][0][1]
    assert abs(np.mean(first) - TABLE["target"].mean()) < 5 * TABLE["target"].std() / np.sqrt(len(first))


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_classes_weights_and_categories_of_single_batches(small_chunks):
    table = TABLE[[*FEATURES, "label", "weight"]].copy()
    table.loc[N_ROWS - 40 :, "label"] = "rare"
    batches = Frames(table)
    model = kw.TabularClassifier(
        "PLE-Q@12", training=CONFIG, random_state=0, device="cpu", objective=kw.LogLoss("balanced")
    )
    model.fit(batches, "label", "weight")
    assert batches.n_passes == 2
    assert model.classes_.tolist() == ["high", "low", "rare"]
    assert model.columns_.categories == (("Bonn", "Jena", "Trier", "Ulm"),)
    assert np.mean(model.predict(TABLE[FEATURES])[:-40] == TABLE["label"][:-40]) > 0.85
    parts = model.predict_proba(TABLE[FEATURES].iloc[start : start + 999] for start in range(0, N_ROWS, 999))
    np.testing.assert_array_equal(np.concatenate(list(parts)), model.predict_proba(TABLE[FEATURES]))


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
@pytest.mark.parametrize("how", ["interrupt", "patience", pytest.param("effort", marks=pytest.mark.slow)])
def test_training_on_chunks_stops_as_on_a_table(small_chunks, tmp_path, how):
    def interrupt(report):
        if report.epoch == 3:
            raise KeyboardInterrupt

    models = {
        "interrupt": regressor(),
        "patience": regressor(training=kw.TrainingConfig(max_epochs=50, patience=1, learning_rate=0.03)),
        "effort": kw.TabularRegressor(effort="fast", time_limit=3.0, random_state=0, device="cpu"),
    }
    callbacks = [interrupt] if how == "interrupt" else None
    with pytest.warns(UserWarning, match="Ctrl-C") if how == "interrupt" else contextlib.nullcontext():
        model = models[how].fit(Frames(TABLE[[*FEATURES, "target"]]), "target", scratch=tmp_path, callbacks=callbacks)
    assert not list(tmp_path.iterdir())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("knotwork-chunks")]
    epochs = [len(history["loss"]) for history in model.history_]
    assert {"interrupt": epochs == [3], "patience": 1 < epochs[0] < 200, "effort": True}[how]
    assert model.predict(NEW).std() > 0.1


def changed(column, value, row=4000):
    table = TABLE[[*FEATURES, "target", "weight"]].copy()
    table[column] = table[column].astype(object) if isinstance(value, str) else table[column]
    table.loc[row, column] = value
    return table


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
@pytest.mark.parametrize(
    ("batches", "y", "settings", "message"),
    [
        (iter([TABLE]), "target", {}, "can be read again"),
        (Frames(TABLE), TABLE["target"], {}, "y must be the name of a column"),
        (Frames(TABLE), "tarket", {}, "Did you mean 'target'"),
        (Frames(changed("a", np.inf)), "target", {}, "column 'a' contains infinity"),
        (Frames(changed("target", np.nan)), "target", {}, "In batch 4, which begins at row 3502: .*y contains NaN"),
        (
            Frames(changed("weight", -1.0)),
            "target",
            {"sample_weight": "weight"},
            "row 3502.*'weight'.*not negative",
        ),
        (
            Frames(TABLE.assign(weight=0.0)),
            "target",
            {"sample_weight": "weight"},
            "must be larger than 0",
        ),
        (Frames(TABLE), ["target", "target"], {}, "y must name distinct columns"),
        (Frames(TABLE), True, {}, "y must be the name of a column"),
        ([TABLE[["target"]]], "target", {}, "must have a column besides 'target'"),
        ([TABLE, TABLE.drop(columns="town")], "target", {}, "In batch 2.*does not have 'town'. Add"),
        ([TABLE, pl.from_pandas(TABLE)], "target", {}, "one library, but has pandas and polars"),
        ([pl.from_pandas(TABLE), pl.from_pandas(TABLE.assign(a="x"))], "target", {}, "column 'a' must have one type"),
        ([dict(TABLE)], "target", {}, "X must yield tables, got X='dict'"),
        ("flats.parquet", "target", {}, "X must be a table.*ParquetFile"),
        (
            Frames(TABLE),
            "target",
            {"X_val": [TABLE[FEATURES]], "y_val": TABLE["target"]},
            "X_val must be a table",
        ),
        (Frames(TABLE), "target", {"scratch": 3}, "scratch must be a folder"),
        (Frames(TABLE), "target", {"groups": TABLE["town"]}, "groups must be None"),
        (Frames(TABLE), "target", {"scratch": "/no/such/folder"}, "scratch must be a folder"),
    ],
)
def test_errors_name_what_is_wrong_and_where(batches, y, settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        regressor().fit(batches, y, **settings)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_the_largest_number_is_not_infinite():
    table = changed("a", np.finfo(np.float64).max).drop(columns="weight")
    once = kw.TrainingConfig(max_epochs=1)
    assert np.isfinite(regressor(training=once).fit(Frames(table), "target").predict(NEW)).all()


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_rows_that_change_between_the_passes_are_an_error():
    class Growing(Frames):
        def __iter__(self):
            yield from super().__iter__()
            if self.n_passes > 1:
                yield self.table.iloc[:5]

    with pytest.raises(ValueError, match="yield the same rows in the same order whenever it is read"):
        regressor().fit(Growing(TABLE[[*FEATURES, "target"]]), "target")


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_rows_in_another_order_are_reported_at_the_first_batch_that_differs():
    class Shuffled(Frames):
        n_read = 0

        def __iter__(self):
            for batch in super().__iter__():
                self.n_read += self.n_passes > 1
                yield batch if self.n_passes == 1 or self.n_read <= 3 else batch.iloc[::-1]

    batches = Shuffled(TABLE[[*FEATURES, "target"]], sizes=[100] * 59)
    with pytest.raises(ValueError, match="got X='rows in another order, or others'"):
        regressor().fit(batches, "target")
    assert 4 <= batches.n_read <= 4 + streams.N_THREADS + 1  # each thread may have one batch ahead


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"validation": 5}, "validation must be None or a share"),
        ({"validation": "time"}, "validation must be None or a share"),
        ({"validation": kw.ValidationConfig("time", share=0.2)}, "validation must be None or a share"),
        ({"validation": kw.ValidationConfig(refit=True)}, "refit must be False"),
        ({"device": "ray"}, "device must be on this machine if X is read in batches, got device='ray'"),
    ],
)
def test_parameters_that_need_all_rows_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        regressor(**parameters).fit(Frames(TABLE), "target")


def test_arrays_have_the_target_at_a_position():
    arrays = [TABLE[["a", "target", "b"]].iloc[start : start + 400].to_numpy() for start in range(0, 1200, 400)]
    once = kw.TrainingConfig(max_epochs=1)
    model = regressor(training=once).fit(arrays, 1)
    assert list(model.knots_[0]) == [0, 1]
    rows = np.concatenate(arrays)[:, [0, 2]]
    np.testing.assert_array_equal(np.concatenate(list(model.predict(iter([rows[:7], rows[7:]])))), model.predict(rows))


def test_scratch_is_refused_for_a_table_in_memory(tmp_path):
    with pytest.raises(ValueError, match="scratch must be None if X is a table in memory"):
        regressor().fit(TABLE[["a", "b"]], TABLE["target"], scratch=tmp_path)


def part_types(kind):
    """Return batches whose columns have other orders and types: no value, whole numbers, views of text."""
    frames = [TABLE[["a", "count", "town", "target"]].iloc[start : start + 400] for start in range(0, 1200, 400)]
    if kind == "polars":
        first, second, third = map(pl.from_pandas, frames)
        return [
            first.with_columns(pl.lit(None).alias("town")),
            second.with_columns(pl.col("count").cast(pl.Float64)).select("target", "town", "a", "count"),
            third.with_columns(pl.col("town").cast(pl.Categorical)),
        ]
    first, second, third = (pa.Table.from_pandas(each, preserve_index=False) for each in frames)
    return [
        first.set_column(2, "town", pa.nulls(400)),
        second.set_column(1, "count", second["count"].cast(pa.float64())).select(["target", "town", "a", "count"]),
        third.set_column(2, "town", third["town"].cast(pa.string_view())),
    ]


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_batches_may_have_other_orders_and_types(kind):
    """The model is that of a table whose types hold all values; files may be mixed with tables."""
    once = kw.TrainingConfig(max_epochs=1)
    table = TABLE[["a", "count", "town", "target"]].iloc[:1200].copy()
    table.loc[:399, "town"] = None
    expected = regressor(training=once).fit([table], "target").predict(table.drop(columns="target"))
    parts = part_types(kind)
    model = regressor(training=once).fit(parts, "target")
    assert model.columns_.categories == (("Bonn", "Trier", "Ulm"),)
    np.testing.assert_array_equal(np.concatenate(list(model.predict(parts))), expected)


def test_classes_may_be_numbers_of_several_types():
    table = TABLE[["a", "b", "count"]].iloc[:600].assign(label=np.arange(600) % 3)
    once = kw.TabularClassifier("PLE-Q@6", training=kw.TrainingConfig(max_epochs=1), random_state=0, device="cpu")
    expected = once.fit([table], "label").predict_proba(table[["a", "b", "count"]])
    parts = [table[:200].astype({"label": "int8"}), table[200:400].astype({"label": "float32"}), table[400:]]
    np.testing.assert_array_equal(once.fit(parts, "label").predict_proba(table[["a", "b", "count"]]), expected)
    assert once.classes_.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="In batch 2.*'label'.*one type in all batches, but has bool and int64"):
        once.fit([table, table.astype({"label": bool})], "label")


def test_files_are_batches_and_columns_may_have_numbers_as_names(tmp_path):
    numbers = TABLE[["a", "b", "target"]].iloc[:600]
    once = regressor(training=kw.TrainingConfig(max_epochs=1))
    expected = once.fit([numbers], "target").predict(numbers[["a", "b"]])
    for name, rows in (("x", numbers[:200]), ("y", numbers[200:])):
        rows.to_parquet(tmp_path / name)
    model = once.fit([pq.ParquetFile(tmp_path / name) for name in "xy"], "target")
    np.testing.assert_array_equal(model.predict(numbers[["a", "b"]]), expected)
    unnamed = numbers.set_axis(range(3), axis=1)
    np.testing.assert_array_equal(once.fit([unnamed], 2).predict(unnamed[[0, 1]]), expected)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_scores_of_streams_are_those_of_the_table(tmp_path):
    table = TABLE[[*FEATURES, "target"]].assign(
        high=np.where(TABLE["target"] > 1, "yes", "no"), weight=TABLE["b"], more=1
    )[:4000]
    path = tmp_path / "table.parquet"
    table.to_parquet(path)
    few = kw.TrainingConfig(max_epochs=1)
    models = {"target": regressor(training=few), "high": kw.TabularClassifier("PLE-Q@12", training=few, device="cpu")}
    for target, model in models.items():
        model.fit(table[FEATURES], table[target])
        for weight in (None, "weight"):
            weights = None if weight is None else table[weight]
            expected = model.score(table[FEATURES], table[target], weights)
            assert model.score(pq.ParquetFile(path), target, weight) == pytest.approx(expected, abs=1e-12)
            frames = Frames(table[[*FEATURES, target, "weight"]] if weight else table[[*FEATURES, target]])
            assert model.score(frames, target, weight) == pytest.approx(expected, abs=1e-12)


def test_parts_of_predictions_are_those_of_the_batches(monkeypatch):
    """Batches of one row, some of them held out, of none, and of more than are read at a time."""
    monkeypatch.setattr(streams, "BATCH_ROWS", 60)
    monkeypatch.setattr(_streams, "STREAMED_ROWS", 64)
    table = TABLE[["b", "count", "target"]].iloc[:192]
    sizes = [1, 0, 1, 1, 100, 61, 28, 0]
    ends = np.cumsum(sizes)
    batches = [table.iloc[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    model = regressor(training=kw.TrainingConfig(max_epochs=1))
    singly = model.fit([table.iloc[place : place + 1] for place in range(192)], "target").predict(table[["b", "count"]])
    model.fit(batches, "target")
    np.testing.assert_array_equal(model.predict(table[["b", "count"]]), singly)
    parts = list(model.predict(iter(batches)))
    assert [len(part) for part in parts] == sizes
    np.testing.assert_allclose(np.concatenate(parts), singly, rtol=1e-5)


def test_a_share_is_held_out_as_asked():
    table = TABLE[["b", "count", "target"]].iloc[:400]
    model = regressor(training=kw.TrainingConfig(max_epochs=1), validation=0.5).fit([table], "target")
    assert len(model._model.held.target) == 200


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_an_interrupt_before_the_first_epoch_leaves_no_thread(monkeypatch, tmp_path):
    """Ctrl-C while the first chunk is loaded."""
    load, calls = _chunks.ChunkLoader.load, []

    def interrupted(self):
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt
        load(self)

    monkeypatch.setattr(_chunks.ChunkLoader, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        regressor().fit([TABLE[["b", "count", "target"]].iloc[:400]], "target", scratch=tmp_path)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("knotwork-chunks")]
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_is_named(monkeypatch, tmp_path):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(_chunks.os, "pwrite", full)
    with pytest.raises(OSError, match=f"pass scratch='/another/disk' to fit: '{tmp_path}'"):
        regressor().fit([TABLE[["b", "count", "target"]].iloc[:400]], "target", scratch=tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(streams.shutil, "disk_usage", lambda folder: SimpleNamespace(free=2**10))
    with pytest.raises(ValueError, match=r"with 0.1 MiB free.* with 0.0 MiB"):
        regressor().fit([TABLE[["b", "count", "target"]]], "target", scratch=tmp_path)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_a_column_is_said_to_be_constant_in_the_rows_that_were_seen(small_chunks):
    table = TABLE[["a", "b", "target"]].assign(flag=np.arange(N_ROWS) == 3)
    once = kw.TrainingConfig(max_epochs=1)
    with pytest.warns(kw.errors.ColumnWarning, match="'flag' is ignored: it is constant in a sample of 2000 rows"):
        regressor(training=once).fit([table.astype({"flag": float})], "target")


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
@pytest.mark.parametrize("target", ["target", "label"])
def test_rows_in_another_order_are_an_error(target):
    """Rows that validate in one pass would be trained on in the other."""

    class Shuffled(Frames):
        def __iter__(self):
            self.table = TABLE.sample(frac=1.0, random_state=self.n_passes)
            yield from super().__iter__()

    model = regressor() if target == "target" else classifier()
    batches = Shuffled(TABLE)
    with pytest.raises(ValueError, match="in the same order whenever it is read.*without shuffling"):
        model.fit(batches, target)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_a_fit_that_fails_leaves_the_model_as_it_was(monkeypatch):
    table = TABLE[[*FEATURES, "label"]]
    model = classifier().set_params(training=kw.TrainingConfig(max_epochs=1)).fit(Frames(table), "label")
    before = model.predict(NEW)
    other = table.assign(label=TABLE["label"].map({"high": "Z", "low": "A"}))

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(streams.BatchReader, "split_weighted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(Frames(other), "label")
    with monkeypatch.context() as patch:
        patch.setattr(_chunks.ChunkWriter, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.fit(Frames(other), "label")
    assert model.target_name_ == "label"
    assert list(model.classes_) == ["high", "low"]
    np.testing.assert_array_equal(model.predict(NEW), before)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
@pytest.mark.parametrize(
    ("parameters", "message", "n_passes"),
    [
        ({"device": "zz"}, "device must", 0),
        ({"device": []}, "device must", 0),
        ({"encoding": {"a": "BS-Q@7", "nothing": "Std"}}, "nothing", 1),
        ({"encoding": "ZZ@3"}, "ZZ", 1),
    ],
)
def test_wrong_parameters_are_refused_before_rows_are_written(parameters, message, n_passes):
    batches = Frames(TABLE)
    with pytest.raises((ValueError, TypeError), match=message):
        regressor().set_params(**parameters).fit(batches, "target")
    assert batches.n_passes == n_passes


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_given_validation_rows_count_for_the_size_of_batches():
    """7,000 rows alone would have batches of 64 rows, and with 1,000 more they have 128."""
    table = make_table(8000)
    train, held = table.iloc[:7000], table.iloc[7000:]
    config = kw.TrainingConfig(max_epochs=2, reproducible=True)
    given = {"X_val": held[FEATURES[1:]], "y_val": held["target"]}
    whole = regressor(training=config).fit(train[FEATURES[1:]], train["target"], **given)
    streamed = regressor(training=config).fit(Frames(train[[*FEATURES[1:], "target"]]), "target", **given)
    np.testing.assert_allclose(streamed.predict(NEW[FEATURES[1:]]), whole.predict(NEW[FEATURES[1:]]), atol=1e-4)


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_what_files_lack_is_named(tmp_path):
    pq.write_table(pa.Table.from_pandas(TABLE), tmp_path / "table.parquet")
    file = pq.ParquetFile(tmp_path / "table.parquet")
    model = regressor(training=kw.TrainingConfig(max_epochs=1)).fit(file, "target")
    with pytest.raises(ValueError, match="Did you mean 'target'"):
        model.score(file, "Target")
    pq.write_table(pa.table({"other": [1.0, 2.0]}), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="now missing: 'a', 'b'"):
        list(model.predict(pq.ParquetFile(tmp_path / "other.parquet")))
    pq.write_table(pa.Table.from_pandas(TABLE.iloc[:0]), tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="X must have rows"):
        model.score(pq.ParquetFile(tmp_path / "empty.parquet"), "target")


@pytest.mark.parametrize(("X", "hint"), [(TABLE, "Pass X.drop"), (["a.parquet"], "pyarrow.dataset"), ([], "pyarrow")])
def test_names_of_targets_are_for_batches(X, hint):
    with pytest.raises(TypeError, match=f"y must hold the values of the target.*{hint}"):
        regressor().fit(X, "target")


@pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")
def test_one_target_in_a_list(recwarn):
    model = regressor(training=kw.TrainingConfig(max_epochs=1)).fit(Frames(TABLE[[*FEATURES, "target"]]), ["target"])
    assert model.predict(NEW).shape == (len(NEW),)
    assert not [each for each in recwarn if "1d array" in str(each.message)]


def test_decimals_and_nanoseconds():
    n = 400
    labels = pa.array([Decimal(place % 2) for place in range(n)], pa.decimal128(5, 2))
    moments = pa.array(1_600_000_000_000_000_001 + np.arange(n) * 3_600_123_456_789, pa.timestamp("ns"))
    table = pa.table({"when": moments, "a": np.sin(np.arange(n)), "label": labels})
    model = classifier().fit([table], "label")
    assert model.score([table], "label") == model.score(table.drop_columns("label"), np.arange(n) % 2)
    np.testing.assert_array_equal(
        model.predict(table.drop_columns("label")), model.predict(table.drop_columns("label").to_pandas())
    )


@pytest.mark.parametrize("is_stream", [False, True])
def test_warnings_are_at_the_line_of_the_user(is_stream):
    table = TABLE[["a", "b", "target"]].assign(same=1.0)
    model = regressor(training=kw.TrainingConfig(max_epochs=1))
    given = (Frames(table), "target") if is_stream else (table.drop(columns="target"), table["target"])
    with pytest.warns(kw.errors.ColumnWarning, match="same") as caught:
        model.fit(*given)
    assert {each.filename for each in caught} == {__file__}
