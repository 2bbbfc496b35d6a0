"""Time of layer norms, gated units and the gradients of tokens of FT-Transformer stacks, on a GPU.

    python -m tests.kernels.measure_norms --out norms.md [--before FILE]             about 30 s on an H200

Times are microseconds per network, in bfloat16, and as multiples of the time that reading and writing each number once
would take, at the rate of a copy. "Block" is what a block computes without attention, forward and backward, with its
products: its kernels read what a product has just written. There "ascending" is the same with programs in the order of
members. FILE is another version of `transformer_triton.py`, measured beside that of the library and compared with it.
Tables with tiles follow.
"""

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch

from knotwork._kernels import transformer_triton
from knotwork._kernels.dropout import Noise

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
WIDTH, HALF, P = 192, 256, 0.1
STACKS = {"4 x 512 x 361": (4, 512, 361, 1), "40 x 512 x 15": (40, 512, 15, 30)}
"""Members, rows, tokens, and values of a block."""
FLOORS = {
    "layer norm": 4 * WIDTH,
    "layer norm backward": 4 * WIDTH,
    "layer norm backward, first token": 3 * WIDTH,
    "gated unit": 3 * HALF,
    "gated unit backward": 5 * HALF,
    "tokens backward": WIDTH,
}
"""Numbers that a token reads and writes."""
TILES = ((1024, 4), (2048, 4), (2048, 8), (512, 2))
"""Values and warps of a program."""


def timed(work: Callable[[], object], n_members: int) -> float:
    """Return the median microseconds of a call per network."""
    if GPU:
        from triton.testing import do_bench

        return do_bench(work, warmup=4, rep=20, return_mode="median") * 1000 / n_members
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6 / n_members


def bandwidth() -> float:
    """Return the bytes per microsecond of a copy."""
    source = torch.empty(1 << (29 if GPU else 20), device=DEVICE)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / timed(lambda: target.copy_(source), 1)


def paths(file: Path | None) -> ModuleType:
    """Return the kernels of the library, or those of a file."""
    if file is None:
        return transformer_triton
    spec = importlib.util.spec_from_file_location(f"{file.parent.name}_transformer_triton", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ascending(folder: Path) -> ModuleType:
    """Return the kernels of the library with programs in the order of members."""
    text = Path(str(transformer_triton.__file__)).read_text()
    for axis in (0, 1):
        text = text.replace(f"tl.num_programs({axis}) - 1 - tl.program_id({axis})", f"tl.program_id({axis})")
    (folder / "transformer_triton.py").write_text(text)
    return paths(folder / "transformer_triton.py")


def stack(shape: tuple[int, int, int, int]) -> SimpleNamespace:
    """Return the tensors of a stack."""
    members, rows, tokens, size = shape
    torch.manual_seed(0)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(members, *shape, device=DEVICE).bfloat16()

    x, added, grad, sum_grad = (drawn(rows, tokens, WIDTH) for _ in range(4))
    noise = Noise(torch.arange(members, device=DEVICE), torch.zeros(members, dtype=torch.int64, device=DEVICE))
    return SimpleNamespace(
        x=x, added=added, grad=grad, sum_grad=sum_grad, gates=drawn(rows, tokens, 2 * HALF), n=members,
        weights=drawn(3, WIDTH).unbind(1), bias=drawn(2 * HALF), hidden_grad=drawn(rows, tokens, HALF),
        blocks=drawn(rows, tokens - 1, size), of_tokens=drawn(tokens - 1, size, WIDTH), noise=noise,
        products=[drawn(a, b) / a**0.5 for a, b in ((WIDTH, WIDTH), (WIDTH, 2 * HALF), (HALF, WIDTH))],
    )  # fmt: skip


def kernels(way: ModuleType, on: SimpleNamespace) -> dict[str, Callable[[], tuple]]:
    """Return the calls that are measured, by name."""
    shift, weight, bias = on.weights
    norm = partial(way.LAYER_NORM.forward, on.x, on.added, shift, weight, bias, epsilon=1e-5, first=False)
    gates = partial(way.REGLU.forward, on.gates, on.bias, p=P, noise=on.noise, stream=1)
    kept, gates_kept, backward = norm()[1], gates()[1], partial(way.LAYER_NORM.backward, epsilon=1e-5, first=False)
    tokens_kept = (on.blocks, on.of_tokens, on.x[:0], weight[:0], weight[:0])
    grads = {"p": P, "noise": on.noise, "stream": 1}
    return {
        "layer norm": lambda: norm()[0],
        "layer norm backward": lambda: backward((on.sum_grad, on.grad), kept, None),
        "layer norm backward, first token": lambda: backward((on.sum_grad[:, :, :1], on.grad), kept, None),
        "gated unit": lambda: gates()[0],
        "gated unit backward": lambda: way.REGLU.backward((on.hidden_grad,), gates_kept, None, **grads),
        "tokens backward": lambda: way.TOKENS.backward((on.grad,), tokens_kept, (False, True, True, True, True))[1::2],
    }


def block(way: ModuleType, on: SimpleNamespace) -> Callable[[], object]:
    """Return a call that computes a block without attention, forward and backward."""
    shift, weight, bias = on.weights
    out, up, down = on.products
    settings = {"epsilon": 1e-5, "first": False}

    def product(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x.flatten(1, -2), weights).view(*x.shape[:-1], weights.shape[-1])

    def slopes(grad: torch.Tensor, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        torch.bmm(x.flatten(1, -2).transpose(1, 2), grad.flatten(1, -2))
        return product(grad, weights.transpose(1, 2))

    def run() -> object:
        (s, y), kept = way.LAYER_NORM.forward(on.x, product(on.added, out), shift, weight, bias, **settings)
        (h,), gates = way.REGLU.forward(product(y, up), on.bias, p=P, noise=on.noise, stream=1)
        (_, _), last = way.LAYER_NORM.forward(s, product(h, down), shift, weight, bias, **settings)
        grad = way.LAYER_NORM.backward((on.sum_grad, on.grad), last, None, **settings)[0]
        gates_grad = way.REGLU.backward((slopes(grad, h, down),), gates, None, p=P, noise=on.noise, stream=1)[0]
        grad = way.LAYER_NORM.backward((grad, slopes(gates_grad, y, up)), kept, None, **settings)[0]
        return slopes(grad, on.added, out)

    return run


def difference(ours: tuple, others: tuple) -> str:
    """Return the largest difference between results, relative to the largest of each."""
    pairs = [(a.float(), b.float()) for a, b in zip(ours, others, strict=True) if a is not None]
    return f"{max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) for a, b in pairs):.0e}"


def comparison(on: SimpleNamespace, ways: dict[str, ModuleType], floor: float) -> Iterator[str]:
    """Compare with the other version, if any; `floor` is the time of a number of each token."""
    shown = [name for name in ways if name != "ascending"]
    yield f"| | {' | '.join(f'{name}, us | x floor' for name in shown)} | difference |"
    yield f"|---|{'--:|' * (2 * len(shown) + 1)}"
    for name, numbers in FLOORS.items():
        calls = [kernels(ways[way], on)[name] for way in shown]
        times = [timed(call, on.n) for call in calls]
        cells = " | ".join(f"{us:.2f} | {us / (numbers * floor):.2f}" for us in times)
        yield f"| {name} | {cells} | {difference(calls[0](), calls[-1]()) if len(calls) > 1 else ''} |"
    for name, way in ways.items():
        yield f"| block, {name} | {timed(block(way, on), on.n):.2f} |"


def sweep(on: SimpleNamespace, name: str, values: dict[str, tuple[int, ...]]) -> str:
    """Return the times of a kernel with other constants of its module."""
    before, cells = {key: vars(transformer_triton)[key] for key in values}, []
    for chosen in zip(*values.values(), strict=True):
        for key, value in zip(values, chosen, strict=True):
            setattr(transformer_triton, key, value)
        cells.append(f"{chosen}: {timed(kernels(paths(None), on)[name], on.n):.2f}")
    for key, value in before.items():
        setattr(transformer_triton, key, value)
    return f"{name} by {', '.join(values)}, us: {'; '.join(cells)}"


def tables(shape: tuple[int, int, int, int], ways: dict[str, ModuleType], rate: float) -> Iterator[str]:
    """Measure a stack."""
    on = stack(shape)
    yield from comparison(on, ways, shape[1] * shape[2] * 2 / rate)
    tiles = dict(zip(("TILE", "WARPS"), zip(*TILES, strict=True), strict=True))
    yield ""
    for name in ("layer norm backward", "gated unit backward", "layer norm"):
        yield sweep(on, name, tiles) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="file with other versions of the kernels")
    parser.add_argument("--small", action="store_true", help="tiny stacks, to try the script")
    options = parser.parse_args()
    if not GPU:
        import_module("tests.kernels.cases")  # lets Triton's interpreter run these loops
    rate, start = bandwidth(), time.perf_counter()
    lines = [f"{torch.cuda.get_device_name() if GPU else 'CPU'}: a copy moves {rate / 1e6:.2f} TB/s"]
    with tempfile.TemporaryDirectory() as folder:
        ways = {} if options.before is None else {"before": paths(options.before)}
        ways |= {"now": paths(None), "ascending": ascending(Path(folder))}
        for name, shape in STACKS.items():
            lines += ["", f"**{name}**", ""]
            for line in tables((2, 3, 5, 4) if options.small else shape, ways, rate):
                print(line, flush=True)
                lines.append(line)
                options.out.write_text("\n".join([*lines, f"{time.perf_counter() - start:.0f} s", ""]))


if __name__ == "__main__":
    main()
