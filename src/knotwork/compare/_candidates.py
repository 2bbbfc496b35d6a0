"""The encodings that are compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from knotwork._checks import argument_error, check_int
from knotwork._recommend import recommend
from knotwork.encoders._methods import METHOD_TABLE, encoder_from_spec, parse_spec
from knotwork.estimators._preparation import Choice

__all__ = ["Candidate", "make_candidates"]

DEFAULT_METHODS = ("Std", "PLE", "BS-Q", "IS-Q", "IS-LGBM", "BS-Grad-U", "IS-CART", "BS-CART")
"""Every family that does well in the paper, with knots of every kind, and plain scaling to measure them by."""

N_FIRST = 6
"""Of these, those that are compared in any case; the others where the time allows."""

DEFAULT_SIZES = (15, 7)
"""The second is compared where the time allows."""


@dataclass(frozen=True, order=True)
class Candidate:
    """An encoding for all numerical columns.

    Parameters
    ----------
    method : str
        A name of `knotwork.METHODS`.
    size : int or None
        Columns per feature; None for methods without a size.
    """

    method: str
    size: int | None

    @property
    def spec(self) -> str:
        """What an estimator takes as its encoding."""
        return self.method if self.size is None else f"{self.method}@{self.size}"

    @property
    def choice(self) -> Choice:
        """The same as the estimators' preparation has it."""
        return Choice(self.method, self.size)


def make_candidates(
    methods: Sequence[str] | None, sizes: Sequence[int] | None, *, task: str, backbone: str
) -> tuple[list[Candidate], tuple[int, ...]]:
    """Return the candidates, the most promising first, and how many are compared as time allows: all, or fewer.

    Parameters
    ----------
    methods : sequence of str or None
        Methods, with or without a size, as in ``"BS-Q@30"``; all of them are compared.
    sizes : sequence of int or None
        Sizes of the methods that name none.
    task, backbone : str
        For what is recommended, which is always among the defaults.

    Examples
    --------
    >>> found, counts = make_candidates(["Std", "BS-Q", "PLE@30"], [7], task="regression", backbone="mlp")
    >>> [each.spec for each in found], counts
    (['Std', 'BS-Q@7', 'PLE@30'], (3,))
    """
    if methods is not None and not methods:
        raise argument_error("methods", "name at least one method", methods, "Leave it out for the usual ones.")
    if sizes is not None and not sizes:
        raise argument_error("sizes", "name at least one size", sizes, "Leave it out for the usual ones.")
    chosen = [check_int(size, "sizes", minimum=2) for size in sizes or DEFAULT_SIZES]
    if methods is None:
        usual = recommend(task, backbone, budget="medium")
        own = Candidate(usual.method, usual.size if sizes is None or usual.size is None else chosen[0])
        first = [_candidate(name, chosen[0]) for name in DEFAULT_METHODS]
        found = [first[0], own, *first[1:], *(_candidate(name, size) for size in chosen for name in DEFAULT_METHODS)]
    else:
        found = [_candidate(name, size) for size in chosen for name in methods]
    found = list(dict.fromkeys(found))
    for each in found:
        encoder_from_spec(each.method.replace("Grad-", ""), each.size, {})._check_settings()
    if methods is not None or sizes is not None:
        return found, (len(found),)
    return found, (len(found), len(DEFAULT_METHODS), N_FIRST)


def _candidate(spec: str, size: int) -> Candidate:
    name, own = parse_spec(spec)
    return Candidate(name, (own or size) if METHOD_TABLE[name].has_size else None)
