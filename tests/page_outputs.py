"""What the Python blocks of a page print, shown under each as a block of text.

    python -m tests.page_outputs docs/tour.md

runs the blocks of a page, and writes what they print under them. The tests run the same code and compare.
"""

import contextlib
import difflib
import io
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d.,_]*(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Printed:
    """A block of a page: the line of its code, what it printed, and what the page shows under it."""

    line: int
    printed: str
    shown: str

    @property
    def agrees(self) -> bool:
        """Whether the page shows what was printed, whatever the numbers: they differ between machines."""
        if not self.printed or not self.shown:
            return self.printed == self.shown
        words = [NUMBER.sub("#", text).split() for text in (self.printed, self.shown)]
        return difflib.SequenceMatcher(None, *words, autojunk=False).ratio() > 0.6


def run_page(path: Path) -> list[Printed]:
    """Run the blocks of a page in one namespace, as a reader would type them; errors name the lines of the page."""
    text, names = path.read_text(), {}
    results = []
    for match in BLOCK.finditer(text):
        line = text[: match.start("code")].count("\n")
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile("\n" * line + match["code"], str(path), "exec"), names)
        results.append(Printed(line + 1, _tidy(output.getvalue()), match["output"] or ""))
    return results


def _tidy(text: str) -> str:
    """Return a text without spaces at the ends of lines and without empty lines around it."""
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return lines + "\n" if lines else ""


def write_outputs(path: Path) -> None:
    """Write what the blocks of a page print under them."""
    path = path.resolve()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            outputs = iter(run_page(path))
        finally:
            os.chdir(before)

    def with_output(match: re.Match[str]) -> str:
        printed = next(outputs).printed
        shown = f"\n```text\n{printed}```\n" if printed else ""
        return f"```python\n{match['code']}```\n{shown}"

    path.write_text(BLOCK.sub(with_output, path.read_text()))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_outputs(Path(name))
