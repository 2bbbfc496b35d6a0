"""Files and locks in the folder of a study, which several processes and machines may share."""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self, final

from knotwork._files import UNFINISHED, write_atomically

__all__ = ["PREPARING", "Lock", "claim", "process_home", "remove_leftovers", "write_bytes", "write_file"]

LEFTOVER_SECONDS = 3600.0
"""Age from which an unfinished file is removed: no process writes a single file for so long."""

PREPARING = "prepare-"
"""Prefix of locks for the fitting of encodings; all other locks are for units."""

HEARTBEAT = 10.0
"""Seconds between two renewals of a lock."""

STALE = 120.0
"""Seconds without renewal after which a lock is stale: far more than a heartbeat, because clocks of machines differ and
shared file systems are slow."""


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file by `write_atomically`, with its folder; an error describes the state and the next step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, write)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(
            error.errno,
            f"{path} could not be written: {reason}. Earlier records are complete. Free some space, then run again: "
            "only missing networks are trained",
        ) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes by `write_file`."""
    write_file(path, lambda file: file.write(content))


def remove_leftovers(folder: Path) -> None:
    """Remove old unfinished files of killed processes."""
    for path in folder.glob(UNFINISHED):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
                path.unlink()


def process_home() -> str:
    """Return the scope in which process numbers are unique: the machine, and on Linux its boot and the namespace."""
    home = [socket.gethostname()]
    with suppress(OSError):
        home.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        home.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(home)


@final
class Lock:
    """A held lock, as a context that releases it; `token` identifies the holder.

    While it is held, a thread renews the modification time of the file.
    """

    def __init__(self, path: Path, token: str) -> None:
        self.path = path
        self.token = token
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._done.wait(HEARTBEAT):
            with suppress(OSError):
                os.utime(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock, unless another process has taken it over."""
        self._done.set()
        self._thread.join()
        if _holder(self.path).get("token") == self.token:
            with suppress(OSError):
                self.path.unlink()


def claim(folder: Path, slot: str) -> Lock | None:
    """Acquire the lock of a slot; None if a living process holds it.

    A lock is stale, and is taken over, if its process is dead, as far as that is visible from this machine, or has not
    renewed it for two minutes.

    Notes
    -----
    If two processes take over a stale lock at the same moment, or a process was suspended for two minutes, both do the
    same work. This costs time only: records are written atomically and have keys.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slot}.lock"
    token = uuid.uuid4().hex
    lock = _create(path, token)
    if lock is not None or not _is_stale(path):
        return lock
    _remove_stale(path)
    return _create(path, token)


def _create(path: Path, token: str) -> Lock | None:
    holder = {"token": token, "home": process_home(), "pid": os.getpid(), "since": time.time()}
    # The lock appears together with its content: a link to a complete file, which fails if the name exists.
    temporary = path.with_name(f".{path.name}.{token}.tmp")
    write_bytes(temporary, json.dumps(holder).encode())
    try:
        _link(temporary, path)
    except FileExistsError:
        return None
    finally:
        temporary.unlink()
    return Lock(path, token)


def _link(source: Path, path: Path) -> None:
    """Link a file to a new name; on a file system without links, copy it."""
    try:
        os.link(source, path)
    except FileExistsError:
        raise
    except OSError:
        with path.open("x", encoding="utf-8") as file:
            file.write(source.read_text(encoding="utf-8"))


def _holder(path: Path) -> dict[str, object]:
    """Return the content of a lock; empty if it is missing or unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_stale(path: Path) -> bool:
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return True  # released in the meantime
    holder = _holder(path)
    pid = holder.get("pid")
    if age <= STALE and holder.get("home") == process_home() and isinstance(pid, int):
        return not _is_alive(pid)
    return age > STALE


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _remove_stale(path: Path) -> None:
    """Remove a stale lock, unless another process has replaced it by a live one."""
    # The rename succeeds for one process only; that one looks again, because the file may be a new lock.
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        os.rename(path, aside)
    except OSError:
        return  # another process was faster
    if not _is_stale(aside):
        with suppress(OSError):
            _link(aside, path)
    aside.unlink()
