"""The sentences of a page: what the model predicts and how well, how it was made, and what its page reveals."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from knotwork._model_page._errors import ERRORS, ErrorRow
from knotwork._model_page._subject import PageRows, PageSubject
from knotwork._writing import counted, duration, fixed, percent, significant


def header(subject: PageSubject, kept: PageRows | None, errors: Sequence[ErrorRow]) -> dict[str, Any]:
    """Return the main sentence as its parts, and on which rows errors were measured."""
    if kept is None:
        loaded = "Without rows and their target, errors are not shown: write the page with report(path, X, y)."
        return {"sentence": f"Predicts {subject.target}", "score": "", "basis": loaded}
    quality = _classes(subject, kept) if subject.task == "classification" else _numbers(subject, kept)
    rest = _against(errors)
    parts = [each for each in (quality[1], rest) if each]
    basis = f"Measured on {counted(len(kept.target), 'row')}: {kept.how}."
    return {"sentence": quality[0], "score": ", ".join(parts), "basis": basis}


def headline(subject: PageSubject, errors: Sequence[ErrorRow]) -> str:
    """Return the main sentence as one."""
    words = header(subject, None if subject.record is None else subject.record.kept, errors)
    return ": ".join(each for each in (words["sentence"], words["score"]) if each)


def _numbers(subject: PageSubject, kept: PageRows) -> tuple[str, str]:
    """Return how far predictions of numbers are off on a typical row, and R²."""
    target = kept.target.reshape(len(kept.target), -1)
    residuals = target - kept.predictions
    off = float(np.median(np.abs(residuals[:, 0])))
    spread = ((target - target.mean(axis=0)) ** 2).sum()
    share = 1.0 - (residuals**2).sum() / spread if spread > 0 else np.nan
    name = subject.target if len(subject.outputs) == 1 else f"{len(subject.outputs)} targets"
    score = f"R² {fixed(share, 2)}" if np.isfinite(share) else ""
    return f"Predicts {name} to within ±{significant(off, 3)} on a typical row", score


def _classes(subject: PageSubject, kept: PageRows) -> tuple[str, str]:
    """Return how many rows of a hundred have the class that is predicted."""
    hits = float(np.mean(kept.predictions.argmax(axis=1) == kept.target))
    counts = np.bincount(kept.target.astype(np.int64), minlength=len(subject.outputs))
    most = float(counts.max() / counts.sum())
    name, loss = (
        subject.outputs[int(counts.argmax())],
        float(ERRORS["logarithm"].losses(kept.predictions, kept.target).mean()),
    )
    sentence = f"Predicts {subject.target} correctly for {percent(hits, 0)} of the rows"
    return sentence, f"{percent(most, 0)} by always saying {name}; log loss {significant(loss, 3)}"


def _against(errors: Sequence[ErrorRow]) -> str:
    """Return how the error compares with the smallest other one."""
    model = next((each for each in errors if each.is_model), None)
    best = min((each for each in errors if not each.is_model), key=lambda each: each.error, default=None)
    if model is None or best is None or not best.error > 0:
        return ""
    name = best.name if best.name[:2].isupper() or best.name.startswith("LightGBM") else f"the {best.name.lower()}"
    name = "no model" if best.name == "No model" else name
    gain = 1.0 - model.error / best.error
    if abs(gain) < 0.005:
        return f"the same error as {best.phrase or name}"
    whose = f"the error of {best.phrase or name}" if best.phrase or name == "no model" else f"{name}'s error"
    return f"{percent(abs(gain), 0)} {'below' if gain > 0 else 'above'} {whose}"


def made_facts(subject: PageSubject) -> list[list[str]]:
    """Return the facts under the sentence: rows, columns, when, and how long it took."""
    seen = len(subject.columns.seen)
    record = subject.record
    facts = [["columns", counted(seen)]]
    if record is not None:
        when = datetime.fromtimestamp(record.ended, UTC)
        facts = [["rows", counted(record.n_rows)], *facts, ["fitted", f"{when.day} {when:%b %Y, %H:%M} UTC"],
                 ["time", duration(record.seconds)]]  # fmt: skip
    return facts


def revealed(data: Mapping[str, Any], *, rows: bool) -> list[str]:
    """Return sentences on what the page has of the rows that it was made from, and nothing else is in it."""
    columns = data["columns"]
    out = [f"The names of {counted(len(columns), 'column')}, and their categories."]
    if any("histogram" in column or "counts" in column for column in columns):
        out.append(
            "Of each column the numbers of rows in 32 bins, its ends, its middle value, and effects at its values."
        )
    if any("residuals" in column for column in columns):
        out.append("Means of residuals over groups of rows.")
    if data["rows"]:
        out.append(f"{counted(len(data['rows']['values']), 'row')} with all of their values, targets and predictions.")
    trust = data["trust"]
    if trust and any("points" in panel for panel in trust["panels"]):
        out.append(
            f"Targets and predictions of {counted(len(trust['panels'][0]['points'][0]), 'row')}, without their columns."
        )
    if any((column.get("effect") or {}).get("lines") for column in columns):
        out.append("Predictions of single rows while one column changes: the thin lines of the effects.")
    out.append("The model itself, or the curves that stand for it: values of columns at which it bends are knots.")
    if not rows:
        out.append("It was written with rows=False: no row of a table is in it.")
    return out
