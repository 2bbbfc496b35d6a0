"""Saving a fitted estimator to one file, and loading it: tensors and JSON, no code.

Every value of a file is checked before it is used. The sizes that it declares are compared with the size of the file
itself (`Capacity`), so that a file that declares huge networks is refused before it takes memory.
"""

import math
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from numbers import Integral, Number
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import save as to_bytes
from torch import Tensor

import knotwork
from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, type_error
from knotwork._model_files import damaged, open_model_file, write_model_file
from knotwork._preparation.columns import Columns
from knotwork._preparation.members import N_FLAGS
from knotwork._preparation.targets import Labels
from knotwork._preparation.validation import check_validation
from knotwork.encoders import METHOD_TABLE, Encoding
from knotwork.errors import PersistenceError
from knotwork.estimators._base import TabularEstimator
from knotwork.estimators._combination import Residuals
from knotwork.estimators._configs import ColumnConfig, ValidationConfig
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._model import FittedModel
from knotwork.estimators._saved_networks import (
    MOST_LAYERS,
    MOST_TENSORS,
    Capacity,
    NetworkShape,
    TensorFile,
    backbone_from_json,
    backbone_to_json,
    check_entries,
    check_list,
    interactions_from_json,
    interactions_to_json,
    piece_from_json,
    piece_tensors,
    piece_to_json,
    read_tensor,
)
from knotwork.estimators._tasks import Calibration, Classification, Regression, Task
from knotwork.nn import BACKBONES
from knotwork.training import (
    CATEGORIES,
    METRICS,
    History,
    Objective,
    Trained,
    TrainingConfig,
    objective_from_json,
    resolve_device,
)

__all__ = ["load", "save"]

CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (TabularRegressor, TabularClassifier)}
"""The estimators that files have, by name."""

UNSAVED = ("device",)
"""Parameters that are not in a file."""

ENTRIES = (
    "schema", "version", "class", "parameters", "columns", "labels", "encodings", "weights", "candidates", "score",
    "feature_choices", "indicated", "task", "target_name", "objective", "n_targets", "residuals", "temperature",
    "calibration", "config", "categories", "pieces", "histories", "interrupted", "has_importances", "checksum",
)  # fmt: skip
CANDIDATE = ("method", "size", "backbone", "score", "metric", "seconds", "weight")
"""The entries of a candidate."""

GROUP = ("probability", "frequency", "rows")
"""The entries of a group of rows in `TabularClassifier.calibration_`."""

MOST_SPECS = 10_000
MOST_PIECES = 250
"""Largest numbers of different encodings and of stacks of networks in a file."""

MOST_SHUFFLED = 500
"""Columns up to which importances are computed for the file: the time grows with the square of their number."""

SCALARS = (bool, int, float, str)


def save(estimator: TabularEstimator, path: str | Path) -> None:
    """Write a fitted estimator to one file; an existing file is replaced only when the new one is complete.

    The file has the safetensors format: tensors, and one JSON text with everything else. It does not contain the rows
    of the table, but it contains the categories of its columns. The device is not saved, nor are a random state that is
    not an integer and a splitter. Importances of more than 500 columns are saved only if `feature_importances_` was
    used before.

    Parameters
    ----------
    estimator : TabularRegressor or TabularClassifier
        A fitted estimator.
    path : str or Path
        The file.
    """
    if type(estimator) not in CLASSES.values():
        raise type_error("estimator", "be a TabularRegressor or a TabularClassifier", estimator)
    model = estimator._model
    tensors = _tensors(model)
    content = _content(estimator, tensors)
    _check_layers(content["pieces"])
    if len(tensors) > MOST_TENSORS or len(estimator.trained_.pieces) > MOST_PIECES:
        raise PersistenceError(
            f"The estimator cannot be saved: it has {len(tensors):,} tensors in {len(estimator.trained_.pieces):,} "
            f"stacks, and a file at most {MOST_TENSORS:,} in {MOST_PIECES:,}. Fit again with fewer members or layers."
        )
    n_bytes = sum(tensor.nbytes for tensor in tensors.values())
    write_model_file(path, content, partial(to_bytes, tensors), n_bytes=n_bytes)


def load(path: str | Path, *, device: Any = "auto") -> Any:
    """Return the estimator that `save` wrote.

    No code in the file is run, and everything is checked before it is used: a file that is damaged, truncated or
    malicious raises an error. The estimator predicts as before, on the same kind of device bit for bit.

    Parameters
    ----------
    path : str or Path
        The file.
    device : str or torch.device, default="auto"
        Device for predictions, whichever device the estimator was trained on; by default a GPU if one is available.

    Returns
    -------
    TabularRegressor, TabularClassifier, AdditiveRegressor or AdditiveClassifier
        The fitted estimator, which can be used, saved and fitted like any other.

    Raises
    ------
    PersistenceError
        If the file was not written by knotwork, is damaged, or was written by another version; a ValueError.
    FileNotFoundError
        If the file does not exist.
    """
    torch_device = resolve_device(device)
    with open_model_file(path, "pt") as (content, file):
        if content.get("class") not in list(CLASSES):  # it may be anything, also without a hash
            from knotwork import additive  # noqa: PLC0415 - networks do not wait for it

            if content.get("class") in list(additive.SAVED_CLASSES):
                return additive.load(path)
        estimator = _estimator(path, content, file)
    pieces = [
        replace(piece, **{name: getattr(piece, name).to(torch_device) for name in ("network", "shift", "scale")})
        for piece in estimator.trained_.pieces
    ]
    model = estimator._model
    estimator.device, estimator._model = device, replace(model, trained=replace(model.trained, pieces=pieces))
    return estimator


def _check_layers(pieces: list[dict[str, Any]]) -> None:
    """Raise an error for a network of more layers than can be loaded."""
    for piece in pieces:
        try:
            backbone_from_json(piece["backbone"], Capacity(MOST_LAYERS, sys.maxsize))
        except ValueError as error:
            raise PersistenceError(f"The estimator cannot be saved: {error} Fit again with fewer layers.") from error


def _tensors(model: FittedModel) -> dict[str, Tensor]:
    """Return all tensors of the file by name."""
    trained = model.trained
    tensors = {"units": torch.from_numpy(np.ascontiguousarray(trained.units, dtype=np.float64))}
    for place, piece in enumerate(trained.pieces):
        tensors |= piece_tensors(piece, f"piece{place}")
    for place, history in enumerate(trained.histories):
        rows = np.array([history.loss, history.score, history.learning_rate], dtype=np.float64)
        tensors[f"member{place}.history"] = torch.from_numpy(rows)
    if model.calibration.residuals is not None:
        tensors["residuals"] = torch.from_numpy(np.ascontiguousarray(model.calibration.residuals.values))
    if model.can_tell_importances(MOST_SHUFFLED):
        tensors["importances"] = torch.from_numpy(np.array(model.importances, dtype=np.float64))
    return tensors


def _content(estimator: TabularEstimator, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return everything but the tensors, in types of JSON."""
    trained = estimator.trained_
    return {
        "version": knotwork.__version__,
        "class": type(estimator).__name__,
        "parameters": {
            name: WRITERS.get(name, _write_plain)(value, name)
            for name, value in estimator.get_params(deep=False).items()
            if name not in UNSAVED
        },
        "columns": estimator.columns_.to_json(),
        "target_name": estimator.target_name_,
        "labels": estimator.labels_.to_json() if isinstance(estimator, TabularClassifier) else None,
        "encodings": [[*encodings.values()] for encodings in estimator.encoding_],
        "weights": [float(weight) for weight in estimator.weights_],
        "candidates": [
            # JSON has no NaN.
            {**candidate, "score": None if np.isnan(candidate["score"]) else candidate["score"]}
            for candidate in estimator.candidates_
        ],
        "score": float(estimator.validation_score_) if np.isfinite(estimator.validation_score_) else None,
        "feature_choices": [
            {name: value for name, value in choice.items() if name != "column"}
            for choice in estimator.encoding_choices_
        ],
        "indicated": [int(index) for index in estimator._model.indicated],
        "task": trained.objective.task,
        "objective": trained.objective.to_json(),
        **_calibration_content(estimator._model),
        "config": _write_training(estimator._model.config, "training"),
        "categories": trained.pieces[0].network.categories,
        "pieces": [piece_to_json(piece) for piece in trained.pieces],
        "histories": [
            {"best_epoch": int(history.best_epoch), "seconds": float(history.seconds)} for history in trained.histories
        ],
        "interrupted": bool(trained.interrupted),
        "has_importances": "importances" in tensors,
        "checksum": _checksum(tensors),
    }


def _calibration_content(model: FittedModel) -> dict[str, Any]:
    """Return what was learned from rows that were held out, without tensors, and the number of targets."""
    if not isinstance(model.task, Classification):
        kept = model.calibration.residuals
        residuals = None if kept is None else {"ends": [*kept.ends], "floor": kept.floor.tolist()}
        return {"n_targets": model.n_targets, "residuals": residuals, "temperature": None, "calibration": None}
    learned = {"temperature": model.calibration.temperature, "calibration": list(model.calibration.groups)}
    return {"n_targets": None, "residuals": None, **learned}


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    """Return a checksum of all tensors; it protects against accidents, not against attacks."""
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(_as_bytes(tensors[name]), zlib.crc32(name.encode(), total))
    return total


def _as_bytes(tensor: Tensor) -> npt.NDArray[np.uint8]:
    """Return the bytes of a tensor, which is not copied."""
    flat: npt.NDArray[Any] = tensor.contiguous().view(-1).numpy()
    return flat.view(np.uint8)


def _refuse(name: str, value: Any) -> PersistenceError:
    return PersistenceError(
        f"{name}={value!r} cannot be saved. Set it to a plain value with set_params, then save again."
    )


def _write_plain(value: Any, name: str) -> Any:
    """Return None or a scalar, those of NumPy as one of Python."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is not None and type(value) not in SCALARS:
        raise _refuse(name, value)
    return value


def _write_nested(value: Any, name: str) -> Any:
    return [_write_nested(item, name) for item in value] if isinstance(value, tuple) else _write_plain(value, name)


def _write_training(value: Any, name: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, TrainingConfig):
        raise _refuse(name, value)
    return {field: _write_nested(setting, field) for field, setting in asdict(value).items()}


def _write_backbone(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value
    if type(value) not in BACKBONES.values():
        raise _refuse(name, value)
    return backbone_to_json(value)


def _write_objective(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value
    if not isinstance(value, Objective):
        raise PersistenceError(
            f"{name}={value!r} cannot be saved, because model files contain no code. Use pickle, or fit with a named "
            "objective."
        )
    return value.to_json()


def _write_encoding(value: Any, name: str) -> Any:
    """Return a method, a list of them, or a mapping as a list of pairs: keys in JSON can only be text."""
    if isinstance(value, Mapping):
        return [[_write_plain(key, name), _write_plain(item, name)] for key, item in value.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {"methods": [_write_plain(each, name) for each in value]}
    return _write_plain(value, name)


def _write_columns(value: ColumnConfig | None, name: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, ColumnConfig):
        raise _refuse(name, value)
    labels = None if value.categorical is None else [_write_plain(each, "categorical") for each in value.categorical]
    return {**asdict(value), "categorical": labels}


def _write_validation(value: Any, name: str) -> Any:
    """Return which rows are held out; splitters and rows are not saved."""
    if isinstance(value, ValidationConfig):
        return {"rows": _write_validation(value.rows, name), "share": float(value.share), "refit": value.refit}
    return _write_plain(value, name) if isinstance(value, str | Number) else None


WRITERS: dict[str, Callable[[Any, str], Any]] = {
    "objective": _write_objective,
    "encoding": _write_encoding,
    "columns": _write_columns,
    "training": _write_training,
    "interactions": interactions_to_json,
    "backbone": _write_backbone,
    "random_state": lambda value, _: int(value) if isinstance(value, Integral) else None,
    "validation": _write_validation,
}
"""Parameters of the estimators that are not written as plain values."""


def _estimator(path: str | Path, content: dict[str, Any], file: Any) -> Any:
    """Return the estimator; everything wrong with the content raises one kind of error."""
    try:
        return _checked_estimator(content, TensorFile(file))
    except SafetensorError:
        raise
    except (ValueError, TypeError, OverflowError, RuntimeError, MemoryError) as error:
        raise damaged(path, error) from error


def _checked_estimator(content: dict[str, Any], file: TensorFile) -> Any:
    check_entries(content, "content", ENTRIES)
    kind = CLASSES[check_choice(content["class"], "class", CLASSES)]
    estimator = kind(**_parameters(content["parameters"], kind._get_param_names(), file.capacity))
    columns, task = Columns.from_json(content["columns"]), check_choice(content["task"], "task", (kind._task,))
    objective = _read_objective(content["objective"], task)
    goal: Task
    if task == Classification.name:
        goal = Classification(objective, Labels.from_json(content["labels"]))
    elif content["labels"] is None:
        goal = Regression(objective)
    else:
        raise argument_error("labels", "be None for a regressor", content["labels"])
    names, config = columns.numerical_names, _config(content["config"])
    indicated = _indicated(content["indicated"], len(names))
    config.metric_for(objective)
    n_targets = _integer(content["n_targets"], "n_targets", minimum=2)
    shape = NetworkShape(
        len(names),
        (*columns.cardinalities, *[N_FLAGS] * len(indicated)),
        check_choice(content["categories"], "categories", CATEGORIES),
        task,
        max(goal.n_classes, 2) if isinstance(goal, Classification) else (n_targets or 1) * objective.n_outputs,
        n_targets,
    )
    trained = _trained(content, file, shape, objective=objective)
    for piece in trained.pieces:
        piece.network.reproducible = config.reproducible
    n_members, score, name = len(trained.histories), content["score"], content["target_name"]
    importances = None
    if check_bool(content["has_importances"], "has_importances"):
        importances = read_tensor(file, "importances", (len(columns),), torch.float64).numpy()
    metric = objective.metric.name
    estimator._model = FittedModel(
        task=goal,
        columns=columns,
        indicated=tuple(indicated),
        trained=trained,
        weights=_weights(content["weights"], n_members),
        encodings=_encodings(content["encodings"], names, n_members),
        config=config,
        calibration=_calibration(content, file, goal, n_targets or 1),
        candidates=[_candidate(each, metric) for each in check_list(content["candidates"], "candidates")],
        choices=_choices(content["feature_choices"], names),
        score=np.nan if score is None else _number(score, "score"),
        target_name=None if name is None else _text(name, "target_name"),
        known_importances=importances,
    )
    return estimator


def _calibration(content: dict[str, Any], file: TensorFile, task: Task, n_targets: int) -> Calibration:
    """Return what was learned from rows that were held out."""
    residuals = content["residuals"]
    if not isinstance(task, Classification):
        return Calibration(None if residuals is None else _residuals(residuals, file, n_targets))
    if residuals is not None:
        raise argument_error("residuals", "be None for a classifier", type(residuals).__name__)
    groups = tuple(_group(group) for group in check_list(content["calibration"], "calibration"))
    return Calibration(temperature=_number(content["temperature"], "temperature", minimum=1e-3), groups=groups)


def _choices(content: Any, names: list[Any]) -> list[dict[str, Any]]:
    """Return the encodings that were chosen for each column; there are none if the user has named them."""
    if check_list(content, "feature_choices") and len(content) != len(names):
        raise argument_error("feature_choices", f"be empty, or one for each of {len(names)} columns", len(content))
    choices = []
    for column, choice in zip(names, content, strict=False):  # the list may be empty
        check_entries(choice, "choice", ("encoding", "losses", "reason"))
        encoding, reason = (_text(choice[name], name) for name in ("encoding", "reason"))
        if not isinstance(choice["losses"], dict):
            raise type_error("losses", "be a dict", choice["losses"])
        losses = {_text(name, "losses"): _number(loss, "losses") for name, loss in choice["losses"].items()}
        choices.append({"column": column, "encoding": encoding, "losses": losses, "reason": reason})
    return choices


def _group(content: Any) -> dict[str, Any]:
    check_entries(content, "calibration", GROUP)
    shares = {name: _number(content[name], name, minimum=0.0) for name in GROUP[:2]}
    return {**shares, "rows": check_int(content["rows"], "rows", minimum=1)}


def _residuals(content: Any, file: TensorFile, n_targets: int) -> Residuals:
    check_entries(content, "residuals", ("ends", "floor"))
    ends = [_number(end, "ends", minimum=0.0) for end in check_list(content["ends"], "ends")]
    floor = np.array([_number(each, "floor", minimum=0.0) for each in check_list(content["floor"], "floor")])
    values = read_tensor(file, "residuals", (n_targets, None), torch.float64).numpy()
    if len(ends) != 2 or not 0.0 < ends[0] <= ends[1] < 1.0 or len(floor) != n_targets or not values.shape[1]:
        raise argument_error("residuals", "have two ends between 0 and 1, and a floor for each target", ends)
    if (np.diff(values, axis=1) < 0.0).any():
        raise argument_error("residuals", "increase", values.shape)
    return Residuals(values, (ends[0], ends[1]), floor)


def _read_objective(content: Any, task: str) -> Objective:
    objective = objective_from_json(content)
    if objective.task != task:
        raise argument_error("objective", f"be one for {task}", objective.name)
    return objective


def _indicated(content: Any, n_numerical: int) -> list[int]:
    indicated = [check_int(index, "indicated", minimum=0) for index in check_list(content, "indicated")]
    if sorted(set(indicated)) != indicated or (indicated and indicated[-1] >= n_numerical):
        raise argument_error("indicated", f"increase and be smaller than {n_numerical}", indicated)
    return indicated


def _trained(content: dict[str, Any], file: TensorFile, shape: NetworkShape, *, objective: Objective) -> Trained:
    if len(check_list(content["pieces"], "pieces")) > MOST_PIECES:
        raise argument_error("pieces", f"be at most {MOST_PIECES}", len(content["pieces"]))
    pieces = [
        piece_from_json(piece, file, f"piece{place}", shape=shape) for place, piece in enumerate(content["pieces"])
    ]
    places = sorted(place for piece in pieces for place in piece.places)
    n_members = len(check_list(content["histories"], "histories"))
    if not places or places != list(range(n_members)):
        raise argument_error("places", f"name each of {n_members} members once", listed(places))
    histories = [
        _history(history, read_tensor(file, f"member{place}.history", (3, None), torch.float64))
        for place, history in enumerate(content["histories"])
    ]
    units = read_tensor(file, "units", (2, shape.n_numerical), torch.float64).numpy()
    if (units[1] <= 0.0).any():
        raise argument_error("units", "be larger than 0", float(units[1].min()))
    _check_all(content, file, len(pieces), len(histories))
    return Trained(pieces, histories, units, objective, check_bool(content["interrupted"], "interrupted"))


def _history(content: Any, rows: Tensor) -> History:
    check_entries(content, "history", ("best_epoch", "seconds"))
    best = check_int(content["best_epoch"], "best_epoch", minimum=0)
    if best > rows.shape[1]:
        raise argument_error("best_epoch", f"be at most {rows.shape[1]}, the number of epochs", best)
    loss, score, rate = rows.numpy()
    return History(loss, score, rate, best, _number(content["seconds"], "seconds", minimum=0.0))


def _check_all(content: dict[str, Any], file: TensorFile, n_pieces: int, n_members: int) -> None:
    """Check that the file holds no other tensors, and that none was changed by accident."""
    prefixes = [f"piece{place}." for place in range(n_pieces)]
    known = {"units", *(f"member{place}.history" for place in range(n_members))}
    known |= {f"{prefix}{name}" for prefix in prefixes for name in ("shift", "scale")}
    known |= {"importances"} if content["has_importances"] else set()
    known |= {"residuals"} if content["residuals"] is not None else set()
    networks = tuple(f"{prefix}network." for prefix in prefixes)  # compared when each piece is read
    unknown = [name for name in file.kinds if name not in known and not name.startswith(networks)]
    if unknown:
        raise argument_error("tensors", "be those of the estimator", sorted(unknown)[:5])
    if _checksum({name: file.mapped(name) for name in file.kinds}) != content["checksum"]:
        raise argument_error("checksum", "agree with the tensors", content["checksum"])


def _encodings(content: Any, names: list[Any], n_members: int) -> list[dict[Any, str]]:
    """Return the encoding of each numerical column for each member."""
    if len(check_list(content, "encodings")) != n_members:
        raise argument_error("encodings", f"have one entry for each of {n_members} members", len(content))
    for specs in content:
        if len(check_list(specs, "encodings")) != len(names):
            raise argument_error("encodings", f"have one entry for each of {len(names)} numerical columns", len(specs))
    different = {_text(spec, "encodings") for specs in content for spec in specs}
    if len(different) > MOST_SPECS:
        raise argument_error("encodings", f"have at most {MOST_SPECS} different entries", len(different))
    for spec in different:
        Encoding.parse(spec)
    return [dict(zip(names, specs, strict=True)) for specs in content]


def _weights(content: Any, n_members: int) -> npt.NDArray[np.float64]:
    if len(check_list(content, "weights")) != n_members:
        raise argument_error("weights", f"have one entry for each of {n_members} members", len(content))
    weights = np.array([_number(weight, "weights", minimum=0.0) for weight in content])
    if abs(weights.sum() - 1.0) > 1e-9:
        raise argument_error("weights", "add up to one", float(weights.sum()))
    return weights


def _candidate(content: Any, metric: str) -> dict[str, Any]:
    check_entries(content, "candidate", CANDIDATE)
    return {
        "method": None if content["method"] is None else check_choice(content["method"], "method", METHOD_TABLE),
        "size": _integer(content["size"], "size", minimum=1),
        "backbone": check_choice(content["backbone"], "backbone", BACKBONES),
        "score": np.nan if content["score"] is None else _number(content["score"], "score"),
        "metric": check_choice(content["metric"], "metric", (*METRICS, metric)),
        "seconds": _number(content["seconds"], "seconds", minimum=0.0),
        "weight": _number(content["weight"], "weight", minimum=0.0),
    }


def _parameters(content: Any, names: Any, capacity: Capacity) -> dict[str, Any]:
    """Return the parameters of an estimator without those that are not saved."""
    readers = READERS | {"backbone": partial(_read_backbone, capacity=capacity)}
    known = [name for name in names if name not in UNSAVED]
    content = check_entries(content, "parameters", known)
    return {name: readers[name](content[name], name) for name in known}


def _config(content: Any) -> TrainingConfig:
    known = [field.name for field in fields(TrainingConfig)]
    return TrainingConfig(**check_entries(content, "training", known))


def _number(value: Any, name: str, *, minimum: float = -math.inf) -> float:
    if type(value) not in (int, float) or value < minimum:
        raise type_error(name, "be a number" if minimum < 0 else f"be a number of at least {minimum:g}", value)
    return float(value)


def _integer(content: Any, name: str, *, minimum: int = 0) -> int | None:
    return None if content is None else check_int(content, name, minimum=minimum)


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise type_error(name, "be text", value)
    return value


def _read_backbone(content: Any, name: str, *, capacity: Capacity) -> Any:
    if isinstance(content, str):
        return check_choice(content, name, ("auto", *BACKBONES))
    return backbone_from_json(content, capacity)


def _read_encoding(content: Any, name: str) -> Any:
    """Return a method, a list of them, or a dict with that of each column."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        check_entries(content, name, ("methods",))
        return [_text(method, name) for method in check_list(content["methods"], name)]
    methods = {}
    for pair in check_list(content, name):
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in SCALARS:
            raise type_error(name, "be pairs of a column and a method", pair)
        methods[pair[0]] = _text(pair[1], name)
    return methods


def _read_columns(content: Any, name: str) -> ColumnConfig | None:
    if content is None:
        return None
    check_entries(content, name, [field.name for field in fields(ColumnConfig)])
    labels = content["categorical"]
    if labels is not None and any(type(label) not in (int, str) for label in check_list(labels, "categorical")):
        raise type_error("categorical", "hold names or places of columns", labels)
    return ColumnConfig(**content)


def _read_validation(content: Any, name: str) -> Any:
    """Return which rows are held out, by a word or a number."""
    if isinstance(content, dict):
        check_entries(content, name, [field.name for field in fields(ValidationConfig)])
        return ValidationConfig(**{**content, "rows": _read_validation(content["rows"], name)})
    if content is not None and type(content) not in SCALARS:
        raise type_error(name, "be a word or a number", content)
    return check_validation(content)


READERS: dict[str, Callable[[Any, str], Any]] = {
    "encoding": _read_encoding,
    "effort": _text,
    "time_limit": lambda content, name: None if content is None else _number(content, name, minimum=0.0),
    "search": lambda content, name: None if content is None else _text(content, name),
    "n_members": _integer,
    "interactions": interactions_from_json,
    "columns": _read_columns,
    "validation": _read_validation,
    "objective": lambda content, _: content if isinstance(content, str) else objective_from_json(content),
    "training": lambda content, _: None if content is None else _config(content),
    "warm_start": check_bool,
    "random_state": _integer,
}
"""Every parameter of the estimators but the backbone, which is compared with the capacity of the file."""
