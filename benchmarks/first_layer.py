"""Time of the first layer: encoding and linear map in one, compared with the encoding followed by a product.

    python benchmarks/first_layer.py                    on the CPU
    python benchmarks/first_layer.py --device cuda      on a GPU

Forward and backward of `EncodedLinear` on 14 features in float32, over family, knots (fixed or learned), batch, size,
outputs and members. "kept" is the memory kept between forward and backward, with inputs and parameters; "peak" is the
largest allocation during a call, which is known on a GPU only. The two paths take turns, and each time is the median
over the turns of medians. On a GPU timed calls are captured in a graph, so that launching is not measured. Cases run
from the middle of the grid outwards; the end of the output has the number of cases not reached within `--limit`.
"""

import argparse
import gc
import itertools
import platform
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import torch
from layers import captured, forward_backward, timed
from torch import Tensor

import knotwork as kw

N_FEATURES = 14
FAMILIES = {"B": "bspline", "I": "ispline", "M, normalised": "mspline", "PLE": "ple"}
BATCHES = {"cpu": (512, 256, 8192), "cuda": (8192, 512, 65_536)}
SIZES = (30, 7, 100)
OUTPUTS = (256, 64)


class Case(NamedTuple):
    """The settings of one row of the table."""

    family: str
    learnable: bool
    batch: int
    size: int
    n_out: int
    n_members: int | None = None


def make_cases(device: str, *, quick: bool) -> list[Case]:
    """Return all cases: those that differ from the first in one setting before those that differ in more."""
    kinds = [
        (family, learnable)
        for family in FAMILIES
        for learnable in (False, True)
        if learnable or family != "M, normalised"  # rows are normalised where knots are learned
    ]
    settings = [(batch, size, n_out, None) for batch, size, n_out in itertools.product(BATCHES[device], SIZES, OUTPUTS)]
    first = settings[0]
    if device == "cuda":
        settings.append((512, 30, 256, 64))
    settings.sort(key=lambda setting: sum(a != b for a, b in zip(setting[:3], first[:3], strict=True)))
    if quick:
        settings = settings[:4]
    return [Case(*kind, *setting) for setting in settings for kind in kinds]


def make_layer(case: Case, path: str, device: str) -> kw.nn.EncodedLinear:
    options = {"learnable": case.learnable, "n_members": case.n_members}
    family = FAMILIES[case.family]
    if family == "ple":
        encoding = kw.nn.PiecewiseLinearEncoding(N_FEATURES, case.size, **options)
    else:
        encoding = kw.nn.SplineEncoding(N_FEATURES, case.size, family=family, **options)
    return kw.nn.EncodedLinear(encoding, case.n_out, path=path).to(device)


def memory(layer: torch.nn.Module, x: Tensor) -> tuple[float, float]:
    """Return MiB kept for backward, and MiB at the peak, which is unknown on the CPU."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    gc.collect()
    before = 0
    if x.is_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        out = layer(x)
    torch.autograd.grad(out, list(layer.parameters()), torch.ones_like(out))
    peak = torch.cuda.max_memory_allocated() - before if x.is_cuda else 0
    return sum(kept.values()) / 2**20, peak / 2**20


def measure(case: Case, device: str, turns: int) -> str:
    """Return the row of a case."""
    lead = () if case.n_members is None else (case.n_members,)
    x = torch.rand(*lead, case.batch, N_FEATURES, device=device)
    layers = {path: make_layer(case, path, device) for path in ("fused", "dense")}
    calls = {path: captured(forward_backward(layer, x, torch.float32), device) for path, layer in layers.items()}
    seconds = 0.02 if device == "cuda" else 0.1
    rounds = [{path: timed(call, device, seconds) for path, call in calls.items()} for _ in range(turns)]
    times = {path: statistics.median(took[path] for took in rounds) for path in calls}
    used = {path: memory(layer, x) for path, layer in layers.items()}
    cells = [case.family, "learned" if case.learnable else "fixed", case.batch, case.size, case.n_out]
    cells += [case.n_members or "none", *(f"{times[path] * 1e6:.0f}" for path in ("fused", "dense"))]
    cells += [f"{times['dense'] / times['fused']:.2f}"]
    cells += [" / ".join(f"{used[path][which]:.1f}" for path in ("fused", "dense")) for which in (0, 1)]
    cells[-1] = cells[-1] if device == "cuda" else ""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="only the middle of the grid and three neighbours")
    parser.add_argument("--threads", type=int, help="threads on the CPU; one varies less on a shared machine")
    parser.add_argument("--limit", type=float, help="seconds after which no new case starts; by default 90 on a GPU")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    device = arguments.device
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    machine = (
        torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {machine}, torch {torch.__version__}, float32 products at "
        f"precision {torch.get_float32_matmul_precision()!r}, `python benchmarks/first_layer.py --device {device}`\n",
        "| family | knots | batch | size | outputs | members | fused, us | dense, us | dense / fused "
        "| kept, MiB (fused / dense) | peak, MiB (fused / dense) |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    limit = arguments.limit or (90.0 if device == "cuda" else float("inf"))
    cases, start = make_cases(device, quick=arguments.quick), time.perf_counter()
    for i, case in enumerate(cases):
        if time.perf_counter() - start > limit:
            lines.append(f"\nNot reached within {limit:.0f} s: {len(cases) - i} of {len(cases)} cases.")
            break
        lines.append(measure(case, device, turns=3))
        print(lines[-1], flush=True)
        if arguments.out:
            arguments.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
