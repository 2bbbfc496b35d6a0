"""Tables as users have them, and comparisons that are short."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from knotwork.compare import _budget as budget
from knotwork.compare import _rounds as rounds
from knotwork.compare import _run as run
from knotwork.estimators import _plans as plans
from knotwork.nn import MLPConfig

MESSY = ("area", "rooms", "town", "built", "constant", "empty", "listing")
"""The features of `flats`."""


def flats(n=240, seed=0):
    """Return a table with numbers, categories, missing values, a constant, dates as text and an identifier."""
    rng = np.random.default_rng(seed)
    area = rng.uniform(20, 150, n)
    rooms = rng.integers(1, 6, n).astype(float)
    rooms[rng.uniform(size=n) < 0.1] = np.nan
    town = rng.choice(["Bonn", "Ulm", "Kiel"], n)
    days = pd.to_datetime("1990-01-01") + pd.to_timedelta(rng.integers(0, 9000, n), unit="D")
    rent = 5 * area + 40 * np.sin(area / 12) + np.where(town == "Bonn", 80, 0) + rng.normal(0, 15, n)
    return pd.DataFrame(
        {
            "area": area,
            "rooms": rooms,
            "town": np.where(rng.uniform(size=n) < 0.05, None, town),
            "built": days.strftime("%Y-%m-%d"),
            "constant": 1,
            "empty": np.nan,
            "listing": [f"id-{seed}-{i}" for i in range(n)],
            "rent": rent,
            "cheap": np.where(rent < np.median(rent), "yes", "no"),
        }
    )


def write_flats(folder, n=240, seed=0, *, target="rent", name="flats.csv"):
    """Write the table with one of its two targets, and return the path."""
    frame = flats(n, seed)[[*MESSY, target]]
    path = folder / name
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    return path


def shorten(patch):
    """Compare networks of three epochs, and save small ensembles."""
    for module in (budget, rounds):
        patch.setattr(module, "SCHEDULED", replace(budget.SCHEDULED, most_epochs=3))
    patch.setattr(run, "TrainingConfig", partial(run.TrainingConfig, max_epochs=3))
    kinds = [plans.Kind(encoding, MLPConfig(widths=(32,)), 8, plans.COSINE) for encoding in ("PLE-Q@6", "PBLD@16")]
    patch.setitem(plans.ON_CPU, "balanced", tuple(kinds))


def draw_nothing(patch):
    """Write an empty page, because figures take most of the time of a short comparison."""
    patch.setattr(run.ComparisonRun, "_write_model_page", lambda *given: None)
    patch.setattr(run.ComparisonRun, "_choices", lambda *given: [])
    patch.setattr(run, "write_page", lambda page, *given, **settings: page.touch())


def rescore(patch, change):
    """Rank rows by other scores: `change` takes a row and its scores by fold, and returns scores."""
    original = rounds.rank_candidates

    def rank(scored, **about):
        changed = [
            replace(row, scores={name: change(row, values) for name, values in row.scores.items()}) for row in scored
        ]
        return original(changed, **about)

    patch.setattr(rounds, "rank_candidates", rank)


def prefer(patch, kind):
    """Give all rows of a kind errors that are a tenth of what they are."""
    rescore(patch, lambda row, values: values / 10 if row.kind == kind else values)
