"""What is kept beside records: how networks were trained, where their knots went, and fitted curves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from knotwork.study._files import write_file
from knotwork.study._networks import NetworkSpec
from knotwork.study._records import RecordIndex, load_results
from knotwork.training._results import History

__all__ = ["TRACES", "Result", "load_curves", "load_histories", "load_knot_paths", "load_traces", "write_traces"]

KEY = pa.dictionary(pa.int32(), pa.string())
TRACES: dict[str, dict[str, pa.DataType]] = {
    "histories": {
        "key": KEY,
        "epoch": pa.int32(),
        **{name: pa.float32() for name in ("loss", "score", "rate")},
    },
    "knots": {
        "key": KEY,
        "epoch": pa.int32(),
        "feature": KEY,
        "knot": pa.int32(),
        "position": pa.float64(),
    },
    "curves": {"key": KEY, "x": pa.float64(), "value": pa.float64()},
}
"""The folders beside `records`, and the columns of their files."""


@dataclass(frozen=True, eq=False)
class Result:
    """What came out of one network.

    Parameters
    ----------
    row : dict
        Columns of its record.
    history : History, optional
        How it was trained.
    knot_path : ndarray of shape (epochs + 1, n_features, K), optional
        Its knots at the start and after every epoch.
    curve : ndarray of shape (n, 2), optional
        Values of a single feature, and the prediction there.
    """

    row: dict[str, Any]
    history: History | None = None
    knot_path: npt.NDArray[np.float64] | None = None
    curve: npt.NDArray[np.float64] | None = None


def write_traces(
    out: Path, name: str, networks: Sequence[NetworkSpec], results: Sequence[Result], *, features: Sequence[str]
) -> None:
    """Write what is kept beside a record, each kind as a file with the record's name; a kind without rows has none.

    This comes before the record, so that of every recorded network it is there.

    Parameters
    ----------
    out : Path
        Folder of the study.
    name : str
        Name of the record.
    networks : sequence of NetworkSpec
        The networks of the record.
    results : sequence of Result
        What came out of each.
    features : sequence of str
        Names of the numerical features.
    """
    tables = (
        ("histories", lambda result: _history_columns(result.history)),
        ("knots", lambda result: _knot_columns(result.knot_path, features)),
        ("curves", lambda result: _curve_columns(result.curve)),
    )
    for kind, columns in tables:
        _write(out / kind / f"{name}.parquet", TRACES[kind], networks, map(columns, results))


def _write(
    path: Path, types: dict[str, pa.DataType], networks: Sequence[NetworkSpec], parts: Iterable[dict[str, Any]]
) -> None:
    """Write the columns of networks one after the other."""
    schema = pa.schema(list(types.items()))
    tables = []
    for network, columns in zip(networks, parts, strict=True):
        n_rows = len(next(iter(columns.values()), ()))
        if n_rows:
            full = {"key": [network.key] * n_rows, **columns}
            tables.append(pa.table([pa.array(full[field.name], field.type) for field in schema], schema=schema))
    if tables:
        table = pa.concat_tables(tables).unify_dictionaries()
        write_file(path, lambda file: pq.write_table(table, file, write_page_checksum=True))


def _history_columns(history: History | None) -> dict[str, Any]:
    if history is None:
        return {}
    singles = (each.astype(np.float32) for each in (history.loss, history.score, history.learning_rate))
    return {"epoch": np.arange(history.epochs), **dict(zip(("loss", "score", "rate"), singles, strict=True))}


def _knot_columns(path: npt.NDArray[np.float64] | None, features: Sequence[str]) -> dict[str, Any]:
    if path is None:
        return {}
    epoch, feature, knot = np.nonzero(~np.isnan(path))
    names = np.asarray(features, dtype=object)[feature]
    return {"epoch": epoch, "feature": names, "knot": knot, "position": path[epoch, feature, knot]}


def _curve_columns(curve: npt.NDArray[np.float64] | None) -> dict[str, Any]:
    return {} if curve is None else {"x": curve[:, 0], "value": curve[:, 1]}


def load_histories(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load how the networks of a study were trained, one row per network and epoch.

    Networks are those of `load_results`, which has what each key stands for.

    Parameters
    ----------
    out : str or path
        Folder of the study.
    plan_hash : str, optional
        Load what belongs to the plan of this `Plan.plan_hash`.

    Returns
    -------
    DataFrame
        Columns `key`, `epoch` from 0, `loss` (mean training loss), `score` (on validation rows, smaller is better) and
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
    return _load("histories", out, plan_hash)


def load_knot_paths(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load where learned knots were after every epoch, for plans with ``keep_knots = true``.

    Networks are those of `load_results`.

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
    return _load("knots", out, plan_hash)


def load_curves(out: str | PathLike[str], plan_hash: str | None = None) -> pd.DataFrame:
    """Load the fitted curves of linear models on a single feature.

    Networks are those of `load_results`.

    Parameters
    ----------
    out, plan_hash
        As in `load_histories`.

    Returns
    -------
    DataFrame
        Columns `key`, `x` and `value`: the prediction, or the probability of the last class.
    """
    return _load("curves", out, plan_hash)


def _load(kind: str, out: str | PathLike[str], plan_hash: str | None) -> pd.DataFrame:
    frame: pd.DataFrame = load_traces(kind, out, plan_hash).to_pandas()
    return frame


def load_traces(kind: str, out: str | PathLike[str], plan_hash: str | None = None) -> pa.Table:
    """Load what is kept beside the records that count; records from before it was kept have nothing.

    Parameters
    ----------
    kind : str
        A key of `TRACES`.
    out, plan_hash
        As in `load_histories`.
    """
    keys = load_results(out, plan_hash)["key"]
    sources = RecordIndex(Path(out)).refresh().sources()
    by_record: dict[str, list[str]] = {}
    for key in keys:
        by_record.setdefault(sources[key], []).append(key)
    schema = pa.schema(list(TRACES[kind].items()))
    tables = [schema.empty_table()]
    for record, own in sorted(by_record.items()):
        path = Path(out) / kind / record
        if path.is_file():
            table = pq.read_table(path, schema=schema)
            tables.append(table.filter(pa.compute.is_in(table["key"].cast(pa.string()), value_set=pa.array(own))))
    return pa.concat_tables(tables).unify_dictionaries()
