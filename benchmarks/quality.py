"""Quality of the estimators' predictions, compared with gradient boosting and another library's embeddings.

    python benchmarks/quality.py --out quality                     all models that are installed
    python benchmarks/quality.py --out quality --models lightgbm   some models; a second run fits only missing results
    python benchmarks/quality.py --out quality --table             the table of existing results

Models are fitted on the five folds of the study, on twelve of its tables (KNOTWORK_DATA). LightGBM and CatBoost have
their defaults, up to 2,000 trees, and stop early on a tenth of the training rows, as the networks do.
`rtdl_num_embeddings` is put in front of the default MLP of `TabularRegressor`, trained with the same settings in an
ordinary torch loop. Our three models are the estimators with ``encoding="recommended"``, ``"validated"`` and
``"ensemble"``. The score is NRMSE (RMSE over the standard deviation of the test target) or AUC (weighted one against
the rest).

Every result is a line of results.jsonl, or of others.jsonl if the table is not one of the twelve. `seconds` is the time
of a complete fit. Lines of earlier runs have `seconds_shared` for our models: the share of one fold in training the
candidates of all folds together, without placing knots.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from quality_data import TABLES, coded, score, splits_of, target_of
from quality_peers import PEERS
from quality_table import MODELS, OURS, page

import knotwork as kw
from knotwork.datasets import Dataset, load_dataset
from knotwork.study import Split


def machine(model: str, device: str) -> str:
    """Return the name of the device that fits a model."""
    on_gpu = torch.cuda.is_available() if device == "auto" else device.startswith("cuda")
    if model in ("lightgbm", "catboost") or not on_gpu:
        return f"{os.cpu_count()} CPU cores"
    return torch.cuda.get_device_name()


def fit_peer(model: str, data: Dataset, splits: Sequence[Split], device: str) -> Iterator[dict[str, Any]]:
    """Yield the score of a model of another library on every fold."""
    target = target_of(data)
    for split in splits:
        began = time.perf_counter()
        predict = PEERS[model][1](data, split.train, split.valid, split.seed, device)
        seconds = round(time.perf_counter() - began, 2)
        result = score(data.task, target[split.test], predict(data.frame.iloc[split.test]))
        yield {"model": model, "fold": split.fold, "score": result, "seconds": seconds}


def fit_ours(model: str, data: Dataset, splits: Sequence[Split], device: str) -> Iterator[dict[str, Any]]:
    """Yield the score of an estimator on every fold."""
    frame, target = coded(data), target_of(data)
    kind = kw.TabularRegressor if data.task == "regression" else kw.TabularClassifier
    for split in splits:
        rows = np.concatenate([split.train, split.valid])
        began = time.perf_counter()
        fitted = kind(model, random_state=split.seed, device=device).fit(frame.iloc[rows], target[rows])
        seconds = round(time.perf_counter() - began, 2)
        predict = fitted.predict if data.task == "regression" else fitted.predict_proba
        result = score(data.task, target[split.test], predict(frame.iloc[split.test]))
        yield {"model": model, "fold": split.fold, "score": result, "seconds": seconds}


def run(out: Path, tables: Sequence[str], models: Sequence[str], device: str) -> None:
    """Fit the models whose results are missing."""
    out.mkdir(parents=True, exist_ok=True)
    for name in tables:
        path = out / ("results.jsonl" if name in TABLES else "others.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        done = {(line["model"], line["fold"]) for line in lines if line["table"] == name}
        data = load_dataset(name)
        splits = splits_of(data)

        def left(model: str, done: Any = done, splits: Any = splits) -> list[Split]:
            return [split for split in splits if (model, split.fold) not in done]

        jobs = [
            fit_peer(model, data, left(model), device)
            for model in models
            if model in PEERS and find_spec(PEERS[model][0]) is not None
        ]
        jobs += [fit_ours(model, data, left(model), device) for model in models if model in OURS]
        for line in (line for job in jobs for line in job):
            if line["model"] in models and (line["model"], line["fold"]) not in done:
                result = {"table": name, "task": data.task, **line, "device": machine(line["model"], device)}
                with path.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                print(*result.values(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--table", action="store_true", help="print the table of existing results")
    options = parser.parse_args()
    if not options.table:
        run(options.out, options.tables, options.models, options.device)
    print(page(options.out))


if __name__ == "__main__":
    main()
