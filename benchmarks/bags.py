"""How many folds an effort has, and what a second network adds: bags of members on held-out parts of training rows.

    python benchmarks/efforts.py tables --out pool    the training rows of every table
    python benchmarks/bags.py networks --out pool     bags of networks
    python benchmarks/bags.py trees --out pool        bags of trees
    python benchmarks/bags.py compare --out pool      errors of sets of bags, written to benchmarks/efforts/bags.csv

`efforts.py` chooses kinds by out-of-fold predictions, each of one model. Whether more folds pay cannot be seen there: a
bag predicts with the mean of its models, each trained on more rows the more folds there are. Here a quarter of the
training rows of each of the 30 tables is held out, at most 2,500. Bags are trained on the rest, their weights come from
its out-of-fold predictions, as in the estimators, and their error from the rows that were held out. All is repeated
with other random rows held out.

The networks of `benchmarks/efforts/bags.csv` were trained on an H200 on 2026-11-19, the trees on a CPU:
those that the efforts had then, before symmetric ones joined them.
"""

import argparse
import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from efforts import CLIP, NETWORKS, TABLES, TREES, Pool, lightgbm_on_fold, networks_on_folds
from sklearn.model_selection import KFold, StratifiedKFold

SHARE_HELD_OUT, MOST_HELD_OUT = 0.25, 2500
WRITTEN = Path(__file__).parent / "efforts" / "bags.csv"

QUICK, NARROW = "realmlp 96-96 PLE-Q@30+L4x 96", "realmlp 96-96 PBLD@16 128"
SMOOTH, STEPPED = "realmlp 160-160 BS-Q@15+L4x 96", "realmlp 128-128 PLE-Q@100+L4x 96"
SHORT = "realmlp 96-96 PBLD@16 64"
ENDED = {"cycle_gain": 0.01}
"""As the estimators train on a CPU."""


@dataclass(frozen=True)
class Effort:
    """The bags that are compared for an effort: with how many folds, and with how many draws of held-out rows."""

    networks: tuple[str, ...]
    trees: tuple[str, ...]
    counts: tuple[int, ...]
    seeds: tuple[int, ...]


EFFORTS = {
    "fast": Effort(
        (QUICK, SHORT),
        ("trees, 15 leaves, rate 0.1", "trees, random thresholds, 15 leaves, rate 0.1"),
        (4, 6, 8),
        (21, 22, 23),
    ),
    "balanced": Effort(
        (NARROW, SMOOTH, STEPPED), ("trees", "trees, random thresholds", "trees, 15 leaves"), (5, 8), (21, 22)
    ),
}
SETS: dict[str, tuple[str, int, Callable[[Effort], tuple[str, ...]]]] = {
    "fast, 4 folds": ("fast", 4, lambda effort: (*effort.trees, QUICK)),
    "fast, 6 folds": ("fast", 6, lambda effort: (*effort.trees, QUICK)),
    "fast, 8 folds": ("fast", 8, lambda effort: (*effort.trees, QUICK)),
    "fast, 4 folds, + PBLD": ("fast", 4, lambda effort: (*effort.trees, QUICK, SHORT)),
    "fast, 6 folds, + PBLD": ("fast", 6, lambda effort: (*effort.trees, QUICK, SHORT)),
    "fast, 8 folds, + PBLD": ("fast", 8, lambda effort: (*effort.trees, QUICK, SHORT)),
    "balanced, 5 folds": ("balanced", 5, lambda effort: (*effort.trees, *effort.networks)),
    "balanced, 8 folds": ("balanced", 8, lambda effort: (*effort.trees, *effort.networks)),
}
"""Effort, number of folds and kinds of the sets that are compared."""
BASES = {"fast": "fast, 4 folds", "balanced": "balanced, 5 folds"}

Rows = npt.NDArray[np.int64]


def divided(pool: Pool, count: int, seed: int) -> tuple[list[tuple[Rows, Rows]], Rows]:
    """Return the folds of the rows that are trained on, and the rows that are held out."""
    rows = np.random.default_rng(seed).permutation(pool.table.n_rows)
    n_held = min(round(SHARE_HELD_OUT * len(rows)), MOST_HELD_OUT)
    held, rest = np.sort(rows[:n_held]), np.sort(rows[n_held:])
    kind = KFold if pool.is_regression else StratifiedKFold
    splitter = kind(count, shuffle=True, random_state=seed)
    return [(rest[fit], rest[valid]) for fit, valid in splitter.split(rest, pool.table.target[rest])], held


def path(out: Path, members: str, name: str, seed: int) -> Path:
    """Return the file of the predictions of ``"networks"`` or ``"trees"``."""
    return out / f"bags of {members} {name} {seed}.npz"


def train_bags(pool: Pool, members: str, seed: int, device: str) -> dict[str, npt.NDArray[np.float16]]:
    """Return out-of-fold predictions of every bag, and for rows that are held out the mean over its models."""
    made = {}
    for effort in EFFORTS.values():
        kinds = effort.networks if members == "networks" else effort.trees
        for count in effort.counts if seed in effort.seeds else ():
            folds, held = divided(pool, count, seed)
            wanted = [np.concatenate([valid, held]) for _, valid in folds]
            if members == "networks":
                about = {kind: _ended(kind) for kind in kinds}
                parts = networks_on_folds(pool, about, folds, wanted, device=device)
            else:
                parts = {
                    kind: [
                        lightgbm_on_fold(pool, TREES[kind], *fold, rows)
                        for fold, rows in zip(folds, wanted, strict=True)
                    ]
                    for kind in kinds
                }
            for kind, of_kind in parts.items():
                shares = of_kind if pool.is_regression else [np.exp(part) for part in of_kind]
                values = np.zeros((pool.table.n_rows, shares[0].shape[1]))
                for (_, valid), part in zip(folds, shares, strict=True):
                    values[valid] = part[: len(valid)]
                values[held] = np.mean([part[-len(held) :] for part in shares], axis=0)
                made[f"{kind} x {count}"] = values.astype(np.float16)
    return made


def _ended(kind: str) -> tuple[object, object, dict[str, object]]:
    encoding, backbone, settings = NETWORKS[NARROW if kind == SHORT else kind]
    return encoding, backbone, {**settings, **ENDED, **({"max_epochs": 64} if kind == SHORT else {})}


def errors(out: Path, name: str) -> dict[str, list[tuple[float, float]]]:
    """Return, for every set and draw of held-out rows, loss and error on these rows."""
    pool, results = Pool(out, name), {}
    for label, (effort_name, count, kinds_of) in SETS.items():
        effort = EFFORTS[effort_name]
        results[label] = []
        for seed in effort.seeds:
            bags = {}
            for members in ("networks", "trees"):
                with np.load(path(out, members, name, seed)) as file:
                    bags |= {key: file[key] for key in file.files if key.endswith(f" x {count}")}
            made = np.stack([bags[f"{kind} x {count}"].astype(float) for kind in kinds_of(effort)])
            folds, held = divided(pool, count, seed)
            rest = np.concatenate([valid for _, valid in folds])
            together = np.tensordot(pool.weights(made[:, rest], rest), made[:, held], axes=1)
            results[label].append((pool.loss(together, held), pool.error(together, held)))
    return results


def compare(out: Path, names: Sequence[str]) -> None:
    """Write the mean loss and error of every set on every table, and print ratios."""
    scores = {name: {label: np.mean(each, axis=0) for label, each in errors(out, name).items()} for name in names}
    with WRITTEN.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["table", "set", "loss", "error"])
        for name, by_set in scores.items():
            writer.writerows([name, label, f"{loss:.5f}", f"{error:.5f}"] for label, (loss, error) in by_set.items())
    print("| set | loss | error | median error | better on |\n|---|---|---|---|---|")
    for label, (effort, *_) in SETS.items():
        logs = np.log([scores[name][label] / scores[name][BASES[effort]] for name in names])
        loss, error = np.exp(logs.clip(-CLIP, CLIP).mean(axis=0))
        median, wins = np.exp(np.median(logs[:, 1])), np.mean(logs[:, 1] < 0)
        print(f"| {label} | {loss:.4f} | {error:.4f} | {median:.4f} | {wins:.0%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("networks", "trees", "compare"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(EFFORTS["fast"].seeds))
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    if options.command == "compare":
        compare(options.out, options.tables)
        return
    for seed in options.seeds:
        for name in options.tables:
            file = path(options.out, options.command, name, seed)
            if not file.exists():
                np.savez_compressed(file, **train_bags(Pool(options.out, name), options.command, seed, options.device))
                print(name, seed, flush=True)


if __name__ == "__main__":
    main()
