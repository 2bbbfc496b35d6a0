"""Checks of arguments, and the wording of what they say when they fail."""

from collections.abc import Collection, Iterable
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from knotwork.errors import ArgumentError, ArgumentTypeError

__all__ = ["argument_error", "check_bool", "check_choice", "check_int", "listed", "type_error"]

T = TypeVar("T")


def argument_error(name: str, requirement: str, value: object, hint: str = "") -> ArgumentError:
    """Return the error for an argument whose value is wrong.

    Parameters
    ----------
    name : str
        Name of the argument, as the user writes it.
    requirement : str
        What it must be, to follow the word "must".
    value : object
        What it was.
    hint : str
        The next step, as a sentence of its own.

    Examples
    --------
    >>> print(argument_error("degree", "be at least 0", -1))
    degree must be at least 0, got degree=-1.
    """
    return ArgumentError(_sentence(name, requirement, value, hint))


def type_error(name: str, requirement: str, value: object, hint: str = "") -> ArgumentTypeError:
    """Return the error for an argument whose type is wrong; parameters as in `argument_error`."""
    return ArgumentTypeError(_sentence(name, requirement, value, hint))


def _sentence(name: str, requirement: str, value: object, hint: str) -> str:
    sentence = f"{name} must {requirement}, got {name}={value!r}."
    return f"{sentence} {hint}" if hint else sentence


def listed(items: Iterable[object], most: int = 12) -> str:
    """Write a list of names for a message, cut after `most`.

    Examples
    --------
    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    names = [repr(item) for item in items]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def check_choice(value: Any, name: str, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise raise an error that lists them."""
    if isinstance(value, str) and value in choices:
        return value
    raise argument_error(name, f"be one of {listed(choices, most=40)}", value)


def check_int(value: Any, name: str, minimum: int, hint: str = "") -> int:
    """Return `value` as an int that is at least `minimum`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise type_error(name, f"be an integer of at least {minimum}", value, hint)
    if value < minimum:
        raise argument_error(name, f"be an integer of at least {minimum}", value, hint)
    return int(value)


def check_bool(value: Any, name: str) -> bool:
    """Return `value` as a bool; numbers and strings are refused."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise type_error(name, "be True or False", value)
