"""Chunks of rows in files: what is written is read, and loaded into the table on the device."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from knotwork.training._chunks import ChunkLoader, ChunkWriter, RowChunks, RowFormat
from knotwork.training._members import DeviceTable, TrainingTable

FORMS = {
    "numbers": RowFormat(5, (), 0, has_weights=False),
    "targets": RowFormat(2, (9, 300), 3, has_weights=True),
    "classes": RowFormat(3, (40_000, 2), None, has_weights=True),
    "codes only": RowFormat(0, (4,), None, has_weights=False),
}


def random_rows(form, n_rows, seed=0):
    random = np.random.default_rng(seed)
    rows = np.zeros(n_rows, dtype=form.dtype)
    rows["numbers"] = random.normal(size=rows["numbers"].shape)
    if form.n_numbers:
        rows["numbers"][::3, 0] = np.nan
    rows["codes"] = random.integers(0, form.cardinalities or 1, size=rows["codes"].shape)
    rows["target"] = random.integers(0, 5, size=rows["target"].shape)
    if form.has_weights:
        rows["weights"] = random.uniform(size=rows["weights"].shape)
    return rows


@pytest.mark.parametrize("name", FORMS)
def test_loaded_blocks_have_the_rows_that_were_written(tmp_path, name):
    """Two threads write to three chunks; over two passes the table has every row twice, with its indicators."""
    form = FORMS[name]
    batches = [random_rows(form, n, seed=n) for n in (50, 31, 80)]
    writer = ChunkWriter(tmp_path, form, 3)
    with ThreadPoolExecutor(2) as pool:
        for batch in batches:
            counts = np.array([len(batch) - 25, 20, 5])
            pool.submit(writer.write, batch, counts, writer.reserve(counts)).result()
    indicated = (0,) if form.n_numbers else ()
    units = np.stack([np.zeros(form.n_numbers), np.ones(form.n_numbers)])
    chunks = RowChunks(tmp_path, form, tuple(writer.counts.tolist()), units, indicated, seed=1)
    assert (chunks.n_rows, chunks.capacity) == (161, max(writer.counts))
    own = random_rows(form, 4, seed=7)
    codes = np.concatenate([own["codes"], np.full((4, len(indicated)), 2)], axis=1).astype(np.int64)
    target = own["target"] if (form.n_targets or 0) > 1 else own["target"][:, 0]
    table = TrainingTable(
        own["numbers"].astype(np.float64), codes, target, "classification" if form.n_targets is None else "regression",
        (*form.cardinalities, *[3] * len(indicated)), 5, own["weights"][:, 0] if form.has_weights else None,
        chunks=chunks,
    )  # fmt: skip
    data = DeviceTable.from_table(table, torch.device("cpu"))
    loader, parts = ChunkLoader(chunks, data), []
    for _ in range(6):
        loader.load()
        n = int(data.count)
        flags = data.codes[:n, len(form.cardinalities) :]
        assert torch.equal(flags, torch.where(data.numbers[:n, list(indicated)].isnan(), 1, 2))
        values = [data.numbers[:n], data.codes[:n, : len(form.cardinalities)], data.target[:n].reshape(n, -1)]
        values += [] if data.weights is None else [data.weights[:n, None]]
        parts.append(np.concatenate([each.double().numpy() for each in values], axis=1))
        np.testing.assert_array_equal(data.numbers[-4:].numpy(), own["numbers"])
    loader.close()
    rows = np.concatenate(batches)
    names = ["numbers", "codes", "target", *(["weights"] if form.has_weights else [])]
    expected = np.concatenate([rows[name].astype(np.float64) for name in names], axis=1)
    for passed in (parts[:3], parts[3:]):
        np.testing.assert_array_equal(ordered(np.concatenate(passed)), ordered(expected))


def ordered(rows):
    return rows[np.lexsort(np.nan_to_num(rows, nan=-99.0).T)]


def test_errors_of_reading_are_raised_by_the_training(tmp_path):
    form = FORMS["numbers"]
    writer = ChunkWriter(tmp_path, form, 2)
    writer.write(random_rows(form, 10), np.array([4, 6]), writer.reserve(np.array([4, 6])))
    chunks = RowChunks(tmp_path, form, (4, 60), np.stack([np.zeros(5), np.ones(5)]), (), seed=0)
    table = TrainingTable(np.zeros((1, 5)), np.zeros((1, 0), dtype=np.int64), np.zeros(1), "regression", chunks=chunks)
    loader = ChunkLoader(chunks, DeviceTable.from_table(table, torch.device("cpu")))
    with pytest.raises(OSError, match="shorter than it was written"):
        [loader.load() for _ in range(2)]
    loader.close()


def test_blocks_are_as_large_as_memory_permits():
    narrow, wide = RowFormat(20, (), 0, has_weights=False), RowFormat(5000, (), 0, has_weights=False)
    for form, n_rows in ((narrow, 100_000_000), (wide, 1_000_000)):
        usual = n_rows / form.n_chunks(n_rows)
        assert (usual + 5 * np.sqrt(usual)) * form.dtype.itemsize < 256 << 20  # a power of two, as pinned memory is
        assert usual * form.dtype.itemsize > 200 << 20
    assert narrow.n_chunks(1000) == 1
