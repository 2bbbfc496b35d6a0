"""Records: one row per trained network, in Parquet files that appear whole."""

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from knotwork._checks import argument_error
from knotwork.study._files import write_file
from knotwork.study._manifest import read_manifest
from knotwork.training import METRICS

__all__ = [
    "IDENTITY",
    "RecordIndex",
    "RecordWarning",
    "consolidate",
    "load_results",
    "metric_columns",
    "record_schema",
    "write_records",
]

_BEFORE_METRICS: dict[str, pa.DataType] = {
    "key": pa.string(),
    **{name: pa.string() for name in ("dataset", "task", "backbone", "tokens", "method")},
    **{name: pa.int64() for name in ("size", "fold", "seed")},
    "variant": pa.string(),
    "together": pa.bool_(),
    "status": pa.string(),
}
_BEHIND_METRICS: dict[str, pa.DataType] = {
    **{name: pa.float64() for name in ("target_mean", "target_std", "target_range")},
    **{name: pa.float64() for name in ("prepare_seconds", "train_seconds", "epoch_seconds")},
    **{name: pa.int64() for name in ("epochs", "best_epoch", "n_parameters")},
    "knots_moved": pa.bool_(),
    "knot_shift": pa.float64(),
    **{name: pa.int64() for name in ("n_rows", "n_features")},
    **{name: pa.string() for name in ("data_sha256", "plan", "plan_hash", "version", "torch_version", "device")},
    "host": pa.string(),
    "started_at": pa.float64(),
    "recorded_at": pa.float64(),
    "error": pa.string(),
}

IDENTITY = ("dataset", "backbone", "tokens", "method", "size", "fold", "seed", "variant", "together")
"""What identifies a network of a plan for a reader."""

LATER = ("variant", "knot_shift", "epoch_seconds")
"""Columns that records did not have at first; in those from before they are missing."""

CONSOLIDATED = "records.parquet"
READERS = 8


class RecordWarning(UserWarning):
    """A file among the records is torn, or is none of ours, and was left out."""


def metric_columns() -> list[str]:
    """Return the columns of all registered metrics."""
    return [column for metric in METRICS.values() for column in metric.columns]


def record_schema(further: Iterable[str] = ()) -> pa.Schema:
    """Return the columns of a record and their types.

    A metric that does not apply is missing, as is `size` of Std and MinMax. The metadata names the columns of metrics,
    so that a session in which others are registered can read the records.

    Parameters
    ----------
    further : iterable of str
        Columns of metrics that are not registered in this session, but were when records were written.
    """
    columns = {**_BEFORE_METRICS, **dict.fromkeys(metric_columns(), pa.float64()), **_BEHIND_METRICS}
    unknown = dict.fromkeys((name for name in further if name not in columns), pa.float64())
    metrics = json.dumps([*metric_columns(), *unknown])
    return pa.schema(list({**columns, **unknown}.items()), metadata={"metrics": metrics})


def write_records(out: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the rows of one unit; the file appears when all of it is on the disk.

    Parameters
    ----------
    out : Path
        Folder of the study.
    name : str
        Name of the record; one of that name is replaced.
    rows : iterable of mapping
        For each network its columns; those that are left out are missing.
    """
    path = out / "records" / f"{name}.parquet"
    schema, content = record_schema(), [dict(row) for row in rows]
    unknown = sorted({column for row in content for column in row} - set(schema.names))
    if unknown:  # Arrow would leave them out without a word
        raise argument_error("rows", "have columns of records only", unknown)
    table = pa.Table.from_pylist(content, schema=schema)
    write_file(path, lambda file: pq.write_table(table, file, write_page_checksum=True))
    return path


@final
@dataclass
class RecordIndex:
    """What is recorded in a folder; looking again reads only what is new.

    Parameters
    ----------
    out : Path
        Folder of the study.
    """

    out: Path
    tables: dict[str, pa.Table] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    _seen: dict[str, tuple[int, int]] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def refresh(self) -> "RecordIndex":
        """Read files that are new or have been replaced, and forget those that are gone."""
        stamps = self._stamps()
        for name in [name for name in self._seen if name not in stamps]:
            self._forget(name)
        new = [name for name, stamp in stamps.items() if self._seen.get(name) != stamp]
        if len(new) > 1:
            self._read_consolidated(stamps)
            new = [name for name, stamp in stamps.items() if self._seen.get(name) != stamp]
        with ThreadPoolExecutor(READERS) as pool:
            for name, found in zip(new, pool.map(_read_file, [self._path(name) for name in new]), strict=True):
                self._forget(name)
                self._seen[name] = stamps[name]
                if isinstance(found, str):
                    self.problems[name] = found
                else:
                    self.tables[name] = found
        return self

    def _stamps(self) -> dict[str, tuple[int, int]]:
        """Return size and time of every record file.

        A file that replaces another has another number. So of those seen before only the list of the folder is read:
        before every unit each of thousands would be asked for its size, over a network perhaps.
        """
        stamps = {}
        with suppress(FileNotFoundError), os.scandir(self.out / "records") as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if not entry.name.endswith(".parquet") or entry.name.startswith("."):
                    continue
                if entry.name in self._seen and self._numbers.get(entry.name) == entry.inode():
                    stamps[entry.name] = self._seen[entry.name]
                    continue
                with suppress(FileNotFoundError):
                    stat = os.stat(entry.path)
                    stamps[entry.name] = (stat.st_size, stat.st_mtime_ns)
                    self._numbers[entry.name] = stat.st_ino
        return stamps

    def _path(self, name: str) -> Path:
        return self.out / "records" / name

    def _forget(self, name: str) -> None:
        self.tables.pop(name, None)
        self.problems.pop(name, None)
        self._seen.pop(name, None)

    def _read_consolidated(self, stamps: Mapping[str, tuple[int, int]]) -> None:
        """Take what one file holds of many, as far as these are still the same."""
        path = self.out / CONSOLIDATED
        if not path.is_file() or self._seen:
            return
        table = _read_file(path)
        if isinstance(table, str):
            return  # it is but a copy
        parts = json.loads((pq.read_schema(path).metadata or {}).get(b"parts", b"[]"))
        first = 0
        for name, size, changed, n_rows in parts:
            if stamps.get(name) == (size, changed):
                self.tables[name] = table.slice(first, n_rows)
                self._seen[name] = (size, changed)
            first += n_rows

    def frame(self) -> pd.DataFrame:
        """Return one row for every key: one that went well rather than a failure, and of those the latest."""
        return self._chosen().reset_index(drop=True)

    def sources(self) -> dict[str, str]:
        """Return for every key the name of the file with its row."""
        files = np.repeat(list(self.tables), [table.num_rows for table in self.tables.values()])
        chosen = self._chosen()
        return dict(zip(chosen["key"], files[chosen.index].tolist(), strict=True))

    def _chosen(self) -> pd.DataFrame:
        """Return the rows that count, numbered as they stand in the files one after the other."""
        if not self.tables:
            return pd.DataFrame({name: [] for name in record_schema().names})
        frame: pd.DataFrame = _joined(self.tables.values()).to_pandas()
        frame["size"] = frame["size"].astype("Int64")
        order = frame.assign(_ok=frame["status"] == "ok").sort_values(["_ok", "recorded_at"], kind="stable")
        return order.drop_duplicates("key", keep="last").drop(columns="_ok").sort_index()

    def states(self) -> dict[str, tuple[str, float]]:
        """Return the status of every recorded key, and when it was recorded."""
        best: dict[str, tuple[str, float]] = {}
        for table in self.tables.values():
            columns = (table[name].to_pylist() for name in ("key", "status", "recorded_at"))
            for key, status, recorded_at in zip(*columns, strict=True):
                known = best.get(key, ("", 0.0))
                if known[0] != "ok" and (status == "ok" or recorded_at >= known[1]):
                    best[key] = status, recorded_at
        return best


def _read_file(path: Path) -> "pa.Table | str":
    """Read a record; what is wrong with it if it is torn, altered, or none of ours."""
    try:
        source = pa.BufferReader(path.read_bytes())
        table = pq.ParquetFile(source, page_checksum_verification=True).read(use_threads=False)
    except (OSError, pa.ArrowException) as error:
        return f"cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    content = (table.schema.metadata or {}).get(b"metrics")
    recorded = None if content is None else json.loads(content)  # records of 0.1.0 do not say
    for name in (*LATER, *metric_columns()):
        if name not in table.column_names and (name in LATER or recorded is None or name not in recorded):
            table = table.append_column(name, pa.nulls(len(table), record_schema().field(name).type))
    schema = record_schema(recorded or ())
    if set(schema.names) != set(table.column_names) or not table.select(schema.names).schema.equals(schema):
        lacking = [name for name in schema.names if name not in table.column_names]
        return f"is no record of this version of the library; columns that it lacks: {lacking or 'none'}"
    return table.select(schema.names).replace_schema_metadata(None)


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Put records one after the other; a metric that some do not have is missing there."""
    return pa.concat_tables(tables, promote_options="default")


def load_results(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load all records of a study, one row per trained network.

    A network of a plan that was trained again, after a failure or because something it depends on has changed, is
    there once: the latest that went well, otherwise the latest failure. Files that are torn or foreign are left out,
    with a `RecordWarning` that names them.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    plan_hash : str, optional
        Load what belongs to the plan of this `Plan.plan_hash` and to no other that was run in the folder.

    Returns
    -------
    DataFrame
        One column for everything that a record holds, among them every metric of `knotwork.training.METRICS`.
    """
    folder = Path(out)
    if not folder.is_dir():
        raise argument_error(
            "out", "be a folder of a study", str(out), "Run 'knotwork study run NAME --out DIR' first."
        )
    index = RecordIndex(folder).refresh()
    for name, problem in index.problems.items():
        warnings.warn(f"{folder / 'records' / name} {problem}. It was left out.", RecordWarning, stacklevel=2)
    frame = index.frame()
    if plan_hash is not None:
        keys = [network[0] for network in read_manifest(folder, plan_hash)["networks"]]
        return frame[frame["key"].isin(keys)].reset_index(drop=True)
    latest = frame.sort_values("recorded_at", kind="stable").drop_duplicates(["plan", *IDENTITY], keep="last")
    return latest.sort_index().reset_index(drop=True)


def consolidate(out: Path) -> None:
    """Copy all records into one file, which is faster to read than thousands; the records themselves stay."""
    index = RecordIndex(out).refresh()
    if len(index.tables) < 2:
        return
    parts = [[name, *index._seen[name], table.num_rows] for name, table in index.tables.items()]
    table = _joined(index.tables.values())
    metadata = {**(record_schema(table.column_names).metadata or {}), b"parts": json.dumps(parts).encode()}
    table = table.replace_schema_metadata(metadata)
    write_file(out / CONSOLIDATED, lambda file: pq.write_table(table, file, write_page_checksum=True))
