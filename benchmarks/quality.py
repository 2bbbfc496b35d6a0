"""Quality of the estimators' predictions, compared with gradient boosting, networks of other libraries, and AutoGluon.

    python benchmarks/quality.py --alone                              everything that is missing and installed
    python benchmarks/quality.py --models fast balanced --folds 0     some models; also --tables
    python benchmarks/quality.py --alone --lock FILE                  on a machine with others who use the same lock
    python benchmarks/quality.py --device cuda                        networks on a GPU
    python benchmarks/quality.py --processes 8                        scores of several fits at once
    python benchmarks/quality.py --page                               print the page of the existing results
    python benchmarks/quality.py --write                              write it into README, guide and benchmarks

On two cores all models are fitted on 65 tables (`quality_data.py` says where they come from), cut to 20,000 random
rows; with ``--device cuda`` on the 25 of the study, not cut. All use the five folds of the study. Single models of
other libraries are trained on the training rows and stop early on the validation rows, a tenth of the others; bags, our
models and AutoGluon get both together, and hold out rows themselves. Test rows are used for scores only. The score is
NRMSE (RMSE over the standard deviation of the test target) or AUC (weighted one against the rest).

Every result is a line in the file of its model, in `quality_cpu` or `quality`, with the seconds of a complete fit and
of the prediction of the test rows; predictions are kept in `build/quality-predictions`, from which the mean of two bags
is made. A fit that fails or takes longer than ``--limit`` is a line, too, and is tried again with ``--again``. A model
whose library is not installed is skipped, and the run says so. A second run fits only missing results: a result counts
as missing if there is no line of the same kind of device, or, with ``--alone``, none that was measured alone; if other
programs used more than a tenth of two cores meanwhile, it was not. With ``--alone`` each model is first fitted on a few
rows, so that seconds do not contain compilation.
"""

import argparse
import fcntl
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import torch
from quality_data import (
    ALL_TABLES,
    FOLDS,
    OURS,
    ROWS_ON_CPU,
    TABLES,
    UNTOUCHED,
    Fold,
    append,
    load_fold,
    measures,
    read_lines,
)  # fmt: skip
from quality_peers import MEAN_OF_BAGS, NETWORKS, PEERS, ROWS_OF_NETWORKS, Fitted, by_class
from quality_table import RESULTS, RESULTS_ON_CPU, page, read, write_sections

import knotwork as kw

MODELS = (*PEERS, *OURS)
MODELS_ON_CPU = tuple(model for model in MODELS if model not in ("tabm", "realmlp", "rtdl_ple"))
"""The models that are run on two cores if none are named: networks of other libraries stop by the score there."""
PREDICTIONS = Path(__file__).parents[1] / "build" / "quality-predictions"
PIECE, PAUSE = 45, 3
"""Seconds after which a run gives its lock to others, and for how long."""
MOST_OF_OTHERS = 0.2
"""Seconds of processors that others may use per second of a fit that counts as alone."""
SLOW = 15
"""Bags of CatBoost are left out where one model takes more seconds."""


@dataclass(frozen=True)
class Job:
    """One fit.

    Parameters
    ----------
    table, model : str
        What is fitted.
    fold : int
        Number of the fold.
    device : str
        Device of the networks.
    alone : bool
        Whether nothing else runs on the machine.
    """

    table: str
    model: str
    fold: int
    device: str
    alone: bool

    @property
    def is_on_gpu(self) -> bool:
        """Whether a GPU fits the model."""
        return self.device.startswith("cuda") and (self.model in OURS or PEERS[self.model].on_gpu)

    @property
    def most_rows(self) -> int | None:
        """The rows that a table is cut to."""
        return None if self.device.startswith("cuda") else ROWS_ON_CPU

    @property
    def predictions(self) -> Path:
        """The file of the predictions of the test rows."""
        place = "gpu" if self.device.startswith("cuda") else "cpu"
        return PREDICTIONS / place / self.model / f"{self.table}-{self.fold}.npz"

    def is_done_by(self, line: dict[str, Any]) -> bool:
        """Return whether a result makes this fit unnecessary."""
        same = (line["table"], line["model"], line["fold"]) == (self.table, self.model, self.fold)
        measured = line["alone"] or not self.alone
        return same and measured and "source" not in line and ("CPU" in line["device"]) != self.is_on_gpu


def fit_ours(name: str, fold: Fold, device: str) -> Fitted:
    """Fit an estimator; it holds out rows for validation itself."""
    effort, members = OURS[name]
    kind = kw.TabularRegressor if fold.is_regression else kw.TabularClassifier
    model = kind(effort=effort, members=members, random_state=fold.split.seed, device=device)
    model.fit(*fold.rows("train+valid"))
    trees = sum(backbone is None for backbone in model.backbones_)
    measured = {"trees": trees, "networks": len(model.weights_) - trees}
    if fold.is_regression:
        return Fitted(model.predict, len(model.weights_), measured)
    return Fitted(lambda rows: by_class(model.predict_proba(rows), model.classes_, fold), len(model.weights_), measured)


def fit(job: Job, fold: Fold) -> Fitted:
    """Fit the model of a job."""
    return fit_ours(job.model, fold, job.device) if job.model in OURS else PEERS[job.model].fit(fold, job.device)


def machine(job: Job) -> str:
    """Return the name of the device that fits a model."""
    return torch.cuda.get_device_name() if job.is_on_gpu else f"{len(os.sched_getaffinity(0))} CPU cores"


def described(job: Job) -> dict[str, Any]:
    """Return the start of the line of a result, whatever it is."""
    return {"table": job.table, "model": job.model, "fold": job.fold, "device": machine(job), "alone": job.alone}


def processor_seconds() -> tuple[float, float]:
    """Return the seconds that all processes have computed since the start of the machine, and those of this one."""
    path = Path("/proc/stat")
    if not path.exists():
        return 0.0, 0.0
    user, nice, system = map(int, path.read_text(encoding="ascii").split(maxsplit=4)[1:4])
    own = os.times()
    return (user + nice + system) / os.sysconf("SC_CLK_TCK"), sum(own[:4])


def measure(job: Job, fold: Fold) -> dict[str, Any]:
    """Fit and predict, keep the predictions, and return the line of the result."""
    began, (all_before, own_before) = time.perf_counter(), processor_seconds()
    fitted = fit(job, fold)
    trained, (all_after, own_after) = time.perf_counter(), processor_seconds()
    others = max(0.0, (all_after - all_before) - (own_after - own_before))
    is_disturbed = others > max(MOST_OF_OTHERS * (trained - began), 0.2)
    frame, target = fold.rows("test")
    predicted = fitted.predict(frame)
    ended = time.perf_counter()
    job.predictions.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(job.predictions, predicted=predicted, target=target)
    package = "knotwork" if job.model in OURS else PEERS[job.model].package
    of_package = kw.__version__ if job.model in OURS else PEERS[job.model].version
    return {
        **described(job),
        "alone": job.alone and not is_disturbed,
        "task": fold.data.task,
        "rows": len(fold.split.train) + len(fold.split.valid),
        **measures(fold.data.task, target, predicted),
        "seconds": round(trained - began, 3),
        "predict_seconds": round(ended - trained, 4),
        "others": round(others, 2),
        "n_models": fitted.n_models,
        "versions": {"torch": version("torch"), package: of_package},
        **fitted.measured,
    }


def warm_up(job: Job) -> None:
    """Fit the model of a job, or our smallest one, on a few rows, so that seconds do not contain compilation."""
    if job.model.startswith("autogluon") or job.model in NETWORKS:
        return
    fold = load_fold(job.table, job.fold, job.most_rows)
    few = {part: getattr(fold.split, part)[:most] for part, most in (("train", 400), ("valid", 60), ("test", 60))}
    effort = job.model.replace("balanced", "fast").replace("best", "fast")
    model = fit(replace(job, model=effort), replace(fold, split=replace(fold.split, **few)))
    model.predict(fold.rows("test")[0][:60])


def attempt(job: Job, limit: float, warm: bool) -> dict[str, Any]:
    """Return the line of a result, or of a failure."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {limit} s")

    signal.signal(signal.SIGALRM, stop)
    try:
        if not warm:
            warm_up(job)
        fold = load_fold(job.table, job.fold, job.most_rows)
        signal.setitimer(signal.ITIMER_REAL, limit)
        return measure(job, fold)
    except Exception as error:  # one failed fit must not end a run of hours; the run reports it and exits with 1
        traceback.print_exc()
        return {**described(job), "failed": f"{type(error).__name__}: {error}"[-300:]}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Turns:
    """The turns of a run on a machine that it shares: it holds a lock for a while, and then gives it to others.

    Parameters
    ----------
    path : Path or None
        The file of the lock; None for a machine of one's own.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._since = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock during one fit, and on until it was held for long."""
        if self._path is not None and self._file is None:
            self._file = self._path.open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._since = time.monotonic()
        yield
        if self._file is not None and time.monotonic() - self._since > PIECE:
            self.end()
            time.sleep(PAUSE)

    def end(self) -> None:
        """Give the lock to others."""
        if self._file is not None:
            self._file.close()
            self._file = None


def results(jobs: Sequence[Job], processes: int, limit: float, turns: Turns) -> Iterator[dict[str, Any]]:
    """Yield the results of all jobs as they come."""
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            waiting = [pool.submit(attempt, job, limit, True) for job in jobs]
            for future in as_completed(waiting):
                yield future.result()
        return
    warm: set[str] = set()
    for job in jobs:
        with turns.turn():
            line = attempt(job, limit, job.model in warm or not job.alone)
        warm.add(job.model)
        yield line
    turns.end()


def is_wanted(job: Job, lines: Sequence[dict[str, Any]]) -> bool:
    """Return whether a fit is not left out for its time."""
    if job.model == "catboost_bag":
        single = [line.get("seconds", 0) for line in lines if (line["table"], line["model"]) == (job.table, "catboost")]
        return not single or min(single) <= SLOW
    if job.model in NETWORKS and not job.device.startswith("cuda"):
        fold = load_fold(job.table, 0, job.most_rows)
        return len(fold.frame) <= ROWS_OF_NETWORKS
    return True


def run(out: Path, jobs: Sequence[Job], options: argparse.Namespace) -> int:
    """Fit what is missing, and return the number of failures."""
    lines = [line for line in read_lines(out) if not (options.again and "failed" in line)]
    missing = [job for job in jobs if not any(job.is_done_by(line) for line in lines)]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} results exist.", flush=True)
    missing = [job for job in missing if is_wanted(job, lines)]
    failures = 0
    for line in results(missing, options.processes, options.limit, Turns(options.lock)):
        append(out, line)
        failures += "failed" in line
        names = ("table", "model", "fold", *(("failed",) if "failed" in line else ("score", "seconds")))
        print(*(line[name] for name in names), flush=True)
    return failures


def plan(options: argparse.Namespace) -> list[Job]:
    """Return the fits that are asked for and possible; models without their library are named and left out."""
    device = options.device
    absent = [model for model in options.models if model in PEERS and not PEERS[model].is_installed]
    for model in absent:
        print(f"{model} is skipped: {PEERS[model].package} is not installed.")
    return [
        Job(table, model, fold, device, options.alone)
        for fold in options.folds
        for model in options.models
        if model not in absent
        for table in options.tables
    ]


def mean_of_bags(out: Path) -> int:
    """Add the mean of the bags of LightGBM and CatBoost wherever both have predictions; return how many."""
    lines = [line for line in read_lines(out) if "failed" not in line]
    by_key = {(line["model"], line["table"], line["fold"]): line for line in lines}
    added = 0
    for model, table, fold in sorted(by_key):
        bags = [by_key.get((f"{name}_bag", table, fold)) for name in ("lightgbm", "catboost")]
        if model != "lightgbm_bag" or None in bags or (MEAN_OF_BAGS, table, fold) in by_key:
            continue
        paths = [Job(table, line["model"], fold, "cpu", line["alone"]).predictions for line in bags if line]
        if not all(path.exists() for path in paths):
            continue
        parts = [np.load(path) for path in paths]
        first, second = (line for line in bags if line)
        predicted = (parts[0]["predicted"] + parts[1]["predicted"]) / 2
        line = {
            **{name: first[name] for name in ("table", "fold", "device", "task", "rows")},
            "model": MEAN_OF_BAGS,
            "alone": first["alone"] and second["alone"],
            **measures(first["task"], parts[0]["target"], predicted),
            **{name: round(first[name] + second[name], 4) for name in ("seconds", "predict_seconds", "n_models")},
            "versions": {**first["versions"], **second["versions"]},
        }
        append(out, line)
        added += 1
    return added


def import_peers(out: Path, path: Path) -> None:
    """Add results of other machines, if there is none in the folder, as lines with ``source: "peers"``."""
    keys = ("table", "model", "fold")
    known = {tuple(line[key] for key in keys) for line in read_lines(out)}
    for row in pd.read_csv(path).to_dict("records"):
        if tuple(row[key] for key in keys) not in known:
            device = "NVIDIA H200" if PEERS[row["model"]].on_gpu else "2 CPU cores"
            append(out, {**row, "device": device, "alone": False, "source": "peers"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    groups = {"untouched": list(UNTOUCHED), "used": [name for name in ALL_TABLES if name not in UNTOUCHED]}
    parser.add_argument("--out", type=Path, help="folder of the results; by default that of the device")
    parser.add_argument("--models", nargs="+", choices=MODELS, help="by default all")
    parser.add_argument(
        "--tables", nargs="+", choices=(*ALL_TABLES, *groups), metavar="TABLE", help='names, "untouched" or "used"'
    )
    parser.add_argument("--folds", nargs="+", type=int, choices=range(FOLDS), default=[0, 1, 2])
    parser.add_argument("--device", default="cpu", help="of the networks; boosting and AutoGluon run on the CPU")
    parser.add_argument("--processes", type=int, default=1, help="fits at once, for scores only")
    parser.add_argument("--alone", action="store_true", help="nothing else runs on this machine: seconds count")
    parser.add_argument("--lock", type=Path, help="a file that others lock, too: fits hold its lock (flock)")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a fit has failed")
    parser.add_argument("--again", action="store_true", help="try failed fits again")
    parser.add_argument("--import-peers", type=Path, metavar="CSV", help="add results of other machines, fit nothing")
    parser.add_argument("--page", action="store_true", help="print the page of existing results, fit nothing")
    parser.add_argument("--write", action="store_true", help="write the pages of existing results, fit nothing")
    options = parser.parse_args()
    if (options.alone or options.lock) and options.processes > 1:
        parser.error("--alone and --lock need --processes 1: fits at once disturb each other's seconds.")
    on_gpu = options.device.startswith("cuda")
    asked = options.tables or (list(TABLES) if on_gpu else ["untouched", "used"])
    options.models = options.models or list(MODELS if on_gpu else MODELS_ON_CPU)
    options.tables = [name for each in asked for name in groups.get(each, [each])]
    out = options.out or (RESULTS if on_gpu else RESULTS_ON_CPU)
    if options.import_peers:
        import_peers(out, options.import_peers)
    elif options.page:
        print(page(read(RESULTS), read(RESULTS_ON_CPU)))
    elif options.write:
        write_sections()
    else:
        failures = run(out, plan(options), options)
        print(f"{mean_of_bags(out)} means of two bags added.")
        sys.exit(min(failures, 1))


if __name__ == "__main__":
    main()
