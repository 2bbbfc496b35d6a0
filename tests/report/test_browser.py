"""The page in a real browser, with real clicks: no errors, sorting, filtering, links, nothing wider than a phone."""

import pytest

from knotwork.report import make_report
from tests.report.cases import make_records
from tests.report.chromium import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser")

SHOWN = """Array.from(document.querySelectorAll("#score-table tbody tr")).filter(row => !row.hidden)
    .map(row => Array.from(row.cells).map(cell => cell.dataset.v === undefined ? cell.textContent
                                                                               : Number(cell.dataset.v)))"""
WIDTHS = "[document.documentElement.scrollWidth, innerWidth]"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    records = make_records(3, 2, backbones=["mlp", "ft"], methods=["Std", "PLE", "BS-U"], sizes=(7, 15), n_folds=2)
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


@pytest.mark.parametrize("i", [0, 5])
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
    assert len(browser.evaluate("new Promise(done => setTimeout(done, 50))") or browser.evaluate(SHOWN)) == 20


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


def test_the_console_has_no_errors(browser):
    assert browser.problems == []


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_does_not_scroll_sideways(page, dark):
    with Browser(page, width=390, height=844, dark=dark) as phone:
        phone.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        scroll, width = phone.evaluate(WIDTHS)
        assert width == 390
        assert scroll <= width
        ground = phone.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == ("rgb(21, 24, 28)" if dark else "rgb(255, 255, 255)")
        assert phone.problems == []
