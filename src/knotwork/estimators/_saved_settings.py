"""Settings of an estimator as JSON, and back: nothing but plain values, each checked before it is used."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, type_error
from knotwork.errors import PersistenceError
from knotwork.nn._backbones import BACKBONES, Backbone
from knotwork.training._config import TrainingConfig

__all__ = [
    "Room",
    "backbone_from_json",
    "backbone_to_json",
    "check_entries",
    "check_list",
    "config_from_json",
    "parameters_from_json",
    "parameters_to_json",
]

Labels = (bool, int, float, str)
COUNTS = ("n_blocks",)
"""Settings of backbones that say how many tensors there are, not how large these are."""


class Room(NamedTuple):
    """What a file holds, which nothing that it declares may exceed.

    Parameters
    ----------
    n_tensors : int
        Number of tensors.
    n_elements : int
        Numbers in all of them.
    """

    n_tensors: int
    n_elements: int


def check_entries(content: Any, name: str, known: Any) -> dict[str, Any]:
    """Return a dict that has all the known entries and no other."""
    if not isinstance(content, dict):
        raise type_error(name, "be a dict", type(content).__name__)
    if set(content) != set(known):
        raise argument_error(name, f"have the entries {listed(known, most=40)}", listed(content))
    return content


def check_list(content: Any, name: str) -> list[Any]:
    """Return a list."""
    if not isinstance(content, list):
        raise type_error(name, "be a list", type(content).__name__)
    return content


def parameters_to_json(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return constructor parameters as what ``json.dumps`` takes.

    The device is left out, as is a random state that is no integer: None stands for it.
    """
    return {
        name: WRITERS.get(name, _write_plain)(value, name) for name, value in parameters.items() if name != "device"
    }


def parameters_from_json(content: Any, names: Any, room: Room) -> dict[str, Any]:
    """Return the constructor parameters that `parameters_to_json` wrote, without the device."""
    known = [name for name in names if name != "device"]
    check_entries(content, "parameters", known)
    return {name: READERS[name](content[name], name, room) for name in known}


def backbone_to_json(backbone: Backbone) -> dict[str, Any]:
    """Return the configuration of a backbone as what ``json.dumps`` takes."""
    settings = asdict(backbone)
    return {
        "name": backbone.name,
        "settings": {
            name: [*map(int, own)] if isinstance(own, tuple) else _plain(own) for name, own in settings.items()
        },
    }


def backbone_from_json(content: Any, room: Room) -> Any:
    """Return the configuration of a backbone, whose network is not larger than what the file holds."""
    check_entries(content, "backbone", ("name", "settings"))
    kind = BACKBONES[check_choice(content["name"], "backbone", BACKBONES)]
    defaults = {field.name: field.default for field in fields(kind)}
    settings = dict(check_entries(content["settings"], "settings", defaults))
    for name, default in defaults.items():
        value = settings[name]
        if isinstance(default, tuple):
            if len(check_list(value, name)) > room.n_tensors:
                raise argument_error(name, "have no more entries than the file has tensors", len(value))
            settings[name] = tuple(_check_count(each, name, room.n_elements) for each in value)
        elif isinstance(default, int):
            _check_count(value, name, room.n_tensors if name in COUNTS else room.n_elements)
        elif isinstance(default, float):
            _check_number(value, name)
        elif not isinstance(value, str):
            raise type_error(name, "be text", value)
    return kind(**settings)


def config_from_json(content: Any) -> TrainingConfig:
    """Return a configuration of training; it checks itself."""
    known = [field.name for field in fields(TrainingConfig)]
    return TrainingConfig(**check_entries(content, "training", known))


def _check_count(value: Any, name: str, most: int) -> int:
    if check_int(value, name, minimum=1) > most:
        raise argument_error(name, f"be at most {most}, for the file holds no more", value)
    return int(value)


def _check_number(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise type_error(name, "be a number", value)
    return float(value)


def _plain(value: Any) -> Any:
    """Return a scalar of NumPy as one of Python; others are as they are."""
    return value.item() if isinstance(value, np.generic) else value


def _refuse(name: str, value: Any) -> PersistenceError:
    return PersistenceError(
        f"{name}={value!r} cannot be saved. Set it to a plain value with set_params, then save again."
    )


def _write_plain(value: Any, name: str) -> Any:
    value = _plain(value)
    if value is not None and type(value) not in Labels:
        raise _refuse(name, value)
    return value


def _write_pairs(value: Any, name: str) -> Any:
    """Write a mapping as pairs, for JSON has no keys but text."""
    if not isinstance(value, Mapping):
        return _write_plain(value, name)
    return [[_write_plain(key, name), _write_plain(own, name)] for key, own in value.items()]


def _write_list(value: Any, name: str) -> Any:
    if value is None:
        return None
    return {"tuple": isinstance(value, tuple), "items": [_write_plain(each, name) for each in value]}


def _write_training(value: Any, name: str) -> Any:
    if value is None:
        return None
    if not isinstance(value, TrainingConfig):
        raise _refuse(name, value)
    return {key: _plain(own) for key, own in asdict(value).items()}


def _write_backbone(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value
    if type(value) not in BACKBONES.values():
        raise _refuse(name, value)
    return backbone_to_json(value)


def _write_seed(value: Any, name: str) -> int | None:
    del name
    return int(value) if isinstance(value, Integral) else None


WRITERS: dict[str, Callable[[Any, str], Any]] = {
    "encoding": _write_pairs,
    "class_weight": _write_pairs,
    "categorical": _write_list,
    "training": _write_training,
    "backbone": _write_backbone,
    "random_state": _write_seed,
}


def _read_pairs(content: Any, name: str, values: tuple[type, ...]) -> dict[Any, Any]:
    pairs = {}
    for pair in check_list(content, name):
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in Labels or type(pair[1]) not in values:
            raise type_error(name, "be pairs of a key and a value", pair)
        pairs[pair[0]] = pair[1]
    return pairs


def _read_encoding(content: Any, name: str, room: Room) -> Any:
    del room
    return content if isinstance(content, str) else _read_pairs(content, name, (str,))


def _read_class_weight(content: Any, name: str, room: Room) -> Any:
    del room
    return content if content is None or isinstance(content, str) else _read_pairs(content, name, (int, float))


def _read_backbone(content: Any, name: str, room: Room) -> Any:
    return check_choice(content, name, BACKBONES) if isinstance(content, str) else backbone_from_json(content, room)


def _read_training(content: Any, name: str, room: Room) -> Any:
    del name, room
    return None if content is None else config_from_json(content)


def _read_categorical(content: Any, name: str, room: Room) -> Any:
    del room
    if content is None:
        return None
    check_entries(content, name, ("tuple", "items"))
    items = check_list(content["items"], name)
    if any(type(each) not in (int, str) for each in items):
        raise type_error(name, "hold names or places of columns", items)
    return tuple(items) if check_bool(content["tuple"], name) else items


def _read_text(content: Any, name: str, room: Room) -> str:
    del room
    if not isinstance(content, str):
        raise type_error(name, "be text", content)
    return content


def _read_int(content: Any, name: str, room: Room) -> int | None:
    del room
    return None if content is None else check_int(content, name, minimum=0)


def _read_bool(content: Any, name: str, room: Room) -> bool:
    del room
    return check_bool(content, name)


def _read_share(content: Any, name: str, room: Room) -> float:
    del room
    if not isinstance(content, Real) or isinstance(content, bool):
        raise type_error(name, "be a number", content)
    return float(content)


READERS: dict[str, Callable[[Any, str, Room], Any]] = {
    "encoding": _read_encoding,
    "backbone": _read_backbone,
    "size": _read_int,
    "n_members": _read_int,
    "class_weight": _read_class_weight,
    "categories": _read_text,
    "categorical": _read_categorical,
    "validation_share": _read_share,
    "training": _read_training,
    "random_state": _read_int,
    "verbose": _read_bool,
}
