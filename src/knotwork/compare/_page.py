"""The page of a comparison: its table, its figures, and the tables that are written as files."""

import textwrap
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from knotwork._files import write_atomically
from knotwork.compare._effects import MODEL_KNOTS, ROWS_AVERAGED, Effect
from knotwork.compare._scoring import Scored
from knotwork.compare._source import Source
from knotwork.compare._verdict import HOW, Line, Ranking, significant
from knotwork.encoders._methods import Encoding
from knotwork.report._page import Picture, page_template
from knotwork.report._style import DARK, LIGHT, clean_axes, inline_svg, method_colour, new_figure, svg_text
from knotwork.report._tables import Cell, Table
from knotwork.training import METRICS

__all__ = ["effect_picture", "fold_frame", "ranking_frame", "ranking_picture", "ranking_table", "write_page",
           "write_text"]  # fmt: skip


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda file: file.write(text.encode()))


def ranking_table(ranking: Ranking, task: str) -> Table:
    """Return the ranking as a table: scores, differences from the best with intervals, costs."""
    name = ranking.metric_name
    others = [metric for metric in METRICS.values() if metric.task == task and metric.name != ranking.metric]
    labels = [metric.label for metric in others]
    columns = ["model", f"{name} (mean ± sd)", "above the best encoding", "95 % interval", "p", *labels]
    columns += ["seconds", "parameters", "epochs"]
    caption = (
        f"Encodings in single networks beside other models, ordered by mean {name} over folds, lower is better; the "
        "recommended row is bold. Intervals and p hold for all rows together; seconds are for the training of one "
        f"model. {name} without any feature: "
        f"{significant(ranking.naive)}."
    )
    rows = [_row(line, ranking, [metric.name for metric in others]) for line in ranking.lines]
    return Table("ranking", "Candidates", caption, columns, rows)


def _row(line: Line, ranking: Ranking, others: Sequence[str]) -> list[Cell]:
    digits = _digits(ranking.lines[0].mean)
    best = line is ranking.reference
    chosen = line is ranking.chosen
    p = "< 0.001" if line.p < 0.001 else f"{line.p:.3f}"
    return [
        Cell(str(line.candidate) + (" (recommended)" if chosen else ""), best=chosen),
        Cell(value=line.mean, sd=line.sd, digits=digits, best=chosen),
        Cell("0") if best else Cell(value=line.difference, digits=digits),
        Cell() if best else Cell(f"{significant(line.low, 3)} to {significant(line.high, 3)}"),
        Cell() if best else Cell(p),
        *(Cell(value=float(np.mean(line.scored.scores[metric])), digits=3) for metric in others),
        Cell(value=line.seconds, digits=1),
        Cell() if line.scored.n_parameters is None else Cell(value=line.scored.n_parameters, digits=0),
        Cell() if line.kind != "encoding" else Cell(value=float(line.scored.epochs.mean()), digits=0),
    ]


def _digits(value: float) -> int:
    """Return the decimals that show four significant digits."""
    return int(np.clip(3 - np.floor(np.log10(max(abs(value), 1e-12))), 0, 8))


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
    *,
    effects: Sequence[Effect],
    n_features: int,
    task: str,
    target: str,
    compared: Source,
    words: dict[str, Any],
) -> None:
    """Write the page with the figures of `effects`, some or all of the `n_features` features.

    `compared` has the rows of the comparison, in the order of the predictions out of fold of the ranking. `words` has
    the other texts: ``name``, ``numbers``, ``warnings``, ``failed``, ``done``, ``code``, ``interrupted``, ``gain``
    (of an ensemble over a single network), ``evidence`` (what the ranking rests on), and ``banners`` (its limits).
    """
    limits = _limits(effects)
    classes = task == "classification"
    features = [
        _shown(effect_picture(effect, place, target=target, limits=limits, has_classes=classes))
        for place, effect in enumerate(effects)
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
    """Return limits of the vertical axis that suit the curves of all features."""
    values = np.concatenate([curve for effect in effects for curve in effect.curves.values()] or [np.array([0.0, 1.0])])
    low, high = float(values.min()), float(values.max())
    room = 0.06 * (high - low) or max(abs(high), 1.0) * 0.05
    return low - room, high + room


def _features_words(n_shown: int, n_features: int) -> str:
    if not n_shown:
        return "There are no figures of features, because no model was trained on all rows."
    which = "All features" if n_shown == n_features else f"The {n_shown} of {n_features} features that matter most"
    return (
        f"{which}, the most important first (by the increase of the loss when a column is shuffled). Top: mean "
        "prediction of the saved model by the value of the feature, on the same scale for all features. Middle: knots "
        "of each placement and of a network of the model. Bottom: distribution of the values. The outermost half per "
        "cent of the values at each end is not shown."
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


def ranking_picture(ranking: Ranking) -> Picture:
    """Return the figure of the differences from the best, with intervals."""
    lines = ranking.lines
    figure = new_figure(7.2, 0.9 + 0.27 * len(lines))
    axes = figure.subplots()
    clean_axes(axes, LIGHT)
    axes.grid(axis="x", color=LIGHT.line, linewidth=0.6)
    axes.axvline(0, color=LIGHT.muted, linewidth=1)
    unit = 100 / ranking.reference.mean if ranking.reference.mean > 0 else 1.0
    titles = {}
    for place, line in enumerate(lines):
        colour = method_colour(line.candidate.method, LIGHT) if isinstance(line.candidate, Encoding) else LIGHT.muted
        axes.plot([unit * line.low, unit * line.high], [place, place], color=colour, linewidth=1.6)
        fill = colour if line is ranking.chosen else LIGHT.background
        axes.plot(
            [unit * line.difference], [place], "o", color=colour, markerfacecolor=fill, markersize=6, gid=f"dot-{place}"
        )
        titles[f"dot-{place}"] = f"{line.candidate}: mean {ranking.metric_name} {significant(line.mean)}"
    axes.set_yticks(np.arange(len(lines)), [str(line.candidate) for line in lines])
    axes.invert_yaxis()
    points = np.array([[line.difference, line.high] for line in lines]) * unit
    # One wide interval must not compress the others: the axis is cut, which the caption tells.
    far = max(2.5 * float(np.median(points[:, 1])), 1.15 * float(points[:, 0].max()), 1e-6)
    least = min(float(np.quantile([unit * line.low for line in lines], 0.25)), 0.0)
    axes.set_xlim(max(least, -far) - 0.03 * far, min(float(points[:, 1].max()), far) + 0.05 * far)
    axes.set_xlabel(f"{ranking.metric_name} above the best encoding, in % of it (lower is better)", fontsize=9)
    return Picture(
        "ranking", figure,
        "Mean difference from the best encoding over folds, with its 95 % interval; the recommended row is filled. "
        "Wide intervals may be cut off.",
        f"Candidates by {ranking.metric_name}. Best: {lines[0].candidate}. Recommended: "
        f"{ranking.chosen.candidate}.", titles,
    )  # fmt: skip


def effect_picture(
    effect: Effect, place: int, *, target: str, limits: tuple[float, float], has_classes: bool
) -> Picture:
    """Return the figure of a feature: partial dependence, knots and histogram, one above the other.

    `place` makes the name of the figure unique; `limits` of the vertical axis are the same for all features.
    """
    heights = [2.3, 1.25, 0.75] if effect.knots else [2.3, 0.75]
    figure = new_figure(5.4, 0.75 + sum(heights))
    grid = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    for axes in grid:
        clean_axes(axes, LIGHT)
    _draw_curves(grid[0], effect, target, has_classes=has_classes)
    grid[0].set_ylim(*limits)
    if effect.knots:
        _draw_knots(grid[1], effect)
    _draw_counts(grid[-1], effect)
    missing = f", missing in {100 * effect.missing:.1f} % of rows" if effect.missing > 0 else ""
    grid[-1].set_xlabel(_short(effect.name, 50), fontsize=9.5)
    return Picture(
        f"feature-{place}", figure,
        f"{effect.name}{missing}. {_weight(effect.importance)}",
        f"Partial dependence of {target} on {effect.name}, its knots and its distribution.",
    )  # fmt: skip


def _weight(importance: float) -> str:
    if importance <= 0:
        return "Shuffling it does not raise the loss."
    return f"Shuffling it raises the loss by {significant(importance, 3)}."


def _draw_curves(axes: Axes, effect: Effect, target: str, *, has_classes: bool) -> None:
    colours = [LIGHT.blue, LIGHT.orange, LIGHT.green, LIGHT.pink]
    dots = "o" if effect.edges is None or len(effect.values) <= 10 else ""
    line = "none" if effect.edges is None else "-"
    where = _positions(effect)
    for (label, curve), colour in zip(effect.curves.items(), colours, strict=False):
        axes.plot(
            where, curve, ls=line, marker=dots, color=colour, lw=1.8, markersize=5, label=_short(label, 20), gid="curve"
        )
    if len(effect.curves) > 1:
        axes.legend(fontsize=8, frameon=False, labelcolor=LIGHT.ink, ncols=2).set_zorder(3)
    label = _short(target, 22)
    if has_classes:
        label = f"probability of {_short(next(iter(effect.curves)), 20)}" if len(effect.curves) == 1 else "probability"
    axes.set_ylabel(f"mean {label}", fontsize=9)
    axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _positions(effect: Effect) -> Sequence[float]:
    return list(range(len(effect.values))) if effect.edges is None else [float(value) for value in effect.values]


def _draw_knots(axes: Axes, effect: Effect) -> None:
    """Draw the knots of each placement as a row of ticks."""
    rows = list(effect.knots)
    for place, (name, knots) in enumerate(effect.knots.items()):
        colour = LIGHT.red if name == MODEL_KNOTS else LIGHT.muted
        axes.plot(knots, np.full(len(knots), place), "|", color=colour, markersize=9, markeredgewidth=1.4, gid="knots")
    axes.set_yticks(np.arange(len(rows)), rows, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="y", color=LIGHT.line, linewidth=0.6)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.spines["left"].set_visible(False)


def _draw_counts(axes: Axes, effect: Effect) -> None:
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    if effect.edges is None:
        axes.bar(np.arange(len(effect.counts)), effect.counts, color=LIGHT.grey, alpha=0.6, width=0.7)
        labels = ["\n".join(textwrap.wrap(_short(str(value), 18), 18)) for value in effect.values]
        turned = sum(map(len, labels)) > 40
        axes.set_xticks(
            np.arange(len(labels)), labels, rotation=35 if turned else 0, ha="right" if turned else "center", fontsize=8
        )
        axes.set_xlim(-0.6, len(effect.counts) - 0.4)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(7))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axes.stairs(effect.counts, effect.edges, fill=True, color=LIGHT.grey, alpha=0.6)
        span = effect.edges[-1] - effect.edges[0]
        axes.set_xlim(effect.edges[0] - 0.02 * span, effect.edges[-1] + 0.02 * span)
    axes.set_ylabel("rows", fontsize=8.5, color=LIGHT.muted)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
