"""Times of the explorer: preparation in Python, and in Chromium the time to open a page and the frames of a drag.

    python benchmarks/explore.py [--out results.md]

The tables have 20,000 rows: 8 columns with a bend, and 40, the most that a page shows, each with numbers and with
classes as target. Preparation is repeated, and the median is shown: imports and compiled code are loaded. A drag moves
one knot of 11 (size 15) or 26 (size 30) by real mouse events in 60 steps, with one column and with all columns. "Fit"
is the time of encoding, fit and scores of a frame, "script" all of the page's work for it, and "frame" the distance
between two frames as the browser draws them, which is at least 16.7 ms on a display of 60 Hz.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import knotwork as kw

sys.path.insert(0, str(Path(__file__).parents[1]))  # the browser of the tests
from tests.report.chromium import Browser

DRAG = """(() => { const all = knotwork.frames; return {
    fit: all.map(each => each.fit), script: all.map(each => each.all),
    frame: window.drawn.slice(1).map((at, i) => at - window.drawn[i])}; })()"""
WATCH = """(() => { const isFirst = window.drawn === undefined; window.drawn = []; knotwork.frames.length = 0;
    if (!isFirst) return;
    const watch = now => { window.drawn.push(now); requestAnimationFrame(watch); };
    requestAnimationFrame(watch); })()"""


def tables():
    random = np.random.default_rng(0)
    for name, n_columns in (("8 columns", 8), ("40 columns", 40)):
        X = random.normal(size=(20_000, n_columns))
        y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.5 * random.normal(size=len(X))
        yield f"{name}, regression", X, y
        yield f"{name}, classes", X, np.where(y > 0, "yes", "no")


def prepare_seconds(X, y, repetitions=3):
    kw.explore(X, y)
    seconds = []
    for _ in range(repetitions):
        started = time.perf_counter(), time.process_time()
        page = kw.explore(X, y)
        seconds.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    return [statistics.median(each) for each in zip(*seconds, strict=True)], page


def drag(browser, address):
    """Return medians of the times of the frames while a knot is dragged to and fro, and the largest script time."""
    browser.evaluate(f"location.hash = {address!r}")
    browser.evaluate("new Promise(done => setTimeout(done, 1500))")
    browser.evaluate("scrollTo(0, 150)")
    handle = "document.querySelectorAll('.knot .handle')[6].getBoundingClientRect()"
    x, y = browser.evaluate(
        f"(() => {{ const box = {handle}; return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
    )
    browser.evaluate(WATCH)
    browser.drag((x, y), (x + 6, y), n_steps=60)
    times = browser.evaluate(DRAG)
    return [statistics.median(times[name]) for name in ("fit", "script", "frame")] + [max(times["script"])]


HEADINGS = ("table", "prepared in s", "of the processor", "MB", "ready in ms", "elements", "drag", "fit ms",
            "script ms", "frame ms", "longest script ms")  # fmt: skip
DRAGS = (("bspline", 15, 0), ("ispline", 30, 0), ("bspline", 15, 1))


def measure():
    yield HEADINGS
    yield ["--:"] * len(HEADINGS)
    for name, X, y in tables():
        (seconds, processor), page = prepare_seconds(X, y)
        size = len(page.html) / 1e6
        with tempfile.TemporaryDirectory() as folder:
            path = page.save(Path(folder) / "page.html")
            with Browser(path, calm=True) as browser:
                opened = browser.evaluate("[knotwork.page.readyAt, document.querySelectorAll('*').length]")
                for family, n_functions, every in DRAGS:
                    label = f"{family}@{n_functions}, {'all columns' if every else 'one column'}"
                    times = drag(browser, f"#column=0&ridge=1&e0={family}.quantile.{n_functions}.3&all={every}")
                    numbers = [f"{seconds:.2f}", f"{processor:.2f}", f"{size:.2f}", *(f"{each:.0f}" for each in opened)]
                    yield [name, *numbers, label, *(f"{each:.1f}" for each in times)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="file for the table")
    options = parser.parse_args()
    lines = [f"knotwork {kw.__version__}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} at the start", ""]
    for cells in measure():
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
