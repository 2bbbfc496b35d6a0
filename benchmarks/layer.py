"""The encoding layer in an ordinary training loop, compared with others: what a user waits for, host work included.

    python benchmarks/layer.py --out layer                   on the CPU
    python benchmarks/layer.py --device cuda --out layer     on a GPU

A call is forward and backward; without learned knots only forward, because nothing is differentiated. Calls follow each
other as in a training loop, without waiting for the GPU in between and without a CUDA graph; the time of a call is that
of many, divided by their number. "Floor" is the time to write the output once and, with learned knots, to read its
gradient once, at the bandwidth of a copy measured in the same run. "Recursion" computes all functions by the recursion
of Cox and de Boor in plain torch, with learned knots; "rtdl" is the fixed encoding of rtdl_num_embeddings;
"linear" is `nn.Linear` with as many outputs, to show how much of a small call is work of torch itself. In bfloat16 the
input is float32 and the output bfloat16: ours by autocast, the others by a conversion at the end; only the first of the
modes is measured.

The folder of `--out` gets layer.json, with one entry for every measurement, and layer.md, with the tables.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from layers import Recursion, bandwidth, synchronise
from torch import Tensor, nn

import knotwork as kw

N_FEATURES, SIZE = 14, 30
BATCHES = (256, 4096, 65_536)
DTYPES = (torch.float32, torch.bfloat16)


class PlainRamps(nn.Module):
    """The fixed piecewise-linear encoding as rtdl_num_embeddings 0.0.12 computes it, where it is not installed.

    Source: `_PiecewiseLinearEncodingImpl.forward` of https://github.com/yandex-research/rtdl-num-embeddings, for
    features that all have the same number of bins.
    """

    def __init__(self, bins: list[Tensor]) -> None:
        super().__init__()
        edges = torch.stack(bins)
        widths = torch.diff(edges, dim=-1)
        self.register_buffer("weight", 1.0 / widths)
        self.register_buffer("bias", -edges[:, :-1] / widths)

    def forward(self, x: Tensor) -> Tensor:
        """Encode values of shape (batch, features)."""
        x = torch.addcmul(self.bias, self.weight, x[..., None])
        parts = [x[..., :1].clamp_max(1.0), x[..., 1:-1].clamp(0.0, 1.0), x[..., -1:].clamp_min(0.0)]
        return torch.cat(parts, dim=-1)


class Converted(nn.Module):
    """A layer whose output is converted to another type."""

    def __init__(self, layer: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = layer, dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the layer in the type."""
        return self.layer(x).to(self.dtype)


def make_rtdl() -> nn.Module:
    bins = [torch.linspace(0.0, 1.0, SIZE + 1)] * N_FEATURES
    if importlib.util.find_spec("rtdl_num_embeddings") is None:
        return PlainRamps(bins)
    from rtdl_num_embeddings import PiecewiseLinearEncoding  # noqa: PLC0415 - not everywhere

    return PiecewiseLinearEncoding(bins)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "B-splines, learned": lambda: kw.nn.SplineEncoding(N_FEATURES, SIZE),
    "I-splines, learned": lambda: kw.nn.SplineEncoding(N_FEATURES, SIZE, family="ispline"),
    "B-splines, fixed": lambda: kw.nn.SplineEncoding(N_FEATURES, SIZE, learnable=False),
    "PLE, fixed": lambda: kw.nn.PiecewiseLinearEncoding(N_FEATURES, SIZE, learnable=False),
    "recursion, learned": lambda: Recursion(N_FEATURES, SIZE, "bspline"),
    "rtdl, fixed": make_rtdl,
    "linear": lambda: nn.Linear(N_FEATURES, N_FEATURES * SIZE),
}
OURS = ("B-splines", "I-splines", "PLE", "linear")  # the last one only for its type under autocast
PEERS = {"B-splines, learned": "recursion, learned", "PLE, fixed": "rtdl, fixed"}


def make_call(layer: nn.Module, x: Tensor, dtype: torch.dtype) -> Callable[[], object]:
    """Return a call of the layer, forward and, if it has parameters, backward."""
    knots = list(layer.parameters())

    def encode() -> Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            return layer(x)

    gradient = torch.randn_like(encode())

    def call() -> None:
        out = encode()
        if knots:
            for parameter in knots:
                parameter.grad = None
            out.backward(gradient)

    return call


def loop_time(call: Callable[[], object], device: str, seconds: float) -> float:
    """Return the median over rounds of the time of a call in a loop that waits for the device at its end only."""
    for _ in range(3):
        call()
    synchronise(device)
    start = time.perf_counter()
    call()
    synchronise(device)
    n_calls = max(1, min(200, int(seconds / 10 / (time.perf_counter() - start))))
    times: list[float] = []
    while len(times) < 3 or sum(times) * n_calls < seconds:
        start = time.perf_counter()
        for _ in range(n_calls):
            call()
        synchronise(device)
        times.append((time.perf_counter() - start) / n_calls)
    return statistics.median(times)


def measure(name: str, device: str, rate: float, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure a layer in every type, mode and batch size."""
    for dtype in DTYPES:
        for mode in arguments.modes if dtype == torch.float32 else arguments.modes[:1]:
            torch.manual_seed(0)
            torch._dynamo.reset()
            layer = LAYERS[name]().to(device)
            passes = 2 if any(True for _ in layer.parameters()) else 1
            if dtype == torch.bfloat16 and not name.startswith(OURS):
                layer = Converted(layer, dtype)
            run = torch.compile(layer, dynamic=True) if mode == "compiled" else layer
            for batch in arguments.batches:
                x = torch.rand(batch, N_FEATURES, device=device)
                n_bytes = batch * N_FEATURES * SIZE * dtype.itemsize
                entry = {"layer": name, "type": str(dtype).removeprefix("torch."), "mode": mode, "batch": batch}
                entry["us"] = loop_time(make_call(run, x, dtype), device, arguments.seconds) * 1e6
                entry["floor_us"] = passes * n_bytes / rate * 1e6
                print(entry, flush=True)
                yield entry


def tables(entries: list[dict[str, Any]]) -> list[str]:
    """Return a table of times with their ratios to the floor, and one of ratios of peers to ours."""
    batches = sorted({entry["batch"] for entry in entries})
    times = {(e["layer"], e["type"], e["mode"], e["batch"]): e for e in entries}
    rows = list(dict.fromkeys(key[:3] for key in times))
    lines = [
        "| layer | type | mode | " + " | ".join(f"batch {batch:,}, us (times floor)" for batch in batches) + " |",
        "|---|---|---|" + "---|" * len(batches),
    ]
    for row in rows:
        found = [times[*row, batch] for batch in batches]
        cells = [f"{entry['us']:.0f} ({entry['us'] / entry['floor_us']:.1f})" for entry in found]
        lines.append(f"| {' | '.join(row)} | {' | '.join(cells)} |")
    lines += ["", "| peer / ours | type | mode | " + " | ".join(f"batch {batch:,}" for batch in batches) + " |"]
    lines.append("|---|---|---|" + "---|" * len(batches))
    for ours, peer in PEERS.items():
        for _, dtype, mode in [row for row in rows if row[0] == peer]:
            for our_mode in dict.fromkeys(("eager", mode)):
                if (ours, dtype, our_mode) not in rows:
                    continue
                ratios = [times[peer, dtype, mode, b]["us"] / times[ours, dtype, our_mode, b]["us"] for b in batches]
                title = f"{peer}, {mode} / {ours}, {our_mode} | {dtype} | {mode}"
                lines.append(f"| {title} | {' | '.join(f'{ratio:.1f}' for ratio in ratios)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--modes", nargs="+", choices=("eager", "compiled"), default=["eager", "compiled"])
    parser.add_argument("--batches", nargs="+", type=int, default=list(BATCHES))
    parser.add_argument("--seconds", type=float, default=0.2, help="time of a measurement")
    parser.add_argument("--out", type=Path, required=True, help="folder for layer.json and layer.md")
    arguments = parser.parse_args()
    rate, entries = bandwidth(arguments.device), list[dict[str, Any]]()
    for name in LAYERS:
        entries += measure(name, arguments.device, rate, arguments)
        write(entries, arguments.device, arguments.out)  # what is done is not lost if the rest takes too long
    print((arguments.out / "layer.md").read_text())


def write(entries: list[dict[str, Any]], device: str, out: Path) -> None:
    """Write the measurements and their tables."""
    threads = f"{platform.machine()}, {torch.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}"
    machine = torch.cuda.get_device_name() if device == "cuda" else threads
    rtdl = "rtdl_num_embeddings" if importlib.util.find_spec("rtdl_num_embeddings") else "the same formula as rtdl's"
    title = f"{datetime.now(UTC):%Y-%m-%d}, {machine}, torch {torch.__version__}, `python benchmarks/layer.py --device "
    lines = [f"{title}{device}`; rtdl is {rtdl}.", "", *tables(entries)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "layer.json").write_text(json.dumps({"machine": machine, "measurements": entries}, indent=1))
    (out / "layer.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
