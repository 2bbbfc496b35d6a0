"""Errors of layers with knots: what is wrong, and the next step."""

import numpy as np
import pytest

import knotwork as kw
from knotwork.nn import PiecewiseLinearEncoding, SplineEncoding


def test_encoders_that_a_layer_cannot_be():
    x = np.random.default_rng(0).normal(size=(50, 2))
    for method in ("PLE", "Std", "Periodic"):
        with pytest.raises(TypeError, match="encoder must be a fitted SplineEncoder.* PiecewiseLinearEncoding"):
            SplineEncoding.from_encoder(kw.make_encoder(method, size=7).fit(x, x[:, 0]))
    with pytest.raises(TypeError, match="encoder must be a fitted PiecewiseLinearEncoder.* SplineEncoding"):
        PiecewiseLinearEncoding.from_encoder(kw.make_encoder("BS-Q", size=7).fit(x))
    with pytest.raises(ValueError, match="extrapolation must be 'clip' in a layer, got extrapolation='linear'"):
        SplineEncoding.from_encoder(kw.SplineEncoder(size=7, extrapolation="linear").fit(x))


@pytest.mark.parametrize("end", [1.0, np.nan])
def test_a_range_names_the_features_that_have_none(end):
    with pytest.raises(ValueError, match="larger than low for every feature.*Drop features 1, which are constant"):
        SplineEncoding(3, 7).set_range([0.0, 1.0, 0.0], [1.0, end, 1.0])
