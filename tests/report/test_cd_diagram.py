"""The critical difference diagram agrees with the numbers, and is readable."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import knotwork as kw
from knotwork._writing import fixed
from knotwork.report._cd_diagram import draw_cd_diagram
from tests.report.cases import luminance


def artists(axes, gid):
    return [artist for artist in (*axes.lines, *axes.texts) if artist.get_gid() == gid]


def spans(axes, gid):
    return [tuple(line.get_xdata()) for line in artists(axes, gid)]


def case(k, kind):
    random = np.random.default_rng(k)
    if kind == "tied":
        ranks = np.full(k, (k + 1) / 2)
    elif kind == "grouped":
        ranks = np.repeat([2.0, k - 1.0], [k // 2, k - k // 2])
    else:
        ranks = kw.stats.average_ranks(random.normal(size=(40, k)) + np.linspace(0, 2, k))
    names = [f"method {i}" + " with a long name" * (kind == "long" and i % 7 == 0) for i in range(k)]
    return names, ranks, kw.stats.critical_difference(k, 40)


CASES = [(k, kind) for k in (2, 3, 14, 40) for kind in ("spread", "tied", "grouped", "long")]


def boxes(axes, gids=("name", "rank", "tick", "cd text")):
    renderer = FigureCanvasAgg(axes.get_figure(root=True)).get_renderer()
    return [text.get_window_extent(renderer) for gid in gids for text in artists(axes, gid)]


def check_readable(axes):
    text_boxes = boxes(axes)
    for one, other in combinations(text_boxes, 2):
        assert not one.overlaps(other)
    width, height = axes.get_figure(root=True).canvas.get_width_height()
    for box in text_boxes:
        assert box.x0 >= 0
        assert box.x1 <= width
        assert box.y0 >= 0
        assert box.y1 <= height


@pytest.mark.parametrize(("k", "kind"), CASES)
def test_bars_agree_with_the_numbers(k, kind):
    names, ranks, cd = case(k, kind)
    axes = draw_cd_diagram(names, ranks, cd)
    expected = [(ranks[group[0]], ranks[group[-1]]) for group in kw.stats.cliques(ranks, cd)]
    assert spans(axes, "clique") == expected
    ((start, end),) = spans(axes, "cd")
    assert end - start == pytest.approx(cd)
    # Bars on one level stay apart.
    for one, other in combinations(artists(axes, "clique"), 2):
        if one.get_ydata()[0] == other.get_ydata()[0]:
            assert one.get_xdata()[1] < other.get_xdata()[0] or other.get_xdata()[1] < one.get_xdata()[0]
    bottom = max((line.get_ydata()[0] for line in artists(axes, "clique")), default=0)
    assert all(text.xy[1] > bottom for text in artists(axes, "name"))
    left, right = axes.get_xlim()
    assert left < min(start, ranks.min())
    assert right > max(end, ranks.max())


@pytest.mark.parametrize(("k", "kind"), CASES)
def test_labels_never_overlap(k, kind):
    names, ranks, cd = case(k, kind)
    check_readable(draw_cd_diagram(names, ranks, cd, title="A title"))


@pytest.mark.parametrize("size", [(4, 2), (6, 6), (12, 3)])
@pytest.mark.parametrize("k", [2, 14, 40])
def test_labels_fit_into_given_axes(k, size):
    names, ranks, cd = case(k, "long")
    figure = Figure(figsize=size)
    axes = figure.subplots()
    assert draw_cd_diagram(names, ranks, cd, axes=axes) is axes
    check_readable(axes)


@pytest.mark.parametrize(("k", "kind"), CASES)
def test_each_name_is_joined_to_its_rank(k, kind):
    names, ranks, cd = case(k, kind)
    axes = draw_cd_diagram(names, ranks, cd)
    ends = {}
    for line in artists(axes, "leader"):
        x, y = line.get_data()
        ends[x[2], y[2]] = x[0]
        assert x[0] == x[1]
    assert len(ends) == k
    for name, rank in zip(artists(axes, "name"), artists(axes, "rank"), strict=True):
        value = ranks[names.index(name.get_text())]
        assert ends[tuple(name.xy)] == value
        assert rank.xy == name.xy
        assert rank.get_text() == fixed(value, 2)


def test_groups_have_a_dot_for_each_member():
    ranks = [1.0, 2.0, 2.5, 4.0]
    axes = draw_cd_diagram(["a", "b", "c", "d"], ranks, groups=[(0, 2), (1, 3)])
    assert spans(axes, "clique") == [(1.0, 2.5), (2.0, 4.0)]
    bars = artists(axes, "clique")
    assert all(bar.get_marker() == "o" for bar in bars)
    assert bars[0].get_ydata()[0] != bars[1].get_ydata()[0]
    assert artists(axes, "cd") == artists(axes, "cd text") == []
    check_readable(axes)


def test_groups_need_not_be_in_order():
    axes = draw_cd_diagram(["a", "b", "c"], [3.0, 1.0, 2.0], groups=[(0, 2), (2, 1)])
    assert spans(axes, "clique") == [(1.0, 2.0), (2.0, 3.0)]
    assert spans(draw_cd_diagram(["a", "b"], [1.0, 2.0], groups=[]), "clique") == []


@pytest.mark.parametrize("width", [3.6, 5.8])
@pytest.mark.parametrize(("k", "kind"), CASES)
def test_labels_fit_into_a_width(k, kind, width):
    names, ranks, cd = case(k, kind)
    axes = draw_cd_diagram(names, ranks, cd, width=width)
    assert axes.get_figure(root=True).get_size_inches()[0] == width
    check_readable(axes)


def test_best_at_the_left_on_top():
    axes = draw_cd_diagram(["worst", "best", "second", "third"], [4.0, 1.0, 2.0, 3.0], 0.5)
    places = {
        text.get_text(): (text.get_window_extent().x0, -text.get_window_extent().y0) for text in artists(axes, "name")
    }
    assert places["best"][0] < places["worst"][0]
    assert places["best"][1] < places["second"][1]
    assert places["worst"][1] < places["third"][1]
    left, right = axes.get_xlim()
    assert left < right


def test_a_bar_over_ties_is_visible():
    axes = draw_cd_diagram(["a", "b", "c"], [1.5, 1.5, 3.0], 0.0)
    (bar,) = artists(axes, "clique")
    canvas = FigureCanvasAgg(axes.figure)
    canvas.draw()
    x, y = axes.transData.transform((1.5, bar.get_ydata()[0]))
    shown = np.asarray(canvas.buffer_rgba())[::-1][round(y), round(x)][:3] / 255
    np.testing.assert_allclose(shown, to_rgb(bar.get_color()), atol=0.02)


@pytest.mark.parametrize("dark", [False, True])
def test_contrast(dark):
    axes = draw_cd_diagram(["a", "b"], [1.2, 1.8], 1.0, dark=dark)
    background = luminance(axes.figure.get_facecolor()[:3])
    assert (background < 0.1) == dark
    for gid, least in [("name", 7), ("rank", 4.5), ("clique", 4.5), ("cd", 7), ("scale", 7)]:
        low, high = sorted([luminance(artists(axes, gid)[0].get_color()), background])
        assert (high + 0.05) / (low + 0.05) >= least


def test_names_are_written_without_markup():
    axes = draw_cd_diagram(["$a$ b", "two\nlines"], [1.2, 1.8], 1.0, title="$5 and $6")
    check_readable(axes)
    assert [text.get_text() for text in artists(axes, "name")] == ["$a$ b", "two lines"]
    assert not any(text.get_parse_math() for text in artists(axes, "name"))
    assert axes.get_title(loc="left") == "$5 and $6"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], [1.0, 2.0], 1.0), "names must have a name for each of the 2 ranks"),
        ((["a"], [1.0], 1.0), "ranks must be one-dimensional with at least 2 values"),
        ((["a", "b"], [1.0, np.nan], 1.0), "ranks must be finite"),
        ((["a", "b"], [1.0, 2.0], -1.0), "cd must be finite and at least 0"),
        ((["a", "b"], [1.0, 2.0]), "groups must be given exactly if cd is not"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        draw_cd_diagram(*arguments)


@pytest.mark.parametrize(("cd", "groups"), [(1.0, [(0, 1)]), (None, [(0, 2)])])
def test_wrong_groups(cd, groups):
    with pytest.raises(ValueError, match="groups must"):
        draw_cd_diagram(["a", "b"], [1.0, 2.0], cd, groups=groups)
