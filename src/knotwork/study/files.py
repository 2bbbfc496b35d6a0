"""Files that are there whole or not at all."""

import os
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["process_home", "remove_leftovers", "write_atomically", "write_bytes"]

LEFTOVER_SECONDS = 3600.0


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under another name, and give it its own only when all of it is on the disk.

    Whoever reads the folder sees the old file, or none, until the new one is whole. If writing fails, on a full disk
    for one, nothing is left behind, and the error says where it was and that what is there is whole.

    Parameters
    ----------
    path : Path
        The file; its folder is made.
    write : callable
        Is called with the open file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        reason = error.strerror or str(error)
        raise OSError(
            error.errno,
            f"{path} could not be written: {reason}. What was recorded before is whole. Make room, then run again: "
            "only what is missing is done",
        ) from error
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes as `write_atomically` does."""
    write_atomically(path, lambda file: file.write(content))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half written, if it is an hour old."""
    for path in folder.glob(".*.tmp"):
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
