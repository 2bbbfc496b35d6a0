"""The encoders that every contract is checked on."""

import knotwork as kw
from knotwork.encoders import METHOD_TABLE

FIXED = [name for name in kw.METHODS if METHOD_TABLE[name].start is None]
"""Methods that are transformers: they learn nothing with a network."""

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
    "Robust": kw.ScalarEncoder("robust"),
    "Periodic": kw.PeriodicEncoder(7),
    "Cosine": kw.PeriodicEncoder(6, family="cosine"),
    "CS-Q": kw.SplineEncoder("cyclic", 7),
    "NS-Q": kw.SplineEncoder("natural", 7),
    "RBF-U": kw.SplineEncoder("radial", 7, placement="uniform"),
    "TPS-CART": kw.SplineEncoder("thin_plate", 7, placement="cart"),
    "per feature": kw.PerFeatureEncoder({}, default="IS-Q@6"),
}
"""One of every kind, unfitted; clone before use."""
