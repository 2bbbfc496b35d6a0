"""Which encodings members have, what they weigh and what was tried, as JSON, and back."""

from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error, check_choice, check_int, type_error
from knotwork.encoders._methods import METHOD_TABLE, Encoding
from knotwork.estimators._saved_settings import check_entries, check_list
from knotwork.training._metrics import METRICS

__all__ = ["candidates_from_json", "candidates_to_json", "encodings_from_json", "upgraded", "weights_from_json"]

CANDIDATE = ("method", "size", "score", "metric", "seconds", "weight")
"""What is said of a candidate."""


def upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a file of schema 1 as one of schema 2: one encoding for all members, of equal weights."""
    others = {name: value for name, value in content.items() if name != "choices"}
    n_members = len(check_list(content.get("histories"), "histories"))
    specs = []
    for pair in check_list(content.get("choices"), "choices"):
        if not isinstance(pair, list) or len(pair) != 2:
            raise type_error("choices", "be pairs of a method and a size", pair)
        size = None if pair[1] is None else check_int(pair[1], "size", minimum=1)
        specs.append(str(Encoding(pair[0], size)))
    return {
        **others,
        "encodings": [specs] * n_members,
        "weights": [1.0 / max(n_members, 1)] * n_members,
        "candidates": [],
    }


def encodings_from_json(content: Any, names: list[Any], n_members: int) -> list[dict[Any, str]]:
    """Return the encoding of each column for each member.

    Parameters
    ----------
    content : list of list of str
        For each member, methods and sizes of the numerical columns.
    names : list
        Names of these columns, or their places.
    n_members : int
        Number of members.
    """
    if len(check_list(content, "encodings")) != n_members:
        raise argument_error("encodings", f"be given for each of {n_members} members", len(content))
    for own in content:
        if len(check_list(own, "encodings")) != len(names):
            raise argument_error("encodings", f"be given for each of {len(names)} numerical columns", len(own))
        for spec in own:
            Encoding.parse(spec)
    return [dict(zip(names, own, strict=True)) for own in content]


def weights_from_json(content: Any, n_members: int) -> npt.NDArray[np.float64]:
    """Return the weights of the members, which are not negative and add up to one."""
    if len(check_list(content, "weights")) != n_members:
        raise argument_error("weights", f"be given for each of {n_members} members", len(content))
    weights = np.array([_number(each, "weights") for each in content])
    if abs(weights.sum() - 1.0) > 1e-9:
        raise argument_error("weights", "add up to one", float(weights.sum()))
    return weights


def candidates_to_json(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what is said of candidates as what ``json.dumps`` takes: JSON has no NaN, so None stands for it."""
    return [{**each, "score": None if np.isnan(each["score"]) else each["score"]} for each in candidates]


def candidates_from_json(content: Any) -> list[dict[str, Any]]:
    """Return what `candidates_to_json` wrote."""
    candidates = []
    for each in check_list(content, "candidates"):
        check_entries(each, "candidate", CANDIDATE)
        check_choice(each["method"], "method", METHOD_TABLE)
        check_choice(each["metric"], "metric", METRICS)
        size = None if each["size"] is None else check_int(each["size"], "size", minimum=1)
        score = np.nan if each["score"] is None else _number(each["score"], "score", least=-np.inf)
        numbers = {name: _number(each[name], name) for name in ("seconds", "weight")}
        candidates.append({name: {**each, **numbers, "size": size, "score": score}[name] for name in CANDIDATE})
    return candidates


def _number(value: Any, name: str, *, least: float = 0.0) -> float:
    if type(value) not in (int, float) or value < least:
        raise type_error(name, "be numbers" if least < 0 else "be numbers of at least 0", value)
    return float(value)
