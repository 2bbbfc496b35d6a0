"""The explorer: one page on which knots are moved, and the encoding and the fit of a column change with them."""

from knotwork._explore._page import Explorer, explore, explore_table

__all__ = ["Explorer", "explore", "explore_table"]
