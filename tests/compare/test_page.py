"""The page of a comparison, made by hand: hostile names, phones, print, readers without eyes or with a full disk."""

import base64
import os
import re
from html.parser import HTMLParser
from itertools import pairwise
from warnings import catch_warnings, simplefilter

import pytest

from knotwork import _files as files
from knotwork._model_page import headline, notebook_view, subject_of
from knotwork.compare._models import fit_additive
from knotwork.compare._page import write_page
from knotwork.errors import ColumnWarning
from tests.compare.made import HOSTILE, make_choices, make_ranking, make_source, make_table, make_words
from tests.report.chromium import CHROMIUM, Browser

NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser")


class Reader(HTMLParser):
    """Gathers the tags and attributes of a page, and its text outside of styles and scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self._silent = [], "", False
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._silent = tag in ("style", "script")

    def handle_endtag(self, tag):
        self._silent = False

    def handle_data(self, data):
        self.text += "" if self._silent else data


def make_model(source):
    """Return the sentence and the top third of the page of a linear model of a table."""
    with catch_warnings():
        simplefilter("ignore", ColumnWarning)
        subject = subject_of(fit_additive("linear", source))
    return headline(subject, []), notebook_view(subject, page="model.html")


def make_page(folder, *, names=("a", "b", "c"), target="y", name="table.csv", n_classes=0, **words):
    """Write the page of a table, and return its path."""
    classes = tuple(HOSTILE[:n_classes]) if target in HOSTILE else tuple(f"class {i}" for i in range(n_classes))
    categories = HOSTILE if target in HOSTILE else ("u", "v")
    frame = make_table(names, target, n_classes=n_classes, categories=categories)
    source = make_source(frame, target, name=name, classes=classes)
    page = folder / "report.html"
    write_page(
        page, make_ranking(source), source, model=make_model(source), words=make_words(source, **words),
        choices=make_choices(names),
    )  # fmt: skip
    return page


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The page of a table with ordinary names."""
    return make_page(tmp_path_factory.mktemp("plain"), banners=["18 networks reached the cap of epochs."])


@pytest.fixture(scope="module", params=[0, pytest.param(9, marks=pytest.mark.slow)])
def hostile(tmp_path_factory, request):
    """Pages of numbers and of nine classes, all of whose names are hostile."""
    folder, n_classes = tmp_path_factory.mktemp("hostile"), request.param
    return make_page(
        folder, names=HOSTILE, target=HOSTILE[n_classes % 4], name=HOSTILE[0] + ".csv", n_classes=n_classes
    )


def test_hostile_names_are_text(hostile, plain):
    reader, kinds = Reader(hostile), {tag for tag, _ in Reader(hostile).tags}
    assert kinds - {tag for tag, _ in Reader(plain).tags} <= {"details", "summary"}
    assert "img" not in kinds
    assert not [name for _, attributes in reader.tags for name in attributes if name.startswith("on")]
    assert sum(tag == "script" for tag, _ in reader.tags) == 1  # that of the button for printing
    for text in ("<script>window.hacked = 1</script>", r"$\frac$", "$x$ and $y$", "{{7*7}}{% raw %}", "n" * 79 + "…"):
        assert text in reader.text
    assert "49{% raw %}" not in reader.text
    assert "\u202e" not in "".join(reader.text.split("\n")[60:])  # no name turns the rest of a sentence around


@NEEDS_CHROMIUM
def test_hostile_names_run_nothing_and_fit_a_phone(hostile):
    with Browser(hostile, width=380, dark=True) as phone:
        phone.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert phone.evaluate("window.hacked === undefined && document.querySelectorAll('main img').length === 0")
        assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert phone.problems == []


OVERFLOWING = """Array.from(document.querySelectorAll("main *")).filter(each =>
    each.scrollWidth > each.clientWidth + 1 && ["auto", "scroll"].includes(getComputedStyle(each).overflowX)
    && each.tabIndex !== 0).length"""
NARROWEST = """Math.min(...Array.from(document.querySelectorAll("figure svg")).filter(each => each.clientWidth)
    .map(each => each.clientWidth / each.viewBox.baseVal.width))"""


@NEEDS_CHROMIUM
def test_figures_are_drawn_for_a_phone(plain):
    with Browser(plain, width=380) as phone:
        assert phone.evaluate("document.documentElement.scrollWidth <= innerWidth")
        # Figures are not scaled below their natural size, 4/3 pixels per point, by more than a few per cent.
        assert phone.evaluate(NARROWEST) > 1.25
        assert phone.evaluate(OVERFLOWING) == 0
        seen = "Array.from(document.querySelectorAll('.wide')).some(each => each.clientWidth)"
        assert not phone.evaluate(seen)
    with Browser(plain, width=1400) as desk:
        assert desk.evaluate("document.querySelector('.scroll table').scrollWidth <= "
                             "document.querySelector('.scroll').clientWidth")  # fmt: skip
        assert desk.evaluate(seen)


@pytest.mark.slow  # the pages of the tests above have the same style of print
@NEEDS_CHROMIUM
def test_the_print_is_a_brief_and_has_details_on_request(tmp_path):
    names = tuple(f"column number {i}" for i in range(14))
    warnings = [f"Column {i} looks like dates." for i in range(5)]
    page = make_page(tmp_path, names=names, n_classes=3, warnings=warnings, banners=["The cap of epochs was reached."])
    with Browser(page) as opened:
        brief = _n_printed(opened)
        assert 2 <= brief <= 6
        opened.evaluate("window.print = () => {}")
        opened.click("#print-everything")
        complete = "document.documentElement.classList.contains('everything')"
        assert opened.evaluate(complete), "sections of details are printed as well"
        assert _n_printed(opened) >= brief
        opened.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not opened.evaluate(complete)
        assert opened.problems == []


def _n_printed(browser):
    printed = browser._call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)
    return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"])))


def test_headings_labels_and_scrollers(plain):
    reader = Reader(plain)
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for tag, attributes in reader.tags:
        if tag == "svg" and "aria-hidden" not in attributes:
            assert attributes["role"] == "img"
            assert len(attributes["aria-label"]) > 10
        if "scroll" in attributes.get("class", "").split():
            assert attributes["tabindex"] == "0"
            assert {"aria-label", "aria-labelledby"} & set(attributes)
    assert dict(reader.tags)["html"]["lang"] == "en"
    assert {"name": "color-scheme", "content": "light dark"} in [attributes for _, attributes in reader.tags]


def test_banners_stand_beside_the_verdict(plain):
    text = Reader(plain).text
    places = [text.index(words) for words in ("Recommendation\n", "Take the ensemble", "18 networks", "Candidates.")]
    assert places == sorted(places)


@NEEDS_CHROMIUM
@pytest.mark.parametrize(("width", "height"), [(1400, 1000), (390, 844)])
def test_verdict_and_ranking_are_on_the_first_screen(plain, width, height):
    names = "['h1', '.lead', '#figure-ranking', 'nav', 'a[href=\"model.html\"]']"
    tops = f"{names}.map(each => document.querySelector(each).getBoundingClientRect().top)"
    with Browser(plain, width=width) as opened:
        title, verdict, ranking, contents, model = opened.evaluate(tops)
    assert 0 <= title < verdict < model < ranking < 0.6 * height
    if width < 400:
        assert contents > verdict


def test_a_report_without_a_model_has_no_link_to_its_page(tmp_path, plain):
    source = make_source(make_table())
    page = tmp_path / "report.html"
    write_page(page, make_ranking(source), source, words=make_words(source, interrupted=True))
    links = [attributes.get("href") for tag, attributes in Reader(page).tags if tag == "a"]
    assert "model.html" not in links
    assert "#model" not in links
    assert "Interrupted" in Reader(page).text
    links = [attributes.get("href") for tag, attributes in Reader(plain).tags if tag == "a"]
    assert links.count("model.html") == 2


def test_classes_that_are_confused_and_learning_curves_are_shown(tmp_path):
    labels = Reader(make_page(tmp_path, n_classes=2)).tags
    labels = " ".join(attributes["aria-label"] for tag, attributes in labels if tag == "svg" and "role" in attributes)
    assert "Predicted against actual classes" in labels


def test_a_full_disk_leaves_the_page_as_it_was(tmp_path, monkeypatch):
    page, before = tmp_path / "report.html", b"before"
    page.write_bytes(before)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        make_page(tmp_path, target="z")
    assert page.read_bytes() == before
    assert os.listdir(tmp_path) == ["report.html"]
