"""The encoders that every contract is checked on."""

import knotwork as kw

ENCODERS = {
    "BS-Q": kw.SplineEncoder("bspline", 7),
    "MS-U": kw.SplineEncoder("mspline", 7, placement="uniform"),
    "IS-CART": kw.SplineEncoder("ispline", 7, placement="cart"),
    "BS-LGBM": kw.SplineEncoder("bspline", 7, placement="lgbm"),
    "BS degree 1": kw.SplineEncoder("bspline", 7, degree=1),
    "PLE": kw.PiecewiseLinearEncoder(7),
    "PLE quantile": kw.PiecewiseLinearEncoder(7, placement="quantile"),
    "PLE lgbm": kw.PiecewiseLinearEncoder(7, placement="lgbm"),
    "PLE-Adaptive": kw.PiecewiseLinearEncoder(adaptive=True),
    "Std": kw.ScalarEncoder("standard"),
    "MinMax": kw.ScalarEncoder("minmax"),
    "per feature": kw.PerFeatureEncoder({}, default="IS-Q@6"),
}
"""One of every kind, unfitted; clone before use."""
