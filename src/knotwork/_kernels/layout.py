"""What the encoding operation is told of a family: the kind of its rows, and the degree of the triangular scheme."""

from dataclasses import dataclass

from knotwork._checks import argument_error, check_choice, check_int

__all__ = ["FAMILIES", "LOCAL", "NORMALISED", "NORM_EPSILON", "TAILS", "UNIT_AREA", "Layout"]

LOCAL, UNIT_AREA, TAILS, NORMALISED = 0, 1, 2, 3
"""Kinds of rows: B-splines; B-splines times their height; ones, and sums of B-splines beyond each; and the second kind
with each feature's own columns brought to mean 0 and variance 1 (LayerNorm without parameters)."""

NORM_EPSILON = 1e-5
"""What LayerNorm adds to the variance."""

FAMILIES = {"bspline": LOCAL, "mspline": UNIT_AREA, "ispline": TAILS, "ple": TAILS}


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
        if self.normalised and self.family != "mspline":
            raise argument_error("family", "be 'mspline' where rows are normalised", self.family)

    @property
    def kind(self) -> int:
        """Kind of the rows."""
        return NORMALISED if self.normalised else FAMILIES[self.family]

    @property
    def scheme(self) -> int:
        """Degree of the B-splines that are computed."""
        return self.degree + 1 if self.kind == TAILS else self.degree

    def size(self, n_knots: int) -> int:
        """Return the number of functions on `n_knots` interior knots."""
        return n_knots + self.degree + 1
