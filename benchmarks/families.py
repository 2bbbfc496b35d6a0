"""Time of every family per value, as a ratio to B-splines: encoders, and layers with fixed and with learned knots.

python benchmarks/families.py                    on the CPU, one thread, time of the process
python benchmarks/families.py --device cuda      layers on a GPU, the time of a replayed CUDA graph
"""

import argparse
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from layers import captured, timed

import knotwork as kw

FAMILIES = [name for name, family in kw.basis.FAMILIES.items() if family.with_placements]


def seconds(work: Callable[[], object], device: str, repeats: int = 9) -> float:
    """Return the shortest time of the process for a call on the CPU, and the median time of a call on a GPU."""
    if device != "cpu":
        return timed(captured(work, device), device, seconds=0.1)
    times = []
    for _ in range(repeats + 2):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times[2:])


def row(title: str, works: dict[str, Callable[[], object]], device: str, n_values: int) -> str:
    """Return a row of the table: nanoseconds per value, and the ratios to B-splines."""
    times = {name: seconds(work, device) for name, work in works.items()}
    cells = [f"{1e9 * t / n_values:.3g} ({t / times['bspline']:.2f})" for t in times.values()]
    line = f"| {' | '.join([title, *cells])} |"
    print(line, flush=True)
    return line


def encoders(size: int, dtype: str) -> str:
    """Measure the dense transform."""
    X = np.random.default_rng(0).normal(size=(100_000, 8))
    fitted = {name: kw.SplineEncoder(name, size, n_jobs=1, dtype=dtype).fit(X[:20_000]) for name in FAMILIES}
    works = {name: lambda encoder=encoder: encoder.transform(X) for name, encoder in fitted.items()}
    return row(f"encoder, {dtype}, m = {size}", works, "cpu", X.size)


def layers(size: int, device: str, n_rows: int) -> list[str]:
    """Measure the forward pass with fixed knots, and forward and backward with learned knots."""
    x = torch.rand(n_rows, 14, device=device)
    gradient = torch.randn(*x.shape, size, device=device)
    fixed = {name: kw.nn.SplineEncoding(14, size, family=name, learnable=False).to(device) for name in FAMILIES}
    learned = {name: kw.nn.SplineEncoding(14, size, family=name).to(device) for name in FAMILIES}

    def both(layer: kw.nn.SplineEncoding) -> None:
        torch.autograd.grad(layer(x), list(layer.parameters()), gradient)

    forward = {name: lambda layer=layer: layer(x) for name, layer in fixed.items()}
    backward = {name: lambda layer=layer: both(layer) for name, layer in learned.items()}
    title = f"layer, {n_rows:,} rows, m = {size}"
    return [
        row(f"{title}, forward, fixed knots", forward, device, x.numel()),
        row(f"{title}, forward and backward, learned knots", backward, device, x.numel()),
    ]


def main() -> None:
    """Measure, print and write a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[15, 30])
    parser.add_argument("--rows", type=int, nargs="+", help="rows of the layers' input")
    parser.add_argument("--out", type=Path, help="folder for families.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    device = arguments.device
    name = torch.cuda.get_device_name() if device == "cuda" else f"CPU, load {os.getloadavg()[0]:.1f} at the start"
    lines = [f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {name}, torch {torch.__version__}", ""]
    lines += [f"| ns per value | {' | '.join(FAMILIES)} |", f"| :-- |{' --: |' * len(FAMILIES)}"]
    print("\n".join(lines), flush=True)
    for size in arguments.sizes:
        if device == "cpu":
            lines += [encoders(size, dtype) for dtype in ("float32", "float64")]
        for n_rows in arguments.rows or ([8192 if device == "cpu" else 262_144]):
            lines += layers(size, device, n_rows)
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "families.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
