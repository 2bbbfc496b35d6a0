"""Time of `TabularRegressor().fit`, compared with an ordinary torch loop of the same network, on the CPU.

    python benchmarks/fit.py [--rows 20000] [--epochs 10]
    python benchmarks/fit.py --loads
    python benchmarks/fit.py --share [fast ...] [--cores 2] [--repeats 3]

The table has 20,000 rows and 8 numerical columns; the estimator has its defaults (encoding, network, batch, optimiser)
and a fixed number of epochs. "Plain" fits the same encoder, encodes all rows beforehand, and trains the same MLP by
`torch.optim.AdamW`, indexing tensors batch by batch, with a validation score after every epoch. Both times include
fitting the encoder. CPU time over wall time is the number of cores used.

With `--loads`, `effort="fast"` and five MLPs of 20 epochs are fitted to a table of the size of california (20,640 x
8) in processes of their own, which time the second of two fits: alone; on one core of those that are available
(`taskset`); with all cores, but a quota of the time of one of them (a control group, where one can be made); and while
another process keeps each core busy. "Times its share" is the time divided by that of the fit alone, times the share of
the cores that the process has: 1 if only the share matters. A fit that waits in a loop for other threads has much more.

With `--share`, networks of the efforts are fitted to 10,000 x 20 values on some cores, in processes of their own, which
time the second of two fits. Their matrix products (two operations for each of those that `network_products` counts,
once forward and twice backward) are compared with those that torch.bmm does on one core in the same process, times the
cores: the share of the time in which the fit does what it is there for.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

import knotwork as kw
from knotwork.encoders import Embedding
from knotwork.nn import MLPConfig, RealMLPConfig
from knotwork.training import TrainingTable, network_products

N_FEATURES = 8
CONTROL_GROUPS = Path("/sys/fs/cgroup/cpu")


SHARES = {
    "fast": (4, 30, "L4x", RealMLPConfig(widths=(128, 128)), 32),
    "balanced": (5, 30, "L4x", RealMLPConfig(widths=(160, 160)), 48),
    "PLE-Q@48+LR8": (5, 48, "LR8", MLPConfig(widths=(256, 256), dropout=0.1), 16),
    "PBLD@16": (5, 16, "L3x", RealMLPConfig(widths=(160, 160)), 16),
}
"""Efforts and encodings with the folds, the size of the encoding, the embedding, the backbone and the epochs.

Those of an effort are what it trains on this table on a CPU.
"""


def make_table(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, N_FEATURES))
    return X, np.sin(2 * X).sum(axis=1) + 0.1 * random.normal(size=n_rows)


def fit_plain(X: np.ndarray, y: np.ndarray, epochs: int, config: kw.TrainingConfig) -> None:
    advice = kw.recommend("regression", "mlp", budget="medium")
    order = np.random.default_rng(0).permutation(len(X))
    held, rows = order[: len(X) // 10], order[len(X) // 10 :]
    encoder = kw.make_encoder(advice.method, size=advice.size).fit(X[rows], y[rows])
    encoded = torch.from_numpy(encoder.transform(X))
    target = torch.from_numpy((y - y[rows].mean()) / y[rows].std()).float()
    widths, layers = [encoded.shape[1], 256, 128, 64], []
    for d_in, d_out in pairwise(widths):
        layers += [nn.Linear(d_in, d_out), nn.ReLU(), nn.Dropout(0.15)]
    network = nn.Sequential(*layers, nn.Linear(64, 1))
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    batch = config.batch_size_for(len(X))
    rows_there = torch.from_numpy(rows)
    for _ in range(epochs):
        network.train()
        for part in rows_there[torch.randperm(len(rows))].split(batch):
            optimiser.zero_grad()
            nn.functional.mse_loss(network(encoded[part])[:, 0], target[part]).backward()
            optimiser.step()
        network.eval()
        with torch.no_grad():
            float((network(encoded[held])[:, 0] - target[held]).square().mean().sqrt())


def timed(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median wall time, and CPU time over wall time."""
    walls, shares = [], []
    for _ in range(repeats):
        wall, used = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        shares.append((time.process_time() - used) / walls[-1])
    return statistics.median(walls), statistics.median(shares)


def fit_ensemble(kind: str) -> None:
    """Print the seconds and the cores used of the second of two fits."""
    X, y = make_table(20_640)
    config = replace(kw.TrainingConfig(), max_epochs=20, patience=20)
    models = {
        "fast": kw.TabularRegressor(effort="fast", random_state=0, device="cpu"),
        "five": kw.TabularRegressor("BS-Q", n_members=5, training=config, random_state=0, device="cpu"),
    }
    models[kind].fit(X[:500], y[:500])
    print(*timed(lambda: models[kind].fit(X, y), 1))


def make_wide() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(10_000, 20))
    return X, np.sin(2 * X[:, :8]).sum(axis=1) + X[:, 0] * X[:, 1] + 0.5 * random.normal(size=10_000)


def gigaflops(name: str) -> float:
    """Return the operations of the matrix products of a fit to 10,000 x 20 values."""
    X, y = make_wide()
    table = TrainingTable(X, np.zeros((len(X), 0), dtype=np.int64), y, "regression")
    folds, size, embedding, backbone, epochs = SHARES[name]
    return 6e-9 * (folds - 1) * len(X) * epochs * network_products(table, size, Embedding.parse(embedding), backbone)


def product_rate() -> float:
    """Return the billions of operations per second of products like those of a step, on one core, times the cores."""
    torch.set_num_threads(1)
    a, b = torch.randn(2, 256, 128), torch.randn(2, 128, 128)
    seconds = timed(lambda: [torch.bmm(a, b) for _ in range(500)], 9)[0]
    return len(os.sched_getaffinity(0)) * 500 * 2e-9 * a.numel() * b.shape[2] / seconds


def fit_share(name: str) -> None:
    """Print seconds and cores used of the second of two fits, and the rate of products."""
    X, y = make_wide()
    settings = {"random_state": 0, "device": "cpu"}
    if "@" not in name:
        model = kw.TabularRegressor(effort=name, members="networks", **settings)
    else:
        folds, _, _, backbone, epochs = SHARES[name]
        usual = {"schedule": "cosine", "learning_rate": 2e-3} if isinstance(backbone, MLPConfig) else {}
        training = {"batch_size": 256, **usual, **backbone.training("regression"), "max_epochs": epochs}
        training = kw.TrainingConfig(**{**training, "patience": None})
        model = kw.TabularRegressor(name, backbone=backbone, n_members=folds, training=training, **settings)
    model.fit(X[:2000], y[:2000])
    print(*timed(lambda: model.fit(X, y), 1), product_rate())


def measure_shares(repeats: int, n_cores: int, names: list[str]) -> None:
    allowed = ",".join(map(str, sorted(os.sched_getaffinity(0))[:n_cores]))
    print("| | cores | seconds | cores used | GFLOP | GFLOP/s of products | share |\n|---|---|---|---|---|---|---|")
    for name in names:
        command = ["taskset", "-c", allowed, sys.executable, __file__, "--one-share", name]
        runs = [run_limited(command, None) for _ in range(repeats)]
        wall, used, rate = (statistics.median(column) for column in zip(*runs, strict=True))
        work = gigaflops(name)
        row = f"{n_cores} | {wall:.2f} | {used:.2f} | {work:.0f} | {rate:.0f} | {work / wall / rate:.2f}"
        print(f"| {name} | {row} |", flush=True)


@contextmanager
def busy(n_processes: int) -> Iterator[None]:
    """Keep as many cores busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n_processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@contextmanager
def quota(n_cores: float | None) -> Iterator[Path | None]:
    """Yield the file that takes processes into a control group with the time of so many cores; None without a limit."""
    if n_cores is None:
        yield None
        return
    group = CONTROL_GROUPS / f"knotwork-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text(str(int(n_cores * 100_000)))
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def run_limited(command: list[str], procs: Path | None) -> list[float]:
    """Return the numbers that a command prints, run in a control group."""
    entered = [] if procs is None else ["sh", "-c", f'echo $$ > {procs} && exec "$@"', "sh"]
    return [float(word) for word in subprocess.check_output([*entered, *command], text=True).split()]


def measure_loads(repeats: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    cases: dict[str, tuple[list[int], float | None, int, float]] = {
        "alone": (cores, None, 0, 1.0),
        "on one core": (cores[:1], None, 0, 1 / len(cores)),
        "quota of one core": (cores, 1.0, 0, 1 / len(cores)),
        "each core busy": (cores, None, len(cores), 0.5),
    }
    if not os.access(CONTROL_GROUPS, os.W_OK):
        del cases["quota of one core"]
        print(f"The quota is NOT measured: no control group can be made in {CONTROL_GROUPS}.\n")
    print("| | | seconds | cores used | share | times its share |\n|---|---|---|---|---|---|")
    for kind in ("fast", "five"):
        alone = None
        for name, (allowed, limit, n_busy, share) in cases.items():
            command = ["taskset", "-c", ",".join(map(str, allowed)), sys.executable, __file__, "--one", kind]
            with busy(n_busy), quota(limit) as procs:
                runs = [run_limited(command, procs) for _ in range(repeats)]
            wall, used = (statistics.median(column) for column in zip(*runs, strict=True))
            alone = wall if alone is None else alone
            print(
                f"| {kind} | {name} | {wall:.1f} | {used:.2f} | {share:.2f} | {wall * share / alone:.2f} |", flush=True
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--loads", action="store_true", help="measure ensembles with fewer or busy cores")
    parser.add_argument("--share", nargs="*", choices=SHARES, help="compare fits with the speed of matrix products")
    parser.add_argument("--cores", type=int, default=1, help="cores that these fits may use")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--one-share", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one_share:
        fit_share(arguments.one_share)
        return
    if arguments.one:
        fit_ensemble(arguments.one)
        return
    if arguments.loads or arguments.share is not None:
        print(f"{datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}\n")
        if arguments.loads:
            measure_loads(arguments.repeats)
        else:
            measure_shares(arguments.repeats, arguments.cores, arguments.share or list(SHARES))
        return
    X, y = make_table(arguments.rows)
    config = replace(kw.TrainingConfig(), max_epochs=arguments.epochs, patience=arguments.epochs)
    model = kw.TabularRegressor(training=config, random_state=0, device="cpu")
    work = {
        "plain loop": lambda: fit_plain(X, y, arguments.epochs, config),
        "TabularRegressor": lambda: model.fit(X, y),
    }
    for call in work.values():  # compiles the kernels
        call()
    print(f"{datetime.now(UTC):%Y-%m-%d}, {torch.get_num_threads()} threads, torch {torch.__version__}\n")
    print("| | seconds | cores used |\n|---|---|---|")
    for name, call in work.items():
        wall, share = timed(call, arguments.repeats)
        print(f"| {name} | {wall:.2f} | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
