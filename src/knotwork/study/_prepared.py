"""Data sets of a study: arrays, folds, and encodings, which are fitted once on training rows and cached in files."""

import hashlib
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from joblib import Parallel, delayed

from knotwork._checks import argument_error
from knotwork._preparation.members import Fitted, PreparedTable, Split, fit_column, joined, make_splits
from knotwork.basis import FittedColumn, fitted_from_json, fitted_to_json
from knotwork.datasets import Dataset, load_dataset, read_table
from knotwork.encoders import Encoding, choose_columns, count_threads
from knotwork.knots import Target, placement_traits
from knotwork.nn import InteractionConfig
from knotwork.study._folder import digest, read_json, write_json
from knotwork.study._networks import DataIdentity, FoldEncoding, choice_key
from knotwork.study._plan import DEFAULT_BINS, Plan
from knotwork.study._provenance import fitting_versions
from knotwork.training import TrainingTable

FITTED_VERSION = 2
"""Part of every file name: increase it when a change to the library changes fitted encodings."""

ENCODINGS_KEY = "blocks"
"""Key of the encodings in files; the name is that of earlier versions."""

LEAST_CELLS = 1_000_000
"""Number of values below which starting threads takes longer than it saves."""


@dataclass(frozen=True, eq=False)
class StudyData:
    """A data set of a plan, its folds, and its fitted encodings, or the tracebacks where fitting raised an error.

    Categories are numbered from 1 in ascending order over all rows.
    """

    name: str
    identity: DataIdentity
    table: TrainingTable
    splits: list[Split] = field(default_factory=list)
    fitted: dict[FoldEncoding, Fitted | str] = field(default_factory=dict)


def load_data(plan: Plan, name: str) -> StudyData:
    """Load and split a data set of a plan. Rows with missing values are removed."""
    files = {file.name: file for file in plan.tables}
    if file := files.get(name):
        dataset = read_table(file.path, target=file.target, task=file.task, categorical=file.categorical)
    else:
        dataset = load_dataset(name)
    data = from_dataset(dataset, name)
    splits = make_splits(data.table.target, data.table.task, folds=plan.folds, seed=plan.seed, split=plan.split)
    return replace(data, splits=splits)


def from_dataset(dataset: Dataset, name: str) -> StudyData:
    """Convert a data set to arrays."""
    codes = [_ordinal_codes(dataset.frame[column]) + 1 for column in dataset.categorical]
    target = dataset.target_values()
    n_classes = 0
    if dataset.task == "classification":
        target = _ordinal_codes(dataset.frame[dataset.target])
        n_classes = int(target.max()) + 1
        if n_classes < 2:
            raise argument_error("target", "have at least two classes", dataset.target)
    table = TrainingTable(
        np.ascontiguousarray(dataset.numbers()),
        np.column_stack(codes) if codes else np.zeros((dataset.n_rows, 0), dtype=np.int64),
        target,
        dataset.task,
        tuple(int(column.max()) + 1 for column in codes),
        n_classes,
    )
    identity = DataIdentity(
        dataset.sha256, dataset.target, dataset.task, dataset.numerical, dataset.categorical, dataset.n_rows
    )
    return StudyData(name, identity, table)


def _ordinal_codes(column: "pd.Series[Any]") -> npt.NDArray[np.int64]:
    """Return codes from 0 in ascending order of the values; values that cannot be compared are ordered as text."""
    values = column.astype(object)
    try:
        codes = pd.factorize(values, sort=True)[0]
    except TypeError:
        codes = pd.factorize(values.astype(str), sort=True)[0]
    return codes.astype(np.int64)


def fit_all(
    data: StudyData,
    encodings: Iterable[FoldEncoding],
    *,
    folder: Path,
    bins: str = DEFAULT_BINS,
    n_jobs: int | None = None,
    store: bool = True,
) -> dict[FoldEncoding, Fitted | str]:
    """Return the fitted encodings of a data set, or the traceback where fitting raised an error.

    Encodings are fitted only on the training rows of a fold. With `store` they are written to `folder`; encodings with
    a valid file are read from it. `bins` is the placement of the bins of PLE. `n_jobs` is the number of threads: by
    default all cores, or one for small data.
    """
    encodings = list(encodings)
    contents = {fold: _content(data.table, data.splits[fold]) for fold in {item.fold for item in encodings}}
    paths = {item: folder / f"{_name(contents[item.fold], item, bins)}.json" for item in encodings}
    stored = {item: _read(path, data.table.numbers.shape[1]) for item, path in paths.items()}
    missing = [item for item, fitted in stored.items() if fitted is None]
    results: dict[FoldEncoding, Fitted | str] = {item: fitted for item, fitted in stored.items() if fitted is not None}
    for item, fitted in _fit_missing(data, missing, bins=bins, n_jobs=n_jobs).items():
        results[item] = fitted
        if store and isinstance(fitted, Fitted):
            _write(paths[item], fitted)
    return results


def _content(table: TrainingTable, split: Split) -> str:
    """Return a checksum of the data that fitting depends on."""
    checksum = hashlib.sha256(f"{FITTED_VERSION} {table.task} {split.seed} {len(split.train)}".encode())
    checksum.update(np.ascontiguousarray(table.numbers[split.train]).tobytes())
    checksum.update(np.ascontiguousarray(table.target[split.train]).tobytes())
    return checksum.hexdigest()


def _name(content: str, item: FoldEncoding, bins: str) -> str:
    """Return a file name that depends on everything that affects the fitted encoding."""
    encoding = item.encoding
    placement = bins if encoding.kind.has_usual_bins and bins != DEFAULT_BINS else encoding.kind.placement
    key = None if placement is None else placement_traits(placement).key
    parts: list[object] = [content, encoding.method, encoding.size, repr(encoding.kind), placement, key]
    parts += [part for part in (choice_key(encoding), item.pairs) if part is not None]
    return f"{encoding.method}-{encoding.size}-{digest(parts)[:32]}"


def _fit_missing(
    data: StudyData, missing: list[FoldEncoding], *, bins: str, n_jobs: int | None
) -> dict[FoldEncoding, Fitted | str]:
    """Fit encodings column by column, so that trees are grown once for all methods and sizes.

    Columns are fitted in threads: trees are grown without the GIL, and other processes would not have the families and
    placements that the user registered in this one.
    """
    table, splits, n_columns = data.table, data.splits, data.table.numbers.shape[1]
    folds = sorted({item.fold for item in missing})
    chosen = {fold: _choose(table, splits[fold]) for fold in {each.fold for each in missing if _is_choice(each)}}
    by_column = {item: chosen[item.fold] if _is_choice(item) else [item.encoding] * n_columns for item in missing}
    cells = sum(len(splits[fold].train) for fold in folds) * n_columns
    jobs = 1 if cells < LEAST_CELLS and n_jobs is None else count_threads(n_jobs)
    targets = {fold: Target.from_values(table.target[splits[fold].train], table.task) for fold in folds}
    columns = Parallel(n_jobs=jobs, backend="threading")(
        delayed(fit_column)(
            table.numbers[splits[fold].train, index],
            [by_column[item][index] for item in missing if item.fold == fold],
            targets[fold],
            seed=splits[fold].seed + index,
            bins=None if bins == DEFAULT_BINS else bins,
        )
        for fold in folds
        for index in range(n_columns)
    )
    pairs = {(fold, n): _pairs(table, splits[fold], n) for fold, n in {(each.fold, each.pairs) for each in missing}}
    results = {}
    for item, encodings in by_column.items():
        first = folds.index(item.fold) * n_columns
        results[item] = _joined(
            [column[each] for column, each in zip(columns[first : first + n_columns], encodings, strict=True)],
            chosen=tuple(map(str, encodings)) if _is_choice(item) else (),
            pairs=pairs[item.fold, item.pairs],
        )
    return results


def _joined(parts: list[tuple[FittedColumn, float] | Exception], **decided: Any) -> Fitted | str:
    """Combine the columns of an encoding; if one failed, return its traceback."""
    failed = [part for part in parts if isinstance(part, Exception)]
    if failed:
        return "".join(traceback.format_exception(failed[0]))
    good = joined(part for part in parts if not isinstance(part, Exception))
    return replace(good, versions=fitting_versions(), **decided)


def _is_choice(item: FoldEncoding) -> bool:
    """Return whether the training rows of the fold choose the encoding of each column."""
    return item.encoding.kind.is_choice


def _choose(table: TrainingTable, split: Split) -> list[Encoding]:
    """Return the encodings of all columns that the training rows of a fold choose."""
    numbers, target = table.numbers[split.train], table.target[split.train]
    choices = choose_columns(numbers, target, names=range(numbers.shape[1]), task=table.task, seed=split.seed)
    return [Encoding.parse(choice.encoding) for choice in choices]


def _pairs(table: TrainingTable, split: Split, pairs: int | str | None) -> tuple[tuple[int, int], ...]:
    """Return the pairs of columns that the training rows of a fold choose; empty for fewer than two columns."""
    if pairs is None or table.numbers.shape[1] < 2:
        return ()
    config = PreparedTable(table, (), ()).with_pairs(InteractionConfig(pairs), split)
    return () if config is None else config.pairs


def _write(path: Path, fitted: Fitted) -> None:
    encodings = [fitted_to_json(column) for column in fitted.encodings]
    content: dict[str, Any] = {"seconds": fitted.seconds, "versions": fitted.versions, ENCODINGS_KEY: encodings}
    write_json(path, content | {name: value for name in ("chosen", "pairs") if (value := getattr(fitted, name))})


def _read(path: Path, n_columns: int) -> Fitted | None:
    """Read an encoding; None if the file is missing, incomplete or altered."""
    content = read_json(path, {"seconds", "versions", ENCODINGS_KEY}, {"chosen", "pairs"})
    if content is None or len(content[ENCODINGS_KEY]) != n_columns:
        return None
    try:
        encodings = [fitted_from_json(column) for column in content[ENCODINGS_KEY]]
    except (ValueError, KeyError, TypeError, AttributeError):  # of another version
        return None
    pairs = tuple((first, second) for first, second in content.get("pairs", ()))
    return Fitted(encodings, content["seconds"], content["versions"], tuple(content.get("chosen", ())), pairs)
