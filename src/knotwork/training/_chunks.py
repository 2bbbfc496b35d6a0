"""Training rows that do not fit in memory: chunks of them in files, and what loads them ahead of the training."""

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

if TYPE_CHECKING:  # tables may have chunks
    from knotwork.training._members import DeviceTable, Member

CHUNK_BYTES, MOST_CHUNK_ROWS = 240 << 20, 1 << 22
"""Maximum bytes and rows of a chunk. Two are in memory; pinned memory has sizes of powers of two, here 256 MiB."""

FLAGS = (1, 2)
"""Codes of an indicator of missing values: missing, and present; 0 is the code of unseen categories."""

CODE_TYPES = (np.uint8, np.int16, np.int32)
"""Types of codes in files; the smallest one that holds all of them is taken."""


@dataclass(frozen=True)
class RowFormat:
    """How a row is written.

    Parameters
    ----------
    n_numbers : int
        Numbers, float32, in units of their columns: what networks see, without any loss.
    cardinalities : tuple of int
        Number of codes of each categorical feature.
    n_targets : int or None
        Targets of a regression, float64; 0 for one of shape (n,). None for class codes.
    has_weights : bool
        Whether rows have weights.
    """

    n_numbers: int
    cardinalities: tuple[int, ...]
    n_targets: int | None
    has_weights: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of a row, of a multiple of eight bytes."""
        largest = max(self.cardinalities, default=1) - 1
        code = next(kind for kind in CODE_TYPES if largest <= np.iinfo(kind).max)
        targets: Any = np.int64 if self.n_targets is None else np.float64
        fields = [("target", targets, (max(self.n_targets or 0, 1),)), ("numbers", np.float32, (self.n_numbers,))]
        if self.has_weights:
            fields.append(("weights", np.float32, (1,)))
        return np.dtype([*fields, ("codes", code, (len(self.cardinalities),))], align=True)

    def n_chunks(self, n_rows: int) -> int:
        """Return the number of chunks for this number of rows."""
        most = min(CHUNK_BYTES // self.dtype.itemsize, MOST_CHUNK_ROWS)
        # Rows are drawn into chunks, whose sizes differ a little: six standard deviations are left.
        usual = max(most - 6 * int(np.sqrt(most)), 1)
        return max(-(-n_rows // usual), 1)

    def views(self, raw: Tensor) -> dict[str, Tensor]:
        """Return the parts of rows, given as bytes of shape (n, size of a row), without copying them."""
        dtype, out = self.dtype, {}
        for name in dtype.names or ():
            kind, start = dtype.fields[name][:2]  # type: ignore[index]
            base, shape = kind.subdtype  # type: ignore[misc]
            as_torch = torch.from_numpy(np.empty(0, base)).dtype
            part = raw[:, start : start + kind.itemsize]
            out[name] = part.view(as_torch) if shape[0] else torch.empty(len(raw), 0, device=raw.device)
        return out


@dataclass(frozen=True, eq=False)
class RowChunks:
    """Training rows in files, one for each chunk.

    A row is in a chunk that is drawn at random, so that every chunk is a random sample. Each pass over the rows takes
    the chunks in another order, and each chunk's rows in another order: what differs from an order of all rows is only
    that rows of one chunk stay together.

    Parameters
    ----------
    folder : Path
        The folder of the files.
    form : RowFormat
        How rows are written.
    counts : tuple of int
        Rows of each chunk.
    units : ndarray of shape (2, n_numerical)
        Origin and unit of each numerical column.
    indicated : tuple of int
        Numerical columns with an indicator of missing values after the codes.
    seed : int
        Random seed of the order of the chunks.
    n_held : int, default=0
        Rows of the table that are not in the chunks: validation rows, which are in memory.
    """

    folder: Path
    form: RowFormat
    counts: tuple[int, ...]
    units: npt.NDArray[np.float64]
    indicated: tuple[int, ...]
    seed: int
    n_held: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows in all chunks."""
        return sum(self.counts)

    @property
    def capacity(self) -> int:
        """Rows of the largest chunk."""
        return max(self.counts)

    def chunk(self, number: int) -> int:
        """Return which chunk is the one of this number, counted over all passes."""
        done, place = divmod(number, len(self.counts))
        return int(np.random.default_rng([self.seed, done]).permutation(len(self.counts))[place])

    def read(self, chunk: int, out: npt.NDArray[np.uint8]) -> int:
        """Read a chunk into an array of bytes of shape (capacity, size of a row), and return its number of rows."""
        n_rows = self.counts[chunk]
        view = memoryview(out[:n_rows]).cast("B")
        with _chunk_path(self.folder, chunk).open("rb") as file:
            if file.readinto(view) < len(view):
                raise OSError(f"{file.name} is shorter than it was written.")
        return n_rows


def _chunk_path(folder: Path, chunk: int) -> Path:
    """Return the file of a chunk."""
    return folder / f"chunk_{chunk:05d}"


@final
class ChunkWriter:
    """Writes rows to the files of chunks; places are reserved in order, rows may be written by several threads."""

    def __init__(self, folder: Path, form: RowFormat, n_chunks: int) -> None:
        self.form, self._folder, self._size = form, folder, form.dtype.itemsize
        self.counts = np.zeros(n_chunks, dtype=np.int64)

    def reserve(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Reserve room for rows in each chunk, and return the first place of each."""
        starts = self.counts.copy()
        self.counts += counts
        return starts

    def write(self, rows: npt.NDArray[Any], counts: npt.NDArray[np.int64], starts: npt.NDArray[np.int64]) -> None:
        """Write rows, chunk after chunk, to their places."""
        data, begin = memoryview(rows.view(np.uint8)), 0
        for chunk, (count, start) in enumerate(zip(counts.tolist(), starts.tolist(), strict=True)):
            part, place = data[begin : begin + count * self._size], start * self._size
            # Not kept open: a table may have more chunks than a process may have files.
            file = os.open(_chunk_path(self._folder, chunk), os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                while len(part):
                    step = os.pwrite(file, part, place)
                    part, place = part[step:], place + step
            except OSError as error:
                hint = f"{error.strerror}. Rows of the fit are written there: pass scratch='/another/disk' to fit"
                raise OSError(error.errno, hint, str(self._folder.parent)) from error
            finally:
                os.close(file)
            begin += count * self._size


class _Slot(NamedTuple):
    """Room for a chunk: bytes in host memory, on a GPU its copy there, and an event after its last use."""

    host: Tensor
    device: Tensor
    event: Any


@final
class ChunkLoader:
    """Loads chunks into a table on the device; a thread reads the next one, and copies it to a GPU, ahead of time.

    Parameters
    ----------
    rows : RowChunks
        The chunks.
    data : DeviceTable
        Its first `RowChunks.capacity` rows are replaced.
    """

    def __init__(self, rows: RowChunks, data: "DeviceTable") -> None:
        self.rows, self.data = rows, data
        on_gpu = data.numbers.device.type == "cuda"
        self._stream = torch.cuda.Stream(data.numbers.device) if on_gpu else None  # type: ignore[no-untyped-call]
        self._pool = ThreadPoolExecutor(1, "knotwork-chunks")
        numbers = range(min(len(rows.counts), 2))
        self._reads = deque(self._pool.submit(self._read, self._slot(), number) for number in numbers)
        self._n_loaded = 0

    def _slot(self) -> _Slot:
        shape = self.rows.capacity, self.rows.form.dtype.itemsize
        host = torch.empty(shape, dtype=torch.uint8, pin_memory=self._stream is not None)
        if self._stream is None:
            return _Slot(host, host, None)
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        return _Slot(host, torch.empty(shape, dtype=torch.uint8, device=self.data.numbers.device), event)

    def _read(self, slot: _Slot, number: int) -> tuple[_Slot, int]:
        """Read the chunk of a number into a slot, whose last chunk has been used."""
        if slot.event is not None:
            slot.event.synchronize()
        n_rows = self.rows.read(self.rows.chunk(number), slot.host.numpy())
        if self._stream is not None:
            with torch.cuda.stream(self._stream):
                slot.device[:n_rows].copy_(slot.host[:n_rows], non_blocking=True)
                slot.event.record(self._stream)
        return slot, n_rows

    def load(self) -> None:
        """Replace the chunk in the table by the next one; a single chunk stays."""
        if self._n_loaded and len(self.rows.counts) == 1:
            return
        slot, n_rows = self._reads.popleft().result()
        if slot.event is not None:
            torch.cuda.current_stream(slot.device.device).wait_event(slot.event)
        self._fill(self.rows.form.views(slot.device[:n_rows]), n_rows)
        if slot.event is not None:
            slot.event.record()
        self._n_loaded += 1
        if len(self.rows.counts) > 1:
            self._reads.append(self._pool.submit(self._read, slot, self._n_loaded + 1))

    def _fill(self, parts: dict[str, Tensor], n_rows: int) -> None:
        data, indicated = self.data, list(self.rows.indicated)
        assert data.count is not None
        data.count.fill_(n_rows)
        data.numbers[:n_rows] = parts["numbers"]
        data.target[:n_rows] = parts["target"].view(n_rows, *data.target.shape[1:])
        if data.weights is not None:
            data.weights[:n_rows] = parts["weights"][:, 0]
        n_codes = parts["codes"].shape[1]
        data.codes[:n_rows, :n_codes] = parts["codes"]
        missing = data.numbers[:n_rows, indicated].isnan()
        data.codes[:n_rows, n_codes:] = torch.where(missing, *FLAGS)

    def close(self) -> None:
        """Stop reading."""
        self._pool.shutdown(cancel_futures=True)


def as_streamed(rows: RowChunks, members: "Sequence[Member]") -> "list[Member]":
    """Return members for training on chunks, each of which counts as an epoch.

    A pass over the rows takes as many epochs as there are chunks. Rows of the table follow those of the chunk.
    """
    streamed, every = [], np.arange(rows.capacity)
    for member in members:
        config = member.settings[1]
        longer = replace(config, max_epochs=config.max_epochs * len(rows.counts))
        streamed.append(replace(member, train=every, valid=member.valid + rows.capacity, config=longer))
    return streamed
