"""Colours can be told from each other, and texts of figures are never formulas."""

import itertools
import warnings

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from knotwork._look import DARK, LIGHT
from knotwork.report import draw_features, draw_scatter
from knotwork.report._page import Picture, page_template, shown_picture
from knotwork.report._style import PHONE, label_points, new_figure, new_panels, svg_text

DATA = ("blue", "orange", "green", "pink", "grey", "red")


def luminance(colour):
    """Return the relative luminance of WCAG 2."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def lightness(colour):
    """Return L* of CIE 1976, from 0 to 100."""
    return 116 * np.cbrt(luminance(colour)) - 16


def contrast(first, second):
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_of_data_differ_in_lightness(theme):
    for first, second in itertools.combinations(DATA, 2):
        assert abs(lightness(getattr(theme, first)) - lightness(getattr(theme, second))) > 6, (first, second)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_texts_and_data_have_the_contrast_of_wcag(theme):
    for ground in (theme.background, theme.soft):
        for name in ("ink", "muted", "link"):
            assert contrast(getattr(theme, name), ground) >= (7 if name == "ink" else 4.5), name
    for name in DATA:
        assert contrast(getattr(theme, name), theme.background) >= 3, name


NAMES = [r"$\frac$", "$x$ and $y$", "100 $", "\u6c17\u6e29", "\U0001f321"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(name, tmp_path):
    figure = new_figure(3, 2)
    axes = figure.subplots()
    axes.bar([0, 1], [1, 2])
    axes.set_xticks([0, 1], [name, "b"])
    axes.set_xlabel(name)
    axes.set_title(name)
    axes.plot([0, 1], [0, 1], label=name)
    axes.legend()
    text = svg_text(figure)
    assert text.count(name) == 4
    if name.isascii():
        figure.savefig(tmp_path / "figure.png")  # files that a user saves are drawn in the same way


def test_the_settings_of_the_user_stay():
    before = mpl.rcParams["text.parse_math"]
    draw_scatter([0.0, 1.0], [0.0, 1.0], xlabel="$a", ylabel="b$").savefig("/dev/null", format="pdf")
    assert mpl.rcParams["text.parse_math"] == before


def test_columns_of_an_encoder_may_have_any_name(tmp_path):
    import knotwork as kw

    table = np.random.default_rng(0).normal(size=(50, 2))
    encoder = kw.make_encoder("BS-Q", size=5).fit(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_features(encoder, table, names=[r"$\frac$", "{{7*7}}"]).savefig(tmp_path / "figure.pdf")


def test_a_narrow_figure_stands_beside_a_wide_one():
    wide, narrow, small = (new_figure(width, 2) for width in (8, PHONE, PHONE))
    for figure in (wide, narrow, small):
        figure.subplots()
    shown = shown_picture(Picture("wide", wide, "Caption.", "Label.", {}, narrow), "wide")
    assert not shown["fits"]
    assert shown["narrow"].startswith("<svg")
    alone = shown_picture(Picture("small", small, "Caption.", "Label."), "small")
    assert alone["fits"]
    assert alone["narrow"] is None
    macro = page_template("parts.html.j2").module.show_picture
    assert 'tabindex="0"' in macro(shown)
    assert 'class="narrow"' in macro(shown)
    assert "tabindex" not in macro(alone)


def test_names_of_crowded_points_do_not_overlap():
    random = np.random.default_rng(0)
    names = [f"method-{i:02d}" for i in range(19)]
    points = np.column_stack([random.normal(0.5, 0.06, 19), random.normal(0.5, 0.12, 19)])
    figure, [axes] = new_panels(1, size=(6.2, 3.9))
    axes.set(xlim=(0, 1), ylim=(0, 1))
    label_points(axes, names, points=points)
    FigureCanvasAgg(figure).draw()
    boxes = np.array([Text.get_window_extent(text).extents for text in axes.texts])  # without the lines to the points
    overlaps = (boxes[:, None, :2] < boxes[None, :, 2:]) & (boxes[None, :, :2] < boxes[:, None, 2:])
    assert overlaps.all(axis=2).sum() == len(names), "each overlaps itself only"
