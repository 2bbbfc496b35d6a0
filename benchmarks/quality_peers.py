"""The models that `quality.py` compares with: gradient boosting, and another library's embeddings of numbers."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch
from quality_data import coded, target_of
from torch import nn

import knotwork as kw
from knotwork.datasets import Dataset

__all__ = ["PEERS"]

TREES, STOP = 2000, 50
Fit = Callable[[Dataset, np.ndarray, np.ndarray, int, str], Callable[[pd.DataFrame], np.ndarray]]
"""Fits on training rows with early stopping on validation rows; returns a function from rows to predictions."""


def fit_lightgbm(data: Dataset, train: np.ndarray, valid: np.ndarray, seed: int, device: str) -> Any:
    import lightgbm as lgb  # noqa: PLC0415 - not everywhere

    del device
    frame, target = coded(data), target_of(data)
    frame.columns = [f"x{place}" for place in range(frame.shape[1])]  # LightGBM refuses some names of columns
    kind = lgb.LGBMRegressor if data.task == "regression" else lgb.LGBMClassifier
    model = kind(n_estimators=TREES, random_state=seed, verbose=-1)
    model.fit(
        frame.iloc[train],
        target[train],
        eval_set=[(frame.iloc[valid], target[valid])],
        callbacks=[lgb.early_stopping(STOP, verbose=False)],
    )
    predict = model.predict if data.task == "regression" else model.predict_proba
    return lambda rows: predict(frame.loc[rows.index])


def fit_catboost(data: Dataset, train: np.ndarray, valid: np.ndarray, seed: int, device: str) -> Any:
    import catboost  # noqa: PLC0415 - not everywhere

    del device
    frame, target = data.frame[list(data.features)].copy(), target_of(data)
    for name in data.categorical:
        frame[name] = frame[name].astype(str)
    kind = catboost.CatBoostRegressor if data.task == "regression" else catboost.CatBoostClassifier
    model = kind(
        iterations=TREES, random_seed=seed, verbose=False, allow_writing_files=False,
        cat_features=list(data.categorical), early_stopping_rounds=STOP,
    )  # fmt: skip
    model.fit(frame.iloc[train], target[train], eval_set=(frame.iloc[valid], target[valid]))
    predict = model.predict if data.task == "regression" else model.predict_proba
    return lambda rows: predict(frame.loc[rows.index])


class Embedded(nn.Module):
    """Embedded numbers and categories in front of the default MLP of the estimators."""

    def __init__(self, embedding: nn.Module, width: int, cardinalities: list[int], d_out: int) -> None:
        super().__init__()
        self.embedding = embedding
        self.categories = nn.ModuleList(nn.Embedding(n, 8) for n in cardinalities)
        ends, layers = [width + 8 * len(cardinalities), 256, 128, 64], []
        for d_in, d_hidden in pairwise(ends):
            layers += [nn.Linear(d_in, d_hidden), nn.ReLU(), nn.Dropout(0.15)]
        self.layers = nn.Sequential(*layers, nn.Linear(ends[-1], d_out))

    def forward(self, numbers: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Return outputs of shape (n, d_out)."""
        parts = [self.embedding(numbers).flatten(1)] if numbers.shape[1] else []
        parts += [table(codes[:, place]) for place, table in enumerate(self.categories)]
        return self.layers(torch.cat(parts, dim=1))


def fit_rtdl(kind: str) -> Fit:
    """Return a fit with piecewise-linear or periodic embeddings of rtdl_num_embeddings, with its own defaults."""

    def fit(data: Dataset, train: np.ndarray, valid: np.ndarray, seed: int, device: str) -> Any:
        import rtdl_num_embeddings as rtdl  # noqa: PLC0415 - not everywhere

        torch.manual_seed(seed)
        place = torch.device(
            "cuda" if device == "auto" and torch.cuda.is_available() else device.replace("auto", "cpu")
        )
        numbers = data.numbers()
        low, high = numbers[train].mean(axis=0), numbers[train].std(axis=0) + 1e-12
        values = torch.tensor((numbers - low) / high, dtype=torch.float32)
        codes = np.column_stack(
            [pd.factorize(data.frame[name].astype(str), sort=True)[0] for name in data.categorical]
            or [np.zeros((len(numbers), 0), dtype=np.int64)]
        )
        codes = torch.tensor(codes, dtype=torch.int64)
        target = target_of(data)
        shift, scale = (target[train].mean(), target[train].std()) if data.task == "regression" else (0.0, 1.0)
        goal = torch.tensor((target - shift) / scale).float() if data.task == "regression" else torch.tensor(target)
        if kind == "ple":
            bins = rtdl.compute_bins(
                values[train],
                tree_kwargs={"min_samples_leaf": 64, "min_impurity_decrease": 1e-4},
                y=goal[train],
                regression=data.task == "regression",
            )
            embedding = rtdl.PiecewiseLinearEmbeddings(bins, 12, activation=False, version="B")
            width = 12 * values.shape[1]
        else:
            embedding, width = rtdl.PeriodicEmbeddings(values.shape[1], lite=False), 24 * values.shape[1]
        n_classes = int(target.max()) + 1 if data.task == "classification" else 1
        cardinalities = [int(column.max()) + 1 for column in codes.T]
        network = Embedded(embedding, width, cardinalities, n_classes).to(place)
        tensors = [tensor.to(place) for tensor in (values, codes, goal)]
        _train(network, tensors, train, valid, data.task)

        def predict(rows: pd.DataFrame) -> np.ndarray:
            positions = torch.tensor(data.frame.index.get_indexer(rows.index), device=place)
            with torch.no_grad():
                out = network(tensors[0][positions], tensors[1][positions])
            if data.task == "regression":
                return out[:, 0].cpu().double().numpy() * scale + shift
            return out.softmax(dim=1).cpu().double().numpy()

        return predict

    return fit


def _train(network: nn.Module, tensors: list[torch.Tensor], train: np.ndarray, valid: np.ndarray, task: str) -> None:
    """Train with the settings of `TrainingConfig`: rate, decay, batch, patience and plateau."""
    config = kw.TrainingConfig()
    values, codes, goal = tensors
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=config.plateau_factor, patience=config.plateau_patience
    )
    loss_of = nn.functional.mse_loss if task == "regression" else nn.functional.cross_entropy
    rows, held = (torch.tensor(part, device=values.device) for part in (train, valid))
    batch = config.batch_size_for(len(train) + len(valid))

    def loss(part: torch.Tensor) -> torch.Tensor:
        out = network(values[part], codes[part])
        return loss_of(out[:, 0] if task == "regression" else out, goal[part])

    best, since, state = np.inf, 0, None
    for _ in range(config.max_epochs):
        network.train()
        for part in rows[torch.randperm(len(rows), device=rows.device)].split(batch):
            optimiser.zero_grad()
            loss(part).backward()
            optimiser.step()
        network.eval()
        with torch.no_grad():
            score = float(loss(held))
        plateau.step(score)
        since += 1
        if score < best:
            best, since = score, 0
            state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        if since >= config.patience:
            break
    network.load_state_dict(state)


PEERS: dict[str, tuple[str, Fit]] = {
    "lightgbm": ("lightgbm", fit_lightgbm),
    "catboost": ("catboost", fit_catboost),
    "rtdl PLE": ("rtdl_num_embeddings", fit_rtdl("ple")),
    "rtdl periodic": ("rtdl_num_embeddings", fit_rtdl("periodic")),
}
"""The package of each model and the function that fits it."""
