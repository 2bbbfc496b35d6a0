"""A predictor in JavaScript: its graph as JSON with compressed constants, and the runtime that computes it."""

import base64
import json
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from knotwork._graph import Array, pack
from knotwork._light._conversions import column_contents, reading_contents
from knotwork._light._predictor import Predictor


@cache
def runtime_js() -> str:
    """Return the text of the runtime, which defines the name ``knotwork``."""
    return (Path(__file__).parent / "runtime.js").read_text(encoding="utf-8")


def payload(predictor: Predictor) -> dict[str, Any]:
    """Return what ``knotwork.load`` of the runtime takes, as types of JSON."""
    packed, labels, residuals = pack(predictor.graph), predictor.labels, predictor.residuals
    return {
        "task": "regression" if labels is None else "classification",
        "classes": None if labels is None else list(labels.values),
        "target": predictor.target_name,
        "responseNames": list(predictor.response_names),
        "isPositive": predictor.is_positive,
        "residuals": None if residuals is None else {
            "values": residuals.values.tolist(), "ends": list(residuals.ends), "floor": residuals.floor.tolist()
        },
        "columns": column_contents(predictor.columns),
        "reading": reading_contents(),
        "graph": packed.content,
        "arrays": {name: _compressed(array) for name, array in packed.arrays.items()},
    }  # fmt: skip


def _compressed(array: Array) -> dict[str, Any]:
    """Return an array as base64 of its deflated bytes, little-endian."""
    stored = array.astype(array.dtype.newbyteorder("<"), copy=False)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = packer.compress(stored.tobytes()) + packer.flush()
    return {"type": array.dtype.name, "length": array.size, "data": base64.b64encode(data).decode("ascii")}


def javascript_model(predictor: Predictor) -> bytes:
    """Return a file that defines the name ``model``, and is a module of node."""
    # In JavaScript, as in JSON, all text is quoted; "<" would matter in a page.
    text = json.dumps(payload(predictor), allow_nan=False, ensure_ascii=True).replace("<", "\\u003c")
    lines = [
        runtime_js(),
        f"const model = knotwork.load({text});",
        'if (typeof module !== "undefined" && module.exports) module.exports = model;',
        "",
    ]
    return "\n".join(lines).encode()
