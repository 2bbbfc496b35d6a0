"""How many folds an effort has, and which kinds: bags of members on held-out parts of training rows.

    python benchmarks/bags.py networks --out pool    bags of networks, for 4, 5, 8 and 12 folds
    python benchmarks/bags.py trees --out pool       bags of trees
    python benchmarks/bags.py compare --out pool     losses of sets of bags

`efforts.py` chooses kinds by out-of-fold predictions, each of one model. Whether more folds or more seeds pay cannot be
seen there: a bag predicts with the mean of its models, which were trained on more rows the more folds there are. Here
a quarter of the training rows of each of its 30 tables is held out; bags are trained on the rest, their weights come
from its out-of-fold predictions, as in the estimators, and the loss from the rows that were held out.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from efforts import CLIP, NETWORKS, ROUNDS, TABLES, TREES, Pool, lightgbm_on_fold, networks_on_folds
from sklearn.model_selection import KFold, StratifiedKFold

COUNTS = (4, 5, 8, 12)
SHARE_HELD_OUT, SEED, MOST_HELD_OUT = 0.25, 11, 2500
ENDED = {"cycle_gain": 0.01}

QUICK, NARROW = "realmlp 96-96 PLE-Q@30+L4x 96", "realmlp 96-96 PBLD@16 128"
SMOOTH, STEPPED = "realmlp 160-160 BS-Q@15+L4x 96", "realmlp 128-128 PLE-Q@100+L4x 96"
LARGE_RAMPS, LARGE_WAVES = "realmlp 256-256 PLE-Q@30+L4x 96", "realmlp 256-256-256 PBLD@16 192"
KINDS = {
    "networks": (QUICK, NARROW, SMOOTH, STEPPED, LARGE_RAMPS, LARGE_WAVES),
    "trees": tuple(kind for kind in TREES if "linear" not in kind),  # linear leaves crash in threads side by side
}
USUAL, RANDOM, SMALL = "trees", "trees, random thresholds", "trees, 15 leaves"
SMALL_QUICK, RANDOM_QUICK = "trees, 15 leaves, rate 0.1", "trees, random thresholds, 15 leaves, rate 0.1"


def folds_of(pool: Pool, count: int) -> tuple[list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]], npt.NDArray[np.int64]]:
    """Return the folds of the rows that are trained on, and the rows that are held out."""
    rows = np.random.default_rng(SEED).permutation(pool.table.n_rows)
    n_held = min(round(SHARE_HELD_OUT * len(rows)), MOST_HELD_OUT)
    held, rest = np.sort(rows[:n_held]), np.sort(rows[n_held:])
    kind = KFold if pool.is_regression else StratifiedKFold
    splitter = kind(count, shuffle=True, random_state=SEED)
    return [(rest[fit], rest[valid]) for fit, valid in splitter.split(rest, pool.table.target[rest])], held


def path(pool: Pool, out: Path, members: str) -> Path:
    return out / f"bags of {members} {pool.name}.npz"


def train_bags(pool: Pool, out: Path, members: str, device: str, jobs: int) -> None:
    """Write, for every kind and number of folds, out-of-fold predictions and the mean over models for held-out rows."""
    made = {}
    for count in COUNTS:
        folds, held = folds_of(pool, count)
        wanted = [np.concatenate([valid, held]) for _, valid in folds]
        if members == "networks":
            kinds = {kind: (*NETWORKS[kind][:2], {**NETWORKS[kind][2], **ENDED}) for kind in KINDS["networks"]}
            parts = networks_on_folds(pool, kinds, folds, wanted, device=device)
        else:
            with ThreadPoolExecutor(jobs) as threads:
                futures = {
                    kind: [
                        threads.submit(lightgbm_on_fold, pool, TREES[kind], fit, valid, rows, n_threads=1)
                        for (fit, valid), rows in zip(folds, wanted, strict=True)
                    ]
                    for kind in KINDS["trees"]
                }
                parts = {kind: [each.result() for each in of_kind] for kind, of_kind in futures.items()}
        for kind, of_kind in parts.items():
            values = np.zeros((pool.table.n_rows, of_kind[0].shape[1]))
            total = np.zeros((len(held), values.shape[1]))
            for (_, valid), part in zip(folds, of_kind, strict=True):
                values[valid] = part[: len(valid)] if pool.is_regression else np.exp(part[: len(valid)])
                total += part[len(valid) :] if pool.is_regression else np.exp(part[len(valid) :])
            values[held] = total / count
            made[f"{kind} x {count}"] = values.astype(np.float16)
    np.savez_compressed(path(pool, out, members), **made)


class Bags:
    """The bags of one table."""

    def __init__(self, out: Path, name: str) -> None:
        self.pool = Pool(out, name)
        self.rest = np.concatenate([valid for _, valid in folds_of(self.pool, COUNTS[0])[0]])
        self.held = folds_of(self.pool, COUNTS[0])[1]
        self.made = {}
        for members in KINDS:
            with np.load(path(self.pool, out, members)) as file:
                self.made |= {key: file[key].astype(float) for key in file.files}

    def scores(self, kinds: Sequence[str], count: int) -> tuple[float, float]:
        """Return the loss of the weighted mean of bags on the rows that were held out, and its out-of-fold loss."""
        made = np.stack([self.made[f"{kind} x {count}"] for kind in kinds])
        weights = self.pool.weights(made[:, self.rest], self.rest)
        together = np.tensordot(weights, made, axes=1)
        return self.pool.loss(together[self.held], self.held), self.pool.loss(together[self.rest], self.rest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=(*KINDS, "compare"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    for name in options.tables:
        pool = Pool(options.out, name)
        if not path(pool, options.out, options.command).exists():
            train_bags(pool, options.out, options.command, options.device, options.jobs)
            print(name, flush=True)


if __name__ == "__main__":
    main()
