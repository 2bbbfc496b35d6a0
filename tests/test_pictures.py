"""Pictures of fitted columns: what is drawn agrees with the encoder, and names are text."""

import warnings
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import knotwork as kw
from knotwork._pictures import STYLE, count_values, name_values, panels, picture_fitted

RANDOM = np.random.default_rng(0)
HOSTILE = "<script>alert(1)</script>\"'&$\\frac$"
X = pd.DataFrame(
    {
        "age": RANDOM.gamma(5.0, 8.0, 200),
        HOSTILE: RANDOM.normal(size=200),
        "constant": 1.0,
        "huge": [1e300, -1e300] * 100,
    }
)
METHODS = ["BS-Q", "IS-CART", "MS-U", "PLE", "Std", "MinMax", "Robust", "Periodic"]


def html_of(encoder):
    return encoder._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("method", METHODS)
def test_a_fitted_encoder_shows_each_column(method):
    encoder = kw.make_encoder(method).fit(X, X["age"])
    html = html_of(encoder)
    pictures = html[html.rindex("<div style=") :]
    assert encoder._repr_html_().endswith(pictures)
    drawn = ElementTree.fromstring(pictures)
    labels = [picture.attrib["aria-label"].split(": ")[0] for picture in drawn.iter("svg")]
    assert labels == list(X.columns)
    assert "nan" not in pictures
    assert "inf" not in pictures
    assert "<script>" not in pictures


def test_an_encoder_that_is_not_fitted_shows_no_picture():
    assert "<svg role" not in html_of(kw.SplineEncoder())


def test_many_columns_are_counted():
    html = html_of(kw.SplineEncoder(size=5).fit(RANDOM.normal(size=(30, STYLE.most_columns + 3))))
    assert html.count("<svg role") == STYLE.most_columns
    assert "and 3 more columns" in html


def test_functions_and_knots_are_those_of_the_encoder():
    encoder = kw.SplineEncoder(size=8, dtype=np.float64).fit(X[["age"]])
    picture = picture_fitted("age", encoder.fitted_[0])
    np.testing.assert_allclose(picture.functions, encoder.transform(pd.DataFrame({"age": picture.x})), atol=1e-12)
    np.testing.assert_array_equal(picture.knots, encoder.knots_[0])


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0, 1.0], [1e300, -1e300, 0.0], [], [5e-324, 0.0]])
def test_histograms_count_every_row(values):
    distinct, counts = np.unique(np.array(values), return_counts=True)
    assert count_values(distinct, counts.astype(float)).counts.sum() == len(values)


def test_histograms_of_batches_agree_with_those_of_the_table():
    table = kw.SplineEncoder(size=6).fit(X[["age"]].to_numpy())
    batches = kw.SplineEncoder(size=6).fit(iter([X[["age"]].to_numpy()[:120], X[["age"]].to_numpy()[120:]]))
    np.testing.assert_array_equal(table._histograms[0].counts, batches._histograms[0].counts)


# Pictures of the others are made above, of which this is the drawing; bins, scalings and waves differ from splines.
@pytest.mark.parametrize(
    "method",
    ["BS-Q", "PLE", "Std", "Periodic",
     *(pytest.param(method, marks=pytest.mark.slow) for method in ("IS-CART", "MS-U", "MinMax", "Robust"))],
)  # fmt: skip
def test_plot_returns_a_figure(method, tmp_path):
    encoder = kw.make_encoder(method).fit(X, X["age"])
    figure = encoder.plot()
    assert isinstance(figure, Figure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an axis from -1e300 to 1e300 overflows in matplotlib
        figure.savefig(tmp_path / "figure.png", dpi=30)
    assert [axis.get_title() for axis in encoder.plot([HOSTILE]).axes if axis.get_title()] == [HOSTILE]


def test_ticks_of_large_numbers_do_not_touch():
    rows = np.random.default_rng(0).lognormal(11, 0.6, size=(300, 1))
    figure = kw.SplineEncoder(size=5).fit(rows).plot()
    FigureCanvasAgg(figure).draw()
    axis = next(each for each in figure.axes if each.get_xlabel())
    labels = [label.get_window_extent() for label in axis.get_xticklabels() if label.get_text()]
    assert len(labels) >= 3
    assert all(left.x1 + 4 < right.x0 for left, right in pairwise(labels))


@pytest.mark.parametrize("n", [1, 3, 6, 20])
def test_categories_below_a_panel_are_not_cut(n):
    figure, [axis] = panels(1, "plot")
    words = [f"Offline tour operator {i}" for i in range(n)]
    name_values(axis, np.arange(n), words)
    shown = [label.get_text().replace("\n", " ") for label in axis.get_xticklabels()]
    assert shown == words
    axis.set_xlim(-0.5, n - 0.5)
    FigureCanvasAgg(figure).draw()
    boxes = [label.get_window_extent() for label in axis.get_xticklabels()]
    assert min(box.y0 for box in boxes) >= 0, "inside of the figure"
    if axis.get_xticklabels()[0].get_rotation() == 0:
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_plot_of_an_unknown_column():
    encoder = kw.SplineEncoder(size=5).fit(X)
    with pytest.raises(ValueError, match=r"columns must name columns.*got columns=\['agee'\]\. Did you mean 'age'"):
        encoder.plot(["agee"])
