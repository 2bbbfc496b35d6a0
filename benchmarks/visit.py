"""All measurements on a GPU in one visit, the most important first; what is done is kept if a visit is cut off.

    python benchmarks/visit.py --folder build/visit --seconds 540 --archive visit.tar
    python benchmarks/visit.py --list

Every part is a process of its own with a limit of time, whose output goes to `NAME.log` in the folder and whose results
go to the folder `NAME`. A part that has ended well has a file `NAME.done` and is not run again in the same folder; one
that does not fit into the rest of the time, by its usual duration, is left for the next visit. The archive, if one is
wanted, is written again after every part.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PYTHON = sys.executable
LEAST = 10.0
"""Seconds without which no part is begun."""
SLOW = 2.0
"""A part that takes so many times its usual duration is stopped: the others have their turn."""
SIDE_BY_SIDE = f"-n {min(12, os.cpu_count() or 1)}" if importlib.util.find_spec("xdist") else ""


class Part(NamedTuple):
    """A measurement: its arguments for Python, with OUT for its folder, and the seconds that it usually takes."""

    arguments: str
    seconds: float


PARTS = {
    "tests": Part(f"-m pytest -q -W default -p no:cacheprovider {SIDE_BY_SIDE} tests/kernels/triton_cases_encoding.py "
                  "tests/kernels/triton_cases_members.py tests/kernels/triton_cases_steps.py "
                  "tests/kernels/triton_cases_attention.py tests/kernels/triton_cases_fixed_order.py "
                  "tests/kernels tests/training/test_engine.py::test_a_gpu_trains_as_the_cpu_does "
                  "tests/training/test_interactions.py::test_a_gpu_trains_as_the_cpu_does "
                  "tests/training/test_metrics.py::test_metrics_in_a_cuda_graph", 150),
    "layer": Part("benchmarks/layer.py --device cuda --out OUT", 100),
    "stacks": Part("benchmarks/training.py --device cuda --epochs 4 --out OUT/training.md", 150),
    "start": Part("benchmarks/start.py --device cuda --repeats 1 --out OUT", 100),
    "stream": Part("benchmarks/larger_than_memory.py --rows 100_000_000 --device cuda --out OUT", 260),
    "layers": Part("benchmarks/layers.py --device cuda --quick --out OUT/layers.md", 90),
    "kernels": Part("benchmarks/kernels.py --device cuda --out OUT", 60),
    "growth": Part("benchmarks/growth.py --device cuda --most-rows 1e7 --out OUT", 180),
    "families": Part("benchmarks/families.py --device cuda --out OUT", 60),
    "reproducible": Part("benchmarks/reproducible.py --device cuda --out OUT", 90),
}  # fmt: skip
"""The parts in the order of a visit. Durations are those of an H200, of the first three and the stream estimates."""


def run(name: str, folder: Path, limit: float) -> str:
    """Run a part; return how it ended."""
    out = folder / name
    out.mkdir(parents=True, exist_ok=True)
    command = [PYTHON, *PARTS[name].arguments.replace("OUT", str(out)).split()]
    with (folder / f"{name}.log").open("w") as log:
        try:
            code = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, timeout=limit, check=False).returncode
        except subprocess.TimeoutExpired:
            return f"stopped after {limit:.0f} s"
    if code == 0:
        (folder / f"{name}.done").touch()
    return "done" if code == 0 else f"failed with exit code {code}"


def archive(folder: Path, path: Path) -> None:
    """Write all results so far; the file is replaced at once."""
    part = path.with_suffix(".part")
    with tarfile.open(part, "w") as tar:
        tar.add(folder, folder.name)
    part.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "visit", help="folder of results")
    parser.add_argument("--seconds", type=float, default=540.0, help="time of the visit")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--archive", type=Path, help="also write the folder to this file")
    parser.add_argument("--list", action="store_true", help="show the parts, and measure nothing")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name:13} {part.seconds:4.0f} s  {part.arguments}" for name, part in PARTS.items()))
        return
    end = time.monotonic() + arguments.seconds
    folder, failed = arguments.folder.resolve(), False
    for name in arguments.only:
        left = end - time.monotonic()
        if (folder / f"{name}.done").exists() or left < max(PARTS[name].seconds, LEAST):
            print(f"{name}: {'done before' if (folder / f'{name}.done').exists() else 'left for another visit'}")
            continue
        started = time.monotonic()
        outcome = run(name, folder, min(left, SLOW * PARTS[name].seconds))
        failed |= outcome != "done"
        print(f"{name}: {outcome}, {time.monotonic() - started:.0f} s", flush=True)
        if arguments.archive:
            archive(folder, arguments.archive)
    sys.exit(failed)


if __name__ == "__main__":
    main()
