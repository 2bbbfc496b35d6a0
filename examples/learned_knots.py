"""Learned knots in front of a torch network, on California housing, and a picture of their movement.

    python examples/learned_knots.py               writes learned_knots.svg, light and dark

The table is read from the folder in KNOTWORK_DATA (california.parquet) or ../shared/datasets.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import nn

import knotwork as kw
from knotwork.report import LIGHT, clean_axes, save_figure

DATA = Path(os.environ.get("KNOTWORK_DATA", "../shared/datasets"))
COLUMNS = ["median_income", "latitude", "longitude", "housing_median_age"]

table = pd.read_parquet(DATA / "california.parquet").sample(frac=1.0, random_state=0)
X = torch.tensor(table[COLUMNS].to_numpy(), dtype=torch.float32)
y = torch.tensor(table["median_house_value"].to_numpy(), dtype=torch.float32)
y = (y - y.mean()) / y.std()
train, test = slice(0, 16_000), slice(16_000, None)

torch.manual_seed(0)
encoding = kw.nn.SplineEncoding(len(COLUMNS), size=12).set_range(X[train].amin(0), X[train].amax(0))
network = nn.Sequential(encoding, nn.Flatten(), nn.Linear(4 * 12, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
optimiser = torch.optim.AdamW(
    [{"params": network[2:].parameters()}, {"params": encoding.parameters(), "lr": 5e-3, "weight_decay": 0.0}], lr=2e-3
)

path = [encoding.interior_knots()]
for _ in range(40):
    for rows in torch.randperm(16_000).split(512):
        loss = nn.functional.mse_loss(network(X[train][rows]), y[train][rows]) + 1e-5 * encoding.spacing_penalty()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    path.append(encoding.interior_knots())

with torch.no_grad():
    error = (network(X[test]) - y[test]).square().mean().sqrt() / y[test].std()
print(f"NRMSE on {len(y[test])} held-out rows: {error:.4f}")

moved = torch.stack(path).numpy()
figure = Figure(figsize=(9, 5.4), layout="constrained", facecolor=LIGHT.background)
for feature, panel in enumerate(figure.subplots(2, 2).flat):
    clean_axes(panel, LIGHT)
    panel.hist(X[train, feature].numpy(), bins=60, color=LIGHT.line)
    panel.set_yticks([])
    panel.set_xlabel(COLUMNS[feature])
    epochs = panel.twinx()
    clean_axes(epochs, LIGHT)
    epochs.plot(moved[:, feature], np.arange(len(path)), color=LIGHT.blue, linewidth=1.5)
    epochs.set_ylabel("epoch")
figure.suptitle("Knots during training, from equal distances on, over the histogram of the data", color=LIGHT.ink)
save_figure(figure, Path("learned_knots.svg"))
