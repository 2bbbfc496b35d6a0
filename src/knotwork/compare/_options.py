"""The options of a comparison, and the encodings that it compares."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from knotwork._checks import argument_error, check_choice, check_int, type_error
from knotwork._recommend import recommend
from knotwork.datasets import TextFormat
from knotwork.encoders import Encoding
from knotwork.estimators import EFFORTS
from knotwork.knots import TASKS
from knotwork.nn import BACKBONES, Backbone, make_backbone

__all__ = ["SINGLE", "CompareOptions", "make_candidates", "read_sizes"]

DEFAULT_METHODS = ("Std", "PLE", "BS-Q", "IS-Q", "IS-LGBM", "BS-Grad-U", "IS-CART", "BS-CART")
"""The families that do well in the paper, with knots of every kind, and plain scaling as a baseline."""

N_FIRST = 6
"""The first methods of `DEFAULT_METHODS` are always compared; the others if time allows."""

DEFAULT_SIZES = (15, 7)
"""The second size is compared if time allows."""

SINGLE = "single"
"""The effort that saves one network with the recommended encoding."""


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Options of a comparison: encodings, network, folds, time, and the model that is saved.

    Parameters
    ----------
    task : {"regression", "classification"}, optional
        The task; by default inferred from the target and reported.
    methods : tuple of str, optional
        Methods to compare, with or without a size, as in ``"PLE@30"``; by default a selection of the paper's best.
    sizes : tuple of int, optional
        Columns per feature of the methods without a size; by default 15, and 7 if time allows.
    backbone : {"auto", "mlp", "resnet", "tabm", "realmlp", "ft"}, default="auto"
        The network behind the encodings that are compared; ``"auto"`` is ``"mlp"``.
    effort : {"auto", "fast", "balanced", "best", "single"}, default="auto"
        The saved model: an ensemble that chooses its own encodings and networks, as an estimator of this `effort`; or
        ``"single"``, one network with the recommended encoding and this `backbone`. ``"auto"`` is ``"balanced"``,
        or ``"single"`` if a `backbone` is given, which an ensemble would not use.
    folds : int, optional
        Folds of the cross-validation; by default 5, or 3 if time is short.
    time_budget : float or None, default=300.0
        Seconds for the whole comparison; None means no limit.
    seed : int, default=0
        Random seed.
    drop : tuple of str, default=()
        Columns to ignore.
    text : TextFormat, optional
        Separator, encoding and decimal sign of a text file; by default detected and reported.

    Examples
    --------
    >>> CompareOptions(methods=("Std", "BS-Q"), sizes=(7, 30)).time_budget
    300.0
    """

    task: str | None = None
    methods: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    backbone: str = "auto"
    effort: str = "auto"
    folds: int | None = None
    time_budget: float | None = 300.0
    seed: int = 0
    drop: tuple[str, ...] = ()
    text: TextFormat | None = None

    def __post_init__(self) -> None:
        if self.task is not None:
            check_choice(self.task, "task", TASKS)
        if self.effort == "auto":
            object.__setattr__(self, "effort", "balanced" if self.backbone == "auto" else SINGLE)
        if self.backbone == "auto":
            object.__setattr__(self, "backbone", "mlp")
        check_choice(self.backbone, "backbone", BACKBONES)
        check_choice(self.effort, "effort", (*EFFORTS, SINGLE))
        check_int(self.seed, "seed", minimum=0)
        if self.folds is not None and check_int(self.folds, "folds", minimum=2) > 20:
            raise argument_error("folds", "be at most 20", self.folds)
        for name in ("methods", "sizes", "drop"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise type_error(name, "be a list", value, f"Pass [{value!r}].")
            if value is not None:
                object.__setattr__(self, name, tuple(value))
        if self.time_budget is not None:
            if isinstance(self.time_budget, bool) or not isinstance(self.time_budget, Real):
                raise type_error("time_budget", "be a number of seconds", self.time_budget)
            if not 0 < float(self.time_budget) < math.inf:
                raise argument_error(
                    "time_budget", "be larger than 0 seconds", self.time_budget, "None means no limit."
                )

    @property
    def network(self) -> Backbone:
        """The configuration of the backbone, with the defaults of the estimators."""
        return make_backbone(self.backbone)


def read_sizes(text: str | None) -> tuple[int, ...] | None:
    """Parse integers separated by commas or spaces, as given on the command line; None stays None.

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


def make_candidates(
    methods: Sequence[str] | None, sizes: Sequence[int] | None, *, task: str, backbone: str
) -> tuple[list[Encoding], tuple[int, ...]]:
    """Return the candidates, the most promising first, and how many to compare: all, or fewer if time is short.

    Candidates that the user asks for are never dropped. The defaults include the encoding that is recommended for the
    task and backbone.

    Examples
    --------
    >>> candidates, counts = make_candidates(["Std", "BS-Q", "PLE@30"], [7], task="regression", backbone="mlp")
    >>> [str(candidate) for candidate in candidates], counts
    (['Std', 'BS-Q@7', 'PLE@30'], (3,))
    """
    for name, values in (("methods", methods), ("sizes", sizes)):
        if values is not None and not values:
            raise argument_error(name, f"name at least one {name[:-1]}", values, "Omit it to use the defaults.")
    valid_sizes = [check_int(size, "sizes", minimum=2) for size in sizes or DEFAULT_SIZES]
    candidates = [Encoding.parse(name, size) for size in valid_sizes for name in methods or DEFAULT_METHODS]
    if methods is None:
        usual = recommend(task, backbone, budget="medium")
        size = usual.size if sizes is None or usual.size is None else valid_sizes[0]
        candidates.insert(1, Encoding(usual.method, size))
    candidates = list(dict.fromkeys(candidates))
    for candidate in candidates:
        candidate.start.encoder().check_settings()
    if methods is not None or sizes is not None:
        return candidates, (len(candidates),)
    return candidates, (len(candidates), len(DEFAULT_METHODS), N_FIRST)
