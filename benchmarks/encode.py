"""Speed of the encoders, as ratios to other libraries and to the time of writing the output once.

Needs the library and ``benchmarks/requirements.txt``; a library that is not installed is named and skipped::

    python benchmarks/encode.py              # everything except streaming, a few minutes on two cores
    python benchmarks/encode.py --quick      # the same with smaller tables, less than a minute
    python benchmarks/encode.py --streaming  # only streaming: a Parquet file of ten million rows, in bounded memory

Results are tables in Markdown, with ``--out FILE`` also in a file. All libraries get the same values and take turns, so
that a change of the machine's speed affects all of them; freeing a result is not timed. Ratios are of the time per
value, so slow libraries get fewer rows; "times faster" below 1 is slower. "The limit" is the time of ``np.empty`` and
``fill(0)`` for an output of the same size in float32, in one thread; for sparse output, for the three arrays of a CSR
array with as many entries. Each section ends with the share of the machine that other processes used: if it is large,
measure again.
"""

import argparse
import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from encode_processes import first_call, memory, streaming
from encode_racing import QUICK, Plan, Report
from encode_speed import dense, fits, growth, pretab, rtdl_num_embeddings, sparse


def version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} not installed"


def git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def heading(report: Report) -> None:
    """Write the date, the machine and the versions."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = models[0].split(":")[1].strip() if models else platform.processor()
    packages = ["knotwork", "numpy", "numba", "scipy", "scikit-learn", "lightgbm", "pyarrow", "pandas", "torch"]
    packages += ["pretab", "rtdl_num_embeddings"]
    changed = " with changes in src" if git("status", "--porcelain", "--", "../src") else ""
    report.say("# Encoders: speed and memory")
    report.say(
        f"- Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"- CPU: {cpu}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.2f} at the start",
        f"- Python {platform.python_version()}, {', '.join(map(version, packages))}",
        f"- Commit: {git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}",
        f"- Command: python {' '.join(sys.argv)}",
    )
    if pretab is None:
        report.say("PreTab: not installed, skipped")
    if rtdl_num_embeddings is None:
        report.say("rtdl_num_embeddings: not installed, skipped")


def cpu_seconds() -> tuple[float, float]:
    """Return the processor time that this program and its finished children used, and that all processes used."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    ticks = dict(zip(names, map(int, Path("/proc/stat").read_text().split()[1:9]), strict=True))
    total = sum(ticks.values()) - ticks["idle"] - ticks["iowait"]
    return sum(os.times()[:4]), total / os.sysconf("SC_CLK_TCK")


def measure(report: Report, plan: Plan, section: Callable[[Report, Plan], None]) -> None:
    """Run a section, and report how much other processes used the machine meanwhile."""
    start, (ours, total) = time.perf_counter(), cpu_seconds()
    section(report, plan)
    ours_end, total_end = cpu_seconds()
    seconds = time.perf_counter() - start
    others = max((total_end - total) - (ours_end - ours), 0.0) / (seconds * (os.cpu_count() or 1))
    report.say(f"Measured in {seconds:.0f} s, while other processes took {100 * others:.0f} % of the machine.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller tables")
    parser.add_argument("--streaming", action="store_true", help="only streaming from a Parquet file")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the Markdown to this file")
    options = parser.parse_args()
    if pretab is not None:
        warnings.simplefilter("ignore", pretab.LeakageWarning)
    plan, report = QUICK if options.quick else Plan(), Report()
    heading(report)
    sections = [streaming] if options.streaming else [dense, sparse, fits, growth, memory, first_call]
    for section in sections:
        measure(report, plan, section)
    if options.out:
        options.out.write_text("\n".join(report.lines))


if __name__ == "__main__":
    main()
