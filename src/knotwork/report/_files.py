"""Writing the tables and figures of a report beside its page."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from knotwork.report._pictures import Picture
from knotwork.report._style import dark_svg, darken, inline_svg, svg_text
from knotwork.report._tables import Table

__all__ = ["ReportFiles"]


class ReportFiles:
    """Writes tables and figures beside a page, and gives back what the page shows of them.

    Parameters
    ----------
    folder : Path
        The folder of the page; ``tables`` and ``figures`` are made in it.
    prefix : str, default=""
        What the names of all files begin with.
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
        dark = svg_text(picture.figure) if "<image" in text else dark_svg(text)
        (self.figures / f"{name}_dark.svg").write_text(dark, encoding="utf-8")
        svg = inline_svg(text, name, label=picture.label, titles=picture.titles, dark=dark)
        return {"name": name, "svg": Markup(svg), "caption": picture.caption}

    def pictures(self, pictures: Iterable[Picture | None]) -> list[dict[str, Any]]:
        """Write the figures that there are."""
        return [shown for picture in pictures if (shown := self.picture(picture))]


def _safe(name: str) -> str:
    """Return a name that can be a file's and an id."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
