"""Where the files of data sets are on this machine."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from knotwork._checks import argument_error
from knotwork.datasets._registry import get_spec

__all__ = ["Place", "cache_folder", "data_folder", "find_dataset", "is_offline"]


@dataclass(frozen=True)
class Place:
    """A file of a data set.

    Parameters
    ----------
    path : Path
        The file.
    origin : {"KNOTWORK_DATA", "cache"}
        Which of the two folders it is in.
    """

    path: Path
    origin: str


def data_folder() -> Path | None:
    """Return the user's folder of data sets, which KNOTWORK_DATA names; None if that is not set.

    A name that is no folder is refused: a slip would otherwise download everything.
    """
    value = os.environ.get("KNOTWORK_DATA", "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise argument_error("KNOTWORK_DATA", "be a folder that exists", value, "Correct the variable, or unset it.")
    return folder


def cache_folder() -> Path:
    """Return the folder that fetched data sets are written to; it need not exist.

    It is what KNOTWORK_CACHE names, or ``knotwork/datasets`` in the user's folder of caches.
    """
    value = os.environ.get("KNOTWORK_CACHE", "")
    if value:
        return Path(value).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "knotwork" / "datasets"


def is_offline() -> bool:
    """Return whether KNOTWORK_OFFLINE forbids the network: 1 does, 0 and nothing do not."""
    value = os.environ.get("KNOTWORK_OFFLINE", "")
    if value not in ("", "0", "1"):
        raise argument_error("KNOTWORK_OFFLINE", "be '0' or '1'", value)
    return value == "1"


def find_dataset(key: str) -> Place | None:
    """Return the file of a data set of the study, or None: first in KNOTWORK_DATA, then in the cache.

    Parameters
    ----------
    key : str
        One of `DATASETS`.
    """
    name = f"{get_spec(key).key}.parquet"
    folders = {"KNOTWORK_DATA": data_folder(), "cache": cache_folder()}
    for origin, folder in folders.items():
        if folder is not None and (folder / name).is_file():
            return Place(folder / name, origin)
    return None
