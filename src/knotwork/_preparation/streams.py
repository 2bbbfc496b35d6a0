"""Tables larger than memory: batches are read twice, first for a sample of the rows, then into chunks on a disk.

The first pass counts rows and labels and keeps the rows with the smallest hashes of their numbers: validation rows, and
a random sample of the others, by which columns are learned. The second pass reads every batch as a table, adds its
columns to summaries by which knots are placed, and writes its rows to the chunks that networks are trained on.
"""

import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, final

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, listed, suggestion, type_error
from knotwork._loops import usable_cores
from knotwork._preparation.cells import MOMENTS, Cells, Label
from knotwork._preparation.columns import Columns, Whole, column_label, open_columns
from knotwork._preparation.learning import Misfits, warn_misfits
from knotwork._preparation.validation import FEWEST_TO_DIVIDE
from knotwork._tables import (
    BATCH_ROWS,
    as_frame,
    file_batches,
    frame_names,
    is_batches,
    is_file,
    is_stream,
    mixed_bits,
    source_names,
)
from knotwork._writing import counted, fixed
from knotwork.errors import ColumnError, ColumnTypeError
from knotwork.knots import Column, QuantileSketch
from knotwork.training import ChunkWriter, RowChunks, in_units


@dataclass(frozen=True)
class KeptRows:
    """How many rows of a stream stay in memory at most. The numbers are conventions.

    Parameters
    ----------
    n_valid, n_sampled : int
        Validation rows, and a sample of the training rows.
    n_bytes : int
        Bytes that both must fit into: of very wide tables fewer rows are kept.
    """

    n_valid: int = 100_000
    n_sampled: int = 200_000
    n_bytes: int = 512 << 20

    def most(self, n_columns: int) -> int:
        """Return the number of rows of a table with this many columns."""
        return min(self.n_valid + self.n_sampled, self.n_bytes // (8 * max(n_columns, 1)))


KEPT_ROWS = KeptRows()

MOST_LABELS = 1 << 18
"""Distinct labels of a column that are collected; of columns with more, those in the sample are its categories."""

MOST_MISFITS = 1000
"""Maximum number of texts of a column that are collected because they do not fit its format."""

N_THREADS = 8
"""Threads that read batches in the second pass, in turn, so that results do not depend on the number of cores; as many
of them work at a time as there are cores."""

LABELLED = (nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown)
UintArray: TypeAlias = npt.NDArray[np.uint64]
Room: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""The rows of a batch in each chunk, and the places that are reserved for them."""


@dataclass(frozen=True, eq=False)
class BatchReader:
    """Batches of a table, which are read several times, with the target and perhaps weights among their columns.

    Parameters
    ----------
    source : ParquetFile, Dataset or iterable
        A Parquet file or a data set of pyarrow, or an iterable of tables that starts again each time.
    target : str, int or sequence of these
        Names of the columns of the target, or positions in arrays.
    weight : str or int, optional
        The column of the weights.
    """

    source: Any
    target: Any
    weight: Any = None

    def __post_init__(self) -> None:
        if is_batches(self.source):
            raise type_error(
                "X",
                "be batches that can be read again",
                type(self.source).__name__,
                "Pass the pyarrow.parquet.ParquetFile or pyarrow.dataset.Dataset itself, or an object whose __iter__ "
                "starts from the beginning, such as a list of tables.",
            )
        for name, each in self._given:
            if type(each) not in (str, int):
                value = self.target if name == "y" else self.weight
                hint = f"Batches are read several times: {name} must be a column of them."
                raise type_error(name, "be the name of a column if X is read in batches", type(value).__name__, hint)
        if len(set(self.columns)) < len(self.columns):
            what = "name distinct columns, of which none is sample_weight"
            raise argument_error("y", what, self.target, "Name each column once.")

    @property
    def _given(self) -> list[tuple[str, Any]]:
        """The columns of target and weights, each with the parameter that names it."""
        targets = list(self.target) if isinstance(self.target, list | tuple) else [self.target]
        weights = [] if self.weight is None else [("sample_weight", self.weight)]
        return [*(("y", each) for each in targets or [None]), *weights]

    @property
    def columns(self) -> list[Any]:
        """The columns of target and weights."""
        return [each for _, each in self._given]

    def check_names(self, names: list[Any] | None) -> None:
        """Raise an error if target or weights are not among the names of the columns, which may be unknown."""
        for name, each in self._given:
            if names is not None and each not in names:
                hint = suggestion(each, names) if isinstance(each, str) else ""
                raise argument_error(name, "be a column of X", each, f"{hint} Its columns are {listed(names)}.".strip())

    def split(self, raw: Any) -> "Batch":
        """Divide a frame or an array into features, target and weights."""
        names, frame = _layout(raw), as_frame(raw)
        self.check_names(names)
        places = [names.index(each) for each in self.columns]
        others = [place for place in range(len(names)) if place not in places]
        if not others:
            raise ColumnError(f"X must have a column besides {listed(names)}. Add the columns to predict from.")
        if frame is None:
            columns, features = [raw[:, place] for place in places], raw[:, others]
        else:
            series = list(frame.iter_columns())
            chosen = [series[place] for place in places]
            chosen = [each.cast(nw.Float64) if each.dtype == nw.Decimal else each for each in chosen]
            columns, features = [each.to_native() for each in chosen], frame[:, others].to_native()
        weights = None if self.weight is None else _read_weights(columns.pop(), self.weight)
        target = columns[0] if len(columns) == 1 else np.stack(list(map(np.asarray, columns)), 1)
        return Batch(features, target, weights, raw)

    def split_weighted(self, raw: Any) -> "Batch":
        """Divide as `split` does those rows that have a weight above 0; there may be none."""
        batch = self.split(raw)
        if batch.weights is None or batch.weights.all():
            return batch
        return self.split(_take(raw, np.flatnonzero(batch.weights)))

    def batches(
        self, seed: int, columns: Sequence[str] | None = None
    ) -> Iterator[tuple[AbstractContextManager[None], "Batch", UintArray]]:
        """Yield a context that names the batch in errors, the rows that have a weight, and their hashes.

        Of a file only some columns may be read. A batch without such rows is left out.
        """
        n_rows, n_read, layout = 0, 0, None
        for number, raw in enumerate(raw_batches(self.source, columns)):
            layout = layout or _layout(raw)
            place = f"In batch {number + 1}, which begins at row {counted(n_read + 1)}"
            n_read += len(raw)
            with _located(place):
                batch = self.split_weighted(_arranged(raw, layout))
            if batch.n_rows:
                yield _located(place), batch, row_hashes(n_rows, batch.n_rows, seed)
                n_rows += batch.n_rows


def _layout(raw: Any) -> list[Any]:
    """Return the names of the columns of a frame, or the positions of those of an array."""
    frame = as_frame(raw)
    return list(range(raw.shape[1])) if frame is None else frame_names(frame)


def _arranged(raw: Any, layout: list[Any]) -> Any:
    """Return a batch with its columns in the order of the first batch; missing and further columns are an error."""
    names, frame = _layout(raw), as_frame(raw)
    if names == layout:
        return raw
    absent = [name for name in layout if name not in names]
    extra = [name for name in names if name not in layout]
    if frame is not None and not absent and not extra:
        return frame[:, [names.index(name) for name in layout]].to_native()
    parts = [f"This batch does not have {listed(absent)}."] if absent else []
    parts += [f"The first batch does not have {listed(extra)}."] if extra else []
    parts += ["Add them, all missing if they are not known, or leave them out of all batches."]
    raise ColumnError(" ".join(["X must have the same columns in all batches.", *parts]))


def _read_weights(values: Any, name: Any) -> npt.NDArray[np.float64]:
    """Return the weights of the rows of a batch; negative weights and values other than numbers are refused."""
    try:
        weights = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ColumnTypeError(f"The column {name!r} of sample_weight must hold numbers. Convert it first.") from error
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ColumnError(
            f"The column {name!r} of sample_weight must be finite and not negative. Drop or fill such rows."
        )
    return weights


class Batch(NamedTuple):
    """Features, target and weights of some rows, and the table that they come from."""

    features: Any
    target: Any
    weights: npt.NDArray[np.float64] | None
    raw: Any

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.raw)


def raw_batches(source: Any, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the batches of a source that have rows, at most `BATCH_ROWS` each, as frames or arrays."""
    for whole in whole_batches(source, columns):
        yield from divided(whole)


def whole_batches(source: Any, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield the batches of a source as they come, as frames or arrays; batches that are files are read one by one.

    Of files only those `columns` are read that they have; by default all.
    """
    if is_file(source):
        names = [name for name in source_names(source) or [] if columns is None or name in columns]
        source = file_batches(source, names, n_rows=BATCH_ROWS)
    for raw in source:
        if is_stream(raw):
            yield from whole_batches(raw, columns)
            continue
        batch = raw if as_frame(raw) is not None else np.asarray(raw)
        if isinstance(batch, np.ndarray) and batch.ndim != 2:
            hint = "Each batch is a frame or a 2d array; of a dict of columns make one, pandas.DataFrame(batch)."
            raise type_error("X", "yield tables", type(raw).__name__, hint)
        yield batch


def divided(batch: Any) -> Iterator[Any]:
    """Yield the rows of a frame or an array, at most `BATCH_ROWS` at a time."""
    frame = as_frame(batch)
    for start in range(0, len(batch if frame is None else frame), BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        yield batch[rows] if frame is None else frame[rows].to_native()


def row_hashes(first: int, n: int, seed: int) -> UintArray:
    """Return 64 random bits of rows from `first`, by which they are held out, sampled and put into chunks (SplitMix64).

    Examples
    --------
    >>> bool((row_hashes(3, 2, seed=1) == row_hashes(0, 5, seed=1)[3:]).all())
    True
    """
    step = 0x9E3779B97F4A7C15
    bits = np.arange(first, first + n, dtype=np.uint64) * np.uint64(step) + np.uint64((seed * step) % 2**64)
    return mixed_bits(bits)


@final
class Reservoir:
    """The rows with the smallest hashes: a random sample of a stream, which does not depend on how it is divided."""

    def __init__(self, most: int) -> None:
        self.most, self._limit = most, np.iinfo(np.uint64).max
        self._parts: list[tuple[UintArray, Any]] = []
        self._categorical: list[str] | None = None

    def add(self, hashes: UintArray, raw: Any) -> None:
        """Add those rows of a batch that belong to the sample."""
        chosen = np.flatnonzero(hashes <= self._limit)
        if self._categorical is None:
            frame = as_frame(raw)
            schema = {} if frame is None else frame.schema
            self._categorical = [name for name, kind in schema.items() if kind == nw.Categorical]
        if len(chosen):
            self._parts.append((hashes[chosen], _take(raw, chosen)))
        if sum(len(part) for part, _ in self._parts) > 2 * self.most:
            self._shrink()

    def _shrink(self) -> None:
        hashes = np.concatenate([part for part, _ in self._parts])
        if len(hashes) <= self.most:
            return
        self._limit = np.partition(hashes, self.most - 1)[self.most - 1]
        kept = [(part, np.flatnonzero(part <= self._limit), rows) for part, rows in self._parts]
        self._parts = [(part[places], _take(rows, places)) for part, places, rows in kept if len(places)]

    def rows(self) -> tuple[UintArray, Any]:
        """Return the hashes and the rows of the sample, in the order of the stream."""
        self._shrink()
        hashes = np.concatenate([part for part, _ in self._parts])
        frames = [frame for _, rows in self._parts if (frame := as_frame(rows)) is not None]
        if not frames:
            return hashes, np.concatenate([rows for _, rows in self._parts])
        joined = _joined(frames)
        lost = [name for name in self._categorical or () if joined[name].dtype != nw.Categorical]
        return hashes, joined.with_columns(nw.col(name).cast(nw.Categorical) for name in lost).to_native()


def _joined(frames: list[nw.DataFrame[Any]]) -> nw.DataFrame[Any]:
    """Return the rows of several frames as one, whose columns have a type that holds those of all frames."""
    libraries = sorted({frame.implementation.value for frame in frames})
    if len(libraries) > 1:
        raise ColumnTypeError(f"X must yield tables of one library, but has {' and '.join(libraries)}. Convert them.")
    try:
        return nw.concat(frames, how="vertical")
    except Exception:  # of each library its own, where types differ
        kinds = {name: _common_type(name, {frame.schema[name] for frame in frames}) for name in frames[0].columns}
        return nw.concat([frame.with_columns(nw.col(n).cast(kind) for n, kind in kinds.items()) for frame in frames])


def _common_type(name: str, kinds: set[Any]) -> Any:
    """Return the type of a column that has these types in different batches; columns without values have none."""
    present = kinds - {nw.Unknown()} or {nw.String()}
    if all(kind.is_numeric() or kind == nw.Boolean for kind in present):
        return nw.Int64 if all(kind.is_integer() and kind != nw.UInt64 for kind in present) else nw.Float64
    if all(kind in (nw.String, nw.Categorical, nw.Enum) for kind in present):
        return nw.String
    zones = {kind.time_zone if kind == nw.Datetime else None for kind in present}
    if all(kind in (nw.Datetime, nw.Date) for kind in present) and len(zones) == 1:
        return nw.Datetime("us", zones.pop())
    if len(present) > 1:
        shown = " and ".join(sorted(map(str, present)))
        raise ColumnTypeError(f"column {name!r} must have one type in all batches, but has {shown}. Convert it first.")
    return present.pop()


def _take(raw: Any, places: npt.NDArray[np.int64]) -> Any:
    frame = as_frame(raw)
    return raw[places] if frame is None else frame[places].to_native()


@dataclass(frozen=True, eq=False)
class Survey:
    """Results of the first pass.

    Parameters
    ----------
    batch : Batch
        Rows in memory: those that validate, and a sample of the others.
    validates : ndarray of bool
        Which of these rows validate.
    limit : int
        Rows with larger hashes are training rows.
    seed : int
        Random seed of the hashes.
    whole : Whole
        What columns are learned by, besides these rows.
    overfull : tuple of int
        Places of columns with too many distinct values.
    """

    batch: Batch
    validates: npt.NDArray[np.bool_]
    limit: int
    seed: int
    whole: Whole
    overfull: tuple[int, ...]


def survey_batches(
    reader: BatchReader, look: Callable[[Any], None], *, share: float, seed: int, categorical: Sequence[Any] = ()
) -> Survey:
    """Read all batches once; `look` is called with the target of every batch.

    A `share` of the rows is held out, as far as `KEPT_ROWS` allow; `seed` is that of the hashes of rows. Columns of
    numbers that are `categorical` have labels, too.
    """
    labels: dict[int, set[Label] | None] = {}
    reservoir, n_rows = None, 0
    for where, batch, hashes in reader.batches(seed):
        with where:
            names, columns = open_columns(batch.features)
            with _located(f"In the target {reader.target!r}"):
                look(batch.target)
            _add_labels(labels, names, columns, categorical)
        if reservoir is None:
            reservoir = Reservoir(KEPT_ROWS.most(len(columns)))
        reservoir.add(hashes, batch.raw)
        n_rows += batch.n_rows
    if reservoir is None:
        source = type(reader.source).__name__
        if next(raw_batches(reader.source), None) is not None:
            raise argument_error("sample_weight", "be larger than 0 in some rows", reader.weight, "Check the column.")
        raise argument_error("X", "yield at least one batch with rows", source, "Check the files or batches.")
    hashes, rows = reservoir.rows()
    most = min(KEPT_ROWS.n_valid, reservoir.most // 3, n_rows - 1)
    n_held = min(max(round(share * n_rows), 1), most) if share and n_rows >= FEWEST_TO_DIVIDE else 0
    limit = int(np.partition(hashes, n_held - 1)[n_held - 1]) if n_held else -1
    validates = hashes <= limit if n_held else np.zeros(len(hashes), dtype=bool)
    whole = Whole(n_rows, {place: values for place, values in labels.items() if values})
    overfull = tuple(place for place, values in labels.items() if values is None)
    return Survey(reader.split(rows), validates, limit, seed, whole, overfull)


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Add the place in the stream to errors about columns."""
    try:
        yield
    except (ColumnError, ColumnTypeError) as error:
        raise type(error)(f"{where}: {error}") from error


def _add_labels(
    labels: dict[int, set[Label] | None],
    names: Sequence[str] | None,
    columns: Sequence[Any],
    categorical: Sequence[Any],
) -> None:
    """Add the distinct labels of the columns of text and categories, by place; None stands for too many."""
    for place, column in enumerate(columns):
        name = None if names is None else names[place]
        is_labelled = column.dtype.kind in "OUT" if isinstance(column, np.ndarray) else column.dtype in LABELLED
        is_labelled |= (place if name is None else name) in categorical
        if not is_labelled or labels.get(place, ()) is None:
            continue
        unique = column.unique() if not isinstance(column, np.ndarray) and column.dtype == nw.String else column
        cells = Cells.from_column(unique, column_label(name, place))
        if cells.kind != "missing" and cells.kind not in MOMENTS:
            every = (labels.get(place) or set()) | set(cells.categories())
            labels[place] = every if len(every) <= MOST_LABELS else None


@dataclass
class _Summaries:
    """What is collected of the training rows of some batches."""

    sketches: list[QuantileSketch]
    is_missing: npt.NDArray[np.bool_]
    misfits: dict[str, Misfits] = field(default_factory=dict)

    @classmethod
    def empty(cls, n_numerical: int, seed: int) -> "_Summaries":
        sketches = [QuantileSketch(seed=(seed + place) % 2**31) for place in range(n_numerical)]
        return cls(sketches, np.zeros(n_numerical, dtype=bool))

    def add_rows(self, numbers: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None) -> None:
        for sketch, values in zip(self.sketches, numbers.T, strict=True):
            sketch.update(values, weights)
        self.is_missing |= np.isnan(numbers).any(axis=0)

    def add_misfits(self, misfits: dict[str, Misfits]) -> None:
        for label, texts in misfits.items():
            collected = self.misfits.setdefault(label, [])
            collected += [
                text for text in texts[:MOST_MISFITS] if len(collected) < MOST_MISFITS and text not in collected
            ]

    def merge(self, later: "_Summaries") -> None:
        for sketch, other in zip(self.sketches, later.sketches, strict=True):
            sketch.merge(other)
        self.is_missing |= later.is_missing
        self.add_misfits(later.misfits)


@dataclass(frozen=True, eq=False)
class SecondPass:
    """Reads all batches again, as tables, and writes their training rows to chunks, of every batch in a thread.

    Parameters
    ----------
    reader : BatchReader
        The batches.
    survey : Survey
        Results of the first pass.
    columns : Columns
        The columns.
    read_target : callable
        Turns the target of a batch into numbers or class codes.
    weigh : callable
        Turns these and the weights of the rows into weights, or None.
    draft : RowChunks
        The chunks, still without their numbers of rows and without the columns that have missing values.
    """

    reader: BatchReader
    survey: Survey
    columns: Columns
    read_target: Callable[[Any], npt.NDArray[Any]]
    weigh: Callable[[npt.NDArray[Any], npt.NDArray[np.float64] | None], npt.NDArray[np.float64] | None]
    draft: RowChunks

    def run(self) -> tuple[RowChunks, tuple[Column, ...]]:
        """Return the training rows in chunks, and each numerical column in all of them."""
        form, n_rows, n_numerical = self.draft.form, self.survey.whole.n_rows, self.draft.units.shape[1]
        _check_room(self.draft.folder, n_rows * form.dtype.itemsize)
        writer = ChunkWriter(self.draft.folder, form, form.n_chunks(n_rows))
        parts = [_Summaries.empty(n_numerical, self.survey.seed) for _ in range(N_THREADS)]
        self._run_threads(writer, parts)
        total, *others = parts
        for later in others:
            total.merge(later)
        for label, texts in total.misfits.items():
            warn_misfits(texts, label)
        indicated = tuple(np.flatnonzero(total.is_missing).tolist())
        chunks = replace(self.draft, counts=tuple(writer.counts.tolist()), indicated=indicated)
        return chunks, tuple(sketch.column() for sketch in total.sketches)

    def _run_threads(self, writer: ChunkWriter, parts: list[_Summaries]) -> None:
        """Write all batches; those of each thread are added to its own summaries, in their order."""
        n_rows, n_held, n_chunks = 0, 0, len(writer.counts)
        waiting: deque[tuple[AbstractContextManager[None], Future[npt.NDArray[Any]]]] = deque()
        expected = self.read_target(self.survey.batch.target)[self.survey.validates]

        def finish(most: int) -> None:
            nonlocal n_held
            while len(waiting) > most:
                where, future = waiting.popleft()
                with where:
                    targets = future.result()
                # Rows are held out by their numbers: in another order, others are held out, and those that validate
                # would be trained on.
                if not np.array_equal(targets, expected[n_held : n_held + len(targets)]):
                    raise _other_rows("rows in another order, or others")
                n_held += len(targets)

        with ExitStack() as stack:
            threads = [stack.enter_context(ThreadPoolExecutor(1, "knotwork-batches")) for _ in parts]
            for number, (where, batch, hashes) in enumerate(self.reader.batches(self.survey.seed, self._names)):
                chunks = _drawn_chunks(hashes, self.survey.limit, n_chunks)
                counts = np.bincount(chunks[chunks >= 0], minlength=n_chunks)
                room, place = (counts, writer.reserve(counts)), number % len(parts)
                done = threads[place].submit(self._write, batch, chunks, writer, room, parts[place])
                waiting.append((where, done))
                n_rows += batch.n_rows
                finish(usable_cores(len(parts)))
            finish(0)
        if n_rows != self.survey.whole.n_rows:
            raise _other_rows(f"{counted(self.survey.whole.n_rows)} rows, then {counted(n_rows)}")

    @property
    def _names(self) -> list[Any] | None:
        """The names of the columns that are read; None for all."""
        if self.columns.names is None:
            return None
        return [*(self.columns[place].name for place in self.columns.seen), *self.reader.columns]

    def _write(
        self, batch: Batch, chunks: npt.NDArray[np.int64], writer: ChunkWriter, room: Room, parts: _Summaries
    ) -> npt.NDArray[Any]:
        """Write the rows of a batch to chunks and add them to summaries; return the target of those with chunk -1."""
        table, misfits = self.columns.read_quietly(batch.features, to_fit=True)
        target = self.read_target(batch.target)
        weights = self.weigh(target, batch.weights)
        chosen = chunks >= 0
        parts.add_rows(table.numbers[chosen], None if weights is None else weights[chosen])
        parts.add_misfits(misfits)
        places, kind = np.flatnonzero(chosen), np.uint16 if chunks.max() < 2**16 else np.int64
        places = places[np.argsort(chunks[places].astype(kind), kind="stable")]
        rows = np.zeros(len(places), dtype=self.draft.form.dtype)
        rows["numbers"] = in_units(table.numbers, self.draft.units)[places]
        rows["codes"] = table.codes[places]
        rows["target"] = target[places].reshape(rows["target"].shape)  # all may be held out
        if weights is not None:
            rows["weights"][:, 0] = weights[places]
        writer.write(rows, *room)
        return target[~chosen]


def _other_rows(what: str) -> Exception:
    hint = "Do not change the files during the fit, and let __iter__ start from the beginning, without shuffling."
    return argument_error("X", "yield the same rows in the same order whenever it is read", what, hint)


def _drawn_chunks(hashes: UintArray, limit: int, n_chunks: int) -> npt.NDArray[np.int64]:
    """Return the chunk of each row, -1 for those that are held out, whose hashes are not above the limit."""
    # The lower bits do not depend on the upper ones, by which rows are held out.
    chunks = ((hashes & np.uint64(2**32 - 1)) * np.uint64(n_chunks) >> np.uint64(32)).astype(np.int64)
    if limit >= 0:
        chunks[hashes <= np.uint64(limit)] = -1
    return chunks


def _check_room(folder: Path, n_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < 1.02 * n_bytes:
        raise argument_error(
            "scratch",
            f"be a folder with {fixed(n_bytes / 2**20, 1)} MiB free, for the rows in compact form",
            f"{folder.parent} with {fixed(free / 2**20, 1)} MiB",
            "Pass scratch='/another/disk' to fit.",
        )
