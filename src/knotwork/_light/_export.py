"""Models as files of other formats, by the suffix of the file."""

from collections.abc import Callable
from pathlib import Path

from knotwork._checks import argument_error, listed
from knotwork._files import write_atomically
from knotwork._light._conversions import warn_conversions
from knotwork._light._onnx import onnx_model
from knotwork._light._predictor import Predictor

FORMATS: dict[str, Callable[[Predictor], bytes]] = {".onnx": onnx_model}
"""The formats, by the suffix of their files."""


def check_suffix(path: str | Path) -> str:
    """Return the suffix of a file, which must be one of `FORMATS`."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        raise argument_error("path", f"end in one of {listed(FORMATS)}", str(path))
    return suffix


def export(predictor: Predictor, path: str | Path, suffix: str | None = None) -> None:
    """Write a predictor to a file, in the format of its suffix; an existing file is replaced."""
    suffix = suffix or check_suffix(path)
    content = FORMATS[suffix](predictor)
    if suffix in CONVERTED_BY_CALLERS:
        warn_conversions(predictor.columns, Path(path).name)
    write_atomically(path, lambda file: file.write(content))


CONVERTED_BY_CALLERS = (".onnx",)
"""The formats whose models take numbers that were read, not text."""
