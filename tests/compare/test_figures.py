"""Figures of a comparison show the numbers that they are given."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from knotwork.compare import _figures as figures
from knotwork.compare._effects import ShownFeature
from knotwork.report._style import PHONE, natural_width, svg_text
from tests.compare.made import make_choices, make_effects, make_ranking, make_source, make_table

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


@pytest.mark.parametrize("n_classes", [0, 2, 9])
def test_every_figure_but_the_ranking_fits_a_phone(n_classes):
    classes = tuple("abcdefghi"[:n_classes])
    source = make_source(make_table(n_classes=n_classes), classes=classes)
    ranking, effects = make_ranking(source, has_others=False), make_effects(source, label="b" if classes else "")
    predicted = ranking.chosen.scored.predictions
    settings = {"model": "m", "name": "n"}
    if classes:
        pictures = [draw(source.target, predicted, classes=classes, **settings)
                    for draw in (figures.confusion_picture, figures.calibration_picture)]  # fmt: skip
    else:
        pictures = [figures.predicted_picture(source.target, predicted, target="y", **settings)]
    effect = effects[0]
    limits = figures.effect_limits(effects)
    pictures += [
        figures.effect_picture(effect, 0, target="y", limits=limits, has_classes=bool(classes)),
        figures.pair_picture(effect, effect.pair, 0, target="y"),
        figures.learning_picture(ranking),
    ]
    for picture in pictures:
        assert natural_width(svg_text(picture.figure)) <= 72 * PHONE


def test_calibration_of_known_probabilities():
    rng = np.random.default_rng(0)
    probability = np.repeat([0.1, 0.4, 0.8], 1000)
    actual = (rng.uniform(size=3000) < probability).astype(int)
    shares = np.stack([1 - probability, probability], axis=1)
    figure = figures.calibration_picture(actual, shares, classes=("no", "yes"), model="m", name="n").figure
    [line] = drawn(figure, "calibration")
    np.testing.assert_allclose(line.get_xdata(), [0.1, 0.4, 0.8])
    np.testing.assert_allclose(line.get_ydata(), actual.reshape(3, 1000).mean(axis=1))


def test_confusion_has_the_shares_of_each_class():
    actual = np.array([0, 0, 0, 0, 1, 1])
    shares = np.eye(2)[[0, 0, 0, 1, 1, 1]]
    picture = figures.confusion_picture(actual, shares, classes=("a", "b"), model="m", name="n")
    assert [text.get_text() for text in picture.figure.axes[0].texts] == ["75 %", "25 %", "0 %", "100 %"]
    assert "83.3 % of rows are predicted correctly" in picture.caption


def test_predictions_are_described():
    actual = np.array([0.0, 1.0, 2.0, 3.0])
    predicted = np.array([0.5, 0.5, 2.5, 2.5])
    picture = figures.predicted_picture(actual, predicted, target="y", model="m", name="n")
    assert "R² 0.800, mean absolute error 0.5." in picture.caption


def test_residuals_are_means_by_value_and_by_category():
    column = np.array([0.0, 0.0, 1.0, 1.0, np.nan])
    residuals = np.array([1.0, 3.0, -1.0, -1.0, 9.0])
    bands = figures.residual_bands("x", column, residuals)
    assert bands.values.tolist() == [0.0, 1.0]
    assert bands.means.tolist() == [2.0, -1.0]
    np.testing.assert_allclose(bands.halves, [1.96 / np.sqrt(2), 0.0])
    months = figures.residual_bands("m", pd.Series(["May", "May", "April", None, "April"]), residuals)
    assert months.values.tolist() == ["April", "May"]
    assert months.means.tolist() == [4.0, 2.0]
    picture = figures.residual_picture(months, 0, limits=(-1.0, 1.0))
    assert "farthest from 0 at April: 4." in picture.caption
    empty = figures.residual_bands("x", np.full(5, np.nan), residuals)
    assert "All values are missing" in figures.residual_picture(empty, 0, limits=(-1.0, 1.0)).caption


def test_many_values_make_bands_of_about_the_same_number_of_rows():
    column = np.random.default_rng(0).permutation(np.linspace(0, 1, 1000))
    bands = figures.residual_bands("x", column, column)
    np.testing.assert_allclose(bands.means, np.arange(0.05, 1, 0.1), atol=1e-3)


def test_learning_curves_are_those_of_the_folds():
    assert figures.learning_picture(make_ranking(NUMBERS)) is None  # an ensemble has no curves of single networks
    ranking = make_ranking(NUMBERS, has_others=False)
    figure = figures.learning_picture(ranking).figure
    lines = drawn(figure, "learning")
    assert len(lines) == 3
    np.testing.assert_array_equal(lines[0].get_ydata(), ranking.chosen.scored.histories[0].score)
    assert drawn(figure, "kept-0")[0].get_xdata().tolist() == [7]


def number_effect(values, counts):
    curve = np.zeros(len(values))
    return ShownFeature("x", 1.0, np.array(values, float), {"": curve}, curve[None], np.array(counts), None, {}, 0.0)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0, 1], ["0", "1"]),
        (list(range(24)), ["0", "4", "8", "12", "16", "20"]),
        ([1.0, 2.5, 10.0], ["1", "2.5", "10"]),
    ],
)
def test_ticks_are_at_values_that_occur(values, ticks):
    effect = number_effect(values, [5] * len(values))
    picture = figures.effect_picture(effect, 0, target="y", limits=(-1.0, 1.0), has_classes=False)
    below = picture.figure.axes[-1]
    assert [label.get_text() for label in below.get_xticklabels()] == ticks
    assert len(below.patches) == len(values)  # a bar for each value


def test_dates_are_dates_on_the_axis_and_in_sentences():
    days = np.datetime64("2016-07-01", "s") + np.arange(0, 420, 10) * np.timedelta64(1, "D")
    bands = figures.residual_bands("sold", np.repeat(days, 20), np.repeat(np.sin(np.arange(42.0) / 20), 20))
    picture = figures.residual_picture(bands, 0, limits=(-1.0, 1.0))
    assert "farthest from 0 at May 2017: " in picture.caption
    svg_text(picture.figure)  # lays the figure out
    shown = [label.get_text() for label in picture.figure.axes[0].get_xticklabels()]
    assert shown == ["Jul 2016", "Oct 2016", "Jan 2017", "Apr 2017", "Jul 2017"]
    curve, counts = {"": np.linspace(0, 1, 42)}, np.ones(41, int)
    effect = ShownFeature("sold", 1.0, days, curve, np.empty((0, 42)), counts, days, {}, 0.0)
    picture = figures.effect_picture(effect, 0, target="y", limits=(-1.0, 1.0), has_classes=False)
    assert "from 0 at Jul 2016 to 1 at Aug 2017" in picture.label
    svg_text(picture.figure)
    assert [label.get_text() for label in picture.figure.axes[-1].get_xticklabels()] == shown


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
