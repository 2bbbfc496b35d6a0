"""The page of an additive model in a real browser: what is drawn is what the edited model predicts."""

import base64
import json
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from tests.explore.cases import HOSTILE
from tests.report.chromium import CHROMIUM, Browser

RANDOM = np.random.default_rng(0)
X = pd.DataFrame({
    "wave": RANDOM.uniform(0, 10, 500), "slope": RANDOM.normal(size=500), "town": RANDOM.choice(["Ulm", "Bonn"], 500),
    "gaps": np.where(RANDOM.uniform(size=500) < 0.3, np.nan, RANDOM.normal(size=500)),
    "three": RANDOM.choice([0.0, 1.0, 2.0], 500),
    "sold": pd.Timestamp("2016-01-01") + pd.to_timedelta(RANDOM.integers(0, 400, 500), unit="D"),
})  # fmt: skip
Y = pd.Series(
    np.sin(X["wave"]) + 0.5 * X["slope"] + X["gaps"].fillna(1.0) + X["three"] ** 2 + 0.1 * RANDOM.normal(size=500),
    name="height",
)
HELD = slice(350, None)
MODEL = kw.AdditiveRegressor(size=20).fit(X[:350], Y[:350])
LABELS = np.array(["low", "middle", "top"])[np.digitize(Y, [0.5, 2.5])]
SETTLED = "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 20))"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser")
pytestmark = pytest.mark.xdist_group("explorer")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    explorer = kw.explore_model(MODEL, X[HELD], Y[HELD], name="hills")
    return explorer.save(tmp_path_factory.mktemp("curves") / "page.html")


@pytest.fixture(scope="module")
def browser(page):
    with Browser(page, calm=True) as opened:
        yield opened


@pytest.fixture
def fresh(browser):
    """The page without edits, on the curve of the column wave."""
    index = place_of(browser, "wave")
    browser.go_to("#curve=1")
    browser.go_to(f"#curve={index}")
    browser.evaluate("document.querySelector(`#list button[data-name=wave]`).click()")
    assert json.loads(edits(browser))["curves"] == []
    return browser


def place_of(browser, name):
    return browser.evaluate("knotwork.page.curves.map(each => each.name)").index(name)


def edits(browser):
    return browser.evaluate("knotwork.page.editsText()")


def score(browser):
    return browser.evaluate("knotwork.page.score()")


def press(browser, name):
    """Press a button that makes the stretch flat, straight, rising or falling."""
    browser.evaluate(f"[...document.querySelectorAll('#shape button')].find(b => b.textContent === {name!r}).click()")


def set_range(browser, name, value, event="input"):
    browser.evaluate(
        f"""(() => {{ const control = document.getElementById("{name}"); control.value = {value};
            control.dispatchEvent(new Event("{event}")); }})()"""
    )


def drawn(browser, name, values, fit=0):
    """Return the curve of a column as the page draws it."""
    index, curve = place_of(browser, name), next(term for term in MODEL.terms_ if term.name == name)
    low, high = curve.basis.domain
    shares = ((np.asarray(values) - low) / (high - low)).tolist()
    return np.array(browser.evaluate(f"knotwork.page.evaluate({index}, {json.dumps(shares)})"))


def contributions(model, name, values):
    table = pd.concat([X.iloc[:1]] * len(values), ignore_index=True).assign(**{name: values})
    parts = model.contributions(table)
    return parts.values[:, parts.names.index(name)]


def middle(browser, k):
    return browser.evaluate(
        f"""(() => {{ const handle = document.querySelectorAll(".pull .handle")[{k}];
            document.getElementById("chart").scrollIntoView({{block: "end", behavior: "instant"}});
            const box = handle.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
    )


@needs_browser
def test_the_page_draws_the_curves_of_the_model(fresh):
    for name in ("wave", "slope", "three", "gaps"):
        curve = next(term for term in MODEL.terms_ if term.name == name)
        values = np.linspace(*curve.basis.domain, 25)
        np.testing.assert_allclose(drawn(fresh, name, values), contributions(MODEL, name, values), atol=1e-9)
    assert score(fresh)["before"] == pytest.approx(MODEL.score(X[HELD], Y[HELD]), abs=1e-9)
    assert score(fresh)["after"] == score(fresh)["before"]


@needs_browser
def test_a_dragged_curve_is_predicted_exactly(fresh, tmp_path):
    x, y = middle(fresh, 4)
    fresh.drag((x, y), (x + 40, y + 60))
    assert middle(fresh, 4)[1] == pytest.approx(y + 60, abs=1.5)  # the point is under the pointer
    assert middle(fresh, 4)[0] == pytest.approx(x, abs=0.6)
    (tmp_path / "edits.json").write_text(edits(fresh))
    edited = MODEL.with_edits(tmp_path / "edits.json", X[HELD], Y[HELD])
    values = np.linspace(0.1, 9.9, 60)
    np.testing.assert_allclose(drawn(fresh, "wave", values), contributions(edited, "wave", values), atol=1e-9)
    assert np.abs(contributions(edited, "wave", values) - contributions(MODEL, "wave", values)).max() > 0.05
    assert edited.edit_scores_.after == pytest.approx(score(fresh)["after"], abs=1e-9)
    assert edited.edit_scores_.after < edited.edit_scores_.before
    edited.save(tmp_path / "model.knotwork")
    np.testing.assert_array_equal(kw.load(tmp_path / "model.knotwork").predict(X), edited.predict(X))
    assert len(edits(fresh)) < 2_000


@needs_browser
@pytest.mark.parametrize("shape", ["Flat", "Straight", "Rising", "Falling"])
def test_shapes_of_a_stretch(fresh, shape):
    set_range(fresh, "from", 0.3)
    set_range(fresh, "to", 0.7)
    press(fresh, shape)
    edited = MODEL.with_edits(json.loads(edits(fresh)))
    inside, outside = np.linspace(3.05, 6.95, 40), np.array([0.2, 0.9, 9.1, 9.8])
    made = contributions(edited, "wave", inside)
    np.testing.assert_allclose(drawn(fresh, "wave", inside), made, atol=1e-9)
    np.testing.assert_allclose(contributions(edited, "wave", outside), contributions(MODEL, "wave", outside), atol=1e-9)
    steps = np.diff(made)
    is_so = {
        "Flat": np.abs(steps).max() < 1e-9, "Straight": np.ptp(steps) < 1e-4,
        "Rising": steps.min() > -1e-9, "Falling": steps.max() < 1e-9,
    }  # fmt: skip
    assert is_so[shape]
    assert shape.lower() in fresh.evaluate("document.getElementById('live').textContent")


@needs_browser
def test_the_keyboard_moves_points_and_undo_takes_it_back(fresh):
    fresh.evaluate('document.querySelectorAll(".pull")[3].focus()')
    texts = [edits(fresh)]
    for shift in (False, True):
        fresh.press("ArrowDown", shift=shift)
        fresh.evaluate(SETTLED)
        texts.append(edits(fresh))
    assert len(set(texts)) == 3
    key = "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'z', ctrlKey: true, shiftKey: %s, bubbles: true}))"
    for expected, shift in ((texts[1], False), (texts[0], False), (texts[1], True), (texts[2], True)):
        fresh.evaluate((key % str(shift).lower()).replace("document.dispatch", "document.body.dispatch"))
        assert edits(fresh) == expected
    fresh.click("#undo")
    assert edits(fresh) == texts[1]
    fresh.click("#redo")
    assert edits(fresh) == texts[2]
    fresh.click("#reset")
    assert edits(fresh) == texts[0]


@needs_browser
def test_missing_values_and_the_address(page, fresh):
    fresh.evaluate("document.querySelector(`#list button[data-name=gaps]`).click()")
    set_range(fresh, "missing", -0.75, "change")
    press(fresh, "Straight")
    here, text = fresh.evaluate("location.hash"), edits(fresh)
    edited = MODEL.with_edits(json.loads(text))
    assert contributions(edited, "gaps", [np.nan])[0] == pytest.approx(-0.75)
    with Browser(page, calm=True) as other:
        other.go_to(here)
        assert edits(other) == text
        assert other.evaluate("document.getElementById('column-name').textContent") == "gaps"
        other.go_to("#curve=99&class=7&e0_0=1_2_x&e1_0=")
        assert json.loads(edits(other))["curves"] == []
        assert other.problems == []


@needs_browser
def test_a_search_without_results_says_so(fresh):
    for text, shown in (("zebra", True), ("wave", False), ("", False)):
        fresh.evaluate(
            f"(() => {{ const field = document.getElementById('search'); field.value = {text!r};"
            "field.dispatchEvent(new Event('input')); })()"
        )
        assert fresh.evaluate("!document.getElementById('none').hidden") == shown
    assert "2 more terms" not in fresh.evaluate("document.body.textContent")
    assert "1 more term" in fresh.evaluate("document.getElementById('others').textContent")  # the towns


@needs_browser
def test_pictures_name_their_source(fresh):
    svg = fresh.evaluate("knotwork.page.svgText()")
    assert "Effect on height" in svg
    assert "hills" in svg
    assert "var(--" not in svg
    png = fresh.evaluate(
        """(async () => { const blob = await knotwork.page.pngOf(knotwork.page.svgText());
            return btoa(String.fromCharCode(...new Uint8Array(await blob.arrayBuffer()).slice(0, 24))); })()"""
    )
    assert base64.b64decode(png)[:8] == b"\x89PNG\r\n\x1a\n"


@needs_browser
def test_nothing_is_loaded_and_nothing_fails(page, fresh):
    assert [urlsplit(url).scheme for url in fresh.requests if not url.startswith("data:")] == ["file"]
    assert fresh.problems == []
    with Browser(page, width=390, height=844) as phone:
        for dark in (False, True):
            phone.prefer(dark=dark)
            assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        # The score is in view while a point at the bottom of the chart is dragged.
        x, y = middle(phone, 2)
        top, bottom = phone.evaluate(
            "(() => { const b = document.getElementById('bar').getBoundingClientRect(); return [b.top, b.bottom]; })()"
        )
        assert 0 <= top < bottom <= 844
        before = edits(phone)
        phone.drag((x, y), (x, y - 25))
        assert edits(phone) != before
        assert phone.problems == []


@needs_browser
def test_classes_and_hostile_names(tmp_path):
    table = pd.DataFrame({name: RANDOM.normal(size=300) for name in HOSTILE})
    labels = np.array([HOSTILE[0], HOSTILE[1], "c"])[
        np.digitize(table.iloc[:, 0] + RANDOM.normal(size=300), [-0.5, 0.5])
    ]
    model = kw.AdditiveClassifier(size=6).fit(table, labels)
    page = kw.explore_model(model, table[:100], pd.Series(labels[:100], name=HOSTILE[2]), name=HOSTILE[3])
    with Browser(page.save(tmp_path / "page.html"), calm=True) as opened:
        before = opened.evaluate("knotwork.page.score()")["before"]
        assert before == pytest.approx(model.with_edits(json.loads(edits(opened)), table[:100], labels[:100])
                                       .edit_scores_.before)  # fmt: skip
        for fit in (0, 2):
            set_range(opened, "fit-class", fit, "change")
            press(opened, "Flat")
        content = json.loads(edits(opened))
        assert [curve["class"] for curve in content["curves"]] == sorted(model.classes_.tolist())[::2]
        edited = model.with_edits(content, table[:100], labels[:100])
        assert edited.edit_scores_.after == pytest.approx(score(opened)["after"], abs=1e-9)
        assert opened.evaluate("window.broken === undefined")
        assert opened.evaluate("document.querySelectorAll('img, main script').length") == 0
        assert opened.problems == []


def test_mistakes_are_explained():
    with pytest.raises(TypeError, match="AdditiveRegressor or AdditiveClassifier"):
        kw.explore_model(X, Y)
    with pytest.raises(ValueError, match="be given together"):
        kw.explore_model(MODEL, X)
    with pytest.raises(ValueError, match="one value for each"):
        kw.explore_model(MODEL, X[:10], Y[:9])
    towns = kw.AdditiveRegressor().fit(X[["town"]], Y)
    with pytest.raises(ValueError, match="have a curve of a number"):
        kw.explore_model(towns)
    classifier = kw.AdditiveClassifier(size=5).fit(X[["wave"]], LABELS)
    with pytest.raises(ValueError, match="have classes of the model"):
        kw.explore_model(classifier, X[["wave"]], np.full(500, "zebra"))
    assert kw.explore_model(classifier).finding == "1 curve can be edited"
