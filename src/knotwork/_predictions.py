"""Predictions of a saved model for the rows of a file."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._checks import argument_error, check_bool, check_file, listed, warn_user
from knotwork._files import write_atomically
from knotwork._writing import counted
from knotwork.datasets import (
    TextFormat,
    check_columns,
    header_names,
    parquet_parts,
    parquet_rows,
    read_frame,
    target_labels,
)

if TYPE_CHECKING:
    from knotwork._preparation.columns import Columns

Floats = npt.NDArray[np.float64]

PART_ROWS = 1 << 18
"""Rows of a larger Parquet file that are predicted at a time."""

MANY_NAMES = 5000
"""Columns of a text file from which on its header is compared with the model before all of it is read."""

MOST_SCORED = 10_000_000
"""Most predictions that are kept for scoring."""


def _write_csv(file: Any, parts: Iterable[pd.DataFrame]) -> None:
    for number, part in enumerate(parts):
        part.to_csv(file, index=False, header=number == 0)


def _write_parquet(file: Any, parts: Iterable[pd.DataFrame]) -> None:
    import pyarrow as pa  # noqa: PLC0415 - takes a while to load
    import pyarrow.parquet as pq  # noqa: PLC0415

    tables = (pa.Table.from_pandas(part, preserve_index=False) for part in parts)
    first = next(tables)
    with pq.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


WRITERS: dict[str, Any] = {".csv": _write_csv, ".parquet": _write_parquet}
"""Functions that write predictions, part after part, by the suffix of the file."""

FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes text that begins with one of these for a formula."""


def predict_table(
    model: str | PathLike[str],
    path: str | PathLike[str],
    *,
    out: str | PathLike[str] = "predictions.csv",
    drop: Sequence[str] = (),
    target: str | None = None,
    coverage: float | None = None,
    spreadsheet_safe: bool = False,
    text: TextFormat | None = None,
    device: Any = "auto",
    report: Callable[[str], None] | None = None,
    keep: bool = True,
) -> Any:
    """Predict the rows of a file with a saved model, and write the predictions.

    The file may be the one that the model was trained on: the target is ignored, and where it is known, predictions are
    scored. Other columns that the model does not know lead to a warning, missing columns to an error that names them.
    Unseen categories and missing values are allowed. A Parquet file may be larger than memory: it is read, predicted
    and written in parts; other files are read as a whole.

    Parameters
    ----------
    model : str or path
        A file written by `TabularRegressor.save` or `TabularClassifier.save`.
    path : str or path
        A file with the columns of the model, in any order; formats as in `knotwork.datasets.read_table`.
    out : str or path, default="predictions.csv"
        The CSV or Parquet file to write, by the suffix; an existing file is replaced.
    drop : sequence of str, default=()
        Columns of the file to ignore.
    target : str, optional
        The column with the true values; by default the one that the model was trained to predict, if the file has it.
    coverage : float, optional
        Share of the true values that intervals contain; with it, columns `lower` and `upper` are written.
    spreadsheet_safe : bool, default=False
        Whether text in a CSV file that a spreadsheet takes for a formula gets an apostrophe in front.
    text : TextFormat, optional
        Separator, encoding and decimal sign of a text file; by default they are detected and reported.
    device : str or torch.device, default="auto"
        The device for a model that only torch can compute; others need no torch.
    report : callable, optional
        Called with every sentence on the file, and on the scores of the predictions: the first ten million of them.
    keep : bool, default=True
        Whether predictions are returned; otherwise only their number, for files whose predictions do not fit in memory.

    Returns
    -------
    DataFrame or int
        One row for each row of the file: `prediction`, and ``probability_LABEL`` for each class; `lower` and `upper`
        with `coverage`. Several quantiles or targets are `prediction_1`, `prediction_2` and so on. Or their number.
    """
    out, say = _check_out(out, spreadsheet_safe), report or (lambda sentence: None)
    check_bool(keep, "keep")
    path = Path(path)
    for name, used in (("model", check_file(model, "model")), ("table", path)):
        if out.exists() and used.exists() and out.samefile(used):
            hint = "Its content would be lost: choose another name."
            raise argument_error("out", f"be another file than the {name}", str(out), hint)
    _check_header(Path(model).expanduser(), path, text, device)
    frames, notes = _frames(path, text)
    first = next(frames)  # errors of the file come before the model is loaded, which may take seconds
    for note in notes:
        say(note)
    check_columns(first, drop, "drop", path)
    if target is not None:
        check_columns(first, [target], "target", path)
    from knotwork._runtime import load_fastest  # noqa: PLC0415

    estimator = load_fastest(Path(model).expanduser(), device=device)
    target = target or (estimator.target_name_ if estimator.target_name_ in first else None)
    is_known, n_rows = target is not None and target not in drop, 0
    tables: list[pd.DataFrame] = []
    targets: list[pd.Series[Any]] = []

    def parts() -> Iterator[pd.DataFrame]:
        nonlocal n_rows
        for frame in chain([first], frames):
            kept = frame.drop(columns=list(drop))
            features = _features(kept, estimator.columns_, target, path.name)
            if frame is first:
                _warn_extra(kept, estimator.columns_.names, target)
            table, is_scored = _predictions(estimator, features, coverage), is_known and n_rows < MOST_SCORED
            if keep or is_scored:
                tables.append(table)
            if is_scored:
                targets.append(frame[target])
            n_rows += len(table)
            yield _safe(table) if spreadsheet_safe else table

    write_atomically(out, lambda file: WRITERS[out.suffix.lower()](file, parts()))
    if targets:
        scored = pd.concat(tables[: len(targets)], ignore_index=True)
        say(_score(estimator, scored, pd.concat(targets, ignore_index=True), n_rows=n_rows))
    return pd.concat(tables, ignore_index=True) if keep else n_rows


def _check_header(model: Path, path: Path, text: TextFormat | None, device: Any) -> None:
    """Raise an error for columns that a very wide text file lacks: reading it would take minutes."""
    names = header_names(path, text or TextFormat()) if path.suffix.lower() != ".parquet" and path.is_file() else []
    if len(names) > MANY_NAMES:
        from knotwork._runtime import load_fastest  # noqa: PLC0415

        _check_names(names, load_fastest(model, device=device).columns_, path.name)


def _check_names(names: Sequence[str], columns: "Columns", file: str) -> None:
    """Raise an error for columns of the model that a file lacks; those that the model ignores may be missing."""
    used = [] if columns.names is None else [columns.names[place] for place in columns.seen]
    known = set(names)
    lacking = [name for name in used if name not in known]
    if lacking:
        raise argument_error(
            "table",
            f"have the {len(used)} columns that the model uses",
            f"{len(names)} columns",
            f"{file} does not have {listed(lacking)}: add them, empty if unknown.",
        )


def _frames(path: Path, text: TextFormat | None) -> tuple[Iterator[pd.DataFrame], list[str]]:
    """Return the parts of a file, and sentences on it; a large Parquet file has several parts."""
    if path.suffix.lower() == ".parquet" and path.is_file() and parquet_rows(path) > PART_ROWS:
        return parquet_parts(path, PART_ROWS), []
    frame, notes = read_frame(path, text)
    return iter([frame]), notes


def _check_out(out: str | PathLike[str], spreadsheet_safe: bool) -> Path:
    out = Path(out).expanduser()
    if out.suffix.lower() not in WRITERS:
        raise argument_error("out", f"end in one of {listed(WRITERS)}", str(out), "Choose another name.")
    if not out.parent.is_dir():
        raise argument_error("out", "be in a folder that exists", str(out), f"Make the folder {str(out.parent)!r}.")
    if check_bool(spreadsheet_safe, "spreadsheet_safe") and out.suffix.lower() != ".csv":
        raise argument_error("spreadsheet_safe", f"be False for a {out.suffix.lower()} file", spreadsheet_safe)
    return out


def _features(frame: pd.DataFrame, columns: "Columns", target: str | None, file: str) -> pd.DataFrame:
    """Return the columns of the model; a model without names takes columns by their order, without the target.

    Columns that the model ignores, such as identifiers, may be missing.
    """
    if columns.names is None:
        return frame.drop(columns=[target] if target in frame else [])
    _check_names(list(frame.columns), columns, file)
    return frame[[name for name in columns.names if name in frame.columns]]


def _warn_extra(frame: pd.DataFrame, names: Sequence[str] | None, target: str | None) -> None:
    extra = [column for column in frame.columns if names is not None and column not in names and column != target]
    if extra:
        warn_user(f"Columns that the model does not know are ignored: {listed(extra)}.")


def _predictions(estimator: Any, features: pd.DataFrame, coverage: float | None) -> pd.DataFrame:
    """Return predictions, and probabilities of classes or intervals."""
    if hasattr(estimator, "predict_proba"):
        if coverage is not None:
            raise argument_error("coverage", "be omitted for classes", coverage, "Their probabilities are written.")
        shares = estimator.predict_proba(features)
        names = [f"probability_{label}" for label in estimator.classes_.tolist()]
        table = pd.DataFrame({"prediction": estimator.classes_[shares.argmax(axis=1)]})
        return table.join(pd.DataFrame(shares, columns=names))
    table = _number_columns(estimator.predict(features), "prediction")
    if coverage is None:
        return table
    if not hasattr(estimator, "predict_interval"):
        raise argument_error("coverage", "be omitted: this model has no intervals", coverage, "Fit and save it again.")
    ends = estimator.predict_interval(features, coverage=coverage)
    return table.join([_number_columns(ends[..., 0], "lower"), _number_columns(ends[..., 1], "upper")])


def _number_columns(values: npt.NDArray[np.float64], name: str) -> pd.DataFrame:
    """Return one column for each number of a row: quantiles and several targets have more than one."""
    if values.ndim == 1:
        return pd.DataFrame({name: values})
    values = values.reshape(len(values), -1)
    return pd.DataFrame(values, columns=[f"{name}_{place + 1}" for place in range(values.shape[1])])


def _score(estimator: Any, table: pd.DataFrame, target: "pd.Series[Any]", *, n_rows: int) -> str:
    """Return a sentence with the scores of predictions, over the rows whose true value is known."""
    has_target = np.array(target.notna())
    values = target_labels(target[has_target], had_missing=not has_target.all())
    if hasattr(estimator, "predict_proba"):
        codes = {label: code for code, label in enumerate(estimator.classes_.tolist())}
        places = np.array([codes.get(value, -1) for value in values.tolist()], dtype=np.int64)
        has_target[has_target] = places >= 0
        values = places[places >= 0]
        scores = _class_scores(table.iloc[:, 1:].to_numpy()[has_target], values) if len(values) else {}
    elif "prediction" not in table or values.dtype.kind not in "biuf" or not np.isfinite(values.astype(float)).all():
        return f"The column {target.name!r} is ignored: predictions cannot be compared with it."
    else:
        scores = _number_scores(table["prediction"].to_numpy()[has_target], values.astype(np.float64))
    if not has_target.any():
        return f"The column {target.name!r} is ignored: it has no values that the model knows."
    shown = [f"{name} {score:.4g}" for name, score in scores.items() if np.isfinite(score)]
    rows = f"{counted(int(has_target.sum()))} of {counted(n_rows)} rows"
    return f"Compared with the column {target.name!r} in {rows}: {', '.join(shown)}."


def _number_scores(predictions: Floats, target: Floats) -> dict[str, float]:
    """Return the metrics of `knotwork.training.METRICS` for numbers, which need torch there."""
    errors = np.abs(predictions - target)
    largest = float(np.clip(errors.max(initial=0.0), 1e-150, 1e300))  # so that no square overflows
    spread = float(np.square(target - target.mean()).mean()) if len(target) > 1 else math.nan
    explained = 1.0 - float(np.square(errors).mean()) / spread if spread else float(not errors.any())
    rmse = largest * float(np.sqrt(np.square(errors / largest).mean()))
    return {"RMSE": rmse, "MAE": float(errors.mean()), "R²": explained}


def _class_scores(shares: Floats, codes: npt.NDArray[np.int64]) -> dict[str, float]:
    """Return the metrics of `knotwork.training.METRICS` for classes."""
    n_classes = shares.shape[1]
    is_class = codes[:, None] == np.arange(n_classes)
    missed = np.square(shares - is_class).sum(axis=1).mean()
    areas = [_area(shares[:, place], is_class[:, place]) for place in range(n_classes)]
    counts = np.where(np.isnan(areas), 0.0, is_class.sum(axis=0))
    auc = areas[-1] if n_classes == 2 else np.nansum(areas * counts) / counts.sum() if counts.any() else math.nan
    chosen = np.maximum(shares[np.arange(len(codes)), codes], 1e-300)
    return {
        "AUC": float(auc),
        "log loss": float(-np.log(chosen).mean()),
        "accuracy": float((shares.argmax(axis=1) == codes).mean()),
        "Brier score": float(missed / 2 if n_classes == 2 else missed),
    }


def _area(scores: Floats, is_class: npt.NDArray[np.bool_]) -> float:
    """Return the share of pairs of a row of the class and another one in which the former has the larger score."""
    ordered = np.sort(scores[~is_class])
    n_pairs = len(ordered) * int(is_class.sum())
    below = sum(np.searchsorted(ordered, scores[is_class], side=side).sum() for side in ("left", "right"))
    return float(below / 2 / n_pairs) if n_pairs else math.nan


def _safe(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which no text is a formula for a spreadsheet."""

    def quoted(value: Any) -> Any:
        return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value

    texts = [name for name in table.columns if not pd.api.types.is_numeric_dtype(table[name])]
    safe = table.assign(**{name: table[name].astype(object).map(quoted) for name in texts})
    return safe.rename(columns=quoted)
