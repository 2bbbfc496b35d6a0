"""Fits and predictions of tables larger than memory, which are read in batches."""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, warn_user
from knotwork._preparation.columns import CodedTable, Columns, Role, column_label
from knotwork._preparation.members import N_FLAGS, PreparedTable, add_indicators
from knotwork._preparation.streams import (
    BatchReader,
    SecondPass,
    Survey,
    divided,
    survey_batches,
    whole_batches,
)
from knotwork._preparation.targets import LABEL_TYPES, Labels, check_target
from knotwork._preparation.validation import LARGEST_SEED, as_splits
from knotwork._tables import as_frame, source_names
from knotwork._writing import counted
from knotwork.errors import ColumnTypeError, ColumnWarning
from knotwork.estimators._model import Classification, FittedModel, Task, Weights
from knotwork.estimators._settings import FitSettings
from knotwork.estimators._steps import (
    Preparation,
    check_given,
    check_smoothness,
    drawn_from,
    followed_by,
    warn_of_few,
    with_members,
)
from knotwork.training import RowChunks, RowFormat, TrainingTable, column_units

STREAMED_ROWS = 1 << 18
"""Rows that are predicted at a time: a multiple of those that networks predict together, whose results are the same."""


@contextmanager
def scratch_folder(scratch: Any) -> Iterator[Path]:
    """Make a folder for the rows of a fit, in a given one or that of the system for temporary files; remove it."""
    if scratch is not None and not (isinstance(scratch, str | PathLike) and Path(scratch).is_dir()):
        raise argument_error("scratch", "be a folder that exists", str(scratch), "Make it, or leave scratch out.")
    with TemporaryDirectory(prefix="knotwork-", dir=scratch, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class _ClassesSurvey:
    """The classes of a classification, batch after batch."""

    def __init__(self) -> None:
        self._counts, self._dtypes = Counter[Any](), set[str]()

    def look(self, y: Any) -> None:
        """Count the classes of a batch."""
        labels, codes = Labels.from_values(y)
        self._counts.update(dict(zip(labels.values, np.bincount(codes).tolist(), strict=True)))
        self._dtypes.add(labels.dtype)
        are_numbers = {LABEL_TYPES[dtype] for dtype in self._dtypes} <= {int, float}
        if len(self._dtypes) > 1 and not are_numbers:
            kinds = " and ".join(sorted(self._dtypes))
            raise ColumnTypeError(f"y must have one type in all batches, but has {kinds}. Convert it first.")

    def known(self, task: Classification) -> Classification:
        """Return the task with the classes of all batches."""
        dtype = next(iter(self._dtypes)) if len(self._dtypes) == 1 else np.result_type(*self._dtypes).name
        labels = Labels(tuple(LABEL_TYPES[dtype](value) for value in sorted(self._counts)), dtype)
        return task.with_classes(labels, np.array([self._counts[value] for value in labels.values]))


def prepare_stream(
    settings: FitSettings,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    X_val: Any,
    y_val: Any,
    groups: Any,
    folder: Path,
    before: FittedModel | None,
) -> Preparation:
    """Read a stream twice, write its rows into a folder, and return what is trained; arguments as in `fit`."""
    check_given(settings, X_val, y_val, groups)
    _check_settings(settings)
    if groups is not None:
        hint = "Hold out whole groups yourself, and give them as X_val and y_val."
        raise argument_error("groups", "be None if X is read in batches", type(groups).__name__, hint)
    reader = BatchReader(X, y, sample_weight)
    random, state = drawn_from(settings, before)
    task, survey = _survey(settings, reader, seed=_hash_seed(state), holds_out=X_val is None)
    # That a target is positive, or has a value that is not 0, is no condition of every batch.
    read = task.read if task.n_classes else check_target
    columns, table, target = _learn(settings, task, survey)
    weights, validates = task.weigh(target, survey.batch.weights), survey.validates
    n_targets = None if task.n_classes else 0 if target.ndim == 1 else target.shape[1]
    form = RowFormat(table.numbers.shape[1], columns.cardinalities, n_targets, weights is not None)
    n_written, units = survey.whole.n_rows - int(validates.sum()), column_units(table.numbers)
    if X_val is not None:
        table, target, weights = followed_by(table, target, weights, columns.read(X_val), read(y_val))
        validates = np.arange(len(target)) >= len(validates)
    chunks = RowChunks(folder, form, (n_written,), units, (), survey.seed, int(validates.sum()))
    data = TrainingTable(
        *table, target, task.name, columns.cardinalities, task.n_classes, weights, task.objective, chunks
    )
    # Errors in parameters come before the second pass, which may take long.
    settings.plan(columns, data, n_folds=1)
    chunks, summaries = SecondPass(reader, survey, columns, read, task.weigh, chunks).run()
    data = replace(
        data,
        codes=add_indicators(*table, chunks.indicated),
        cardinalities=(*columns.cardinalities, *[N_FLAGS] * len(chunks.indicated)),
        chunks=chunks,
    )
    plan = settings.plan(columns, data, n_folds=1)
    every = np.arange(len(target))
    check_smoothness(plan)
    seeds = random.randint(LARGEST_SEED, size=plan.n_seeds)
    train, valid = (every[~validates], every[validates]) if validates.any() else (every, every)
    splits = tuple(as_splits([(train, valid)], seeds))
    prepared = PreparedTable(data, splits, chunks.indicated, settings.columns.missing, summaries)
    about: dict[str, Any] = {"seeds": seeds, "state": state, "before": before}
    name = reader.target if isinstance(reader.target, str) else None
    return with_members(settings, task, columns, prepared, plan, **about, target_name=name)


def _survey(settings: FitSettings, reader: BatchReader, *, seed: int, holds_out: bool) -> tuple[Task, Survey]:
    """Read all batches once; return the task, with its classes, and what was seen."""
    task, validation, classes = settings.task, settings.validation, _ClassesSurvey()

    def look(y: Any) -> None:
        target = check_target(y)
        if target.any():  # whether all are 0 is checked in the rows in memory
            task.objective.check_target(target)

    share = validation.share if validation.rows is None else float(validation.rows)
    survey = survey_batches(
        reader,
        classes.look if isinstance(task, Classification) else look,
        share=share if holds_out else 0.0,
        seed=seed,
        categorical=tuple(settings.columns.categorical or ()),
    )
    return classes.known(task) if isinstance(task, Classification) else task, survey


def _hash_seed(state: Any) -> int:
    """Return a random seed without drawing from the numbers by which networks are seeded, as those of a table are."""
    random = np.random.RandomState()
    random.set_state(state)
    return int(random.randint(LARGEST_SEED))


def _check_settings(settings: FitSettings) -> None:
    """Refuse parameters that need all rows in memory."""
    validation = settings.validation.rows
    if validation is not None and not isinstance(validation, float):
        hint = "Rows are held out by a hash of their numbers; X_val and y_val give others."
        raise argument_error("validation", "be None or a share if X is read in batches", validation, hint)
    if settings.validation.refit:
        hint = "At most 100,000 rows are held out; leave refit out."
        raise argument_error("refit", "be False if X is read in batches", True, hint)


def _learn(settings: FitSettings, task: Task, survey: Survey) -> tuple[Columns, CodedTable, npt.NDArray[Any]]:
    """Learn the columns from the rows in memory, and read these rows."""
    batch, config = survey.batch, settings.columns
    if config.least_count > 1:
        hint = "Categories of batches are not counted: combine rare ones before."
        raise argument_error("least_count", "be 1 for a table that is read in batches", config.least_count, hint)
    columns, _ = Columns.learn(batch.features, config.categorical, dates=config.dates, whole=survey.whole)
    table, target = columns.read_quietly(batch.features)[0], task.read(batch.target)  # the second pass warns
    columns = columns.with_copies(table, target)
    columns.warn()
    warn_of_few(task, survey.whole.n_rows)
    for place in survey.overfull:
        column = columns[place]
        if column.role == Role.CATEGORICAL:
            warn_user(
                f"{column_label(column.name, place)} has more distinct values than are counted: those that are not in "
                f"a sample of {counted(len(target))} rows share a learned vector. Group rare values, or drop the "
                "column.",
                ColumnWarning,
            )
    return columns, table, target


def predicted_batches(model: FittedModel, source: Any, predict: Callable[[Any], Any]) -> Iterator[Any]:
    """Yield the predictions of every batch of a stream, the same as those of the whole table, none for no rows.

    Networks predict `STREAMED_ROWS` rows at a time whatever the batches are, because the rounding of a prediction may
    depend on the number of rows that are computed together.

    Parameters
    ----------
    model : FittedModel
        The model.
    source : ParquetFile, Dataset or iterable
        A file or a data set, of which only the columns of the model are read, or tables with these columns.
    predict : callable
        Turns a `CodedTable` into an array, or a tuple of arrays, with a row for each row.
    """
    _check_columns(model, source)
    lengths: deque[int] = deque()
    ready: tuple[npt.NDArray[Any], ...] = ()
    is_tuple = False
    for table in chain(_groups(_tables(model, source, lengths)), [None]):
        if table is not None:
            predicted = predict(table)
            is_tuple = isinstance(predicted, tuple)
            new = predicted if is_tuple else (predicted,)
            ready = tuple(map(np.concatenate, zip(ready, new, strict=True))) if ready else new
        while ready and lengths and lengths[0] <= len(ready[0]):
            n_rows = lengths.popleft()
            parts = tuple(part[:n_rows] for part in ready)
            yield parts if is_tuple else parts[0]
            ready = tuple(part[n_rows:] for part in ready)  # perhaps of no rows, as later batches may be


def _tables(model: FittedModel, source: Any, lengths: deque[int]) -> Iterator[CodedTable]:
    """Yield parts of all batches as networks take them; `lengths` gets the number of rows of each batch."""
    for batch in whole_batches(source, model.columns.names):
        lengths.append(len(batch))
        for raw in divided(batch):
            yield model.columns.read(_without_target(model, raw))


def _groups(tables: Iterator[CodedTable]) -> Iterator[CodedTable]:
    """Yield the same rows in tables of `STREAMED_ROWS` rows, of which the last one may be shorter."""
    waiting: list[CodedTable] = []
    n_rows = 0
    for table in tables:
        waiting.append(table)
        n_rows += table.n_rows
        while n_rows >= STREAMED_ROWS:
            whole = CodedTable.joined(waiting)
            yield whole.take(slice(STREAMED_ROWS))
            waiting, n_rows = [whole.take(slice(STREAMED_ROWS, None))], n_rows - STREAMED_ROWS
    if n_rows:
        yield CodedTable.joined(waiting)


def read_beside_target(
    predict: Callable[[Any], Iterator[Any]], model: FittedModel, source: Any, target: Any, weight: Any
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Weights]:
    """Return the target, the predictions and the weights of all rows of a stream, which are kept in memory.

    `predict` is that of the estimator; other parameters are those of `predicted_batches` and `BatchReader`.
    """
    reader, names = BatchReader(source, target, weight), model.columns.names
    reader.check_names(source_names(source))
    targets: list[npt.NDArray[Any]] = []
    weights: list[npt.NDArray[np.float64]] = []

    def features() -> Iterator[Any]:
        for raw in whole_batches(source, None if names is None else [*names, *reader.columns]):
            batch = reader.split(raw)
            targets.append(np.asarray(batch.target))
            weights.extend([] if batch.weights is None else [batch.weights])
            yield batch.features

    parts = list(predict(features()))
    if not sum(map(len, parts)):
        raise argument_error("X", "have rows", type(source).__name__, "Check the files or batches.")
    return np.concatenate(targets), np.concatenate(parts), np.concatenate(weights) if weights else None


def _check_columns(model: FittedModel, source: Any) -> None:
    """Raise an error if a file or a data set, of which only the columns of the model are read, lacks one of them."""
    names, columns = source_names(source), model.columns
    if names is None or columns.names is None:
        return
    read = tuple(name for name in names if name in columns.names)
    columns.order(read, len(read))


def _without_target(model: FittedModel, raw: Any) -> Any:
    """Return a batch without the target, which it may have as in the fit."""
    frame, names, target = as_frame(raw), model.columns.names, model.target_name
    if frame is None or names is None or target is None or target in names or target not in frame.columns:
        return raw
    return frame.drop(target).to_native()
