"""Pages: templates of HTML, what a page shows, and the tables and figures that are written beside it."""

import re
from collections.abc import Iterable, Sequence
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
    content : sequence of str, Table, Picture or Section
        Sentences, tables, figures and smaller sections, in the order of the page. Tables and figures are also written
        to files.
    name : str, default=""
        Address of the section within the page, such as ``"weather"``; by default made from the title.
    folded : bool, default=False
        Whether a smaller section is closed until a reader opens it.
    files : sequence of Table, default=()
        Tables that are written to files only.

    Examples
    --------
    >>> section = Section("Weather", ["It rained on 3 of 5 folds."], name="weather")
    """

    title: str
    content: "Sequence[str | Table | Picture | Section]"
    name: str = ""
    folded: bool = False
    files: Sequence[Table] = ()


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

    def picture(self, picture: Picture | None) -> dict[str, Any] | None:
        """Write a figure as SVG and as PDF, light and dark."""
        if picture is None:
            return None
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

    def pictures(self, pictures: Iterable[Picture | None]) -> list[dict[str, Any]]:
        """Write figures; those that are None are left out."""
        return [shown for picture in pictures if (shown := self.picture(picture))]

    def section(self, section: Section) -> dict[str, Any]:
        """Write the tables and figures of a section and of all smaller sections in it."""
        for table in section.files:
            self.table(table)
        content = [self._item(item) for item in section.content]
        return {
            "title": section.title,
            "name": _safe(section.name or section.title),
            "folded": section.folded,
            "content": content,
        }

    def _item(self, item: str | Table | Picture | Section) -> tuple[str, Any]:
        """Return the kind of an item, and what the template shows of it."""
        if isinstance(item, Table):
            return "table", self.table(item)
        if isinstance(item, Picture):
            return "picture", self.picture(item)
        return ("section", self.section(item)) if isinstance(item, Section) else ("sentence", item)


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
