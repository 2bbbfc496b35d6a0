"""Traces, which complement records: training histories, paths of learned knots, and fitted curves."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from knotwork.study._folder import read_table, write_table
from knotwork.study._networks import NetworkSpec
from knotwork.study._records import FIRST_EPOCH, counted_from_one, open_study, select_results, warn_of
from knotwork.training import History

__all__ = ["TRACES", "Result", "load_curves", "load_histories", "load_knot_paths", "load_traces", "write_traces"]

KEY_TYPE = pa.dictionary(pa.int32(), pa.string())
TRACES: dict[str, dict[str, pa.DataType]] = {
    "histories": {"key": KEY_TYPE, "epoch": pa.int32(), **dict.fromkeys(("loss", "score", "rate"), pa.float32())},
    "knots": {"key": KEY_TYPE, "epoch": pa.int32(), "feature": KEY_TYPE, "knot": pa.int32(), "position": pa.float64()},
    "curves": {"key": KEY_TYPE, "x": pa.float64(), "value": pa.float64()},
}
"""The columns of trace files, by the name of their folder. Epochs count from 1; 0 is the start."""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of one network.

    `row` has columns of its record; `knot_path` the knots at the start and after every epoch, of shape (epochs + 1,
    n_features, K); `curve` the values of a single feature and the predictions, of shape (n, 2).
    """

    row: dict[str, Any]
    history: History | None = None
    knot_path: npt.NDArray[np.float64] | None = None
    curve: npt.NDArray[np.float64] | None = None


def _schema(kind: str) -> pa.Schema:
    return pa.schema(list(TRACES[kind].items()), metadata={FIRST_EPOCH: "1"})


def write_traces(
    out: Path, name: str, networks: Sequence[NetworkSpec], results: Sequence[Result], *, features: Sequence[str]
) -> None:
    """Write the traces of a record, one file with the record's name for each kind that has rows.

    `features` are the names of the numerical features.
    """
    for kind, columns_of in TRACE_COLUMNS.items():
        schema = _schema(kind)
        tables = []
        for network, result in zip(networks, results, strict=True):
            columns = columns_of(result, features)
            n_rows = len(next(iter(columns.values()), ()))
            if n_rows:
                full = {"key": [network.key] * n_rows, **columns}
                tables.append(pa.table([pa.array(full[field.name], field.type) for field in schema], schema=schema))
        if tables:
            write_table(out / kind / f"{name}.parquet", pa.concat_tables(tables).unify_dictionaries())


def _history_columns(result: Result, features: Sequence[str]) -> dict[str, Any]:
    del features
    if result.history is None:
        return {}
    history = result.history
    numbers = {"loss": history.loss, "score": history.score, "rate": history.learning_rate}
    singles = {name: values.astype(np.float32) for name, values in numbers.items()}
    return {"epoch": np.arange(1, history.epochs + 1), **singles}


def _knot_columns(result: Result, features: Sequence[str]) -> dict[str, Any]:
    if result.knot_path is None:
        return {}
    epoch, feature, knot = np.nonzero(~np.isnan(result.knot_path))
    names = np.asarray(features, dtype=object)[feature]
    return {"epoch": epoch, "feature": names, "knot": knot, "position": result.knot_path[epoch, feature, knot]}


def _curve_columns(result: Result, features: Sequence[str]) -> dict[str, Any]:
    del features
    return {} if result.curve is None else {"x": result.curve[:, 0], "value": result.curve[:, 1]}


TRACE_COLUMNS = {"histories": _history_columns, "knots": _knot_columns, "curves": _curve_columns}
"""Functions that return the columns of one network without its key, by kind; knot paths are too large for several
networks."""


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
    return _load_frame("histories", out, plan_hash)


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
    return _load_frame("knots", out, plan_hash)


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
    return _load_frame("curves", out, plan_hash)


def _load_frame(kind: str, out: str | PathLike[str], plan_hash: str | None) -> pd.DataFrame:
    frame: pd.DataFrame = load_traces(kind, out, plan_hash).to_pandas()
    return frame


def load_traces(kind: str, out: str | PathLike[str], plan_hash: str | None = None) -> pa.Table:
    """Load one kind of traces, a key of `TRACES`, for the networks of `load_results`."""
    index = open_study(out)
    keys, sources = select_results(index, plan_hash)["key"], index.sources()
    by_record: dict[str, list[str]] = {}
    for key in keys:
        by_record.setdefault(sources[key], []).append(key)
    tables = [_schema(kind).empty_table()]
    problems = {}
    for record, selected in sorted(by_record.items()):
        path = Path(out) / kind / record
        if path.is_file():
            table = _read(path, kind)
            if isinstance(table, str):
                problems[f"{kind}/{record}"] = table
                continue
            tables.append(table.filter(pa.compute.is_in(table["key"].cast(pa.string()), value_set=pa.array(selected))))
    warn_of(Path(out), problems)
    return pa.concat_tables(tables).unify_dictionaries()


def _read(path: Path, kind: str) -> "pa.Table | str":
    """Read a file of traces; return the problem if it is incomplete, altered, or of another kind."""
    table = read_table(path)
    if isinstance(table, str):
        return table
    if not table.schema.equals(_schema(kind)):
        return f"is not a file of {kind}"
    return counted_from_one(table, "epoch") if kind == "histories" else table
