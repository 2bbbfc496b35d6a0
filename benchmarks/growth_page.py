"""The page of `benchmarks/growth.py`: curves, their slopes, and whether one has a cliff."""

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from knotwork.report import LIGHT, clean_axes, save_figure

ROOT = Path(__file__).parents[1]
PAGE, IMAGES = ROOT / "docs" / "growth.md", ROOT / "docs" / "images"

FAR_ENOUGH = 2.0
"""Local slopes are those between points whose values differ by this factor: noise would decide closer ones."""

CLIFF = 1.5
"""A local slope above this is a cliff: ten times as much then costs more than thirty times as much."""

AXES = {"rows": "rows", "columns": "columns", "size": "size m", "members": "networks"}
WORDS = {"rows": "{:,} rows", "columns": "{:,} columns", "size": "m = {}", "members": "{} networks"}
COLOURS = {
    "encoder fit": "blue", "encoder transform": "orange", "layer": "green", "training epoch": "pink",
    "estimator fit": "red", "estimator predict": "grey",
}  # fmt: skip
"""Colours of the theme."""
DEVICES = {"cpu": "CPU, one thread", "cuda": "GPU"}

Curves = dict[tuple[str, str], list[dict[str, Any]]]


def curves_of(lines: Sequence[dict[str, Any]]) -> Curves:
    """Return the points of each curve in the order of their values."""
    curves: Curves = defaultdict(list)
    for line in lines:
        curves[line["what"], line["axis"]].append(line)
    return {key: sorted(points, key=lambda point: point["value"]) for key, points in curves.items() if len(points) > 1}


def slope(points: Sequence[dict[str, Any]]) -> float:
    """Return the slope of the least squares line on log-log axes."""
    values, seconds = (np.log([point[name] for point in points]) for name in ("value", "seconds"))
    return float(np.polyfit(values, seconds, 1)[0])


def steepest(points: Sequence[dict[str, Any]]) -> tuple[float, int, int]:
    """Return the largest local slope, and the values between which it is."""
    local = []
    for place, a in enumerate(points):
        later = [point for point in points[place + 1 :] if point["value"] >= FAR_ENOUGH * a["value"]]
        if later:
            b = later[0]
            rise = math.log(b["seconds"] / a["seconds"]) / math.log(b["value"] / a["value"])
            local.append((rise, a["value"], b["value"]))
    return max(local)


def draw(curves: Curves, name: str) -> None:
    """Draw one panel for each axis, and write the figure in light and in dark colours."""
    axes = [axis for axis in AXES if any(key[1] == axis for key in curves)]
    figure = Figure(figsize=(6.4, 0.6 + 2.6 * -(-len(axes) // 2)), layout="constrained", facecolor=LIGHT.background)
    panels = figure.subplots(-(-len(axes) // 2), 2, squeeze=False).flat
    for panel in panels[len(axes) :]:
        panel.set_visible(False)
    for panel, axis in zip(panels, axes, strict=False):
        _draw_axis(panel, {what: points for (what, grows), points in curves.items() if grows == axis})
        panel.set_xlabel(AXES[axis])
        panel.set_ylabel("seconds")
    shown = {what: getattr(LIGHT, colour) for what, colour in COLOURS.items() if any(key[0] == what for key in curves)}
    lines = [Line2D([], [], color=colour, marker="o", ms=3) for colour in shown.values()]
    figure.legend(lines, list(shown), loc="outside upper center", ncols=3, frameon=False, labelcolor=LIGHT.ink)
    save_figure(figure, IMAGES / f"{name}.svg")


def _draw_axis(panel: Any, curves: dict[str, list[dict[str, Any]]]) -> None:
    for what, points in curves.items():
        values, seconds = ([point[name] for point in points] for name in ("value", "seconds"))
        panel.loglog(values, seconds, color=getattr(LIGHT, COLOURS[what]), marker="o", ms=3, lw=1.3)
        middle = len(points) // 2
        line = [seconds[middle] * value / values[middle] for value in values]
        panel.loglog(values, line, color=LIGHT.line, lw=0.8, ls="--", zorder=0)
    for axis in (panel.xaxis, panel.yaxis):  # texts of figures are no formulas
        axis.set_major_formatter(FuncFormatter(short))
        axis.set_minor_formatter(NullFormatter())
    panel.grid(color=LIGHT.line, lw=0.3)
    clean_axes(panel, LIGHT)


def table(curves: Curves) -> list[str]:
    """Return the slopes of all curves."""
    lines = ["| what | grows | from | to | seconds | slope | steepest part |", "|---|---|--:|--:|---|--:|---|"]
    for (what, axis), points in curves.items():
        first, last = points[0], points[-1]
        rise, a, b = steepest(points)
        fixed = ", ".join(
            WORDS[name].format(first[name])
            for name in AXES
            if name != axis and not (name == "members" and first[name] == 1)
        )
        lines.append(
            f"| {what} ({fixed}) | {AXES[axis]} | {first['value']:,} | {last['value']:,} "
            f"| {first['seconds']:.2g} to {last['seconds']:.2g} | {slope(points):.2f} "
            f"| {rise:.2f}, {a:,} to {b:,} |"
        )
    return lines


def short(value: float, _: object = None) -> str:
    """Return a number of an axis in a few characters.

    >>> [short(value) for value in (1e-5, 0.001, 5000, 1e4, 1e8)]
    ['0.00001', '0.001', '5,000', '10k', '100M']
    """
    if value < 1.0:
        return f"{value:.9f}".rstrip("0")
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= max(unit, 1e4):
            return f"{value / unit:g}{name}"
    return f"{value:,g}"


def verdict(curves: Curves) -> str:
    """Return a sentence on cliffs."""
    steep = {key: steepest(points) for key, points in curves.items()}
    (what, axis), (rise, a, b) = max(steep.items(), key=lambda item: item[1][0])
    where = f"{what}, from {a:,} to {b:,} {AXES[axis]}, with {rise:.2f}"
    cliffs = sum(rise > CLIFF for rise, *_ in steep.values())
    if not cliffs:
        return f"No curve has a cliff: the steepest part of all is that of {where}."
    return f"{cliffs} of {len(steep)} curves have a cliff; the steepest is {where}."


INTRODUCTION = """# How cost grows

Time against the number of rows, columns, functions per column (size m) and networks. One number changes, the others
stay; the dashed lines have slope 1 on these axes: twice as much takes twice as long. "Slope" is that of the least
squares line, and the "steepest part" the largest slope between points whose values differ by a factor of two at least.
A slope above 1.5 there is a cliff: ten times as much would cost more than thirty times as much.

- **encoder fit** and **encoder transform**: `SplineEncoder` on quantile knots. More than a million rows are encoded a
  million at a time, because the encoded table need not fit into memory.
- **layer**: `kw.nn.SplineEncoding` with learned knots, forward and backward.
- **training epoch**: an epoch of a stack of MLPs with learned knots.
- **estimator fit** and **predict**: `TabularRegressor("BS-Q")` with two epochs; the model that predicts is fitted on at
  most 2,000 rows.

Points on the CPU were measured over some hours, at different loads. Points of the encoder's transform that stood out
(1e6 to 3.2e7 rows, 2,000 columns) were measured again, and took half as long; with the first values two curves would
have a cliff.
"""


def section(device: str, lines: Sequence[dict[str, Any]]) -> str:
    """Return the section of a device."""
    curves, name = curves_of(lines), f"growth_{device}"
    draw(curves, name)
    dates, loads = sorted({line["date"] for line in lines}), [line["load"] for line in lines]
    clock = "time of the process" if device == "cpu" else "wall time"
    where = (
        f"{dates[-1]}, {lines[-1]['machine']}, torch {lines[-1]['torch']}; {clock}, load {min(loads)} to {max(loads)}"
    )
    alt = f"Time against rows, columns, size and networks, {DEVICES[device]}"
    figure = [f"![{alt}](images/{name}.svg#only-light)", f"![{alt}](images/{name}_dark.svg#only-dark)"]
    return "\n".join(
        [f"## {DEVICES[device]}", "", f"{where}.", "", verdict(curves), "", *figure, "", *table(curves), ""]
    )


def write(devices: dict[str, Sequence[dict[str, Any]]]) -> None:
    """Write the page and its figures."""
    sections = [section(device, lines) for device, lines in devices.items()]
    command = "`python benchmarks/growth.py --write` writes this page from the recorded points in `benchmarks/growth`."
    PAGE.write_text("\n".join([INTRODUCTION, *sections, command, ""]))
