"""Time of the parts of a training step of a stack, by shape and by ways to compute them, on a GPU.

    python -m tests.kernels.measure_stack --out stack.md           about 20 s on an H200

Times are microseconds per network, beside the time that reading and writing each factor and result once would take
("memory"). Products are those of the first layers of the MLP (tf32) and of the ResNet (bfloat16), batches of 512; "in
parts" computes them for some of the networks at a time. The gradient of the knots, of 14 features of size 30, has
several numbers of rows, blocks and warps of a program, and AdamW several numbers of values and warps.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from triton.testing import do_bench

from knotwork._kernels import adamw_triton, encoding_triton
from knotwork._kernels.adamw import Factors, Rule
from knotwork._kernels.encoding import LOCAL

BATCH, FEATURES, SIZE = 512, 14, 30
STACKS = (145, 660)
PRODUCTS = {
    ("mlp", torch.float32): ((420, 256), (448, 256), (256, 128), (128, 64)),
    ("resnet", torch.bfloat16): ((420, 256), (256, 512), (512, 256)),
}
PROGRAMS = ((32, 2, 4), (32, 2, 1), (32, 4, 1), (64, 1, 2), (64, 2, 2), (128, 1, 4), (128, 4, 4), (256, 2, 8))
"""Rows, blocks of rows and warps of a program of the knots' gradient."""
UPDATES = ((2048, 8), (1024, 4), (2048, 4), (4096, 8), (1024, 8), (8192, 8))


def timed(work: Callable[[], object], n_members: int) -> float:
    """Return the median microseconds of a call per network."""
    return do_bench(work, warmup=3, rep=15, return_mode="median") * 1000 / n_members


def bandwidth() -> float:
    """Return the bytes per microsecond of a copy."""
    source = torch.empty(1 << 29, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / timed(lambda: target.copy_(source), 1)


def in_parts(a: torch.Tensor, b: torch.Tensor, n: int) -> torch.Tensor:
    out = torch.empty(len(a), a.shape[1], b.shape[2], dtype=a.dtype, device=a.device)
    for start in range(0, len(a), n):
        torch.bmm(a[start : start + n], b[start : start + n], out=out[start : start + n])
    return out


def products(rate: float) -> list[str]:
    """Return the times of products, of the gradients of weights and of inputs."""
    lines = ["| what | type | d_in, d_out | members | memory | one call | in parts of 145 | of 66 | of 33 |"]
    lines.append("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for (_, dtype), shapes in PRODUCTS.items():
        for d_in, d_out in shapes:
            for n in STACKS:
                x = torch.randn(n, BATCH, d_in, device="cuda", dtype=dtype)
                weight = torch.randn(n, d_in, d_out, device="cuda", dtype=dtype)
                grad = torch.randn(n, BATCH, d_out, device="cuda", dtype=dtype)
                cases = {
                    "product": (x, weight),
                    "to weights": (x.transpose(1, 2), grad),
                    "to inputs": (grad, weight.transpose(1, 2)),
                    "to inputs, transposed": (weight, grad.transpose(1, 2)),
                }
                for name, (a, b) in cases.items():
                    values = a[0].numel() + b[0].numel() + a.shape[1] * b.shape[2]
                    times = [timed(lambda a=a, b=b: torch.bmm(a, b), n)]
                    times += [timed(lambda a=a, b=b, m=m: in_parts(a, b, m), n) for m in (145, 66, 33) if m < n]
                    shown = " | ".join(f"{us:.2f}" for us in times)
                    floor = values * x.element_size() / rate
                    lines.append(f"| {name} | {str(dtype)[6:]} | {d_in}, {d_out} | {n} | {floor:.2f} | {shown} |")
    return lines


def knots(rate: float) -> list[str]:
    """Return the times of the encoding and of the gradient of its knots."""
    lines = ["| what | members | rows, blocks, warps | us | memory |", "|---|--:|---|--:|--:|"]
    for n in STACKS:
        x = torch.rand(n, BATCH, FEATURES, device="cuda")
        n_knots = torch.full((n, FEATURES), SIZE - 4, dtype=torch.int32, device="cuda")
        breaks = torch.linspace(0, 1, SIZE - 2, device="cuda").expand(n, FEATURES, -1).contiguous()
        out = torch.empty(n, BATCH, FEATURES, SIZE, device="cuda")
        floor = BATCH * FEATURES * SIZE * 4 / rate
        us = timed(lambda out=out, t=(x, breaks, n_knots): encoding_triton.forward(*t, out, kind=LOCAL, degree=3), n)
        lines.append(f"| rows | {n} | | {us:.2f} | {floor:.2f} |")
        us = timed(
            lambda t=(out, x, breaks, n_knots): encoding_triton.backward(*t, kind=LOCAL, degree=3, with_x=False), n
        )
        lines.append(f"| both kernels of the gradient | {n} | | {us:.2f} | {floor:.2f} |")
        tensors = out, breaks, x, breaks, n_knots, x
        for rows, blocks, warps in PROGRAMS:
            n_parts = triton.cdiv(BATCH, rows * blocks)
            parts = torch.empty(n_parts, n * FEATURES, 32, 16, device="cuda")

            def work(tensors=tensors, parts=parts, n=n, rows=rows, blocks=blocks, warps=warps):
                encoding_triton._backward[(n * FEATURES, len(parts), 1)](
                    *tensors, parts, BATCH, FEATURES, SIZE - 2, SIZE, 32,
                    KIND=LOCAL, DEGREE=3, ROWS=rows, BLOCKS=blocks, STEPS=5, KNOTS=32, WINDOW=16,
                    WITH_X=False, WIDE=False, LONG=False, num_warps=warps,
                )  # fmt: skip

            lines.append(f"| sums | {n} | {rows}, {blocks}, {warps} | {timed(work, n):.2f} | {floor:.2f} |")
    return lines


def updates(rate: float) -> list[str]:
    """Return the times of AdamW."""
    lines = [
        "| parameters of a network | gradients | members | values, warps | us | memory |",
        "|--:|---|--:|---|--:|--:|",
    ]
    for n, length, dtype in ((660, 420 * 256, torch.float32), (190, 256 * 512, torch.bfloat16)):
        master, first, second = (torch.zeros(n, length, device="cuda") for _ in range(3))
        grad = torch.randn(n, length, device="cuda").to(dtype)
        parameter = master if dtype == torch.float32 else torch.zeros(n, length, device="cuda", dtype=dtype)
        factors = Factors(*(torch.full((n,), 1e-3, device="cuda") for _ in range(3)))
        floor = length * 28 / rate  # in bfloat16 the parameter is written beside its master
        for block, warps in UPDATES:

            def work(
                t=(parameter, master, grad, first, second, *factors), n=n, length=length, block=block, warps=warps
            ):
                rule = Rule(0.9, 0.999, 1e-8)
                adamw_triton._update[(triton.cdiv(length, block), n)](
                    *t, length, 0.0, 1.0 - rule.beta1, rule.beta2, 1.0 - rule.beta2, rule.epsilon,
                    ROUNDED=t[0] is not t[1], BLOCK=block, num_warps=warps,
                )  # fmt: skip

            us = timed(work, n)
            lines.append(f"| {length} | {str(dtype)[6:]} | {n} | {block}, {warps} | {us:.2f} | {floor:.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    rate = bandwidth()
    lines = [f"{torch.cuda.get_device_name()}, torch {torch.__version__}; a copy moves {rate / 1e6:.2f} TB/s"]
    for part in (updates, products, knots):
        lines += ["", *part(rate)]
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
