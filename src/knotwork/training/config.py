"""How networks are trained: every constant, in one frozen value."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

from knotwork.checks import argument_error, check_choice, check_int, type_error
from knotwork.training.metrics import METRICS

__all__ = ["PRECISIONS", "SCHEDULES", "TrainingConfig"]

SCHEDULES = ("plateau", "cosine", "constant")
PRECISIONS = ("auto", "float32", "tf32", "bf16")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How networks are trained.

    Parameters
    ----------
    max_epochs : int, default=200
        Most passes over the training rows.
    batch_size : int, default=512
        Rows of a step.
    learning_rate : float, default=1e-4
        Of AdamW.
    weight_decay : float, default=1e-5
        Of AdamW; knots have none.
    patience : int, default=15
        Training stops after this many epochs without a better validation score.
    schedule : {"plateau", "cosine", "constant"}, default="plateau"
        What becomes of the learning rate: divided when the score no longer improves; a linear rise over the first
        twentieth of `max_epochs` and then half a cosine down to nothing; or neither.
    plateau_patience : int, default=10
        Epochs without a better score before the rate is reduced.
    plateau_factor : float, default=0.1
        By what it is then multiplied.
    knot_rate : float, default=2.0
        Learning rate of the knots over that of the network.
    knot_warmup : int, default=50
        Epochs before knots move.
    spacing_weight : float, default=1e-4
        Weight of the spacing penalty in the loss.
    metric : str, default="auto"
        Validation score: a name of `knotwork.training.METRICS`; by default ``"rmse"``, for classes ``"auc"``.
    precision : {"auto", "float32", "tf32", "bf16"}, default="auto"
        Of matrix products on a GPU. By default tf32 for an MLP and bf16 with float32 copies of the weights for the
        others; on a CPU always float32.
    time_limit : float, optional
        Seconds after which training stops, at the end of an epoch.

    Examples
    --------
    >>> TrainingConfig.paper().learning_rate
    0.0001
    """

    max_epochs: int = 200
    batch_size: int = 512
    learning_rate: float = 1e-4
    weight_decay: float = 1e-5
    patience: int = 15
    schedule: str = "plateau"
    plateau_patience: int = 10
    plateau_factor: float = 0.1
    knot_rate: float = 2.0
    knot_warmup: int = 50
    spacing_weight: float = 1e-4
    metric: str = "auto"
    precision: str = "auto"
    time_limit: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_epochs", 1), ("batch_size", 1), ("patience", 1), ("plateau_patience", 0)):
            check_int(getattr(self, name), name, minimum=least)
        check_int(self.knot_warmup, "knot_warmup", minimum=0)
        check_choice(self.schedule, "schedule", SCHEDULES)
        check_choice(self.precision, "precision", PRECISIONS)
        check_choice(self.metric, "metric", ("auto", *METRICS))
        _check_number(self.learning_rate, "learning_rate", above=True)
        for name in ("weight_decay", "knot_rate", "spacing_weight"):
            _check_number(getattr(self, name), name)
        _check_number(self.plateau_factor, "plateau_factor", above=True)
        if self.plateau_factor >= 1:
            raise argument_error("plateau_factor", "be smaller than 1", self.plateau_factor)
        if self.time_limit is not None:
            _check_number(self.time_limit, "time_limit", above=True)

    @classmethod
    def paper(cls) -> Self:
        """Return the protocol of the paper."""
        return cls()


def _check_number(value: Any, name: str, *, above: bool = False) -> None:
    wanted = "be a number larger than 0" if above else "be a number of at least 0"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise type_error(name, wanted, value)
    if not (0 < value < float("inf") if above else 0 <= value < float("inf")):
        raise argument_error(name, wanted, value)
