"""The explorer: pages on which knots are moved, or curves of a model edited, and the fit changes with them."""

from knotwork._explore._curves import explore_model
from knotwork._explore._page import Explorer, explore, explore_table

__all__ = ["Explorer", "explore", "explore_model", "explore_table"]
