"""From what a user writes for `placement` to a placement."""

from knotwork._checks import argument_error, listed
from knotwork.knots import PLACEMENTS, Placement

__all__ = ["resolve_placement"]


def resolve_placement(placement: str | Placement) -> Placement:
    """Return the placement of a name, or the object itself if it is one.

    Examples
    --------
    >>> resolve_placement("cart").supervised
    True
    """
    if isinstance(placement, str) and placement in PLACEMENTS:
        return PLACEMENTS[placement]
    if callable(placement) and isinstance(getattr(placement, "supervised", None), bool):
        return placement
    raise argument_error(
        "placement", f"be one of {listed(PLACEMENTS)}, or an object like knotwork.knots.CartPlacement()", placement
    )
