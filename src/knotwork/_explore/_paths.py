"""The paths of learned knots: the torch layer on groups of rows, with the best linear map at every step."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from knotwork._explore._prepare import BinnedColumn
from knotwork._kernels.adamw import AdamW
from knotwork.basis import FAMILIES, FloatArray
from knotwork.nn import PiecewiseLinearEncoding, SplineEncoding


@dataclass(frozen=True)
class LearningRule:
    """How knots are learned for the page: conventions by which they settle within a second or so.

    Parameters
    ----------
    steps : int
        Steps of the optimiser; every second one is kept.
    rate : float
        Learning rate of the knots at the first step; it falls to almost 0 as a cosine.
    ridge, spacing : float
        Penalties of coefficients and of narrow intervals.
    """

    steps: int = 30
    rate: float = 0.2
    ridge: float = 1.0
    spacing: float = 1e-4


LEARNING = LearningRule()

Paths = dict[tuple[str, int], npt.NDArray[np.float32]]


def learn_paths(
    columns: Sequence[BinnedColumn],
    target: FloatArray,
    *,
    sizes: Sequence[int],
    families: Sequence[str],
    seconds: float,
) -> list[Paths]:
    """Learn the knots of each column alone, from equal distances, for each family and size.

    `target` has the shape (n_training, n_outputs) and mean 0. Sizes and families are learned in their order: none is
    begun after this many `seconds` of computing. Knots are on the domain scaled to [0, 1], of shape (n_kept, K), by
    family and size.

    Notes
    -----
    The loss of a column is the mean squared error of the best ridge fit on its encoding. At the best coefficients their
    gradient is zero, so the gradient in the knots is that of the squared error with the coefficients held fixed.
    """
    started, threads = time.thread_time(), torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are small: threads would wait for each other
    try:
        rows = _stack_rows(columns, target)
        paths: list[Paths] = [{} for _ in columns]
        for size in sizes:
            for family in families:
                if time.thread_time() - started > seconds:
                    return paths
                for each, knots in zip(paths, _learn(rows, family, size), strict=True):
                    each[family, size] = knots
        return paths
    finally:
        torch.set_num_threads(threads)


def _stack_rows(columns: Sequence[BinnedColumn], target: FloatArray) -> Mapping[str, torch.Tensor]:
    """Return values, weights and mean targets of the groups, of shapes (n, d), (d, n, 1) and (d, n, n_outputs)."""
    n_groups = max(len(column.centres) for column in columns)
    x = np.full((n_groups, len(columns)), np.nan)
    weights = np.zeros((len(columns), n_groups, 1))
    y = np.zeros((len(columns), n_groups, target.shape[1]))
    for index, column in enumerate(columns):
        n, codes = len(column.centres), column.codes[: column.n_training]
        x[:n, index], weights[index, :n, 0] = column.centres, column.counts
        for output, values in enumerate(target.T):
            y[index, :n, output] = np.bincount(codes, values, minlength=256)[:n] / np.maximum(column.counts, 1)
    return {
        name: torch.tensor(value, dtype=torch.float32) for name, value in (("x", x), ("weights", weights), ("y", y))
    }


def _learn(rows: Mapping[str, torch.Tensor], family: str, size: int) -> list[npt.NDArray[np.float32]]:
    """Return the kept knots of each column, of shape (n_kept, K)."""
    n_columns = rows["x"].shape[1]
    layer: SplineEncoding | PiecewiseLinearEncoding
    if FAMILIES[family].has_degree:
        layer = SplineEncoding(n_columns, size, family=family)
    else:
        layer = PiecewiseLinearEncoding(n_columns, size)
    assert layer.logits is not None
    # The optimiser of the engine, with columns as members: that of torch takes a second to import.
    optimiser, every = AdamW([layer.logits], decays=[0.0], groups=[0]), torch.ones(n_columns, dtype=torch.bool)
    kept = [layer.interior_knots()]
    for step in range(1, LEARNING.steps + 1):
        rate = LEARNING.rate * 0.5 * (1.0 + np.cos(np.pi * (step - 1) / LEARNING.steps))
        layer.logits.grad = None
        loss = _errors(layer(rows["x"]).movedim(1, 0), rows).sum() + LEARNING.spacing * layer.spacing_penalty()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step([layer.logits.grad], torch.full((1, n_columns), rate), every)
        if step % 2 == 0:
            kept.append(layer.interior_knots())
    return list(torch.stack(kept, dim=1).detach().numpy())


def _errors(encoded: torch.Tensor, rows: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean squared error of the best ridge fit of each column, with its coefficients held fixed."""
    weights, y = rows["weights"], rows["y"]
    share = weights / weights.sum(dim=1, keepdim=True).clamp_min(1.0)
    encoded, y = encoded - (share * encoded).sum(1, keepdim=True), y - (share * y).sum(1, keepdim=True)
    with torch.no_grad():
        weighted = (weights * encoded).double().transpose(1, 2)
        system = weighted @ encoded.double() + LEARNING.ridge * torch.eye(encoded.shape[-1], dtype=torch.float64)
        coefficients = torch.linalg.solve(system, weighted @ y.double()).float()
    errors: torch.Tensor = (share * (y - encoded @ coefficients) ** 2).sum(dim=(1, 2))
    return errors
