"""Train plans in a folder of a study for a limited time, in several processes; run again to go on.

    python results/timed_run.py interactions:1 converged:1 interactions --study DIR --out DIR --seconds 300

`interactions:1` are the first folds of a plan: all tables have one before any has a second. What has been recorded,
with the records of earlier calls in the folder, is written to `records.tar` in `--out` every few seconds, so that a run
may be killed. Two processes begin with the first plan, two with the second, and so on.
"""

import argparse
import multiprocessing
import tarfile
import time
from dataclasses import replace
from pathlib import Path

EVERY = 20.0
"""Seconds between two archives."""

START = 6.0
"""Seconds before the second process starts: the first one writes manifests and compiles kernels."""


def train(jobs: list[str], study: Path, device: str, log: Path) -> None:
    """Train plans one after the other; `jobs` are their names, with the number of folds behind a colon if not all."""
    import torch  # noqa: PLC0415 - only in the processes that train

    from knotwork.study import load_plan, run  # noqa: PLC0415

    torch.set_num_threads(2)
    with log.open("w") as file:

        def say(sentence: str) -> None:
            print(time.strftime("%X"), sentence, file=file, flush=True)

        for job in jobs:
            name, _, folds = job.partition(":")
            plan = load_plan(name)
            plan = replace(plan, first_folds=int(folds)) if folds else plan
            say(f"{job}: {run(plan, study, device=device, n_jobs=1, report=say)}")


def archive(study: Path, out: Path, before: set[Path]) -> int:
    """Write the new records and the plans of a folder to an archive, and return the number of records."""
    records = [path for path in (study / "records").glob("*.parquet") if path not in before]
    with tarfile.open(out / "records.part", "w") as tar:
        for path in (*records, *(study / "plans").glob("*.json")):
            if not path.name.startswith("."):
                tar.add(path, path.relative_to(study))
    (out / "records.part").rename(out / "records.tar")
    return len(records)


def main() -> None:
    """Read the arguments, train, and write the archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="+", help="plans, with a number of folds behind a colon if not all")
    parser.add_argument("--study", type=Path, required=True, help="folder of the study")
    parser.add_argument("--out", type=Path, required=True, help="folder of the archive and the logs")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    began, jobs = time.monotonic(), options.jobs
    for folder in (options.out, options.study / "records", options.study / "plans"):
        folder.mkdir(parents=True, exist_ok=True)
    before = {path for path in (options.study / "records").glob("*.parquet") if path.name.startswith("paper-")}
    context, processes = multiprocessing.get_context("spawn"), []
    for place in range(options.processes):
        first = place // 2 % len(jobs)
        log = options.out / f"process{place}.log"
        arguments = ([*jobs[first:], *jobs[:first]], options.study, options.device, log)
        processes.append(context.Process(target=train, args=arguments, daemon=True))
        processes[-1].start()
        time.sleep(min(START, options.seconds / 20) if place == 0 else 0.0)
    saved = began
    while any(process.is_alive() for process in processes) and time.monotonic() - began < options.seconds:
        time.sleep(0.5)
        if time.monotonic() - saved > EVERY:
            saved = time.monotonic()
            print(f"{saved - began:.0f} s: {archive(options.study, options.out, before)} records", flush=True)
    for process in processes:
        process.kill()
        process.join()
    count = archive(options.study, options.out, before)
    print(f"{time.monotonic() - began:.0f} s: {count} records, codes {[process.exitcode for process in processes]}")


if __name__ == "__main__":
    main()
