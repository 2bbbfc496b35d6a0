"""The choice of an encoding for every column by gradient: candidates are trained together in one network."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from knotwork._preparation.members import fit_encodings, one_target
from knotwork.basis._base import FloatArray
from knotwork.encoders._choice import FEWEST_ROWS, MOST_ROWS, FeatureChoice, read_candidates
from knotwork.encoders._methods import Encoding
from knotwork.nn._backbones import MLPConfig
from knotwork.nn._gates import column_moments, gate_sizes
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import Member, TrainingTable, in_units
from knotwork.training._network import block_weights
from knotwork.training._results import Trained

__all__ = ["GATED_CANDIDATES", "choose_by_gates"]

GATED_CANDIDATES = ("BS-Q@15", "Std", "BS-Q@7", "PLE@30", "IS-Q@15")
"""Encodings that are trained together; the first is taken for tables of very few rows."""

BACKBONE = MLPConfig(widths=(32,), dropout=0.0)
N_STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 1000, 5, 100
STRENGTH, STRENGTH_ROWS = 0.1, 500
"""Strength of the penalty of a single column for so many rows. It falls with the square root of the rows, as what
chance contributes to a gate does, and grows with that of the columns of a block, as usual in a group lasso. In trials
on planted curves a smaller one left noise with larger gates, and four times as much suppressed small waves."""

N_SHUFFLED, LEAST_RATIO = 3, 1.5
"""Shuffled columns that are trained with the others, at most, and how much larger than their gates those of a column
must be for it to matter; otherwise the smallest block is taken."""

N_MEASURED = 2048
"""Rows by which gates are measured."""


def choose_by_gates(
    table: TrainingTable,
    rows: npt.NDArray[np.int64],
    *,
    names: Sequence[Any],
    candidates: Sequence[Encoding] | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    time_limit: float | None = None,
) -> list[FeatureChoice]:
    """Choose an encoding for every numerical column by gates that are learned with a network.

    Every candidate of every column is a block of inputs of one network, and its gate is how much it varies behind the
    first layer. A group lasso penalises the gates, so that of candidates that can replace each other the one fades that
    helps less for its number of columns. The candidate with the largest gate is kept. Of columns whose gates are no
    larger than those of shuffled columns, which are trained with them, it is the one with the fewest columns.

    Parameters
    ----------
    table : TrainingTable
        The table.
    rows : ndarray of int
        Training rows; knots are placed by one half of at most 20,000 of them, the network is trained on the other.
    names : sequence
        Names of the numerical columns.
    candidates : sequence of Encoding, optional
        What to choose among: encodings with fixed knots.
    seed : int, default=0
        Random seed.
    device : str or torch.device, default="auto"
        Where the network is trained.
    time_limit : float, optional
        Seconds after which its training stops at the end of an epoch.

    Notes
    -----
    The gate of a candidate is the standard deviation of its part of the hidden units, over rows and units, times the
    square root of its number of columns. What is only scaled takes the straight part of other candidates' curves: it is
    chosen if it has more than half of a column's gates, and otherwise the largest of the others.
    """
    candidates = read_candidates(GATED_CANDIDATES) if candidates is None else list(candidates)
    if not len(names):
        return []
    rows = np.random.default_rng(seed).permutation(rows)[:MOST_ROWS]
    if len(rows) < FEWEST_ROWS or len(candidates) == 1:
        few = "It is the only candidate" if len(candidates) == 1 else f"{len(rows)} rows are too few to compare others"
        return [FeatureChoice(name, str(candidates[0]), {}, f"{few}.") for name in names]
    table = _with_shuffled(table, rows, seed)
    placing, training = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    blocks = _fitted_blocks(table, placing, candidates, seed)
    gates = _trained_gates(table, training, blocks, seed=seed, device=device, time_limit=time_limit)
    gates = gates.reshape(-1, len(candidates))
    by_chance = float(gates[len(names) :].sum(axis=1).max())
    return [_choice(name, candidates, row, by_chance) for name, row in zip(names, gates, strict=False)]


def _with_shuffled(table: TrainingTable, rows: npt.NDArray[np.int64], seed: int) -> TrainingTable:
    """Return a table with some more columns: random ones of its own, shuffled over the rows."""
    random = np.random.default_rng(seed)
    n_columns = table.numbers.shape[1]
    chosen = random.permutation(n_columns)[:N_SHUFFLED]
    numbers = np.concatenate([table.numbers, table.numbers[:, chosen]], axis=1)
    for column in range(n_columns, numbers.shape[1]):
        numbers[rows, column] = numbers[random.permutation(rows), column]
    return replace(table, numbers=numbers)


def _fitted_blocks(
    table: TrainingTable, rows: npt.NDArray[np.int64], candidates: Sequence[Encoding], seed: int
) -> list[Any]:
    """Return the blocks of all candidates of the first column, then of the second, and so on."""
    n_columns, weights = table.numbers.shape[1], table.weights
    fitted = fit_encodings(
        [[candidate] * n_columns for candidate in candidates],
        table.numbers[rows],
        one_target(table.target[rows]),
        task=table.task,
        weights=None if weights is None else weights[rows],
        seed=seed % 2**30,
    )
    return [each.blocks[column] for column in range(n_columns) for each in fitted]


def _trained_gates(
    table: TrainingTable,
    rows: npt.NDArray[np.int64],
    blocks: Sequence[Any],
    *,
    seed: int,
    device: str | torch.device,
    time_limit: float | None,
) -> FloatArray:
    """Return the gate of each block in a network that every column enters once for each candidate."""
    repeated = replace(
        table,
        numbers=np.repeat(table.numbers[rows], len(blocks) // table.numbers.shape[1], axis=1),
        codes=table.codes[rows],
        target=table.target[rows],
        weights=None if table.weights is None else table.weights[rows],
    )
    factors = np.sqrt([float(block.size) for block in blocks])
    every, strength = np.arange(len(rows)), STRENGTH * np.sqrt(STRENGTH_ROWS / len(rows))
    member = Member(every, every[:0], blocks, seed=seed % 2**31, gates=strength * factors)
    config = replace(_config(len(rows)), time_limit=time_limit)
    trained = train(repeated, [member], BACKBONE, config, device=device)
    if trained.interrupted and time_limit is None:
        raise KeyboardInterrupt("The choice of encodings was stopped: there is no model yet.")
    gates: FloatArray = factors * _sizes(trained, repeated.numbers)
    return gates


def _config(n_rows: int) -> TrainingConfig:
    """Return the configuration of a training of about `N_STEPS` steps."""
    usual = TrainingConfig()
    epochs = round(N_STEPS * usual.batch_size_for(n_rows) / n_rows)
    epochs = int(np.clip(epochs, FEWEST_EPOCHS, MOST_EPOCHS))
    return replace(usual, max_epochs=epochs, learning_rate=0.01, schedule="cosine", patience=None, weight_decay=0.02)


@torch.no_grad()
def _sizes(trained: Trained, numbers: FloatArray) -> FloatArray:
    """Return how much each block varies behind the first layer."""
    network = trained.pieces[0].network
    values = torch.from_numpy(in_units(numbers[:N_MEASURED], trained.units)).to(network.encoding.low.device)
    weights = block_weights(network, BACKBONE)
    assert weights is not None
    moments = column_moments(network.encoding(values[None])[0])
    sizes: FloatArray = np.nan_to_num(gate_sizes(weights, moments)[0].double().cpu().numpy())
    return sizes


def _choice(name: Any, candidates: Sequence[Encoding], gates: FloatArray, by_chance: float) -> FeatureChoice:
    """Return the candidate that is kept of a column, given its gates and the largest sum of a shuffled column's."""
    total = float(gates.sum())
    shares = gates / max(total, 1e-300)
    widths = np.array([candidate.size or 1 for candidate in candidates])
    table = {str(candidate): float(share) for candidate, share in zip(candidates, shares, strict=True)}
    if total == 0.0 or total < LEAST_RATIO * by_chance:
        chosen = str(candidates[int(np.argmin(widths))])
        ratio = total / max(by_chance, 1e-300)
        reason = f"It hardly matters: its gates are {ratio:.1f} times those of a shuffled column."
        return FeatureChoice(name, chosen, {}, reason, table)
    is_scaled = widths == 1
    eligible = is_scaled if is_scaled.all() or shares[is_scaled].sum() > 0.5 else ~is_scaled
    chosen = str(candidates[int(np.argmax(np.where(eligible, shares, -1.0)))])
    share, other = max((share, each) for each, share in table.items() if each != chosen)
    reason = f"Its gate has {100 * table[chosen]:.0f} % of the column's, that of {other} {100 * share:.0f} %."
    return FeatureChoice(name, chosen, {}, reason, table)
