"""Time of attention by the number of tokens: our kernels beside torch's scaled_dot_product_attention.

    python -m tests.kernels.measure_attention --device cuda --out attention.md

Heads are those of the paper's FT-Transformer (8 of width 24), rows 512 per member, numbers bfloat16, inputs in the
layout of the engine. "Row" is the kernel in which one program holds a complete row, "tiles" the one that goes through
tiles of queries and keys; both with dropout 0.2 from each member's own random numbers, as in training. torch's has
dropout 0.2 from its own generator, which would make a member depend on the others. "Evaluation" has no dropout and no
gradient. TFLOP/s count 4 T^2 D operations per head forward and 10 backward, without the padding to 32 columns. "Error"
is that of our kernel for this length compared with the definition in float64, relative to its norm: results, then
gradients.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from knotwork._kernels import attention as kernels
from knotwork._kernels.dropout import Noise, member_keys

HEADS, WIDTH, ROWS, P = 8, 24, 512, 0.2
LENGTHS = (8, 16, 32, 64, 96, 128, 160, 192, 256, 320, 400, 512, 600)
TOKENS = 1_500_000
"""Tokens of a measured stack, about as many as fit into the memory of a GPU with everything else of a step."""
TILES = ((64, 64, 80), (64, 32, 80), (32, 64, 96), (64, 128, 96), (128, 64, 96))
KERNELS = ("_tiled_forward", "_queries_backward", "_keys_backward")
WAYS = {"row": 64, "tiles": 0}


@contextmanager
def way(name: str):
    """Make the GPU kernels process complete rows, or tiles."""
    before, kernels.MOST_TOKENS = kernels.MOST_TOKENS, WAYS[name]
    try:
        yield
    finally:
        kernels.MOST_TOKENS = before


def possible(n_tokens: int) -> list[str]:
    return [name for name in WAYS if name == "tiles" or n_tokens <= WAYS[name]]


def timed(work: Callable[[], object], device: str) -> float:
    """Return the median seconds of a call."""
    if device == "cuda":
        from triton.testing import do_bench

        return do_bench(work, warmup=5, rep=40, return_mode="median") / 1000
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def ours(qkv, noise, p=P):
    return kernels._ATTENTION(qkv, None, None, n_heads=HEADS, p=p, noise=noise, stream=1)


def torch_own(qkv, noise, p=P):
    del noise
    return kernels.attention_formula(qkv, None, None, n_heads=HEADS, p=p, noise=None, stream=1)


def both_ways(run, qkv, noise, device) -> tuple[float, float]:
    """Return the seconds of a forward pass and of a forward with a backward pass."""
    leaf = qkv.detach().requires_grad_()
    with torch.no_grad():
        forward = timed(lambda: run(qkv, noise), device)
    gradient = torch.randn_like(run(leaf, noise))
    return forward, timed(lambda: torch.autograd.grad(run(leaf, noise), leaf, gradient), device)


def error(qkv, noise) -> str:
    """Return the relative errors of results and gradients of two rows of a member."""
    part = qkv[:1, :2].clone()
    leaf, exact = part.clone().requires_grad_(), part.double().requires_grad_()
    alone = Noise(*(each[:1] for each in noise))
    got = kernels.attention(leaf, HEADS, P, alone, 1)
    expected = kernels.weighted_values(*kernels.divided(exact, None), HEADS, p=P, keys=member_keys(alone, 1))
    gradient = torch.randn_like(got)
    pairs = [
        (got, expected),
        (*torch.autograd.grad(got, leaf, gradient), *torch.autograd.grad(expected, exact, gradient.double())),
    ]
    return ", ".join(f"{((one.double() - two).norm() / two.norm()).item():.0e}" for one, two in pairs)


def rate(n_members: int, n_tokens: int, rows: int, factor: float, seconds: float) -> str:
    return f"{factor * n_members * rows * HEADS * WIDTH * n_tokens**2 / seconds / 1e12:.0f}"


def inputs(n_tokens: int, rows: int, device: str):
    n_members = max(1, min(64, TOKENS // (rows * n_tokens))) if device == "cuda" else 1
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    qkv = torch.randn(n_members, rows, n_tokens, 3 * HEADS * WIDTH, device=device).to(kind)
    return qkv, Noise(torch.arange(n_members, device=device) + 7, torch.full((n_members,), 3, device=device))


def length_table(lengths, rows: int, device: str):
    """Measure all lengths."""
    yield "| tokens | members | way | forward, us | TFLOP/s | with backward, us | TFLOP/s | torch / ours | error |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for n_tokens in lengths:
        qkv, noise = inputs(n_tokens, rows, device)
        chosen = "row" if kernels.is_short(n_tokens, WIDTH) else "tiles"
        peer = both_ways(torch_own, qkv, noise, device)
        for name in [*possible(n_tokens), "torch"]:
            times = peer
            if name != "torch":
                with way(name):
                    times = both_ways(ours, qkv, noise, device)
            cells = [
                f"{1e6 * seconds:.0f} | {rate(len(qkv), n_tokens, rows, factor, seconds)}"
                for seconds, factor in zip(times, (4, 14), strict=True)
            ]
            shown = error(qkv, noise) if name == chosen else ""
            ratio = f"{peer[0] / times[0]:.2f}, {peer[1] / times[1]:.2f}"
            yield f"| {n_tokens} | {len(qkv)} | {name} | {' | '.join(cells)} | {ratio} | {shown} |"


def evaluation_table(lengths, rows: int, device: str):
    """Measure the forward pass without dropout."""
    yield "| tokens | row, us | tiles, us | torch, us |"
    yield "|---|---|---|---|"
    for n_tokens in lengths:
        qkv, noise = inputs(n_tokens, rows, device)
        cells = []
        with torch.no_grad():
            for name in WAYS:
                with way(name):
                    seconds = timed(partial(ours, qkv, noise, 0.0), device) if name in possible(n_tokens) else math.nan
                    cells.append(f"{1e6 * seconds:.0f}")
            cells.append(f"{1e6 * timed(partial(torch_own, qkv, noise, 0.0), device):.0f}")
        yield f"| {n_tokens} | {' | '.join(cells)} |"


def tile_table(lengths, rows: int, device: str):
    """Measure each kernel with other tiles."""
    from knotwork._kernels import attention_tiled_triton as tiled

    yield "| tokens | queries, keys, registers | forward, us | queries backward, us | keys backward, us |"
    yield "|---|---|---|---|---|"
    names = ("FORWARD", "OF_QUERIES", "OF_KEYS")
    usual = [getattr(tiled, name) for name in names]
    for tile in TILES:
        for name in names:
            setattr(tiled, name, tile)
        for n_tokens in lengths:
            with way("tiles"):
                times = kernel_times(*inputs(n_tokens, rows, device), device)
            cells = [f"{times.get(name, math.nan):.0f}" for name in KERNELS]
            yield f"| {n_tokens} | {', '.join(map(str, tile))} | {' | '.join(cells)} |"
    for name, value in zip(names, usual, strict=True):
        setattr(tiled, name, value)


def kernel_times(qkv, noise, device) -> dict[str, float]:
    """Return the microseconds of each kernel of a forward and a backward pass."""
    leaf = qkv.detach().requires_grad_()
    gradient = torch.randn_like(ours(leaf, noise))
    activities = [torch.profiler.ProfilerActivity.CUDA] if device == "cuda" else [torch.profiler.ProfilerActivity.CPU]
    torch.autograd.grad(ours(leaf, noise), leaf, gradient)
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(3):
            torch.autograd.grad(ours(leaf, noise), leaf, gradient)
    return {event.key: event.device_time_total / event.count for event in profile.key_averages()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--tiles", action="store_true", help="measure other tiles too, at the last two lengths")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    shared = options.rows, options.device
    tables = [length_table(options.lengths, *shared), evaluation_table(options.lengths[1::3], *shared)]
    if options.tiles:
        tables.append(tile_table(options.lengths[-2:], *shared))
    torch.set_float32_matmul_precision("high")
    lines: list[str] = []
    for table in tables:
        for line in table:
            print(line, flush=True)
            lines.append(line)
            if options.out:
                options.out.write_text("\n".join([*lines, ""]))
        lines.append("")
    print("done", file=sys.stderr)


if __name__ == "__main__":
    main()
