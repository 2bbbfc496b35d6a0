"""Variants of training on six tables of the study, by which the estimators' defaults were chosen.

    python benchmarks/defaults.py [--device cuda] [--tables california churn ...]

Each variant is trained on two of five folds with one encoding (IS-Q of size 15 for regression, PLE of size 15 for
classification) at three learning rates, which are members of one stack. Scores are of the test fold: NRMSE (smaller is
better) or AUC.
The tables are read from KNOTWORK_DATA.
"""

import argparse
import time
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import torch
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import knotwork as kw
from knotwork.datasets import load_dataset
from knotwork.nn import MLPConfig
from knotwork.training import METRICS, Member, TrainingConfig, TrainingTable, train

RATES = (3e-4, 1e-3, 3e-3)
TABLES = ("california", "churn", "cpu_small", "wine_quality", "gamma", "house_8l")
BASE = replace(TrainingConfig(), batch_size=256)
VARIANTS: dict[str, tuple[TrainingConfig, MLPConfig]] = {
    "batch 256, dropout 0.3, decay 0.01, plateau 6 x 0.3": (BASE, MLPConfig.paper()),
    "batch 512": (replace(BASE, batch_size=512), MLPConfig.paper()),
    "batch 128": (replace(BASE, batch_size=128), MLPConfig.paper()),
    "dropout 0.15": (BASE, MLPConfig(dropout=0.15)),
    "decay 1e-5": (replace(BASE, weight_decay=1e-5), MLPConfig.paper()),
    "decay 0.1": (replace(BASE, weight_decay=0.1), MLPConfig.paper()),
    "cosine over 60 epochs": (replace(BASE, schedule="cosine", max_epochs=60, patience=60), MLPConfig.paper()),
    "widths 512-512-512": (BASE, MLPConfig(widths=(512, 512, 512), dropout=0.3)),
    "plateau 4 x 0.5": (replace(BASE, plateau_patience=4, plateau_factor=0.5), MLPConfig.paper()),
}


def read(key: str) -> TrainingTable:
    data = load_dataset(key)
    columns = [np.unique(data.frame[name].astype(str), return_inverse=True)[1] + 1 for name in data.categorical]
    codes = np.column_stack(columns) if columns else np.zeros((data.n_rows, 0), dtype=np.int64)
    cardinalities = tuple(int(column.max()) + 1 for column in columns)
    target = data.target_values()
    if data.task == "regression":
        return TrainingTable(data.numbers(), codes, target.astype(float), data.task, cardinalities)
    classes, target = np.unique(target, return_inverse=True)
    return TrainingTable(data.numbers(), codes, target, data.task, cardinalities, len(classes))


def folds(table: TrainingTable) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    classes = table.task == "classification"
    split = (StratifiedKFold if classes else KFold)(5, shuffle=True, random_state=42)
    out = []
    for fold, (rest, test) in enumerate(split.split(table.numbers, table.target)):
        stratify = table.target[rest] if classes else None
        rows, held = train_test_split(rest, test_size=0.1, random_state=42 + fold, stratify=stratify)
        out.append((rows, held, test))
    return out[:2]


def score(table: TrainingTable, outputs: np.ndarray, test: np.ndarray) -> float:
    target = table.target[test]
    if table.task == "regression":
        return float(np.sqrt(np.mean((outputs[:, 0] - target) ** 2)) / target.std())
    return float(METRICS["auc"].function(torch.from_numpy(outputs)[None], torch.from_numpy(target)[None], None)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    arguments = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d}, device {arguments.device}, torch {torch.__version__}\n")
    print("| table | variant | 3e-4 | 1e-3 | 3e-3 | epochs | seconds |\n|---|---|---|---|---|---|---|")
    for key in arguments.tables:
        table = read(key)
        method = "IS-Q@15" if table.task == "regression" else "PLE@15"
        parts = folds(table)
        blocks = [
            kw.make_encoder(method, task=table.task).fit(table.numbers[rows], table.target[rows]).fitted_
            for rows, _, _ in parts
        ]
        for name, (config, backbone) in VARIANTS.items():
            members = [
                Member(rows, held, fitted, seed=42 + fold, learning_rate=rate)
                for rate in RATES
                for fold, ((rows, held, _), fitted) in enumerate(zip(parts, blocks, strict=True))
            ]
            begin = time.perf_counter()
            trained = train(table, members, backbone, config, device=arguments.device)
            seconds = time.perf_counter() - begin
            tests = [test for _ in RATES for _, _, test in parts]
            outputs = trained.outputs(table.numbers, table.codes, tests)
            scores = np.array([score(table, out, test) for out, test in zip(outputs, tests, strict=True)])
            means = scores.reshape(len(RATES), -1).mean(axis=1)
            epochs = np.mean([history.epochs for history in trained.histories])
            numbers = " | ".join(f"{mean:.4f}" for mean in means)
            print(f"| {key} | {name} | {numbers} | {epochs:.0f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
