"""Quality of the estimators' predictions, compared with gradient boosting and the networks of other libraries.

    python benchmarks/quality.py                                      everything that is missing and installed
    python benchmarks/quality.py --models tabm balanced --device cuda some models; also --tables, --folds
    python benchmarks/quality.py --alone                              seconds too: nothing else runs on the machine
    python benchmarks/quality.py --processes 8                        scores of several fits at once
    python benchmarks/quality.py --import-peers quality_peers.csv     results of other machines
    python benchmarks/quality.py --page                               print the page of the existing results
    python benchmarks/quality.py --write                              write it into README, guide and benchmarks

All models are fitted on the five folds of the study, on its 25 tables (KNOTWORK_DATA). Models of other libraries have
their defaults, are trained on the training rows, and stop early on the validation rows, a tenth of the others. Our
models get both together, since they hold out rows themselves. Test rows are used for scores only. The score is NRMSE
(RMSE over the standard deviation of the test target) or AUC (weighted one against the rest).

Every result is a line in the file of its model, with the seconds of a complete fit and of the prediction of the test
rows. A model whose library is not installed is skipped, and the run says so. A second run fits only missing results: a
result counts as missing if there is no line of the same kind of device, or, with ``--alone``, none that was measured
alone. With ``--alone`` the first fit of each model is done twice, so that seconds do not contain compilation.
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from quality_data import EFFORTS, FOLDS, TABLES, Fold, append, load_fold, read_lines, score
from quality_peers import PEERS, Predict
from quality_table import page, read, write_sections

import knotwork as kw

MODELS = (*PEERS, *EFFORTS)
RESULTS = Path(__file__).parent / "quality"


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
        return self.device.startswith("cuda") and (self.model in EFFORTS or PEERS[self.model].on_gpu)

    def is_done_by(self, line: dict[str, Any]) -> bool:
        """Return whether a result makes this fit unnecessary."""
        same = (line["table"], line["model"], line["fold"]) == (self.table, self.model, self.fold)
        measured = line["alone"] or not self.alone
        return same and measured and "source" not in line and ("CPU" in line["device"]) != self.is_on_gpu


def fit_ours(effort: str, fold: Fold, device: str) -> Predict:
    """Fit an estimator; it holds out rows for validation itself."""
    kind = kw.TabularRegressor if fold.is_regression else kw.TabularClassifier
    model = kind(effort=effort, random_state=fold.split.seed, device=device).fit(*fold.rows("train+valid"))
    return model.predict if fold.is_regression else model.predict_proba


def machine(job: Job) -> str:
    """Return the name of the device that fits a model."""
    return torch.cuda.get_device_name() if job.is_on_gpu else f"{len(os.sched_getaffinity(0))} CPU cores"


def measure(job: Job, fold: Fold) -> dict[str, Any]:
    """Fit and predict, and return the line of the result."""
    began = time.perf_counter()
    fit = partial(fit_ours, job.model) if job.model in EFFORTS else PEERS[job.model].fit
    predict = fit(fold, job.device)
    fitted = time.perf_counter()
    frame, target = fold.rows("test")
    predicted = predict(frame)
    ended = time.perf_counter()
    packages = ("torch", "knotwork" if job.model in EFFORTS else PEERS[job.model].package)
    return {
        "table": job.table,
        "task": fold.data.task,
        "model": job.model,
        "fold": job.fold,
        "score": score(fold.data.task, target, predicted),
        "seconds": round(fitted - began, 3),
        "predict_seconds": round(ended - fitted, 4),
        "device": machine(job),
        "alone": job.alone,
        "versions": {name: kw.__version__ if name == "knotwork" else version(name) for name in packages},
    }


def attempt(job: Job) -> dict[str, Any] | str:
    """Return the line of a result, or the traceback of a failure."""
    try:
        return measure(job, load_fold(job.table, job.fold))
    except Exception:  # one failed fit must not end a run of hours; the run reports it and exits with 1
        return traceback.format_exc()


def results(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, dict[str, Any] | str]]:
    """Yield the results of all jobs as they come."""
    if processes > 1:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(attempt, job): job for job in jobs}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        return
    warm = set()
    for job in jobs:
        if job.alone and job.model not in warm:
            attempt(job)
            warm.add(job.model)
        yield job, attempt(job)


def run(out: Path, jobs: Sequence[Job], processes: int) -> int:
    """Fit what is missing, and return the number of failures."""
    lines = list(read_lines(out))
    missing = [job for job in jobs if not any(job.is_done_by(line) for line in lines)]
    print(f"{len(jobs) - len(missing)} of {len(jobs)} results exist.", flush=True)
    failures = 0
    for job, result in results(missing, processes):
        if isinstance(result, str):
            failures += 1
            print(f"{job} failed:\n{result}", file=sys.stderr, flush=True)
        else:
            append(out, result)
            print(*(result[name] for name in ("table", "model", "fold", "score", "seconds")), flush=True)
    return failures


def plan(options: argparse.Namespace) -> list[Job]:
    """Return the fits that are asked for and possible; models without their library are named and left out."""
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    absent = [model for model in options.models if model in PEERS and not PEERS[model].is_installed]
    for model in absent:
        print(f"{model} is skipped: {PEERS[model].package} is not installed.")
    return [
        Job(table, model, fold, device, options.alone)
        for model in options.models
        if model not in absent
        for fold in options.folds
        for table in options.tables
    ]


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
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--folds", nargs="+", type=int, choices=range(FOLDS), default=list(range(FOLDS)))
    parser.add_argument("--device", default="auto", help="of the networks; boosting runs on the CPU")
    parser.add_argument("--processes", type=int, default=1, help="fits at once, for scores only")
    parser.add_argument("--alone", action="store_true", help="nothing else runs on this machine: seconds count")
    parser.add_argument("--import-peers", type=Path, metavar="CSV", help="add results of other machines, fit nothing")
    parser.add_argument("--page", action="store_true", help="print the page of existing results, fit nothing")
    parser.add_argument("--write", action="store_true", help="write the pages of existing results, fit nothing")
    options = parser.parse_args()
    if options.alone and options.processes > 1:
        parser.error("--alone needs --processes 1: fits at once disturb each other's seconds.")
    if options.import_peers:
        import_peers(options.out, options.import_peers)
    elif options.page:
        print(page(read(options.out)))
    elif options.write:
        write_sections(options.out)
    else:
        sys.exit(min(run(options.out, plan(options), options.processes), 1))


if __name__ == "__main__":
    main()
