"""What a user can choose of a comparison."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

from knotwork._checks import argument_error, check_choice, check_int, type_error
from knotwork.knots._columns import TASKS
from knotwork.nn._backbones import BACKBONES, Backbone, make_backbone

__all__ = ["CompareOptions", "read_sizes"]


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is compared, and within which time.

    Parameters
    ----------
    task : {"regression", "classification"}, optional
        What is predicted; otherwise inferred from the target, and said.
    methods : tuple of str, optional
        Methods to compare, with or without a size, as in ``"PLE@30"``; by default a choice of the paper's best.
    sizes : tuple of int, optional
        Columns per feature, for methods that name none; by default 15, and 7 where the time allows.
    backbone : {"mlp", "resnet", "ft"}, default="mlp"
        The network behind the encodings.
    folds : int, optional
        Folds of the cross-validation; by default 5, or 3 where the time is short.
    time_budget : float or None, default=300.0
        Seconds for all of it; None leaves the time open.
    seed : int, default=0
        Seeds all that is random.
    drop : tuple of str, default=()
        Columns to leave out.

    Examples
    --------
    >>> CompareOptions(methods=("Std", "BS-Q"), sizes=(7, 30)).time_budget
    300.0
    """

    task: str | None = None
    methods: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    backbone: str = "mlp"
    folds: int | None = None
    time_budget: float | None = 300.0
    seed: int = 0
    drop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.task is not None:
            check_choice(self.task, "task", TASKS)
        check_choice(self.backbone, "backbone", BACKBONES)
        check_int(self.seed, "seed", minimum=0)
        if self.folds is not None and check_int(self.folds, "folds", minimum=2) > 20:
            raise argument_error("folds", "be at most 20", self.folds)
        for name in ("methods", "sizes", "drop"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise type_error(name, "be a list", value, f"Pass [{value!r}].")
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        _check_budget(self.time_budget)

    @property
    def network(self) -> Backbone:
        """The configuration of the backbone, as the estimators have it."""
        return make_backbone(self.backbone)


def _check_budget(value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Real):
        raise type_error("time_budget", "be a number of seconds", value)
    if not 0 < float(value) < float("inf"):
        raise argument_error("time_budget", "be larger than 0 seconds", value, "Leave the time open with None.")


def read_sizes(text: str | None) -> tuple[int, ...] | None:
    """Read whole numbers with commas or blanks between them, as a command line has them; None stays None.

    Examples
    --------
    >>> read_sizes("7, 15")
    (7, 15)
    """
    if text is None:
        return None
    words = text.replace(",", " ").split()
    if not words or not all(word.isdecimal() for word in words):
        raise argument_error("sizes", "be whole numbers as in 7,15,30", text)
    return tuple(int(word) for word in words)
