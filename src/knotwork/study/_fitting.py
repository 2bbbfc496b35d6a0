"""Encodings of every fold, method and size: fitted once, in parallel, on training rows only, and cached in files."""

import hashlib
import json
import traceback
from collections.abc import Iterable
from dataclasses import replace
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
from knotwork.study._folder import write_bytes
from knotwork.study._networks import NetworkSpec
from knotwork.study._plan import DEFAULT_BINS
from knotwork.study._provenance import fitting_versions
from knotwork.training._members import TrainingTable

__all__ = ["Wanted", "fit_all", "wanted_by"]

FITTED_VERSION = 1
"""Part of every file name: increase it when a change of the library changes fitted encodings."""

LEAST_CELLS = 1_000_000
"""Below this number of values, starting threads takes longer than it saves."""


class Wanted(NamedTuple):
    """An encoding with fixed knots that is to be fitted in a fold."""

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
    store: bool = True,
) -> dict[Wanted, Fitted | str]:
    """Return the fitted encodings of a data set, or the traceback where fitting raised an error.

    Encodings are fitted on the training rows of a fold only, and with `store` written to `folder`; those with a valid
    file in it are read. `bins` is the placement of the bins of PLE. `n_jobs` is the number of threads: by default all
    cores, or one for small data.
    """
    wanted = list(wanted)
    by_fold = {split.fold: split for split in splits}
    contents = {fold: _content(data.table, by_fold[fold]) for fold in {item.fold for item in wanted}}
    paths = {item: folder / f"{_name(contents[item.fold], item.encoding, bins)}.json" for item in wanted}
    results: dict[Wanted, Fitted | str] = {}
    for item, path in paths.items():
        stored = _read(path, len(data.identity.numerical))
        if stored is not None:
            results[item] = stored
    missing = [item for item in paths if item not in results]
    for item, fitted in _fit_missing(data.table, by_fold, missing, bins=bins, n_jobs=n_jobs).items():
        results[item] = fitted
        if store and isinstance(fitted, Fitted):
            write_bytes(paths[item], _to_json(fitted))
    return results


def _content(table: TrainingTable, split: Split) -> str:
    """Return a checksum of the data that fitting depends on."""
    digest = hashlib.sha256(f"{FITTED_VERSION} {table.task} {split.seed} {len(split.train)}".encode())
    digest.update(np.ascontiguousarray(table.numbers[split.train]).tobytes())
    digest.update(np.ascontiguousarray(table.target[split.train]).tobytes())
    return digest.hexdigest()


def _name(content: str, encoding: Encoding, bins: str) -> str:
    """Return a file name that covers everything that a fitted encoding depends on."""
    placement = bins if encoding.kind.has_usual_bins and bins != DEFAULT_BINS else encoding.kind.placement
    key = None if placement is None else placement_traits(placement).key
    parts = [content, encoding.method, encoding.size, repr(encoding.kind), placement, key]
    return f"{encoding.method}-{encoding.size}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]}"


def _fit_missing(
    table: TrainingTable, splits: dict[int, Split], missing: list[Wanted], *, bins: str, n_jobs: int | None
) -> dict[Wanted, Fitted | str]:
    """Fit encodings column by column, so that trees are grown once for all methods and sizes.

    Columns are fitted in threads: trees are grown without Python's lock, and other processes would not know the
    families and placements that the user has registered in this one.
    """
    folds = sorted({item.fold for item in missing})
    encodings = {fold: [item.encoding for item in missing if item.fold == fold] for fold in folds}
    n_columns = table.numbers.shape[1]
    cells = sum(len(splits[fold].train) for fold in folds) * n_columns
    jobs = 1 if cells < LEAST_CELLS and n_jobs is None else count_threads(n_jobs)
    targets = {fold: Target.from_values(table.target[splits[fold].train], table.task) for fold in folds}
    results = Parallel(n_jobs=jobs, backend="threading")(
        delayed(fit_column)(
            table.numbers[splits[fold].train, index],
            encodings[fold],
            targets[fold],
            seed=splits[fold].seed + index,
            bins=None if bins == DEFAULT_BINS else bins,
        )
        for fold in folds
        for index in range(n_columns)
    )
    columns = {fold: results[place * n_columns : (place + 1) * n_columns] for place, fold in enumerate(folds)}
    return {item: _joined([column[item.encoding] for column in columns[item.fold]]) for item in missing}


def _joined(parts: list[tuple[Block, float] | Exception]) -> Fitted | str:
    """Combine the columns of an encoding; if one failed, return its traceback."""
    failed = [part for part in parts if isinstance(part, Exception)]
    if failed:
        return "".join(traceback.format_exception(failed[0]))
    fitted = joined(part for part in parts if not isinstance(part, Exception))
    return replace(fitted, versions=fitting_versions())


def _to_json(fitted: Fitted) -> bytes:
    """Return an encoding as JSON, which keeps all digits of floats, with a checksum."""
    blocks = [block_to_json(block) for block in fitted.blocks]
    body = json.dumps({"seconds": fitted.seconds, "versions": fitted.versions, "blocks": blocks})
    return json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "body": body}).encode()


def _read(path: Path, n_columns: int) -> Fitted | None:
    """Read an encoding; None if the file is missing, incomplete or altered."""
    try:
        outer = json.loads(path.read_bytes())
        body = outer["body"]
        if hashlib.sha256(body.encode()).hexdigest() != outer["sha256"]:
            return None
        content = json.loads(body)
        blocks = [block_from_json(block) for block in content["blocks"]]
        versions = {str(name): str(version) for name, version in content.get("versions", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Fitted(blocks, float(content["seconds"]), versions) if len(blocks) == n_columns else None
