"""Cost of a layer with learned knots, compared with plain torch and with the memory that it must read and write.

    python benchmarks/layers.py                    on the CPU
    python benchmarks/layers.py --device cuda      on a GPU

The tables show the layer alone, forward and backward, by batch, features, size, family and type; its peak memory; and
the ratio of a training step of the paper's MLP (256-128-64, dropout 0.3, AdamW, batch 512, 14 features, size 30) with
learned knots and spacing penalty to the same step with fixed knots. "Floor" is the time to write the output once and to
read its gradient once, at the bandwidth of a copy measured in the same run. On a GPU timed calls are captured in a
graph, so that launching is not measured; "not captured" is the layer's time without a graph. "Recursion" computes all
functions by the Cox-de Boor recursion in plain torch and differentiates by autograd; "compiled" is torch.compile of it;
"rtdl" is the fixed piecewise-linear encoding of rtdl_num_embeddings.
"""

import argparse
import gc
import importlib.util
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor, nn

import knotwork as kw

FAMILIES = ("bspline", "mspline", "ispline", "ple")


class Recursion(nn.Module):
    """All functions of a family by the recursion, with learned spacings: the straightforward version."""

    def __init__(self, n_features: int, size: int, family: str) -> None:
        super().__init__()
        self.family, self.degree = family, 0 if family == "ple" else 3
        n_knots = size - self.degree - 1
        self.logits = nn.Parameter(torch.zeros(n_features, n_knots + 1))

    def forward(self, x: Tensor) -> Tensor:
        """Encode values of shape (batch, features)."""
        widths = 1e-3 + (1.0 - 1e-3 * self.logits.shape[-1]) * torch.softmax(self.logits, dim=-1)
        ends = torch.cumsum(widths[:, :-1], dim=-1)
        breaks = torch.cat([torch.zeros_like(ends[:, :1]), ends, torch.ones_like(ends[:, :1])], dim=-1)
        degree = self.degree + (self.family in ("ispline", "ple"))
        low, high = breaks[:, :1].expand(-1, degree), breaks[:, -1:].expand(-1, degree)
        t = torch.cat([low, breaks, high], dim=-1)
        x = x[..., None].clamp(0.0, 1.0 - 1e-6)
        values = ((t[:, :-1] <= x) & (x < t[:, 1:])).to(x.dtype)
        for q in range(1, degree + 1):
            left, right = t[:, q:-1] - t[:, : -q - 1], t[:, q + 1 :] - t[:, 1:-q]
            rising = torch.where(left > 0, (x - t[:, : -q - 1]) / left.clamp(min=1e-12), 0.0)
            falling = torch.where(right > 0, (t[:, q + 1 :] - x) / right.clamp(min=1e-12), 0.0)
            values = rising * values[..., :-1] + falling * values[..., 1:]
        if self.family == "mspline":
            spans = t[:, degree + 1 :] - t[:, : -degree - 1]
            return nn.functional.layer_norm(values * (degree + 1) / spans, (values.shape[-1],))
        return values[..., 1:].flip(-1).cumsum(-1).flip(-1) if self.family in ("ispline", "ple") else values


def make_layer(n_features: int, size: int, family: str, *, learnable: bool = True) -> nn.Module:
    if family == "ple":
        return kw.nn.PiecewiseLinearEncoding(n_features, size, learnable=learnable)
    return kw.nn.SplineEncoding(n_features, size, family=family, learnable=learnable)


def synchronise(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(work: Callable[[], object], device: str, seconds: float = 0.4) -> float:
    """Return the median time of a call."""
    for _ in range(3):
        work()
    if device == "cuda":
        import triton  # noqa: PLC0415 - needed on a GPU only

        return float(triton.testing.do_bench(work, warmup=30, rep=int(1000 * seconds), return_mode="median")) / 1000
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def bandwidth(device: str) -> float:
    """Return bytes per second of a large copy, counting bytes read and bytes written."""
    source = torch.rand(1 << (28 if device == "cuda" else 24), device=device)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / timed(lambda: target.copy_(source), device)


def captured(work: Callable[[], object], device: str) -> Callable[[], object]:
    """Return the replay of a CUDA graph of the call on a GPU, and the call itself on a CPU."""
    if device != "cuda":
        return work
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replay(kept: Callable[[], object] = work) -> None:  # keeps the captured tensors alive
        del kept
        graph.replay()

    return replay


def forward_backward(layer: nn.Module, x: Tensor, dtype: torch.dtype) -> Callable[[], object]:
    """Return a call of the layer, forward and backward, with a random gradient."""
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        gradient = torch.randn_like(layer(x))

    def work() -> None:
        with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            out = layer(x)
        torch.autograd.grad(out, list(layer.parameters()), gradient)

    return work


def layer_table(device: str, *, quick: bool) -> list[str]:
    """Measure the layer alone."""
    rate = bandwidth(device)
    cases = [(512, 14, 30), (65_536, 14, 30)]
    if not quick:
        cases += [(512, 14, 7), (4096, 14, 30), (65_536, 14, 7), (65_536, 100, 15), (65_536, 14, 100)]
    if device == "cpu":
        cases = [case for case in cases if case[0] * case[1] * case[2] < 4e7]
    lines = [
        f"Copy bandwidth: {rate / 1e9:.0f} GB/s.\n",
        "| family | type | batch | features | size | layer, us | not captured, us | floor, us | layer / floor "
        "| recursion / layer | compiled / layer |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        for dtype in (torch.float32, torch.bfloat16):
            for batch, n_features, size in cases:
                x = torch.rand(batch, n_features, device=device)
                work = forward_backward(make_layer(n_features, size, family).to(device), x, dtype)
                eager, ours = timed(work, device), timed(captured(work, device), device)
                floor = 2 * batch * n_features * size * (4 if dtype == torch.float32 else 2) / rate
                peers = "|  |  |"
                if dtype == torch.float32 and batch * n_features * size < 3e7:
                    peers = peer_times(device, x, size, family, ours, compile_too=size == 30)
                lines.append(
                    f"| {family} | {str(dtype).removeprefix('torch.')} | {batch} | {n_features} | {size} "
                    f"| {ours * 1e6:.0f} | {eager * 1e6:.0f} | {floor * 1e6:.1f} | {ours / floor:.1f} {peers}"
                )
                print(lines[-1], flush=True)
    return lines


def peer_times(device: str, x: Tensor, size: int, family: str, ours: float, *, compile_too: bool) -> str:
    """Return how many times longer the recursion takes, plain and compiled."""
    peer = Recursion(x.shape[-1], size, family).to(device)
    plain = timed(captured(forward_backward(peer, x, torch.float32), device), device, seconds=0.2)
    ratio = f"| {plain / ours:.1f} "
    if not compile_too:
        return ratio + "|  |"
    torch._dynamo.reset()
    work = forward_backward(torch.compile(peer, dynamic=False), x, torch.float32)
    work()  # compiles
    compiled = timed(captured(work, device), device, seconds=0.2)
    return ratio + f"| {compiled / ours:.1f} |"


def rtdl_table(device: str) -> list[str]:
    """Compare the fixed piecewise-linear encoding with rtdl's."""
    if importlib.util.find_spec("rtdl_num_embeddings") is None:
        return ["rtdl_num_embeddings: not installed, skipped."]
    from rtdl_num_embeddings import PiecewiseLinearEncoding  # noqa: PLC0415 - not everywhere

    lines = ["| batch | features | size | ours, us | rtdl, us | rtdl / ours |", "|---|---|---|---|---|---|"]
    for batch, n_features, size in ((512, 14, 30), (65_536, 14, 30)):
        x = torch.rand(batch, n_features, device=device)
        ours = make_layer(n_features, size, "ple", learnable=False).to(device)
        peer = PiecewiseLinearEncoding([torch.linspace(0, 1, size + 1)] * n_features).to(device)
        times = [timed(lambda layer=layer, x=x: layer(x), device) for layer in (ours, peer)]
        cells = [batch, n_features, size, *(f"{t * 1e6:.0f}" for t in times), f"{times[1] / times[0]:.1f}"]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
        print(lines[-1], flush=True)
    return lines


def memory_table(device: str) -> list[str]:
    """Measure memory kept between forward and backward, and peak memory, in multiples of the output."""
    lines = ["| family | output, MiB | kept for backward / output | peak / output |", "|---|---|---|---|"]
    if device != "cuda":
        return ["Peak memory is measured on a GPU, where the allocator counts it."]
    for family in FAMILIES:
        layer, x = make_layer(14, 30, family).to(device), torch.rand(65_536, 14, device=device)
        forward_backward(layer, x, torch.float32)()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = layer(x)
        size = out.numel() * out.element_size()
        kept = torch.cuda.memory_allocated() - before - size
        torch.autograd.grad(out, list(layer.parameters()), torch.ones_like(out))
        peak = torch.cuda.max_memory_allocated() - before
        lines.append(f"| {family} | {size / 2**20:.0f} | {kept / size:.3f} | {peak / size:.2f} |")
        del out
    return lines


class Network(nn.Module):
    """The paper's MLP behind an encoding."""

    def __init__(self, encoding: nn.Module, width: int) -> None:
        super().__init__()
        self.encoding = encoding
        layers: list[nn.Module] = []
        for n_in, n_out in ((width, 256), (256, 128), (128, 64)):
            layers += [nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(0.3)]
        self.body = nn.Sequential(*layers, nn.Linear(64, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return one number per row, and the spacing penalty."""
        prediction = self.body(self.encoding(x).flatten(-2))[..., 0]
        return prediction, self.encoding.spacing_penalty()


def training_step(family: str, device: str, *, learnable: bool, batch: int = 512) -> Callable[[], object]:
    """Return a training step; on a GPU, the replay of its graph."""
    torch.manual_seed(0)
    network = Network(make_layer(14, 30, family, learnable=learnable), 14 * 30).to(device)
    x, y = torch.rand(batch, 14, device=device), torch.rand(batch, device=device)
    knots = [p for name, p in network.named_parameters() if name.startswith("encoding")]
    groups = [{"params": list(network.body.parameters())}]
    groups += [{"params": knots, "lr": 2e-4, "weight_decay": 0.0}] if knots else []
    optimiser = torch.optim.AdamW(groups, lr=1e-4, weight_decay=1e-5, fused=True, capturable=device == "cuda")

    one, weight = torch.ones((), device=device), torch.full((), 1e-4, device=device)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        if learnable:
            prediction, penalty = network(x)
            loss = nn.functional.mse_loss(prediction, y)
            torch.autograd.backward((loss, penalty), (one, weight))  # the gradient of loss + 1e-4 penalty
        else:
            loss = nn.functional.mse_loss(network.body(network.encoding(x).flatten(-2))[..., 0], y)
            torch.autograd.backward(loss, one)
        optimiser.step()

    return captured(step, device)


def step_table(device: str) -> list[str]:
    """Measure training steps with learned and with fixed knots, in turns."""
    lines = ["| family | fixed, us | learned, us | learned / fixed |", "|---|---|---|---|"]
    for family in FAMILIES:
        steps = {flag: training_step(family, device, learnable=flag) for flag in (False, True)}
        rounds = [{flag: timed(step, device, 0.3) for flag, step in steps.items()} for _ in range(5)]
        fixed, learned = (statistics.median(times[flag] for times in rounds) for flag in (False, True))
        lines.append(f"| {family} | {fixed * 1e6:.0f} | {learned * 1e6:.0f} | {learned / fixed:.2f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    arguments = parser.parse_args()
    device = arguments.device
    machine = (
        torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    sections = {
        "Training step, MLP, batch 512, 14 features, size 30": lambda: step_table(device),
        "The layer alone, forward and backward": lambda: layer_table(device, quick=arguments.quick),
        "Peak memory, batch 65,536, 14 features, size 30, float32": lambda: memory_table(device),
        "Fixed piecewise-linear encoding, forward": lambda: rtdl_table(device),
    }
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {machine}, torch {torch.__version__}, "
        f"`python benchmarks/layers.py --device {device}`\n"
    ]
    for title, measure in sections.items():
        lines += [f"### {title}\n", *measure(), ""]
        if arguments.out:
            arguments.out.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
