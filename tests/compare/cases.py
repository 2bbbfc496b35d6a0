"""Tables as users have them."""

import numpy as np
import pandas as pd

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
