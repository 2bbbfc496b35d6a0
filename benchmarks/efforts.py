"""How the kinds of members of an effort were chosen: by out-of-fold predictions of training rows, never by test rows.

    python benchmarks/efforts.py tables --out pool           the training rows of every table, as networks take them
    python benchmarks/efforts.py networks --out pool         out-of-fold predictions of every kind of network
    python benchmarks/efforts.py trees --out pool            the same of boosted trees, and of CatBoost as a reference
    python benchmarks/efforts.py select --out pool           losses, and forward selections
    python benchmarks/efforts.py compare-trees --out pool    sets of boosted trees, into benchmarks/efforts/trees.md

For each table, at most 10,000 of the rows that are not tested in the first fold of the study are divided into five
parts. Every kind is trained five times, each time without one of the parts, which it then predicts. `select` scores
sets of kinds by the loss (RMSE or log loss) of their weighted mean. Weights come from ensemble selection (Caruana and
others, 2004) on one half of the rows, and the loss from the other half, both ways. A step of a forward selection adds
the kind with the smallest geometric mean, over tables, of the loss relative to that of the three kinds of trees
together; a ratio counts as at most 15 % away from one, so that no table decides alone.

The networks of `benchmarks/efforts` were trained on an H200 on 2026-11-19, with sizes that a CPU can afford, and the
trees on a CPU. `scores.csv` has the losses, `selection.md` what `select` printed. Symmetric trees came later, on
2026-11-20: those of `trees.md`, and the networks beside them, on 16 of the tables, were trained on two cores.
"""

import argparse
import csv
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold

import knotwork as kw
from knotwork._trees import SYMMETRIC, TreeMember, boost
from knotwork.encoders import Encoding
from knotwork.nn import MLPConfig, RealMLPConfig, TabMConfig
from knotwork.training import Member, TrainingConfig, TrainingTable, train

TABLES = (
    "airfare", "arrests", "bfi", "birthdays", "covid", "cps1988", "k401", "oj", "quakes_stations", "saratoga",
    "school", "star", "tenmile", "tv16", "txhousing", "churn", "gamma", "cpu_small", "wine_quality", "parkinsons",
    "air_quality", "ipums", "california", "eeg", "fifa_wage", "loan_type", "house_8l", "house_sales", "fico", "sulfur",
)  # fmt: skip
"""Fifteen of the further tables and fifteen of the study; all others had no part in the choice."""

MOST_ROWS, FOLDS, SEED = 10_000, 5, 7
CLIP = 0.15
ROUNDS = 20

COSINE = {"schedule": "cosine", "learning_rate": 2e-3, "weight_decay": 0.02, "patience": None}
CYCLES = {"label_smoothing": 0.0}


def _real(encoding: str, widths: Sequence[int], epochs: int) -> tuple[str, Any, dict[str, Any]]:
    return encoding, RealMLPConfig(widths=tuple(widths)), {**CYCLES, "max_epochs": epochs}


def _mlp(encoding: str, width: int, epochs: int) -> tuple[str, Any, dict[str, Any]]:
    return encoding, MLPConfig(widths=(width, width), dropout=0.1), {**COSINE, "max_epochs": epochs}


def _tabm(encoding: str, width: int, n_predictions: int, epochs: int) -> tuple[str, Any, dict[str, Any]]:
    backbone = TabMConfig(widths=(width, width), n_predictions=n_predictions)
    return encoding, backbone, {**COSINE, "weight_decay": 3e-3, "max_epochs": epochs}


WAVES, RAMPS, FINE, SPLINES = "PBLD@16", "PLE-Q@30+L4x", "PLE-Q@100+L4x", "BS-Q@15+L4x"
SIZES = {
    WAVES: [
        ((96, 96), 128), ((128, 128), 32), ((128, 128), 64), ((128, 128), 96), ((160, 160), 48), ((160, 160), 96),
        ((160, 160), 160), ((256, 256), 48), ((256, 256), 96), ((128,) * 3, 32), ((128,) * 3, 64), ((128,) * 3, 96),
        ((192,) * 3, 48), ((192,) * 3, 64), ((256,) * 3, 48), ((256,) * 3, 96), ((256,) * 3, 192),
    ],
    RAMPS: [
        ((96, 96), 96), ((128, 128), 32), ((128, 128), 64), ((128, 128), 96), ((160, 160), 48), ((256, 256), 96),
        ((256,) * 3, 96),
    ],
    SPLINES: [
        ((128, 128), 32), ((128, 128), 64), ((128, 128), 96), ((160, 160), 48), ((160, 160), 96), ((128,) * 3, 48),
        ((128,) * 3, 96), ((192,) * 3, 64), ((256,) * 3, 96),
    ],
    FINE: [((128, 128), 96), ((160, 160), 48)],
}  # fmt: skip
NETWORKS = {
    f"realmlp {'-'.join(map(str, widths))} {encoding} {epochs}": _real(encoding, widths, epochs)
    for encoding, sizes in SIZES.items()
    for widths, epochs in sizes
} | {
    f"realmlp 160-160 {encoding} 48": _real(encoding, (160, 160), 48)
    for encoding in (
        "PLR@16+LR8x", "IS-Q@15+L4x", "BS-Grad-Q@15+L4x", "IS-Grad-Q@15+L4x", "Robust", "PBLD@8", "BS-Q@25+L8x",
        "PLE-Q@60+L4x", "PLE-Q@100+L8x",
    )
} | {
    "realmlp 128-128 BS-Q@15+LR8x 96": _real("BS-Q@15+LR8x", (128, 128), 96),
    "mlp 256-256 PLE-Q@48+LR8 32": _mlp("PLE-Q@48+LR8", 256, 32),
    "mlp 256-256 BS-Q@30+LR8 32": _mlp("BS-Q@30+LR8", 256, 32),
    "mlp 256-256 BS-Q@15 32": _mlp("BS-Q@15", 256, 32),
    "mlp 256-256 IS-Grad-Q@30+LR8 32": _mlp("IS-Grad-Q@30+LR8", 256, 32),
    "mlp 384-384 PLE-Q@80+LR8 48": _mlp("PLE-Q@80+LR8", 384, 48),
    "tabm 8x128-128 PLE-Q@30+LR8 32": _tabm("PLE-Q@30+LR8", 128, 8, 32),
    "tabm 16x192-192 PLE-Q@30+LR8 48": _tabm("PLE-Q@30+LR8", 192, 16, 48),
}  # fmt: skip
"""Encoding, backbone and training of every kind of network."""

USUAL = {
    "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 10, "bagging_fraction": 0.8, "bagging_freq": 1,
    "feature_fraction": 0.7,
}  # fmt: skip
SMALL = {
    "num_leaves": 15, "min_data_in_leaf": 5, "feature_fraction": 0.9, "bagging_fraction": 0.9, "lambda_l2": 1.0,
}  # fmt: skip
TREES: dict[str, dict[str, Any]] = {
    "trees": {},
    "trees, random thresholds": {"extra_trees": True},
    "trees, 15 leaves": SMALL,
    "trees, 15 leaves, rate 0.1": {**SMALL, "learning_rate": 0.1},
    "trees, random thresholds, 15 leaves, rate 0.1": {
        "extra_trees": True, "num_leaves": 15, "min_data_in_leaf": 5, "learning_rate": 0.1,
    },
    "trees, 8 leaves, rate 0.1": {
        "learning_rate": 0.1, "num_leaves": 8, "lambda_l2": 3.0, "min_data_in_leaf": 5, "feature_fraction": 0.8,
    },
    "trees, linear leaves": {"linear_tree": True, "linear_lambda": 1.0, "num_leaves": 15},
    "LightGBM's defaults": {
        "learning_rate": 0.1, "min_data_in_leaf": 20, "bagging_fraction": 1.0, "bagging_freq": 0,
        "feature_fraction": 1.0,
    },
}  # fmt: skip
"""What differs from `USUAL`; LightGBM grows them."""
OURS = "trees, symmetric"
REFERENCES = ("LightGBM's defaults", "CatBoost")
GROWN = ("trees", "trees, random thresholds", "trees, 15 leaves")
"""The trees beside which networks were chosen."""
BALANCED = (
    *GROWN,
    OURS,
    "realmlp 96-96 PBLD@16 128",
    "realmlp 160-160 BS-Q@15+L4x 96",
    "realmlp 128-128 PLE-Q@100+L4x 96",
)
"""All kinds of members of `effort="balanced"`."""

TREE_SETS = {
    "three kinds of LightGBM": GROWN,
    "all of these, and symmetric (`balanced`)": BALANCED[:4],
    "without 31 leaves": (OURS, *GROWN[1:]),
    "without random thresholds": ("trees", "trees, 15 leaves", OURS),
    "15 leaves and random thresholds, rate 0.1": (
        "trees, 15 leaves, rate 0.1",
        "trees, random thresholds, 15 leaves, rate 0.1",
    ),
    "15 leaves, rate 0.1, and symmetric (`fast`)": ("trees, 15 leaves, rate 0.1", OURS),
    "symmetric": (OURS,),
    "LightGBM's defaults": ("LightGBM's defaults",),
}
"""Sets of trees that `compare-trees` compares."""
WRITTEN_TREES = Path(__file__).parent / "efforts" / "trees.md"


def write_tables(out: Path, names: Sequence[str]) -> None:
    """Write the training rows of tables, read and coded by the estimators."""
    from quality_data import load_fold  # noqa: PLC0415 - needs pandas and the tables

    for name in names:
        fold = load_fold(name, 0)
        frame, target = fold.rows("train+valid")
        rows = np.random.default_rng(0).permutation(len(frame))[:MOST_ROWS] if len(frame) > MOST_ROWS else slice(None)
        frame, target = frame.iloc[rows], target[rows]
        kind = kw.TabularRegressor if fold.is_regression else kw.TabularClassifier
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of columns that are ignored
            reader = kind("Std", training=TrainingConfig(max_epochs=1), random_state=0).fit(frame, target)
        coded = reader.columns_.read(frame)
        missing = np.isnan(coded.numbers)
        flags = 2 - missing[:, missing.any(axis=0)].astype(np.int64)  # as estimators mark missing numbers
        codes = np.column_stack([coded.codes, flags])
        cardinalities = [*reader.columns_.cardinalities, *[3] * flags.shape[1]]
        np.savez_compressed(
            out / f"table {name}.npz", numbers=coded.numbers, codes=codes, target=target, task=fold.data.task,
            cardinalities=np.array(cardinalities, dtype=np.int64),
            n_classes=0 if fold.is_regression else int(target.max()) + 1, n_categorical=coded.codes.shape[1],
        )  # fmt: skip


class Pool:
    """A table, its folds, and the predictions of every kind that was trained on it."""

    def __init__(self, out: Path, name: str) -> None:
        self.name, self._out = name, out
        with np.load(out / f"table {name}.npz") as file:
            self.n_categorical = int(file["n_categorical"])
            self.table = TrainingTable(
                file["numbers"], file["codes"], file["target"], str(file["task"]),
                tuple(file["cardinalities"].tolist()), int(file["n_classes"]),
            )  # fmt: skip
        self.is_regression = self.table.task == "regression"
        kind = KFold if self.is_regression else StratifiedKFold
        splitter = kind(FOLDS, shuffle=True, random_state=SEED)
        self.folds = list(splitter.split(self.table.numbers, self.table.target))

    def path(self, members: str) -> Path:
        """Return the file of the predictions of ``"networks"`` or ``"trees"``."""
        return self._out / f"{members} {self.name}.npz"

    @cached_property
    def target(self) -> npt.NDArray[Any]:
        """Standardised numbers, or codes of classes."""
        target = self.table.target
        return (target - target.mean()) / target.std() if self.is_regression else target

    @cached_property
    def predictions(self) -> dict[str, npt.NDArray[np.float64]]:
        """Predictions in these units, or probabilities."""
        made = {}
        for members in ("networks", "trees"):
            if self.path(members).exists():
                with np.load(self.path(members)) as file:
                    made |= {kind: file[kind].astype(float) for kind in file.files}
        return made if self.is_regression else {kind: np.exp(values) for kind, values in made.items()}

    def loss(self, predictions: npt.NDArray[Any], rows: Any = slice(None)) -> float:
        """Return RMSE or log loss."""
        target = self.target[rows]
        if self.is_regression:
            return float(np.sqrt(np.mean((predictions[:, 0] - target) ** 2)))
        return float(-np.log(np.maximum(predictions[np.arange(len(target)), target], 1e-7)).mean())

    def error(self, predictions: npt.NDArray[Any], rows: Any = slice(None)) -> float:
        """Return RMSE or 1 - AUC."""
        if self.is_regression:
            return self.loss(predictions, rows)
        target = self.target[rows]
        if predictions.shape[1] == 2:
            return max(1.0 - float(roc_auc_score(target, predictions[:, 1])), 1e-6)
        codes, counts = np.unique(target, return_counts=True)
        areas = [roc_auc_score(target == code, predictions[:, code]) for code in codes]
        return max(1.0 - float(np.average(areas, weights=counts)), 1e-6)

    def together(self, kinds: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the weighted mean of kinds, with weights from the other half of the rows."""
        made = np.stack([self.predictions[kind] for kind in kinds if kind in self.predictions])
        if len(made) == 1:
            return made[0]
        halves = np.array_split(np.random.default_rng(0).permutation(len(self.target)), 2)
        out = np.zeros_like(made[0])
        for fit, held in (halves, halves[::-1]):
            out[held] = np.tensordot(self.weights(made[:, fit], fit), made[:, held], axes=1)
        return out

    def weights(self, made: npt.NDArray[Any], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the weights of ensemble selection on some rows, for predictions of these rows."""
        total, counts, best = np.zeros_like(made[0]), np.zeros(len(made)), (np.inf, np.zeros(len(made)))
        for n in range(1, ROUNDS + 1):
            losses = [self.loss((total + each) / n, rows) for each in made]
            place = int(np.argmin(losses))
            total, counts[place] = total + made[place], counts[place] + 1
            best = min(best, (losses[place], counts / n), key=lambda pair: pair[0])
        return best[1]


def train_networks(pool: Pool, device: str) -> None:
    """Add the out-of-fold predictions of every kind of network that the file does not have."""
    made = {}
    if pool.path("networks").exists():
        with np.load(pool.path("networks")) as file:
            made = {kind: file[kind] for kind in file.files}
    missing = {kind: about for kind, about in NETWORKS.items() if kind not in made}
    if not missing:
        return
    trained = networks_on_folds(pool, missing, pool.folds, [held for _, held in pool.folds], device=device)
    for kind, parts in trained.items():
        made[kind] = np.zeros((pool.table.n_rows, parts[0].shape[1]), np.float32)
        for (_, held), part in zip(pool.folds, parts, strict=True):
            made[kind][held] = part
    np.savez_compressed(pool.path("networks"), **made)


def networks_on_folds(
    pool: Pool,
    kinds: Mapping[str, Any],
    folds: Sequence[tuple[Any, Any]],
    rows: Sequence[Any],
    *,
    device: str,
) -> dict[str, list[npt.NDArray[Any]]]:
    """Return what networks that were trained on folds predict for rows of each fold."""
    table, members = pool.table, []
    for spec, backbone, settings in kinds.values():
        encoding = Encoding.parse(spec)
        fitted = encoding.start.encoder().fit(table.numbers, table.target).fitted_ if table.numbers.shape[1] else ()
        batch = int(np.clip(2 ** round(np.log2(table.n_rows / 16)), 32, 256))
        config = TrainingConfig(**{"patience": None, "batch_size": batch, **backbone.training(table.task), **settings})
        members += [
            Member(
                fit, held, fitted, encoding.learnable, seed=1000 * fold, embedding=encoding.embedding,
                backbone=backbone, config=config,
            )
            for fold, (fit, held) in enumerate(folds)
        ]  # fmt: skip
    trained = train(table, members, members[0].backbone, TrainingConfig(), device=device, ensemble=True)
    outputs = trained.outputs(table.numbers, table.codes, list(rows) * len(kinds))
    made = [_standard(pool, part) for part in outputs]
    return {kind: made[len(folds) * place : len(folds) * (place + 1)] for place, kind in enumerate(kinds)}


def _standard(pool: Pool, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return predictions of numbers in units of the target's spread, or logarithms of probabilities."""
    if pool.is_regression:
        return (values - pool.table.target.mean()) / pool.table.target.std()
    return np.asarray(log_softmax(values, axis=1).clip(-30.0))


def train_trees(pool: Pool) -> None:
    """Add the out-of-fold predictions of boosted trees that the file does not have, of CatBoost where it is fast."""
    made = {}
    if pool.path("trees").exists():
        with np.load(pool.path("trees")) as file:
            made = {kind: file[kind] for kind in file.files}
    if OURS not in made:
        made[OURS] = _symmetric(pool)
    for kind in (*TREES, *(["CatBoost"] if _suits_catboost(pool) else [])):
        if kind not in made:
            made[kind] = np.zeros((pool.table.n_rows, max(pool.table.n_classes, 1)), np.float32)
            for fit, held in pool.folds:
                one = (
                    _catboost(pool, fit, held)
                    if kind == "CatBoost"
                    else lightgbm_on_fold(pool, TREES[kind], fit, held, held)
                )
                made[kind][held] = one
    np.savez_compressed(pool.path("trees"), **made)


def _symmetric(pool: Pool) -> npt.NDArray[np.float32]:
    members = [TreeMember(fit, held, (), seed=1, kind=SYMMETRIC) for fit, held in pool.folds]
    trained = boost(pool.table, members, n_categorical=pool.n_categorical)
    parts = trained.outputs(pool.table.numbers, pool.table.codes, [held for _, held in pool.folds])
    made = np.zeros((pool.table.n_rows, max(pool.table.n_classes, 1)), np.float32)
    for (_, held), part in zip(pool.folds, parts, strict=True):
        made[held] = _standard(pool, part)
    return made


def _suits_catboost(pool: Pool) -> bool:
    few_categories = not pool.n_categorical or pool.table.n_rows < 4000
    return few_categories and pool.table.n_classes < 10


def _columns(pool: Pool) -> tuple[npt.NDArray[np.float64], list[int]]:
    n_numbers = pool.table.numbers.shape[1]
    values = np.column_stack([pool.table.numbers, pool.table.codes[:, : pool.n_categorical]])
    return values, list(range(n_numbers, values.shape[1]))


def _logarithms(shares: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return logarithms of the probabilities of all classes; of two, the second one may be given alone."""
    shares = np.column_stack([1.0 - shares, shares]) if shares.ndim == 1 else shares
    return np.log(shares.clip(1e-13))


def lightgbm_on_fold(
    pool: Pool, differences: dict[str, Any], fit: Any, held: Any, rows: Any, *, n_threads: int = 0
) -> npt.NDArray[Any]:
    """Return what trees that were trained on some rows, and stopped early by others, predict for a third part."""
    import lightgbm  # noqa: PLC0415 - not on every machine

    values, categorical = _columns(pool)
    if "linear_tree" in differences:
        values = np.nan_to_num(values)
    n_classes = pool.table.n_classes
    task = {0: {"objective": "l2", "metric": "rmse"}, 2: {"objective": "binary", "metric": "binary_logloss"}}
    several = {"objective": "multiclass", "num_class": n_classes, "metric": "multi_logloss"}
    settings = {
        **USUAL,
        **task.get(n_classes, several),
        **differences,
        "seed": 1,
        "verbosity": -1,
        "num_threads": n_threads,
    }
    data = lightgbm.Dataset(values[fit], pool.target[fit], categorical_feature=categorical, params=dict(settings))
    valid = data.create_valid(values[held], pool.target[held])
    model = lightgbm.train(settings, data, 2000, [valid], callbacks=[lightgbm.early_stopping(50, verbose=False)])
    predicted = np.asarray(model.predict(values[rows], num_iteration=model.best_iteration))
    return predicted[:, None] if pool.is_regression else _logarithms(predicted)


def _catboost(pool: Pool, fit: Any, held: Any) -> npt.NDArray[Any]:
    import catboost  # noqa: PLC0415 - a reference, not on every machine
    import pandas as pd  # noqa: PLC0415 - only CatBoost needs frames

    values, categorical = _columns(pool)
    frame = pd.DataFrame(values)
    frame = frame.astype(dict.fromkeys(categorical, int)).astype(dict.fromkeys(categorical, str))
    kind = catboost.CatBoostRegressor if pool.is_regression else catboost.CatBoostClassifier
    model = kind(
        iterations=2000, early_stopping_rounds=50, cat_features=categorical, verbose=False, random_seed=1,
        allow_writing_files=False,
    )  # fmt: skip
    model.fit(frame.iloc[fit], pool.target[fit], eval_set=(frame.iloc[held], pool.target[held]))
    rows = frame.iloc[held]
    return model.predict(rows)[:, None] if pool.is_regression else _logarithms(model.predict_proba(rows))


class Selection:
    """Scores of sets of kinds over tables."""

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = pools
        grown = [pool.together(GROWN) for pool in pools]
        self.base = [(pool.loss(made), pool.error(made)) for pool, made in zip(pools, grown, strict=True)]
        self.kinds = [kind for kind in (*NETWORKS, *TREES) if all(kind in pool.predictions for pool in pools)]

    def means(self, kinds: Sequence[str]) -> tuple[float, float]:
        """Return geometric means of losses and errors, relative to those of `GROWN`."""
        logs = []
        for pool, base in zip(self.pools, self.base, strict=True):
            made = pool.together(kinds)
            logs.append(np.log([pool.loss(made) / base[0], pool.error(made) / base[1]]).clip(-CLIP, CLIP))
        loss, error = np.exp(np.mean(logs, axis=0))
        return float(loss), float(error)

    def medians(self, kinds: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return the median error relative to each of `REFERENCES` and to the mean of both, and the share of wins."""
        ratios: dict[str, list[float]] = {name: [] for name in (*REFERENCES, "mean of both")}
        for pool in self.pools:
            known = [pool.predictions[name] for name in REFERENCES if name in pool.predictions]
            others = dict(zip(REFERENCES, known, strict=False))
            others |= {"mean of both": np.mean(known, axis=0)} if len(known) == len(REFERENCES) else {}
            error = pool.error(pool.together(kinds))
            for name, predictions in others.items():
                ratios[name].append(error / pool.error(predictions))
        return {name: (float(np.median(each)), float(np.mean(np.array(each) < 1))) for name, each in ratios.items()}

    def lines(self) -> Iterator[str]:
        """Yield the page of the selection."""
        yield f"Tables: {', '.join(pool.name for pool in self.pools)}.\n"
        yield from ("| kinds | loss | error |", "|---|---|---|")
        for kind in self.kinds:
            if kind in TREES:
                loss, error = self.means([kind])
                yield f"| {kind} | {loss:.4f} | {error:.4f} |"
        for more in ((), GROWN):
            yield from ("", f"Networks {'beside the three kinds of trees' if more else 'alone'}:\n")
            yield from self._forward(list(more), [kind for kind in self.kinds if kind in NETWORKS])
        alone = sorted((*self.means([*GROWN, kind]), kind) for kind in self.kinds if kind in NETWORKS)
        yield from ("", "One kind beside the three kinds of trees:\n", "| kind | loss | error |", "|---|---|---|")
        yield from (f"| {kind} | {loss:.4f} | {error:.4f} |" for loss, error, kind in alone)

    def _forward(self, chosen: list[str], left: list[str], most: int = 5) -> Iterator[str]:
        rows = []
        for _ in range(most):
            best = min(left, key=lambda kind: self.means([*chosen, kind])[0])
            chosen.append(best)
            left.remove(best)
            rows.append((f"+ {best}", tuple(chosen)))
        yield from self.table(rows)

    def table(self, rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
        """Yield scores of sets of kinds, each with its name."""
        names = (*REFERENCES, "mean of both")
        yield f"| kinds | loss | error | {' | '.join(f'error / {name}, wins' for name in names)} |"
        yield "|---|---|---" + "|---" * len(names) + "|"
        for name, kinds in rows:
            loss, error = self.means(kinds)
            others = " | ".join(f"{median:.3f}, {wins:.0%}" for median, wins in self.medians(kinds).values())
            yield f"| {name} | {loss:.4f} | {error:.4f} | {others} |"


def compare_trees(out: Path, names: Sequence[str]) -> None:
    """Write what sets of boosted trees lose, alone and, where they were trained, beside the networks of the default."""
    pools = [Pool(out, name) for name in names]
    with_networks = [pool for pool in pools if set(BALANCED) <= set(pool.predictions)]
    lines = []
    for some, networks in ((pools, ()), (with_networks, BALANCED[4:])):
        beside = ", beside the networks of `balanced`" if networks else ""
        lines += [f"{len(some)} tables{beside}; loss and error relative to the first line:", ""]
        lines += ["| trees | loss | error | median error | better on |", "|---|---|---|---|---|"]
        base = None
        for label, kinds in TREE_SETS.items():
            made = [pool.together((*kinds, *networks)) for pool in some]
            scores = np.log([(pool.loss(each), pool.error(each)) for pool, each in zip(some, made, strict=True)])
            base = scores if base is None else base
            ratios = scores - base
            loss, error = np.exp(ratios.clip(-CLIP, CLIP).mean(axis=0))
            median, wins = np.exp(np.median(ratios[:, 1])), np.mean(ratios[:, 1] < 0)
            lines.append(f"| {label} | {loss:.4f} | {error:.4f} | {median:.4f} | {wins:.0%} |")
        lines.append("")
    WRITTEN_TREES.write_text("\n".join(lines))
    print("\n".join(lines))


def select(out: Path, names: Sequence[str]) -> None:
    """Write the losses of single kinds, and the forward selections."""
    pools = [pool for pool in (Pool(out, name) for name in names) if pool.path("trees").exists()]
    with (out / "scores.csv").open("w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["table", "kind", "loss", "error"])
        for pool in pools:
            for kind, made in pool.predictions.items():
                writer.writerow([pool.name, kind, f"{pool.loss(made):.4f}", f"{pool.error(made):.4f}"])
    text = "\n".join(Selection(pools).lines()) + "\n"
    (out / "selection.md").write_text(text)
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("tables", "networks", "trees", "select", "compare-trees"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.command == "tables":
        write_tables(options.out, options.tables)
    elif options.command == "select":
        select(options.out, options.tables)
    elif options.command == "compare-trees":
        compare_trees(options.out, options.tables)
    else:
        for name in options.tables:
            pool = Pool(options.out, name)
            if options.command == "networks":
                train_networks(pool, options.device)
            elif not pool.path("trees").exists():
                train_trees(pool)
            print(name, flush=True)


if __name__ == "__main__":
    main()
