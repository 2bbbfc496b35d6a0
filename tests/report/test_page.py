"""Points that are drawn as an image have the colours of the mode: in the files, and on a page as its reader sees it."""

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from knotwork._look import DARK, LIGHT
from knotwork.report._illustrations import FitPanel, FittedCurve, draw_fits, draw_scatter
from knotwork.report._page import Picture, ReportFiles, page_template
from tests.report.chromium import CHROMIUM, Browser

GRID = np.linspace(0, 1, 300)
PANEL = FitPanel(
    "Regression", "y", GRID, GRID**2, GRID, GRID**2, [FittedCurve("PLE", GRID), FittedCurve("BS", GRID**2)]
)
FIGURES = {
    "scatter": (lambda: draw_scatter(GRID, GRID**2, xlabel="x", ylabel="y"), "blue", 1),
    "fits": (lambda: draw_fits([PANEL]), "muted", 2),
}


def images(text):
    """Return the class of each image of an SVG, and the mean colour of what can be seen of it."""
    colours = []
    for attributes in re.findall(r"<image\b([^>]*)/>", text):
        kind = re.search(r'class="([^"]*)"', attributes)
        content = re.search(r'href="data:image/png;base64,([^"]*)"', attributes)[1]
        pixels = imread(io.BytesIO(base64.b64decode(content))).reshape(-1, 4)
        seen = pixels[pixels[:, 3] > 0.2]
        assert len(seen) > 100
        colours.append((kind and kind[1], seen[:, :3].mean(axis=0)))
    return colours


def shown(folder, name):
    draw, _, _ = FIGURES[name]
    files = ReportFiles(folder)
    picture = files.picture(Picture(name, draw(), "Caption.", "Label."))
    files.write(folder / "page.html", "")
    return picture["svg"]


@pytest.mark.parametrize("name", FIGURES)
def test_images_have_the_colours_of_their_mode(tmp_path, name):
    _, colour, n_images = FIGURES[name]
    page = shown(tmp_path, name)
    ElementTree.fromstring(page)
    files = [(tmp_path / "figures" / f"{name}{ending}.svg").read_text() for ending in ("", "_dark")]
    on_page = images(page)
    assert [kind for kind, _ in on_page] == ["in-light", "in-dark"] * n_images
    for theme, file, colours in ((LIGHT, files[0], on_page[::2]), (DARK, files[1], on_page[1::2])):
        in_file = images(file)
        assert len(in_file) == n_images
        for _, mean in in_file + colours:
            np.testing.assert_allclose(mean, to_rgb(vars(theme)[colour]), atol=0.02)


SEEN = """Array.from(document.querySelectorAll("image")).filter(each => getComputedStyle(each).display != "none")
    .map(each => [each.getAttribute("class"), each.getBoundingClientRect().width > 100])"""


@pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser")
def test_a_reader_sees_the_images_of_the_mode(tmp_path):
    style = page_template("style.html.j2").render()
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html>{style}{shown(tmp_path, 'fits')}", encoding="utf-8")
    with Browser(page) as opened:
        assert opened.evaluate(SEEN) == [["in-light", True]] * 2
        opened.prefer(dark=True)
        assert opened.evaluate(SEEN) == [["in-dark", True]] * 2
        assert opened.problems == []
