"""The page of a comparison, and the tables that are written as files."""

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from knotwork._files import write_atomically
from knotwork._writing import significant
from knotwork.compare import _figures as figures
from knotwork.compare._inputs import Source
from knotwork.compare._scoring import Scored
from knotwork.compare._verdict import HOW, ONE_RULE, RankedRow, Ranking
from knotwork.encoders import FeatureChoice
from knotwork.report import Cell, Picture, ReportTable, page_template, shown_picture
from knotwork.training import METRICS


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically; characters of file names that are not UTF-8 are written as escapes."""
    write_atomically(path, lambda file: file.write(text.encode(errors="backslashreplace")))


def ranking_table(ranking: Ranking, task: str) -> ReportTable:
    """Return the ranking as a table: scores, differences from the best with intervals, costs."""
    name = ranking.metric_name
    others = [metric for metric in METRICS.values() if metric.task == task and metric.name != ranking.metric]
    labels = [metric.label for metric in others]
    columns = ["model", f"{name} (mean ± sd)", "above the best", "95 % interval", "p", *labels]
    columns += ["training rows", "seconds", "parameters"]
    caption = (
        f"All models, ordered by mean {name} over folds, lower is better; the recommended row, which is saved, is "
        "bold. "
        "Encodings are in single networks. Intervals and p hold for all rows together; training rows are those of one "
        f"fold, seconds the training of one model. {name} without any feature: {significant(ranking.naive)}."
    )
    # The decimals that show four significant digits of the best mean.
    digits = int(np.clip(3 - np.floor(np.log10(max(abs(ranking.lines[0].mean), 1e-12))), 0, 8))
    rows = [_row(line, ranking, [metric.name for metric in others], digits) for line in ranking.lines]
    return ReportTable("ranking", "Candidates", caption, columns, rows)


def _row(line: RankedRow, ranking: Ranking, others: Sequence[str], digits: int) -> list[Cell]:
    best, chosen = line is ranking.best, line is ranking.chosen
    p = "< 0.001" if line.p < 0.001 else f"{line.p:.3f}"
    return [
        Cell(str(line.candidate) + (" (recommended)" if chosen else ""), best=chosen),
        Cell(value=line.mean, sd=line.sd, digits=digits, best=chosen),
        Cell("0") if best else Cell(value=line.difference, digits=digits),
        Cell() if best else Cell(f"{significant(line.low, 3)} to {significant(line.high, 3)}"),
        Cell() if best else Cell(p),
        *(Cell(value=float(np.mean(line.scored.scores[metric])), digits=3) for metric in others),
        Cell(value=line.scored.n_trained, digits=0),
        Cell(value=line.seconds, digits=1),
        Cell() if line.scored.n_parameters is None else Cell(value=line.scored.n_parameters, digits=0),
    ]


def fold_frame(scored: Iterable[Scored]) -> pd.DataFrame:
    """Return one row per network: candidate, fold, every metric, and epochs."""
    rows = [
        {
            "encoding": str(result.candidate),
            "fold": fold,
            **{name: float(values[fold]) for name, values in result.scores.items()},
            "epochs": int(result.epochs[fold]),
            "best_epoch": int(result.best_epochs[fold]),
        }
        for result in scored
        for fold in range(len(result.epochs))
    ]
    return pd.DataFrame(rows)


def write_page(
    path: Path,
    ranking: Ranking,
    compared: Source,
    *,
    words: dict[str, Any],
    model: tuple[str, str] | None = None,
    choices: Sequence[FeatureChoice] = (),
    duration: Callable[[], str] = str,
) -> None:
    """Write the page of the ranking, with the top third of the page of the recommended model.

    `compared` has the tested rows, in the order of the predictions out of fold of the ranking. `model` is the main
    sentence of the page of the model and that third as HTML, None without such a page. `choices` are the encodings that
    suit each numerical column, if they were compared. `words` has the other texts: ``numbers``, ``warnings``,
    ``failed``, ``done``, ``code``, ``interrupted``, ``saved`` (which model), ``evidence`` (what the ranking rests on),
    and ``banners`` (its limits). `duration` is called last: it returns the duration of the comparison in words.
    """
    content: dict[str, Any] = dict(
        **words,
        name=compared.name,
        ranking=ranking,
        target=compared.target_name,
        table=ranking_table(ranking, compared.task),
        picture=_shown(figures.ranking_picture(ranking)),
        headline="" if model is None else model[0],
        view="" if model is None else Markup(model[1]),
        training=[_shown(picture) for picture in _training(ranking, compared)],
        choices=_shown(figures.choices_picture(choices)) if choices else None,
        how=HOW,
        rule=ONE_RULE,
        knotwork_version=version("knotwork"),
    )
    write_text(path, page_template("compare.html.j2").render(**content, duration=duration()))


def _shown(picture: Picture) -> dict[str, Any]:
    return shown_picture(picture, picture.name)


def _training(ranking: Ranking, compared: Source) -> list[Picture]:
    """Return what the page of the model does not have: which classes are confused, and learning curves."""
    line, pictures = ranking.chosen, list[Picture]()
    if compared.task == "classification" and line.scored.predictions is not None:
        about: dict[str, Any] = {"classes": compared.classes, "model": str(line.candidate), "name": "classes"}
        pictures.append(figures.confusion_picture(compared.target, line.scored.predictions, **about))
    learning = figures.learning_picture(ranking)
    return pictures if learning is None else [*pictures, learning]


def ranking_frame(ranking: Ranking) -> pd.DataFrame:
    """Return the ranking with all digits, one row per candidate."""
    return pd.DataFrame(
        [
            {
                "encoding": str(line.candidate),
                "kind": line.kind,
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
