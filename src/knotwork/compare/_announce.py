"""What a comparison says in advance: the table, the task, and what the time is spent on."""

from collections.abc import Sequence

from knotwork._preparation.columns import Columns
from knotwork.compare._budget import Plan
from knotwork.compare._source import Source
from knotwork.encoders._methods import Encoding
from knotwork.report._words import enumerate_words

__all__ = ["describe_plan", "describe_table"]


def describe_table(source: Source, columns: Columns) -> list[str]:
    """Return sentences on the table, its task, and what was done to its rows."""
    n_numerical = columns.roles.count("numerical")
    return [
        f"{source.name}: {source.n_rows:,} rows; features: {n_numerical} numerical, "
        f"{len(columns.roles) - n_numerical} categorical; target: {source.target_name!r}.",
        source.why,
        *source.notes,
    ]


def describe_plan(plan: Plan, candidates: Sequence[Encoding], *, n_rows: int, backbone: str) -> list[str]:
    """Return sentences on what will be trained, and on how the time is spent.

    Parameters
    ----------
    plan : Plan
        The plan.
    candidates : sequence of Encoding
        All that could be compared.
    n_rows : int
        Rows of the table.
    backbone : str
        Name of the backbone.
    """
    names = enumerate_words([str(each) for each in plan.candidates])
    rows = f"all {n_rows:,} rows" if plan.n_rows == n_rows else f"{plan.n_rows:,} of {n_rows:,} rows, drawn at random"
    lines = [
        f"To be compared: {names}, by {plan.folds} folds on {rows}: {plan.n_networks} networks ({backbone}), each of "
        f"at most {plan.max_epochs} epochs."
    ]
    left_out = [str(each) for each in candidates if each not in plan.candidates]
    if left_out:
        lines.append(
            f"Left out, for the time is short: {enumerate_words(left_out)}. Ask for them by --methods and --sizes."
        )
    if plan.seconds is None:
        return [*lines, "There is no time budget: training stops by itself."]
    refit, report = plan.refit_seconds or 0.0, plan.report_seconds or 0.0
    lines.append(
        f"Time: at most {plan.seconds:.0f} s for the comparison, {report:.0f} s for the report, and what is left, at "
        f"least {refit:.0f} s, for the recommended model on all rows; a margin stays."
    )
    if not plan.fits:
        lines.append(
            "This is the least that says anything, and by what was measured it does not fit: networks will be stopped "
            "by the clock. Give a larger --time-budget, fewer --methods, or fewer --folds."
        )
    return lines
