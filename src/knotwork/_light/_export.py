"""Models as files of other formats, by the suffix of the file."""

from collections.abc import Callable
from pathlib import Path

from knotwork._checks import argument_error, listed
from knotwork._files import write_atomically
from knotwork._light._c import c_model
from knotwork._light._conversions import warn_conversions
from knotwork._light._javascript import javascript_model
from knotwork._light._onnx import onnx_model
from knotwork._light._predictor import Predictor
from knotwork._light._sql import sql_model

EXPORTS: dict[str, Callable[[Predictor], bytes]] = {
    ".onnx": onnx_model,
    ".js": javascript_model,
    ".c": c_model,
    ".sql": sql_model,
}
"""The formats, by the suffix of their files."""

CONVERTED_BY_CALLERS = (".onnx", ".c", ".sql")
"""The formats whose models take numbers that were read, not text."""


def check_suffix(path: str | Path) -> str:
    """Return the suffix of a file, which must be one of `EXPORTS`."""
    suffix = Path(path).suffix.lower()
    if suffix not in EXPORTS:
        raise argument_error("path", f"end in one of {listed(EXPORTS)}", str(path))
    return suffix


def export(predictor: Callable[[], Predictor], path: str | Path, suffix: str) -> None:
    """Write what `predictor` returns to a file, in the format of a suffix; an existing file is replaced."""
    made = predictor()
    content = EXPORTS[suffix](made)
    if suffix in CONVERTED_BY_CALLERS:
        warn_conversions(made.columns, Path(path).name)
    write_atomically(path, lambda file: file.write(content))
