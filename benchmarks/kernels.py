"""Where the time of a training step goes on a GPU: the kernels of one step of a stack, in their order.

    python benchmarks/kernels.py --device cuda --out FOLDER       about 45 s on an H200
    python benchmarks/kernels.py --quick                          on the CPU: the operations of a small stack

A stack of networks is trained as in `benchmarks/training.py`, on fewer rows, and one epoch of it is recorded by torch's
profiler. A step is a replayed graph, so that the same kernels follow each other again and again: the period of their
names is a step, and the times are means over its repetitions. "Between kernels" is the time of a step in which no
kernel runs. `kernels.jsonl` has all kernels of a step, `kernels.md` their sums by name.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from knotwork.nn import BACKBONES
from knotwork.training import EpochReport, TrainingConfig, train
from training import PAPER, make_members, make_table

N_STEPS, SIZE = 24, 30
RECORDED_EPOCH = 4
"""Graphs of an epoch are captured in the second one; the others replay them."""

STACKS = [
    ("mlp", "BS-Q", 145), ("mlp", "BS-Q", 660), ("mlp", "BS-Grad-U", 145), ("mlp", "BS-Grad-U", 660),
    ("resnet", "BS-Q", 190), ("resnet", "BS-Grad-U", 190), ("ft", "BS-Q", 40),
]  # fmt: skip


class Kernel(NamedTuple):
    """A kernel that ran: its name, start and duration in microseconds."""

    name: str
    start: float
    duration: float


class Recorder:
    """A report of training that records one epoch."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        gpu = [ProfilerActivity.CUDA] if self.on_gpu else []
        self.profiler = profile(activities=[ProfilerActivity.CPU, *gpu])

    def __call__(self, report: EpochReport) -> bool:
        """Start or stop recording at the end of an epoch."""
        if report.epoch == RECORDED_EPOCH - 1:
            self.profiler.start()
        elif report.epoch == RECORDED_EPOCH:
            self.profiler.stop()
        return False

    def kernels(self) -> list[Kernel]:
        """Return what ran in the order of time."""
        kind = DeviceType.CUDA if self.on_gpu else DeviceType.CPU
        events = [event for event in self.profiler.events() if event.device_type == kind and event.cpu_parent is None]
        ran = [Kernel(event.name, event.time_range.start, event.time_range.elapsed_us()) for event in events]
        return sorted(ran, key=lambda kernel: kernel.start)


def period_of(names: Sequence[str]) -> tuple[int, int, int]:
    """Return the length of the shortest sequence of names that repeats, where it begins, and how often it comes.

    Sequences that are repeated for less than half of the names do not count; without any, it is the whole epoch.
    """
    for period in range(5, len(names) // 3):
        run = best = start = 0
        for place in range(len(names) - period):
            run = run + 1 if names[place] == names[place + period] else 0
            if run > best:
                best, start = run, place - run + 1
        if best > len(names) / 2:
            return period, start, 1 + best // period
    return len(names), 0, 1


def step_of(kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Return the mean times of the kernels of a step, in microseconds, and of the step."""
    period, start, n_times = period_of([kernel.name for kernel in kernels])
    n_steps = n_times if n_times > 1 else N_STEPS
    step = []
    for place in range(start, start + period):
        total = sum(kernels[place + time * period].duration for time in range(n_times))
        step.append({"name": kernels[place].name, "us": round(total / n_steps, 2)})
    last = kernels[start + n_times * period - 1]
    wall = (last.start + last.duration - kernels[start].start) / n_steps
    between = wall - sum(kernel["us"] for kernel in step)
    return {"n_kernels": period, "step_us": round(wall, 1), "between_us": round(between, 1), "kernels": step}


def record(backbone: str, method: str, n_members: int, device: torch.device) -> dict[str, Any]:
    """Train a stack, and return the kernels of its steps."""
    table = make_table(N_STEPS)
    members = make_members(table, n_members, method, SIZE)
    config = replace(TrainingConfig.paper(), max_epochs=RECORDED_EPOCH, patience=RECORDED_EPOCH, knot_warmup=0)
    recorder = Recorder(device)
    train(table, members, BACKBONES[backbone](**PAPER.get(backbone, {})), config, device=device, report=recorder)
    line = {"backbone": backbone, "method": method, "members": n_members, "torch": torch.__version__}
    return {**line, **step_of(recorder.kernels())}


def summary(line: dict[str, Any]) -> str:
    """Return a table of the times by name, in microseconds per network."""
    n, sums = line["members"], defaultdict(list)
    for kernel in line["kernels"]:
        sums[kernel["name"]].append(kernel["us"])
    rows = sorted(sums.items(), key=lambda item: -sum(item[1]))
    title = f"#### {line['backbone']}, {line['method']}, {n} networks: {line['step_us'] / n:.2f} us each"
    between = f"{line['n_kernels']} kernels a step; {line['between_us'] / n:.2f} us between kernels."
    head = "| us per network | of the step | times a step | kernel |\n|--:|--:|--:|---|"
    body = [
        f"| {sum(us) / n:.3f} | {sum(us) / line['step_us']:.1%} | {len(us)} | {name[:100].replace('|', ' ')} |"
        for name, us in rows
    ]
    return "\n".join([title, "", between, "", head, *body, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backbones", nargs="+", default=["mlp", "resnet", "ft"], choices=["mlp", "resnet", "ft"])
    parser.add_argument("--quick", action="store_true", help="stacks of two networks")
    parser.add_argument("--out", type=Path, default=None, help="folder for kernels.jsonl and kernels.md")
    arguments = parser.parse_args()
    lines = []
    for backbone, method, n_members in STACKS:
        if backbone not in arguments.backbones:
            continue
        lines.append(record(backbone, method, 2 if arguments.quick else n_members, torch.device(arguments.device)))
        print(summary(lines[-1]), flush=True)
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / "kernels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            (arguments.out / "kernels.md").write_text("\n".join(summary(line) for line in lines))


if __name__ == "__main__":
    main()
