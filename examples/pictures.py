"""The pictures of the guide.

python examples/pictures.py docs/images               writes guide_encodings.svg, guide_placements.svg, guide_effect.svg
                                                      guide_knots.svg, guide_additive.svg, each with _dark for dark ones
python examples/pictures.py docs/images placements    writes one of them
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes
from torch import nn

import knotwork as kw
from knotwork.report import LIGHT, clean_axes, draw_bases, save_figure

PLACEMENTS = {
    "uniform": "equal distances",
    "quantile": "equal numbers of rows",
    "cart": "splits of a tree",
    "lgbm": "splits of boosted trees",
}
COLOURS = {"uniform": LIGHT.blue, "quantile": LIGHT.orange, "cart": LIGHT.green, "lgbm": LIGHT.pink}


def new_axes(figure: Figure, *heights: float) -> list[Axes]:
    """Return axes one above the other that share x."""
    grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
    for axes in grid.flat:
        clean_axes(axes, LIGHT)
    return list(grid.flat)


def encodings() -> Figure:
    """Draw four encodings of one column."""
    data = load_diabetes(as_frame=True, scaled=False)
    return draw_bases(data.data["bmi"].to_numpy(), data.target.to_numpy(), name="body mass index")


def placements() -> Figure:
    """Draw the knots of the four placements under the histogram of a skewed column and the mean of its target."""
    random = np.random.default_rng(0)
    x = np.clip(random.lognormal(0.0, 0.7, 4000), 0.0, 6.0)
    grid = np.linspace(0.0, 6.0, 600)
    y = stepped(x) + random.normal(0.0, 0.15, len(x))
    figure = Figure(figsize=(8, 4.6), layout="constrained", facecolor=LIGHT.background)
    above, below = new_axes(figure, 3, 2)
    above.hist(x, bins=60, color=LIGHT.line)
    above.set_ylabel("rows")
    mean = above.twinx()
    clean_axes(mean, LIGHT)
    mean.plot(grid, stepped(grid), color=LIGHT.ink, linewidth=1.6)
    mean.set_ylabel("mean of the target")
    mean.spines["right"].set_visible(True)
    mean.spines["right"].set_color(LIGHT.muted)
    for row, name in enumerate(PLACEMENTS):
        knots = kw.SplineEncoder(size=12, placement=name).fit(x[:, None], y).knots_[0]
        below.hlines(row, 0.0, 6.0, color=LIGHT.line, linewidth=1.0)
        below.plot(knots, np.full(len(knots), row), "|", color=COLOURS[name], markersize=17, markeredgewidth=2.4)
    below.set_yticks(range(4), [f"{name}: {what}" for name, what in PLACEMENTS.items()])
    below.set_ylim(3.6, -0.6)
    below.set_xlim(0.0, 6.0)
    below.spines["left"].set_visible(False)
    below.tick_params(axis="y", length=0)
    below.set_xlabel("value of the column")
    return figure


def stepped(x: np.ndarray) -> np.ndarray:
    """Return a function with a bend, a jump and a flat end."""
    return np.where(x < 2.5, 0.4 * np.sin(2.0 * x), 1.0 - 0.1 * x) + (x > 4.0) * 0.6


def effect() -> Figure:
    """Draw the effect of one column in two networks, one trained on scaled and one on encoded columns."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.0, 1.0, size=(1500, 3))
    y = wave(X[:, 0]) + X[:, 1] * X[:, 2] + random.normal(0.0, 0.2, len(X))
    grid = np.linspace(-1.0, 1.0, 200)
    figure = Figure(figsize=(8, 4), layout="constrained", facecolor=LIGHT.background)
    (axes,) = new_axes(figure, 1)
    axes.plot(grid, wave(grid), color=LIGHT.ink, linewidth=1.4, linestyle=(0, (4, 3)), label="truth")
    for method, colour in (("Std", LIGHT.grey), ("IS-Q@15", LIGHT.orange)):
        config = kw.TrainingConfig(max_epochs=60)
        model = kw.TabularRegressor(encoding=method, training=config, random_state=0).fit(X, y)
        axes.plot(grid, partial_effect(model, X[:300], grid), color=colour, linewidth=2.0, label=method)
    axes.set_xlim(-1.0, 1.0)
    axes.set_xlabel("value of the column")
    axes.set_ylabel("mean prediction")
    axes.legend(frameon=False, labelcolor=LIGHT.ink)
    return figure


def wave(x: np.ndarray) -> np.ndarray:
    """Return a wave of growing frequency."""
    return np.sin(6.0 * (x + 1.0) ** 1.6)


def partial_effect(model: kw.TabularRegressor, X: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the mean prediction over rows whose first column is set to each value of a grid."""
    rows = np.tile(X, (len(grid), 1))
    rows[:, 0] = np.repeat(grid, len(X))
    return model.predict(rows).reshape(len(grid), len(X)).mean(axis=1)


def knots() -> Figure:
    """Draw the movement of learned knots while a network is trained on a curve with one steep place."""
    torch.manual_seed(0)
    x = torch.rand(1024, 1)
    y = steep(x) + 0.05 * torch.randn_like(x)
    encoding = kw.nn.SplineEncoding(n_features=1, size=10)
    network = nn.Sequential(encoding, nn.Flatten(), nn.Linear(10, 1))
    optimiser = torch.optim.Adam(
        [{"params": network[2].parameters(), "lr": 3e-2}, {"params": encoding.parameters(), "lr": 2e-2}]
    )
    grid, path = torch.linspace(0.0, 1.0, 400)[:, None], [encoding.interior_knots()[0].numpy()]
    with torch.no_grad():
        start = encoding(grid).squeeze(1) @ torch.linalg.lstsq(encoding(x).squeeze(1), y).solution
    for _ in range(600):
        loss = (network(x) - y).square().mean() + 1e-6 * encoding.spacing_penalty()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        path.append(encoding.interior_knots()[0].numpy())
    with torch.no_grad():
        end = encoding(grid).squeeze(1) @ torch.linalg.lstsq(encoding(x).squeeze(1), y).solution
    return knots_figure(torch.cat([grid, steep(grid), start, end], dim=1).numpy(), np.array(path))


def steep(x: torch.Tensor) -> torch.Tensor:
    """Return a curve with one steep place."""
    return torch.tanh(40.0 * (x - 0.65)) + 0.5 * torch.sin(3.0 * x)


def knots_figure(curves: np.ndarray, path: np.ndarray) -> Figure:
    """Draw curves (x, truth, best fit before and after learning) above the path of the knots."""
    figure = Figure(figsize=(8, 5.4), layout="constrained", facecolor=LIGHT.background)
    above, below = new_axes(figure, 3, 4)
    x, truth, start, end = curves.T
    above.plot(x, start, color=LIGHT.grey, linewidth=1.8, label="best fit, knots at equal distances")
    above.plot(x, end, color=LIGHT.blue, linewidth=2.6, label="best fit, learned knots")
    above.plot(x, truth, color=LIGHT.ink, linewidth=1.2, linestyle=(0, (4, 3)), label="truth")
    above.legend(frameon=False, labelcolor=LIGHT.ink)
    above.set_ylabel("target")
    below.plot(path, np.arange(len(path)), color=LIGHT.blue, linewidth=1.6)
    below.set_xlim(0.0, 1.0)
    below.set_ylim(len(path), 0)
    below.set_ylabel("training step")
    below.set_xlabel("value of the column, and position of the six knots")
    return figure


def additive() -> Figure:
    """Draw the curves of an additive model with their intervals."""
    data = load_diabetes(as_frame=True, scaled=False)
    table = data.data.assign(sex=data.data["sex"].map({1: "one", 2: "two"}))
    figure: Figure = (
        kw.AdditiveRegressor().fit(table, data.target).plot_effects(["bmi", "s5", "bp", "s6", "age", "sex"])
    )
    figure.set_facecolor(LIGHT.background)
    for axes in figure.axes:
        clean_axes(axes, LIGHT)
        for line in axes.lines:
            line.set_color(LIGHT.blue if len(line.get_xdata()) > 2 and line.get_marker() != "|" else LIGHT.muted)
        for band in axes.collections:
            band.set_color(LIGHT.blue)
    return figure


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    drawings = {draw.__name__: draw for draw in (encodings, placements, effect, knots, additive)}
    for name in sys.argv[2:] or drawings:
        save_figure(drawings[name](), out / f"guide_{name}.svg")
        print(out / f"guide_{name}.svg")
