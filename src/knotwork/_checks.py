"""Checks of arguments and of installed packages, the wording of their errors, and warnings to the user.

Errors about the columns of a table are worded in `_tables` and in `_preparation`, where columns are read.
"""

import contextlib
import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from knotwork.errors import ArgumentError, ArgumentTypeError, MissingPackageError

MAX_SHOWN = 300
"""Maximum number of characters of a value in a message."""

LEAST_SIMILAR = 0.75
"""Names at least this similar, by the ratio of `difflib`, are suggested; its default of 0.6 suggests unrelated
names."""

OPTIONAL_PARTS = {
    "knotwork.nn": ("torch", ("torch",)),
    "knotwork.training": ("torch", ("torch",)),
    "knotwork.estimators": ("torch", ("torch",)),
    "knotwork.datasets": ("study", ("pandas",)),
    "knotwork.study": ("study", ("torch", "pandas", "pyarrow")),
    "knotwork.report": ("study", ("torch", "pandas", "pyarrow", "matplotlib", "jinja2")),
    "knotwork.compare": ("study", ("torch", "pandas", "pyarrow", "matplotlib", "jinja2")),
}
"""The parts of the library that need optional packages: the extra that installs them, and the packages."""

OUR_FILES = (str(Path(__file__).parent), contextlib.__file__)
"""Path prefixes of our own files and of `contextlib`; frames elsewhere are the user's code."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the location of the user's call, skipping all frames of this library."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OUR_FILES):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def argument_error(name: str, requirement: str, value: object, hint: str = "") -> ArgumentError:
    """Return the error for an argument with an invalid value.

    Parameters
    ----------
    name : str
        Name of the argument, as the user writes it.
    requirement : str
        The requirement, to follow the word "must".
    value : object
        The value that was given.
    hint : str
        The next step, as a complete sentence.

    Examples
    --------
    >>> print(argument_error("degree", "be at least 0", -1))
    degree must be at least 0, got degree=-1.
    """
    return ArgumentError(_sentence(name, requirement, value, hint))


def type_error(name: str, requirement: str, value: object, hint: str = "") -> ArgumentTypeError:
    """Return the error for an argument with an invalid type; parameters as in `argument_error`."""
    return ArgumentTypeError(_sentence(name, requirement, value, hint))


def _sentence(name: str, requirement: str, value: object, hint: str) -> str:
    sentence = f"{name} must {requirement}, got {name}={shown(value)}."
    return f"{sentence} {hint}" if hint else sentence


def shown(value: object) -> str:
    """Return a value for a message: an array or a table as its type and shape, anything else cut if it is long.

    Examples
    --------
    >>> shown(np.zeros((1000, 3)))
    '<ndarray of shape (1000, 3)>'
    >>> shown("BSQ")
    "'BSQ'"
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"<{type(value).__name__} of shape {tuple(shape)}>"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 4]} ..."


def nearest(name: object, names: Iterable[object], most: int = 1) -> list[Any]:
    """Return the names that `name` may be a misspelling of, the most similar first; often none.

    Names that differ only in case and punctuation come first.

    Examples
    --------
    >>> nearest("bsq", ["BS-U", "BS-Q"])
    ['BS-Q']
    >>> nearest("forest", ["mlp", "resnet"])
    []
    """
    texts = {each: _plain(each) for each in names}
    plain_name = _plain(name)
    same = [each for each, text in texts.items() if text == plain_name]
    if same or not plain_name:
        return same[:most]
    close = get_close_matches(plain_name, set(texts.values()), n=most, cutoff=LEAST_SIMILAR)
    return [each for similar in close for each, text in texts.items() if text == similar][:most]


def _plain(name: object) -> str:
    return "".join(character for character in str(name).casefold() if character.isalnum())


def suggestion(name: object, names: Iterable[object], most: int = 1) -> str:
    """Return "Did you mean ...?" with the `nearest` names; an empty string if there are none.

    Examples
    --------
    >>> suggestion("ensembel", ["auto", "ensemble"])
    "Did you mean 'ensemble'?"
    """
    similar = nearest(name, names, most)
    return f"Did you mean {' or '.join(map(repr, similar))}?" if similar else ""


def check_installed(subject: str, extra: str, *packages: str, hint: str = "") -> None:
    """Raise an error with the install command if one of `packages` is missing; none of them is imported.

    Parameters
    ----------
    subject : str
        What needs the packages, as the user writes it.
    extra : str
        The extra of this library that installs them.
    *packages : str
        Names of the packages.
    hint : str
        An alternative, as a complete sentence.

    Examples
    --------
    >>> check_installed("SplineEncoder", "all", "numpy", "knitwork")
    Traceback (most recent call last):
    knotwork.errors.MissingPackageError: SplineEncoder needs knitwork: pip install "knotwork[all]"
    """
    for package in packages:
        if find_spec(package) is None:
            sentence = f'{subject} needs {package}: pip install "knotwork[{extra}]"'
            raise MissingPackageError(f"{sentence}. {hint}" if hint else sentence, name=package)


def load_lightgbm(subject: str, *, hint: str = "") -> Any:
    """Return the module lightgbm; raise an error that names `subject` if it is not installed."""
    check_installed(subject, "lightgbm", "lightgbm", hint=hint)
    try:
        return import_module("lightgbm")
    except AttributeError as error:  # LightGBM edits docstrings, which are missing under -OO
        reason = "LightGBM cannot be imported without docstrings, which python -OO and PYTHONOPTIMIZE=2 leave out"
        text = f"{subject} needs lightgbm: {reason}. Use python -O at most. {hint}"
        raise MissingPackageError(text.strip()) from error


def check_part(module: str, subject: str | None = None) -> None:
    """Raise the error of `check_installed` if a package of one of `OPTIONAL_PARTS` is not installed."""
    extra, packages = OPTIONAL_PARTS[module]
    check_installed(subject or module, extra, *packages)


def listed(items: Iterable[object], most: int = 12) -> str:
    """Return a list of names for a message, with at most `most` of them.

    Examples
    --------
    >>> listed(["a", "b"])
    "'a', 'b'"
    """
    names = [repr(item) for item in items]
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def printable(text: str) -> str:
    """Escape control characters, which could control the terminal; line ends and tabs are kept.

    Examples
    --------
    >>> print(printable("rent" + chr(7)) == "rent" + chr(92) + "x07")
    True
    """
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode("ascii") for each in text
    )


def check_choice(value: Any, name: str, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`; otherwise raise an error that lists them."""
    if isinstance(value, str) and value in choices:
        return value
    raise argument_error(name, f"be one of {listed(choices, most=40)}", value, suggestion(value, choices))


def check_int(value: Any, name: str, minimum: int, hint: str = "") -> int:
    """Return `value` as an int that is at least `minimum`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise type_error(name, f"be an integer of at least {minimum}", value, hint)
    if value < minimum:
        raise argument_error(name, f"be an integer of at least {minimum}", value, hint)
    return int(value)


def check_number(value: Any, name: str, condition: str, is_valid: Callable[[float], bool]) -> float:
    """Return `value` as a float if it is finite and valid; otherwise raise an error with the `condition` in words.

    Examples
    --------
    >>> check_number(0.5, "dropout", "from 0 to below 1", lambda share: 0.0 <= share < 1.0)
    0.5
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise type_error(name, f"be a number {condition}", value)
    number = float(value)
    if not (math.isfinite(number) and is_valid(number)):
        raise argument_error(name, f"be a number {condition}", value)
    return number


def check_bool(value: Any, name: str) -> bool:
    """Return `value` as a bool; raise an error for numbers and strings."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise type_error(name, "be True or False", value)


def check_file(path: Any, name: str) -> Path:
    """Return the path of a file that exists; otherwise raise an error with similar names in its folder."""
    if not isinstance(path, str | PathLike):
        raise type_error(name, "be the path of a file", path)
    file = Path(path).expanduser()
    requirement = "be a file that exists"
    try:
        if file.is_file():
            return file
        if file.exists():
            requirement = f"be a file, not a {'folder' if file.is_dir() else 'pipe or a device'}"
        hint = "" if file.exists() else suggestion(file.name, [each.name for each in file.parent.iterdir()])
    except (OSError, ValueError):  # the folder does not exist or cannot be read, or the name is not valid
        hint = ""
    hint = hint or f"The current folder is {Path.cwd()}."
    raise argument_error(name, requirement, str(file), hint)
