"""Atomic writes: a file is complete on the disk, or it does not exist."""

import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

UNFINISHED = ".*.tmp"
"""Pattern of the names of files that are being written; a killed process leaves them behind."""

OUR_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")

ABANDONED = 3600.0
"""Seconds without a change after which such a file is one that a killed process has left, a convention."""

CLEANED: set[Path] = set()
"""Folders in which this process has removed them."""

PROBE_BYTES = 1 << 16
"""Bytes of the test file of `check_writable`: more than the smallest unit of common file systems, to detect a full
disk."""

Write: TypeAlias = Callable[[BinaryIO], object]
"""Writes the content of a file to the open file."""


def write_atomically(path: str | os.PathLike[str], write: Write) -> None:
    """Write a file under a temporary name, and rename it when all of it is on the disk.

    Readers see the old file, or none, until the new one is complete. If anything fails, for example because the disk is
    full, the old file is unchanged and no temporary file remains; those of killed processes are removed an hour later.
    A replaced file keeps its permissions. If the path is a symbolic link, the file that it points to is replaced.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist.
    write : callable
        Called with the open file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/note.txt", lambda file: file.write(b"all of it"))
    ...     Path(folder, "note.txt").read_text()
    'all of it'
    """
    write_together({path: write})


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an error if `write_atomically` could not write a file; call it before long work.

    The folder of the file is created. Names that are too long, missing permissions and full disks are detected.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    probe = _temporary_name(target)
    try:
        probe.write_bytes(b"\0" * PROBE_BYTES)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # for example on a full disk
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    finally:
        with suppress(OSError):
            probe.unlink()


def _temporary_name(target: Path) -> Path:
    """Return the temporary name of a file."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")


def write_together(files: Mapping[str | os.PathLike[str], Write]) -> None:
    """Write several files under temporary names, and rename them when all of them are on the disk.

    If anything fails, the old files are unchanged and no temporary file remains: a report never has a new page with old
    figures. Each file is written as by `write_atomically`.

    Parameters
    ----------
    files : mapping
        Functions that write a file, by its path; each is called with the open file. The folders must exist.
    """
    renames: dict[Path, Path] = {}
    for folder in {Path(os.path.realpath(path)).parent for path in files}:
        if not folder.is_dir():
            raise FileNotFoundError(f"The folder {folder} does not exist. Create it, or choose another path.")
        _remove_abandoned(folder)
    try:
        for path, write in files.items():
            target = Path(os.path.realpath(path))
            temporary = _temporary_name(target)
            renames[temporary] = target
            try:
                with _open_new(temporary, target) as file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                if error.errno is not None and error.filename is None:  # for example on a full disk
                    raise OSError(error.errno, error.strerror, str(target)) from error
                raise
        for temporary, target in renames.items():
            os.replace(temporary, target)
    except BaseException:
        for temporary in renames:
            with suppress(OSError):
                temporary.unlink()
        raise


def _remove_abandoned(folder: Path) -> None:
    """Remove unfinished files of processes that were killed, once for each folder."""
    if folder in CLEANED:
        return
    CLEANED.add(folder)
    for path in folder.glob(UNFINISHED):
        with suppress(OSError):
            if OUR_UNFINISHED.fullmatch(path.name) and time.time() - path.stat().st_mtime > ABANDONED:
                path.unlink()


def _open_new(path: Path, target: Path) -> BinaryIO:
    """Open a new file with the permissions of `target`."""
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
        file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode & 0o700))  # noqa: SIM115
        os.chmod(path, mode)  # unlike that of `open`, this mode is not narrowed by the process
        return file
    return path.open("xb")
