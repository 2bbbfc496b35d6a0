"""Time until something happens: imports, the first estimator, the first fit, and searches with `n_jobs=2`.

    python benchmarks/start.py [--repeats 5] [--cold] [--search] [--device cuda] [--out FOLDER]

Every line is measured in new processes, which report wall time and CPU time; medians are shown. "Times the floor" is
the wall time divided by that of importing scikit-learn and torch in the same run, which every estimator must import;
what is above 1 is ours. The first fit is that of `TabularRegressor` with 5 epochs on 1,000 x 8 values; it is compared
with the second in the same process. "Nothing compiled" has an empty folder for the caches of numba and Triton, as after
an installation. On a GPU, learned knots and the FT-Transformer are fitted as well: they have most kernels. With
`--cold`, the files of all loaded modules are dropped from the cache of the file system beforehand, as after a start of
the machine; pages that other processes use stay.

With `--search`, scikit-learn's `GridSearchCV` fits three folds of four candidates on 4,000 x 8 values, one after the
other and by two workers, which are processes (loky) or threads; workers are started anew. The number to look at is the
wall time divided by that of one after the other. CPU time shows threads that wait in a loop.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

FLOOR = "import sklearn.base, torch"
CLASS = "import knotwork as kw; kw.TabularRegressor"
TABLE = """
import numpy as np
def table(n):
    X = np.random.default_rng(0).normal(size=(n, 8))
    return X, np.sin(2 * X).sum(axis=1)
"""
FIT = f"""{TABLE}
import knotwork as kw
model = kw.TabularRegressor(%s training=kw.TrainingConfig(max_epochs=5), random_state=0, device=%r)
model.fit(*table(1000))
"""
SEARCH = f"""{TABLE}
import joblib
import knotwork as kw
from sklearn.model_selection import GridSearchCV
config = kw.TrainingConfig(max_epochs=10, patience=None)
model = kw.TabularRegressor("BS-Q", random_state=0, device="cpu", training=config)
methods = ["BS-Q@6", "BS-Q@8", "BS-Q@10", "BS-Q@12"]
search = GridSearchCV(model, dict(encoding=methods), cv=3, n_jobs={{n_jobs}}, refit=False)
with joblib.parallel_config({{backend!r}}):
    search.fit(*table(4000))
joblib.externals.loky.get_reusable_executor().shutdown()
"""
IMPORTS = {
    "python": "pass",
    "import sklearn.base": "import sklearn.base",
    "import torch": "import torch",
    "the floor: both": FLOOR,
    "import knotwork": "import knotwork",
    "first estimator": CLASS,
}
OTHER_FITS = {"learned knots": '"BS-Grad-U@15", "mlp",', "FT-Transformer": '"BS-Q@15", "ft",'}
WORKERS = {"one after the other": ("loky", 1), "two processes": ("loky", 2), "two threads": ("threading", 2)}
REPORT = """
import json, os, sys, time
_started = time.perf_counter()
exec({code!r})
_used = os.times()
_seconds = time.perf_counter() - _started
print(json.dumps([_seconds, sum(_used[:4])]), file=sys.stderr, flush=True)
if {listed}: print(*[m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)], sep=chr(10))
"""


def fits(device: str) -> dict[str, str]:
    """Return the code of the first fits on a device."""
    others = OTHER_FITS if device == "cuda" else {}
    return {
        "first fit": FIT % ("", device),
        **{f"first fit, {name}": FIT % (each, device) for name, each in others.items()},
    }


def drop(files: list[str]) -> None:
    """Drop files from the cache of the file system."""
    compiled = {str(path) for name in files for path in Path(name).parent.glob("__pycache__/*.pyc")}
    for name in compiled.union(files):
        handle = os.open(name, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def run(code: str, *, cache: str | None = None, listed: bool = False) -> tuple[list[float], list[str]]:
    """Return wall and CPU seconds of code in a new process, and the files of its modules."""
    # Modules are compiled by Python once, as in any installation.
    caches = {"NUMBA_CACHE_DIR": cache, "TRITON_CACHE_DIR": cache} if cache else {}
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""} | caches
    command = [sys.executable, "-W", "ignore", "-c", REPORT.format(code=code, listed=listed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stderr.splitlines()[-1]), done.stdout.split("\n")[:-1]


def median(runs: list[list[float]]) -> list[float]:
    return [statistics.median(column) for column in zip(*runs, strict=True)]


def measure_start(repeats: int, *, cold: bool, device: str) -> dict[str, list[float]]:
    """Return wall and CPU seconds of each line; lines take turns, so that other work on the machine meets them all."""
    first = fits(device)
    lines = {**IMPORTS, **first, "first and second fit": first["first fit"] + "model.fit(*table(1000))"}
    warmed = lines if cold else first  # what is not in the caches is compiled
    files = {name: run(code, listed=True)[1] for name, code in warmed.items()}
    runs: dict[str, list[list[float]]] = {
        name: [] for name in [*lines, *(f"{name}, nothing compiled" for name in first)]
    }
    for _ in range(repeats):
        for name, code in lines.items():
            if cold:
                drop(files[name])
            runs[name].append(run(code)[0])
        for name, code in first.items():
            with tempfile.TemporaryDirectory() as empty:
                runs[f"{name}, nothing compiled"].append(run(code, cache=empty)[0])
    return {name: median(rows) for name, rows in runs.items()}


def measure_search(repeats: int) -> dict[str, list[float]]:
    """Return wall and CPU seconds of a search by each kind of workers."""
    runs: dict[str, list[list[float]]] = {name: [] for name in WORKERS}
    for _ in range(repeats):
        for name, (backend, n_jobs) in WORKERS.items():
            runs[name].append(run(SEARCH.format(n_jobs=n_jobs, backend=backend))[0])
    return {name: median(rows) for name, rows in runs.items()}


def show(title: str, lines: dict[str, list[float]], unit: str) -> str:
    floor = lines[unit][0]
    rows = [f"| {name} | {wall:.2f} | {used:.2f} | {wall / floor:.2f} |" for name, (wall, used) in lines.items()]
    return "\n".join([f"| {title} | seconds | CPU seconds | times {unit} |", "|---|---|---|---|", *rows, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--cold", action="store_true", help="drop the files of modules from the cache of the file system"
    )
    parser.add_argument("--search", action="store_true", help="measure searches with n_jobs=2")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where networks are fitted")
    parser.add_argument("--out", type=Path, help="folder for start.md")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    text = [f"{datetime.now(UTC):%Y-%m-%d}, {cores} cores, load {os.getloadavg()[0]:.1f} at the start\n"]
    starts = measure_start(arguments.repeats, cold=arguments.cold, device=arguments.device)
    text.append(show("start", starts, "the floor: both"))
    if arguments.search:
        text.append(show("search", measure_search(arguments.repeats), "one after the other"))
    print("\n".join(text))
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "start.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
