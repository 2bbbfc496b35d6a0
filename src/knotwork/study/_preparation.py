"""Knots of every fold, method and size: fitted once, in parallel, on training rows alone, and kept by content."""

import hashlib
import json
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed

from knotwork.basis._blocks import Block, block_from_json, block_to_json
from knotwork.basis._families import FloatArray
from knotwork.encoders._base import Encoder, count_threads
from knotwork.encoders._methods import Encoding
from knotwork.knots import PLACEMENTS, Column, Target, complete
from knotwork.knots._placements import TreePlacement, placement_traits, select_spaced
from knotwork.study._data import StudyData
from knotwork.study._files import write_bytes
from knotwork.study._folds import Split
from knotwork.study._networks import NetworkSpec

__all__ = ["PREPARED_VERSION", "Fitted", "Wanted", "prepare", "wanted_by"]

PREPARED_VERSION = 1
"""Part of every name: it grows when a change of the library changes what is fitted."""

LEAST_CELLS = 1_000_000
"""With fewer values to fit than this, processes would take longer to start than the fitting takes."""


class Wanted(NamedTuple):
    """An encoding with fixed knots to fit in a fold."""

    encoding: Encoding
    fold: int
    bins: str = "cart"  # where the method is PLE


@dataclass(frozen=True, eq=False)
class Fitted:
    """The encoding of every numerical column.

    Parameters
    ----------
    blocks : list of Block
        One for each column.
    seconds : float
        What fitting it took, trees that other encodings share included.
    """

    blocks: list[Block]
    seconds: float


@final
class _SharedTrees:
    """A placement whose trees are grown once for one column, whatever the number of knots."""

    supervised = True

    def __init__(self, placement: TreePlacement) -> None:
        self.placement = placement
        self.found: tuple[FloatArray, FloatArray] | None = None
        self.seconds = 0.0

    def __call__(self, column: Column, n_knots: int, target: Target | None = None, seed: int = 0) -> FloatArray:
        """Return `n_knots` knots."""
        if self.found is None:
            started = time.perf_counter()
            self.found = self.placement.thresholds(column, target, seed)
            self.seconds = time.perf_counter() - started
        chosen = select_spaced(*self.found, column, n_knots, self.placement.min_spacing)
        return complete(chosen, column, n_knots)


def wanted_by(network: NetworkSpec, bins: str = "cart") -> Wanted:
    """Return the encoding that a network starts from.

    Parameters
    ----------
    network : NetworkSpec
        The network.
    bins : str
        How its plan places the bins of PLE.
    """
    own = bins if network.encoding.kind.has_bins else "cart"
    return Wanted(network.encoding.start, network.fold, own)


def prepare(
    data: StudyData, splits: list[Split], wanted: Iterable[Wanted], *, folder: Path, n_jobs: int | None = None
) -> dict[Wanted, Fitted | str]:
    """Return the fitted encodings of a data set; what is not in the folder yet is fitted and kept there.

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
    n_jobs : int, optional
        Processes; by default all cores, and none but this one where there is little to do.

    Returns
    -------
    dict of Wanted to Fitted or str
        Where fitting raised an error, its traceback.
    """
    wanted = list(wanted)
    by_fold = {split.fold: split for split in splits}
    contents = {fold: _content(data, by_fold[fold]) for fold in {each.fold for each in wanted}}
    paths = {each: folder / f"{_name(contents[each.fold], each)}.json" for each in wanted}
    out: dict[Wanted, Fitted | str] = {}
    for each, path in paths.items():
        found = _read(path, len(data.identity.numerical))
        if found is not None:
            out[each] = found
    missing = [each for each in paths if each not in out]
    for each, fitted in _fit_all(data, by_fold, missing, n_jobs).items():
        out[each] = fitted
        if isinstance(fitted, Fitted):
            write_bytes(paths[each], _written(fitted))
    return out


def _content(data: StudyData, split: Split) -> str:
    """Return a checksum of all that fitting looks at."""
    digest = hashlib.sha256(f"{PREPARED_VERSION} {data.task} {split.seed} {len(split.train)}".encode())
    digest.update(np.ascontiguousarray(data.numbers[split.train]).tobytes())
    digest.update(np.ascontiguousarray(data.target[split.train]).tobytes())
    return digest.hexdigest()


def _name(content: str, wanted: Wanted) -> str:
    encoding = wanted.encoding
    placement = wanted.bins if encoding.kind.has_bins else encoding.kind.placement
    key = None if placement is None else placement_traits(placement).key
    text = json.dumps([content, encoding.method, encoding.size, repr(encoding.kind), placement, key])
    return f"{encoding.method}-{encoding.size}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _fit_all(
    data: StudyData, splits: dict[int, Split], missing: list[Wanted], n_jobs: int | None
) -> dict[Wanted, Fitted | str]:
    """Fit encodings column by column, so that trees are grown once for all methods and sizes."""
    folds = sorted({each.fold for each in missing})
    encodings = {fold: [each for each in missing if each.fold == fold] for fold in folds}
    n_columns = data.numbers.shape[1]
    cells = sum(len(splits[fold].train) for fold in folds) * n_columns
    jobs = 1 if cells < LEAST_CELLS and n_jobs is None else count_threads(n_jobs)
    targets = {fold: data.target[splits[fold].train] for fold in folds}
    results = Parallel(n_jobs=jobs)(
        delayed(_fit_column)(
            data.numbers[splits[fold].train, index],
            targets[fold],
            data.task,
            encodings[fold],
            seed=splits[fold].seed + index,
        )
        for fold in folds
        for index in range(n_columns)
    )
    columns = {fold: results[place * n_columns : (place + 1) * n_columns] for place, fold in enumerate(folds)}
    return {each: _joined([column[each] for column in columns[each.fold]]) for each in missing}


def _joined(parts: list["tuple[Block, float] | str"]) -> Fitted | str:
    """Put columns together; one that failed fails them all."""
    blocks, seconds = [], 0.0
    for part in parts:
        if isinstance(part, str):
            return part
        blocks.append(part[0])
        seconds += part[1]
    return Fitted(blocks, seconds)


def _fit_column(
    values: npt.NDArray[np.float64],
    target: npt.NDArray[Any],
    task: str,
    encodings: list[Wanted],
    *,
    seed: int,
) -> dict[Wanted, "tuple[Block, float] | str"]:
    """Fit the encodings of one column; for each the block and its seconds, or a traceback."""
    goal = Target.from_values(target, task)
    column = Column.from_values(np.ascontiguousarray(values))
    trees = {name: _SharedTrees(each) for name, each in PLACEMENTS.items() if isinstance(each, TreePlacement)}
    out: dict[Wanted, tuple[Block, float] | str] = {}
    for wanted in encodings:
        started = time.perf_counter()
        try:
            encoder, shared = _encoder(wanted, trees)
            before = shared.seconds if shared is not None and shared.found is not None else 0.0
            block = encoder.fit_column(column, goal, seed=seed)
            out[wanted] = block, time.perf_counter() - started + before
        except Exception:  # whatever it is, it becomes a failure record
            out[wanted] = traceback.format_exc()
    return out


def _encoder(wanted: Wanted, trees: dict[str, _SharedTrees]) -> tuple[Encoder, _SharedTrees | None]:
    """Return the encoder of a method, and the trees it shares with others."""
    method = wanted.encoding.kind
    shared = None if method.has_bins else trees.get(method.placement or "")
    options = {} if wanted.bins == "cart" else {"placement": wanted.bins}
    encoder = wanted.encoding.encoder(**options)
    if shared is not None:
        encoder.set_params(placement=shared)
    encoder.check_settings()
    return encoder, shared


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
