"""The explorer in a real browser: its finding, means of categories, dates, undo, pictures, and the score on a phone."""

import base64
import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder

import knotwork as kw
from knotwork._explore._prepare import PageRule, draw_split
from tests.report.chromium import CHROMIUM, Browser

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the explorer was not opened in a browser"),
    pytest.mark.xdist_group("explorer"),
]

RANDOM = np.random.default_rng(0)
N_ROWS = 900
X = pd.DataFrame({
    "straight": RANDOM.normal(size=N_ROWS), "noise": RANDOM.normal(size=N_ROWS),
    "arrived": pd.Timestamp("2016-08-01") + pd.to_timedelta(RANDOM.integers(0, 425, N_ROWS), unit="D"),
    "town": RANDOM.choice(["Ulm", "Bonn", "Rome", None], N_ROWS), "repeated": RANDOM.uniform(size=N_ROWS) < 0.2,
    "outlier": np.where(np.arange(N_ROWS) == draw_split(N_ROWS, 0)[0][0], 1e6, RANDOM.normal(size=N_ROWS)),
    "built": RANDOM.integers(1960, 2015, N_ROWS),
})  # fmt: skip
DAY = (X["arrived"] - pd.Timestamp("2016-08-01")).dt.days
Y = pd.Series(
    2 * np.sin(DAY / 60) + X["straight"] + (X["town"] == "Ulm") + X["repeated"] + 0.3 * RANDOM.normal(size=N_ROWS),
    name="price",
)
SETTLED = "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 20))"


@pytest.fixture(scope="module")
def explorer():
    with pytest.MonkeyPatch.context() as patch:  # learned knots take most of the time
        patch.setattr("knotwork._explore._prepare.PAGE", PageRule(learning_seconds=-1.0))
        return kw.explore(X, Y, name="stays.csv")


@pytest.fixture(scope="module")
def page(explorer, tmp_path_factory):
    return explorer.save(tmp_path_factory.mktemp("findings") / "page.html")


@pytest.fixture(scope="module")
def browser(page):
    with Browser(page, calm=True) as opened:
        yield opened


def text(browser, name):
    return browser.evaluate(f"document.getElementById({name!r}).textContent")


def names(browser):
    return browser.evaluate("knotwork.page.data.columns.map(each => each.name)")


def show(browser, name):
    """Choose a column, without any edits."""
    index = names(browser).index(name)
    browser.go_to(f"#column={(index + 1) % 5}&ridge=1")
    browser.go_to(f"#column={index}&ridge=1")
    browser.evaluate(SETTLED)
    return browser


def knots(browser):
    return browser.evaluate("knotwork.page.knots()")


def press_ctrl_z(browser, *, shift=False):
    browser.evaluate(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', "
        f"{{key: 'z', ctrlKey: true, shiftKey: {str(shift).lower()}, bubbles: true}}))"
    )
    browser.evaluate(SETTLED)


def test_it_opens_on_the_largest_gain_and_says_it(explorer, page):
    with Browser(page, calm=True) as opened:
        assert text(opened, "column-name") == "arrived"
        assert text(opened, "finding") == f"{explorer.finding}."
        assert re.fullmatch(r"arrived: R² \S+ as a line, 0\.\d\d as 15 B-splines", explorer.finding)
        # One number: that of the fit is that of the list and of the sentence.
        shown = text(opened, "scores").split("rows")[1][:5]
        first = opened.evaluate("document.querySelector('#list button .about').textContent")
        assert first.startswith(f"R² {float(shown):.2f}")
        assert "explains" not in opened.evaluate("document.body.innerText")


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_python_and_the_page_compute_the_same_scores(task, tmp_path, monkeypatch):
    monkeypatch.setattr("knotwork._explore._prepare.PAGE", PageRule(learning_seconds=-1.0))
    target = Y if task == "regression" else Y.gt(0.5)
    with Browser(kw.explore(X, target).save(tmp_path / "page.html"), calm=True) as opened:
        pairs = opened.evaluate(
            """knotwork.page.data.columns.map((each, i) => [each.name, each.alone,
                [knotwork.page.scoreNow(i).main, knotwork.page.scoreOfLine(i).main]])"""
        )
        for name, expected, computed in pairs:
            for mine, other in zip(expected, computed, strict=True):
                assert (mine is None) == (other is None or np.isnan(other)), name
                if mine is not None:
                    assert other == pytest.approx(mine, abs=2e-6), name


def test_the_list_is_sorted_by_gain_or_by_score(browser):
    order = "Array.from(document.querySelectorAll('#list button'), each => Number(each.dataset.index))"
    values = """knotwork.page.data.columns.map((_, i) =>
        [knotwork.page.scoreNow(i).main - knotwork.page.scoreOfLine(i).main || 0, knotwork.page.scoreNow(i).main])"""
    show(browser, "noise")
    for place, name in ((1, "share"), (0, "gain")):
        browser.click(f"#sort button[data-value={name}]")
        sizes = [browser.evaluate(values)[index][place] for index in browser.evaluate(order)]
        assert sizes == sorted(sizes, reverse=True)
    assert names(browser)[browser.evaluate(order)[0]] == "arrived (elapsed days)"


def test_rows_of_dates_can_be_told_apart(browser):
    rows = browser.evaluate(
        """Array.from(document.querySelectorAll("#list button"), each => [each.dataset.name,
            each.querySelector(".owner").textContent, (each.querySelector(".part") || {textContent: ""}).textContent,
            each.querySelector(".part") === null || each.querySelector(".part").clientWidth > 30])"""
    )
    parts = [(part, fits) for name, owner, part, fits in rows if owner == "arrived"]
    assert len({part for part, _ in parts}) == len(parts) >= 5
    assert all(fits for _, fits in parts)


def test_dates_are_dates_and_years_have_no_commas(browser):
    show(browser, "arrived (elapsed days)")
    assert text(browser, "column-note").startswith("2016-08-01 to 2017-")
    labels = browser.evaluate("document.getElementById('chart').textContent")
    assert "2017" in labels
    assert not re.search(r"1[67],?\d{3}", labels)
    handle = browser.evaluate("document.querySelectorAll('.knot')[0].getAttribute('aria-valuetext')")
    assert re.match(r"arrived \(elapsed days\) 201[67]-\d\d-\d\d;", handle)
    show(browser, "built")
    assert "1960 to 2014" in text(browser, "column-note")
    assert not re.search(r"\d,\d", browser.evaluate("document.querySelector('#chart').textContent"))


def test_categories_have_means_that_the_ridge_shrinks(browser):
    show(browser, "town")
    training, _ = draw_split(N_ROWS, 0)
    towns = X["town"].fillna("missing").to_numpy()[:, None]
    coder = OneHotEncoder().fit(towns)
    model = Ridge(alpha=1.0).fit(coder.transform(towns[training]).toarray(), Y.iloc[training])
    expected = dict(zip(coder.categories_[0], model.predict(np.eye(4)), strict=True))
    labels = browser.evaluate("knotwork.page.fit().column.levels.labels")
    predictions = np.array(browser.evaluate("Array.from(knotwork.page.fit().predictions)"))[: len(labels)]
    scale, centre = browser.evaluate("[knotwork.page.data.target.scale, knotwork.page.data.target.centre]")
    np.testing.assert_allclose(centre + scale * predictions, [expected[label] for label in labels], atol=1e-5)
    places = browser.evaluate("Array.from(knotwork.page.fit().column.centres)")
    means = sorted((label for label in labels if label != "missing"), key=expected.get, reverse=True)
    assert [label for _, label in sorted(zip(places, labels, strict=True))] == [*means, "missing"]
    assert browser.evaluate("getComputedStyle(document.getElementById('family')).display") == "none"
    assert browser.evaluate("document.querySelectorAll('.knot').length") == 0
    assert "by the means of 4 groups" in text(browser, "finding")
    x, y = browser.evaluate(
        "(() => { const b = document.getElementById('chart').getBoundingClientRect(); return [b.x + 99, b.y + 99]; })()"
    )
    browser.hover(x, y)
    assert "mean" in browser.evaluate("document.querySelector('.readout').textContent")


def test_two_values_are_two_means(browser):
    show(browser, "repeated")
    assert "by two means" in text(browser, "finding")
    assert "two values: false and true" in text(browser, "column-note")
    assert "need no encoding" in text(browser, "placement-note")
    assert browser.evaluate("document.querySelectorAll('.knot').length") == 0
    assert browser.evaluate("document.querySelector('.curve').getAttribute('d').split('M').length") == 3
    made = {}
    exec(browser.evaluate("knotwork.page.mappingCode()"), made)
    assert made["encoder"].methods["repeated"] == "Std"
    assert "town" not in made["encoder"].methods


def test_no_curve_across_a_stretch_without_rows(browser):
    show(browser, "outlier")
    browser.click("#axis button[data-value=values]")
    browser.evaluate(SETTLED)
    [[low, high]] = browser.evaluate("knotwork.page.fit().column.gaps")
    xs = [
        float(x)
        for x in re.findall(r"[ML]([\d.]+)", browser.evaluate("document.querySelector('.curve').getAttribute('d')"))
    ]
    left, right = min(xs), max(xs)
    inside = [x for x in xs if left + (low + 0.01) * (right - left) < x < left + (high - 0.01) * (right - left)]
    assert inside == []
    assert high - low > 0.9
    show(browser, "straight")
    assert browser.evaluate("document.querySelector('.curve').getAttribute('d').split('M').length") == 2


def test_undo_and_redo(browser):
    show(browser, "straight")
    states = [knots(browser)]
    for key in ("ArrowRight", "Delete"):
        browser.evaluate('document.querySelectorAll(".knot")[2].focus()')
        browser.press(key)
        browser.evaluate(SETTLED)
        states.append(knots(browser))
    browser.click("#family button[data-value=ispline]")
    browser.evaluate(SETTLED)
    press_ctrl_z(browser)
    assert browser.evaluate("document.querySelector('#family button[aria-pressed=true]').dataset.value") == "bspline"
    assert knots(browser) == states[2]
    browser.evaluate("document.querySelector('#list button[data-name=noise]').click()")  # a look elsewhere
    press_ctrl_z(browser)
    assert knots(browser) == states[1]  # it returns to where the change was
    assert text(browser, "column-name") == "straight"
    press_ctrl_z(browser, shift=True)
    assert knots(browser) == states[2]
    browser.click("#undo")
    browser.click("#undo")
    browser.evaluate(SETTLED)
    np.testing.assert_allclose(knots(browser), states[0], atol=1e-12)
    browser.click("#redo")
    assert knots(browser) == states[1]


def test_a_slider_is_one_change(browser):
    show(browser, "straight")
    move = "(() => { const s = document.getElementById('ridge'); s.value = %s; s.dispatchEvent(new Event('%s')); })()"
    for value in (1, 2, 3):
        browser.evaluate(move % (value, "input"))
        browser.evaluate(SETTLED)
    browser.evaluate(move % (3, "change"))
    browser.evaluate(SETTLED)
    assert browser.evaluate("knotwork.page.view.ridge") == pytest.approx(1000)
    press_ctrl_z(browser)
    assert browser.evaluate("knotwork.page.view.ridge") == 1


def test_moved_knots_have_sensible_digits(browser):
    show(browser, "noise")
    browser.evaluate('document.querySelectorAll(".knot")[2].focus()')
    browser.press("ArrowRight")
    browser.evaluate(SETTLED)
    values = re.search(r"\[(.*)\]", text(browser, "line"))[1].split(", ")
    assert len(values) == 11
    assert max(len(value.lstrip("-").replace(".", "")) for value in values) <= 6
    low, high = browser.evaluate("knotwork.page.fit().column.domain")
    np.testing.assert_allclose(knots(browser), (np.array(values, float) - low) / (high - low), atol=1e-12)


def test_words_for_nothing(browser):
    show(browser, "noise")
    fill = (
        "(() => { const field = document.getElementById('search'); field.value = %s;"
        "field.dispatchEvent(new Event('input')); })()"
    )
    browser.evaluate(fill % json.dumps("zebra"))
    assert text(browser, "none") == "No column contains “zebra”."
    browser.evaluate(fill % json.dumps(""))
    assert browser.evaluate("document.getElementById('none').hidden")
    for name in names(browser):
        show(browser, name)
        assert not re.search(r"[-\u2212]0\.0*(?!\d)", browser.evaluate("document.body.innerText")), name
    show(browser, "noise")
    assert browser.evaluate("document.getElementById('learn').disabled")
    assert text(browser, "learn-note").startswith("Off: knots were learned for")
    assert browser.evaluate("document.getElementById('learn').title") != ""


def test_pictures_have_a_caption(browser):
    show(browser, "arrived (elapsed days)")
    svg = browser.evaluate("knotwork.page.svgText()")
    for part in (text(browser, "finding").rstrip("."), "stays.csv", "300 held-out rows", "BS-Q@15"):
        assert part in svg
    head = browser.evaluate(
        """(async () => { const blob = await knotwork.page.pngOf(knotwork.page.svgText());
            return btoa(String.fromCharCode(...new Uint8Array(await blob.arrayBuffer()).slice(0, 24))); })()"""
    )
    raw = base64.b64decode(head)
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24])
    assert min(width, height) > 1000
    assert browser.problems == []


def test_the_score_is_in_view_on_a_phone(page):
    with Browser(page, width=390, height=844, calm=True) as phone:
        x, y = phone.evaluate(
            """(() => { document.querySelector(".knot").scrollIntoView({block: "end", behavior: "instant"});
                const box = document.querySelectorAll(".knot .handle")[5].getBoundingClientRect();
                return [box.x + box.width / 2, box.y + box.height / 2]; })()"""
        )
        bar = (
            "(() => { const b = document.getElementById('bar').getBoundingClientRect(); return [b.top, b.bottom]; })()"
        )
        before, (top, bottom) = knots(phone), phone.evaluate(bar)
        assert 0 <= top < bottom <= 844
        phone.drag((x, y), (x + 14, y))
        assert knots(phone) != before
        now, line = phone.evaluate("[knotwork.page.fit().score.main, knotwork.page.fit().std.main]")
        assert text(phone, "bar") == f"R² {now:.3f} +{now - line:.3f} over Std"
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        phone.evaluate("document.querySelector('#list button[data-name=town]').click()")
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        assert phone.problems == []
