"""Time of the parts of a training step of a stack, by shape and by ways to compute them, on a GPU.

    python -m tests.kernels.measure_stack --out stack.md           about 20 s on an H200

Times are microseconds per network, beside the time that reading and writing each factor and result once would take
("memory"). Products are those of the first layers of the MLP (tf32) and of the ResNet (bfloat16), batches of 512; "in
parts" computes them for some of the networks at a time. Batch normalisation, bfloat16, has several numbers of columns,
rows and warps of a program, and AdamW several numbers of values and warps.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from triton.testing import do_bench

from knotwork._kernels import adamw_triton, batch_norm_triton
from knotwork._kernels.adamw import AdamWConstants, Factors
from knotwork._kernels.batch_norm import BatchNormSettings
from knotwork._kernels.batch_norm_triton import BATCH_NORM
from knotwork._kernels.dropout import Noise

BATCH = 512
STACKS = (145, 660)
PRODUCTS = {
    ("mlp", torch.float32): ((420, 256), (448, 256), (256, 128), (128, 64)),
    ("resnet", torch.bfloat16): ((420, 256), (256, 512), (512, 256)),
}
NORMS = ((64, 64, 8), (64, 512, 16), (32, 512, 16), (32, 512, 8), (16, 512, 8), (16, 512, 4))
"""Columns, rows and warps of a program of batch normalisation; 512 rows are all."""
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


def norms(rate: float) -> list[str]:
    """Return the times of batch normalisation with relu and dropout, and with a residual."""
    lines = ["| width | then | columns, rows, warps | forward | memory | backward | memory |"]
    lines.append("|--:|---|---|--:|--:|--:|--:|")
    n, noise = 190, Noise(*torch.zeros(2, 190, dtype=torch.int64, device="cuda"))
    for width, relu in ((512, True), (256, False)):
        x = torch.randn(n, BATCH, width, device="cuda").bfloat16()
        of_columns = [torch.rand(n, width, device="cuda") for _ in range(4)]
        options = {"settings": BatchNormSettings(0.1, 1e-5, relu, 0.3 if relu else 0.0, 0)}
        options |= {"counts": torch.full((n,), BATCH, device="cuda")}
        inputs = x, *of_columns[:2], None if relu else x
        made = {"buffers": tuple(of_columns[2:]), "noise": noise if relu else None}
        one = BATCH * width * 2 / rate
        for columns, rows, warps in NORMS:
            shape = {"N_ROWS": BATCH, "TILES": BATCH // rows, "ROWS": rows, "COLUMNS": columns}
            shape |= {"LONG": False, "num_warps": warps}
            batch_norm_triton._shape = lambda x, *, forward, fixed_order, shape=shape: shape
            kept = BATCH_NORM.forward(*inputs, **made, **options)[1]
            us = timed(lambda t=inputs, o={**made, **options}: BATCH_NORM.forward(*t, **o), n)
            back = timed(lambda t=((x,), kept, (True,) * 4), o=options: BATCH_NORM.backward(*t, **o), n)
            what = f"| {width} | {'relu' if relu else 'residual'} | {columns}, {rows}, {warps} "
            lines.append(f"{what}| {us:.2f} | {(3 - relu) * one:.2f} | {back:.2f} | {(3 + relu) * one:.2f} |")
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
                rule = AdamWConstants(0.9, 0.999, 1e-8)
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
    for part in (norms, updates, products):
        lines += ["", *part(rate)]
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
