"""Records of a study load as one table; a network that was trained more than once has one row, the right one."""

from dataclasses import replace
from math import nan

import pandas as pd
import pyarrow.parquet as pq
import pytest

from knotwork.study import load_results
from knotwork.study._records import NEWER_COLUMNS, RecordIndex, RecordWarning, consolidate, record_schema, write_records

DESIGN = {
    *("dataset", "task", "backbone", "tokens", "method", "size", "fold", "seed", "status"),
    *("nrmse", "rmse", "mae", "r2", "auc", "log_loss", "accuracy"),
    *("prepare_seconds", "train_seconds", "epochs", "best_epoch", "n_parameters", "knots_moved"),
    *("data_sha256", "plan_hash", "version", "device", "error"),
}


def row(key, **columns):
    base = {"key": key, "dataset": "d", "backbone": "mlp", "method": key, "fold": 0, "seed": 42, "together": True}
    return base | {"status": "ok", "recorded_at": 1.0, "nrmse": 0.5} | columns


def write_unsealed(path, table):
    """Write a record as earlier versions did, without the checksum of the file."""
    metadata = {name: value for name, value in table.schema.metadata.items() if name != b"checksum"}
    pq.write_table(table.replace_schema_metadata(metadata), path, write_page_checksum=True)


def test_records_have_the_columns_of_the_design(tmp_path):
    write_records(tmp_path, "a", [row("k")])
    frame = load_results(tmp_path)
    assert list(frame.columns) == record_schema().names
    assert set(frame.columns) >= DESIGN


def test_a_whole_study_loads_and_aggregates(tmp_path):
    methods, sizes, folds = [f"m{i}" for i in range(14)], (7, 15, 30), range(5)
    n_units = 225
    for unit in range(n_units):
        rows = [
            row(f"{unit} {method} {fold}", dataset=f"d{unit // 9}", backbone=f"b{unit % 9 // 3}", method=method,
                size=sizes[unit % 3], fold=fold, nrmse=float(unit))
            for method in methods for fold in folds
        ]  # fmt: skip
        write_records(tmp_path, f"unit-{unit}", rows)
    many = load_results(tmp_path)
    assert len(many) == n_units * 70
    consolidate(tmp_path)
    index = RecordIndex(tmp_path).refresh()
    assert len(index.tables) == n_units
    pd.testing.assert_frame_equal(load_results(tmp_path), many)
    means = many.groupby(["dataset", "backbone", "size"])["nrmse"].mean()
    assert sorted(means) == [float(unit) for unit in range(n_units)]


def test_refreshing_reads_only_new_and_replaced_files(tmp_path, monkeypatch):
    from knotwork.study import _records as records

    for name in "abc":
        write_records(tmp_path, name, [row(name)])
    index = RecordIndex(tmp_path).refresh()
    read = []
    original = records._read_file
    monkeypatch.setattr(records, "_read_file", lambda path: read.append(path.name) or original(path))
    assert len(index.refresh().frame()) == 3
    assert not read
    write_records(tmp_path, "b", [row("b", nrmse=0.25)])
    write_records(tmp_path, "d", [row("d")])
    (tmp_path / "records" / "c.parquet").unlink()
    frame = index.refresh().frame().set_index("key")
    assert sorted(read) == ["b.parquet", "d.parquet"]
    assert sorted(frame.index) == ["a", "b", "d"]
    assert frame.loc["b", "nrmse"] == 0.25
    assert index.sources() == {name: f"{name}.parquet" for name in "abd"}


def test_the_consolidated_file_is_only_a_copy(tmp_path):
    for name in "abc":
        write_records(tmp_path, name, [row(name)])
    consolidate(tmp_path)
    (tmp_path / "records" / "a.parquet").unlink()
    write_records(tmp_path, "b", [row("b", nrmse=0.25)])
    write_records(tmp_path, "d", [row("d")])
    frame = load_results(tmp_path).set_index("key")
    assert sorted(frame.index) == ["b", "c", "d"]
    assert frame.loc["b", "nrmse"] == 0.25
    (tmp_path / "records.parquet").write_bytes(b"nonsense")
    with pytest.warns(RecordWarning, match="records.parquet cannot be read: .*; it is only a copy of the records"):
        assert len(load_results(tmp_path)) == 3


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("failed", 2.0, None), ("ok", 1.0, 0.1)], ("ok", 0.1)),
        ([("ok", 1.0, 0.1), ("ok", 2.0, 0.2)], ("ok", 0.2)),
        ([("ok", 2.0, 0.2), ("ok", 1.0, 0.1)], ("ok", 0.2)),
        ([("failed", 1.0, None), ("failed", 2.0, None)], ("failed", None)),
    ],
)
def test_of_rows_with_one_key_the_best_and_latest_counts(tmp_path, rows, expected):
    for place, (status, recorded_at, nrmse) in enumerate(rows):
        write_records(tmp_path, str(place), [row("k", status=status, recorded_at=recorded_at, nrmse=nrmse)])
    frame = load_results(tmp_path)
    assert len(frame) == 1
    assert frame.loc[0, "status"] == expected[0]
    assert pd.isna(frame.loc[0, "nrmse"]) if expected[1] is None else frame.loc[0, "nrmse"] == expected[1]
    assert RecordIndex(tmp_path).refresh().states()["k"][0] == expected[0]


def test_records_from_before_a_column_was_added_count(tmp_path):
    path = write_records(tmp_path, "a", [row("a", variant="v", knot_shift=0.5, epoch_seconds=0.1), row("b")])
    write_unsealed(path, pq.read_table(path).drop_columns(list(NEWER_COLUMNS)))
    write_records(tmp_path, "c", [row("c", variant="v")])
    frame = load_results(tmp_path).set_index("key")
    assert list(load_results(tmp_path).columns) == record_schema().names
    assert sorted(frame.index) == ["a", "b", "c"]
    assert frame["variant"].isna().to_dict() == {"a": True, "b": True, "c": False}


def test_epochs_of_older_records_count_from_1_too(tmp_path):
    """Up to version 0.2.0 they counted from 0, and the metadata did not say how."""
    write_records(tmp_path, "new", [row("new", best_epoch=7)])
    write_records(tmp_path, "old", [row("old", best_epoch=7)])
    path = tmp_path / "records" / "old.parquet"
    table = pq.read_table(path)
    kept = {name: text for name, text in table.schema.metadata.items() if name != b"first_epoch"}
    write_unsealed(path, table.replace_schema_metadata(kept))
    for _ in range(2):  # the second time from the consolidated file
        assert dict(load_results(tmp_path)[["key", "best_epoch"]].to_numpy()) == {"new": 7, "old": 8}
        consolidate(tmp_path)


def test_a_record_of_another_version_is_named(tmp_path):
    path = write_records(tmp_path, "a", [row("a")])
    table = pq.read_table(path)
    write_unsealed(path, table.drop_columns(["nrmse"]))
    with pytest.warns(RecordWarning, match="missing columns: \\['nrmse'\\]"):
        assert load_results(tmp_path).empty
    write_unsealed(path, table.append_column("temperature", table["nrmse"]))
    with pytest.warns(RecordWarning, match="not a record of this version"):
        assert load_results(tmp_path).empty


def test_unknown_columns_of_records_raise_an_error(tmp_path):
    with pytest.raises(ValueError, match="only the columns of records, got rows=\\['nrmsee'\\]"):
        write_records(tmp_path, "a", [row("a", nrmsee=0.5)])


def test_metrics_of_other_sessions_are_kept(tmp_path, monkeypatch):
    from knotwork.training import METRICS

    write_records(tmp_path, "a", [row("a")])
    monkeypatch.setitem(METRICS, "bias", replace(METRICS["mae"], name="bias"))
    write_records(tmp_path, "b", [row("b", bias=0.25)])
    assert load_results(tmp_path).set_index("key")["bias"].to_dict() == pytest.approx(
        {"a": nan, "b": 0.25}, nan_ok=True
    )
    write_records(tmp_path, "c", [row("c")])
    monkeypatch.undo()
    assert "bias" not in record_schema().names
    for _ in range(2):
        frame = load_results(tmp_path).set_index("key")
        assert frame["bias"].to_dict() == pytest.approx({"a": nan, "b": 0.25, "c": nan}, nan_ok=True)
        consolidate(tmp_path)


def test_half_written_files_are_not_seen(tmp_path):
    write_records(tmp_path, "a", [row("a")])
    (tmp_path / "records" / ".b.parquet.123.tmp").write_bytes(b"PAR1")
    assert len(load_results(tmp_path)) == 1


def test_an_empty_or_missing_folder(tmp_path):
    assert load_results(tmp_path).empty
    assert list(load_results(tmp_path).columns) == record_schema().names
    with pytest.raises(ValueError, match="study run"):
        load_results(tmp_path / "none")
