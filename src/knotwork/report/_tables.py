"""A table that is written as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["MISSING", "Cell", "Table", "format_number", "mark_best"]

MISSING = "\N{EN DASH}"
"""What stands for a number that is not there."""

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "\N{EN DASH}": "--", "²": "$^2$", "<": "$<$",
    ">": "$>$", "…": r"\ldots{}", "·": r"$\cdot$",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One cell: a text, or a number with its spread.

    Parameters
    ----------
    text : str
        What is shown where there is no number.
    value : float or None
        The number; missing if None or NaN.
    sd : float or None
        Its standard deviation.
    digits : int, default=4
        Decimals shown.
    best : bool, default=False
        Whether it is shown in bold.
    note : str
        What a reader should know about it, such as missing folds.
    """

    text: str = ""
    value: float | None = None
    sd: float | None = None
    digits: int = 4
    best: bool = False
    note: str = ""

    @property
    def has_value(self) -> bool:
        """Whether there is a number."""
        return self.value is not None and bool(np.isfinite(self.value))

    @property
    def shown(self) -> str:
        """What a reader sees."""
        if not self.has_value:
            return self.text or MISSING
        star = "*" if self.note else ""
        if self.sd is None or not np.isfinite(self.sd):
            return format_number(self.value, self.digits) + star
        return f"{format_number(self.value, self.digits)} ± {format_number(self.sd, self.digits)}{star}"


@dataclass(frozen=True)
class Table:
    """A table with a caption; every row has a cell for each column.

    Parameters
    ----------
    name : str
        Name of its files, and its label in LaTeX.
    title : str
        A short heading.
    caption : str
        What is shown, in sentences.
    columns : list of str
        Headings.
    rows : list of list of Cell
        Cells, row after row.
    """

    name: str
    title: str
    caption: str
    columns: list[str]
    rows: list[list[Cell]]

    @cached_property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers, and are set flush right."""
        return [any(row[i].has_value for row in self.rows) for i in range(len(self.columns))]

    def to_markdown(self) -> str:
        """Return the table in Markdown, the best in bold."""
        ends = ["---:" if numeric else "---" for numeric in self.numeric]
        lines = [f"**{self.title}.** {self.caption}", "", _pipes([_plain(name) for name in self.columns]), _pipes(ends)]
        lines += [
            _pipes([f"**{_plain(cell.shown)}**" if cell.best else _plain(cell.shown) for cell in row])
            for row in self.rows
        ]
        return "\n".join([*lines, *self._footnote(), ""])

    def to_latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs, the best in bold."""
        align = "".join("r" if numeric else "l" for numeric in self.numeric)
        lines = [r"\begin{table}[t]", r"\centering", r"\small",
                 rf"\caption{{{_latex(self.title)}. {_latex(' '.join([self.caption, *self._footnote()]).strip())}}}",
                 rf"\label{{tab:{self.name.replace('_', '-')}}}", rf"\begin{{tabular}}{{{align}}}", r"\toprule",
                 " & ".join(_latex(name) for name in self.columns) + r" \\", r"\midrule"]  # fmt: skip
        for row in self.rows:
            cells = [rf"\textbf{{{_latex(cell.shown)}}}" if cell.best else _latex(cell.shown) for cell in row]
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])

    def to_csv(self) -> str:
        """Return the table as CSV with all digits; spreads have columns of their own, named with `` sd``."""
        with_sd = [any(row[i].sd is not None for row in self.rows) for i in range(len(self.columns))]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([name for column, sd in zip(self.columns, with_sd, strict=True)
                         for name in ([column, f"{column} sd"] if sd else [column])])  # fmt: skip
        for row in self.rows:
            writer.writerow([entry for cell, sd in zip(row, with_sd, strict=True)
                             for entry in ([_raw(cell), _number(cell.sd)] if sd else [_raw(cell)])])  # fmt: skip
        return text.getvalue()

    def _footnote(self) -> list[str]:
        notes = any(cell.note and cell.has_value for row in self.rows for cell in row)
        return ["", "* Not all folds have a score."] if notes else []


def format_number(value: float | None, digits: int = 4) -> str:
    """Write a number with `digits` decimals, and large ones with thousands apart; a dash if it is missing.

    Examples
    --------
    >>> format_number(0.12345), format_number(12345.6, 0), format_number(None)
    ('0.1235', '12,346', '\u2013')
    """
    if value is None or not np.isfinite(value):
        return MISSING
    return f"{value:,.{digits}f}"


def mark_best(cells: Sequence[Cell], *, lower_is_better: bool) -> list[Cell]:
    """Return the cells with the best numbers set in bold: those that share the best value, whatever is shown of it."""
    values = [cell.value for cell in cells if cell.value is not None and cell.has_value and not cell.note]
    best = (min if lower_is_better else max)(values, default=None)
    return [
        Cell(cell.text, cell.value, cell.sd, cell.digits, cell.value == best and not cell.note, cell.note)
        if cell.has_value
        else cell
        for cell in cells
    ]


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _raw(cell: Cell) -> str:
    return _number(cell.value) if cell.has_value else cell.text


def _number(value: float | None) -> str:
    return "" if value is None or not np.isfinite(value) else repr(float(value))
