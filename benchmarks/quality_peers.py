"""The models that `quality.py` compares with: gradient boosting, and networks of other libraries.

A fit gets a `Fold` and a device, trains on the rows `train` with early stopping on the rows `valid`, and returns a
function from rows to predictions. Libraries are imported by the fits, since none of them is available everywhere.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from quality_data import Fold
from torch import nn

import knotwork as kw

__all__ = ["PEERS", "Peer", "Predict"]

TREES, STOP = 2000, 50

Predict = Callable[[pd.DataFrame], npt.NDArray[Any]]


@dataclass(frozen=True)
class Peer:
    """A model of another library.

    Parameters
    ----------
    package : str
        The library.
    fit : callable
        Trains on a fold and a device, and returns a function that predicts rows.
    on_gpu : bool
        Whether it uses a GPU.
    """

    package: str
    fit: Callable[[Fold, str], Predict]
    on_gpu: bool

    @property
    def is_installed(self) -> bool:
        """Whether the library is installed."""
        return find_spec(self.package) is not None


def threads() -> int:
    """Return the number of threads for libraries that ignore OMP_NUM_THREADS."""
    return int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0))))


def without_dates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with numbers in place of each date: days, year, month, day, weekday and hour."""
    dates = frame.select_dtypes("datetime")
    parts = {}
    for name in dates:
        date = dates[name].dt
        parts[f"{name} days"] = (dates[name] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
        for part in ("year", "month", "day", "weekday", "hour"):
            parts[f"{name} {part}"] = getattr(date, part)
    return pd.concat([frame.drop(columns=dates.columns), pd.DataFrame(parts, index=frame.index)], axis=1)


def prediction(model: Any, fold: Fold) -> Predict:
    """Return the function of a fitted model that predicts numbers or the shares of classes."""
    return model.predict if fold.is_regression else model.predict_proba


def fit_lightgbm(fold: Fold, device: str) -> Predict:
    """LightGBM with its defaults, early stopped."""
    import lightgbm  # noqa: PLC0415 - only where it is installed

    del device

    def plain(frame: pd.DataFrame) -> pd.DataFrame:
        frame = without_dates(frame)
        return frame.set_axis([f"x{place}" for place in range(frame.shape[1])], axis=1)  # it refuses some names

    kind = lightgbm.LGBMRegressor if fold.is_regression else lightgbm.LGBMClassifier
    model = kind(n_estimators=TREES, random_state=fold.split.seed, n_jobs=threads(), verbose=-1)
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    stop = lightgbm.early_stopping(STOP, verbose=False)
    model.fit(plain(frame), target, eval_X=plain(held), eval_y=truth, callbacks=[stop])
    predict = prediction(model, fold)
    return lambda rows: predict(plain(rows))


def fit_xgboost(fold: Fold, device: str) -> Predict:
    """XGBoost with its defaults, early stopped."""
    import xgboost  # noqa: PLC0415

    del device
    kind = xgboost.XGBRegressor if fold.is_regression else xgboost.XGBClassifier
    model = kind(
        n_estimators=TREES, early_stopping_rounds=STOP, enable_categorical=True,
        random_state=fold.split.seed, n_jobs=threads(),
    )  # fmt: skip
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    model.fit(without_dates(frame), target, eval_set=[(without_dates(held), truth)], verbose=False)
    predict = prediction(model, fold)
    return lambda rows: predict(without_dates(rows))


def fit_catboost(fold: Fold, device: str) -> Predict:
    """CatBoost with its defaults, early stopped."""
    import catboost  # noqa: PLC0415

    del device
    categories = list(fold.frame.select_dtypes("category"))

    def plain(frame: pd.DataFrame) -> pd.DataFrame:
        frame = without_dates(frame)
        return frame.assign(**{name: frame[name].astype(object).fillna("missing") for name in categories})

    kind = catboost.CatBoostRegressor if fold.is_regression else catboost.CatBoostClassifier
    model = kind(
        iterations=TREES, early_stopping_rounds=STOP, cat_features=categories, random_seed=fold.split.seed,
        thread_count=threads(), verbose=False, allow_writing_files=False,
    )  # fmt: skip
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    model.fit(plain(frame), target, eval_set=(plain(held), truth))
    predict = prediction(model, fold)
    return lambda rows: predict(plain(rows))


def fit_pytabkit(fold: Fold, device: str, *, name: str) -> Predict:
    """TabM-D or RealMLP-TD of pytabkit with their defaults, early stopped."""
    import pytabkit  # noqa: PLC0415

    kind = getattr(pytabkit, f"{name}_{'Regressor' if fold.is_regression else 'Classifier'}")
    place = "cuda:0" if torch.device(device).type == "cuda" else device
    model = kind(device=place, random_state=fold.split.seed, n_threads=threads())
    (frame, target), (held, truth) = fold.rows("train"), fold.rows("valid")
    model.fit(frame, target, held, truth, cat_col_names=list(fold.data.categorical))
    predict = prediction(model, fold)
    return lambda rows: np.asarray(predict(rows))


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


@dataclass(frozen=True)
class Inputs:
    """The inputs of `Embedded`: standardised numbers and codes of categories.

    Parameters
    ----------
    data : Dataset
        Its names of columns.
    mean, scale : ndarray of shape (n_numerical,)
        Moments of the training rows.
    device : str
        Where the tensors are.
    """

    data: kw.datasets.Dataset
    mean: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    device: str

    def __call__(self, frame: pd.DataFrame) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the tensors of some rows."""
        numbers = (frame[list(self.data.numerical)].to_numpy(np.float64) - self.mean) / self.scale
        codes = np.zeros((len(frame), len(self.data.categorical)), dtype=np.int64)
        for place, name in enumerate(self.data.categorical):
            codes[:, place] = frame[name].cat.codes
        return torch.tensor(numbers, dtype=torch.float32, device=self.device), torch.tensor(codes, device=self.device)


def fit_rtdl(fold: Fold, device: str) -> Predict:
    """Piecewise-linear embeddings of rtdl_num_embeddings, with its defaults, in front of the MLP of the estimators."""
    import rtdl_num_embeddings as rtdl  # noqa: PLC0415

    torch.manual_seed(fold.split.seed)
    frame, target = fold.rows("train")
    numbers = frame[list(fold.data.numerical)].to_numpy(np.float64)
    inputs = Inputs(fold.data, numbers.mean(axis=0), numbers.std(axis=0) + 1e-12, device)
    shift, scale = (target.mean(), target.std()) if fold.is_regression else (0.0, 1.0)

    def goal(truth: npt.NDArray[Any]) -> torch.Tensor:
        return (
            torch.tensor((truth - shift) / scale, device=device).float()
            if fold.is_regression
            else torch.tensor(truth, device=device)
        )

    values, codes = inputs(frame)
    bins = rtdl.compute_bins(
        values.cpu(),
        tree_kwargs={"min_samples_leaf": 64, "min_impurity_decrease": 1e-4},
        y=goal(target).cpu(),
        regression=fold.is_regression,
    )
    embedding = rtdl.PiecewiseLinearEmbeddings(bins, 12, activation=False, version="B")
    cardinalities = [len(frame[name].cat.categories) for name in fold.data.categorical]
    d_out = 1 if fold.is_regression else int(fold.target.max()) + 1
    network = Embedded(embedding, 12 * values.shape[1], cardinalities, d_out).to(device)
    held, truth = fold.rows("valid")
    train_loop(network, (values, codes, goal(target)), (*inputs(held), goal(truth)))

    def predict(rows: pd.DataFrame) -> npt.NDArray[Any]:
        with torch.no_grad():
            out = network(*inputs(rows))
        if fold.is_regression:
            return out[:, 0].cpu().double().numpy() * scale + shift
        return out.softmax(dim=1).cpu().double().numpy()

    return predict


Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def train_loop(network: nn.Module, train: Rows, valid: Rows) -> None:
    """Train with the settings of `TrainingConfig`: rate, decay, batch, patience and plateau."""
    config = kw.TrainingConfig()
    optimiser = torch.optim.AdamW(network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, factor=config.plateau_factor, patience=config.plateau_patience
    )
    n_rows, device = len(train[0]), train[0].device
    batch = config.batch_size_for(n_rows + len(valid[0]))

    def loss(numbers: torch.Tensor, codes: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        out = network(numbers, codes)
        if goal.is_floating_point():
            return nn.functional.mse_loss(out[:, 0], goal)
        return nn.functional.cross_entropy(out, goal)

    best, since, state = np.inf, 0, network.state_dict()
    for _ in range(config.max_epochs):
        network.train()
        for part in torch.randperm(n_rows, device=device).split(batch):
            optimiser.zero_grad()
            loss(*(tensor[part] for tensor in train)).backward()
            optimiser.step()
        network.eval()
        with torch.no_grad():
            error = float(loss(*valid))
        plateau.step(error)
        since += 1
        if error < best:
            best, since = error, 0
            state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        if since >= config.patience:
            break
    network.load_state_dict(state)


PEERS = {
    "lightgbm": Peer("lightgbm", fit_lightgbm, on_gpu=False),
    "xgboost": Peer("xgboost", fit_xgboost, on_gpu=False),
    "catboost": Peer("catboost", fit_catboost, on_gpu=False),
    "tabm": Peer("pytabkit", partial(fit_pytabkit, name="TabM_D"), on_gpu=True),
    "realmlp": Peer("pytabkit", partial(fit_pytabkit, name="RealMLP_TD"), on_gpu=True),
    "rtdl_ple": Peer("rtdl_num_embeddings", fit_rtdl, on_gpu=True),
}
