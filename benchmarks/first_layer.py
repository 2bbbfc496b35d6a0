"""Time of the first layer: encoding and linear map in one, compared with the encoding followed by a product.

    python benchmarks/first_layer.py                    on the CPU, which alone has fused code

Forward and backward of `EncodedLinear` on 14 features in float32, over family, knots (fixed or learned), batch, size
and outputs. "kept" is the memory kept between forward and backward, with inputs and parameters. The two paths take
turns, and each time is the median over the turns of medians. Cases run from the middle of the grid outwards; the end of
the output has the number of cases not reached within `--limit`.
"""

import argparse
import itertools
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import torch
from layers import forward_backward, timed
from torch import Tensor

import knotwork as kw

N_FEATURES = 14
FAMILIES = {"B": "bspline", "I": "ispline", "M, normalised": "mspline", "PLE": "ple"}
BATCHES = (512, 256, 8192)
SIZES = (30, 7, 100)
OUTPUTS = (256, 64)


class Case(NamedTuple):
    """The settings of one row of the table."""

    family: str
    learnable: bool
    batch: int
    size: int
    n_out: int


def make_cases(*, quick: bool) -> list[Case]:
    """Return all cases: those that differ from the first in one setting before those that differ in more."""
    kinds = [
        (family, learnable)
        for family in FAMILIES
        for learnable in (False, True)
        if learnable or family != "M, normalised"  # rows are normalised where knots are learned
    ]
    settings = list(itertools.product(BATCHES, SIZES, OUTPUTS))
    first = settings[0]
    settings.sort(key=lambda setting: sum(a != b for a, b in zip(setting, first, strict=True)))
    if quick:
        settings = settings[:4]
    return [Case(*kind, *setting) for setting in settings for kind in kinds]


def make_layer(case: Case, path: str) -> kw.nn.EncodedLinear:
    options, family = {"learnable": case.learnable}, FAMILIES[case.family]
    if family == "ple":
        encoding = kw.nn.PiecewiseLinearEncoding(N_FEATURES, case.size, **options)
    else:
        encoding = kw.nn.SplineEncoding(N_FEATURES, case.size, family=family, **options)
    return kw.nn.EncodedLinear(encoding, case.n_out, path=path)


def kept_memory(layer: torch.nn.Module, x: Tensor) -> float:
    """Return MiB kept for backward."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(x)
    return sum(kept.values()) / 2**20


def measure(case: Case, turns: int) -> str:
    """Return the row of a case."""
    x = torch.rand(case.batch, N_FEATURES)
    layers = {path: make_layer(case, path) for path in ("fused", "dense")}
    calls = {path: forward_backward(layer, x, torch.float32) for path, layer in layers.items()}
    rounds = [{path: timed(call, "cpu", 0.1) for path, call in calls.items()} for _ in range(turns)]
    times = {path: statistics.median(took[path] for took in rounds) for path in calls}
    cells = [case.family, "learned" if case.learnable else "fixed", case.batch, case.size, case.n_out]
    cells += [*(f"{times[path] * 1e6:.0f}" for path in ("fused", "dense")), f"{times['dense'] / times['fused']:.2f}"]
    cells += [" / ".join(f"{kept_memory(layer, x):.1f}" for layer in layers.values())]
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only the middle of the grid and three neighbours")
    parser.add_argument("--threads", type=int, help="threads on the CPU; one varies less on a shared machine")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no new case starts")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, `python benchmarks/first_layer.py`\n",
        "| family | knots | batch | size | outputs | fused, us | dense, us | dense / fused "
        "| kept, MiB (fused / dense) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    cases, start = make_cases(quick=arguments.quick), time.perf_counter()
    for i, case in enumerate(cases):
        if time.perf_counter() - start > arguments.limit:
            lines.append(f"\nNot reached within {arguments.limit:.0f} s: {len(cases) - i} of {len(cases)} cases.")
            break
        lines.append(measure(case, turns=3))
        print(lines[-1], flush=True)
        if arguments.out:
            arguments.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
