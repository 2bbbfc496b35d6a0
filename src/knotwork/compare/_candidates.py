"""The encodings that are compared."""

from collections.abc import Sequence

from knotwork._checks import argument_error, check_int
from knotwork._recommend import recommend
from knotwork.encoders._methods import Encoding

__all__ = ["make_candidates"]

DEFAULT_METHODS = ("Std", "PLE", "BS-Q", "IS-Q", "IS-LGBM", "BS-Grad-U", "IS-CART", "BS-CART")
"""Every family that does well in the paper, with knots of every kind, and plain scaling to measure them by."""

N_FIRST = 6
"""Of these, those that are compared in any case; the others where the time allows."""

DEFAULT_SIZES = (15, 7)
"""The second is compared where the time allows."""


def make_candidates(
    methods: Sequence[str] | None, sizes: Sequence[int] | None, *, task: str, backbone: str
) -> tuple[list[Encoding], tuple[int, ...]]:
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
    >>> [str(each) for each in found], counts
    (['Std', 'BS-Q@7', 'PLE@30'], (3,))
    """
    if methods is not None and not methods:
        raise argument_error("methods", "name at least one method", methods, "Leave it out for the usual ones.")
    if sizes is not None and not sizes:
        raise argument_error("sizes", "name at least one size", sizes, "Leave it out for the usual ones.")
    chosen = [check_int(size, "sizes", minimum=2) for size in sizes or DEFAULT_SIZES]
    if methods is None:
        usual = recommend(task, backbone, budget="medium")
        own = Encoding(usual.method, usual.size if sizes is None or usual.size is None else chosen[0])
        default = [Encoding.parse(name, size) for size in chosen for name in DEFAULT_METHODS]
        found = [default[0], own, *default[1:]]
    else:
        found = [Encoding.parse(name, size) for size in chosen for name in methods]
    found = list(dict.fromkeys(found))
    for each in found:
        each.start.encoder().check_settings()
    if methods is not None or sizes is not None:
        return found, (len(found),)
    return found, (len(found), len(DEFAULT_METHODS), N_FIRST)
