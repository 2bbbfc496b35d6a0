"""One look: figures and pages have the same colours and sizes, and all pages one logo."""

import re
from dataclasses import asdict
from html import escape
from pathlib import Path

import pytest

import knotwork
from knotwork._look import DARK, LIGHT, TYPE, Theme, icon, look_style
from knotwork.report import save_figure
from knotwork.report._style import new_panels
from tests.report.chromium import CHROMIUM, Browser

SOURCE = Path(knotwork.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
LOOK = (SOURCE / "_look.css").read_text(encoding="utf-8")
PAGES = sorted([*SOURCE.rglob("*.css"), *SOURCE.rglob("*.html"), *SOURCE.rglob("*.j2"), *(DOCS / "css").glob("*.css")])


def colours(place):
    """Return the colours of ``_look.css`` by name: the light ones at place 0, the dark ones at place 1."""
    pairs = re.findall(r"--([a-z-]+): light-dark\((#\w{6}), (#\w{6})\);", LOOK)
    return {name: both[place] for name, *both in pairs}


@pytest.mark.parametrize(("theme", "place"), [(LIGHT, 0), (DARK, 1)])
def test_pages_have_the_colours_of_figures(theme, place):
    shared = {name: colour for name, colour in colours(place).items() if name in Theme.__annotations__}
    assert shared == {name: colour.lower() for name, colour in asdict(theme).items()}


def test_pages_have_the_type_sizes_of_figures():
    sizes = dict(re.findall(r"--chart(-?\w*): ([\d.]+)pt;", LOOK))
    names = {"": "text", "-small": "small", "-tiny": "tiny", "-title": "title"}
    assert {names[name]: float(size) for name, size in sizes.items()} == asdict(TYPE)


def contrast(one, other):
    """Return the contrast of two colours by the definition of WCAG."""

    def luminance(colour):
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("place", [0, 1])
def test_texts_and_lines_stand_out_from_every_background(place):
    seen = colours(place)
    for ground in ("background", "ground", "soft"):
        for text in ("ink", "muted", "link"):
            assert contrast(seen[text], seen[ground]) >= 4.5, (text, ground)
        for line in ("blue", "orange" if place else "green", "red", "pink"):
            assert contrast(seen[line], seen[ground]) >= 3, (line, ground)
    assert contrast(seen["amber"], seen["amber-soft"]) >= 4.5


def test_colours_and_sizes_of_text_are_in_one_place():
    allowed = {"#000", "#fff", "#ffffff", "#ffffffb3", "#005787", "#1e2329"}
    defined = set(re.findall(r"--([a-z-]+):", LOOK))
    for path in PAGES:
        if path.name in ("_look.css", "look.css"):
            continue
        text = path.read_text(encoding="utf-8").split("@media print")[0]
        assert set(re.findall(r"(?<![&\w\"'(=/])#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b(?=[;,) ])", text)) <= allowed, path
        assert not re.findall(r"font(?:-size)?: [\d.]+(?:px|rem)", text), path
        own = defined | set(re.findall(r"--([\w-]+)\s*:", text)) | {"part", "hue", "natural", "share", "at", "n"}
        assert set(re.findall(r"var\(--([\w-]+)", text)) <= own, path


def test_figures_name_their_sizes():
    for path in [*(SOURCE / "report").glob("*.py"), SOURCE / "_pictures.py", *(SOURCE / "additive").glob("*.py")]:
        assert not re.findall(r"(?:fontsize|labelsize)\"?[=:] ?[\d.]", path.read_text(encoding="utf-8")), path


def test_all_pages_have_the_logo():
    assert (DOCS / "logo.svg").read_bytes() == (SOURCE / "_logo.svg").read_bytes()
    assert (DOCS / "css" / "look.css").read_text(encoding="utf-8") == LOOK
    assert icon() in look_style()
    guide = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert "logo: logo.svg" in guide
    assert "favicon: logo.svg" in guide
    for name in ("_explore/page.html", "_explore/curves.html", "_model_page/page.html"):
        text = (SOURCE / name).read_text(encoding="utf-8")
        assert '<link rel="icon" href="{{icon}}">' in text
        assert 'class="logo"' in text
    for name in ("report", "compare"):
        assert 'include "style.html.j2"' in (SOURCE / f"report/templates/{name}.html.j2").read_text(encoding="utf-8")
    assert 'rel="icon" href="{{ icon }}"' in (SOURCE / "report/templates/style.html.j2").read_text(encoding="utf-8")


def test_figures_of_the_guide_have_the_background_of_the_page(tmp_path):
    figure, (axes,) = new_panels(1, size=(2, 2))
    axes.plot([0, 1], color=LIGHT.blue)
    save_figure(figure, tmp_path / "line.svg")
    paths = [*(DOCS / "images").glob("*.svg"), *tmp_path.glob("*.svg")]
    assert len(paths) > 20
    for path in paths:
        fills = set(re.findall(r'style="fill: (#\w{6})"', path.read_text(encoding="utf-8").lower()))
        assert not fills & {LIGHT.background.lower(), DARK.background.lower()}, path


SHOWN = """Array.from(document.querySelectorAll("tbody tr")).filter(row => row.getClientRects().length)
    .map(row => row.lastElementChild.textContent)"""
CHOOSE = "document.querySelector('button[data-verdict=\"{}\"]').click()"


@pytest.fixture
def claims(tmp_path):
    """Return the page of claims with its style and script, its tables as the theme has them."""
    text = (DOCS / "paper_claims.md").read_text(encoding="utf-8")
    chart = re.search(r'<div class="claims">.*?\n</div>\n\n', text, re.DOTALL)[0]
    parts = []
    for heading, lines in re.findall(r"^## (.*)\n\n((?:\|.*\n)+)", text, re.MULTILINE):
        rows = [line.strip("| ").split(" | ") for line in lines.splitlines()[2:]]
        cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        parts.append(f"<h2>{heading}</h2><div><table><tbody>{cells}</tbody></table></div>")
    style, script = LOOK + (DOCS / "css" / "extra.css").read_text(), (DOCS / "js" / "claims.js").read_text()
    page = tmp_path / "claims.html"
    body = f"<article>{chart}{''.join(parts)}</article><script>{script}</script>"
    page.write_text(f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style>{body}', encoding="utf-8")
    return page


def test_the_chart_of_claims_counts_the_verdicts():
    text = (DOCS / "paper_claims.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| ([^|]+) \|\n", text)
    for verdict in ("confirmed", "not confirmed", "cannot be told"):
        assert re.search(rf'data-verdict="{verdict}" style="--n: (\d+)"', text)[1] == str(rows.count(verdict))
        assert text.count(f'<i data-verdict="{verdict}"') == rows.count(verdict)


@pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM: the page was not opened in a browser")
def test_the_chart_of_claims_filters_the_list(claims):
    with Browser(claims) as page:
        every = page.evaluate(SHOWN)
        page.evaluate(CHOOSE.format("not confirmed"))
        assert page.evaluate(SHOWN) == ["not confirmed"] * every.count("not confirmed")
        assert "29 of 101" in page.evaluate("document.querySelector('[role=status]').textContent")
        headings = (
            "Array.from(document.querySelectorAll('h2')).filter(each => each.hidden).map(each => each.textContent)"
        )
        assert page.evaluate(headings) == ["All tasks", "Illustration"]
        page.evaluate(CHOOSE.format("cannot be told"))
        assert page.evaluate(SHOWN) == ["cannot be told"] * every.count("cannot be told")
        page.evaluate(CHOOSE.format("cannot be told"))
        assert page.evaluate(SHOWN) == every
        assert page.problems == []
