"""Saving a fitted estimator to one file, and loading it: tensors and JSON, nothing that can be run."""

import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

import knotwork
from knotwork._checks import argument_error, check_bool, check_choice, check_int, type_error
from knotwork._files import write_atomically
from knotwork._preparation.columns import Columns
from knotwork._preparation.targets import Labels
from knotwork.errors import PersistenceError
from knotwork.estimators._estimators import TabularClassifier, TabularEstimator, TabularRegressor
from knotwork.estimators._saved_choices import (
    candidates_from_json,
    candidates_to_json,
    encodings_from_json,
    upgraded,
    weights_from_json,
)
from knotwork.estimators._saved_networks import (
    NetworkShape,
    TensorFile,
    piece_from_json,
    piece_tensors,
    piece_to_json,
    read_tensor,
)
from knotwork.estimators._saved_settings import (
    Room,
    backbone_from_json,
    backbone_to_json,
    check_entries,
    check_list,
    config_from_json,
    parameters_from_json,
    parameters_to_json,
)
from knotwork.training._engine import resolve_device
from knotwork.training._network import CATEGORIES
from knotwork.training._results import History, Piece, Trained

__all__ = ["load", "save"]

SCHEMA = 2
"""Schema 1 had one encoding for all members, under ``"choices"``; it is read as well."""

KEY = "knotwork"
"""Where the JSON stands in the metadata of the file."""

ENTRIES = (
    "schema",
    "version",
    "class",
    "parameters",
    "columns",
    "labels",
    "encodings",
    "weights",
    "candidates",
    "indicated",
    "task",
    "backbone",
    "config",
    "categories",
    "pieces",
    "histories",
    "interrupted",
    "has_importances",
    "checksum",
)
CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (TabularRegressor, TabularClassifier)}
LONGEST_JSON = 90_000_000
"""Readers of the format refuse headers of more than 100 MB."""


def save(estimator: TabularEstimator, path: str | Path) -> None:
    """Write a fitted estimator to one file; what was there before is replaced at once, or not at all.

    The file has the safetensors format: tensors, and one JSON text of everything else. The rows of the table are not
    in it, the categories of its columns are. The device is not kept, nor a random state that is no integer.

    Parameters
    ----------
    estimator : TabularRegressor or TabularClassifier
        A fitted estimator.
    path : str or Path
        The file.
    """
    if type(estimator) not in CLASSES.values():
        raise type_error("estimator", "be a TabularRegressor or a TabularClassifier", estimator)
    tensors = _tensors(estimator)
    content = _content(estimator, tensors)
    text = json.dumps(content, allow_nan=False)
    if len(text) > LONGEST_JSON:
        raise PersistenceError(
            f"The estimator cannot be saved: its columns have too many categories, {len(text) / 1e6:.0f} MB of text. "
            "Leave out columns that are identifiers."
        )
    file_content = to_bytes(tensors, {KEY: text})
    write_atomically(path, lambda file: file.write(file_content))


def load(path: str | Path, *, device: Any = "auto") -> Any:
    """Return the estimator that `save` wrote.

    Nothing in the file is run, and everything is checked before it is used: a file that is damaged, cut short or made
    to do harm is an error. The estimator predicts as before, on the same kind of device bit for bit.

    Parameters
    ----------
    path : str or Path
        The file.
    device : str or torch.device, default="auto"
        Where to predict, whatever it was trained on; by default on a GPU if there is one.

    Returns
    -------
    TabularRegressor or TabularClassifier
        The fitted estimator, which can be used, saved and fitted like any other.

    Raises
    ------
    PersistenceError
        If the file is not one of knotwork, is damaged, or was made by a newer version; a ValueError.
    FileNotFoundError
        If there is no such file.
    """
    there = resolve_device(device)
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Give the path that was given to save.")
    if not path.is_file():
        raise PersistenceError(f"{str(path)!r} is not a file. Give the path that was given to save.")
    try:
        with safe_open(path, framework="pt") as file:
            content = _read_json(path, file.metadata())
            estimator = _estimator(path, content, file)
    except SafetensorError as error:
        raise PersistenceError(
            f"{str(path)!r} is not a file of knotwork, or was damaged or cut short: {error}. "
            "Save the estimator again, or copy the file again."
        ) from error
    estimator.device = device
    estimator.trained_ = Trained(
        [_moved(piece, there) for piece in estimator.trained_.pieces],
        estimator.trained_.histories,
        estimator.trained_.units,
        estimator.trained_.task,
        estimator.trained_.interrupted,
    )
    return estimator


def _moved(piece: Piece, device: torch.device) -> Piece:
    return Piece(piece.network.to(device), piece.places, piece.shift.to(device), piece.scale.to(device))


def _tensors(estimator: TabularEstimator) -> dict[str, Tensor]:
    """Return all tensors of the file by their names."""
    trained = estimator.trained_
    tensors = {"units": torch.from_numpy(np.ascontiguousarray(trained.units, dtype=np.float64))}
    for place, piece in enumerate(trained.pieces):
        tensors |= piece_tensors(piece, f"piece{place}")
    for place, history in enumerate(trained.histories):
        rows = np.array([history.loss, history.score, history.learning_rate], dtype=np.float64)
        tensors[f"member{place}.history"] = torch.from_numpy(rows)
    if hasattr(estimator, "_importances") or hasattr(estimator, "_held"):
        tensors["importances"] = torch.from_numpy(np.array(estimator.feature_importances_, dtype=np.float64))
    return tensors


def _content(estimator: TabularEstimator, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return everything but the tensors."""
    trained = estimator.trained_
    labels = estimator.labels_.to_json() if isinstance(estimator, TabularClassifier) else None
    return {
        "schema": SCHEMA,
        "version": knotwork.__version__,
        "class": type(estimator).__name__,
        "parameters": parameters_to_json(estimator.get_params(deep=False)),
        "columns": estimator.columns_.to_json(),
        "labels": labels,
        "encodings": [[*own.values()] for own in estimator.encoding_],
        "weights": [float(weight) for weight in estimator.weights_],
        "candidates": candidates_to_json(estimator.candidates_),
        "indicated": [int(index) for index in estimator.indicated_],
        "task": trained.task,
        "backbone": backbone_to_json(estimator.backbone_),
        "config": parameters_to_json({"training": estimator.config_})["training"],
        "categories": CATEGORIES[int(trained.pieces[0].network.by_code)],
        "pieces": [piece_to_json(piece) for piece in trained.pieces],
        "histories": [
            {"best_epoch": int(history.best_epoch), "seconds": float(history.seconds)} for history in trained.histories
        ],
        "interrupted": bool(trained.interrupted),
        "has_importances": "importances" in tensors,
        "checksum": _checksum(tensors),
    }


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    """Return a number that differs if a bit of the tensors does; it guards against accidents only."""
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(tensors[name].contiguous().view(-1).numpy().tobytes(), zlib.crc32(name.encode(), total))
    return total


def _read_json(path: Path, metadata: Any) -> dict[str, Any]:
    """Return the JSON of a file of this schema."""
    if not isinstance(metadata, dict) or KEY not in metadata:
        raise PersistenceError(
            f"{str(path)!r} holds tensors, but no estimator of knotwork. Load a file that estimator.save has written."
        )
    try:
        content = json.loads(metadata[KEY], parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(content, dict) or type(content.get("schema")) is not int or content["schema"] < 1:
        raise _damaged(path, "it does not say which schema it has")
    if content["schema"] > SCHEMA:
        version = str(content.get("version"))[:40]
        raise PersistenceError(
            f"{str(path)!r} was made by knotwork {version} with schema {content['schema']}; this is knotwork "
            f"{knotwork.__version__}, which reads schemas up to {SCHEMA}. Update knotwork."
        )
    return content


def _damaged(path: Path, reason: object) -> PersistenceError:
    return PersistenceError(
        f"{str(path)!r} is damaged or was not written by knotwork: {str(reason)[:400]} "
        "Save the estimator again, or copy the file again."
    )


def _refuse_constant(text: str) -> NoReturn:
    raise argument_error("numbers", "be finite", text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise argument_error("numbers", "be finite", text[:40])
    return number


def _estimator(path: Path, content: dict[str, Any], file: TensorFile) -> Any:
    """Return the estimator; whatever is wrong with the content is one kind of error."""
    try:
        return _checked_estimator(content, file)
    except SafetensorError:
        raise
    except (ValueError, TypeError, OverflowError, RuntimeError, MemoryError) as error:
        raise _damaged(path, error) from error


def _checked_estimator(content: dict[str, Any], file: TensorFile) -> Any:
    if content["schema"] == 1:
        content = upgraded(content)
    check_entries(content, "content", ENTRIES)
    names = file.keys()
    room = Room(len(names), sum(math.prod(file.get_slice(name).get_shape()) for name in names))
    kind = CLASSES[check_choice(content["class"], "class", CLASSES)]
    parameters = parameters_from_json(content["parameters"], kind._get_param_names(), room)
    estimator = kind(**parameters)
    columns = Columns.from_json(content["columns"])
    estimator.columns_ = columns
    if kind is TabularClassifier:
        estimator.labels_ = Labels.from_json(content["labels"])
    elif content["labels"] is not None:
        raise argument_error("labels", "be None for a regressor", content["labels"])
    check_choice(content["task"], "task", (estimator._task,))
    n_numerical = columns.roles.count("numerical")
    estimator.indicated_ = _indicated(content["indicated"], n_numerical)
    estimator.config_ = config_from_json(content["config"])
    estimator.config_.metric_for(estimator._task)
    estimator.backbone_ = backbone_from_json(content["backbone"], room)
    shape = NetworkShape(
        estimator.backbone_,
        n_numerical,
        (*columns.cardinalities, *[3] * len(estimator.indicated_)),
        check_choice(content["categories"], "categories", CATEGORIES),
        1 if estimator._task == "regression" else max(estimator._n_classes, 2),
    )
    estimator.trained_ = _trained(content, file, shape, task=estimator._task, room=room)
    estimator._set_names(columns)
    n_members = len(estimator.trained_.histories)
    estimator.encoding_ = encodings_from_json(content["encodings"], estimator.columns_.numerical_names, n_members)
    estimator.weights_ = weights_from_json(content["weights"], n_members)
    estimator.candidates_ = candidates_from_json(content["candidates"])
    if check_bool(content["has_importances"], "has_importances"):
        importances = read_tensor(file, "importances", (len(columns.roles),), torch.float64)
        estimator._importances = importances.numpy()
    return estimator


def _indicated(content: Any, n_numerical: int) -> list[int]:
    indicated = [check_int(index, "indicated", minimum=0) for index in check_list(content, "indicated")]
    if sorted(set(indicated)) != indicated or (indicated and indicated[-1] >= n_numerical):
        raise argument_error("indicated", f"increase, below {n_numerical}", indicated)
    return indicated


def _trained(content: dict[str, Any], file: TensorFile, shape: NetworkShape, *, task: str, room: Room) -> Trained:
    pieces = [
        piece_from_json(piece, file, f"piece{place}", shape=shape, room=room)
        for place, piece in enumerate(check_list(content["pieces"], "pieces"))
    ]
    histories = [
        _history(history, read_tensor(file, f"member{place}.history", (3, None), torch.float64))
        for place, history in enumerate(check_list(content["histories"], "histories"))
    ]
    places = sorted(place for piece in pieces for place in piece.places)
    if not places or places != list(range(len(histories))):
        raise argument_error("places", f"name each of {len(histories)} members once", places)
    units = read_tensor(file, "units", (2, shape.n_numerical), torch.float64).numpy()
    if (units[1] <= 0.0).any():
        raise argument_error("units", "be larger than 0", float(units[1].min()))
    _check_all(content, file, len(pieces), len(histories))
    return Trained(pieces, histories, units, task, check_bool(content["interrupted"], "interrupted"))


def _history(content: Any, rows: Tensor) -> History:
    check_entries(content, "history", ("best_epoch", "seconds"))
    best, seconds = check_int(content["best_epoch"], "best_epoch", minimum=-1), content["seconds"]
    if best >= rows.shape[1]:
        raise argument_error("best_epoch", f"be smaller than {rows.shape[1]}, the number of epochs", best)
    if type(seconds) not in (int, float) or seconds < 0:
        raise type_error("seconds", "be a number of at least 0", seconds)
    loss, score, rate = rows.numpy()
    return History(loss, score, rate, best, float(seconds))


def _check_all(content: dict[str, Any], file: TensorFile, n_pieces: int, n_members: int) -> None:
    """Check that the file holds no other tensors, and that none was changed by accident."""
    prefixes = [f"piece{place}." for place in range(n_pieces)]
    others = {"units", *(f"member{place}.history" for place in range(n_members))}
    others |= {"importances"} if content["has_importances"] else set()
    ends = {f"{prefix}{name}" for prefix in prefixes for name in ("shift", "scale")}
    networks = tuple(f"{prefix}network." for prefix in prefixes)
    odd = [name for name in file.keys() if name not in others | ends and not name.startswith(networks)]  # noqa: SIM118
    if odd:
        raise argument_error("tensors", "be those of the estimator", sorted(odd)[:5])
    if _checksum({name: file.get_tensor(name) for name in file.keys()}) != content["checksum"]:  # noqa: SIM118
        raise argument_error("checksum", "agree with the tensors", content["checksum"])
