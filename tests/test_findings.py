"""Sections of the findings on made-up records, in which the answer is known."""

import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from knotwork.study import load_plan

FOLDER = Path(__file__).parent.parent / "results"


@pytest.fixture
def sections(monkeypatch):
    """Return a function that renders a section of a file, given the records of each plan."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def render(module, section, frames):
        file = importlib.import_module(module)
        monkeypatch.setattr(file, "load", lambda plan: frames[plan].copy())
        monkeypatch.setattr(file, "is_trained", lambda plan: plan in frames)
        return "\n".join(vars(file)[section]())

    return render


def rows(names, methods, sizes, folds, **columns):
    """Return records with all combinations; the last data set is a classification."""
    frame = pd.DataFrame(
        [
            {"dataset": name, "task": "classification" if name == names[-1] else "regression", "method": method,
             "size": size, "fold": fold, "level": 0.3 * np.sin(3 * place + 5 * fold) - 1.5}
            for place, name in enumerate(names)
            for method in methods
            for size in ([np.nan] if method in ("Std", "MinMax") else sizes)
            for fold in range(folds)
        ]
    )  # fmt: skip
    return frame.assign(key=[f"{columns} {place}" for place in range(len(frame))], **columns)


def with_scores(frame, logarithm):
    """Return records whose error has a logarithm of `level` plus that of a row."""
    error = np.exp(frame["level"] + logarithm)
    return frame.assign(score=error.where(frame["task"] == "regression", 1 - error))


def token_frames(slope):
    plan = load_plan("coordinate-sizes")
    frame = rows(plan.names, plan.methods, plan.sizes, 3)
    spline = frame["method"].isin(["BS-Q", "BS-CART", "IS-Q"])
    wobble = 0.01 * np.sin(7.0 * np.arange(len(frame)))
    growth = slope * np.log(frame["size"] / 7) / np.log(30 / 7)
    coordinate = with_scores(frame, growth.where(spline, 0.0) + wobble)
    return {"coordinate-sizes": coordinate, "paper-ft": with_scores(frame, wobble[::-1])}


@pytest.mark.parametrize(("slope", "verdict"), [(0.1, "**Yes**"), (-0.1, "**No, they"), (0.0, "**Cannot be told")])
def test_the_change_of_error_with_size_is_found(sections, slope, verdict):
    frames = token_frames(slope)
    page = sections("token_sizes", "token_sizes", frames)
    assert verdict in page
    line = next(line for line in page.splitlines() if line.startswith("| splines | coordinate"))
    change = float(line.split(" | ")[5].split()[0])
    assert change == pytest.approx(100 * np.expm1(slope), abs=0.8)
    assert "10 small data sets in 3 folds." in " ".join(page.split())


def test_the_change_that_can_be_detected(sections):
    """A growth of this size is found in eight of ten samples."""
    del sections
    module, random = importlib.import_module("token_sizes"), np.random.default_rng(0)
    sample = pd.Series(random.normal(size=10))
    sample = 0.03 * (sample - sample.mean()) / sample.std()
    growth = np.log1p(module.detectable(sample) / 100)
    draws = growth + 0.03 * random.normal(size=(1500, 10))
    detected = [module.answer(pd.Series(draw)) == "yes" for draw in draws]
    assert np.mean(detected) == pytest.approx(0.8, abs=0.04)


def test_folds_without_all_sizes_do_not_count(sections):
    frames = token_frames(0.1)
    frame = frames["coordinate-sizes"]
    late = (frame["fold"] > 0) & (frame["size"] == 30) & (frame["method"] == "IS-Q")
    other = frame.assign(score=frame["score"].where(frame["fold"] == 0, 0.5))
    frames["coordinate-sizes"] = other[~late]
    feature = frames["paper-ft"]
    frames["paper-ft"] = feature.assign(
        score=feature["score"].where((feature["fold"] == 0) | (feature["size"] < 30), 0.9)
    )
    page = " ".join(sections("token_sizes", "token_sizes", frames).split())
    assert "(fewer at size 30: abalone 1, air_quality 1, " in page
    assert "**Yes**" in page
    cells = page.split("| splines | feature | ")[1].split(" | ")
    assert abs(float(cells[3].split()[0])) < 1, "the same folds with a token per feature"


def test_sizes_that_are_not_trained_yet(sections):
    frames = token_frames(0.1)
    frame = frames["coordinate-sizes"]
    page = sections("token_sizes", "token_sizes", {**frames, "coordinate-sizes": frame[frame["size"] != 15]})
    assert "| splines | coordinate | not trained |" in page
    assert "**Yes**" in page
    page = sections("token_sizes", "token_sizes", {**frames, "coordinate-sizes": frame[frame["size"] != 30]})
    assert "Not trained yet" in page


def converged_frames(*, keep):
    """Return records whose order of methods is that of the protocol, or random; the rate 1e-3 is best."""
    plan, random = load_plan("converged"), np.random.default_rng(3)
    names = [*plan.names, "adult"]
    usual = rows(names, plan.methods, [15], 5, epochs=200, task="regression", variant=None)
    place = usual["method"].map({name: place for place, name in enumerate(plan.methods)})
    usual = with_scores(usual, 0.02 * place + random.normal(0, 0.01, len(usual)))
    usual = pd.concat([usual, usual.assign(size=30, score=9.0)])
    parts, other = [], dict(zip(plan.methods, random.permutation(14), strict=True))
    for rate, worse in {"1e-4": 0.2, "3e-4": 0.1, "1e-3": 0.0, "3e-3": 0.3}.items():
        part = rows(plan.names, plan.methods, [15], 2, epochs=150 if worse < 0.2 else 2000, variant=rate)
        part["task"] = "regression"
        rank = part["method"].map({name: place for place, name in enumerate(plan.methods)})
        mixed = rank if keep else part["method"].map(other)
        part = with_scores(part, 0.02 * mixed + worse - 0.1 + random.normal(0, 0.005, len(part)))
        parts.append(part.assign(valid_score=part["score"] + 1e-3))
    return {"paper-mlp": usual, "converged": pd.concat(parts)}


def test_the_rate_is_chosen_on_validation_rows(sections):
    frames = converged_frames(keep=True)
    frame = frames["converged"]
    slow = (frame["dataset"] == "sulfur") & (frame["method"] == "PLE") & (frame["variant"] == "1e-4")
    frames["converged"] = frame.assign(valid_score=frame["valid_score"].where(~slow, 0.0))
    page = sections("converged", "converged", frames)
    line = next(line for line in page.splitlines() if line.startswith("| PLE |")).split(" | ")
    assert [int(cell) for cell in line[6:10]] == [1, 0, 12, 0]
    others = next(line for line in page.splitlines() if line.startswith("| BS-U |")).split(" | ")
    assert [int(cell) for cell in others[6:10]] == [0, 0, 13, 0]
    assert float(others[3].split()[0]) == pytest.approx(100 * np.expm1(-0.1), abs=1.5)
    assert "13 data sets, 2 folds" in " ".join(page.split())


@pytest.mark.parametrize("keep", [True, False])
def test_the_correlation_of_orders(sections, keep):
    page = " ".join(sections("converged", "converged", converged_frames(keep=keep)).split())
    value = float(page.split("protocol and converged: **")[1].split()[0])
    assert value > 0.95 if keep else value < 0.8
    again = float(page.split("beside the other ones: ")[1].split()[0])
    assert again > 0.95
    assert "1e-4 100%" in page
    assert "0% of the chosen networks" in page


def test_settings_of_learned_knots(sections):
    plan = load_plan("converged-knots")
    frame = rows(plan.names, plan.methods, [15], 2, epochs=90, knots_moved=True, knot_shift=0.01)
    frame = pd.concat([frame.assign(variant=name) for name in plan.variant_names]).assign(task="regression")
    frames = converged_frames(keep=True)
    fixed = frames["converged"].query("variant == '1e-3' and method in ['BS-U', 'IS-U']")
    fixed = fixed.assign(method=fixed["method"].str.replace("-U", "-Grad-U"))[["dataset", "fold", "method", "score"]]
    frame = frame.merge(fixed, on=["dataset", "fold", "method"])
    growth = np.where(frame["variant"] == "rate 10", 0.05, 0.0) + 0.001 * np.sin(3.0 * np.arange(len(frame)))
    frame["score"] *= np.exp(growth)
    page = sections("converged", "converged_knots", {**frames, "converged-knots": frame})
    lines = [line.split(" | ") for line in page.splitlines() if line.startswith("| BS-Grad-U | ")]
    changes = {line[1]: float(line[4].split()[0]) for line in lines}
    assert list(changes) == list(plan.variant_names)
    assert changes.pop("rate 10") == pytest.approx(100 * np.expm1(0.05), abs=0.2)
    assert max(map(abs, changes.values())) < 0.2


def test_the_plans_share_a_learning_rate(sections):
    del sections
    rate = importlib.import_module("converged").SAME_RATE
    assert load_plan("converged").config_of(rate).learning_rate == load_plan("converged-knots").config.learning_rate


@pytest.mark.parametrize(
    ("module", "section"),
    [("token_sizes", "token_sizes"), ("converged", "converged"), ("converged", "converged_knots")],
)
def test_sections_without_records_name_the_command(sections, module, section):
    assert "knotwork study run" in sections(module, section, {})
