"""What a fit trains: kinds of networks, folds and random seeds, as the parameters of an estimator say."""

from collections.abc import Sequence
from dataclasses import dataclass

from knotwork.encoders._methods import Encoding
from knotwork.nn._backbones import Backbone, MLPConfig
from knotwork.training._config import TrainingConfig
from knotwork.training._members import TrainingTable

__all__ = ["EFFORTS", "Plan", "Recipe", "plan_effort"]

EFFORTS = ("fast", "balanced", "best")
"""Words for how much is trained."""


@dataclass(frozen=True)
class Recipe:
    """A kind of network.

    Parameters
    ----------
    encodings : tuple of Encoding
        The encoding of every numerical column.
    backbone : Backbone
        The network behind it.
    config : TrainingConfig
        How it is trained.
    """

    encodings: tuple[Encoding, ...]
    backbone: Backbone
    config: TrainingConfig


@dataclass(frozen=True)
class Plan:
    """What a fit trains: every recipe with every random seed on every fold.

    Parameters
    ----------
    recipes : sequence of Recipe
        The kinds of networks.
    search : {"all", "validated", "ensemble"}
        Which of them predict: all with equal weights, those of the recipe that is best on the validation rows, or those
        that are best together.
    n_folds : int, default=1
        Number of parts into which the rows are divided; each network is trained without one of them, by which it stops.
        One: a single part is held out, of `validation_share` of the rows.
    n_seeds : int, default=1
        Networks of each recipe and fold.
    """

    recipes: Sequence[Recipe]
    search: str
    n_folds: int = 1
    n_seeds: int = 1


def plan_effort(effort: str, table: TrainingTable, *, device: str, time_limit: float | None) -> Plan:
    """Return what an effort trains on a table."""
    n = table.numbers.shape[1]
    config = TrainingConfig(max_epochs=20, schedule="cosine", patience=20, learning_rate=2e-3, weight_decay=0.02, batch_size=256)
    recipes = [
        Recipe((Encoding.parse(spec),) * n, MLPConfig(widths=(256, 256)), config)
        for spec in ("PLE@15", "BS-Q@15")
    ]
    return Plan(recipes, "ensemble", n_folds=3)
