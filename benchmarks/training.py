"""Speed of training a stack of networks, compared with an ordinary loop that trains one network at a time.

    python benchmarks/training.py                    on the CPU, small stacks
    python benchmarks/training.py --device cuda      on a GPU

The table has 131,200 rows and 14 numerical features; B-splines on quantile knots of size 30, batch 512, the protocol of
the paper. "Plain" is the ordinary torch loop for one such network: module, AdamW, encoding computed beforehand and
indexed batch by batch. "Stack" is the engine: the median time of an epoch of `train`, divided by its 256 steps. An
epoch includes encoding, optimiser, a new order of the rows and a score of 64 validation rows. Times are per step and
network; "share" is the rate of floating-point operations of the matrix products, as a share of the rate of a large bf16
product in the same run.
"""

import argparse
import gc
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

import knotwork as kw
from knotwork.encoders import METHOD_TABLE
from knotwork.nn import BACKBONES
from knotwork.training import Member, TrainingConfig, TrainingTable, train

N_FEATURES, SIZE, BATCH = 14, 30, 512
N_STEPS = 256
"""Steps of an epoch: many, so that the time between epochs is negligible."""

PAPER = {"mlp": {"dropout": 0.3}}
"""Settings of the paper that are not the library's defaults."""

STACKS = {"mlp": [1, 20, 145, 660], "resnet": [1, 20, 70, 190], "ft": [1, 5, 20, 40]}
"""Networks of the measured stacks of each backbone on a GPU."""

N_VALID, N_UNUSED = 64, 64
N_ROWS = N_STEPS * BATCH + N_VALID + N_UNUSED


def make_table(n_steps: int = N_STEPS, n_features: int = N_FEATURES) -> TrainingTable:
    """Return a table whose training rows are `n_steps` batches, with rows for validation and unused ones behind."""
    random, n_rows = np.random.default_rng(0), n_steps * BATCH + N_VALID + N_UNUSED
    numbers = random.normal(size=(n_rows, n_features))
    target = np.sin(numbers).sum(axis=1) + 0.1 * random.normal(size=n_rows)
    return TrainingTable(numbers, np.zeros((n_rows, 0), dtype=np.int64), target, "regression")


def make_members(table: TrainingTable, n_members: int, method: str, size: int) -> list[Member]:
    rows, n_train = np.arange(len(table.target)), len(table.target) - N_VALID - N_UNUSED
    kind = METHOD_TABLE[method]
    encoder = kw.make_encoder(kind.start or method, size=size).fit(table.numbers, table.target)
    train_rows, valid_rows = rows[:n_train], rows[n_train : n_train + N_VALID]
    return [Member(train_rows, valid_rows, encoder.fitted_, kind.learnable, seed) for seed in range(n_members)]


def timed(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return the median time of a call in seconds."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        if device.type == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1000)
        else:
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    return statistics.median(times)


class PlainResNet(nn.Module):
    """The residual network, written in the straightforward way."""

    def __init__(self, d_in: int) -> None:
        super().__init__()
        self.first = nn.Linear(d_in, 256)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(256, 512),
                nn.BatchNorm1d(512),
                nn.ReLU(),
                nn.Dropout(0.3),
                nn.Linear(512, 256),
                nn.BatchNorm1d(256),
            )
            for _ in range(3)
        )
        self.head = nn.Linear(256, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return predictions."""
        x = self.first(x.flatten(1))
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class PlainTransformer(nn.Module):
    """Feature tokens and torch's attention, written in the straightforward way."""

    def __init__(self, n_features: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_features, size, 192) * 0.07)
        self.bias = nn.Parameter(torch.randn(n_features, 192) * 0.07)
        self.cls = nn.Parameter(torch.randn(1, 1, 192) * 0.07)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(192),
                    "attention": nn.MultiheadAttention(192, 8, dropout=0.2, batch_first=True),
                    "ffn_norm": nn.LayerNorm(192),
                    "up": nn.Linear(192, 512),
                    "down": nn.Linear(256, 192),
                }
            )
            for _ in range(3)
        )
        self.head = nn.Sequential(nn.LayerNorm(192), nn.ReLU(), nn.Linear(192, 1))

    def forward(self, blocks: torch.Tensor) -> torch.Tensor:
        """Return predictions."""
        x = torch.einsum("bfm,fmd->bfd", blocks, self.weight) + self.bias
        x = torch.cat([self.cls.expand(len(x), 1, -1), x], dim=1)
        for block in self.blocks:
            y = block["norm"](x)
            x = x + block["attention"](y, y, y, need_weights=False)[0]
            value, gate = block["up"](block["ffn_norm"](x)).chunk(2, dim=-1)
            x = x + block["down"](nn.functional.dropout(value * torch.relu(gate), 0.1))
        return self.head(x[:, 0])


def plain_network(backbone: str, n_features: int, size: int) -> nn.Module:
    if backbone == "resnet":
        return PlainResNet(n_features * size)
    if backbone == "ft":
        return PlainTransformer(n_features, size)
    widths = [n_features * size, 256, 128, 64]
    layers: list[nn.Module] = [nn.Flatten()]
    for d_in, d_out in pairwise(widths):
        layers += [nn.Linear(d_in, d_out), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*layers, nn.Linear(64, 1))


def plain_step(table: TrainingTable, backbone: str, size: int, device: torch.device) -> Callable[[], object]:
    """Return a step of the ordinary loop."""
    encoder = kw.make_encoder("BS-Q", size=size).fit(table.numbers, table.target)
    encoded = torch.from_numpy(encoder.transform(table.numbers)).view(N_ROWS, N_FEATURES, size).to(device)
    target = torch.from_numpy(table.target).float().to(device)
    network = plain_network(backbone, N_FEATURES, size).to(device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-4, weight_decay=1e-5)
    rows = torch.randperm(N_ROWS, device=device)[:BATCH]

    def step() -> None:
        optimiser.zero_grad()
        nn.functional.mse_loss(network(encoded[rows])[:, 0], target[rows]).backward()
        optimiser.step()

    return step


def operations(network: nn.Module, n_members: int) -> float:
    """Return the floating-point operations of a step's matrix products: forward, and backward to weights and inputs."""
    total = 0.0
    n_tokens = network.backbone.tokenizer.n_tokens if network.has_tokens else 1
    last = f"blocks.{len(network.backbone.blocks) - 1}." if network.has_tokens else "none"
    for name, weight in network.backbone.named_parameters():
        if not name.endswith("weight") or weight.dim() < 3:
            continue
        rows = BATCH * n_tokens
        if name.startswith("head") or (name.startswith(last) and "qkv" not in name):
            rows = BATCH  # the CLS token alone
        elif name.startswith(last):
            rows = BATCH * (1 + 2 * n_tokens) / 3  # queries of the CLS token alone
        if "tokenizer" in name:
            rows = BATCH
        first = name.startswith("first") or "tokenizer" in name
        passes = 2 if first and network.encoding.logits is None else 3
        total += 2.0 * passes * rows * weight.numel()
    if network.has_tokens:
        weights = (len(network.backbone.blocks) - 1) * n_tokens**2 + n_tokens
        total += n_members * BATCH * weights * 192 * 4 * 3
    return total


def matrix_rate(device: torch.device) -> float:
    """Return the rate of a large bf16 matrix product, in operations per second."""
    n = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * n**3 / timed(lambda: a @ b, device, 10)


def measure(
    table: TrainingTable, backbone: str, members: list[Member], device: torch.device, epochs: int
) -> tuple[float, float]:
    """Return the time of a step of a stack, and its operations."""
    config = replace(TrainingConfig.paper(), max_epochs=epochs, patience=epochs, knot_warmup=0)
    trained = train(table, members, BACKBONES[backbone](**PAPER.get(backbone, {})), config, device=device)
    if len(trained.pieces) > 1:
        raise SystemExit(f"{len(members)} members of {backbone} do not fit into memory as one stack.")
    seconds = sum(history.epoch_seconds for history in trained.histories) / N_STEPS
    done = operations(trained.pieces[0].network, len(members))
    del trained
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return seconds, done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backbones", nargs="+", default=list(STACKS), choices=list(STACKS))
    parser.add_argument("--members", nargs="+", type=int, default=None)
    parser.add_argument("--methods", nargs="+", default=["BS-Q", "BS-Grad-U"])
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--epochs", type=int, default=7, help="number of epochs; the median is reported")
    parser.add_argument("--out", type=Path, default=None, help="also write the table to this file")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    table = make_table()
    rate = matrix_rate(device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, {name}, torch {torch.__version__}; bf16 product {rate / 1e12:.2f} TFLOP/s",
        "",
        "| backbone | method | size | members | plain, us | stack, us per network | times | share of matrix rate |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for backbone in arguments.backbones:
        plain = timed(plain_step(table, backbone, arguments.size, device), device, 30 if device.type == "cuda" else 10)
        for method in arguments.methods:
            for n_members in arguments.members or (STACKS[backbone] if device.type == "cuda" else [1, 5]):
                members = make_members(table, n_members, method, arguments.size)
                seconds, done = measure(table, backbone, members, device, arguments.epochs)
                each = seconds / n_members
                what = f"| {backbone} | {method} | {arguments.size} | {n_members} "
                times = f"| {plain * 1e6:.0f} | {each * 1e6:.1f} | {plain / each:.1f} "
                lines.append(f"{what}{times}| {done / seconds / rate:.1%} |")
                print(lines[-1], flush=True)
    if arguments.out is not None:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
