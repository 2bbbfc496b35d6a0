"""Files that are there whole or not at all; for the modules that touch the disk."""

import os
import stat
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

__all__ = ["UNFINISHED", "check_writable", "write_atomically", "write_together"]

UNFINISHED = ".*.tmp"
"""Pattern of the names of files that are being written; of a killed process they stay."""

PROBE = 1 << 16
"""Bytes that are written to see whether a file can be written."""

Write: TypeAlias = Callable[[BinaryIO], object]
"""Writes the content of a file to the open file."""


def write_atomically(path: str | os.PathLike[str], write: Write) -> None:
    """Write a file under another name, and give it its own only when all of it is on the disk.

    Whoever reads the folder sees the old file, or none, until the new one is whole. If anything fails, on a full disk
    for one, the old file stays as it is, and nothing is left behind. A file that is replaced keeps its mode: one that
    only its owner can read stays so. Where the path is a link, what it leads to is replaced.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist.
    write : callable
        Is called with the open file.

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
    """Raise an error if `write_atomically` could not write a file, before the work whose result it gets.

    The folder of the file is created. Names that are too long, folders without permission and full disks are found.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    probe = _beside(target)
    try:
        probe.write_bytes(b"\0" * PROBE)
    finally:
        with suppress(OSError):
            probe.unlink()


def _beside(target: Path) -> Path:
    """Return the name under which a file is written."""
    return target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")


def write_together(files: Mapping[str | os.PathLike[str], Write]) -> None:
    """Write several files under other names, and give them theirs only when all of them are on the disk.

    If anything fails, the old files stay as they are, and nothing is left behind: a report never consists of a new page
    and old figures. Each file is written as by `write_atomically`.

    Parameters
    ----------
    files : mapping
        Functions that write, called with the open file, by path; the folders must exist.
    """
    renames: dict[Path, Path] = {}
    for folder in {Path(os.path.realpath(path)).parent for path in files}:
        if not folder.is_dir():
            raise FileNotFoundError(f"The folder {folder} does not exist. Create it, or choose another path.")
    try:
        for path, write in files.items():
            target = Path(os.path.realpath(path))
            beside = _beside(target)
            renames[beside] = target
            try:
                with _opened(beside, target) as file:
                    write(file)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                if error.errno is not None and error.filename is None:  # as of a full disk
                    raise OSError(error.errno, error.strerror, str(target)) from error
                raise
        for beside, target in renames.items():
            os.replace(beside, target)
    except BaseException:
        for beside in renames:
            with suppress(OSError):
                beside.unlink()
        raise


def _opened(path: Path, target: Path) -> BinaryIO:
    """Open a new file that nobody can read who could not read `target`."""
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
        file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode & 0o700))  # noqa: SIM115
        os.chmod(path, mode)  # unlike that of `open`, this mode is not narrowed by the process
        return file
    return path.open("xb")
