"""Five small tables, each with a model that is trained in a moment, and hostile names."""

import warnings

import numpy as np
import pandas as pd

import knotwork as kw
from knotwork.errors import ColumnWarning
from tests.explore.cases import HOSTILE

N_ROWS = 240


def _columns(random):
    return pd.DataFrame({"wave": random.uniform(0, 6, N_ROWS), "slope": random.normal(size=N_ROWS)})


def tables():
    """Return for each kind of table its rows and target."""
    random = np.random.default_rng(0)
    X = _columns(random)
    noise = 0.2 * random.normal(size=N_ROWS)
    y = pd.Series(100 * (np.sin(X["wave"]) + 0.4 * X["slope"] + noise), name="height")
    numbers = X.assign(flag=X["slope"] > 0.3, count=random.integers(0, 9, N_ROWS), gaps=X["wave"].where(noise < 0.2))
    days = pd.to_datetime("2016-07-01") + pd.to_timedelta(random.integers(0, 420, N_ROWS), unit="D")
    dates = X.assign(sold=days, written=days.strftime("%d/%m/%Y"))
    towns = random.choice(["Ulm", "Bonn", "Köln"], N_ROWS)
    text = X.assign(town=towns, share=[f"{value:.1f}%" for value in random.uniform(1, 90, N_ROWS)])
    labels = pd.Series(np.array(["low", "middle", "high"])[np.digitize(y, [-40, 40])], name="kind")
    seasons = 30 * np.sin(2 * np.pi * days.month.to_numpy() / 12)
    return {
        "numbers": (numbers, y), "dates": (dates, y + seasons), "text": (text, y + 40 * (towns == "Ulm")),
        "classes": (text.drop(columns="share"), labels), "two columns": (X, y),
    }  # fmt: skip


def fitted(name, kind="network"):
    """Return the table, the target and a small model of one of the `tables`."""
    X, y = tables()[name]
    if kind == "additive":
        model = kw.AdditiveClassifier() if name == "classes" else kw.AdditiveRegressor(pairs=1)
    else:
        made = kw.TabularClassifier if name == "classes" else kw.TabularRegressor
        training = kw.TrainingConfig(max_epochs=4)
        model = made(
            "PLE@6", kw.nn.MLPConfig(widths=(8,)), validation=3, training=training, random_state=0, device="cpu"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColumnWarning)  # text that is read as dates or shares
        return X, y, model.fit(X, y)


def hostile():
    """Return a table and a target whose names and texts are markup and scripts."""
    random = np.random.default_rng(0)
    X = pd.DataFrame({name: random.normal(size=N_ROWS) for name in HOSTILE} | {"town": random.choice(HOSTILE, N_ROWS)})
    y = pd.Series(np.where(X.iloc[:, 0] > 0, HOSTILE[1], "other {{data}}"), name=HOSTILE[2])
    return X, y
