"""Records: one row per trained network, in Parquet files, and manifests: the networks of each plan that was run."""

import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from knotwork._checks import argument_error, warn_user
from knotwork.study._folder import CHANGED, RecordWarning, read_json, read_table, write_json, write_table
from knotwork.study._networks import NetworkSpec
from knotwork.study._plan import Plan
from knotwork.study._provenance import PROVENANCE
from knotwork.training import METRICS

_BEFORE_METRICS: dict[str, pa.DataType] = {
    "key": pa.string(),
    **{name: pa.string() for name in ("dataset", "task", "backbone", "tokens", "method")},
    **{name: pa.int64() for name in ("size", "fold", "seed")},
    "variant": pa.string(),
    "together": pa.bool_(),
    "status": pa.string(),
}
_AFTER_METRICS: dict[str, pa.DataType] = {
    **{name: pa.float64() for name in ("target_mean", "target_std", "target_range")},
    **{name: pa.float64() for name in ("prepare_seconds", "train_seconds", "epoch_seconds")},
    **{name: pa.int64() for name in ("epochs", "best_epoch", "n_parameters")},
    "valid_score": pa.float64(),
    "knots_moved": pa.bool_(),
    "knot_shift": pa.float64(),
    **{name: pa.string() for name in ("chosen", "pairs")},
    **{name: pa.int64() for name in ("n_rows", "n_features")},
    **{name: pa.string() for name in ("data_sha256", "plan", "plan_hash", *PROVENANCE, "host", "stack")},
    **{name: pa.int64() for name in ("stack_size", "stack_place")},
    "started_at": pa.float64(),
    "recorded_at": pa.float64(),
    "error": pa.string(),
}

IDENTITY = ("dataset", "backbone", "tokens", "method", "size", "fold", "seed", "variant", "together")
"""Columns that identify a network of a plan for a reader."""

STACK = ("stack", "stack_size", "stack_place")
"""Columns on the stack that a network was trained in: its identifier, its number of networks, and the position in it,
from 0."""

NEWER_COLUMNS = (
    *("variant", "knot_shift", "chosen", "pairs", "epoch_seconds", "valid_score", *STACK),
    *(name for name in PROVENANCE if name not in ("version", "torch_version", "device")),
)
"""Columns added after the first version of records; they are missing in old records."""

FIRST_EPOCH = "first_epoch"
"""Metadata key: the number of the first epoch. Files without it, of versions up to 0.2.0, count epochs from 0."""

CONSOLIDATED = "records.parquet"
READER_THREADS = 8
"""Threads that read records: on a shared file system, most of the time is spent waiting."""

MANIFEST_KEYS = {"plan", "plan_hash", "run_at", "n_rows", "networks"}
"""Keys of every manifest; since version 0.2.0 there is also `definition`, the plan."""

Stamp = tuple[int, int, int]
"""Inode, size and modification time of a file."""


def _metric_columns() -> list[str]:
    """Return the columns of all registered metrics."""
    return [column for metric in METRICS.values() for column in metric.columns]


def record_schema(further: Iterable[str] = ()) -> pa.Schema:
    """Return the columns of a record and their types; `further` are columns of metrics that are not registered.

    A metric that does not apply is missing, as is `size` of Std and MinMax. The metadata lists the columns of metrics,
    so that records can be read in sessions with other registered metrics, and how epochs are counted.
    """
    columns = {**_BEFORE_METRICS, **dict.fromkeys(_metric_columns(), pa.float64()), **_AFTER_METRICS}
    unknown = dict.fromkeys((name for name in further if name not in columns), pa.float64())
    metrics = json.dumps([*_metric_columns(), *unknown])
    return pa.schema(list({**columns, **unknown}.items()), metadata={"metrics": metrics, FIRST_EPOCH: "1"})


def write_records(out: Path, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the rows of one unit atomically, one mapping per network; a record of the same name is replaced."""
    path = out / "records" / f"{name}.parquet"
    schema, content = record_schema(), [dict(row) for row in rows]
    unknown = sorted({column for row in content for column in row} - set(schema.names))
    if unknown:  # Arrow would drop them silently
        raise argument_error("rows", "have only the columns of records", unknown)
    write_table(path, pa.Table.from_pylist(content, schema=schema))
    return path


@final
@dataclass
class RecordIndex:
    """The records and manifests in the folder of a study; `refresh` reads only new records."""

    out: Path
    _contents: dict[str, "pa.Table | str"] = field(default_factory=dict)
    _seen: dict[str, Stamp] = field(default_factory=dict)
    _other_problems: dict[str, str] = field(default_factory=dict)
    _frame: pd.DataFrame | None = None

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The records by their file names."""
        return {name: content for name, content in self._contents.items() if not isinstance(content, str)}

    @property
    def problems(self) -> dict[str, str]:
        """The reasons why files are ignored, by their paths within the folder."""
        records = {f"records/{name}": text for name, text in self._contents.items() if isinstance(text, str)}
        return records | self._other_problems

    def refresh(self) -> "RecordIndex":
        """Read new and replaced records, and drop deleted ones."""
        stamps = self._stamps()
        if stamps == self._seen:
            return self
        contents = {name: content for name, content in self._contents.items() if self._seen[name] == stamps.get(name)}
        if not self._seen and len(stamps) > 1:
            contents = self._read_consolidated(stamps)
        new = [name for name in stamps if name not in contents]
        with ThreadPoolExecutor(READER_THREADS) as pool:
            contents |= zip(new, pool.map(_read_file, [self.out / "records" / name for name in new]), strict=True)
        self._contents, self._seen, self._frame = {name: contents[name] for name in stamps}, stamps, None
        return self

    def _stamps(self) -> dict[str, Stamp]:
        """Return the stamp of every record file.

        Records are replaced by renaming, which changes the inode, so that a directory listing is enough for files seen
        before: reading the sizes of thousands of files before every unit is slow on a shared file system.
        """
        stamps = {}
        with suppress(FileNotFoundError), os.scandir(self.out / "records") as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if not entry.name.endswith(".parquet") or entry.name.startswith("."):
                    continue
                stamp = self._seen.get(entry.name)
                if stamp is not None and stamp[0] == entry.inode():
                    stamps[entry.name] = stamp
                    continue
                with suppress(FileNotFoundError):
                    stat = os.stat(entry.path)
                    stamps[entry.name] = stat.st_ino, stat.st_size, stat.st_mtime_ns
        return stamps

    def _read_consolidated(self, stamps: Mapping[str, Stamp]) -> dict[str, "pa.Table | str"]:
        """Return those records of the consolidated copy that have not changed since."""
        path = self.out / CONSOLIDATED
        if not path.is_file():
            return {}
        copy = read_table(path)
        parts = None if isinstance(copy, str) else _read_list(copy, b"parts")
        table = copy if isinstance(copy, str) else _as_record(copy)
        if isinstance(table, str) or parts is None:  # the copy is not needed: the records themselves are read
            problem = table if isinstance(table, str) else CHANGED
            self.ignore(CONSOLIDATED, f"{problem}; it is only a copy of the records, which were read instead")
            return {}
        unchanged, first = {}, 0
        for name, size, changed, n_rows in parts:
            if name in stamps and stamps[name][1:] == (size, changed):
                unchanged[name] = table.slice(first, n_rows)
            first += n_rows
        return unchanged

    def frame(self) -> pd.DataFrame:
        """Return one row for every key: the latest success, or else the latest failure."""
        return self._chosen().reset_index(drop=True)

    def sources(self) -> dict[str, str]:
        """Return the file name of the row of every key."""
        files = np.repeat(list(self.tables), [table.num_rows for table in self.tables.values()])
        chosen = self._chosen()
        return dict(zip(chosen["key"], files[chosen.index].tolist(), strict=True))

    def states(self) -> dict[str, tuple[str, float]]:
        """Return the status and time of the record of every key."""
        best: dict[str, tuple[str, float]] = {}
        for table in self.tables.values():
            columns = (table[name].to_pylist() for name in ("key", "status", "recorded_at"))
            for key, status, recorded_at in zip(*columns, strict=True):
                best_status, best_time = best.get(key, ("", 0.0))
                if best_status != "ok" and (status == "ok" or recorded_at >= best_time):
                    best[key] = status, recorded_at
        return best

    def _chosen(self) -> pd.DataFrame:
        """Return the rows of `frame`, indexed by their positions in the concatenated files."""
        if not self.tables:
            return pd.DataFrame({name: [] for name in record_schema().names})
        if self._frame is None:
            frame: pd.DataFrame = _joined(self.tables.values()).to_pandas()
            frame["size"] = frame["size"].astype("Int64")
            order = frame.assign(_ok=frame["status"] == "ok").sort_values(["_ok", "recorded_at"], kind="stable")
            self._frame = order.drop_duplicates("key", keep="last").drop(columns="_ok").sort_index()
        return self._frame

    def select(self, plan_hash: str | None) -> pd.DataFrame:
        """Return the rows of `load_results`."""
        frame = self.frame()
        if plan_hash is None:
            latest = frame.sort_values("recorded_at", kind="stable").drop_duplicates(["plan", *IDENTITY], keep="last")
            return latest.sort_index().reset_index(drop=True)
        path = _manifest_path(self.out, plan_hash)
        if not path.is_file():
            raise argument_error("plan_hash", f"be the hash of a plan that was run in {self.out}", plan_hash)
        networks = (self.manifest(path) or {"networks": ()})["networks"]
        return frame[frame["key"].isin([network[0] for network in networks])].reset_index(drop=True)

    def manifests(self, *, required: bool = False) -> list[dict[str, Any]]:
        """Return the manifests of all plans, the latest last; if `required`, none raises an error."""
        paths = sorted(path for path in (self.out / "plans").glob("*.json") if not path.name.startswith("."))
        manifests = [manifest for path in paths if (manifest := self.manifest(path)) is not None]
        if required and not manifests:
            hint = "Pass the folder of 'knotwork study run NAME --out DIR', or run a plan there first."
            raise argument_error("out", "be a folder that a plan was run in", str(self.out), hint)
        return sorted(manifests, key=lambda content: float(content["run_at"]))

    def manifest(self, path: Path) -> dict[str, Any] | None:
        """Read a manifest. A damaged one lists the recorded networks of its plan; None if there are none."""
        content = _read_manifest(path)
        if content is None:
            content = _from_records(path.stem, self.refresh().frame())
            networks = "" if content is None else "; the networks of its plan are taken from the records"
            problem = f"is damaged, or not a list of the networks of a plan{networks}"
            self.ignore(f"plans/{path.name}", problem)
        return content

    def ignore(self, name: str, problem: str) -> None:
        """Note why a file, given by its path within the folder, is ignored."""
        self._other_problems[name] = problem

    def warn(self) -> None:
        """Warn of the files that are ignored."""
        for name, problem in self.problems.items():
            warn_user(f"{self.out / name} {problem}. It was ignored.", RecordWarning)


def _read_file(path: Path) -> "pa.Table | str":
    """Read a record; return the problem if it is incomplete, altered, or not a record."""
    table = read_table(path)
    return table if isinstance(table, str) else _as_record(table)


def _read_list(table: pa.Table, key: bytes) -> list[Any] | None:
    """Return a list in the metadata of a table; None if it is missing or not a list."""
    try:
        content = json.loads((table.schema.metadata or {})[key])
    except (KeyError, ValueError, RecursionError):
        return None
    return content if isinstance(content, list) else None


def _as_record(table: pa.Table) -> "pa.Table | str":
    """Return a table with the columns of records; the problem if it has others."""
    recorded = _read_list(table, b"metrics")  # records of version 0.1.0 have no metadata
    for name in (*NEWER_COLUMNS, *_metric_columns()):
        if name not in table.column_names and (name in NEWER_COLUMNS or recorded is None or name not in recorded):
            table = table.append_column(name, pa.nulls(len(table), record_schema().field(name).type))
    schema = record_schema(map(str, recorded or ()))
    if set(schema.names) != set(table.column_names) or not table.select(schema.names).schema.equals(schema):
        missing = [name for name in schema.names if name not in table.column_names]
        return f"is not a record of this version of the library; missing columns: {missing or 'none'}"
    return counted_from_one(table.select(schema.names), "best_epoch").replace_schema_metadata(None)


def counted_from_one(table: pa.Table, column: str) -> pa.Table:
    """Return a table whose column of epochs counts from 1; files of earlier versions count from 0."""
    if FIRST_EPOCH.encode() in (table.schema.metadata or {}):
        return table
    place = table.schema.get_field_index(column)
    field = table.schema.field(place)
    return table.set_column(place, field, pc.add(table[column], pa.scalar(1, field.type)))


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate records; metrics that a record does not have are missing."""
    return pa.concat_tables(tables, promote_options="default")


def load_results(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load all records of a study, one row per trained network.

    A network that was trained again, after a failure or because something it depends on changed, has one row: the
    latest success, or else the latest failure. Damaged files are ignored with a `RecordWarning` that names them.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    plan_hash : str, optional
        Load only the networks of the plan with this `Plan.plan_hash`; by default those of all plans of the folder.

    Returns
    -------
    DataFrame
        The columns of records, among them every metric of `knotwork.training.METRICS`.
    """
    index = open_study(out)
    frame = index.select(plan_hash)
    index.warn()
    return frame


def open_study(out: str | PathLike[str]) -> RecordIndex:
    """Return the records in the folder of a study."""
    folder = Path(out)
    if not folder.is_dir():
        hint = "Run 'knotwork study run NAME --out DIR' first."
        raise argument_error("out", "be the folder of a study", str(out), hint)
    return RecordIndex(folder).refresh()


def read_manifests(out: Path) -> list[dict[str, Any]]:
    """Return the manifests of all plans that were run in a folder, the latest last, and warn of damaged files."""
    index = RecordIndex(out)
    manifests = index.manifests()
    index.warn()
    return manifests


def consolidate(out: Path) -> None:
    """Copy all records into one file, which is faster to read than thousands; the records themselves remain."""
    index = RecordIndex(out).refresh()
    if len(index.tables) < 2:
        return
    parts = [[name, *index._seen[name][1:], table.num_rows] for name, table in index.tables.items()]
    table = _joined(index.tables.values())
    metadata = {**(record_schema(table.column_names).metadata or {}), b"parts": json.dumps(parts).encode()}
    write_table(out / CONSOLIDATED, table.replace_schema_metadata(metadata))


def _manifest_path(out: Path, plan_hash: str) -> Path:
    return out / "plans" / f"{plan_hash[:20]}.json"


def write_manifest(
    index: RecordIndex,
    plan: Plan,
    networks: Sequence[NetworkSpec],
    n_rows: dict[str, int],
    unavailable: Collection[str],
) -> None:
    """Write the networks of a plan and the numbers of rows, so that the status can be computed without data.

    For data sets that are not available, the entries of an earlier manifest of the plan are kept.
    """
    path = _manifest_path(index.out, plan.plan_hash)
    before = (index.manifest(path) if path.is_file() else None) or {"networks": (), "n_rows": {}}
    content = {
        "plan": plan.name,
        "plan_hash": plan.plan_hash,
        "run_at": time.time(),
        "n_rows": {name: number for name, number in before["n_rows"].items() if name in unavailable} | n_rows,
        "definition": plan.to_mapping(),
        "networks": [network for network in before["networks"] if network[1] in unavailable]
        + [
            [each.key, each.dataset, each.backbone.label, each.backbone.tokens, each.encoding.size] for each in networks
        ],
    }
    store_manifest(index.out, content)


def store_manifest(out: Path, content: dict[str, Any]) -> None:
    """Write a manifest with its checksum."""
    write_json(_manifest_path(out, content["plan_hash"]), content)


def _read_manifest(path: Path) -> dict[str, Any] | None:
    """Return a manifest; None if it is not valid."""
    content = read_json(path, MANIFEST_KEYS, {"definition"})
    try:
        if content is None or content["plan_hash"][:20] != path.stem:
            return None
        content["plan"].encode()
        float(content["run_at"])
        rows = {name: int(number) for name, number in content["n_rows"].items()}
        is_valid = all(len(each) == 5 and isinstance(each[0], str) and each[1] in rows for each in content["networks"])
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
        return None
    return content if is_valid else None


def _from_records(stem: str, frame: pd.DataFrame) -> dict[str, Any] | None:
    """Return the manifest of the plan whose hash starts with `stem`, with its recorded networks."""
    rows = frame[frame["plan_hash"].str.startswith(stem, na=False)] if len(frame) else frame
    if not len(rows):
        return None
    places = rows[["key", "dataset", "backbone", "tokens", "size"]].astype(object)
    return {
        "plan": str(rows["plan"].iloc[-1]),
        "plan_hash": str(rows["plan_hash"].iloc[-1]),
        "run_at": float(rows["recorded_at"].max()),
        "n_rows": rows.groupby("dataset")["n_rows"].last().fillna(0).astype(int).to_dict(),
        "networks": places.where(places.notna(), None).to_numpy().tolist(),
    }
