"""Time of every family per value, as a ratio to B-splines: encoders, and layers with fixed and with learned knots.

python benchmarks/families.py                    on the CPU, one thread, time of the process
python benchmarks/families.py --device cuda      layers on a GPU, with the wall clock
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

import knotwork as kw

FAMILIES = [name for name, family in kw.basis.FAMILIES.items() if family.with_placements]


def seconds(work: Callable[[], object], device: str, repeats: int = 9) -> float:
    """Return the shortest of several times of a call."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    times = []
    for _ in range(repeats + 2):
        started = clock()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(clock() - started)
    return min(times[2:])


def show(title: str, times: dict[str, float], n_values: int) -> None:
    """Print nanoseconds per value, and the ratios to B-splines."""
    cells = [f"{name} {1e9 * t / n_values:.3g} ({t / times['bspline']:.2f})" for name, t in times.items()]
    print(f"{title}: {', '.join(cells)}", flush=True)


def encoders(size: int, dtype: str) -> None:
    """Measure the dense transform."""
    X = np.random.default_rng(0).normal(size=(100_000, 8))
    fitted = {name: kw.SplineEncoder(name, size, n_jobs=1, dtype=dtype).fit(X[:20_000]) for name in FAMILIES}
    times = {name: seconds(lambda encoder=encoder: encoder.transform(X), "cpu") for name, encoder in fitted.items()}
    show(f"encoder, m = {size}, {dtype}", times, X.size)


def layers(size: int, device: str) -> None:
    """Measure the forward pass with fixed knots, and forward and backward with learned knots."""
    x = torch.rand(8192 if device == "cpu" else 262_144, 14, device=device)
    gradient = torch.randn(*x.shape, size, device=device)
    fixed = {name: kw.nn.SplineEncoding(14, size, family=name, learnable=False).to(device) for name in FAMILIES}
    learned = {name: kw.nn.SplineEncoding(14, size, family=name).to(device) for name in FAMILIES}
    forward = {name: seconds(lambda layer=layer: layer(x), device) for name, layer in fixed.items()}
    show(f"layer on {device}, m = {size}, forward, fixed knots", forward, x.numel())
    both = {name: seconds(lambda layer=layer: layer(x).backward(gradient), device) for name, layer in learned.items()}
    show(f"layer on {device}, m = {size}, forward and backward, learned knots", both, x.numel())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+", default=[15, 30])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for size in arguments.sizes:
        if arguments.device == "cpu":
            for dtype in ("float32", "float64"):
                encoders(size, dtype)
        layers(size, arguments.device)


if __name__ == "__main__":
    main()
