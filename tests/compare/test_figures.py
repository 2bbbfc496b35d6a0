"""Figures of a comparison show the numbers that they are given."""

from dataclasses import replace

import numpy as np
import pytest

from knotwork.compare import _figures as figures
from knotwork.report._style import PHONE, natural_width, svg_text
from tests.compare.made import make_choices, make_ranking, make_source, make_table

NUMBERS = make_source(make_table())


def drawn(figure, gid):
    return figure.findobj(lambda artist: artist.get_gid() == gid)


def test_an_interval_that_is_cut_ends_in_an_arrow():
    ranking = make_ranking(NUMBERS)
    [place] = [place for place, line in enumerate(ranking.lines) if line.kind == "boosting"]
    picture = figures.ranking_picture(ranking)
    for figure in (picture.figure, picture.narrow):
        [axes] = figure.axes
        unit, (left, right) = 100 / ranking.best.mean, axes.get_xlim()
        for row, line in enumerate(ranking.lines):
            cut = {"<": unit * line.low < left, ">": unit * line.high > right}
            arrows = {artist.get_marker() for artist in drawn(figure, f"cut-{row}")}
            assert arrows == {marker for marker, is_cut in cut.items() if is_cut}
            [dot] = drawn(figure, f"dot-{row}")
            assert left < dot.get_xdata()[0] < right
        assert drawn(figure, f"cut-{place}")
    assert natural_width(svg_text(picture.narrow)) <= 72 * PHONE < natural_width(svg_text(picture.figure))


@pytest.mark.parametrize("n_classes", [2, 9])
def test_every_figure_but_the_ranking_fits_a_phone(n_classes):
    classes = tuple("abcdefghi"[:n_classes])
    source = make_source(make_table(n_classes=n_classes), classes=classes)
    ranking = make_ranking(source, has_others=False)
    predicted = ranking.chosen.scored.predictions
    pictures = [
        figures.confusion_picture(source.target, predicted, classes=classes, model="m", name="n"),
        figures.learning_picture(ranking),
    ]
    for picture in pictures:
        assert natural_width(svg_text(picture.figure)) <= 72 * PHONE


def test_confusion_has_the_shares_of_each_class():
    actual = np.array([0, 0, 0, 0, 1, 1])
    shares = np.eye(2)[[0, 0, 0, 1, 1, 1]]
    picture = figures.confusion_picture(actual, shares, classes=("a", "b"), model="m", name="n")
    assert [text.get_text() for text in picture.figure.axes[0].texts] == ["75 %", "25 %", "0 %", "100 %"]
    assert "83.3 % of rows are predicted correctly" in picture.caption


def test_learning_curves_are_those_of_the_folds():
    assert figures.learning_picture(make_ranking(NUMBERS)) is None  # an ensemble has no curves of single networks
    ranking = make_ranking(NUMBERS, has_others=False)
    figure = figures.learning_picture(ranking).figure
    lines = drawn(figure, "learning")
    assert len(lines) == 3
    np.testing.assert_array_equal(lines[0].get_ydata(), ranking.chosen.scored.histories[0].score)
    assert drawn(figure, "kept-0")[0].get_xdata().tolist() == [7]


def test_texts_of_figures_are_one_line():
    assert figures.short("a\nb\u202e c", 20) == "a b c"
    assert figures.short("n" * 300, 20) == "n" * 19 + "…"


def test_choices_are_marked_and_the_best_cells_are_darkest():
    choices = make_choices([f"column {place}" for place in range(figures.ROOM.columns + 3)])
    picture = figures.choices_picture(choices)
    assert "The other 3 columns explain less." in picture.caption
    for figure in (picture.figure, picture.narrow):
        [axes] = figure.axes
        shades = np.array([cell.get_facecolor()[0, 3] for cell in axes.collections]).reshape(-1, 3)
        for row, choice in enumerate(choices[: figures.ROOM.columns]):
            [dot] = drawn(figure, f"choice-{row}")
            assert dot.get_xdata()[0] == shades[row].argmax() == list(choice.losses).index(choice.encoding)
            np.testing.assert_allclose(np.sort(shades[row]), [0.6, 0.8, 1.0])
    assert natural_width(svg_text(picture.narrow)) <= 72 * PHONE < natural_width(svg_text(picture.figure))
    assert picture.titles["choice-1"] == "column 1: PLE@30. It is the best."


def test_a_column_of_two_values_has_no_choice():
    choices = make_choices(["flag", "other"])
    choices[0] = replace(choices[0], needs_none=True, reason="It has two values and needs no encoding.")
    picture = figures.choices_picture(choices)
    for figure in (picture.figure, picture.narrow):
        [axes] = figure.axes
        assert len(axes.collections) == 3  # only the other column has cells, and it comes first
        [note] = [text for text in axes.texts if text.get_gid() == "choice-1"]
        assert note.get_text() == "It has two values and needs no encoding."
        assert natural_width(svg_text(figure)) < 72 * 7.3
    assert "flag no encoding" in picture.label
    assert "IS-CART" not in picture.titles["choice-1"]
