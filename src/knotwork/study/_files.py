"""Files in the folder of a study, and which process wrote them."""

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from knotwork._files import UNFINISHED, write_atomically

__all__ = ["process_home", "remove_leftovers", "write_bytes", "write_file"]

LEFTOVER_SECONDS = 3600.0


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file of a study as `write_atomically` does; an error says what is whole and what to do.

    Parameters
    ----------
    path : Path
        The file; its folder is made.
    write : callable
        Is called with the open file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, write)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno,
            f"{path} could not be written: {reason}. What was recorded before is whole. Make room, then run again: "
            "only what is missing is done",
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes as `write_file` does."""
    write_file(path, lambda file: file.write(content))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half written, if it is an hour old."""
    for path in folder.glob(UNFINISHED):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
                path.unlink()


def process_home() -> str:
    """Return where process numbers mean something: the machine, and on Linux its boot and the namespace."""
    home = [socket.gethostname()]
    with suppress(OSError):
        home.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        home.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(home)
