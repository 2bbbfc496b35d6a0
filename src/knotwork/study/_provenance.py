"""Provenance of records: the code, the software and the machine of the training."""

import hashlib
import os
import platform
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import knotwork
from knotwork._checks import argument_error, listed
from knotwork._loops import usable_cores
from knotwork.nn import Backbone
from knotwork.study._folder import process_home
from knotwork.training import TrainingConfig

PROVENANCE: dict[str, str] = {
    "commit": "git commit of the library; a version where it was not installed from a checkout",
    "source": "git's identifier of the library's source files",
    "version": "version of the library",
    "python_version": "version of Python",
    "numpy_version": "version of numpy",
    "torch_version": "version of torch",
    "triton_version": "version of Triton",
    "cuda_version": "version of CUDA that torch was built for",
    "scikit_learn_version": "version of scikit-learn that fitted the encoding",
    "lightgbm_version": "version of LightGBM where the encoding was fitted",
    "device": "device of torch",
    "gpu": "name of the GPU",
    "driver": "version of the GPU's driver",
    "cpu": "name of the processor",
    "threads": "threads of the training on a CPU",
    "precision": "precision of matrix products",
}
"""Text columns of records on provenance, with their meanings."""

FITTING = ("scikit_learn_version", "lightgbm_version")
"""Columns on the software that grows trees; relevant for encodings with knots at splits of trees."""

DECIDES_BITS = tuple(name for name in PROVENANCE if name not in ("commit", "version", *FITTING))
"""Columns that determine the bits: if they are equal, training the same stack again should give the same bits."""

ABSENT = "none"
"""Value if the machine has no such part; a missing value means that it was not recorded."""

UNKNOWN = "not recorded"
"""Shown for a missing value: records of earlier versions do not have these columns."""

KNOWN_FILE = "provenance.toml"
"""File in the folder of a study with the known provenance of earlier records."""


def origin(device: torch.device | None = None) -> dict[str, Any]:
    """Return the columns of records on the code, the software and the machine, and on the device if given."""
    columns = {
        "commit": read_commit(),
        "source": source_id(),
        "version": knotwork.__version__,
        "python_version": platform.python_version(),
        "numpy_version": _version_of("numpy"),
        "torch_version": torch.__version__,
        "triton_version": _version_of("triton"),
        "cuda_version": torch.version.cuda or ABSENT,
        "cpu": _processor(),
        "threads": str(usable_cores(torch.get_num_threads())),
        "host": process_home().split()[0],
    }
    if device is None:
        return columns
    has_gpu = device.type == "cuda"
    gpu = torch.cuda.get_device_name(device) if has_gpu else ABSENT
    return {**columns, "device": str(device), "gpu": gpu, "driver": _driver() if has_gpu else ABSENT}


def fitting_versions() -> dict[str, str]:
    """Return the columns of records on the software that fits encodings."""
    return {"scikit_learn_version": _version_of("scikit-learn"), "lightgbm_version": _version_of("lightgbm")}


def precision_of(config: TrainingConfig, backbone: Backbone, device: torch.device) -> str:
    """Return the precision of matrix products in training."""
    if device.type != "cuda":
        return "float32"
    return backbone.precision if config.precision == "auto" else config.precision


@cache
def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ABSENT


@cache
def read_commit(package: Path = Path(knotwork.__file__).parent) -> str:
    """Return the git commit of a package, with "+changes" if its files differ; the version if there is none.

    A checkout is recognised by its content, because an environment may be inside the repository of another project.
    """
    lines = _output("git", "-C", str(package), "rev-parse", "HEAD", "HEAD:./").split()
    if len(lines) == 2:
        return lines[0] if lines[1] == source_id(package) else f"{lines[0]}+changes"
    return f"version {knotwork.__version__}"


@cache
def source_id(package: Path = Path(knotwork.__file__).parent) -> str:
    """Return git's tree identifier of the files of a package, inside a repository or not.

    ``git rev-parse COMMIT:src/knotwork`` prints it, so that the commit can be identified on another machine.
    """
    return _tree(package).hex()


def _tree(folder: Path) -> bytes:
    """Return the SHA-1 of a folder as git computes it; empty folders and compiled files do not count."""
    entries: dict[bytes, bytes] = {}
    for path in folder.iterdir():
        name = os.fsencode(path.name)
        if path.name == "__pycache__" or path.suffix == ".pyc":
            continue
        if path.is_dir():
            if tree := _tree(path):
                entries[name + b"/"] = b"40000 " + name + b"\0" + tree  # git sorts folders with a slash at the end
        else:
            mode = b"100755 " if path.stat().st_mode & 0o100 else b"100644 "
            entries[name] = mode + name + b"\0" + _object(b"blob", path.read_bytes())
    return _object(b"tree", b"".join(entries[name] for name in sorted(entries))) if entries else b""


def _object(kind: bytes, content: bytes) -> bytes:
    return hashlib.sha1(kind + b" %d\0" % len(content) + content, usedforsecurity=False).digest()


@cache
def _driver() -> str:
    """Return the version of the NVIDIA driver."""
    with suppress(OSError):
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip()
    lines = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split()
    return lines[0] if lines else "unknown"


@cache
def _processor() -> str:
    """Return the name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or sys.platform


def _output(*command: str) -> str:
    """Return the output of a program; empty if it is not available or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10.0, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def differences(
    recorded: Mapping[str, Any], now: Mapping[str, Any], *, supervised: bool = False
) -> dict[str, tuple[str, str]]:
    """Return the columns of `DECIDES_BITS` that differ, with both values; a missing value is "not recorded".

    `supervised` tells whether the encoding has knots at splits of trees.
    """
    names = [*DECIDES_BITS, *(FITTING if supervised else ())]
    if "cuda" in str(recorded.get("device")) and "cuda" in str(now.get("device")):
        names = [name for name in names if name not in ("cpu", "threads")]
    before, after = (
        {name: str(value) if isinstance(value := columns.get(name), str) and value else UNKNOWN for name in names}
        for columns in (recorded, now)
    )
    differing = [name for name in names if before[name] != after[name] or before[name] == UNKNOWN]
    return {name: (before[name], after[name]) for name in differing}


def with_known(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """Fill missing provenance of records from the file ``provenance.toml`` in the folder of a study.

    Records of earlier versions do not have it. Each value is followed by the source named in the file.
    """
    path = folder / KNOWN_FILE
    if not path.is_file():
        return frame
    frame = frame.copy()
    for entry in _read_known(path):
        rows = pd.Series(True, index=frame.index)
        for name, column in (("plans", "plan"), ("backbones", "backbone")):
            if name in entry:
                rows &= frame[column].isin(entry[name])
        if "recorded_until" in entry:
            rows &= frame["recorded_at"] <= entry["recorded_until"].timestamp()
        for name in entry.keys() & PROVENANCE.keys():
            text = f"{entry[name]}, according to {entry['according_to']}"
            frame[name] = frame[name].astype(object).mask(rows & frame[name].isna(), text)
    return frame


def _read_known(path: Path) -> list[dict[str, Any]]:
    """Return the tables of the file of `with_known`."""
    texts = dict.fromkeys(("according_to", *PROVENANCE), str)
    valid = {"plans": list, "backbones": list, "recorded_until": datetime, **texts}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise argument_error(KNOWN_FILE, "be a TOML file", str(path), f"The reader reports: {error}.") from error
    entries = content.get("known")
    if content.keys() != {"known"} or not isinstance(entries, list):
        raise argument_error(KNOWN_FILE, "have tables [[known]] and nothing else", list(content), f"Correct {path}.")
    for entry in entries:
        for name, value in entry.items():
            if not isinstance(value, valid.get(name, ())):
                requirement = f"have the keys {listed(valid, most=40)}, with texts, lists and a time"
                raise argument_error(KNOWN_FILE, requirement, f"{name} = {value}", f"Correct {path}.")
        if "according_to" not in entry:
            raise argument_error(KNOWN_FILE, "name its sources by the key 'according_to'", entry, f"Correct {path}.")
    return entries
