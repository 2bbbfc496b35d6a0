"""How fast the encoders are: ratios to their peers, and to the time of writing the output once.

Run it where the library and ``benchmarks/requirements.txt`` are installed; a peer that is missing is named, and left
out::

    python benchmarks/encode.py              # everything but streaming, a few minutes on two cores
    python benchmarks/encode.py --quick      # the same with smaller tables, less than a minute
    python benchmarks/encode.py --streaming  # only streaming: a Parquet file of ten million rows, in bounded memory

Results are tables in Markdown, with ``--out FILE`` also in a file. Competitors take turns, so that a change of the
machine's speed meets all alike, and the release of a result is not timed. Everyone gets the same values. Ratios are of
the time per value, so a slow peer may be given fewer rows; "times faster" below 1 is slower. "The limit" is the time of
``np.empty`` and ``fill(0)`` for an output of the same size in float32, in one thread; for sparse output, for the three
arrays of a CSR array with as many entries. Each section ends with what other processes took of the machine meanwhile:
much more than nothing means that its times are to be taken again.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.interpolate import BSpline
from sklearn.preprocessing import SplineTransformer

import knotwork as kw

try:
    import pretab
    from pretab import transformers as pretab_transformers
except ImportError:
    pretab = None
try:
    import rtdl_num_embeddings
    import torch
except ImportError:
    rtdl_num_embeddings = None

SPLINES = {"bspline": "B-spline", "mspline": "M-spline", "ispline": "I-spline"}
LABELS = {**SPLINES, "ple": "PLE", "any": "all"}
OURS, LIMIT = "knotwork", "the limit"
PRETAB_MOST = 50  # columns per feature that PreTab's splines take
MIB = 2**20


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rows: int = 200_000
    sizes: tuple[int, ...] = (7, 30, 100)
    pretab_rows: int = 50_000
    growth_rows: tuple[tuple[int, int], ...] = ((10_000, 10), (100_000, 10), (1_000_000, 10), (10_000_000, 1))
    growth_sizes: tuple[int, ...] = (7, 15, 30, 60, 100)
    fresh: int = 3
    stream_rows: int = 10_000_000


QUICK = Plan(20_000, (7, 30), 4_000, ((10_000, 10), (100_000, 10)), (7, 30), fresh=1, stream_rows=500_000)


@dataclass(frozen=True)
class Entry:
    """Something to be timed: what it computes, who computes it, and which of our results it is compared with."""

    what: str
    name: str
    call: Callable[[], object]
    n_rows: int
    repeats: int
    against: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Times of an entry, in seconds."""

    entry: Entry
    seconds: list[float]

    @property
    def median(self) -> float:
        """Median of the repetitions."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The fastest repetition."""
        return min(self.seconds)

    def over(self, other: "Timing") -> tuple[float, float]:
        """Return how many times the time of `other` this took per row: by medians, and by the fastest."""
        share = other.entry.n_rows / self.entry.n_rows
        return share * self.median / other.median, share * self.best / other.best


class Report:
    """Markdown that is printed as it grows, and kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        """Add a paragraph."""
        block = [*lines, ""]
        self.lines.extend(block)
        print(*block, sep="\n", flush=True)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[object]], n_left: int = 1) -> None:
        """Add a table whose first `n_left` columns are text and the others numbers."""
        rule = [":--" if index < n_left else "--:" for index in range(len(header))]
        self.say(*("| " + " | ".join(map(str, row)) + " |" for row in (header, rule, *rows)))


def race(entries: Sequence[Entry]) -> list[Timing]:
    """Time all entries in turn, after one call of each that is not timed."""
    timings = [Timing(entry, []) for entry in entries]
    for entry in entries:
        entry.call()
    rounds = max(entry.repeats for entry in entries)
    for turn in range(rounds):
        for timing in timings:
            if turn * timing.entry.repeats % rounds < timing.entry.repeats:  # fewer repetitions are spread evenly
                start = time.perf_counter()
                result = timing.entry.call()
                timing.seconds.append(time.perf_counter() - start)
                del result
    return timings


def pair(ratios: tuple[float, float]) -> str:
    return " / ".join(f"{ratio:.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}" for ratio in ratios)


def show(report: Report, timings: Sequence[Timing], n_columns: int, labels: dict[str, str]) -> None:
    """Write a table of times, and one of ratios with a column for each of our entries."""
    limits = {timing.entry.what: timing for timing in timings if timing.entry.name == LIMIT}
    rows = []
    for timing in timings:
        entry, limit = timing.entry, limits.get(timing.entry.what, limits.get("any"))
        speed = entry.n_rows * n_columns / timing.median / 1e6
        times = [f"{1e3 * timing.median:.1f}", f"{1e3 * timing.best:.1f}", f"{speed:.2f}"]
        beyond = [pair(timing.over(limit)) if limit else ""] if limits else []
        rows.append([entry.name, labels[entry.what], f"{entry.n_rows:,}", len(timing.seconds), *times, *beyond])
    header = ["", "what", "rows", "repetitions", "median ms", "best ms", "million values/s"]
    report.table([*header, "times the limit (median / best)"] if limits else header, rows, n_left=2)

    ours = [timing for timing in timings if timing.entry.name == OURS]
    peers = [timing for timing in timings if timing.entry.against]
    rows = []
    for peer in peers:
        cells = [pair(peer.over(own)) if own.entry.what in peer.entry.against else "" for own in ours]
        rows.append([f"{peer.entry.name}, {labels[peer.entry.what]}", *cells])
    names = [f"{OURS} {labels[own.entry.what]}" for own in ours]
    report.table(["times faster than (median / best)", *names], rows)


def normal(n_rows: int, n_columns: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n_rows, n_columns)).astype(dtype)


def target(X: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal(len(X))
    return np.sin(3.0 * X).sum(axis=1) + np.abs(X[:, 0]) * X[:, -1] + 0.5 * noise


def our_encoder(family: str, size: int, **settings: Any) -> Any:
    if family == "ple":
        return kw.PiecewiseLinearEncoder(size, placement="quantile", **settings)
    return kw.SplineEncoder(family, size, placement="quantile", **settings)


def fill(*arrays: tuple[Any, Any]) -> list[np.ndarray]:
    """Return arrays of the given shapes and types, written once."""
    filled = []
    for shape, dtype in arrays:
        array = np.empty(shape, dtype)
        array.fill(0)
        filled.append(array)
    return filled


def check_same(ours: Any, theirs: Any) -> None:
    """Stop if two encodings of the same values on the same knots differ by more than float32 explains."""
    difference = np.abs(np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)).max()
    if difference > 1e-4:
        raise AssertionError(f"a peer on the same knots must compute the same, but differs by {difference}")


def our_entries(X: np.ndarray, size: int, families: Sequence[str], **settings: Any) -> list[Entry]:
    entries = []
    for family in families:
        encoder = our_encoder(family, size, **settings).fit(X)
        entries.append(Entry(family, OURS, partial(encoder.transform, X), len(X), 15))
    return entries


def sklearn_entry(X: np.ndarray, size: int, *, sparse_output: bool = False) -> Entry:
    settings = {"knots": "quantile", "extrapolation": "constant", "sparse_output": sparse_output}
    encoder = SplineTransformer(n_knots=size - 2, **settings).fit(X)
    return Entry("bspline", "SplineTransformer", partial(encoder.transform, X), len(X), 7, tuple(SPLINES))


def scipy_entry(X: np.ndarray, size: int) -> Entry:
    """Return one CSR array per column, which are not stacked."""
    fitted = our_encoder("bspline", size).fit(X)
    ends, n_columns = fitted.domain_, X.shape[1]
    knots = [np.concatenate(([low] * 4, fitted.knots_[j], [high] * 4)) for j, (low, high) in enumerate(ends)]

    def encode(n_rows: int | None = None) -> list[Any]:
        return [BSpline.design_matrix(X[:n_rows, j], knots[j], 3) for j in range(n_columns)]

    check_same(fitted.transform(X[:1000]), np.hstack([part.toarray() for part in encode(1000)]))
    return Entry("bspline", "design_matrix (sparse)", encode, len(X), 7, tuple(SPLINES))


def rtdl_entry(X: np.ndarray, size: int) -> Entry:
    fitted = our_encoder("ple", size).fit(X)
    ends = fitted.domain_
    bins = [np.concatenate(([low], fitted.knots_[j], [high])) for j, (low, high) in enumerate(ends)]
    encoder = rtdl_num_embeddings.PiecewiseLinearEncoding([torch.tensor(edges, dtype=torch.float32) for edges in bins])
    values = torch.from_numpy(X.astype(np.float32))
    check_same(fitted.transform(X[:1000]), encoder(values[:1000]))
    return Entry("ple", "rtdl_num_embeddings", partial(encoder, values), len(X), 7, ("ple",))


def pretab_entries(X: np.ndarray, size: int, families: Sequence[str], n_rows: int) -> list[Entry]:
    names = {"bspline": "BSpline", "mspline": "MSpline", "ispline": "ISpline", "ple": "PLE"}
    part, entries = X[:n_rows], []
    for family in families:
        if family == "ple" or size <= PRETAB_MOST:
            encoder = getattr(pretab_transformers, f"{names[family]}Transformer")(output_dim=size).fit(X, target(X))
            entries.append(Entry(family, "PreTab", partial(encoder.transform, part), len(part), 3, (family,)))
    return entries


def dense(report: Report, plan: Plan) -> None:
    cases = [(size, np.float32) for size in plan.sizes] + [(30, np.float64)]
    for size, dtype in cases:
        X = normal(plan.rows, 10, dtype)
        all_of = list(LABELS)[:4] if dtype == np.float32 else list(SPLINES)
        entries = [*our_entries(X, size, all_of), sklearn_entry(X, size), scipy_entry(X, size)]
        if rtdl_num_embeddings is not None and "ple" in all_of:
            entries.append(rtdl_entry(X, size))
        if pretab is not None and dtype == np.float32:
            entries += pretab_entries(X, size, all_of, plan.pretab_rows)
        entries.append(Entry("any", LIMIT, partial(fill, ((len(X), 10 * size), np.float32)), len(X), 15))
        report.say(f"### Dense, {plan.rows:,} x 10 values in {np.dtype(dtype).name}, m = {size}")
        if dtype == np.float64:
            report.say("Splines again with the input in float64: SplineTransformer then writes float64.")
        if pretab is not None and size > PRETAB_MOST:
            report.say(f"PreTab: its splines take at most {PRETAB_MOST} columns per feature, left out here.")
        show(report, race(entries), 10, LABELS)


def sparse(report: Report, plan: Plan) -> None:
    X = normal(plan.rows, 10)
    for size in plan.sizes:
        families = ("bspline", "ispline")
        ours = our_entries(X, size, families, sparse_output=True)
        limits = []
        for family in families:
            n_entries = our_encoder(family, size, sparse_output=True).fit_transform(X).nnz
            arrays = ((n_entries, np.float32), (n_entries, np.int32), (len(X) + 1, np.int32))
            limits.append(Entry(family, LIMIT, partial(fill, *arrays), len(X), 15))
        peers = [sklearn_entry(X, size, sparse_output=True), scipy_entry(X, size)]
        report.say(f"### Sparse, {plan.rows:,} x 10 values in float32, m = {size}")
        show(report, race(ours + peers + limits), 10, LABELS)


def fits(report: Report, plan: Plan) -> None:
    X = normal(plan.rows, 10)
    y, entries = target(X), []
    for placement in ("uniform", "quantile", "cart", "lgbm"):
        supervised = placement in ("cart", "lgbm")
        repeats = 3 if supervised else 7
        own = kw.SplineEncoder("bspline", 30, placement=placement)
        entries.append(Entry(placement, OURS, partial(own.fit, X, y), len(X), repeats))
        if not supervised:
            peer = SplineTransformer(n_knots=28, knots=placement)
            entries.append(Entry(placement, "SplineTransformer", partial(peer.fit, X), len(X), repeats, (placement,)))
        if pretab is not None:
            name = "lightgbm" if placement == "lgbm" else placement
            other = pretab_transformers.BSplineTransformer(
                30, target_aware=supervised, placement_strategy=name, task="regression"
            )
            entries.append(Entry(placement, "PreTab", partial(other.fit, X, y), len(X), repeats, (placement,)))
    report.say(f"### Fit of B-splines, {plan.rows:,} x 10 values in float32, m = 30")
    show(report, race(entries), 10, {entry.what: entry.what for entry in entries})


def growth(report: Report, plan: Plan) -> None:
    n_values = 10 * plan.rows
    cases = {
        "n, at m = 30": [(n, d, 30) for n, d in plan.growth_rows],
        "d, at constant n d and m = 30": [(n_values // d, d, 30) for d in (1, 10, 100)],
        "m": [(plan.rows, 10, size) for size in plan.growth_sizes],
    }
    report.say("### Growth of the dense transform")
    for what, shapes in cases.items():
        rows = []
        for n, d, size in shapes:
            X, entries = normal(n, d), []
            for family in ("bspline", "ispline"):
                encoder = our_encoder(family, size).fit(X[:100_000])
                entries.append(Entry(family, OURS, partial(encoder.transform, X), n, 7))
            entries.append(Entry("any", LIMIT, partial(fill, ((n, d * size), np.float32)), n, 7))
            *own, limit = race(entries)
            cells = [f"{1e9 * timing.median / (n * d):.1f}" for timing in own]
            beyond = [pair(timing.over(limit)) for timing in own]
            rows.append([f"{n:,}", d, size, f"{n * d * size * 4 / MIB:,.0f}", *cells, *beyond])
        header = ["n", "d", "m", "output MiB", "B-spline ns/value", "I-spline ns/value"]
        report.say(f"With {what} (medians of 7):")
        report.table([*header, "B: times the limit (median / best)", "I: times the limit (median / best)"], rows, 0)


MEMORY = """
import json, re, sys
import numpy as np
import knotwork as kw
from sklearn.preprocessing import SplineTransformer

def kib(field):
    return int(re.search(rf"{field}:\\s+(\\d+)", open("/proc/self/status").read())[1])

n_rows = int(sys.argv[2])
X = np.random.default_rng(0).standard_normal((n_rows, 10)).astype(np.float32)
encoder = eval(sys.argv[1]).fit(X[:1000])
encoder.transform(X[:1000])
open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
before = kib("VmRSS")
out = encoder.transform(X)
print(json.dumps({"before": before / 1024, "peak": kib("VmHWM") / 1024, "output": out.nbytes / 2**20}))
"""

FIRST_CALL = """
import json, sys, time
import numpy as np

X = np.random.default_rng(0).standard_normal((1000, 10))
times = [time.perf_counter()]
import knotwork as kw
times.append(time.perf_counter())
encoder = eval(sys.argv[1]).fit(X)
times.append(time.perf_counter())
encoder.transform(X)
times.append(time.perf_counter())
encoder.transform(X)
times.append(time.perf_counter())
print(json.dumps(np.diff(times).tolist()))
"""

STREAM = """
import json, re, sys, time
import pyarrow.parquet as pq
import knotwork as kw

def mib(field):
    return int(re.search(rf"{field}:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def batches():
    return pq.ParquetFile(sys.argv[1]).iter_batches(batch_size=100_000)

loaded = mib("VmRSS")
n_rows = sum(batch.num_rows for batch in batches())  # once before anything is timed
times, peaks = [time.perf_counter()], [loaded]

def step():
    times.append(time.perf_counter())
    peaks.append(mib("VmHWM"))

assert n_rows == sum(batch.num_rows for batch in batches())
step()
encoder = kw.SplineEncoder(size=15).fit(batches())
step()
assert n_rows == sum(encoder.transform(batch).shape[0] for batch in batches())
step()
print(json.dumps([times, peaks]))
"""


def fresh(script: str, *arguments: object, **environment: str) -> Any:
    """Run a script in a process of its own and return what it prints."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"a measuring process failed:\n{done.stderr}")
    return json.loads(done.stdout)


def memory(report: Report, plan: Plan) -> None:
    encoders = [f"kw.SplineEncoder({family!r}, 30)" for family in SPLINES]
    encoders.append("kw.PiecewiseLinearEncoder(30, placement='quantile')")
    encoders.append("SplineTransformer(n_knots=28, knots='quantile')")
    rows = []
    for encoder in encoders if plan.fresh > 1 else encoders[::4]:
        result = fresh(MEMORY, encoder, plan.rows)
        output = result["output"]
        extra = result["peak"] - result["before"] - output
        numbers = [f"{number:.1f}" for number in (output, result["before"], result["peak"], extra)]
        rows.append([f"`{encoder}`", *numbers, f"{100 * extra / output:.1f} %"])
    report.say(f"### Peak memory of the dense transform, {plan.rows:,} x 10 values in float32, m = 30")
    header = ["", "output MiB", "before MiB", "peak MiB", "beyond the output MiB", "of the output"]
    report.say('Resident memory of a fresh process; compiled before; "before" holds the input.')
    report.table(header, rows)


def first_call(report: Report, plan: Plan) -> None:
    encoders = ["kw.SplineEncoder()", "kw.SplineEncoder('ispline')", "kw.PiecewiseLinearEncoder(placement='quantile')"]
    encoders.append("kw.SplineEncoder(sparse_output=True)")
    rows = []
    for encoder in encoders if plan.fresh > 1 else encoders[:1]:
        results: dict[str, list[list[float]]] = {"empty": [], "warm": []}
        for _ in range(plan.fresh):
            with tempfile.TemporaryDirectory() as folder:
                for times in results.values():
                    start = time.perf_counter()
                    parts = fresh(FIRST_CALL, encoder, NUMBA_CACHE_DIR=folder)
                    times.append([time.perf_counter() - start, *parts])
                if not any(Path(folder).rglob("*.nbi")):
                    raise AssertionError("the compiled code must have been kept in the cache that was given")
        for cache, times in results.items():
            medians = [statistics.median(parts) for parts in zip(*times, strict=True)]
            worst = max(parts[3] for parts in times)
            rows.append([f"`{encoder}`", cache, *(f"{seconds:.3f}" for seconds in (*medians, worst))])
    report.say(f"### First call in a fresh process, 1,000 x 10 values (medians of {plan.fresh})")
    header = ["", "numba's cache", "whole process s", "import s", "fit s", "first transform s", "second transform s"]
    report.table([*header, "slowest first transform s"], rows, n_left=2)


def write_parquet(path: Path, n_rows: int, piece: int = 250_000) -> None:
    schema = pa.schema([(f"x{j}", pa.float64()) for j in range(10)])
    random = np.random.default_rng(0)
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, piece):
            values = random.standard_normal((10, min(piece, n_rows - start)))
            writer.write_table(pa.table(list(values), schema=schema))


def streaming(report: Report, plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_parquet(path, plan.stream_rows)
        size = path.stat().st_size / MIB
        times, (loaded, *peaks) = fresh(STREAM, path)
    report.say(f"### Streaming a Parquet file of {plan.stream_rows:,} x 10 values in float64, {size:,.0f} MiB, m = 15")
    report.say(f"One fresh process, batches of 100,000 rows; {loaded:.0f} MiB are resident before the first batch.")
    seconds = np.diff(times)
    rows = [
        [step, f"{s:.2f}", f"{plan.stream_rows / 1e5 / s:.1f}", f"{s / seconds[0]:.2f}", f"{peak:.0f}"]
        for step, s, peak in zip(("reading alone", "fit", "transform every batch"), seconds, peaks, strict=True)
    ]
    report.table(["", "seconds", "million values/s", "times reading alone", "peak MiB so far"], rows)


def version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} not installed"


def git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def heading(report: Report) -> None:
    """Write down when, on what and with what is measured."""
    found = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    cpu = found[0].split(":")[1].strip() if found else platform.processor()
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
        report.say("PreTab: not installed, left out")
    if rtdl_num_embeddings is None:
        report.say("rtdl_num_embeddings: not installed, left out")


def cpu_seconds() -> tuple[float, float]:
    """Return the processor time that this program and its finished children used, and that all processes used."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    ticks = dict(zip(names, map(int, Path("/proc/stat").read_text().split()[1:9]), strict=True))
    total = sum(ticks.values()) - ticks["idle"] - ticks["iowait"]
    return sum(os.times()[:4]), total / os.sysconf("SC_CLK_TCK")


def measure(report: Report, plan: Plan, section: Callable[[Report, Plan], None]) -> None:
    """Run a section, and say how much others used the machine meanwhile."""
    start, (own, total) = time.perf_counter(), cpu_seconds()
    section(report, plan)
    own_end, total_end = cpu_seconds()
    seconds = time.perf_counter() - start
    others = max((total_end - total) - (own_end - own), 0.0) / (seconds * (os.cpu_count() or 1))
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
