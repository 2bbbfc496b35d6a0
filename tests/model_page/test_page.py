"""The page of a model in a real browser: its predictions against `predict`, and what a reader can do."""

import json
from urllib.parse import quote, urlsplit

import numpy as np
import pytest

import knotwork as kw
from tests.explore.cases import HOSTILE
from tests.model_page.cases import fitted, hostile, tables
from tests.report.chromium import CHROMIUM, Browser

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page of a model was not opened in a browser"),
    pytest.mark.xdist_group("model page"),
]

DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
LARGEST_PAGE = 1_000_000


def opened_page(folder, name, kind="network"):
    X, y, model = fitted(name, kind)
    return X, y, model, model.report(folder / f"{name} {kind}.html")


@pytest.fixture(scope="module")
def dates(tmp_path_factory):
    return opened_page(tmp_path_factory.mktemp("model_page"), "dates")


@pytest.fixture(scope="module")
def browser(dates):
    with Browser(dates[3], calm=True) as opened:
        yield opened


@pytest.fixture
def fresh(browser):
    """The page in its first state; it reads an address again only after another one."""
    browser.go_to("#row=2")
    browser.go_to("#row=1")
    return browser


def answers(model, X):
    """Return predictions, or probabilities of all classes, of shape (n, n_outputs)."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)[:, None]


@pytest.mark.parametrize("kind", ["network", "additive"])
@pytest.mark.parametrize("name", tables())
def test_the_page_predicts_as_the_model(tmp_path, name, kind):
    """The rows of the table are given, so that those of the page are known."""
    X, y, model = fitted(name, kind)
    path = model.report(tmp_path / "page.html", X[:200], y[:200])
    assert path.stat().st_size <= LARGEST_PAGE
    with Browser(path) as opened:
        assert opened.problems == []
        assert {urlsplit(url).scheme for url in opened.requests} <= {"file", "data"}  # Chromium draws its calendar so
        page = opened.evaluate(
            "({rows: modelPage.data.rows.place, shown: modelPage.data.shown, isExact: modelPage.predictor.isExact})"
        )
        predicted = np.array(opened.evaluate("modelPage.predictRows()"))
        sums = np.array(opened.evaluate("modelPage.data.rows.values.map((_, i) => modelPage.contributionsOf(i))")).sum(
            axis=1
        )
    assert page["isExact"]
    assert sorted(page["rows"]) == list(range(200))
    expected = answers(model, X[:200])[page["rows"]][:, page["shown"]]
    np.testing.assert_allclose(predicted, expected, rtol=1e-5, atol=1e-5)
    if name != "classes":  # contributions and the baseline add up to the prediction
        np.testing.assert_allclose(sums, expected[:, 0], rtol=1e-4, atol=1e-3)


def test_edited_curves_are_those_of_the_page(tmp_path):
    X, y, model = fitted("two columns", "additive")
    curve = {"column": "wave", "points": [[0.0, 30.0], [2.0, 30.0], [6.0, -30.0]]}
    edited = model.with_edits({"format": "knotwork edits 1", "curves": [curve]})
    assert "edited by hand" not in model.report(tmp_path / "before.html").read_text(encoding="utf-8")
    with Browser(edited.report(tmp_path / "page.html")) as opened:
        predicted = np.array(opened.evaluate("modelPage.predictRows()"))[:, 0]
        places = opened.evaluate("modelPage.data.rows.place")
        model_error = opened.evaluate("modelPage.data.errors.find(each => each.isModel).error")
        assert "edited by hand" in opened.evaluate("document.getElementById('caution').textContent")
        assert opened.problems == []
    np.testing.assert_allclose(predicted, edited.predict(X.iloc[places]), rtol=1e-5, atol=1e-5)
    assert model_error == pytest.approx(np.sqrt(np.mean((edited.predict(X) - y) ** 2)), rel=1e-6)


def test_a_large_model_is_shown_by_curves_with_their_fidelity(tmp_path, monkeypatch):
    monkeypatch.setattr("knotwork._model_page._page.MOST_BYTES", 1000)
    _, _, _, path = opened_page(tmp_path, "text")
    with Browser(path) as opened:
        tables = opened.evaluate("modelPage.data.tables")
        note = opened.evaluate("document.getElementById('row-note').textContent")
        assert not opened.evaluate("modelPage.predictor.isExact")
        assert opened.problems == []
        stored = np.array(opened.evaluate("modelPage.data.rows.predictions"))[:, 0]
        shown = np.array(opened.evaluate("modelPage.predictRows()"))[:, 0]
        first = opened.evaluate("document.getElementById('prediction').textContent")
    assert not tables["exact"]
    assert "too large" in note
    assert 0.5 < tables["fidelity"] <= 1.0
    share = 1.0 - ((stored - shown) ** 2).sum() / ((stored - stored.mean()) ** 2).sum()
    assert share > tables["fidelity"] - 0.2  # of rows of the fit and others together
    assert float(first.replace("\N{MINUS SIGN}", "-")) == pytest.approx(stored[0], rel=2e-3)


def test_the_address_keeps_column_row_and_changes(fresh):
    fresh.go_to(f"#column={quote('written')}&row=5&line=1")
    assert fresh.evaluate("document.getElementById('column-name').textContent") == "written"
    assert fresh.evaluate("document.getElementById('row').value") == "5"
    assert fresh.evaluate("document.querySelector('svg .straight') !== null")
    place = fresh.evaluate("modelPage.data.columns.findIndex(each => each.name === 'slope')")
    key = fresh.evaluate(f"modelPage.data.columns[{place}].place")
    fresh.go_to(f"#row=5&v{key}=1.25")
    assert fresh.evaluate(f"modelPage.view.values[{place}]") == 1.25
    assert fresh.evaluate("!document.getElementById('reset').hidden")
    assert f"v{key}=1.25" in fresh.evaluate("location.hash")
    fresh.go_to("#column=%3Cb%3E&row=9999&v0=x&output=7")  # what does not exist is as if it were not there
    assert fresh.evaluate("[modelPage.view.column, modelPage.view.row, modelPage.view.output]") == [0, 0, 0]
    assert fresh.problems == []


def test_typing_changes_the_prediction_to_that_of_the_model(dates, fresh):
    X, _, model, _ = dates
    i = fresh.evaluate("modelPage.data.columns.findIndex(each => each.name === 'slope')")
    before = fresh.evaluate("document.getElementById('prediction').textContent")
    fresh.click(f"#value-{i}")
    fresh.evaluate(f"document.getElementById('value-{i}').select()")
    fresh.type("1.5")
    fresh.evaluate(DRAWN)
    shown = fresh.evaluate("document.getElementById('prediction').textContent")
    assert shown != before
    names = fresh.evaluate("modelPage.data.columns.map(each => each.name)")
    row = dict(zip(names, fresh.evaluate("modelPage.view.values"), strict=True))
    changed = X.iloc[:1].assign(wave=row["wave"], slope=1.5)
    for name in ("sold", "written"):
        day = np.datetime64(int(row[name]), "D").astype("datetime64[ns]")
        changed[name] = day if name == "sold" else f"{day.astype('datetime64[D]').item():%d/%m/%Y}"
    assert float(shown.replace("\N{MINUS SIGN}", "-").replace(",", "")) == pytest.approx(
        model.predict(changed)[0], rel=1e-3
    )
    fresh.evaluate(f"document.getElementById('value-{i}').select()")
    fresh.type("nonsense")
    fresh.evaluate(DRAWN)
    assert fresh.evaluate(f"document.getElementById('value-{i}').getAttribute('aria-invalid')") == "true"
    assert fresh.evaluate(f"modelPage.view.values[{i}]") == 1.5


def test_a_slider_moves_the_dots(fresh):
    i = fresh.evaluate("modelPage.data.columns.findIndex(each => each.name === 'wave')")
    fresh.go_to("#row=1&column=wave")
    mini = f"document.querySelectorAll('#list button')[{i}].querySelector('.mini-row')"
    dots = f"[document.querySelector('#effect .row-dot'), {mini}].map(each => each.getAttribute('d'))"
    before = fresh.evaluate(dots)
    fresh.evaluate(
        f"""(() => {{ const slider = document.querySelector('#inputs input[type=range][data-column="{i}"]');
            slider.value = Number(slider.value) < 3 ? 5 : 1;
            slider.dispatchEvent(new Event("input", {{bubbles: true}})); }})()"""
    )
    fresh.evaluate(DRAWN)
    after = fresh.evaluate(dots)
    assert all(old != new for old, new in zip(before, after, strict=True))


def test_a_reader_needs_no_mouse(fresh):
    fresh.evaluate("document.querySelector('#list button').focus()")
    fresh.press("ArrowDown")
    assert fresh.evaluate("modelPage.view.column") == 1
    assert fresh.evaluate("document.activeElement === document.querySelectorAll('#list button')[1]")
    fresh.evaluate("document.getElementById('effect').focus()")
    fresh.press("ArrowRight")
    first = fresh.evaluate("document.getElementById('reading').textContent")
    assert "on average" in first
    fresh.press("ArrowRight")
    assert fresh.evaluate("document.getElementById('reading').textContent") != first
    assert fresh.evaluate("document.querySelectorAll('#effect .hover .line').length > 5")  # single rows
    fresh.evaluate("document.getElementById('effect').blur()")
    assert fresh.evaluate("document.querySelectorAll('#effect .hover *').length") == 0
    fresh.evaluate("document.querySelector('#cards button.link').focus()")
    row = int(fresh.evaluate("document.activeElement.dataset.row"))
    fresh.click("#cards button.link")
    assert fresh.evaluate("modelPage.view.row") == row


AXE = """(() => {
    const problems = [], every = (selector) => Array.from(document.querySelectorAll(selector));
    const named = each => each.getAttribute("aria-label") || each.getAttribute("aria-labelledby")
        || (each.labels && each.labels.length) || each.textContent.trim();
    const note = (what, each) => problems.push(`${what}: ${each.outerHTML.slice(0, 80)}`);
    for (const each of every("button, input, select, a[href]")) if (!named(each)) note("no name", each);
    for (const each of every("svg[role=img]")) if (!named(each) && each.checkVisibility()) note("no label", each);
    for (const each of every("[tabindex]")) if (each.tabIndex > 0) note("order", each);
    const ids = every("[id]").map(each => each.id), levels = every("h1, h2, h3").map(each => Number(each.tagName[1]));
    if (new Set(ids).size !== ids.length) problems.push("an id twice");
    if (levels[0] !== 1 || levels.some((level, i) => i && level > levels[i - 1] + 1)) problems.push("headings");
    if (!document.documentElement.lang || !document.title) problems.push("language or title");
    for (const name of ["header", "main", "nav", "footer"]) if (every(name).length !== 1) problems.push(name);
    const parse = text => text.match(/[0-9.]+/g).map(Number);
    const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const ground = each => {
        for (let at = each; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length < 4 || colour[3] > 0) return colour;
        }
        return [255, 255, 255]; };
    for (const each of every("p, h1, h2, h3, button, label, td, th, dt, dd, li, span, text")) {
        if (!each.checkVisibility() || !each.textContent.trim() || each.closest(".unseen")) continue;
        const style = getComputedStyle(each), ink = parse(each.tagName === "text" ? style.fill : style.color);
        const [a, b] = [light(ink), light(ground(each))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) note("contrast", each);
    }
    return problems; })()"""


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_is_accessible(browser, dark):
    browser.prefer(dark=dark, calm=True)
    browser.evaluate(DRAWN)
    assert browser.evaluate(AXE) == []
    browser.prefer(dark=False, calm=True)


def test_a_phone_does_not_scroll_sideways(dates):
    with Browser(dates[3], width=390, height=844) as phone:
        for dark in (False, True):
            phone.prefer(dark=dark)
            assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        for i in range(4):
            phone.click(f"#list li:nth-child({i + 1}) button")
            assert phone.evaluate("document.documentElement.scrollWidth") <= 390
            assert phone.evaluate("document.querySelector('#effect .curve').getBoundingClientRect().right") <= 390
        assert phone.problems == []


def test_the_page_is_ready_at_once(dates):
    """Its own work is a small part of a second; the limit is generous, because other tests run beside this one."""
    with Browser(dates[3]) as opened:
        assert opened.evaluate("modelPage.isReady")
        assert opened.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") < 30_000


@pytest.mark.parametrize("name", ["errors", "effect", "row"])
def test_pictures_have_title_score_and_source(fresh, name):
    text = fresh.evaluate(f"modelPage.picture({json.dumps(name)})")
    assert text.startswith("<svg")
    assert "var(--" not in text
    assert "R²" in text
    assert kw.__version__ in text
    size = fresh.evaluate(
        f"""(async () => {{ const image = new Image();
            image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(modelPage.picture({json.dumps(name)}));
            await image.decode(); return [image.width, image.height]; }})()"""
    )
    assert min(size) > 100


def test_classes_can_be_chosen(tmp_path):
    _, _, model, path = opened_page(tmp_path, "classes")
    with Browser(path, calm=True) as opened:
        shares = []
        for place in range(3):
            choose = "box.dispatchEvent(new Event('change'))"
            opened.evaluate(
                f"(() => {{ const box = document.getElementById('output'); box.value = {place}; {choose}; }})()"
            )
            opened.evaluate(DRAWN)
            text = opened.evaluate("document.getElementById('prediction').textContent")
            shares.append(float(text.strip("<> %")))
            heading = opened.evaluate("document.querySelector('#effect text').textContent")
            assert heading.startswith("Probability that kind is")
        assert sum(shares) == pytest.approx(100.0, abs=0.3)
        assert opened.evaluate("Array.from(document.getElementById('output').options, each => each.text)") == [
            str(model.classes_[place]) for place in opened.evaluate("modelPage.data.shown")
        ]
        assert opened.problems == []


@pytest.mark.parametrize("kind", ["network", "additive"])
def test_hostile_names_are_text(tmp_path, kind):
    X, y = hostile()
    training = kw.TrainingConfig(max_epochs=2)
    network = kw.TabularClassifier(
        "PLE@6", kw.nn.MLPConfig(widths=(8,)), training=training, random_state=0, device="cpu"
    )
    model = (network if kind == "network" else kw.AdditiveClassifier()).fit(X, y)
    with Browser(model.report(tmp_path / "page.html"), calm=True) as opened:
        for i in range(len(X.columns)):
            opened.click(f"#list li:nth-child({i + 1}) button")
        assert opened.evaluate("window.broken === undefined")
        assert opened.evaluate("document.querySelectorAll('img, main script, header script').length") == 0
        names = opened.evaluate("Array.from(document.querySelectorAll('#list .name'), each => each.textContent)")
        assert set(names) == set(X.columns)
        for name in ("errors", "effect", "row"):
            assert "<script" not in opened.evaluate(f"modelPage.picture('{name}')")
        predicted = np.array(opened.evaluate("modelPage.predictRows()"))
        assert predicted.shape[1] == 1
        assert opened.problems == []
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!DOCTYPE html><meta charset=utf-8><title>Notebook</title>{model._repr_html_()}")
    with Browser(notebook) as opened:
        assert opened.evaluate("window.broken === undefined && document.querySelectorAll('img').length === 0")
        assert HOSTILE[2] in opened.evaluate("document.body.textContent")


def test_a_loaded_model_says_what_it_leaves_out(tmp_path):
    X, y, model, _ = opened_page(tmp_path, "numbers")
    model.save(tmp_path / "model.knotwork")
    loaded = kw.load(tmp_path / "model.knotwork")
    with Browser(loaded.report(tmp_path / "loaded.html")) as opened:
        assert "report(path, X, y)" in opened.evaluate("document.getElementById('score').textContent")
        assert opened.evaluate("document.getElementById('strip-panel').hidden")
        assert opened.evaluate("modelPage.data.rows") is None
        assert opened.problems == []
    with Browser(loaded.report(tmp_path / "given.html", X, y)) as opened:
        assert "R²" in opened.evaluate("document.getElementById('score').textContent")
        assert opened.evaluate("document.querySelectorAll('#errors .dot').length") == 4
        assert opened.problems == []


def test_a_page_prints(browser, dates):
    """Paper has neither buttons that do nothing nor boxes with rows that cannot be reached."""
    browser._call("Emulation.setEmulatedMedia", media="print")
    hidden = browser.evaluate(
        "Array.from(document.querySelectorAll('button.picture, #copy')).every(each => !each.checkVisibility())"
    )
    browser._call("Emulation.setEmulatedMedia", media="")
    assert hidden
