"""The page of a comparison, and the tables that are written as files."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from knotwork._files import write_atomically
from knotwork._writing import counted, significant
from knotwork.compare import _figures as figures
from knotwork.compare._effects import ShownFeature, numbers_by_name
from knotwork.compare._inputs import Source
from knotwork.compare._scoring import Scored
from knotwork.compare._verdict import HOW, ONE_RULE, RankedRow, Ranking
from knotwork.encoders import FeatureChoice
from knotwork.estimators import EFFECTS
from knotwork.report import Cell, Picture, ReportTable, page_template, shown_picture
from knotwork.training import METRICS

N_UNFOLDED, N_RESIDUALS = 6, 12
"""Figures of features that are shown and printed, the others being folded; and features with residuals, as many as have
a figure of their effect by default."""


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
    effects: Sequence[ShownFeature],
    n_features: int,
    words: dict[str, Any],
    choices: Sequence[FeatureChoice] = (),
    deadline: float = math.inf,
    duration: Callable[[], str] = str,
) -> None:
    """Write the page with the figures of `effects`, some or all of the `n_features` features.

    `compared` has the tested rows, in the order of the predictions out of fold of the ranking. `choices` are the
    encodings that suit each numerical column, if they were compared. `words` has the other texts: ``numbers``,
    ``warnings``, ``failed``, ``done``, ``code``, ``interrupted``, ``saved`` (which model), ``evidence`` (what the
    ranking rests on), and ``banners`` (its limits). After `deadline`, on the clock of ``time.perf_counter``, no
    residuals are drawn. `duration` is called last: it returns the duration of the comparison in words.
    """
    names = ([effect.name for effect in effects] or list(compared.features.columns))[:N_RESIDUALS]
    residuals, residuals_words = _residuals(ranking, compared, names, deadline)
    content: dict[str, Any] = dict(
        **words,
        name=compared.name,
        ranking=ranking,
        target=compared.target_name,
        table=ranking_table(ranking, compared.task),
        picture=_shown(figures.ranking_picture(ranking)),
        quality=[_shown(picture) for picture in _quality(ranking, compared)],
        quality_words=_quality_words(ranking, compared),
        residuals=_folded(residuals),
        residuals_words=residuals_words,
        choices=_shown(figures.choices_picture(choices)) if choices else None,
        features=_folded(_features(effects, compared)),
        features_words=_features_words(len(effects), n_features),
        how=HOW,
        rule=ONE_RULE,
        n_averaged=EFFECTS.n_rows,
        knotwork_version=version("knotwork"),
    )
    write_text(path, page_template("compare.html.j2").render(**content, duration=duration()))


def _shown(picture: Picture) -> dict[str, Any]:
    return shown_picture(picture, picture.name)


def _folded(pictures: Sequence[Picture]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the pictures that are shown, and those that are folded."""
    shown = [_shown(picture) for picture in pictures]
    return shown[:N_UNFOLDED], shown[N_UNFOLDED:]


def _features(effects: Sequence[ShownFeature], compared: Source) -> list[Picture]:
    """Return the figures of features and of their pairs."""
    pictures, target, has_classes = list[Picture](), compared.target_name, compared.task == "classification"
    limits = figures.effect_limits(effects)
    for place, effect in enumerate(effects):
        pictures.append(figures.effect_picture(effect, place, target=target, limits=limits, has_classes=has_classes))
        if effect.pair is not None:
            pictures.append(figures.pair_picture(effect, effect.pair, place, target=target))
    return pictures


def _quality(ranking: Ranking, compared: Source) -> list[Picture]:
    """Return figures of the predictions out of fold of the recommended model and of the best other, and of training."""
    draws: dict[str, Any] = {"predicted": figures.predicted_picture}
    of_target: dict[str, Any] = {"target": compared.target_name}
    if compared.task == "classification":
        draws = {"predicted": figures.confusion_picture, "calibration": figures.calibration_picture}
        of_target = {"classes": compared.classes}
    pictures = [
        draw(compared.target, line.scored.predictions, model=str(line.candidate), name=f"{name}-{place}", **of_target)
        for place, line in enumerate([ranking.chosen, ranking.other])
        if line is not None and line.scored.predictions is not None
        for name, draw in draws.items()
    ]
    learning = figures.learning_picture(ranking)
    return pictures if learning is None else [*pictures, learning]


def _residuals(ranking: Ranking, compared: Source, names: Sequence[str], deadline: float) -> tuple[list[Picture], str]:
    """Return the residuals of the recommended model out of fold by feature, and sentences on them."""
    predicted = ranking.chosen.scored.predictions
    if predicted is None:
        return [], ""
    residuals, words = _residual_values(compared, predicted)
    numbers = numbers_by_name(*compared.read)
    bands = [figures.residual_bands(name, numbers.get(name, compared.features[name]), residuals) for name in names]
    largest = max((float(np.abs(each.means).max(initial=0.0)) for each in bands), default=0.0)
    # Intervals of small bands may be cut off: they would compress the means.
    limits = (-1.6 * largest, 1.6 * largest) if largest > 0 else (-1.0, 1.0)
    pictures: list[Picture] = []
    for place, each in enumerate(bands):
        if place and time.perf_counter() > deadline:  # the most important feature is always shown
            break
        pictures.append(figures.residual_picture(each, place, limits=limits))
    left_out = len(names) - len(pictures)
    short = f" Time was short: {counted(left_out, 'feature')} of {len(names)} are left out." if left_out else ""
    return pictures, (
        f"Mean of the residuals of the saved model ({words}) in bands of each feature, with 95 % intervals. Means that "
        f"differ from 0 show what the model has not learned.{short}"
    )


def _residual_values(compared: Source, predicted: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], str]:
    """Return a residual for each row, and what it is."""
    if compared.task == "regression":
        return compared.target - predicted, "actual minus predicted number"
    if len(compared.classes) == 2:
        return compared.target - predicted[:, 1], "1 or 0 for the second class, minus its predicted probability"
    errors = 1 - predicted[np.arange(len(predicted)), compared.target]
    return errors - errors.mean(), "1 minus the probability of the actual class, minus the mean of that"


def _quality_words(ranking: Ranking, compared: Source) -> str:
    beside = "" if ranking.other is None else f" Beside it stands the best other row, {ranking.other.name}."
    return (
        f"The model is {ranking.chosen.name}. Each of {counted(compared.n_rows)} rows is predicted by "
        "models that were not "
        f"trained on it.{beside}"
    )


def _features_words(n_shown: int, n_features: int) -> str:
    if not n_shown:
        return "There are no figures of features, because no model was trained on all rows."
    which = "All features" if n_shown == n_features else f"The {n_shown} of {n_features} features that matter most"
    return (
        f"{which}, the most important first (by the increase of the loss when a column is shuffled). Top: mean "
        "prediction of the saved model by the value of the feature, on the same scale for all features; thin lines are "
        "single rows. Middle: knots of each placement and of a network of the model. Bottom: distribution of the "
        "values. The outermost per cent of the values at each end is not shown. Where the mean is flat but the "
        "lines are not, a heatmap shows the other feature that explains most of it."
    )


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
