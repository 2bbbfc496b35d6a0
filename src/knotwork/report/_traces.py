"""Figures of the traces of a study (learning curves, paths of knots, fitted curves) and of its data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from sklearn.metrics import roc_auc_score

from knotwork._look import LIGHT, TYPE
from knotwork._writing import counted, fixed, significant
from knotwork.datasets import SYNTHETIC, illustration_curve, illustration_probability, load_dataset
from knotwork.report._aggregate import SCORES, in_order, of_size
from knotwork.report._figures import legend_of, look_of
from knotwork.report._illustrations import FitPanel, FittedCurve, draw_fits, draw_scatter
from knotwork.report._page import Drawing, Picture
from knotwork.report._style import Style, add_legend, draw_point, name_axes, new_panels, panel_title
from knotwork.study import PLANS, load_curves, load_histories, load_knot_paths, load_plan

Floats = npt.NDArray[np.float64]

TRUTHS = {"illustration_regression": illustration_curve, "illustration_classification": illustration_probability}
"""Data sets with one feature and a known true curve."""


@dataclass(frozen=True, eq=False)
class Traces:
    """Histories, paths of knots and fitted curves of networks, by the `key` of each network.

    Parameters
    ----------
    histories : DataFrame
        Columns `key epoch loss score rate`; lower scores are better.
    knots : DataFrame
        Columns `key epoch feature knot position`; epoch 0 is the start.
    curves : DataFrame
        Columns `key x value`.
    """

    histories: pd.DataFrame
    knots: pd.DataFrame
    curves: pd.DataFrame


def load_traces(folder: Path) -> Traces:
    """Load the histories, paths of knots and fitted curves of a study.

    Parameters
    ----------
    folder : Path
        The folder of the study, as in ``knotwork study run --out``.
    """
    return Traces(load_histories(folder), load_knot_paths(folder), load_curves(folder))


def learning_picture(frame: pd.DataFrame, histories: pd.DataFrame, task: str) -> Picture | None:
    """Return the learning curves of all methods on one data set, network, size and fold; None without histories.

    The data set, network, fold and seed are those with the most methods, the first by name.
    """
    kept = frame[(frame["task"] == task) & frame["score"].notna() & frame["key"].isin(histories["key"].unique())]
    if not len(kept):
        return None
    smallest = kept["size"].min()
    kept = kept[kept["size"].isna() | (kept["size"] == smallest)]
    problems = kept.groupby(["dataset", "network", "fold", "seed"])
    problem = problems["method"].nunique().idxmax()
    dataset, network, fold, _ = problem
    chosen = problems.get_group(problem).drop_duplicates("method").set_index("method")
    curves = {
        method: histories[histories["key"] == chosen.loc[method, "key"]].sort_values("epoch")
        for method in in_order(chosen.index)
    }
    place = f"{dataset}, {network}{of_size(smallest)}, fold {fold}"
    stops = ", ".join(f"{method} {best_epoch(curve)} of {len(curve)}" for method, curve in curves.items())
    return draw_learning_curves(curves, ylabel="validation score (lower is better)").picture(
        f"learning_{task}",
        f"{place}: training loss and validation score by epoch; a marker is where a network was best, and its curve "
        "ends where it stopped.",
        f"Learning curves, {place}. Best epoch of those trained: {stops}.",
    )


def draw_learning_curves(curves: Mapping[str, pd.DataFrame], *, ylabel: str) -> Drawing:
    """Plot losses and validation scores of networks by epoch, with a marker at the best epoch.

    `curves` maps methods to columns `loss` and `score`. The curves of a network have the group id ``curve-INDEX``, its
    mark ``best-INDEX``.
    """
    figure, (left, right) = new_panels(2, size=(4.8, 3.7), lines="y")
    drawing = Drawing(figure)
    for axes, name in ((left, "training loss"), (right, ylabel)):
        panel_title(axes, name)
        axes.set_xlabel("epoch", fontsize=TYPE.text)
    left.set_yscale("log")
    left.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5]))
    left.yaxis.set_minor_locator(NullLocator())
    left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: significant(value)))
    for i, (method, curve) in enumerate(curves.items()):
        score, best = curve["score"].to_numpy(dtype=float), best_epoch(curve)
        title = f"{method}: best at epoch {best} of {len(curve)}"
        line, mark = (drawing.part(f"{part}-{i}", title, method) for part in ("curve", "best"))
        for axes, values in ((left, curve["loss"]), (right, score)):
            axes.plot(np.arange(1, len(curve) + 1), values, linewidth=1.1, alpha=0.85, gid=line, **look_of(method))
        draw_point(right, best, score[best - 1], method=method, size=5, gid=mark)
    legend_of(figure, list(curves))
    return drawing


def best_epoch(curve: pd.DataFrame) -> int:
    """Return the epoch of a learning curve with the lowest score, counted from 1."""
    return int(np.nanargmin(curve["score"])) + 1


def knot_pictures(frame: pd.DataFrame, knots: pd.DataFrame) -> list[Picture]:
    """Return the paths of the knots of the first feature, a figure per method, a panel per network."""
    pictures = []
    for method, paths in _paths(frame, knots).items():
        first_move = min(int(np.argmax((path != path[0]).any(axis=1))) or len(path) for path in paths.values())
        feature = str(knots["feature"].iloc[0])
        moved = "; ".join(f"{name} {fixed(_travel(path), 3)}" for name, path in paths.items())
        picture = draw_knot_trajectories(paths, warm_up=max(0, first_move - 1)).picture(
            f"knots_{method}",
            f"{method}: distance of the knots of {feature} from their start, by epoch, in units of the feature. "
            "Shaded: epochs before any knot moves.",
            f"Displacement of the knots of {feature}, {method}. Largest distance of a knot: {moved}.",
        )
        pictures.append(picture)
    return pictures


def describe_knots(frame: pd.DataFrame, knots: pd.DataFrame) -> list[str]:
    """Return sentences on the distances that knots moved, in units of the feature."""
    notes = []
    for method, paths in _paths(frame, knots).items():
        first = next(iter(paths)).rpartition(" ")[0]  # words that all settings share, such as "learning rate of knots"
        names = [name.removeprefix(f"{first} ") if place else name for place, name in enumerate(paths)]
        moved = ", ".join(
            f"{fixed(_travel(path), 3)} ({name})" for name, path in zip(names, paths.values(), strict=True)
        )
        notes.append(f"{method}: at the end of training, the largest distance of a knot from its start is {moved}.")
    return notes


def _travel(path: Floats) -> float:
    return float(np.abs(path[-1] - path[0]).max())


def _paths(frame: pd.DataFrame, knots: pd.DataFrame) -> dict[str, dict[str, Floats]]:
    """Return knots of the first feature by method and network, each of shape (epochs + 1, n_knots)."""
    by_method: dict[str, dict[str, Floats]] = {}
    kept = frame[frame["key"].isin(knots["key"].unique())].drop_duplicates(["method", "network"])
    for row in kept.sort_values("method").to_dict("records"):
        part = knots[knots["key"] == row["key"]]
        part = part[part["feature"] == part["feature"].iloc[0]]
        wide = part.pivot(index="epoch", columns="knot", values="position").sort_index().to_numpy(dtype=float)
        by_method.setdefault(str(row["method"]), {})[_setting(row)] = wide
    return {
        method: dict(sorted(paths.items(), key=lambda path: _order(path[0]))) for method, paths in by_method.items()
    }


def _setting(row: Mapping[Any, Any]) -> str:
    """Return what distinguishes a network from others: the setting of its variant, or else its backbone."""
    if not row["variant"] or pd.isna(row["variant"]):
        return str(row["network"])
    plan = load_plan(row["plan"]) if row["plan"] in PLANS else None
    varied = {name for variant in plan.variants for name in variant.training} if plan is not None else set()
    if plan is not None and varied == {"knot_rate"} and row["variant"] in plan.variant_names:
        config = plan.config_of(row["variant"])
        rate = np.format_float_scientific(config.learning_rate * config.knot_rate, precision=3, trim="-", exp_digits=1)
        return f"learning rate of knots {rate}"
    return f"variant {row['variant']}"


def _order(setting: str) -> tuple[float, str]:
    """Return the sort key of a setting: its last word if that is a number, otherwise its name."""
    try:
        return float(setting.rpartition(" ")[2]), setting
    except ValueError:
        return float("inf"), setting


def draw_knot_trajectories(knots: Mapping[str, Floats], *, warm_up: int = 0) -> Drawing:
    """Plot the distance of the knots of one feature from their start by epoch, a panel per setting, three in a row.

    `knots` maps titles of panels to positions of shape (n_epochs, n_knots). The first `warm_up` epochs, in which knots
    are fixed, are shaded. A knot has the group id ``knot-PANEL-KNOT`` and the same colour in all panels.
    """
    colours = LIGHT.data_colours
    figure, grid = new_panels(len(knots), (0.5, 0.6), size=(3.2, 2.4), share="both")
    drawing = Drawing(figure)
    for p, (axes, (name, values)) in enumerate(zip(grid, knots.items(), strict=True)):
        axes.axhline(0, color=LIGHT.muted, linewidth=0.8, zorder=1)
        if warm_up:
            axes.axvspan(0, warm_up, color=LIGHT.line, alpha=0.5, linewidth=0)
        for k, path in enumerate(values.T):
            moved = f"from {fixed(path[0], 3)} to {fixed(path[-1], 3)}, {fixed(path[-1] - path[0], 3, signed=True)}"
            gid = drawing.part(f"knot-{p}-{k}", f"{name}, knot {k + 1}: {moved}")
            colour = colours[k % len(colours)]
            axes.plot(np.arange(len(path)), path - path[0], color=colour, linewidth=1.3, gid=gid)
        panel_title(axes, name)
    starts = [significant(start, 3) for start in next(iter(knots.values()))[0]]
    handles = [Line2D([], [], color=colours[k % len(colours)]) for k in range(len(starts))]
    style: Style = {"title": "start of the knot", "title_fontsize": TYPE.small, "alignment": "left"}
    legend = add_legend(figure, handles, starts, loc="outside upper left", ncols=min(len(starts), 8), **style)
    legend.get_title().set_color(LIGHT.ink)
    name_axes(figure, "epoch", "distance from the start")
    return drawing


def fit_picture(frame: pd.DataFrame, curves: pd.DataFrame) -> Picture | None:
    """Return fitted curves with the data and the true curves, if these are known; otherwise None."""
    kept = frame[frame["key"].isin(curves["key"].unique()) & frame["dataset"].isin(list(TRUTHS))]
    panels, notes = [], []
    for dataset in [name for name in TRUTHS if name in set(kept["dataset"])]:
        part = kept[kept["dataset"] == dataset].drop_duplicates("method").set_index("method")
        task = str(part["task"].iloc[0])
        scores = dict(zip(part.index, part["score"].tolist(), strict=True))
        fits, grid = [], np.array([])
        for method in in_order(part.index):
            curve = curves[curves["key"] == part.loc[method, "key"]].sort_values("x")
            grid = curve["x"].to_numpy(dtype=float)
            values = curve["value"].to_numpy(dtype=float)
            quality = noiseless_scores(task, TRUTHS[dataset](grid), values)
            note = ", ".join(f"{name} {fixed(score, 4)}" for name, score in quality.items())
            fits.append(FittedCurve(method, values, note))
            notes.append(f"{task}, {method}: {note}; {SCORES[task].label} of test rows {fixed(scores[method], 4)}")
        table = load_dataset(dataset)
        ylabel = "y" if task == "regression" else "probability of class 1"
        x, y = table.numbers()[:, 0], np.asarray(table.target_values(), dtype=float)
        panels.append(FitPanel(task.capitalize(), ylabel, grid, TRUTHS[dataset](grid), x, y, fits))
    if not panels or len({len(panel.fits) for panel in panels}) > 1:
        return None
    sizes = sorted({f"{size:.0f}" for size in kept["size"].dropna()})
    return Picture(
        "fits",
        draw_fits(panels),
        f"Linear models behind encodings of size {', '.join(sizes)}: fits (coloured), the truth (dashed) and the data. "
        "Scores compare a fit with the truth at evenly spaced x: NRMSE with the noiseless target, by its standard "
        "deviation; AUC and Brier score in expectation over classes drawn with the true probabilities.",
        f"Fits of linear models on two problems of one feature. {'; '.join(notes)}.",
    )


def noiseless_scores(task: str, truth: Floats, fit: Floats) -> dict[str, float]:
    """Return the scores of a fitted curve against the true one, of shape (n_grid,), on a grid of equally likely values.

    For regression, curves are targets without noise, and the score is NRMSE, by the standard deviation of the truth.
    For two classes they are probabilities of the second one, and the scores are AUC and Brier score.

    Notes
    -----
    With p the true and q the fitted probability, the expected Brier score is the mean of ``p (1 - q)^2 + (1 - p) q^2``.
    AUC is the probability that a value drawn in proportion to p has a larger q than one drawn in proportion to 1 - p.

    Examples
    --------
    >>> noiseless_scores("classification", np.array([0.0, 1.0]), np.array([0.2, 0.8]))
    {'AUC': 1.0, 'Brier score': 0.04}
    """
    if task == "regression":
        return {"NRMSE": float(np.sqrt(np.mean((fit - truth) ** 2)) / np.std(truth))}
    classes, weights = np.repeat([1, 0], len(truth)), np.concatenate([truth, 1 - truth])
    auc = float(roc_auc_score(classes, np.tile(fit, 2), sample_weight=weights))
    brier = float(np.mean(truth * (1 - fit) ** 2 + (1 - truth) * fit**2))
    return {"AUC": auc, "Brier score": round(brier, 12)}


def scatter_picture(frame: pd.DataFrame) -> Picture | None:
    """Return the scatter plot of a synthetic data set: its target against its first feature.

    None for several data sets, for real data, and if this version of the library generates different data.
    """
    names = set(frame["dataset"])
    if len(names) > 1 or not names <= set(SYNTHETIC):
        return None
    table = load_dataset(name := names.pop())
    if set(frame["data_sha256"].dropna()) != {table.sha256}:
        return None
    feature, target = table.numerical[0], table.target
    x, y = table.numbers()[:, 0], np.asarray(table.target_values(), dtype=float)
    step = max(1, len(x) // 4000)
    return Picture(
        f"data_{name}",
        draw_scatter(x[::step], y[::step], xlabel=feature, ylabel=target),
        f"The data: {target} against {feature}, {counted(len(x[::step]))} of {counted(len(x), 'row')}, and the "
        f"histogram of {feature}.",
        f"Scatter plot of the synthetic data set {name}, {target} against {feature}.",
    )
