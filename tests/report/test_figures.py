"""Figures show the numbers they are given, can be made dark, and are the same each time."""

from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgba_array

from knotwork.report._aggregate import RankTable
from knotwork.report._costs import _cost_picture, pareto_front, time_picture
from knotwork.report._figures import (
    RankPair,
    cd_pictures,
    draw_agreement,
    draw_heatmap,
    draw_size_curves,
    score_picture,
)
from knotwork.report._page import Picture, inline_svg
from knotwork.report._style import (
    DARK,
    LIGHT,
    PHONE,
    dark_svg,
    darken,
    method_colour,
    method_marker,
    natural_width,
    svg_text,
)
from knotwork.report._traces import draw_knot_trajectories, draw_learning_curves
from tests.report.cases import MAIN, luminance

PAIR = RankPair("size 7", ["Std", "PLE", "BS-Q"], np.array([3.0, 1.0, 2.0]), np.array([2.5, 1.5, 2.0]))


def curves():
    methods = ("PLE", "BS-U", "BS-Q", "IS-Q")
    rows = [(method, size, size / 30, size / 40, size / 20) for method in methods for size in (7.0, 15.0, 30.0)]
    level = ("Std", np.nan, 0.5, 0.4, 0.6)
    return pd.DataFrame([level, *rows], columns=["method", "size", "mean", "low", "high"])


def times():
    """Return the times of two methods on one data set: several timings of the first network, one of the others."""
    rows = [("Std", 7, 1.0), ("Std", 7, 0.5), ("Std", 7, 4.0), ("Std", 15, 2.0), ("PLE", 7, 3.0)]
    frame = pd.DataFrame(rows, columns=["method", "size", "epoch"])
    return time_picture(frame.assign(dataset="a", network="mlp", complete=True)).figure


def cost(cost, ranks):
    points = pd.DataFrame({"seconds": cost, "rank": ranks}, ["Std", "PLE", "BS-U"])
    table = RankTable("regression", 7, list(points.index), [], np.empty((0, 3)), {}, [])
    return _cost_picture(table, points, (min(cost), max(cost), min(ranks), max(ranks))).figure


def dots():
    frame = pd.DataFrame({"method": ["Std", "PLE"], "size": np.nan, "mean": [0.8, 0.9], "sd": [0.1, 0.05], "n": 5})
    return score_picture(frame.assign(task="classification", dataset="a", network="mlp")).figure


FIGURES = {
    "heatmap": lambda: draw_heatmap([[1, 2.5], [np.nan, 4]], ["a", "b"], columns=["c", "d"]),
    "curves": lambda: draw_size_curves(curves(), ylabel="y", digits=2).figure,
    "times": times,
    "cost": lambda: cost([1, 2, 3], [3, 2, 1]),
    "learning": lambda: (
        draw_learning_curves(
            {
                "PLE": pd.DataFrame({"loss": [3.0, 2.0], "score": [4.0, 3.0]}),
                "Std": pd.DataFrame({"loss": [3.0], "score": [3.5]}),
            },
            ylabel="NRMSE",
        ).figure
    ),
    "dots": dots,
    "knots": lambda: draw_knot_trajectories({"1e-4": np.array([[0.1, 0.5], [0.2, 0.4]])}, warm_up=1).figure,
    "agreement": lambda: draw_agreement([PAIR, PAIR], ours="ours", theirs="theirs"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_svg_is_well_formed_the_same_each_time_and_without_addresses(name):
    texts = [svg_text(FIGURES[name]()) for _ in range(2)]
    assert texts[0] == texts[1]
    ElementTree.fromstring(texts[0])
    page = inline_svg(texts[0], name, Picture(name, FIGURES[name](), "", 'a "label" & more'))
    ElementTree.fromstring(page)
    assert "http" not in page
    assert LIGHT.ink.lower() not in page.lower(), "colours of a page follow its mode"
    assert "var(--ink)" in page
    recoloured = dark_svg(texts[0])
    assert DARK.ink.lower() in recoloured.lower()
    assert LIGHT.ink.lower() not in recoloured.lower()


def colours_of(figure):
    """Return the colours of everything in a figure that can be seen."""
    return {
        to_hex(colour[:3])
        for artist in figure.findobj(lambda each: each.get_visible())
        for part in ("color", "facecolor", "edgecolor")
        if hasattr(artist, f"get_{part}")
        for colour in to_rgba_array(getattr(artist, f"get_{part}")())
        if colour[3] > 0
    }


@pytest.mark.parametrize("name", FIGURES)
def test_a_light_figure_can_be_made_dark(name):
    light = FIGURES[name]()
    svg_text(light)  # drawing creates the ticks
    names = [colour.lower() for colour in vars(LIGHT).values()]
    assert colours_of(light) & set(names)
    left = colours_of(darken(light)) & set(names)
    assert not left - {colour.lower() for colour in vars(DARK).values()} - {"#ffffff"}
    assert to_hex(light.get_facecolor()) == DARK.background.lower()


def test_pdf(tmp_path):
    figure = FIGURES["cost"]()
    figure.savefig(tmp_path / "cost.pdf")
    assert (tmp_path / "cost.pdf").read_bytes().startswith(b"%PDF")


def test_heatmap_shows_its_numbers_with_contrast():
    values = np.linspace(1, 14, 28).reshape(2, 14)
    figure = draw_heatmap(values, ["a", "b"], columns=MAIN, groups=["size 7", "size 15"])
    axes = figure.axes[0]
    patches = {patch.get_gid(): patch for patch in axes.patches}
    texts = {text.get_gid(): text for text in axes.texts if text.get_gid()}
    for i in range(2):
        for j in range(14):
            assert texts[f"cell-{i}-{j}-text"].get_text() == f"{values[i, j]:.1f}"
            ink, fill = texts[f"cell-{i}-{j}-text"].get_color(), patches[f"cell-{i}-{j}"].get_facecolor()[:3]
            low, high = sorted([luminance(ink), luminance(fill)])
            assert (high + 0.05) / (low + 0.05) >= 4.5
    shades = [luminance(patches[f"cell-0-{j}"].get_facecolor()[:3]) for j in range(14)]
    assert shades == sorted(shades), "better is darker"


def test_methods_look_different():
    looks = {(method_colour(method, LIGHT), method_marker(method)) for method in MAIN}
    assert len(looks) == len(MAIN)


def test_cells_have_tooltips():
    picture = Picture("x", FIGURES["heatmap"](), "", "l", {"cell-0-1": "a < b"})
    page = inline_svg(svg_text(picture.figure), "x", picture)
    assert page.count("<title>a &lt; b</title>") == 1


def test_bars_are_as_high_as_the_times():
    axes = FIGURES["times"]().axes[0]
    heights = {bar.get_gid(): bar.get_height() for container in axes.containers for bar in container}
    assert heights == {"bar-0-0-0": 1000.0, "bar-0-1-0": 3000.0, "bar-0-0-1": 2000.0}
    (line,) = [line for line in axes.lines if line.get_gid().startswith("range-")]
    assert line.get_ydata().tolist() == [500.0, 4000.0], "several timings have a range, a single one has none"


def test_knots_are_drawn_as_distances_from_their_start():
    axes = FIGURES["knots"]().axes[0]
    paths = {line.get_gid(): np.asarray(line.get_ydata()) for line in axes.lines if "knot" in (line.get_gid() or "")}
    np.testing.assert_allclose(paths["knot-0-0"], [0.0, 0.1])
    np.testing.assert_allclose(paths["knot-0-1"], [0.0, -0.1])


@pytest.mark.parametrize(
    ("seconds", "ranks"),
    [([1.19e-3, 1.2e-3, 1.61e-3], [4.2, 8.0, 12.9]), ([1e-3, 0.05, 9.0], [1.0, 2.0, 3.0]), ([2.0] * 3, [2.0] * 3)],
)
def test_ticks_of_a_cost_plot_frame_all_points(seconds, ranks):
    axes = cost(seconds, ranks).axes[0]
    for axis, values in ((axes.xaxis, seconds), (axes.yaxis, ranks)):
        ticks = axis.get_majorticklocs()
        assert min(ticks) <= min(values) <= max(values) <= max(ticks)
        assert sorted(axis.get_view_interval()) == pytest.approx([min(ticks), max(ticks)])
        assert 2 <= len(ticks) <= 14


def test_dots_are_the_scores_and_the_best_is_filled():
    axes = FIGURES["dots"]().axes[0]
    dots = [line for line in axes.lines if line.get_gid().startswith("dot-") and not line.get_gid().endswith("sd")]
    assert [line.get_xydata()[0].tolist() for line in dots] == [[0.9, 0.0], [0.8, 1.0]]
    filled = [line.get_markerfacecolor() == line.get_color() for line in dots]
    assert filled == [True, False], "high AUC is good, and on top"


def test_pareto_front():
    assert pareto_front([3, 1, 2, 1], [1, 5, 6, 4]) == [3, 0]


def test_best_epochs_are_marked():
    axes = FIGURES["learning"]().axes[1]
    dots = [tuple(map(float, line.get_xydata()[0])) for line in axes.lines if line.get_gid().startswith("best")]
    assert dots == [(2.0, 3.0), (1.0, 3.5)]


def test_points_of_agreement_are_the_ranks():
    figure = draw_agreement([PAIR], ours="ours", theirs="theirs")
    axes = figure.axes[0]
    points = {line.get_gid(): tuple(line.get_xydata()[0]) for line in axes.lines if line.get_gid()}
    assert points == {"point-0-0": (2.5, 3.0), "point-0-1": (1.5, 1.0), "point-0-2": (2.0, 2.0)}
    assert {text.get_text() for text in axes.texts} == {"Std", "PLE", "BS-Q"}
    assert (figure.get_supxlabel(), figure.get_supylabel()) == ("theirs", "ours, best on top")
    with pytest.raises(ValueError, match="pairs must hold at least one pair"):
        draw_agreement([], ours="ours", theirs="theirs")


def test_diagrams_both_ways_show_the_groups_of_their_tests():
    # On 12 data sets, c is worse than a everywhere, and b lies between them, better than either on some.
    random = np.random.default_rng(0)
    errors = np.stack([random.uniform(0.1, 0.2, 12), random.uniform(0.1, 0.3, 12), random.uniform(0.3, 0.4, 12)], 1)
    problems = [(f"data{i}", network) for i in range(12) for network in ("mlp", "ft")]
    table = RankTable("regression", 7, ["a", "b", "c"], problems, np.repeat(errors, 2, axis=0), {}, [])
    for picture, groups, ranks in zip(
        cd_pictures(table), (table.problem_groups, table.groups), (table.ranks, table.dataset_ranks), strict=True
    ):
        for figure in (picture.figure, picture.narrow):
            bars = {line.get_gid(): line for line in figure.axes[0].lines if str(line.get_gid()).startswith("group-")}
            assert len(bars) == len(groups)
            for gid, bar in bars.items():
                names = picture.titles[gid].partition(": ")[2].split(", ")
                expected = sorted(ranks[table.methods.index(name)] for name in names)
                assert [bar.get_xdata()[0], bar.get_xdata()[-1]] == [expected[0], expected[-1]]
        assert all(picture.titles[f"method-{i}"].endswith(f"{rank:.2f}") for i, rank in enumerate(ranks))
    assert "24 problems, Nemenyi" in cd_pictures(table)[0].caption
    assert "12 data sets, signed ranks" in cd_pictures(table)[1].caption


def test_a_single_data_set_has_one_diagram():
    problems = [("data", network) for network in ("mlp", "resnet", "ft")]
    table = RankTable("regression", 7, ["a", "b"], problems, np.array([[0.1, 0.2]] * 3), {}, [])
    assert [picture.name for picture in cd_pictures(table)] == ["cd_regression_size7"]


def test_size_curves_have_a_figure_for_phones_with_the_best_on_top():
    wide, narrow = (draw_size_curves(curves(), ylabel="y", digits=2, narrow=each).figure for each in (False, True))
    assert natural_width(svg_text(narrow)) <= 72 * PHONE < natural_width(svg_text(wide))
    for axes in (*wide.axes, *narrow.axes):
        bottom, top = axes.get_ylim()
        assert bottom > top, "low numbers are good"
