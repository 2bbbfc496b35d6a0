"""Encodings of every fold, method and size: fitted once, in parallel, on training rows only, and cached in files."""

import hashlib
import json
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from knotwork._preparation.members import Fitted, PreparedTable, Split, fit_column, joined
from knotwork.basis import FittedColumn, fitted_from_json, fitted_to_json
from knotwork.encoders import Encoding, choose_columns, count_threads
from knotwork.knots import Target, placement_traits
from knotwork.nn import InteractionConfig
from knotwork.study._data import StudyData
from knotwork.study._folder import write_bytes
from knotwork.study._networks import NetworkSpec, choice_key
from knotwork.study._plan import DEFAULT_BINS
from knotwork.study._provenance import fitting_versions
from knotwork.training import TrainingTable

__all__ = ["Wanted", "fit_all", "wanted_by"]

FITTED_VERSION = 2
"""Part of every file name: increase it when a change to the library changes fitted encodings."""

LEAST_CELLS = 1_000_000
"""Number of values below which starting threads takes longer than it saves."""


class Wanted(NamedTuple):
    """An encoding with fixed knots to fit in a fold, and the number of pairs of columns to find."""

    encoding: Encoding
    fold: int
    pairs: int | str | None = None


def wanted_by(network: NetworkSpec) -> Wanted:
    """Return the encoding that a network starts from, and the pairs of its interactions."""
    return Wanted(network.encoding.start, network.fold, network.pairs)


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

    Encodings are fitted only on the training rows of a fold. With `store` they are written to `folder`; encodings with
    a valid file are read from it. `bins` is the placement of the bins of PLE. `n_jobs` is the number of threads: by
    default all cores, or one for small data.
    """
    wanted = list(wanted)
    by_fold = {split.fold: split for split in splits}
    contents = {fold: _content(data.table, by_fold[fold]) for fold in {item.fold for item in wanted}}
    paths = {item: folder / f"{_name(contents[item.fold], item, bins)}.json" for item in wanted}
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


def _name(content: str, item: Wanted, bins: str) -> str:
    """Return a file name that depends on everything that affects the fitted encoding."""
    encoding = item.encoding
    placement = bins if encoding.kind.has_usual_bins and bins != DEFAULT_BINS else encoding.kind.placement
    key = None if placement is None else placement_traits(placement).key
    parts: list[object] = [content, encoding.method, encoding.size, repr(encoding.kind), placement, key]
    parts += [part for part in (choice_key(encoding), item.pairs) if part is not None]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    return f"{encoding.method}-{encoding.size}-{digest}"


def _fit_missing(
    table: TrainingTable, splits: dict[int, Split], missing: list[Wanted], *, bins: str, n_jobs: int | None
) -> dict[Wanted, Fitted | str]:
    """Fit encodings column by column, so that trees are grown once for all methods and sizes.

    Columns are fitted in threads: trees are grown without the GIL, and other processes would not have the families and
    placements that the user registered in this one.
    """
    folds = sorted({item.fold for item in missing})
    n_columns = table.numbers.shape[1]
    by_column = _encodings_of_columns(table, splits, missing)
    cells = sum(len(splits[fold].train) for fold in folds) * n_columns
    jobs = 1 if cells < LEAST_CELLS and n_jobs is None else count_threads(n_jobs)
    targets = {fold: Target.from_values(table.target[splits[fold].train], table.task) for fold in folds}
    results = Parallel(n_jobs=jobs, backend="threading")(
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
    columns = {fold: results[place * n_columns : (place + 1) * n_columns] for place, fold in enumerate(folds)}
    pairs = _found_pairs(table, splits, missing)
    return {
        item: _joined(
            [column[encoding] for column, encoding in zip(columns[item.fold], by_column[item], strict=True)],
            chosen=by_column[item] if item.encoding.kind.is_choice else (),
            pairs=pairs.get((item.fold, item.pairs), ()),
        )
        for item in missing
    }


def _encodings_of_columns(
    table: TrainingTable, splits: dict[int, Split], missing: list[Wanted]
) -> dict[Wanted, list[Encoding]]:
    """Return the encoding of each column; some methods choose it by the training rows of the fold."""
    n_columns = table.numbers.shape[1]
    out = {item: [item.encoding] * n_columns for item in missing}
    for fold in sorted({item.fold for item in missing if item.encoding.kind.is_choice}):
        chosen = _choose(table, splits[fold])
        out |= {item: chosen for item in missing if item.fold == fold and item.encoding.kind.is_choice}
    return out


def _choose(table: TrainingTable, split: Split) -> list[Encoding]:
    """Return the encodings of all columns that the training rows of a fold choose."""
    names = range(table.numbers.shape[1])
    about: dict[str, Any] = {"names": names, "task": table.task, "seed": split.seed}
    choices = choose_columns(table.numbers[split.train], table.target[split.train], **about)
    return [Encoding.parse(choice.encoding) for choice in choices]


def _found_pairs(
    table: TrainingTable, splits: dict[int, Split], missing: list[Wanted]
) -> dict[tuple[int, int | str | None], tuple[tuple[int, int], ...]]:
    """Return the pairs of columns for each fold and number of pairs; empty for fewer than two columns."""
    wanted = {(item.fold, item.pairs) for item in missing if item.pairs is not None}
    if table.numbers.shape[1] < 2:
        return {}
    configs = {
        (fold, pairs): PreparedTable(table, (), ()).with_pairs(InteractionConfig(pairs), splits[fold])
        for fold, pairs in sorted(wanted, key=repr)
    }
    return {key: config.pairs for key, config in configs.items() if config is not None}


def _joined(
    parts: list[tuple[FittedColumn, float] | Exception],
    *,
    chosen: Sequence[Encoding],
    pairs: tuple[tuple[int, int], ...],
) -> Fitted | str:
    """Combine the columns of an encoding; if one failed, return its traceback."""
    failed = [part for part in parts if isinstance(part, Exception)]
    if failed:
        return "".join(traceback.format_exception(failed[0]))
    fitted = joined(part for part in parts if not isinstance(part, Exception))
    return replace(fitted, versions=fitting_versions(), chosen=tuple(map(str, chosen)), pairs=pairs)


def _to_json(fitted: Fitted) -> bytes:
    """Return an encoding as JSON with a checksum; JSON keeps all digits of floats."""
    blocks = [fitted_to_json(column) for column in fitted.blocks]
    content: dict[str, Any] = {"seconds": fitted.seconds, "versions": fitted.versions, "blocks": blocks}
    content |= {name: value for name in ("chosen", "pairs") if (value := getattr(fitted, name))}
    body = json.dumps(content)
    return json.dumps({"sha256": hashlib.sha256(body.encode()).hexdigest(), "body": body}).encode()


def _read(path: Path, n_columns: int) -> Fitted | None:
    """Read an encoding; None if the file is missing, incomplete or altered."""
    try:
        outer = json.loads(path.read_bytes())
        body = outer["body"]
        if hashlib.sha256(body.encode()).hexdigest() != outer["sha256"]:
            return None
        content = json.loads(body)
        blocks = [fitted_from_json(block) for block in content["blocks"]]
        versions = {str(name): str(version) for name, version in content.get("versions", {}).items()}
        chosen = tuple(map(str, content.get("chosen", ())))
        pairs = tuple((int(first), int(second)) for first, second in content.get("pairs", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Fitted(blocks, float(content["seconds"]), versions, chosen, pairs) if len(blocks) == n_columns else None
