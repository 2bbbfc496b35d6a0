"""Encodings of every fold, method and size: fitted once, in parallel, on training rows alone, and kept by content."""

import hashlib
import json
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from knotwork._preparation.members import Fitted, Split, fit_column, joined
from knotwork.basis._blocks import Block, block_from_json, block_to_json
from knotwork.encoders._base import count_threads
from knotwork.encoders._methods import Encoding
from knotwork.knots import Target
from knotwork.knots._placements import placement_traits
from knotwork.study._data import StudyData
from knotwork.study._files import write_bytes
from knotwork.study._networks import NetworkSpec
from knotwork.study._plan import DEFAULT_BINS
from knotwork.training._members import TrainingTable

__all__ = ["FITTED_VERSION", "Wanted", "fit_all", "wanted_by"]

FITTED_VERSION = 1
"""Part of every name: it grows when a change of the library changes what is fitted."""

LEAST_CELLS = 1_000_000
"""With fewer values to fit than this, threads would not pay."""


class Wanted(NamedTuple):
    """An encoding with fixed knots to fit in a fold."""

    encoding: Encoding
    fold: int


def wanted_by(network: NetworkSpec) -> Wanted:
    """Return the encoding that a network starts from."""
    return Wanted(network.encoding.start, network.fold)


def fit_all(
    data: StudyData,
    splits: list[Split],
    wanted: Iterable[Wanted],
    *,
    folder: Path,
    bins: str = DEFAULT_BINS,
    n_jobs: int | None = None,
) -> dict[Wanted, Fitted | str]:
    """Return the fitted encodings of a data set; those that the folder does not hold are fitted and kept there.

    Nothing but the training rows of a fold is looked at. A file that cannot be read is fitted again.

    Parameters
    ----------
    data : StudyData
        The data set.
    splits : list of Split
        Its folds.
    wanted : iterable of Wanted
        What to return.
    folder : Path
        Where fitted encodings are kept.
    bins : str, default="cart"
        How the bins of PLE are placed.
    n_jobs : int, optional
        Threads; by default all cores, and one where there is little to do.

    Returns
    -------
    dict of Wanted to Fitted or str
        Where fitting raised an error, its traceback.
    """
    wanted = list(wanted)
    by_fold = {split.fold: split for split in splits}
    contents = {fold: _content(data.table, by_fold[fold]) for fold in {each.fold for each in wanted}}
    paths = {each: folder / f"{_name(contents[each.fold], each.encoding, bins)}.json" for each in wanted}
    out: dict[Wanted, Fitted | str] = {}
    for each, path in paths.items():
        kept = _read(path, len(data.identity.numerical))
        if kept is not None:
            out[each] = kept
    missing = [each for each in paths if each not in out]
    for each, fitted in _fit_missing(data.table, by_fold, missing, bins=bins, n_jobs=n_jobs).items():
        out[each] = fitted
        if isinstance(fitted, Fitted):
            write_bytes(paths[each], _written(fitted))
    return out


def _content(table: TrainingTable, split: Split) -> str:
    """Return a checksum of everything that fitting looks at."""
    digest = hashlib.sha256(f"{FITTED_VERSION} {table.task} {split.seed} {len(split.train)}".encode())
    digest.update(np.ascontiguousarray(table.numbers[split.train]).tobytes())
    digest.update(np.ascontiguousarray(table.target[split.train]).tobytes())
    return digest.hexdigest()


def _name(content: str, encoding: Encoding, bins: str) -> str:
    """Return a name that changes with whatever the fitted encoding depends on."""
    placement = bins if encoding.kind.has_bins and bins != DEFAULT_BINS else encoding.kind.placement
    key = None if placement is None else placement_traits(placement).key
    parts = [content, encoding.method, encoding.size, repr(encoding.kind), placement, key]
    return f"{encoding.method}-{encoding.size}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"


def _fit_missing(
    table: TrainingTable, splits: dict[int, Split], missing: list[Wanted], *, bins: str, n_jobs: int | None
) -> dict[Wanted, Fitted | str]:
    """Fit encodings column by column, so that trees are grown once for all methods and sizes.

    Columns are shared out to threads, for trees are grown without Python's lock, and only threads know the families and
    placements that a user has registered in this process.
    """
    folds = sorted({each.fold for each in missing})
    encodings = {fold: [each.encoding for each in missing if each.fold == fold] for fold in folds}
    n_columns = table.numbers.shape[1]
    cells = sum(len(splits[fold].train) for fold in folds) * n_columns
    jobs = 1 if cells < LEAST_CELLS and n_jobs is None else count_threads(n_jobs)
    goals = {fold: Target.from_values(table.target[splits[fold].train], table.task) for fold in folds}
    results = Parallel(n_jobs=jobs, backend="threading")(
        delayed(fit_column)(
            table.numbers[splits[fold].train, index],
            encodings[fold],
            goals[fold],
            seed=splits[fold].seed + index,
            bins=None if bins == DEFAULT_BINS else bins,
        )
        for fold in folds
        for index in range(n_columns)
    )
    columns = {fold: results[place * n_columns : (place + 1) * n_columns] for place, fold in enumerate(folds)}
    return {each: _joined([column[each.encoding] for column in columns[each.fold]]) for each in missing}


def _joined(parts: list[tuple[Block, float] | Exception]) -> Fitted | str:
    """Put columns together; one that failed fails them all."""
    failed = [part for part in parts if isinstance(part, Exception)]
    if failed:
        return "".join(traceback.format_exception(failed[0]))
    return joined(part for part in parts if not isinstance(part, Exception))


def _written(fitted: Fitted) -> bytes:
    """Write an encoding as JSON, whose numbers are exact, with a checksum."""
    body = json.dumps({"seconds": fitted.seconds, "blocks": [block_to_json(block) for block in fitted.blocks]})
    return json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "body": body}).encode()


def _read(path: Path, n_columns: int) -> Fitted | None:
    """Read an encoding; None if the file is not there, torn or altered."""
    try:
        outer = json.loads(path.read_bytes())
        body = outer["body"]
        if hashlib.sha256(body.encode()).hexdigest() != outer["sha256"]:
            return None
        content = json.loads(body)
        blocks = [block_from_json(block) for block in content["blocks"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Fitted(blocks, float(content["seconds"])) if len(blocks) == n_columns else None
