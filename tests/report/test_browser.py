"""The page in a real browser: no errors, sorting, filtering, links, and nothing wider than a phone."""

import html
import json
import os
import re
import shutil
import subprocess

import pytest

from knotwork.report.document import make_report
from tests.report.cases import make_records

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser")

PROBE = """
<script>
(async function () {
  const rows = () => Array.from(document.querySelectorAll("#score-table tbody tr"));
  const shown = () => rows().filter(row => !row.hidden);
  const heads = Array.from(document.querySelectorAll("#score-table thead th"));
  const value = cell => cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  const column = i => shown().map(row => value(row.cells[i]));
  const press = i => {
    heads[i].querySelector("button").click();
    return [heads[i].getAttribute("aria-sort"), column(i)];
  };
  const found = {before: rows().length};
  found.up = press(5);
  found.down = press(5);
  found.names = press(0);
  const choose = (id, wanted) => {
    const field = document.getElementById(id);
    field.value = wanted;
    field.dispatchEvent(new Event(field.tagName === "INPUT" ? "input" : "change"));
  };
  choose("filter-1", "regression");
  found.regression = column(1);
  choose("filter-3", "15");
  choose("filter-text", "REG01");
  found.filtered = shown().map(row => [0, 1, 2, 3].map(i => row.cells[i].textContent));
  found.count = document.getElementById("shown").textContent;
  document.querySelector("#filters button[type=reset]").click();
  await new Promise(done => setTimeout(done, 50));
  found.reset = shown().length;
  found.links = [];
  for (const link of document.querySelectorAll("a[href^='#']")) {
    link.click();
    found.links.push([link.getAttribute("href"), location.hash, document.querySelector(":target") !== null]);
  }
  const out = document.createElement("output");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
}());
</script>
"""


def browse(page, *options):
    """Open a page, and return its document as it is after its scripts, and what the console says."""
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        "--window-size=1400,900",
        f"--user-data-dir={page.parent / 'profile'}", "--virtual-time-budget=4000",
        *options, "--dump-dom",
        page.as_uri(),
    ]  # fmt: skip
    environment = {**os.environ, "HOME": str(page.parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    records = make_records(3, 2, backbones=["mlp", "ft"], methods=["Std", "PLE", "BS-U"], sizes=(7, 15), n_folds=2)
    return make_report(records, folder / "report.html")


def probe(page):
    copy = page.with_name("probe.html")
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", PROBE + "</body>"), encoding="utf-8")
    document, console = browse(copy)
    assert console == []
    text = re.search(r'<output id="probe">(.*?)</output>', document, flags=re.DOTALL).group(1)
    return json.loads(html.unescape(text))


def test_an_error_would_be_seen(tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text("<!DOCTYPE html><script>nothing.there()</script>")
    assert browse(broken)[1]


@pytest.mark.parametrize("mode", [[], ["--blink-settings=preferredColorScheme=0"]])
def test_no_errors_on_the_console(page, mode):
    document, console = browse(page, *mode)
    assert console == []
    assert "Encodings compared" in document


def test_sorting_filtering_and_links(page):
    found = probe(page)
    assert found["before"] == (3 + 2) * 2 * 2
    order, values = found["up"]
    assert order == "ascending"
    assert values == sorted(values)
    order, values = found["down"]
    assert order == "descending"
    assert values == sorted(values, reverse=True)
    assert found["names"][1] == sorted(found["names"][1])
    assert set(found["regression"]) == {"regression"}
    assert len(found["regression"]) == 3 * 2 * 2
    assert sorted(found["filtered"]) == [["reg01", "regression", name, "15"] for name in ("ft feature", "mlp")]
    assert found["count"] == "2 of 20 rows"
    assert found["reset"] == 20
    assert len(found["links"]) > 8
    for link, place, reached in found["links"]:
        assert link == place
        assert reached


FRAME = """<!DOCTYPE html><title>frame</title><iframe src="narrow.html" style="width: 390px; height: 900px; border: 0">
</iframe><script>
addEventListener("message", event => {
  const out = document.createElement("output");
  out.id = "probe";
  out.textContent = event.data;
  document.body.append(out);
});
</script>"""


def test_a_phone_does_not_scroll_sideways(page):
    # A window of headless Chromium is at least 500 pixels wide, so that a frame stands for the phone.
    say = "<script>parent.postMessage(JSON.stringify([document.documentElement.scrollWidth, innerWidth]), '*')</script>"
    narrow = page.read_text(encoding="utf-8").replace("<details", "<details open").replace("</body>", say + "</body>")
    page.with_name("narrow.html").write_text(narrow, encoding="utf-8")
    page.with_name("frame.html").write_text(FRAME, encoding="utf-8")
    document, console = browse(page.with_name("frame.html"))
    assert console == []
    scroll, width = json.loads(re.search(r'<output id="probe">(.*?)</output>', document).group(1))
    assert width == 390
    assert scroll <= width
