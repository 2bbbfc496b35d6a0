"""Pages: HTML templates, the content of sections, and the files of tables and figures next to a page."""

import io
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from html import escape, unescape
from operator import methodcaller
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from matplotlib.figure import Figure

from knotwork._files import write_together
from knotwork._look import LIGHT, Theme, icon, look_style
from knotwork.report._style import PHONE, dark_svg, darken, natural_width, recoloured, svg_text
from knotwork.report._tables import ReportTable

_IMAGE = re.compile(r"<image\b([^>]*?)/>")


@dataclass(frozen=True)
class PageLimits:
    """How much of a long list a page shows: conventions for readable pages; no ranks, tests or tables depend on them.

    Parameters
    ----------
    listed : int
        Runs, sources or seeds in a list; the rest is counted.
    grouped : int
        Problems, methods or groups of problems in a sentence on what is not ranked.
    characters : int
        Characters of the traceback of a failure; the end, with the message, is kept.
    grids : int
        Grids of sizes; all of them are written as tables.
    score_panels : int
        Panels in the figure of scores; if there are more, a table is easier to read.
    """

    listed: int = 20
    grouped: int = 5
    characters: int = 4000
    grids: int = 4
    score_panels: int = 6


PAGE_LIMITS = PageLimits()


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its texts.

    Parameters
    ----------
    name : str
        Name of its files, unique in a report.
    figure : Figure
        A matplotlib figure for a light background; the dark version is made from it.
    caption : str
        Caption.
    label : str
        Description for screen readers.
    titles : dict of str to str
        Tooltips of parts, by the group id of the part.
    narrow : Figure or None
        The same figure drawn for phones, at most `PHONE` inches wide, for pages only; None if `figure` is as narrow, or
        if it has to be scrolled sideways.
    methods : dict of str to str
        Methods shown by parts, by the group id of the part: choosing a method highlights its parts in all figures.
    """

    name: str
    figure: Figure
    caption: str
    label: str
    titles: dict[str, str] = field(default_factory=dict)
    narrow: Figure | None = None
    methods: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure in the making, which collects the tooltips and methods of its parts for the `Picture`."""

    figure: Figure
    titles: dict[str, str] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)

    def part(self, gid: str, title: str = "", method: str = "") -> str:
        """Note the tooltip and the method of a part, if it has one, and return its group id."""
        self.titles.update({gid: title} if title else {})
        self.methods.update({gid: method} if method else {})
        return gid

    def picture(self, name: str, caption: str, label: str, narrow: Figure | None = None) -> Picture:
        """Return the figure with its texts."""
        return Picture(name, self.figure, caption, label, self.titles, narrow, self.methods)


def shown_picture(picture: Picture, name: str, *, text: str = "", dark: str | None = None) -> dict[str, Any]:
    """Return the arguments of the template macro ``show_picture`` for a figure.

    `text` and `dark` are the SVG of the light and of the dark figure, if they already exist; `name` is unique on the
    page.
    """
    text = text or svg_text(picture.figure)
    narrow = None if picture.narrow is None else inline_svg(svg_text(picture.narrow), f"{name}-narrow", picture)
    return {
        "name": name,
        "svg": inline_svg(text, name, picture, dark=dark),
        "narrow": narrow,
        "fits": natural_width(text) <= 72 * PHONE,
        "caption": picture.caption,
    }


def inline_svg(text: str, name: str, picture: Picture, *, dark: str | None = None) -> Markup:
    """Return the ``svg`` element of a light figure for a page: colours follow the page's mode, and ids are unique.

    Embedded images cannot follow the mode: the images of `dark`, the SVG of the same figure in dark colours, are added,
    and the page shows one of each pair by the classes ``in-light`` and ``in-dark``. `text` and `dark` are as from
    `svg_text`; ids start with `name`, which is unique on the page.
    """
    if dark is not None:
        pairs = zip(_IMAGE.findall(text), _IMAGE.findall(dark), strict=True)
        both = iter([f'<image class="in-light"{light}/><image class="in-dark"{other}/>' for light, other in pairs])
        text = _IMAGE.sub(lambda _: next(both), text)
    head, _, body = text[text.index("<svg") :].partition(">")
    box = re.search(r'viewBox="[^"]*"', head)

    def described(group: re.Match[str]) -> str:
        gid = unescape(group[1])
        method = f' data-method="{escape(picture.methods[gid])}"' if gid in picture.methods else ""
        title = picture.titles.get(gid)
        return f"<g{method}>" if title is None else f'<g class="hover"{method}><title>{escape(title)}</title>'

    replaced: list[tuple[str, Any]] = [
        (r'<g id="([^"]*)">', described),
        (r'<g id="[^"]*"', "<g"),
        (r'\bid="([^"]*)"', rf'id="{name}-\1"'),
        (r'(?:xlink:)?href="#([^"]*)"', rf'href="#{name}-\1"'),
        (r'xlink:href="data:', 'href="data:'),
        (r"url\(#([^)]*)\)", rf"url(#{name}-\1)"),
        (r"(?s)<!--.*?-->\s*", ""),
        (r"\n\s*", "\n"),
    ]
    for pattern, new in replaced:
        body = re.sub(pattern, new, body)
    body = recoloured(body, {getattr(LIGHT, colour): f"var(--{colour})" for colour in Theme.__annotations__})
    wide = f'style="--natural: {natural_width(text) * 4 / 3:.0f}px"'
    label = escape(picture.label)
    return Markup(f'<svg role="img" aria-label="{label}" {box.group(0) if box else ""} {wide}>{body}')


@dataclass(frozen=True, eq=False)
class Section:
    """A section of a report.

    Parameters
    ----------
    title : str
        Its heading.
    content : sequence of str, ReportTable, Picture, Section or None
        Sentences, tables, figures and subsections, in the order of the page; None is skipped. Tables and figures are
        also written to files. A subsection without a title shows its content side by side.
    name : str, default=""
        Anchor of the section on the page, such as ``"weather"``, unique in a report; by default its title.
    folded : bool, default=False
        Whether a subsection is collapsed at first.
    files : sequence of ReportTable or Picture, default=()
        Tables and figures that are written to files only.

    Examples
    --------
    >>> section = Section("Weather", ["It rained on 3 of 5 folds."], name="weather")
    """

    title: str
    content: "Sequence[Content]"
    name: str = ""
    folded: bool = False
    files: Sequence[ReportTable | Picture] = ()


Content = str | ReportTable | Picture | Section | tuple[str, Any] | None
"""Content of a section; a pair is a kind of item defined by the report template, and its data."""


@dataclass(frozen=True)
class ReportFiles:
    """Collects the files of tables and figures next to a page, returns the content of the page, and writes all of them.

    Files are in the subfolders ``tables`` and ``figures`` of the page's folder; their names start with `prefix`. They
    are kept in memory until `write`, which writes all or none of them.
    """

    folder: Path
    prefix: str = ""
    contents: dict[Path, bytes] = field(default_factory=dict)

    def write(self, page: Path, text: str) -> None:
        """Write the page and all files, or nothing if anything fails, such as a full disk."""
        new = [folder for folder in sorted({path.parent for path in self.contents}) if not folder.exists()]
        for folder in new:
            folder.mkdir()
        try:
            _write_together({**self.contents, page: text.encode()})
        except BaseException:
            for folder in new:
                with suppress(OSError):
                    folder.rmdir()
            raise

    def table(self, table: ReportTable) -> ReportTable:
        """Add a table as Markdown, LaTeX and CSV."""
        name = _safe(self.prefix + table.name)
        for ending, text in (("md", table.to_markdown()), ("tex", table.to_latex()), ("csv", table.to_csv())):
            self.contents[self.folder / "tables" / f"{name}.{ending}"] = text.encode()
        return table

    def picture(self, picture: Picture) -> dict[str, Any]:
        """Add a figure as SVG and as PDF, light and dark."""
        name = _safe(self.prefix + picture.name)
        figures, text = self.folder / "figures", svg_text(picture.figure)
        self.contents[figures / f"{name}.svg"] = text.encode()
        self.contents[figures / f"{name}.pdf"] = _pdf(picture.figure)
        self.contents[figures / f"{name}_dark.pdf"] = _pdf(darken(picture.figure))
        # Embedded images cannot be recoloured as text, so such a figure is drawn again.
        dark = svg_text(picture.figure) if "<image" in text else dark_svg(text)
        self.contents[figures / f"{name}_dark.svg"] = dark.encode()
        return shown_picture(picture, name, text=text, dark=dark)

    def section(self, section: Section) -> dict[str, Any]:
        """Add the tables and figures of a section and its subsections, and return its content."""
        self._items(section.files)
        content = self._items(section.content)
        return {"title": section.title, "name": _safe(section.name), "folded": section.folded, "content": content}

    def _items(self, content: Sequence[Content]) -> list[tuple[str, Any]]:
        return [self._item(item) for item in content if item is not None]

    def _item(self, item: Content) -> tuple[str, Any]:
        """Return the kind of an item, and its data for the template."""
        shown: tuple[str, Any]
        match item:
            case ReportTable():
                shown = "table", self.table(item)
            case Picture():
                shown = "picture", self.picture(item)
            case Section():
                shown = "section", self.section(item)
            case "columns", (layout, left, right):
                shown = "columns", (layout, self._items(left), self._items(right))
            case "switch", pictures:
                shown = "switch", [(task, size, self.picture(picture)) for task, size, picture in pictures]
            case tuple():
                shown = item
            case _:
                shown = "sentence", item
        return shown


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure as SVG for light backgrounds, and a second file for dark ones, with ``_dark`` in its name.

    Text stays text, and equal figures give equal files. Column names are never interpreted as formulas. The background
    is transparent, so that the figure has that of the page.

    Parameters
    ----------
    figure : Figure
        A figure in the colours of `LIGHT`, without images, such as those of the functions of this module.
    path : Path
        The file to write, which ends with ``.svg``.

    Returns
    -------
    Path
        The dark figure.
    """
    path = Path(path)
    text, dark = svg_text(figure), path.with_stem(f"{path.stem}_dark")
    text = text.replace(f'style="fill: {LIGHT.background.lower()}"', 'style="fill: none"')
    _write_together({path: text.encode(), dark: dark_svg(text).encode()})
    return dark


def _write_together(contents: dict[Path, bytes]) -> None:
    write_together({path: methodcaller("write", content) for path, content in contents.items()})


def _pdf(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


@cache
def page_template(name: str) -> Template:
    """Return a template of the folder ``templates``; its method ``render`` returns a page."""
    environment = Environment(
        loader=PackageLoader("knotwork.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = _whole
    environment.globals |= {"icon": icon(), "look": look_style()}
    return environment.get_template(name)


def _whole(text: str) -> Markup:
    """Return text without line breaks inside hyphenated names, and without marks that change the writing direction."""
    plain = re.sub("[\u202a-\u202e\u2066-\u2069]", "", str(text))
    return Markup(re.sub(r"[\w.]+(?:-\w+)+", r'<i class="w">\g<0></i>', str(Markup.escape(plain))))


def _safe(name: str) -> str:
    """Return a name that is valid as a file name and as an id."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
