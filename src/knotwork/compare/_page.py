"""The page of a comparison, and its tables as files."""

import io
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from knotwork._files import write_atomically
from knotwork.compare._effects import ROWS_AVERAGED, Effect
from knotwork.compare._pictures import effect_picture, ranking_picture
from knotwork.compare._scoring import Scored
from knotwork.compare._verdict import HOW, Line, Ranking, significant
from knotwork.report._page import Picture, page_template
from knotwork.report._style import DARK, LIGHT, inline_svg, svg_text
from knotwork.report._tables import Cell, Table
from knotwork.training import METRICS

__all__ = ["fold_frame", "ranking_csv", "ranking_table", "write_page", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a text file at once."""
    write_atomically(path, lambda file: file.write(text.encode()))


def ranking_table(ranking: Ranking, task: str) -> Table:
    """Return the ranking as a table: scores, differences from the best with intervals, costs."""
    name = ranking.metric_name
    further = [each for each in METRICS.values() if each.task == task and each.name != ranking.metric]
    columns = [
        "encoding",
        f"{name} (mean ± sd)",
        "above the best",
        "95 % interval",
        "p",
        *(each.label for each in further),
    ]
    columns += ["seconds", "parameters", "epochs"]
    caption = (
        f"Ordered by mean {name} over folds, lower is better; the recommended one is bold. p is adjusted for the "
        f"number of candidates; seconds are for one network. {name} without any feature: "
        f"{significant(ranking.baseline)}."
    )
    rows = [_row(line, ranking, [each.name for each in further]) for line in ranking.lines]
    return Table("ranking", "Candidates", caption, columns, rows)


def _row(line: Line, ranking: Ranking, further: Sequence[str]) -> list[Cell]:
    digits = _digits(ranking.lines[0].mean)
    best = line is ranking.lines[0]
    chosen = line is ranking.chosen
    p = "< 0.001" if line.p < 0.001 else f"{line.p:.3f}"
    return [
        Cell(str(line.candidate) + (" (recommended)" if chosen else ""), best=chosen),
        Cell(value=line.mean, sd=line.sd, digits=digits, best=chosen),
        Cell("best") if best else Cell(value=line.difference, digits=digits),
        Cell() if best else Cell(f"{significant(line.low, 3)} to {significant(line.high, 3)}"),
        Cell() if best else Cell(p),
        *(Cell(value=float(np.mean(line.scored.scores[metric])), digits=3) for metric in further),
        Cell(value=line.seconds, digits=1),
        Cell(value=line.scored.n_parameters, digits=0),
        Cell(value=float(line.scored.epochs.mean()), digits=0),
    ]


def _digits(value: float) -> int:
    """Return the decimals that show four significant digits."""
    return int(np.clip(3 - np.floor(np.log10(max(abs(value), 1e-12))), 0, 8))


def fold_frame(scored: Iterable[Scored]) -> pd.DataFrame:
    """Return one row for each network: candidate, fold, every metric, and its epochs."""
    rows = [
        {
            "encoding": str(each.candidate),
            "fold": fold,
            **{name: float(values[fold]) for name, values in each.scores.items()},
            "epochs": int(each.epochs[fold]),
            "best_epoch": int(each.best_epochs[fold]),
        }
        for each in scored
        for fold in range(len(each.epochs))
    ]
    return pd.DataFrame(rows)


def write_page(
    path: Path,
    ranking: Ranking,
    *,
    effects: Sequence[Effect],
    n_features: int,
    task: str,
    target: str,
    words: dict[str, Any],
) -> None:
    """Write the page.

    Parameters
    ----------
    path : Path
        The file.
    ranking : Ranking
        The ranking.
    effects : sequence of Effect
        Features to show.
    n_features : int
        How many features there are.
    task, target : str
        What is predicted.
    words : dict
        What else the page says: ``name``, ``numbers``, ``warnings``, ``failed``, ``done``, ``code``, ``interrupted``.
    """
    limits = _limits(effects)
    classes = task == "classification"
    features = [
        _shown(effect_picture(each, place, target=target, limits=limits, has_classes=classes))
        for place, each in enumerate(effects)
    ]
    page = page_template("compare.html.j2").render(
        **words,
        ranking=ranking,
        target=target,
        table=ranking_table(ranking, task),
        picture=_shown(ranking_picture(ranking)),
        features=features,
        features_words=_features_words(len(effects), n_features),
        how=HOW,
        n_averaged=ROWS_AVERAGED,
        light=LIGHT,
        dark=DARK,
        knotwork_version=version("knotwork"),
    )
    write_text(path, page)


def _shown(picture: Picture) -> dict[str, Any]:
    svg = inline_svg(svg_text(picture.figure), picture.name, label=picture.label, titles=picture.titles)
    return {"name": picture.name, "svg": Markup(svg), "caption": picture.caption}


def _limits(effects: Sequence[Effect]) -> tuple[float, float]:
    """Return an axis on which the curves of all features can be compared."""
    values = np.concatenate([curve for each in effects for curve in each.curves.values()] or [np.array([0.0, 1.0])])
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.05
    return low - room, high + room


def _features_words(n_shown: int, n_features: int) -> str:
    if not n_shown:
        return "There are no pictures of features, for no model was trained on all rows."
    which = "All features" if n_shown == n_features else f"The {n_shown} of {n_features} features that matter most"
    return (
        f"{which}, the most important first (by how much the loss grows when a column is shuffled). Above, the mean "
        "prediction of the saved model by the value of the feature, on the same scale for all; below it the knots that "
        "each placement chooses, and those of the model; at the bottom how the values are distributed. The outermost "
        "half per cent of the values at either end is left out."
    )


def ranking_csv(ranking: Ranking) -> str:
    """Return the ranking as CSV, with all digits."""
    frame = pd.DataFrame(
        [
            {
                "encoding": str(line.candidate),
                f"{ranking.metric}_mean": line.mean,
                f"{ranking.metric}_sd": line.sd,
                "difference": line.difference,
                "low": line.low,
                "high": line.high,
                "p_adjusted": line.p,
                "seconds": line.seconds,
                "n_parameters": line.scored.n_parameters,
                "recommended": line is ranking.chosen,
            }
            for line in ranking.lines
        ]
    )
    text = io.StringIO()
    frame.to_csv(text, index=False)
    return text.getvalue()
