"""What the encoding operation is told of a family: the kind of its rows, and the degree of the triangular scheme."""

from dataclasses import dataclass

from knotwork._checks import argument_error, check_choice, check_int
from knotwork.basis._families import FAMILIES, LOCAL, NORMALISED, TAILS, UNIT_AREA

__all__ = ["LOCAL", "NORMALISED", "NORM_EPSILON", "TAILS", "UNIT_AREA", "Layout"]

NORM_EPSILON = 1e-5
"""What LayerNorm adds to the variance."""


@dataclass(frozen=True)
class Layout:
    """How a family is computed.

    Parameters
    ----------
    family : {"bspline", "mspline", "ispline", "ple"}
        The functions.
    degree : int
        Degree of the pieces; 0 for ``"ple"``.
    normalised : bool
        Whether rows are brought to mean 0 and variance 1; for M-splines only.
    """

    family: str
    degree: int
    normalised: bool = False

    def __post_init__(self) -> None:
        check_choice(self.family, "family", FAMILIES)
        check_int(self.degree, "degree", minimum=0)
        if FAMILIES[self.family].kind is None:
            raise argument_error("family", "have compiled code", self.family)
        if self.normalised and not FAMILIES[self.family].normalised:
            raise argument_error("family", "be 'mspline' where rows are normalised", self.family)

    @property
    def kind(self) -> int:
        """Kind of the rows."""
        kind = NORMALISED if self.normalised else FAMILIES[self.family].kind
        assert kind is not None
        return kind

    @property
    def scheme(self) -> int:
        """Degree of the B-splines that are computed."""
        return self.degree + 1 if self.kind == TAILS else self.degree

    def size(self, n_knots: int) -> int:
        """Return the number of functions on `n_knots` interior knots."""
        return n_knots + self.degree + 1
