"""Pages: templates of HTML, what a page shows, and the tables and figures that are written beside it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from knotwork.report._style import dark_svg, darken, inline_svg, svg_text
from knotwork.report._tables import Table

__all__ = ["Picture", "ReportFiles", "Section", "page_template"]


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its texts.

    Parameters
    ----------
    name : str
        Name of its files, unique in a report.
    figure : Figure
        A figure of matplotlib's for a light background; pages and files for dark ones are made from it.
    caption : str
        What the figure shows.
    label : str
        What a reader would see in it, for readers who cannot see it.
    titles : dict of str to str
        Texts that appear when the pointer is over a part, by the group id of the part.
    """

    name: str
    figure: Figure
    caption: str
    label: str
    titles: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Section:
    """A section that is added to a report.

    Parameters
    ----------
    title : str
        Its heading.
    content : sequence of str, Table, Picture, Section or None
        Sentences, tables, figures and smaller sections, in the order of the page; None is left out. Tables and figures
        are also written to files. A smaller section without a title shows its content side by side.
    name : str, default=""
        Address of the section within the page, such as ``"weather"``, unique in a report; by default its title.
    folded : bool, default=False
        Whether a smaller section is closed until a reader opens it.
    files : sequence of Table or Picture, default=()
        Tables and figures that are written to files only.

    Examples
    --------
    >>> section = Section("Weather", ["It rained on 3 of 5 folds."], name="weather")
    """

    title: str
    content: "Sequence[Content]"
    name: str = ""
    folded: bool = False
    files: Sequence[Table | Picture] = ()


Content = str | Table | Picture | Section | tuple[str, Any] | None
"""What a section shows; a pair is a kind of item that only the template of reports knows, with its data."""


class ReportFiles:
    """Writes tables and figures beside a page, and returns what the page shows of them.

    Parameters
    ----------
    folder : Path
        The folder of the page; ``tables`` and ``figures`` are made in it.
    prefix : str, default=""
        Beginning of the names of all files.
    """

    def __init__(self, folder: Path, prefix: str = "") -> None:
        self.prefix = prefix
        self.tables, self.figures = folder / "tables", folder / "figures"
        for path in (self.tables, self.figures):
            path.mkdir(exist_ok=True)

    def table(self, table: Table) -> Table:
        """Write a table as Markdown, LaTeX and CSV."""
        name = _safe(self.prefix + table.name)
        for ending, text in (("md", table.to_markdown()), ("tex", table.to_latex()), ("csv", table.to_csv())):
            (self.tables / f"{name}.{ending}").write_text(text, encoding="utf-8")
        return table

    def picture(self, picture: Picture) -> dict[str, Any]:
        """Write a figure as SVG and as PDF, light and dark."""
        name = _safe(self.prefix + picture.name)
        text = svg_text(picture.figure)
        (self.figures / f"{name}.svg").write_text(text, encoding="utf-8")
        picture.figure.savefig(self.figures / f"{name}.pdf", metadata={"CreationDate": None})
        darken(picture.figure).savefig(self.figures / f"{name}_dark.pdf", metadata={"CreationDate": None})
        # Images within a figure cannot be recoloured as text, so such a figure is drawn again.
        dark = svg_text(picture.figure) if "<image" in text else dark_svg(text)
        (self.figures / f"{name}_dark.svg").write_text(dark, encoding="utf-8")
        svg = inline_svg(text, name, label=picture.label, titles=picture.titles, dark=dark)
        return {"name": name, "svg": Markup(svg), "caption": picture.caption}

    def section(self, section: Section) -> dict[str, Any]:
        """Write the tables and figures of a section and of all smaller sections in it."""
        self._items(section.files)
        content = self._items(section.content)
        return {"title": section.title, "name": _safe(section.name), "folded": section.folded, "content": content}

    def _items(self, content: Sequence[Content]) -> list[tuple[str, Any]]:
        return [self._item(item) for item in content if item is not None]

    def _item(self, item: Content) -> tuple[str, Any]:
        """Return the kind of an item, and what the template shows of it."""
        match item:
            case Table():
                return "table", self.table(item)
            case Picture():
                return "picture", self.picture(item)
            case Section():
                return "section", self.section(item)
            case "columns", (layout, left, right):
                return "columns", (layout, self._items(left), self._items(right))
            case tuple():
                return item
            case _:
                return "sentence", item


def page_template(name: str) -> Any:
    """Return a template of the folder ``templates``, whose method ``render`` returns a page.

    Parameters
    ----------
    name : str
        Name of its file.
    """
    loader = PackageLoader("knotwork.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["whole"] = _whole
    return environment.get_template(name)


def _whole(text: str) -> Markup:
    """Return text in which names with hyphens are not broken over lines."""
    return Markup(re.sub(r"[\w.]+(?:-\w+)+", r'<i class="w">\g<0></i>', str(escape(text))))


def _safe(name: str) -> str:
    """Return a name that is valid for files and as an id."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
