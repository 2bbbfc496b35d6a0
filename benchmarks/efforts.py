"""How the kinds of networks of an effort were chosen: by out-of-fold losses on training rows, never by test rows.

    python benchmarks/efforts.py train --out pool --tables churn gamma     out-of-fold predictions of every kind
    python benchmarks/efforts.py select --out pool                         scores, and the order of a forward selection

For each table, the rows that are not tested in the first fold of the study are divided into five parts. Every kind of
`KINDS` is trained five times, each time without one of the parts, which it then predicts. `select` scores sets of kinds
by the loss of their mean, with weights by ensemble selection (Caruana and others, 2004), relative to the best single
kind, and adds one kind after the other. `benchmarks/efforts/scores.csv` has losses measured on an H200 by an earlier
form of this script: the same kinds, tables and folds, with encodings fitted within each fold.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

from knotwork.datasets import Dataset, load_dataset
from knotwork.encoders import Encoding
from knotwork.nn import MLPConfig, RealMLPConfig, ResNetConfig, TabMConfig
from knotwork.study import make_splits
from knotwork.training import Member, TrainingConfig, TrainingTable, train

TABLES = (
    "churn", "gamma", "cpu_small", "wine_quality", "parkinsons", "air_quality", "ipums", "california", "eeg",
    "fifa_wage", "loan_type", "house_8l", "house_sales", "fico", "sulfur",
)  # fmt: skip
FOLDS = 5
COSINE = {"schedule": "cosine", "learning_rate": 2e-3, "weight_decay": 0.02, "patience": None}
STEADY = {"schedule": "constant", "learning_rate": 1e-3, "weight_decay": 3e-4, "precision": "bf16"}


def perceptron(width: int, dropout: float = 0.1) -> MLPConfig:
    """Return three hidden layers of a width."""
    return MLPConfig(widths=(width,) * 3, dropout=dropout)


RESNET = ResNetConfig(n_blocks=2, hidden=384, dropout=0.15)
KINDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "mlp E16 60": ("PLE-Q@30+LR16", perceptron(384), {**COSINE, "max_epochs": 60}),
    "mlp E16 20": ("PLE-Q@30+LR16", perceptron(384), {**COSINE, "max_epochs": 20}),
    "mlp E16 60 d.3": ("PLE-Q@30+LR16", perceptron(384, 0.3), {**COSINE, "max_epochs": 60}),
    "mlp512 48LR16 150": ("PLE-Q@48+LR16", perceptron(512), {**COSINE, "max_epochs": 150}),
    "mlp 80LR8 60": ("PLE-Q@80+LR8", perceptron(384), {**COSINE, "max_epochs": 60}),
    "resnet E16 60": ("PLE-Q@30+LR16", RESNET, {**COSINE, "max_epochs": 60}),
    "resnet E16 20": ("PLE-Q@30+LR16", RESNET, {**COSINE, "max_epochs": 20}),
    "real PBLD 128": ("PBLD@16", RealMLPConfig(), {"max_epochs": 128, "label_smoothing": 0.0}),
    "real 30L4x 128": ("PLE-Q@30+L4x", RealMLPConfig(), {"max_epochs": 128, "label_smoothing": 0.0}),
    "real PLR 128": ("PLR@16+LR8x", RealMLPConfig(), {"max_epochs": 128, "label_smoothing": 0.0}),
    "tabm256 E16 60": (
        "PLE-Q@30+LR16", TabMConfig(widths=(256,) * 3), {**COSINE, "weight_decay": 3e-3, "max_epochs": 60},
    ),
    "tabm512 E16 bf16": (
        "PLE-Q@30+LR16", TabMConfig(), {**COSINE, "weight_decay": 3e-3, "precision": "bf16", "max_epochs": 60},
    ),
    "tabm512 E16 bf16 const": ("PLE-Q@30+LR16", TabMConfig(), {**STEADY, "max_epochs": 100}),
}  # fmt: skip
"""Encoding, backbone and training by the names in scores.csv."""


def table_of(data: Dataset) -> TrainingTable:
    """Return the rows that the first fold of the study does not test on."""
    values = data.target_values()
    target = values if data.task == "regression" else np.unique(values, return_inverse=True)[1]
    split = make_splits(target, data.task, folds=5, seed=42)[0]
    rows = np.concatenate([split.train, split.valid])
    codes = [1 + pd.factorize(data.frame[name].astype(str), sort=True)[0] for name in data.categorical]
    table = np.column_stack(codes) if codes else np.empty((len(target), 0), dtype=np.int64)
    counts = tuple(int(column.max()) + 1 for column in table.T)
    n_classes = 0 if data.task == "regression" else int(target.max()) + 1
    return TrainingTable(data.numbers()[rows], table[rows].astype(np.int64), target[rows], data.task, counts, n_classes)


def members_of(table: TrainingTable, spec: str, backbone: Any, settings: dict[str, Any]) -> list[Member]:
    """Return the networks of a kind, one for each fold."""
    encoding = Encoding.parse(spec)
    fitted = encoding.start.encoder().fit(table.numbers, table.target)
    config = TrainingConfig(**{"batch_size": 256, **backbone.training(table.task), **settings})
    kind = KFold if table.task == "regression" else StratifiedKFold
    folds = kind(FOLDS, shuffle=True, random_state=7).split(table.numbers, table.target)
    return [
        Member(
            fit, held, fitted.fitted_, encoding.learnable, seed=1000 * fold, embedding=encoding.embedding,
            backbone=backbone, config=config,
        )
        for fold, (fit, held) in enumerate(folds)
    ]  # fmt: skip


def train_table(name: str, out: Path, device: str) -> None:
    """Write the out-of-fold predictions of every kind for a table."""
    table = table_of(load_dataset(name))
    kept: dict[str, npt.NDArray[Any]] = {"target": table.target}
    for kind, (spec, backbone, settings) in KINDS.items():
        members = members_of(table, spec, backbone, settings)
        began = time.perf_counter()
        trained = train(table, members, backbone, TrainingConfig(), device=device)
        outputs = trained.outputs(table.numbers, table.codes, [member.valid for member in members])
        predictions = np.zeros((len(table.target), outputs[0].shape[1]))
        for member, values in zip(members, outputs, strict=True):
            predictions[member.valid] = values
        kept[kind] = predictions
        print(name, kind, f"{loss(predictions[None], table.target)[0]:.4f}", f"{time.perf_counter() - began:.1f} s")
    np.savez_compressed(out / f"{name}.npz", **kept)


def loss(predictions: npt.NDArray[Any], target: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return RMSE over the target's deviation, or the log loss of probabilities or logits, of shape (k,)."""
    if predictions.shape[-1] == 1:
        return np.sqrt(np.mean((predictions[..., 0] - target) ** 2, axis=-1)) / target.std()
    shares = predictions if (predictions >= 0).all() else probabilities(predictions)
    chosen = np.take_along_axis(shares, target[None, :, None], axis=-1)[..., 0]
    return -np.log(np.maximum(chosen, 1e-7)).mean(axis=-1)


def probabilities(logits: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the softmax over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def loss_together(predictions: npt.NDArray[Any], target: npt.NDArray[Any], rounds: int = 20) -> float:
    """Return the best loss of a greedy sequence of means of kinds, with replacement."""
    total, best = np.zeros_like(predictions[0]), np.inf
    for count in range(1, rounds + 1):
        losses = loss((total + predictions) / count, target)
        total += predictions[losses.argmin()]
        best = min(best, float(losses.min()))
    return best


def select(out: Path) -> None:
    """Write the scores of single kinds, and print a forward selection."""
    tables = {}
    for path in sorted(out.glob("*.npz")):
        with np.load(path) as file:
            kinds = [kind for kind in KINDS if kind in file]
            predictions = np.stack([file[kind] for kind in kinds])
            target = file["target"]
        tables[path.stem] = (predictions if predictions.shape[-1] == 1 else probabilities(predictions), target)
    with (out / "scores.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["table", "kind", "loss"])
        for name, (predictions, target) in tables.items():
            writer.writerows(
                [name, kind, f"{value:.4f}"] for kind, value in zip(kinds, loss(predictions, target), strict=True)
            )
    alone = {name: loss(*table).min() for name, table in tables.items()}
    chosen: list[int] = []
    while len(chosen) < len(kinds):

        def ratio(place: int) -> float:
            places = [*chosen, place]
            return float(
                np.mean([np.log(loss_together(p[places], y) / alone[name]) for name, (p, y) in tables.items()])
            )

        left = [place for place in range(len(kinds)) if place not in chosen]
        chosen.append(min(left, key=ratio))
        print(f"{np.exp(ratio(chosen[-1])):.4f}  + {kinds[chosen[-1]]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("train", "select"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.command == "select":
        select(options.out)
    else:
        for name in options.tables:
            if not (options.out / f"{name}.npz").exists():
                train_table(name, options.out, options.device)


if __name__ == "__main__":
    main()
