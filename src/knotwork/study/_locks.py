"""Locks: one process works on a unit, and a dead one does not keep it."""

import json
import os
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, final

from knotwork.study._files import process_home, write_bytes

__all__ = ["PREPARING", "Lock", "claim"]

PREPARING = "prepare-"
"""How slots begin that stand for the fitting of encodings; the others stand for units."""

HEARTBEAT = 10.0
"""Seconds between two signs of life."""

STALE = 120.0
"""Seconds without one after which a process on another machine counts as dead."""


@final
class Lock:
    """A claimed unit; a context that gives it back at its end.

    While it is held, a thread renews the time of the file.

    Parameters
    ----------
    path : Path
        The file of the lock.
    token : str
        What tells this claim from all others.
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
        """Hold the lock."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lock back."""
        self.release()

    def release(self) -> None:
        """Give the lock back, unless another process has taken it over."""
        self._done.set()
        self._thread.join()
        if _holder(self.path).get("token") == self.token:
            with suppress(OSError):
                self.path.unlink()


def claim(folder: Path, slot: str) -> Lock | None:
    """Claim a slot; None if a living process has it.

    A lock is stale if its process is dead, where that can be seen from here, or has given no sign of life for two
    minutes. A stale lock is taken over.

    Parameters
    ----------
    folder : Path
        Where locks are.
    slot : str
        What is claimed.

    Notes
    -----
    Should two processes take over one stale lock at the same moment, or one have slept through its own two minutes,
    both do the same work: it costs time and nothing else, for records appear whole and have keys.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slot}.lock"
    token = uuid.uuid4().hex
    lock = _create(path, token)
    if lock is not None or not _is_stale(path):
        return lock
    _take_away(path)
    return _create(path, token)


def _create(path: Path, token: str) -> Lock | None:
    holder = {"token": token, "home": process_home(), "pid": os.getpid(), "since": time.time()}
    # The lock appears with its content: a link to a whole file, which fails where the name is taken.
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
    """Give a file a second name; where the file system has no links, copy it to a name that must be new."""
    try:
        os.link(source, path)
    except FileExistsError:
        raise
    except OSError:
        with path.open("x", encoding="utf-8") as file:
            file.write(source.read_text(encoding="utf-8"))


def _holder(path: Path) -> dict[str, object]:
    """Return what a lock says of its holder; nothing if it is gone or unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_stale(path: Path) -> bool:
    try:
        age = time.time() - path.stat().st_mtime
    except OSError:
        return True  # given back meanwhile
    holder = _holder(path)
    pid = holder.get("pid")
    if holder.get("home") == process_home() and isinstance(pid, int):
        return not _is_alive(pid) or age > STALE
    return age > STALE


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _take_away(path: Path) -> None:
    """Remove a stale lock, unless it has been replaced by a live one since it was looked at."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        os.rename(path, aside)
    except OSError:
        return  # another process was faster
    if not _is_stale(aside):
        with suppress(OSError):
            _link(aside, path)
    aside.unlink()
