"""Traces, which complement records: training histories, paths of learned knots, fitted curves; copies of a study."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from knotwork._checks import argument_error, check_bool, warn_user
from knotwork.study._folder import RecordWarning, read_table, write_table
from knotwork.study._networks import NetworkSpec
from knotwork.study._records import (
    FIRST_EPOCH,
    IDENTITY,
    RecordIndex,
    counted_from_one,
    open_study,
    record_schema,
    store_manifest,
)

KEY_TYPE = pa.dictionary(pa.int32(), pa.string())
TRACES: dict[str, dict[str, pa.DataType]] = {
    "histories": {"key": KEY_TYPE, "epoch": pa.int32(), **dict.fromkeys(("loss", "score", "rate"), pa.float32())},
    "knots": {"key": KEY_TYPE, "epoch": pa.int32(), "feature": KEY_TYPE, "knot": pa.int32(), "position": pa.float64()},
    "curves": {"key": KEY_TYPE, "x": pa.float64(), "value": pa.float64()},
}
"""The columns of trace files, by the name of their folder. Epochs count from 1; 0 is the start."""

COMPRESSION: dict[str, Any] = {"compression": "zstd", "compression_level": 19}
"""For files that are written once and copied often."""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of one network: columns of its record, and its traces by their kinds, without the key."""

    row: dict[str, Any]
    traces: dict[str, pa.Table] = field(default_factory=dict)


def _schema(kind: str) -> pa.Schema:
    return pa.schema(list(TRACES[kind].items()), metadata={FIRST_EPOCH: "1"})


def trace(kind: str, **columns: npt.ArrayLike) -> dict[str, pa.Table]:
    """Return the trace of one network by its kind."""
    schema = _schema(kind).remove(0)
    return {kind: pa.table([pa.array(columns[column.name], column.type) for column in schema], schema=schema)}


def write_traces(out: Path, name: str, networks: Sequence[NetworkSpec], results: Sequence[Result]) -> None:
    """Write the traces of a record, one file with the record's name for each kind that has rows."""
    for kind in TRACES:
        tables = []
        for network, result in zip(networks, results, strict=True):
            if kind in result.traces and len(result.traces[kind]):
                keys = pa.array([network.key] * len(result.traces[kind]), KEY_TYPE)
                tables.append(result.traces[kind].add_column(0, "key", keys))
        if tables:
            write_table(out / kind / f"{name}.parquet", pa.concat_tables(tables).unify_dictionaries())


def load_histories(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load the training histories of a study, one row per network and epoch.

    The networks are those of `load_results`, which describes each key.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    plan_hash : str, optional
        Load only the networks of the plan with this `Plan.plan_hash`.

    Returns
    -------
    DataFrame
        Columns `key`, `epoch` from 1, `loss` (mean training loss), `score` (validation score, lower is better) and
        `rate` (learning rate).

    Examples
    --------
    >>> import tempfile
    >>> from knotwork.study import Plan, run
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["Std"], backbones=["mlp"], training={"max_epochs": 2})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(plan, folder)
    ...     len(load_histories(folder))
    10
    """
    return pd.DataFrame(load_traces("histories", out, plan_hash).to_pandas())


def load_knot_paths(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load the positions of learned knots after every epoch, for plans with ``keep_knots = true``.

    The networks are those of `load_results`.

    Parameters
    ----------
    out, plan_hash
        As in `load_histories`.

    Returns
    -------
    DataFrame
        Columns `key`, `epoch` (0 is the start), `feature` (its name), `knot` from 0 and `position` in the units of the
        feature.
    """
    return pd.DataFrame(load_traces("knots", out, plan_hash).to_pandas())


def load_curves(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load the fitted curves of linear models on a single feature.

    The networks are those of `load_results`.

    Parameters
    ----------
    out, plan_hash
        As in `load_histories`.

    Returns
    -------
    DataFrame
        Columns `key`, `x` and `value`: the prediction, or the probability of the last class.
    """
    return pd.DataFrame(load_traces("curves", out, plan_hash).to_pandas())


def load_traces(kind: str, out: str | PathLike[str], plan_hash: str | None = None) -> pa.Table:
    """Load one kind of traces, a key of `TRACES`, for the networks of `load_results`."""
    index = open_study(out)
    keys, sources = index.select(plan_hash)["key"], index.sources()
    tables = [_schema(kind).empty_table()]
    for record, selected in keys.groupby(keys.map(sources)):
        path = index.out / kind / record
        if path.is_file():
            table = read_table(path)
            if not isinstance(table, str) and table.schema.equals(_schema(kind)):
                table = counted_from_one(table, "epoch") if kind == "histories" else table
                tables.append(table.filter(pc.is_in(table["key"].cast(pa.string()), value_set=pa.array(selected))))
            else:
                index.ignore(f"{kind}/{record}", table if isinstance(table, str) else f"is not a file of {kind}")
    index.warn()
    return pa.concat_tables(tables).unify_dictionaries()


def pack(out: str | PathLike[str], target: str | PathLike[str], *, histories: bool = False) -> dict[str, int]:
    """Copy a study into another folder: one file of records for each plan, and its list of networks.

    The copy is a valid study folder: reports can be made from it, and running a plan in it trains the missing networks.
    A network that was trained more than once has one row, as in `load_results`; a network in several plans belongs to
    the plan that was run first. Paths of knots and fitted curves are included, fitted encodings are not.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    target : str or path
        Folder of the copy, which is created. Files of plans that were packed before are replaced.
    histories : bool, default=False
        Whether to include the losses and scores of every epoch.

    Returns
    -------
    dict of str to int
        Number of networks that were written, by plan.

    Examples
    --------
    >>> import tempfile
    >>> from knotwork.study import Plan, run
    >>> plan = Plan(name="tiny", datasets=["sk_iris"], methods=["Std"], backbones=["mlp"], training={"max_epochs": 1})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(plan, f"{folder}/study")
    ...     pack(f"{folder}/study", f"{folder}/results"), run(plan, f"{folder}/results").n_before
    ({'tiny': 5}, 5)
    """
    check_bool(histories, "histories")
    folder, copy = Path(out), Path(target)
    index = RecordIndex(folder).refresh()
    manifests = index.manifests(required=True)
    if folder.resolve() == copy.resolve():
        hint = "Name a new folder for the copy."
        raise argument_error("target", "be another folder than that of the study", str(target), hint)
    index.warn()
    frame = index.frame()
    schema = record_schema(frame.columns)
    table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(schema.metadata)
    table = table.sort_by([(name, "ascending") for name in IDENTITY if name != "together"])
    written: dict[str, int] = {}
    taken: set[str] = set()
    for manifest in manifests:
        keys = {network[0] for network in manifest["networks"]} - taken
        rows = table.filter(pc.is_in(table["key"], pa.array(sorted(keys), pa.string())))
        name = _file_name(manifest)
        if len(rows):
            write_table(copy / "records" / name, rows, **COMPRESSION)
            for kind in ("knots", "curves", "histories")[: 3 if histories else 2]:
                traces = load_traces(kind, folder, manifest["plan_hash"]) if (folder / kind).is_dir() else ()
                if len(traces):
                    write_table(copy / kind / name, traces, **COMPRESSION)
            written[manifest["plan"]] = written.get(manifest["plan"], 0) + len(rows)
        store_manifest(copy, manifest)
        taken |= keys
    n_left = len(set(frame["key"]) - taken)
    if n_left:
        warn_user(
            f"{n_left} networks in {folder} belong to no plan of its folder 'plans', and were not copied. Run their "
            "plans again in the folder: no network is trained twice.",
            RecordWarning,
        )
    return written


def _file_name(manifest: dict[str, Any]) -> str:
    """Return the file name of a plan; earlier versions allowed plan names with path separators."""
    safe = re.sub(r"[^\w .+-]", "_", manifest["plan"]).strip(". ")[:100]
    return f"{safe or 'plan'}-{manifest['plan_hash'][:8]}.parquet"
