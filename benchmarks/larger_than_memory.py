"""Fit a network to a table larger than memory, and compare its speed and memory with those of a table in memory.

    python benchmarks/larger_than_memory.py --rows 10_000_000 [--device cpu] [--out DIR]
    python benchmarks/larger_than_memory.py --rows 100_000_000 --device cuda --out DIR

A seeded generator writes Parquet files of 19 numerical columns, one of them with missing values, a column of text with
12 categories, and a target; several processes write them. Then two processes, one after the other, train the same
network (PLE of 16 quantile bins, an MLP, batches of 4,096 rows) with the same settings: one on the files for one pass
over all rows, `fit(pyarrow.dataset.dataset(folder), "target")`, and one on the first rows as a table in memory, which
is copied to the GPU once. "Rows/s" is the number of rows of a chunk, or of an epoch of the table in memory, divided by
the median time of one, validation included; the first one, in which code is compiled, is left out. Peak memory is
`VmHWM` of the process, which includes the libraries (stated as well) and pinned memory, not the system's file cache.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

N_NUMBERS, FILE_ROWS, GROUP_ROWS = 19, 2_000_000, 1 << 17
CATEGORIES = np.array([f"kind {letter}" for letter in "abcdefghijkl"])
TEST_FILE = "test.parquet"


def write_file(path: Path, n_rows: int, number: int) -> None:
    """Write rows that depend on the number of the file only."""
    schema = pa.schema([(f"x{place:02d}", pa.float32()) for place in range(N_NUMBERS)]
                       + [("kind", pa.string()), ("target", pa.float32())])  # fmt: skip
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=["kind"]) as writer:
        for group, start in enumerate(range(0, n_rows, GROUP_ROWS)):
            random = np.random.default_rng([number, group])
            n = min(GROUP_ROWS, n_rows - start)
            X = random.standard_normal((N_NUMBERS, n), dtype=np.float32)
            kinds = random.integers(0, len(CATEGORIES), n)
            target = np.sin(2 * X[0]) + np.abs(X[1]) * X[2] + 0.3 * X[3:8].sum(axis=0) + 0.2 * (kinds % 3)
            target += 0.1 * random.standard_normal(n, dtype=np.float32)
            X[5] = np.exp(X[5])  # a skewed column
            X[6, random.random(n, dtype=np.float32) < 0.05] = np.nan
            texts = pa.DictionaryArray.from_arrays(pa.array(kinds, pa.int32()), pa.array(CATEGORIES)).cast(pa.string())
            columns = [*map(pa.array, X), texts, pa.array(target.astype(np.float32))]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def generate(folder: Path, n_rows: int, n_processes: int) -> float:
    """Write the files of a table and one of test rows; return the seconds."""
    started = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, n_rows, FILE_ROWS)
    with ProcessPoolExecutor(n_processes) as pool:
        jobs = [pool.submit(write_file, folder / f"rows_{number:04d}.parquet", min(FILE_ROWS, n_rows - start), number)
                for number, start in enumerate(starts)]  # fmt: skip
        jobs.append(pool.submit(write_file, folder.parent / TEST_FILE, 100_000, 10**6))
        for job in jobs:
            job.result()
    return time.perf_counter() - started


def memory(key: str) -> float:
    """Return a size of this process in GiB, from Linux."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) / 2**20


def fit(args: argparse.Namespace) -> dict:
    """Fit in this process, and return what was measured."""
    import torch  # noqa: PLC0415 - the generator does not need it

    import knotwork as kw  # noqa: PLC0415 - memory of libraries is measured in the processes that fit

    if args.device == "cuda":
        torch.zeros(1, device="cuda")
    libraries = memory("VmRSS")
    times: list[float] = []
    epochs = 1 if args.part == "stream" else 4
    config = kw.TrainingConfig(max_epochs=epochs, batch_size=args.batch_size, patience=None, schedule="cosine",
                               learning_rate=2e-3)  # fmt: skip
    model = kw.TabularRegressor("PLE-Q@16", "mlp", training=config, device=args.device, random_state=0)
    callbacks = [lambda report: times.append(time.perf_counter())]
    started, cpu = time.perf_counter(), time.process_time()
    data = ds.dataset(args.folder / "rows")
    if args.part == "stream":
        model.fit(data, "target", scratch=args.folder, callbacks=callbacks)
        n_rows = args.rows / len(times)
    else:
        table = data.head(args.memory_rows).to_pandas()
        held = min(0.1, 100_000 / len(table))
        model.set_params(validation=held).fit(table.drop(columns="target"), table["target"], callbacks=callbacks)
        n_rows = len(table) * (1.0 - held)
        del table
    ended, cpu = time.perf_counter(), time.process_time() - cpu
    history = model.history_[0]
    steps = np.diff(times)
    test = pq.read_table(args.folder / TEST_FILE).to_pandas()
    return {
        "part": args.part,
        "seconds of the fit": ended - started,
        "CPU seconds of the fit": cpu,
        "seconds of training": history["seconds"],
        "seconds until the first epoch": times[0] - started,
        "epochs": len(times),
        "rows/s": n_rows / statistics.median(steps) if len(steps) else float("nan"),
        "peak GiB": memory("VmHWM"),
        "libraries GiB": libraries,
        "GPU GiB": torch.cuda.max_memory_allocated() / 2**30 if args.device == "cuda" else 0.0,
        "R2 of test rows": model.score(test.drop(columns="target"), test["target"]),
    }


def measure(args: argparse.Namespace, part: str) -> dict:
    """Run a part in a process of its own, whose memory is measured."""
    result = args.folder / f"{part}.json"
    command = [sys.executable, __file__, "--part", part, "--result", str(result), "--folder", str(args.folder),
               "--rows", str(args.rows), "--memory-rows", str(args.memory_rows), "--device", args.device,
               "--batch-size", str(args.batch_size)]  # fmt: skip
    subprocess.run(command, check=True)
    return json.loads(result.read_text())


def report(args: argparse.Namespace, writing: float, parts: list[dict]) -> str:
    streamed, in_memory = parts
    device = args.device
    if device == "cuda":
        import torch  # noqa: PLC0415 - needed on a GPU only

        device = torch.cuda.get_device_name()
    lines = [
        f"- Date: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, device {device}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} at the end",
        f"- Command: python benchmarks/{Path(__file__).name} {' '.join(sys.argv[1:])}",
        f"- {args.rows:,} rows x {N_NUMBERS + 1} columns written in {writing:.0f} s",
        "",
        "| | rows of the table | fit, s | of all cores, s | reading, s | training rows/s | peak host memory, GiB "
        "| of it libraries | GPU memory, GiB | R2 of test rows |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for name, rows, part in (("from files", args.rows, streamed), ("in memory", args.memory_rows, in_memory)):
        reading = part["seconds of the fit"] - part["seconds of training"]
        seconds = f"{part['seconds of the fit']:.1f} | {part['CPU seconds of the fit']:.0f} | {reading:.1f}"
        lines.append(
            f"| {name} | {rows:,} | {seconds} | {part['rows/s']:,.0f} | {part['peak GiB']:.2f} "
            f"| {part['libraries GiB']:.2f} | {part['GPU GiB']:.2f} | {part['R2 of test rows']:.4f} |"
        )
    share = streamed["rows/s"] / in_memory["rows/s"]
    return "\n".join([*lines, "", f"Speed of training from files: {share:.0%} of that in memory."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--memory-rows", type=int, default=4_000_000, help="rows of the table in memory")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, help="where files are written; by default a temporary folder")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--part", choices=["stream", "memory"], help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        args.result.write_text(json.dumps(fit(args)))
        return
    args.memory_rows = min(args.memory_rows, args.rows)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        args.folder = Path(folder)
        seconds = generate(args.folder / "rows", args.rows, args.processes)
        print(f"written in {seconds:.0f} s", flush=True)
        parts = []
        for part in ("stream", "memory"):
            parts.append(measure(args, part))
            print(json.dumps(parts[-1]), flush=True)
    text = report(args, seconds, parts)
    print(text)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "larger_than_memory.md").write_text(text + "\n")
        (args.out / "larger_than_memory.json").write_text(json.dumps(parts, indent=1))


if __name__ == "__main__":
    main()
