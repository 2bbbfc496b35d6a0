"""Is this table the one of the study? Every difference, in words."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pandas.api import types

from knotwork._checks import listed
from knotwork.datasets._checksums import content_sha256, file_sha256
from knotwork.datasets._folders import find_dataset
from knotwork.datasets._registry import DatasetSpec, get_spec
from knotwork.errors import DatasetMismatchError

__all__ = ["DatasetCheck", "check_dataset", "frame_problems", "read_verified"]


@dataclass(frozen=True)
class DatasetCheck:
    """What a check of a data set found.

    Parameters
    ----------
    key : str
        The data set.
    path : Path or None
        Its file; None if it is not on this machine.
    problems : tuple of str
        Every difference to the registry; empty if there is none.
    """

    key: str
    path: Path | None
    problems: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether the file is there and is the table of the study."""
        return self.path is not None and not self.problems


def check_dataset(key: str) -> DatasetCheck:
    """Check the file of a data set: checksum, columns, their types, rows, target and classes.

    Nothing is fetched.

    Parameters
    ----------
    key : str
        One of `DATASETS`.
    """
    spec = get_spec(key)
    place = find_dataset(key)
    if place is None:
        return DatasetCheck(key, None, ())
    return DatasetCheck(key, place.path, tuple(_read(place.path, spec)[1]))


def read_verified(path: Path, spec: DatasetSpec) -> tuple[pd.DataFrame, str]:
    """Return the table of a file and the checksum of its bytes, or raise an error that says how it differs.

    A file with other bytes than those of the registry is taken if its table has the same content: a table that was
    fetched and written again never has the same bytes.

    Parameters
    ----------
    path : Path
        The Parquet file.
    spec : DatasetSpec
        What it must hold.
    """
    frame, problems = _read(path, spec)
    if problems:
        raise DatasetMismatchError(
            f"{path} is not the table of data set {spec.key!r}: {'; '.join(problems)}. Next: remove the file and run "
            f"'knotwork datasets fetch {spec.key}', or copy the right {path.name} there."
        )
    return frame, file_sha256(path)


def _read(path: Path, spec: DatasetSpec) -> tuple[pd.DataFrame, list[str]]:
    """Read a file and return its table with its problems; an empty table if it cannot be read."""
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are kinds of these
        return pd.DataFrame(), [f"it cannot be read as Parquet ({error})"]
    found = file_sha256(path)
    if found == spec.sha256:
        return frame, frame_problems(frame, spec, content=False)
    problems = frame_problems(frame, spec)
    if problems:
        problems.append(f"SHA-256 of the file must be {spec.sha256}, got {found}")
    return frame, problems


def frame_problems(frame: pd.DataFrame, spec: DatasetSpec, *, content: bool = True) -> list[str]:
    """Return how a table differs from what the registry says; an empty list if it does not.

    Parameters
    ----------
    frame : DataFrame
        The table; columns that the registry does not name are not looked at.
    spec : DatasetSpec
        What it must hold.
    content : bool
        Whether to compare the checksum of the content, too.
    """
    absent = [name for name in spec.columns if name not in frame.columns]
    if absent:
        return [f"columns are missing: {listed(absent)}; it has {listed(frame.columns)}"]
    problems = []
    if len(frame) != spec.n_rows:
        problems.append(f"it must have {spec.n_rows} rows, got {len(frame)}")
    numbers = [name for name in spec.columns if name not in spec.texts]
    no_numbers = [name for name in numbers if not types.is_numeric_dtype(frame[name])]
    if no_numbers:
        problems.append(f"columns must hold numbers: {listed(no_numbers)}")
    if frame[spec.target].isna().any():
        problems.append(f"target {spec.target!r} has missing values")
    if spec.n_classes is not None and frame[spec.target].nunique() != spec.n_classes:
        counts = frame[spec.target].value_counts().head(spec.n_classes + 1).to_dict()
        problems.append(f"target {spec.target!r} must have {spec.n_classes} classes, got {counts}")
    if content and not problems:
        found = content_sha256(frame[list(spec.columns)], spec.texts)
        if found != spec.content_sha256:
            problems.append(f"values differ: SHA-256 of the content must be {spec.content_sha256}, got {found}")
    return problems
