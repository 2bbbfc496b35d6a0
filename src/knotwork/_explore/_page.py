"""The explorer's page: template, script, style and data in one file."""

import base64
import hashlib
import html
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import knotwork
from knotwork._checks import argument_error
from knotwork._explore._prepare import prepare
from knotwork._files import write_atomically
from knotwork._look import icon, look_style
from knotwork._writing import script as write_script

if TYPE_CHECKING:  # needs pandas
    from knotwork.datasets import TextFormat

TABLE_SCRIPTS = ("numerics", "page", "model", "drawing", "controls")
"""The files of the script, which become one function: each may use the names of the files before it."""

NOTEBOOK_HEIGHT = 980
"""Height of the page in a notebook, in pixels."""


@dataclass(frozen=True)
class Explorer:
    """A page on which the knots of a table's columns can be moved. A notebook shows it.

    Parameters
    ----------
    html : str
        The page: one file without references to others.
    finding : str
        What the page shows first, in a sentence.
    """

    html: str
    finding: str = ""

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page to a file, and return its path.

        Parameters
        ----------
        path : str or path
            The file, such as ``"flats.html"``. Folders that do not exist are created.
        """
        file = Path(path)
        if file.is_dir():
            raise argument_error("path", "be a file", str(path), f"For example {file / 'explore.html'}.")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, lambda stream: stream.write(self.html.encode()))
        return file

    def _repr_html_(self) -> str:
        content = html.escape(self.html, quote=True)
        return (
            f'<iframe title="Knotwork explorer" srcdoc="{content}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {NOTEBOOK_HEIGHT}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Explorer(a page of {len(self.html.encode()) / 1e6:.2f} MB; save it with .save('explore.html'))"


def explore(
    X: Any,
    y: Any,
    *,
    task: str | None = None,
    columns: Iterable[Any] | None = None,
    name: str = "table",
    random_state: int = 0,
) -> Explorer:
    """Return a page on which the knots of each numerical column can be moved, and the fit changes with them.

    The page shows for one column at a time the target, the basis functions, the knots over the histogram and the
    residuals of a ridge fit (a logistic one for classes) on up to 5,000 random rows, and its score on others. It needs
    no server and no network. Constant columns, ties, outliers and missing values are shown like any other; categories
    and columns of two values by their means. It opens on the column that gains most from an encoding, over a straight
    line. Of more than 40 columns those that explain most are shown.

    Parameters
    ----------
    X : table of shape (n, d)
        A pandas, polars or pyarrow frame, or an array, of at least 3 rows.
    y : array-like of shape (n,)
        The target, without missing values.
    task : {"regression", "classification"}, optional
        Kind of the target. By default labels and integers with up to 20 distinct values are classes.
    columns : iterable, optional
        Columns to show, by name, or by position if X has no names.
    name : str, default="table"
        Name of the table in the page.
    random_state : int, default=0
        Random seed of the rows.

    Returns
    -------
    Explorer
        The page: a notebook shows it, and `Explorer.save` writes it to a file.

    Examples
    --------
    >>> import numpy as np
    >>> import knotwork as kw
    >>> X = np.random.default_rng(0).uniform(size=(300, 1))
    >>> page = kw.explore(X, np.sin(9 * X[:, 0]), columns=[0])
    >>> page.html.startswith("<!DOCTYPE html>")
    True
    """
    return _explore(X, y, name, task=task, columns=columns, seed=random_state)


def _explore(X: Any, y: Any, name: str, **options: Any) -> Explorer:
    data, target = prepare(X, y, **options), getattr(y, "name", None)
    page = {**data, "table": str(name), "targetName": "target" if target is None else str(target)}
    return Explorer(render(page, "page", TABLE_SCRIPTS), data["finding"])


def explore_table(
    path: str | PathLike[str],
    target: str,
    *,
    task: str | None = None,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    seed: int = 0,
    text: "TextFormat | None" = None,
    report: Callable[[str], None] | None = None,
) -> Explorer:
    """Return the page of a file; rows whose target is missing are dropped.

    Parameters
    ----------
    path : str or path
        The file.
    target : str
        Name of the target column.
    task, columns
        As in `explore`; no columns means all.
    drop : sequence of str
        Columns to ignore.
    seed : int
        Random seed of the rows.
    text : TextFormat, optional
        The format of a text file; by default it is detected.
    report : callable, optional
        Called with every sentence on what was detected, and before each slow step.
    """
    import pandas as pd  # noqa: PLC0415 - only files need pandas

    from knotwork.datasets import check_columns, read_frame, target_labels  # noqa: PLC0415 - only files need them

    say, file = report or (lambda _: None), Path(path)
    say(f"Reads {file.name}.")
    frame, notes = read_frame(path, text)
    for note in notes:
        say(note)
    for names, argument in (([target], "target"), (drop, "drop"), (columns, "columns")):
        check_columns(frame, names, argument, file)
    if target in drop or target in columns:
        raise argument_error("drop" if target in drop else "columns", "not name the target", target)
    has_target = frame[target].notna()
    frame = frame[has_target].reset_index(drop=True)
    labels = pd.Series(target_labels(frame[target], had_missing=not has_target.all()), name=target)
    features = frame.drop(columns=[target, *drop])
    return _explore(features, labels, file.name, task=task, columns=columns or None, seed=seed, report=say)


def render(data: dict[str, Any], template: str, scripts: Sequence[str]) -> str:
    """Return a page of a template and scripts. Text of the table is JSON in which no character can end its element."""
    folder = files("knotwork._explore")
    style, template = (folder.joinpath(each).read_text("utf-8") for each in ("page.css", f"{template}.html"))
    parts_of_script = [folder.joinpath(f"{each}.js").read_text("utf-8") for each in scripts]
    script = "\n".join(['"use strict";', "(() => {", write_script(), *parts_of_script, "})();"])
    content = json.dumps({**data, "version": knotwork.__version__}, ensure_ascii=True, allow_nan=False)
    parts = {
        "icon": icon(),
        "look": look_style(),
        "style": style,
        "script": script,
        # The browser runs no script but this one, regardless of what a table contains.
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        "data": content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    }
    for name, text in parts.items():
        template = template.replace(f"{{{{{name}}}}}", text, 1)
    return template
