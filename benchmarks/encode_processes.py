"""Measurements of encoders in fresh processes: peak memory, the first call, and streaming from a Parquet file."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from encode_racing import MIB, SPLINES, Plan, Report

__all__ = ["first_call", "memory", "streaming"]

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
    """Run a script in a new process and return its output."""
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
