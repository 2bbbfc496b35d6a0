"""Networks that are trained with ``TrainingConfig(reproducible=True)``: their bits in different stacks, and the cost.

    python benchmarks/reproducible.py --out results            on a GPU, in about a minute
    python benchmarks/reproducible.py --small --device cpu     on the CPU, small networks

Bits: networks of mixed encodings, numbers of rows and numbers of epochs are trained in stacks of 145 and of 20, and
some of them alone, so that others leave the large stacks while they are trained. Losses and validation scores of all
epochs, weights, running statistics and predictions must be equal. Learned knots that have not moved must give the same
as fixed ones. The same is done without the mode, as a control: it shows the differences that the mode removes.

Cost: median time of an epoch of a stack, divided by its steps and networks, with and without the mode, in turn.
Everything is written to ``reproducible.json`` in the folder; the script ends with an error if a check fails.
"""

import argparse
import gc
import json
import platform
import statistics
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from knotwork.encoders import METHOD_TABLE, Encoding
from knotwork.nn import BACKBONES, Backbone
from knotwork.training import Member, TrainingConfig, TrainingTable, train

METHODS = ("BS-Q", "Std", "PLE", "BS-Grad-U", "IS-U", "IS-Grad-U", "MinMax", "MS-Grad-U", "BS-U", "IS-Q")
"""Encodings of the members of a stack, in turn: learned and fixed knots, and columns that are only scaled."""

PAIRS = (("BS-U", "BS-Grad-U"), ("IS-U", "IS-Grad-U"))
"""Methods with fixed knots, and with learned ones that start from the same."""

BATCH, SIZE = 512, 15
N_FEATURES, COST_FEATURES, COST_SIZE = 6, 14, 30


@dataclass(frozen=True)
class Extent:
    """How much is done: stacks, members that are trained alone, rows, epochs, and backbones."""

    stacks: tuple[int, ...]
    n_alone: int
    n_rows: int
    epochs: int
    cost_members: int
    cost_steps: int
    cost_epochs: int
    backbones: dict[str, Backbone]


FULL = Extent(
    (145, 20), 5, 12 * BATCH, 8, 145, 48, 5,
    {"mlp": BACKBONES["mlp"].paper(), "resnet": BACKBONES["resnet"].paper()},
)  # fmt: skip
SMALL = Extent(
    (12, 6), 3, 700, 4, 6, 2, 3,
    {
        "mlp": BACKBONES["mlp"](widths=(32, 16), dropout=0.3),
        "resnet": BACKBONES["resnet"](width=16, n_blocks=1, hidden=32),
    },
)  # fmt: skip


@cache
def make_table(n: int, n_features: int, task: str = "regression") -> TrainingTable:
    """Return a table with a categorical column in the checks, whose number of classes is 3."""
    random = np.random.default_rng(0)
    numbers, codes = random.normal(size=(n, n_features)), random.integers(1, 6, size=(n, 1))
    signal = np.sin(2 * numbers).sum(axis=1) + (codes[:, 0] == 2) + 0.1 * random.normal(size=n)
    if task == "regression":
        return TrainingTable(numbers, codes, signal, task, (6,))
    target = np.searchsorted(np.quantile(signal, (0.3, 0.6)), signal)
    return TrainingTable(numbers, codes, target, task, (6,), 3)


@cache
def fitted(table: TrainingTable, method: str, fold: int) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return the training rows of a fold, of which some have fewer, its validation rows, and blocks of an encoding."""
    order = np.random.default_rng(fold).permutation(len(table.target))
    n_valid = len(order) // 8
    rows = order[n_valid : len(order) - 41 * fold]
    encoder = Encoding(method, SIZE if METHOD_TABLE[method].has_size else None).start.encoder()
    encoder.fit(table.numbers[rows], table.target[rows])
    return rows, order[:n_valid], encoder.fitted_


def make_member(table: TrainingTable, method: str, seed: int, **settings: Any) -> Member:
    """Return a member of one of five folds."""
    return Member(*fitted(table, method, seed % 5), METHOD_TABLE[method].learnable, seed, **settings)


def make_members(table: TrainingTable, n_members: int, epochs: int) -> list[Member]:
    """Return members of all methods that are trained for different numbers of epochs."""
    members = []
    for place in range(n_members):
        rates = np.full(2 + place * 7 % (epochs - 1), 3e-3)
        members.append(make_member(table, METHODS[place % len(METHODS)], place, rates=rates))
    return members


def numbers_of(trained: Any, n_members: int, table: TrainingTable) -> list[dict[str, np.ndarray]]:
    """Return everything that training has computed for each of the first members."""
    outputs, numbers = trained.outputs(table.numbers[:500], table.codes[:500]), []
    states = [
        {name: tensor.detach().cpu().numpy() for name, tensor in piece.network.backbone.state_dict().items()}
        for piece in trained.pieces
    ]
    for place in range(n_members):
        history = trained.histories[place]
        number, piece = next((n, piece) for n, piece in enumerate(trained.pieces) if place in piece.places)
        state = {name: values[piece.places.index(place)] for name, values in states[number].items()}
        numbers.append({"losses": history.loss, "scores": history.score, "outputs": outputs[place], **state})
    return numbers


def difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the largest differences, relative to the largest number; nothing where all bits are equal."""
    found = {}
    for name, values in one.items():
        if values.shape != other[name].shape:
            found[name] = float("inf")
        elif values.tobytes() != other[name].tobytes():
            scale = max(float(np.abs(values).max(initial=0.0)), 1e-30)
            found[name] = float(np.abs(values - other[name]).max(initial=0.0)) / scale
    return found


def check_stacks(
    extent: Extent, name: str, device: str, *, n_alone: int, task: str = "regression", reproducible: bool = True
) -> list[dict[str, Any]]:
    """Compare members of the largest stack with the same members in smaller stacks, and the first of them alone."""
    table = make_table(extent.n_rows, N_FEATURES, task)
    members = make_members(table, extent.stacks[0], extent.epochs)
    config = replace(
        TrainingConfig.paper(), max_epochs=extent.epochs, patience=None, schedule="constant", knot_warmup=1,
        reproducible=reproducible,
    )  # fmt: skip
    groups = [members[:n] for n in extent.stacks[1:]] + [[member] for member in members[:n_alone]]
    largest = train(table, members, extent.backbones[name], config, device=device)
    expected = numbers_of(largest, extent.stacks[1], table)
    results = []
    for number, group in enumerate(groups):
        trained = train(table, group, extent.backbones[name], config, device=device)
        first = 0 if len(group) > 1 else number - len(extent.stacks) + 1
        for place, numbers in enumerate(numbers_of(trained, len(group), table)):
            gaps = difference(expected[first + place], numbers)
            method = METHODS[(first + place) % len(METHODS)]
            others = {"stack": len(group), "of": extent.stacks[0], "member": first + place, "method": method}
            results.append({"backbone": name, "task": task, **others, "differences": gaps})
    return results


def check_knots(extent: Extent, name: str, device: str) -> list[dict[str, Any]]:
    """Compare learned knots that have not moved with fixed ones, in one stack and alone."""
    table = make_table(extent.n_rows, N_FEATURES)
    config = replace(
        TrainingConfig.paper(), max_epochs=extent.epochs, learning_rate=3e-3, knot_warmup=extent.epochs,
        reproducible=True,
    )  # fmt: skip
    results = []
    for fixed, learned in PAIRS:
        members = [make_member(table, method, 3) for method in (fixed, learned)]
        others = [make_member(table, "PLE", 1)]
        together = train(table, [*members, *others], extent.backbones[name], config, device=device)
        alone = train(table, members[1:], extent.backbones[name], config, device=device)
        expected, in_stack = numbers_of(together, 2, table)
        for stack, numbers in ((3, in_stack), (1, numbers_of(alone, 1, table)[0])):
            gaps = difference(expected, numbers)
            results.append({"backbone": name, "fixed": fixed, "learned": learned, "stack": stack, "differences": gaps})
    return results


def measure_cost(extent: Extent, name: str, method: str, device: str) -> dict[str, Any]:
    """Return microseconds per step and network with and without the mode, in turn; the first run of each compiles."""
    n_rows = (extent.cost_steps + 1) * BATCH
    made = make_table(n_rows, COST_FEATURES)
    table = TrainingTable(made.numbers, made.codes[:, :0], made.target, "regression")
    rows = np.arange(n_rows)
    kind = METHOD_TABLE[method]
    encoder = Encoding(method, COST_SIZE).start.encoder().fit(table.numbers, table.target)
    parts = rows[:-BATCH], rows[-64:]
    members = [Member(*parts, encoder.fitted_, kind.learnable, seed) for seed in range(extent.cost_members)]
    config = replace(TrainingConfig.paper(), max_epochs=extent.cost_epochs, patience=None, knot_warmup=0)
    times: dict[bool, list[float]] = {False: [], True: []}
    for reproducible in (False, True, False, True):
        trained = train(
            table, members, extent.backbones[name], replace(config, reproducible=reproducible), device=device
        )
        seconds = sum(history.epoch_seconds for history in trained.histories)
        times[reproducible].append(1e6 * seconds / extent.cost_steps / len(members))
        del trained
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
    usual, mode = (statistics.median(times[key]) for key in (False, True))
    what = {"backbone": name, "method": method, "size": COST_SIZE, "members": extent.cost_members}
    return {**what, "usual_us": times[False], "mode_us": times[True], "ratio": mode / usual}


def show(title: str, results: list[dict[str, Any]], *, control: bool = False) -> bool:
    """Print how many comparisons are equal, and which differ by how much; return whether all are equal."""
    wrong = [result for result in results if result["differences"]]
    print(f"{title}: {len(results) - len(wrong)} of {len(results)} equal", flush=True)
    for result in wrong[: 0 if control else 12]:
        what = ", ".join(f"{key} {value}" for key, value in result.items() if key != "differences")
        worst = sorted(result["differences"].items(), key=lambda item: -item[1])[:3]
        print(f"  DIFFERENT {what}: " + ", ".join(f"{name} by {gap:.2g}" for name, gap in worst), flush=True)
    if control and wrong:
        largest = max((result["differences"].get("scores", 0.0) for result in wrong), default=0.0)
        print(f"  largest relative difference of validation scores {largest:.2g}", flush=True)
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="few small networks, for a CPU")
    parser.add_argument("--no-cost", action="store_true", help="compare bits only")
    parser.add_argument("--out", type=Path, default=None, help="folder of reproducible.json")
    arguments = parser.parse_args()
    extent, device = SMALL if arguments.small else FULL, arguments.device
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    report: dict[str, Any] = {"device": name, "torch": torch.__version__, "checks": [], "control": [], "cost": []}
    started, equal = time.perf_counter(), True
    for backbone in extent.backbones:
        for task, n_alone in (("regression", extent.n_alone), ("classification", 1)):
            results = check_stacks(extent, backbone, device, n_alone=n_alone, task=task)
            equal &= show(f"{backbone}, {task}, in other stacks", results)
            report["checks"] += results
        results = check_knots(extent, backbone, device)
        equal &= show(f"{backbone}, learned knots that have not moved", results)
        report["checks"] += results
        results = check_stacks(extent, backbone, device, n_alone=1, reproducible=False)
        show(f"{backbone}, regression, without the mode", results, control=True)
        report["control"] += results
        if not arguments.no_cost:
            for method in ("BS-Q", "BS-Grad-U"):
                cost = measure_cost(extent, backbone, method, device)
                report["cost"].append(cost)
                print(f"{backbone}, {method}, {cost['members']} members: {cost['ratio']:.2f} times; us per step and "
                      f"network {cost['usual_us']} usual, {cost['mode_us']} in the mode", flush=True)  # fmt: skip
        print(f"{time.perf_counter() - started:.0f} s", flush=True)
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / "reproducible.json").write_text(json.dumps({**report, "equal": equal}, indent=1))
    if not equal:
        raise SystemExit("Some numbers are not equal, see above.")


if __name__ == "__main__":
    main()
