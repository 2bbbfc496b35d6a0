"""Errors of layers with knots: what is wrong, and the next step."""

import numpy as np
import pytest
import torch
from torch import nn

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


def test_a_state_of_another_family_is_refused(tmp_path):
    """Its tensors have the same shapes."""
    saved = kw.nn.SplineEncoding(2, 7, family="bspline")
    torch.save(saved.state_dict(), tmp_path / "state")
    state = torch.load(tmp_path / "state")
    for other in (kw.nn.SplineEncoding(2, 7, family="ispline"), kw.nn.SplineEncoding(2, 6, degree=2)):
        with pytest.raises(ValueError, match="state_dict must be that of a .* layer of this degree"):
            nn.Sequential(other).load_state_dict(nn.Sequential(saved).state_dict())
    again = kw.nn.SplineEncoding(2, 7)
    again.load_state_dict(state)
    again.load_state_dict(dict(state))
