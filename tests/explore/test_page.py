"""The page in a real browser: its mathematics against this library's and scikit-learn's, and what a reader can do."""

import json
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import knotwork as kw
from knotwork._explore._prepare import PageRule
from tests.explore.cases import HOSTILE, difficult_table, easy_table
from tests.report.chromium import CHROMIUM, Browser

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the explorer was not opened in a browser"),
    pytest.mark.xdist_group("explorer"),  # one page, and one browser for most tests
]

SETTLED = "new Promise(done => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 20))"
STATE = """({knots: knotwork.page.knots(), score: knotwork.page.fit().score.main, hash: location.hash,
             line: document.getElementById("line").textContent,
             size: knotwork.page.fit().model.coefficients.length})"""


@pytest.fixture(scope="module")
def table():
    return easy_table()


@pytest.fixture(scope="module")
def page(table, tmp_path_factory):
    return kw.explore(*table, name="hills.csv").save(tmp_path_factory.mktemp("explore") / "page.html")


@pytest.fixture(scope="module")
def browser(page):
    with Browser(page, calm=True) as opened:  # knots jump: tests need not wait for them
        yield opened


@pytest.fixture
def fresh(browser):
    """The page in its first state; it reads an address again only after another one."""
    browser.go_to("#column=1&ridge=1")
    browser.go_to("#column=0&ridge=1")
    assert len(state(browser)["knots"]) == 11
    return browser


def state(browser):
    return browser.evaluate(STATE)


def handle(browser, k):
    """Return the middle of the handle of a knot, on the screen."""
    return browser.evaluate(
        f"""(() => {{ const handle = document.querySelectorAll(".knot .handle")[{k}];
            document.getElementById("chart").scrollIntoView({{block: "end", behavior: "instant"}});
            const box = handle.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"""
    )


def set_value(browser, name, value, event):
    """Set the value of a control, as a reader does with a slider or a list of choices."""
    browser.evaluate(
        f"""(() => {{ const control = document.getElementById("{name}"); control.value = {value};
            control.dispatchEvent(new Event("{event}")); }})()"""
    )


def is_ordered(knots):
    return all(low < high for low, high in zip([0.0, *knots], [*knots, 1.0], strict=True))


def random_cases(n_cases):
    random = np.random.default_rng(0)
    for case in range(n_cases):
        family = ("bspline", "mspline", "ispline", "ple")[case % 4]
        knots = np.sort(random.uniform(size=int(random.integers(0, 27))))
        x = np.concatenate([random.uniform(size=5), knots[:3], [0.0, 1.0]])
        yield {"family": family, "x": x.tolist(), "knots": knots.tolist(), "degree": int(random.integers(0, 5))}


def test_bases_are_those_of_the_library(browser):
    cases = list(random_cases(200))
    computed = browser.evaluate(
        f"""{json.dumps(cases)}.map(({{family, x, knots, degree}}) =>
            Array.from(knotwork.design(family, x, knots, degree).rows))"""
    )
    for case, rows in zip(cases, computed, strict=True):
        expected = kw.basis.evaluate(case["family"], case["x"], case["knots"], degree=case["degree"])
        np.testing.assert_allclose(np.reshape(rows, expected.shape), expected, rtol=1e-10, atol=1e-10)


def test_encodings_are_those_of_the_encoders(browser):
    """M-splines have the heights of the encoders, on the domain scaled to [0, 1], also beside an outlier."""
    x = np.append(np.random.default_rng(0).normal(size=300), 1e9)
    encoder = kw.SplineEncoder("mspline", 9, dtype=np.float64).fit(x[:, None])
    low, high = encoder.domain_[0]
    knots, points = ((values - low) / (high - low) for values in (encoder.knots_[0], x))
    rows = browser.evaluate(
        f"Array.from(knotwork.design('mspline', {json.dumps(points.tolist())}, {json.dumps(knots.tolist())}, 3).rows)"
    )
    np.testing.assert_allclose(np.reshape(rows, (-1, 9)), encoder.transform(x[:, None]), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("penalty", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("family", ["bspline", "mspline", "ispline", "ple"])
def test_fits_are_those_of_scikit_learn(browser, family, penalty):
    random = np.random.default_rng(3)
    x, weights = np.sort(random.uniform(size=120)), random.integers(1, 30, size=120).astype(float)
    knots = [0.1, 0.3, 0.35, 0.8]
    rows = kw.basis.evaluate(family, x, knots)
    y, shares = np.sin(6 * x) + 0.2 * random.normal(size=120), random.binomial(20, 0.2 + 0.6 * x) / 20
    fitted = browser.evaluate(
        f"""(() => {{ const {{rows, size}} = knotwork.design("{family}", {json.dumps(x.tolist())}, {knots}, 3),
            weights = {json.dumps(weights.tolist())}, flat = fit => [fit.intercept, ...fit.coefficients, fit.freedom];
            return [flat(knotwork.ridge(rows, size, weights, {json.dumps(y.tolist())}, {penalty})),
                    ...[null, {{intercept: 5, coefficients: new Float64Array(size).fill(1e3)}}].map(start => flat(
                        knotwork.logistic(rows, size, weights, {json.dumps(shares.tolist())}, {penalty}, start)))];
            }})()"""
    )
    ridge = Ridge(alpha=penalty, solver="cholesky", tol=1e-12).fit(rows, y, sample_weight=weights)
    np.testing.assert_allclose(fitted[0][:-1], [ridge.intercept_, *ridge.coef_], rtol=1e-6, atol=1e-6)
    centred = rows - np.average(rows, axis=0, weights=weights)
    products = centred.T @ (weights[:, None] * centred)
    trace = np.trace(np.linalg.solve(products + penalty * np.eye(rows.shape[1]), products))
    assert fitted[0][-1] == pytest.approx(1 + trace, rel=1e-6)
    model = LogisticRegression(C=1 / penalty, solver="newton-cholesky", tol=1e-12, max_iter=500)
    model.fit(np.tile(rows, (2, 1)), np.repeat([1, 0], 120),
              sample_weight=np.concatenate([weights * shares, weights * (1 - shares)]))  # fmt: skip
    for one in fitted[1:]:  # a start far away, as from another family, must not matter
        np.testing.assert_allclose(one[:-1], [*model.intercept_, *model.coef_[0]], rtol=1e-4, atol=1e-5)


def test_the_additive_model_is_the_joint_fit(browser):
    random = np.random.default_rng(5)
    codes = random.integers(0, 20, size=(2, 400))
    points = np.linspace(0, 1, 20)
    rows = [kw.basis.evaluate("bspline", points, [0.5]), kw.basis.evaluate("ispline", points, [0.4])]
    y = np.sin(4 * points[codes[0]]) + points[codes[1]] ** 2 + 0.1 * random.normal(size=400)
    predicted = browser.evaluate(
        f"""(() => {{ const model = new knotwork.Additive(Float64Array.from({json.dumps(y.tolist())}), false, 1);
            const rows = {json.dumps([each.ravel().tolist() for each in rows])};
            {json.dumps(codes.tolist())}.forEach((codes, i) =>
                model.setTerm(i, codes, 20, Float64Array.from(rows[i]), 5));
            if (!model.run(5000, 1e-10)) throw new Error("not converged");
            return Array.from(model.eta); }})()"""
    )
    design = np.hstack([each[code] for each, code in zip(rows, codes, strict=True)])
    np.testing.assert_allclose(predicted, Ridge(alpha=1.0).fit(design, y).predict(design), atol=1e-6)


def test_scores_are_those_of_a_fit_in_python(table, fresh):
    X, y = table
    from knotwork._explore._prepare import draw_split

    training, held_out = draw_split(len(y), 0)
    encoder = kw.make_encoder("BS-Q", size=15).fit(X[["wave"]].iloc[training])
    rows = encoder.transform(X[["wave"]])
    score = Ridge(alpha=1.0).fit(rows[training], y[training]).score(rows[held_out], y[held_out])
    assert state(fresh)["score"] == pytest.approx(score, abs=0.01)  # 255 groups stand for 600 rows


def test_dragging_a_knot(fresh):
    before = state(fresh)
    x, y = handle(fresh, 5)
    fresh.drag((x, y), (x + 25, y))
    after = state(fresh)
    assert is_ordered(after["knots"])
    assert after["knots"][5] > before["knots"][5]
    np.testing.assert_allclose(after["knots"][:5], before["knots"][:5], atol=1e-4)  # rounded to sensible digits
    assert after["score"] != before["score"]
    assert "FixedPlacement" in after["line"]
    x, y = handle(fresh, 5)
    fresh.drag((x, y), (x + 900, y))  # past its neighbours: it stays between them
    assert is_ordered(state(fresh)["knots"])
    assert len(state(fresh)["knots"]) == 11


def test_a_double_click_adds_and_delete_removes(fresh):
    before = state(fresh)
    (left, y), (right, _) = handle(fresh, 5), handle(fresh, 6)
    fresh.double_click((left + right) / 2, y - 250)
    added = state(fresh)
    assert len(added["knots"]) == 12
    assert added["size"] == 16
    assert is_ordered(added["knots"])
    assert added["score"] != before["score"]
    fresh.press("Delete")  # the new knot has the focus
    np.testing.assert_allclose(state(fresh)["knots"], before["knots"], atol=1e-4)
    for _ in range(11):
        fresh.press("Delete")
    assert state(fresh)["knots"] == []
    assert state(fresh)["size"] == 4


def test_buttons_add_and_remove(fresh):
    """For readers with a finger only."""
    before = state(fresh)
    fresh.click("#add-knot")
    added = state(fresh)["knots"]
    assert len(added) == 12
    assert is_ordered(added)
    fresh.click("#remove-knot")  # the knot that was touched last
    np.testing.assert_allclose(state(fresh)["knots"], before["knots"], atol=1e-4)


def test_the_keyboard_moves_knots_and_says_so(fresh):
    focused = """(() => { const knot = document.activeElement; return [knot.getAttribute("role"),
        knot.getAttribute("aria-valuetext"), Number(knot.getAttribute("aria-valuenow"))]; })()"""
    before = state(fresh)
    fresh.evaluate('document.querySelectorAll(".knot")[3].focus()')
    role, text, value = fresh.evaluate(focused)
    assert role == "slider"
    assert text.startswith("wave ")
    fresh.press("ArrowRight")
    assert state(fresh)["knots"][3] == pytest.approx(before["knots"][3] + 0.01, abs=1e-4)
    fresh.press("ArrowLeft", shift=True)
    assert state(fresh)["knots"][3] == pytest.approx(before["knots"][3] + 0.009)
    _, new_text, new_value = fresh.evaluate(focused)
    assert new_value > value
    assert new_text != text
    assert state(fresh)["score"] != before["score"]
    for _ in range(30):
        fresh.press("ArrowRight")
    assert is_ordered(state(fresh)["knots"])


def test_the_address_restores_the_state(page, fresh):
    fresh.evaluate('document.querySelectorAll(".knot")[2].focus()')
    fresh.press("ArrowRight")
    fresh.click("#family button[data-value=ispline]")
    fresh.evaluate(SETTLED)
    here = state(fresh)
    with Browser(page, calm=True) as other:
        other.go_to(here["hash"])
        restored = state(other)
        assert restored == here
        other.go_to("#column=99&ridge=x&e0=nothing.7&e1=ple.custom.3.3.9_-1_abc&e2=bspline.lgbm.8.9")
        assert is_ordered(state(other)["knots"])
        assert other.problems == []


@pytest.mark.parametrize("family", ["bspline", "mspline", "ispline", "ple"])
def test_every_choice_has_its_knots(fresh, family):
    fresh.click(f"#family button[data-value={family}]")
    sizes = (7, 30, 7, 30) if family in ("bspline", "ispline") else (30, 7, 30, 7)  # each placement has either size
    for placement, size in zip(("uniform", "quantile", "cart", "lgbm"), sizes, strict=True):
        fresh.click(f"#placement button[data-value={placement}]")
        fresh.click(f"#size button[data-value='{size}']")
        fresh.evaluate(SETTLED)
        now = state(fresh)
        assert is_ordered(now["knots"])
        assert now["size"] == size or (family, placement) == ("ple", "cart")
        encoder = eval(now["line"], {"kw": kw})
        assert encoder.size == size


@pytest.mark.slow  # what they end in is compared in other tests
def test_placements_and_learning_are_animated(page):
    """Knots pass through places between the old and the new ones, in order."""
    # The page sees a clock on which a frame takes 40 ms, so that a busy machine shows the same as an idle one.
    clock = """(() => { let now = performance.now(); const draw = window.requestAnimationFrame.bind(window);
        performance.now = () => now += 0.001;
        window.requestAnimationFrame = step => draw(() => step(now));
        window.tick = () => new Promise(done => draw(() => { now += 40; done(); })); })()"""
    watch = """(async (id) => { const seen = []; document.querySelector(id).click();
        for (let i = 0; i < 400 && new Set(seen.slice(-20).map(String)).size !== 1 || i < 30; i++) {
            await tick(); seen.push(knotwork.page.knots()); }
        return seen; })"""
    with Browser(page) as opened:
        opened.evaluate(clock)
        for button in ("#placement button[data-value=uniform]", "#learn"):
            seen = opened.evaluate(f"{watch}({json.dumps(button)})")
            assert len(set(map(str, seen))) > 3
            assert all(is_ordered(knots) for knots in seen)
        assert "learned" in opened.evaluate("location.hash")
        assert opened.problems == []


def test_learn_shows_the_path(fresh):
    before = state(fresh)
    fresh.click("#learn")
    learned = state(fresh)
    assert is_ordered(learned["knots"])
    assert learned["knots"] != before["knots"]
    assert "learned" in learned["hash"]
    set_value(fresh, "frame", 0, "input")
    np.testing.assert_allclose(state(fresh)["knots"], np.arange(1, 12) / 12, atol=1e-4)


def test_hover_shows_all_panels(fresh):
    x, y = handle(fresh, 5)
    fresh.hover(x + 3, y - 300)
    readouts = fresh.evaluate("Array.from(document.querySelectorAll('.readout'), each => each.textContent)")
    assert readouts[0].startswith("x = ")
    assert "fit" in readouts[0]
    assert readouts[1].count("=") >= 3
    assert "rows within" in readouts[2]
    assert "residuals" in readouts[3]


def test_all_columns_fit_better_than_one(fresh):
    one = state(fresh)["score"]
    fresh.click("#all")
    fresh.wait_until(f"knotwork.page.fit().score.main > {one + 0.1}")  # the joint fit goes on from frame to frame
    assert "additive" in fresh.evaluate("document.getElementById('claim').textContent")
    fresh.click("#all")
    assert state(fresh)["score"] == pytest.approx(one)
    assert "one column" in fresh.evaluate("document.getElementById('claim').textContent")


def test_the_mapping_is_an_encoder_with_the_knots_of_the_page(table, fresh):
    fresh.evaluate('document.querySelectorAll(".knot")[2].focus()')
    fresh.press("ArrowRight")
    names = {}
    exec(fresh.evaluate("knotwork.page.mappingCode()"), names)
    encoder = names["encoder"].fit(table[0][["wave", "slope", "noise"]], table[1])
    low, high = np.array(fresh.evaluate("knotwork.page.data.columns[0].domain"))
    np.testing.assert_allclose((encoder.knots_[0] - low) / (high - low), state(fresh)["knots"], atol=1e-9)
    assert [len(knots) for knots in encoder.knots_] == [11, 11, 11]


def test_the_page_can_be_saved_with_its_state(page, fresh):
    fresh.click("#family button[data-value=ple]")
    fresh.evaluate(SETTLED)
    here, copy = state(fresh), page.with_name("copy.html")
    copy.write_text(fresh.evaluate("knotwork.page.pageText()"))
    with Browser(copy) as other:
        assert state(other)["knots"] == here["knots"]
        assert other.problems == []
    svg = fresh.evaluate("knotwork.page.svgText()")
    assert svg.startswith("<svg")
    assert "rgb" in svg
    assert "var(--" not in svg.replace("--hue", "")


def test_nothing_is_loaded_and_nothing_fails(page, fresh):
    assert [urlsplit(url).scheme for url in fresh.requests] == ["file", "data"]  # the second one is the logo
    assert fresh.problems == []
    assert fresh.evaluate("document.querySelectorAll('*').length") <= 3_000


@pytest.mark.usefixtures("no_learning")
def test_a_notebook_shows_the_page_in_a_frame(table, tmp_path):
    notebook = tmp_path / "notebook.html"
    frame = kw.explore(table[0][["wave"]], table[1])._repr_html_()
    notebook.write_text(f"<!DOCTYPE html><meta charset=utf-8><title>Notebook</title>{frame}")
    with Browser(notebook) as opened:
        shown = opened.evaluate_in_frame("[knotwork.page.isReady, document.querySelectorAll('.knot').length]")
        assert shown == [True, 11]
        assert opened.problems == []


def test_a_phone_does_not_scroll_sideways(page):
    with Browser(page, width=380, height=800) as phone:
        for dark in (False, True):
            phone.prefer(dark=dark)
            assert phone.evaluate("document.documentElement.scrollWidth") <= 380
            assert phone.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light dark"
        assert phone.problems == []


@pytest.fixture
def no_learning(monkeypatch):
    """Pages without learned knots, which take most of the time."""
    monkeypatch.setattr("knotwork._explore._prepare.PAGE", PageRule(learning_seconds=-1.0))


def visit_all_columns(opened):
    """Choose every column and family; return the scores."""
    return opened.evaluate(
        """(async () => { const scores = {}, wait = () => new Promise(done => requestAnimationFrame(done));
            for (const [i, column] of knotwork.page.data.columns.entries()) {
                document.querySelector(`#list button[data-index="${i}"]`).click();
                for (const family of ["bspline", "mspline", "ispline", "ple"]) {
                    document.querySelector(`#family button[data-value=${family}]`).click();
                    await wait();
                }
                scores[column.name] = knotwork.page.fit().score.main;
            }
            return scores; })()"""
    )


@pytest.mark.usefixtures("no_learning")
@pytest.mark.parametrize("task", ["regression", pytest.param("classification", marks=pytest.mark.slow)])
def test_difficult_columns(tmp_path, task):
    X, y = difficult_table()
    target = y if task == "regression" else y.gt(0).map({True: "yes", False: "no"})
    with Browser(kw.explore(X, target).save(tmp_path / "page.html"), calm=True) as opened:
        scores = visit_all_columns(opened)
        assert opened.problems == []
        text = opened.evaluate("document.getElementById('chart').outerHTML")
    assert "NaN" not in text
    assert "Infinity" not in text
    assert scores["missing"] > 0.2
    floor = 0.0 if task == "regression" else 0.5
    assert scores["constant"] == pytest.approx(floor, abs=0.05)
    assert scores["outlier"] > floor + 0.2  # by quantile knots: on equal distances all rows are one
    assert scores["huge"] == pytest.approx(scores["tiny"], abs=0.02)


@pytest.mark.usefixtures("no_learning")
def test_three_rows(tmp_path):
    path = kw.explore(pd.DataFrame({"a": [1.0, 2.0, 4.0]}), [1.0, 0.5, 2.0]).save(tmp_path / "page.html")
    with Browser(path) as opened:
        visit_all_columns(opened)
        assert opened.problems == []
        assert "needs held-out rows" in opened.evaluate("document.getElementById('scores').textContent")
        assert "on 2 random rows" in opened.evaluate("document.getElementById('claim').textContent")


@pytest.mark.usefixtures("no_learning")
def test_many_columns_and_classes(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 250))
    classes = np.digitize(X[:, 7] + 0.5 * random.normal(size=120), [-0.5, 0.5])
    path = kw.explore(X, np.array(["a", "b", "c"])[classes]).save(tmp_path / "page.html")
    with Browser(path) as opened:
        assert opened.evaluate("document.querySelectorAll('*').length") <= 3_000
        assert opened.evaluate("document.getElementById('column-name').textContent") == "7"
        before = state(opened)["score"]
        set_value(opened, "positive-class", 1, "change")
        assert state(opened)["score"] != before
        set_value(opened, "positive-class", 0, "change")
        assert "class=0" in state(opened)["hash"]
        assert opened.problems == []


@pytest.mark.usefixtures("no_learning")
def test_hostile_names_are_text(tmp_path):
    random = np.random.default_rng(0)
    X = pd.DataFrame({name: random.normal(size=60) for name in HOSTILE} | {"town": [HOSTILE[0]] * 60})
    y = pd.Series(np.where(X.iloc[:, 0] > 0, HOSTILE[1], "other"), name=HOSTILE[2])
    path = kw.explore(X, y, name=HOSTILE[3]).save(tmp_path / "page.html")
    with Browser(path, calm=True) as opened:
        visit_all_columns(opened)
        opened.click("#all")
        opened.evaluate(SETTLED)
        opened.click("#export-python")
        names = {}
        exec(opened.evaluate("document.getElementById('mapping').textContent"), names)
        assert set(names["encoder"].methods) == set(HOSTILE)
        assert opened.evaluate("window.broken === undefined")
        assert opened.evaluate("document.querySelectorAll('img, #columns script, main script').length") == 0
        shown = opened.evaluate("Array.from(document.querySelectorAll('.name'), each => each.textContent)")
        assert set(shown) == set(HOSTILE)
        copy = tmp_path / "copy.html"
        copy.write_text(opened.evaluate("knotwork.page.pageText()"))
        assert opened.problems == []
    with Browser(copy) as opened:
        assert opened.evaluate("window.broken === undefined && knotwork.page.isReady")
        assert opened.problems == []
