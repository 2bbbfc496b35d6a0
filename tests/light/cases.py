"""Small models of tables of every kind of column, and their predictions in other languages."""

import ctypes
import json
import math
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from knotwork import TabularRegressor
from tests.estimators.saved_cases import BACKBONES, SHORT

HOSTILE = ['quo"te', "</script><b>", "back\\slash'; DROP", "new\nline", "ünïcode 💥"]
"""Names of columns and categories that must stay text in every language."""


def messy(n=200, seed=0):
    """Return a table of percentages, money, words for truth values, dates and hostile names, and a target."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "rate": [f"{x:.2f}%" for x in rng.uniform(0, 30, n)],
            "price": [f"€ {x:,.2f}" for x in rng.uniform(0, 90_000, n)],
            "paid": rng.choice(["yes", "no"], n),
            "sold": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 90_000, n), unit="min"),
            HOSTILE[0]: rng.normal(size=n),
            HOSTILE[1]: rng.choice(HOSTILE, n),
            HOSTILE[3]: rng.random(n) < 0.5,
        }
    )
    X["sold"] = X["sold"].dt.strftime("%d.%m.%Y %H:%M")
    y = X["rate"].str.rstrip("%").astype(float) + 5.0 * (X[HOSTILE[1]] == HOSTILE[0]) + X[HOSTILE[0]]
    X.loc[:5, "rate"], X.loc[3:9, HOSTILE[1]], X.loc[5:8, HOSTILE[0]] = None, None, np.nan
    return X, y.to_numpy()


def regressor(X, y, encoding="BS-Q@6", backbone="mlp", **settings):
    settings = {"training": SHORT, "device": "cpu", "random_state": 0, **settings}
    return TabularRegressor(encoding, BACKBONES[backbone], **settings).fit(X, y)


def cells(X):
    """Return the rows of a frame as JSON has them."""

    def plain(cell):
        cell = cell.item() if isinstance(cell, np.generic) else cell
        return None if cell is None or (isinstance(cell, float) and math.isnan(cell)) else cell

    return [{name: plain(cell) for name, cell in row.items()} for row in X.astype(object).to_dict("records")]


def in_node(path, X, *calls):
    """Return what methods of a model in JavaScript return for the rows of a frame."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    text = ", ".join(f"model.{call}" for call in calls)
    script = path.with_suffix(".cjs")
    script.write_text(
        f"const model = require({json.dumps(str(path))}), rows = JSON.parse(require('fs').readFileSync(0));\n"
        f"process.stdout.write(JSON.stringify([{text}], (k, v) => ArrayBuffer.isView(v) ? Array.from(v) : v));"
    )
    rows = json.dumps(cells(X)).replace("Infinity", "1e999")
    done = subprocess.run(["node", script], input=rows, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_c(path, model, X):
    """Return what a model in C returns for the rows of a frame, (n, n_outputs)."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    library = path.with_suffix(".so")
    flags = ["-O1", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, path, "-o", library, "-lm"], check=True, timeout=120)
    loaded = ctypes.CDLL(str(library))
    loaded.knotwork_code_of.argtypes = [ctypes.c_int, ctypes.c_double]
    columns, table = model.columns_, model.columns_.read(X)
    n_outputs = int(re.search(r"#define KNOTWORK_OUTPUTS (\d+)", path.read_text())[1])
    out = np.empty((len(X), n_outputs))
    for row, result in enumerate(out):
        codes = []
        for place, (label, column) in enumerate(columns.categorical.items()):
            cell = X[label].iloc[row]
            is_text = column.kind in ("text", "mixed")
            if is_text:
                codes.append(loaded.knotwork_code(place, None if pd.isna(cell) else str(cell).encode()))
            else:
                codes.append(loaded.knotwork_code_of(place, math.nan if pd.isna(cell) else float(cell)))
        numbers = np.ascontiguousarray(table.numbers[row])
        given = [numbers, np.array(codes, dtype=np.int32), result]
        assert loaded.knotwork_predict(*(each.ctypes.data_as(ctypes.c_void_p) for each in given)) == 0
    return out
