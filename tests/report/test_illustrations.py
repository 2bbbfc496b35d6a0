"""Illustrations show the values of the functions."""

import numpy as np
import pytest

import knotwork as kw
from knotwork._look import DARK, LIGHT
from knotwork.datasets._synthetic import encoding_illustration
from knotwork.report import (
    FitPanel,
    FittedCurve,
    draw_bases,
    draw_encoded_value,
    draw_features,
    draw_fits,
    draw_scatter,
)
from knotwork.report._style import svg_text

GRID = np.linspace(0, 1, 50)
PANEL = FitPanel(
    "Regression", "y", GRID, GRID**2, GRID, GRID**2, [FittedCurve("PLE", GRID, "NRMSE 0.1"), FittedCurve("BS", GRID**2)]
)
COLUMN = np.random.default_rng(0).gamma(2.0, size=200)

FIGURES = {
    "value": lambda dark: draw_encoded_value(encoding_illustration(seed=42), dark=dark),
    "fits": lambda dark: draw_fits([PANEL], edges=[0.5], dark=dark),
    "scatter": lambda dark: draw_scatter(GRID, GRID**2, xlabel="x", ylabel="y", dark=dark),
    "bases": lambda dark: draw_bases(COLUMN, COLUMN**2, name="x", dark=dark),
}


@pytest.mark.parametrize("name", FIGURES)
def test_light_and_dark(name):
    for dark, theme in ((False, LIGHT), (True, DARK)):
        text = svg_text(FIGURES[name](dark)).lower()
        assert theme.background.lower() in text
        assert theme.ink.lower() in text


def test_bars_are_the_encoded_value():
    figure = draw_encoded_value(encoding_illustration(seed=42), x=0.58, size=6)
    bars = figure.axes[3]  # of B-splines
    heights = [bar.get_height() for container in bars.containers for bar in container]
    expected = kw.basis.evaluate("bspline", [0.58], [1 / 3, 2 / 3], degree=3)[0]
    np.testing.assert_allclose(heights, expected)
    assert sum(heights) == pytest.approx(1)
    # Six bins of PLE: 0.58 lies in the fourth, 0.48 of its width from its left end.
    ramps = [bar.get_height() for container in figure.axes[9].containers for bar in container]
    np.testing.assert_allclose(ramps, [1, 1, 1, (0.58 - 0.5) * 6, 0, 0], atol=1e-12)


def test_fits_are_drawn_as_given():
    figure = draw_fits([PANEL, PANEL])
    lines = [line for axes in figure.axes for line in axes.lines if line.get_gid() == "fit"]
    np.testing.assert_array_equal(lines[0].get_ydata(), GRID)
    np.testing.assert_array_equal(lines[3].get_ydata(), GRID**2)


def test_features_have_their_knots_and_functions():
    table = np.stack([COLUMN, np.sqrt(COLUMN)], axis=1)
    encoder = kw.make_encoder("BS-Q", size=7).fit(table)
    figure = draw_features(encoder, table, names=["a", "b"])
    for feature, axes in enumerate(figure.axes[:2]):
        knots = [line.get_xdata()[0] for line in axes.lines if line.get_gid() == "knot"]
        np.testing.assert_allclose(knots, encoder.knots_[feature])
        curves = [line for line in axes.lines if line.get_gid() == "function"]
        assert len(curves) == 7
        total = np.sum([curve.get_ydata() for curve in curves], axis=0)
        np.testing.assert_allclose(total, 1, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: draw_encoded_value([0.5, 2.0]), "values must be numbers between 0 and 1"),
        (lambda: draw_fits([]), "panels must hold problems"),
        (lambda: draw_scatter([1.0], [1.0, 2.0], xlabel="x", ylabel="y"), "y must have the shape of x"),
        (lambda: draw_features(None, [[1.0]], names=["a", "b"]), "values must have the shape"),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()
