"""Predictions of a saved model for the rows of a file."""

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
"""How predictions are written, by the suffix of the file."""


def predict_table(
    model: str | PathLike[str],
    path: str | PathLike[str],
    *,
    out: str | PathLike[str] = "predictions.csv",
    drop: Sequence[str] = (),
    device: Any = "auto",
) -> pd.DataFrame:
    """Predict the rows of a file with a saved model, and write what is predicted.

    Categories that the model has not seen, and missing values, are predicted like any others. Columns that the model
    does not know, or that it misses, are an error that names them.

    Parameters
    ----------
    model : str or path
        What `TabularRegressor.save` or `TabularClassifier.save` wrote.
    path : str or path
        A CSV, Parquet, Arrow or Feather file with the columns of the model, in any order.
    out : str or path, default="predictions.csv"
        Where to write them, as CSV or Parquet by the suffix; it is replaced if it is there.
    drop : sequence of str, default=()
        Columns of the file to leave out, such as the target.
    device : str or torch.device, default="auto"
        Where to predict.

    Returns
    -------
    DataFrame
        The rows of the file in their order: `prediction`, and for classes ``probability_LABEL`` of each.
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


def _check_names(frame: pd.DataFrame, wanted: Sequence[str] | None, name: str) -> None:
    """Refuse columns that are too many or lacking; a model without names takes columns by their order."""
    if wanted is None:
        return
    extra = [each for each in frame.columns if each not in wanted]
    lacking = [each for each in wanted if each not in frame.columns]
    parts = []
    if extra:
        options = " ".join(f"--drop {each!r}" if " " in each else f"--drop {each}" for each in extra[:12])
        parts.append(f"It does not know {listed(extra)}: leave them out with {options}.")
    if lacking:
        parts.append(f"{name} lacks {listed(lacking)}: add them, empty if they are not known.")
    if parts:
        shown = f"{len(frame.columns)} columns"
        raise argument_error("table", f"have the {len(wanted)} columns of the model", shown, " ".join(parts))
