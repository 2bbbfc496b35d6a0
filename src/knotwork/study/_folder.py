"""Files and locks in the folder of a study, which several processes and machines may share."""

import hashlib
import io
import json
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Self, final

import pyarrow as pa
import pyarrow.parquet as pq

from knotwork._checks import printable
from knotwork._files import UNFINISHED, write_atomically

SEAL = b"knotwork-sha256:"
"""Prefix, in the metadata of a table, of the SHA-256 of its file, which is computed with zeros for its digits."""

SEALED = re.compile(SEAL + rb"([0-9a-f]{64})")
NO_DIGITS = b"0" * 64
SEAL_KEY = b"checksum"
CHANGED = "was changed or damaged after it was written: its checksum differs"

LEFTOVER_SECONDS = 3600.0
"""Age after which an unfinished file is removed: writing a single file never takes this long."""

PREPARING = "prepare-"
"""Prefix of locks for the fitting of encodings; all other locks are for units."""

HEARTBEAT = 10.0
"""Seconds between two renewals of a lock."""

STALE = 120.0
"""Seconds without renewal after which a lock is stale: far more than `HEARTBEAT`, because clocks of machines differ and
shared file systems are slow."""

_unchanged_since: dict[Path, tuple[int, float]] = {}
"""For locks dated in the future: the modification time, and when this process first saw it by its monotonic clock."""


class RecordWarning(UserWarning):
    """A file in the folder of a study is damaged or does not belong to the study, and was ignored."""


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file by `write_atomically`, and create its folder; errors state what is kept, and the next step."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, write)
    except OSError as error:
        raise _with_next_step(error, path) from error


def _with_next_step(error: OSError, path: Path) -> OSError:
    reason = error.strerror or str(error)
    hint = "Earlier records are complete. Free some space and run again: only missing networks are trained"
    return OSError(error.errno, f"{path} could not be written: {reason}. {hint}")


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes by `write_file`."""
    write_file(path, lambda file: file.write(content))


def digest(content: object) -> str:
    """Return the SHA-256 of values as JSON, which keeps all digits of floats."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write values by `write_bytes`, with their checksum."""
    write_bytes(path, json.dumps({**content, "sha256": digest(content)}).encode())


def read_json(path: Path, keys: Set[str], further: Set[str]) -> dict[str, Any] | None:
    """Read values of `write_json`; None unless complete and unchanged, with all `keys` and only `further` others.

    Files of earlier versions have no checksum.
    """
    try:
        content = json.loads(path.read_bytes())
        checksum = content.pop("sha256", None)
        is_valid = keys <= content.keys() <= keys | further and checksum in (None, digest(content))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    return content if is_valid else None


def write_table(path: Path, table: pa.Table, **options: Any) -> None:
    """Write a table as Parquet by `write_file`, with checksums of its pages and of the whole file.

    `options` are those of `pyarrow.parquet.write_table`.
    """
    write_file(path, lambda file: file.write(_sealed(table, options)))


def _sealed(table: pa.Table, options: dict[str, Any]) -> bytes:
    """Return the file of a table, with the checksum of the file in its metadata."""
    metadata = {**(table.schema.metadata or {}), SEAL_KEY: SEAL + NO_DIGITS}
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), buffer, write_page_checksum=True, **options)
    content = buffer.getvalue()
    place = content.rindex(SEAL + NO_DIGITS) + len(SEAL)
    digest = hashlib.sha256(content).hexdigest().encode()
    return content[:place] + digest + content[place + len(digest) :]


def read_table(path: Path) -> "pa.Table | str":
    """Read a table of `write_table` without its checksum; return the problem if it is incomplete or changed.

    Files of earlier versions have only checksums of their pages.
    """
    try:
        content = path.read_bytes()
        seals = list(SEALED.finditer(content))
        if seals:
            start, stop = seals[-1].span(1)  # metadata is at the end; a column may contain similar text
            if hashlib.sha256(content[:start] + NO_DIGITS + content[stop:]).hexdigest().encode() != seals[-1][1]:
                return CHANGED
        source = pa.BufferReader(content)
        table = pq.ParquetFile(source, page_checksum_verification=True).read(use_threads=False)
        table.validate(full=True)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return f"cannot be read: {printable(reason[:200]).rstrip('.')}"
    metadata = dict(table.schema.metadata or {})
    if metadata.pop(SEAL_KEY, None) is not None and not seals:
        return CHANGED
    return table.replace_schema_metadata(metadata or None)


def remove_leftovers(out: Path) -> None:
    """Remove old unfinished files that killed processes left in the folders of a study."""
    for path in out.glob(f"*/{UNFINISHED}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
                path.unlink()


def process_home() -> str:
    """Return the scope in which process ids are unique: the machine; on Linux also its boot and namespace."""
    home = [socket.gethostname()]
    with suppress(OSError):
        home.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with suppress(OSError):
        home.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(home)


@final
class Lock:
    """A held lock, as a context manager that releases it; `token` identifies the holder.

    While it is held, a thread renews the modification time of its file.
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

    A stale lock is taken over: if its process is known to be dead, or has not renewed it for two minutes. A lock dated
    in the future is stale if this process has seen no renewal for two minutes.

    Notes
    -----
    If two processes take over a stale lock at the same time, or a process was suspended for two minutes, both do the
    same work. This only costs time: records are written atomically and have keys.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slot}.lock"
    token = uuid.uuid4().hex
    holder = {"token": token, "home": process_home(), "pid": os.getpid(), "since": time.time()}
    if _is_stale(path):
        path.unlink(missing_ok=True)
        _unchanged_since.pop(path, None)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(holder))
    except FileExistsError:
        return None
    except OSError as error:
        path.unlink(missing_ok=True)
        raise _with_next_step(error, path) from error
    return Lock(path, token)


def _holder(path: Path) -> dict[str, object]:
    """Return the content of a lock; empty if it is missing or unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _is_stale(path: Path) -> bool:
    """Return whether a lock can be removed; False if it does not exist."""
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return False
    age = time.time() - changed / 1e9
    if age > STALE:
        return True
    holder = _holder(path)
    if holder.get("home") == process_home() and _is_dead(holder.get("pid")):
        return True
    if age >= 0.0:
        return False
    if _unchanged_since.get(path, (0, 0.0))[0] != changed:
        _unchanged_since[path] = changed, time.monotonic()
    return time.monotonic() - _unchanged_since[path][1] > STALE


def _is_dead(pid: object) -> bool:
    """Return whether no process has this id; False if it is not a valid process id."""
    if type(pid) is not int or pid <= 0:
        return False
    try:
        os.kill(pid, 0)  # signal 0 only checks that the process exists
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False
