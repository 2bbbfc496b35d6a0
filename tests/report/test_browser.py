"""The page in a real browser, with real clicks: no errors, sorting, filtering, links, nothing wider than a phone."""

import base64
import re

import pandas as pd
import pytest

from knotwork.report import make_report
from tests.report.cases import make_records
from tests.report.chromium import CHROMIUM, Browser
from tests.report.conftest import leave_out_pdf

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser"),
    pytest.mark.xdist_group("browser"),  # one page, and one browser for most tests
]

SHOWN = """Array.from(document.querySelectorAll("#score-table tbody tr")).filter(row => !row.hidden)
    .map(row => Array.from(row.cells).map(cell => cell.dataset.v === undefined ? cell.textContent
                                                                               : Number(cell.dataset.v)))"""
WIDTHS = "[document.documentElement.scrollWidth, innerWidth]"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    records = make_records(3, 2, backbones=["mlp", "ft"], methods=["Std", "PLE", "BS-U"], sizes=(7, 15), n_folds=2)
    with pytest.MonkeyPatch.context() as patch:
        leave_out_pdf(patch)
        return make_report(records, folder / "report.html")


@pytest.fixture(scope="module")
def browser(page):
    with Browser(page) as opened:
        yield opened


def column(browser, i):
    return [row[i] for row in browser.evaluate(SHOWN)]


def order(browser, i):
    return browser.evaluate(f'document.querySelectorAll("#score-table th[scope=col]")[{i}].getAttribute("aria-sort")')


def head(i):
    return f"#score-table thead th:nth-child({i + 1}) button"


def test_an_error_would_be_seen(tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text("<!DOCTYPE html><script>nothing.there()</script>")
    with Browser(broken) as opened:
        assert opened.problems


@pytest.mark.parametrize("i", [0, pytest.param(5, marks=pytest.mark.slow)])
def test_a_click_sorts_and_another_reverses(browser, i):
    before = column(browser, i)
    browser.click(head(i))
    assert order(browser, i) == "ascending"
    assert column(browser, i) == sorted(before)
    browser.click(head(i))
    assert order(browser, i) == "descending"
    assert column(browser, i) == sorted(before, reverse=True)
    assert sum(order(browser, j) is not None for j in range(7)) == 1


def test_filters_hide_rows_and_reset_shows_them(browser):
    assert len(browser.evaluate(SHOWN)) == (3 + 2) * 2 * 2
    browser.click("#filter-text")
    browser.type("REG01")
    assert set(column(browser, 0)) == {"reg01"}
    assert browser.evaluate('document.getElementById("shown").textContent') == "4 of 20 rows"
    # A list of choices is no part of the page, so the keyboard opens and moves in it.
    browser.evaluate('document.getElementById("filter-3").focus()')
    browser.press("ArrowDown")
    assert column(browser, 3) == [7, 7]
    browser.press("ArrowDown")
    assert sorted(row[:4] for row in browser.evaluate(SHOWN)) == [
        ["reg01", "regression", name, 15] for name in ("ft feature", "mlp")
    ]
    browser.click("#filters button[type=reset]")
    browser.wait_until("location.hash === ''")  # the form is reset after its event
    assert len(browser.evaluate(SHOWN)) == 20


def test_every_link_leads_somewhere(browser):
    links = browser.evaluate("Array.from(document.querySelectorAll('nav a, main a')).map(a => a.getAttribute('href'))")
    assert len(links) > 8
    for link in links:
        browser.click(f'nav a[href="{link}"], main a[href="{link}"]')
        assert browser.evaluate("location.hash") == link
        assert browser.evaluate('document.querySelector(":target") !== null')


def test_details_open(browser):
    browser.click(".finding details summary")
    assert browser.evaluate('document.querySelector(".finding details").open')


def marked(browser):
    return browser.evaluate("Array.from(document.querySelectorAll('svg [data-method].on')).map(e => e.dataset.method)")


def test_a_method_is_highlighted_everywhere_and_the_address_keeps_it(browser):
    browser.click("#figure-opening .scroll [data-method='PLE'] use")
    assert set(marked(browser)) == {"PLE"}
    figures = browser.evaluate("document.querySelectorAll('figure:has(svg [data-method].on)').length")
    assert figures > 5
    assert browser.evaluate("document.querySelectorAll('#score-table td.on').length") == 20
    assert "method=PLE" in browser.evaluate("location.hash")
    browser.click("nav a[href='#ranks']")
    browser.wait_until("location.hash === '#ranks&method=PLE'")
    browser.go_to("#method=BS-U")
    assert set(marked(browser)) == {"BS-U"}
    browser.click("#picker button[value='BS-U']")
    assert marked(browser) == []
    assert browser.evaluate("location.hash") == ""


def test_a_chip_shows_something_and_other_figures_stay(tmp_path):
    main = make_records(3, 2, backbones=["mlp"], methods=["Std", "PLE", "BS-U"], sizes=(7,), n_folds=2)
    more = make_records(2, 0, backbones=["mlp"], methods=["Std", "IS-U", "IS-Q"], sizes=(7,), n_folds=2, seed=1)
    records = pd.concat([main.assign(plan="main", plan_hash="a"), more.assign(plan="more", plan_hash="b")])
    with pytest.MonkeyPatch.context() as patch:
        leave_out_pdf(patch)
        page = make_report(records, tmp_path / "report.html")
    with Browser(page) as browser:
        chips = "Array.from(document.querySelectorAll('#picker button:not([hidden])')).map(chip => chip.value)"
        assert set(browser.evaluate(chips)) == {"Std", "PLE", "BS-U"}
        browser.go_to("#method=IS-Q")  # is drawn further down only
        faint = """Array.from(document.querySelectorAll("#summary svg [data-method]"))
            .filter(part => getComputedStyle(part).opacity !== "1").length"""
        assert browser.evaluate(faint) == 0
        browser.click("#picker button[value='PLE']")
        assert browser.evaluate(faint) > 0


def test_one_front_at_a_time(browser):
    shown = """Array.from(document.querySelectorAll("#front .option:not([hidden])"))
        .map(each => each.dataset.task + each.dataset.size)"""
    assert browser.evaluate(shown) == ["regressionsize 7"]
    browser.click("#front label:has(input[value='size 15'])")
    browser.click("#front label:has(input[value='classification'])")
    assert browser.evaluate(shown) == ["classificationsize 15"]
    assert "front-task=classification" in browser.evaluate("location.hash")
    browser.go_to("#front-task=&x=1")
    assert browser.evaluate(shown) == ["regressionsize 7"]


def test_a_data_set_shows_its_folds(browser):
    browser.click(".pick-data")
    name = browser.evaluate("document.querySelector('#fold-view h3').textContent")
    assert browser.evaluate("document.querySelectorAll('#fold-view svg').length") == 2 * 2
    assert browser.evaluate("document.querySelectorAll('#fold-view circle').length") == 2 * 2 * 3 * 2
    assert f"dataset={name}" in browser.evaluate("location.hash")
    browser.click("#fold-view .close")
    assert browser.evaluate("document.getElementById('fold-view').hidden")


def test_tooltips(browser):
    x, y = browser.evaluate("""(() => { const part = document.querySelector("#figure-opening .scroll [data-tip]");
        part.scrollIntoView({block: "center", behavior: "instant"});
        const box = part.querySelector("use").getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]; })()""")
    browser.hover(x, y)
    assert "average rank" in browser.evaluate("document.getElementById('tip').textContent")
    assert not browser.evaluate("document.getElementById('tip').hidden")


def test_a_brief_is_printed_unless_everything_is_asked_for(browser):
    def n_pages():
        text = base64.b64decode(browser._call("Page.printToPDF", preferCSSPageSize=True)["data"])
        return len(re.findall(rb"/Type\s*/Page\b", text))

    brief = n_pages()
    assert brief <= 6
    browser.evaluate("document.documentElement.classList.add('everything')")
    assert n_pages() > brief
    browser.evaluate("document.documentElement.classList.remove('everything')")


def test_everything_can_be_read_without_scripts(page, tmp_path):
    still = tmp_path / "still.html"
    still.write_text(
        page.read_text(encoding="utf-8").replace("<script>", '<script type="text/plain">'), encoding="utf-8"
    )
    with Browser(still) as opened:
        hidden = opened.evaluate("""Array.from(document.querySelectorAll("body [hidden]"))
            .map(each => each.id || each.className)""")
        assert set(hidden) == {"picker", "print-everything", "filters", "fold-view", "scripted", "tip"}, "only controls"
        assert opened.evaluate("document.querySelectorAll('svg .hover > title').length") > 100
        seen = "Array.from(document.querySelectorAll('#front .option')).filter(each => each.offsetHeight > 50).length"
        assert opened.evaluate(seen) == 4


def test_the_console_has_no_errors(browser):
    assert browser.problems == []


def test_a_phone_does_not_scroll_sideways(page):
    with Browser(page, width=390, height=844) as phone:
        phone.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        for dark, ground in ((False, "rgb(255, 255, 255)"), (True, "rgb(21, 24, 28)")):
            phone.prefer(dark=dark)
            scroll, width = phone.evaluate(WIDTHS)
            assert width == 390
            assert scroll <= width
            assert phone.evaluate("getComputedStyle(document.body).backgroundColor") == ground
        assert phone.problems == []
