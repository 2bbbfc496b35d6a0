"""Predictions of a saved model for the rows of a file."""

import shlex
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from knotwork._checks import argument_error, listed
from knotwork._files import write_atomically
from knotwork.datasets._files import check_columns, read_frame
from knotwork.estimators._estimators import TabularClassifier
from knotwork.estimators._persistence import load

__all__ = ["WRITERS", "predict_table"]

WRITERS: dict[str, Any] = {
    ".csv": lambda frame, file: frame.to_csv(file, index=False),
    ".parquet": lambda frame, file: frame.to_parquet(file, index=False),
}
"""Functions that write predictions, by the suffix of the file."""


def predict_table(
    model: str | PathLike[str],
    path: str | PathLike[str],
    *,
    out: str | PathLike[str] = "predictions.csv",
    drop: Sequence[str] = (),
    device: Any = "auto",
) -> pd.DataFrame:
    """Predict the rows of a file with a saved model, and write the predictions.

    Unseen categories and missing values are allowed. Unknown columns and missing columns are an error that names them.

    Parameters
    ----------
    model : str or path
        A file written by `TabularRegressor.save` or `TabularClassifier.save`.
    path : str or path
        A CSV, Parquet, Arrow or Feather file with the columns of the model, in any order.
    out : str or path, default="predictions.csv"
        The CSV or Parquet file to write, by the suffix; an existing file is replaced.
    drop : sequence of str, default=()
        Columns of the file to ignore, such as the target.
    device : str or torch.device, default="auto"
        The device for the model.

    Returns
    -------
    DataFrame
        One row for each row of the file: `prediction`, and ``probability_LABEL`` for each class.
    """
    out = Path(out).expanduser()
    if out.suffix.lower() not in WRITERS:
        raise argument_error("out", f"end in one of {listed(WRITERS)}", str(out), "Choose another name.")
    if not out.parent.is_dir():
        raise argument_error("out", "be in a folder that exists", str(out), f"Make the folder {str(out.parent)!r}.")
    estimator = load(Path(model).expanduser(), device=device)
    frame = read_frame(path)
    check_columns(frame, drop, "drop", Path(path))
    frame = frame.drop(columns=list(drop))
    _check_names(frame, estimator.columns_.names, Path(path).name)
    if isinstance(estimator, TabularClassifier):
        shares = estimator.predict_proba(frame)
        table = pd.DataFrame({"prediction": estimator.classes_[shares.argmax(axis=1)]})
        for label, share in zip(estimator.classes_.tolist(), shares.T, strict=True):
            table[f"probability_{label}"] = share
    else:
        table = pd.DataFrame({"prediction": estimator.predict(frame)})
    write_atomically(out, lambda file: WRITERS[out.suffix.lower()](table, file))
    return table


def _check_names(frame: pd.DataFrame, wanted: Sequence[str] | None, file: str) -> None:
    """Raise an error for unknown or missing columns; a model without names takes columns by their order."""
    if wanted is None:
        return
    extra = [column for column in frame.columns if column not in wanted]
    lacking = [column for column in wanted if column not in frame.columns]
    parts = []
    if extra:
        options = " ".join(f"--drop {shlex.quote(name)}" for name in extra[:12])
        parts.append(f"The model does not know {listed(extra)}: ignore them with {options}.")
    if lacking:
        parts.append(f"{file} lacks {listed(lacking)}: add them, empty if unknown.")
    if parts:
        shown = f"{len(frame.columns)} columns"
        raise argument_error("table", f"have the {len(wanted)} columns of the model", shown, " ".join(parts))
