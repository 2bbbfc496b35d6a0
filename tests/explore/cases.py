"""Tables for the explorer: an easy one, one of difficult columns, and hostile names."""

import numpy as np
import pandas as pd

from knotwork._explore._prepare import draw_split

HOSTILE = (
    "<script>window.broken = 1</script>",
    "</script><img src=x onerror='window.broken = 1'>",
    '"><svg onload="window.broken = 1">',
    "{{data}} \\u003c ${1} ' \" \u2028 <!--",
)


def easy_table(n_rows=900, seed=0):
    """Return three columns of which the first two matter, with a bend that a straight line misses."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame({
        "wave": random.uniform(0, 10, n_rows), "slope": random.normal(size=n_rows),
        "noise": random.normal(size=n_rows), "town": random.choice(["Ulm", "Bonn"], n_rows),
    })  # fmt: skip
    y = pd.Series(np.sin(X["wave"]) + 0.3 * X["slope"] + 0.1 * random.normal(size=n_rows), name="height")
    return X, y


def difficult_table(n_rows=600, seed=0):
    """Return a column of every kind that could break a page."""
    random = np.random.default_rng(seed)
    base = random.normal(size=n_rows)
    outlier = base.copy()
    outlier[draw_split(n_rows, 0)[0][0]] = 1e12  # among the training rows
    X = pd.DataFrame({
        "constant": np.where(np.arange(n_rows) == 0, np.nan, 7.0), "binary": (base > 0).astype(int), "flag": base > 0.5,
        "zeros": np.where(random.uniform(size=n_rows) < 0.9, 0.0, random.exponential(size=n_rows)),
        "outlier": outlier, "missing": np.where(random.uniform(size=n_rows) < 0.4, np.nan, base),
        "empty": np.full(n_rows, np.nan), "huge": base * 1e300, "tiny": base * 1e-300,
        "ends": np.where(base > 0, 1e308, -1e308), "three": random.integers(3, size=n_rows),
    })  # fmt: skip
    return X, pd.Series(base + 0.3 * random.normal(size=n_rows), name="y")
