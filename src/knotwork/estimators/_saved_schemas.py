"""Model files of earlier schemas, turned into the current one."""

from dataclasses import asdict
from inspect import signature
from typing import Any

from knotwork._checks import check_choice, check_int, type_error
from knotwork.encoders._methods import Encoding
from knotwork.estimators._estimators import TabularClassifier, TabularRegressor
from knotwork.estimators._saved_networks import check_list
from knotwork.training._config import TrainingConfig
from knotwork.training._objectives import USUAL

__all__ = ["CLASSES", "SCHEMA", "UNSAVED", "as_dict", "read_int", "upgraded"]

SCHEMA = 6
"""Schema 1 had one encoding for all members, under ``"choices"``; up to schema 2 all networks had one backbone; up to
schema 3 there was one objective for each task; up to schema 4 the estimators had fewer parameters, and networks no
interactions; up to schema 5 the best epoch was counted from 0. These can be read as well."""

CLASSES: dict[str, type[Any]] = {kind.__name__: kind for kind in (TabularRegressor, TabularClassifier)}
"""The estimators that files have, by name."""

UNSAVED = ("device", "engine", "callbacks")
"""Parameters that are not in a file."""


def upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """Return content of the current schema."""
    if content["schema"] == 1:
        content = _from_first(content)
    if content["schema"] == 2:
        content = _from_second(content)
    if content["schema"] == 3:
        content = _from_third(content)
    if content["schema"] == 4:
        content = _from_fourth(content)
    if content["schema"] == 5:
        content = _from_fifth(content)
    return content


def _from_first(content: dict[str, Any]) -> dict[str, Any]:
    """Return content of schema 2; in schema 1 all members have one encoding and equal weights."""
    n_members = len(check_list(content.get("histories"), "histories"))
    specs = []
    for pair in check_list(content.get("choices"), "choices"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise type_error("choices", "be pairs of a method and a size", pair)
        specs.append(str(Encoding(pair[0], read_int(pair[1], "size", minimum=1))))
    return {
        **{name: value for name, value in content.items() if name != "choices"},
        "schema": 2,
        "encodings": [specs] * n_members,
        "weights": [1.0 / max(n_members, 1)] * n_members,
        "candidates": [],
    }


def _from_second(content: dict[str, Any]) -> dict[str, Any]:
    """Return content of schema 3; in schema 2 all networks have one backbone, and settings added since are missing."""
    backbone = content.get("backbone")
    name = backbone.get("name") if isinstance(backbone, dict) else None
    added = {"effort": "balanced", "time_limit": None}
    return {
        **{entry: value for entry, value in content.items() if entry != "backbone"},
        "schema": 3,
        "score": None,
        "parameters": _with_config({**added, **as_dict(content.get("parameters"))}, "training"),
        "config": _with_defaults(content.get("config")),
        "pieces": [
            {"embedding": None, **as_dict(piece), "backbone": backbone}
            for piece in check_list(content.get("pieces"), "pieces")
        ],
        "candidates": [
            {**as_dict(candidate), "backbone": name}
            for candidate in check_list(content.get("candidates"), "candidates")
        ],
    }


def _from_third(content: dict[str, Any]) -> dict[str, Any]:
    """Return content of schema 4; in schema 3 estimators have one objective each."""
    regression = CLASSES[check_choice(content.get("class"), "class", CLASSES)] is TabularRegressor
    return {
        **content,
        "schema": 4,
        "objective": USUAL["regression" if regression else "classification"].to_json(),
        "target_name": None,
        "n_targets": None,
        "residuals": None,
        "temperature": None if regression else 1.0,
        "calibration": None if regression else [],
    }


def _from_fourth(content: dict[str, Any]) -> dict[str, Any]:
    """Return content of schema 5; up to schema 4 estimators had fewer parameters, and no interactions."""
    kind = CLASSES[check_choice(content.get("class"), "class", CLASSES)]
    defaults = {
        name: parameter.default for name, parameter in signature(kind).parameters.items() if name not in UNSAVED
    }
    pieces = check_list(content.get("pieces"), "pieces")
    return {
        **content,
        "schema": 5,
        "feature_choices": [],
        "parameters": {**defaults, **as_dict(content.get("parameters"))},
        "pieces": [{"interactions": None, **as_dict(piece)} for piece in pieces],
    }


def _from_fifth(content: dict[str, Any]) -> dict[str, Any]:
    """Return content of the current schema; up to schema 5 the best epoch was counted from 0, and -1 meant none."""
    histories = [as_dict(history) for history in check_list(content.get("histories"), "histories")]
    later = [{"best_epoch": check_int(each.get("best_epoch"), "best_epoch", minimum=-1) + 1} for each in histories]
    counted = [{**history, **added} for history, added in zip(histories, later, strict=True)]
    return {**content, "schema": SCHEMA, "histories": counted}


def as_dict(content: Any) -> dict[str, Any]:
    """Return a dict."""
    if not isinstance(content, dict):
        raise type_error("content", "be a dict", content)
    return content


def _with_config(content: dict[str, Any], name: str) -> dict[str, Any]:
    return {**content, name: None if content.get(name) is None else _with_defaults(content[name])}


def _with_defaults(content: Any) -> dict[str, Any]:
    """Return a configuration of training with the defaults of settings that its schema did not have."""
    return {**asdict(TrainingConfig()), **as_dict(content)}


def read_int(content: Any, name: str, *, minimum: int = 0) -> int | None:
    """Return an integer, or None."""
    return None if content is None else check_int(content, name, minimum=minimum)
