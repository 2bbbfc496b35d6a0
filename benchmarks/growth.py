"""How cost grows: time against rows, columns, sizes and networks, for encoders, layers, training and estimators.

    python benchmarks/growth.py                           on the CPU; about 20 minutes
    python benchmarks/growth.py --device cuda             on a GPU; about 2.5 minutes on an H200
    python benchmarks/growth.py --most-rows 1e6           without the largest tables
    python benchmarks/growth.py --write                   the page and its figures, from the recorded lines

Each curve changes one number and keeps the others. A point is a line of `benchmarks/growth/<device>.jsonl`; points that
are recorded are not measured again. On the CPU the time is that of the process in all its threads, of which it has one,
because the machine is shared; on a GPU it is wall time. Each time is the best of several calls, after a first one.
`growth_page.py` has the slopes and the definition of a cliff.
"""

import argparse
import gc
import json
import os
import platform
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import knotwork as kw
from knotwork.nn import BACKBONES
from knotwork.training import Member, TrainingConfig, TrainingTable, train

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "growth"

BLOCK = 1_000_000
"""Rows that are encoded at a time: the encoded table need not fit into memory."""

LONG_ENOUGH, MOST_CALLS, TOO_LONG = 0.3, 5, 10.0
"""A point is measured until its calls took this many seconds, and at most this often; the first call, which may compile
code, is the only one if it takes too long."""


class Shape(NamedTuple):
    """What a point is measured with."""

    rows: int
    columns: int
    size: int
    members: int = 1


@dataclass(frozen=True)
class Curve:
    """The work whose time is measured, the number that grows with its values, and the shape otherwise."""

    what: str
    axis: str
    values: Sequence[int]
    shape: Shape

    def points(self, most_rows: float) -> Iterator[tuple[int, Shape]]:
        """Return the values and shapes of the points, without those of more rows."""
        for value in self.values:
            shape = self.shape._replace(**{self.axis: value})
            if shape.rows <= most_rows:
                yield value, shape


COLUMNS, SIZES = (10, 30, 100, 300, 1000, 2000, 5000), (5, 10, 20, 30, 50, 70, 100)
MEMBERS = (1, 3, 10, 30, 100, 300, 1000)


def powers(first: int, last: int) -> list[int]:
    """Return the powers of ten and their half steps between two exponents."""
    return [round(10 ** (half / 2)) for half in range(2 * first, 2 * last + 1)]


CPU = [
    Curve("encoder fit", "rows", powers(4, 8), Shape(0, 2, 30)),
    Curve("encoder fit", "columns", COLUMNS, Shape(2000, 0, 15)),
    Curve("encoder fit", "size", SIZES, Shape(100_000, 5, 0)),
    Curve("encoder transform", "rows", powers(4, 8), Shape(0, 2, 15)),
    Curve("encoder transform", "columns", COLUMNS, Shape(2000, 0, 15)),
    Curve("encoder transform", "size", SIZES, Shape(100_000, 5, 0)),
    Curve("layer", "rows", powers(2, 6), Shape(0, 5, 15)),
    Curve("layer", "columns", COLUMNS, Shape(512, 0, 15)),
    Curve("layer", "size", SIZES, Shape(4096, 10, 0)),
    Curve("training epoch", "rows", powers(3, 6), Shape(0, 5, 7)),
    Curve("training epoch", "columns", COLUMNS, Shape(1024, 0, 7)),
    Curve("training epoch", "size", SIZES, Shape(1024, 10, 0)),
    Curve("training epoch", "members", MEMBERS, Shape(1024, 5, 7)),
    Curve("estimator fit", "rows", powers(3, 6), Shape(0, 5, 7)),
    Curve("estimator fit", "columns", COLUMNS, Shape(500, 0, 7)),
    Curve("estimator predict", "rows", powers(3, 6), Shape(0, 5, 7)),
    Curve("estimator predict", "columns", COLUMNS, Shape(500, 0, 7)),
]

CUDA = [
    Curve("layer", "rows", powers(3, 7), Shape(0, 10, 30)),  # beyond 2**31 values at last
    Curve("layer", "columns", COLUMNS, Shape(4096, 0, 15)),
    Curve("layer", "size", SIZES, Shape(65_536, 14, 0)),
    Curve("training epoch", "members", (*MEMBERS[:5], 145, 300, 660, 1000), Shape(8192, 14, 30)),
    Curve("training epoch", "columns", COLUMNS, Shape(8192, 0, 15, 8)),
    Curve("training epoch", "size", SIZES, Shape(8192, 14, 0, 32)),
    Curve("estimator fit", "columns", (10, 100, 1000, 5000), Shape(2000, 0, 7)),
    Curve("estimator predict", "columns", (10, 100, 1000, 5000), Shape(2000, 0, 7)),
    Curve("estimator fit", "rows", (10_000, 100_000, 1_000_000), Shape(0, 10, 15)),
    Curve("estimator predict", "rows", (10_000, 100_000, 1_000_000), Shape(0, 10, 15)),
    Curve("training epoch", "rows", powers(4, 8)[::2], Shape(0, 4, 15)),
]


def numbers(shape: Shape) -> np.ndarray:
    return np.random.default_rng(0).random((shape.rows, shape.columns), dtype=np.float32)


def best_time(work: Callable[[], object], device: torch.device) -> float:
    """Return the shortest time of a call, after a first one; a call that takes long is not repeated."""
    on_gpu = device.type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time

    def timed() -> float:
        start = clock()
        work()
        if on_gpu:
            torch.cuda.synchronize()
        return clock() - start

    first, times = timed(), []
    while (not times and first < TOO_LONG) or (sum(times) < LONG_ENOUGH and 0 < len(times) < MOST_CALLS):
        times.append(timed())
    return min([first, *times])


def encoder_fit(shape: Shape, device: torch.device) -> float:
    table = numbers(shape)
    return best_time(lambda: kw.SplineEncoder(size=shape.size, n_jobs=1).fit(table), device)


def encoder_transform(shape: Shape, device: torch.device) -> float:
    """Return the time to encode all rows, some at a time."""
    block = numbers(shape._replace(rows=min(shape.rows, BLOCK)))
    encoder = kw.SplineEncoder(size=shape.size, n_jobs=1).fit(block)
    n_blocks, rest = divmod(shape.rows, len(block))

    def work() -> None:
        for _ in range(n_blocks):
            encoder.transform(block)
        if rest:
            encoder.transform(block[:rest])

    return best_time(work, device)


def layer(shape: Shape, device: torch.device) -> float:
    """Return the time of a layer with learned knots, forward and backward."""
    values = torch.rand(shape.rows, shape.columns, device=device)
    module = kw.nn.SplineEncoding(shape.columns, shape.size).to(device)
    slopes = torch.ones(shape.rows, shape.columns, shape.size, device=device)

    def work() -> None:
        module.zero_grad()
        module(values).backward(slopes)

    return best_time(work, device)


def training_epoch(shape: Shape, device: torch.device) -> float:
    """Return the time of an epoch of a stack of MLPs with learned knots: the median of some, on a CPU their mean."""
    values, n_epochs = numbers(shape).astype(np.float64), 5 if device.type == "cuda" else 3
    target = values[:, 0] + np.random.default_rng(1).normal(size=shape.rows)
    table = TrainingTable(values, np.zeros((shape.rows, 0), dtype=np.int64), target, "regression")
    encodings = kw.SplineEncoder(size=shape.size, n_jobs=1).fit(values[:10_000]).fitted_
    rows = np.arange(shape.rows)
    members = [Member(rows[64:], rows[:64], encodings, learnable=True, seed=seed) for seed in range(shape.members)]
    batch = 8192 if shape.members == 1 and device.type == "cuda" else 512
    config = replace(TrainingConfig.paper(), max_epochs=n_epochs, patience=n_epochs, knot_warmup=0, batch_size=batch)
    work = partial(train, table, members, BACKBONES["mlp"](), config, device=device)
    if device.type == "cuda":
        return sum(history.epoch_seconds for history in work().histories)
    return best_time(work, device) / n_epochs


def make_estimator(shape: Shape, device: torch.device) -> tuple[Any, np.ndarray, np.ndarray]:
    table = numbers(shape)
    target = table[:, 0] + np.random.default_rng(1).normal(size=shape.rows)
    training = TrainingConfig(max_epochs=2)
    model = kw.TabularRegressor(f"BS-Q@{shape.size}", training=training, device=str(device), random_state=0)
    return model, table, target


def estimator_fit(shape: Shape, device: torch.device) -> float:
    model, table, target = make_estimator(shape, device)
    return best_time(lambda: model.fit(table, target), device)


def estimator_predict(shape: Shape, device: torch.device) -> float:
    """Return the time to predict; the model is fitted on some of the rows."""
    model, table, target = make_estimator(shape, device)
    model.fit(table[:2000], target[:2000])
    return best_time(lambda: model.predict(table), device)


WORK = {
    "encoder fit": encoder_fit,
    "encoder transform": encoder_transform,
    "layer": layer,
    "training epoch": training_epoch,
    "estimator fit": estimator_fit,
    "estimator predict": estimator_predict,
}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the recorded points."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def describe(device: torch.device) -> dict[str, Any]:
    """Return what a point's time depends on besides its shape."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    load = round(os.getloadavg()[0], 1)
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": name, "load": load, "torch": torch.__version__}


def measure(curves: Sequence[Curve], device: torch.device, path: Path, most_rows: float) -> list[str]:
    """Measure the points that are not recorded yet; return those that failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    failed = []
    known = {(line["what"], line["axis"], line["value"]) for line in read(path)}
    for curve in curves:
        for value, shape in curve.points(most_rows):
            if (curve.what, curve.axis, value) in known:
                continue
            try:
                seconds = WORK[curve.what](shape, device)
            except Exception as error:  # the other points are measured
                failed.append(f"{curve.what}, {curve.axis} = {value}: {error}")
                continue
            finally:
                gc.collect()
                memory = torch.cuda.max_memory_allocated() >> 20 if device.type == "cuda" else _peak_mib()
                if device.type == "cuda":
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats()
            point = {"what": curve.what, "axis": curve.axis, "value": value, "seconds": float(f"{seconds:.4g}")}
            line = {**point, **shape._asdict(), "peak_mib": memory, **describe(device)}
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{curve.what}, {curve.axis} = {value}: {seconds:.4g} s, {memory} MiB so far", flush=True)
    return failed


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--most-rows", type=float, default=1e8)
    parser.add_argument("--only", nargs="+", default=list(WORK), choices=list(WORK))
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the recorded lines")
    parser.add_argument("--write", action="store_true", help="write the page and its figures, and measure nothing")
    arguments = parser.parse_args()
    if arguments.write:
        from growth_page import write  # noqa: PLC0415 - needs matplotlib

        write({path.stem: read(path) for path in sorted(arguments.out.glob("*.jsonl"))})
        return
    device = torch.device(arguments.device)
    torch.set_num_threads(1)
    curves = [curve for curve in (CUDA if device.type == "cuda" else CPU) if curve.what in arguments.only]
    failed = measure(curves, device, arguments.out / f"{device.type}.jsonl", arguments.most_rows)
    if failed:
        raise SystemExit("These points failed:\n" + "\n".join(failed))


if __name__ == "__main__":
    main()
