"""Studies: plans of networks to train, run in a folder that keeps every result."""

from knotwork.study.plan import PLANS, Plan, load_plan
from knotwork.study.records import load_results
from knotwork.study.runner import RunSummary, prepare_plan, run
from knotwork.study.traces import load_curves, load_histories, load_knot_paths

__all__ = [
    "PLANS",
    "Plan",
    "RunSummary",
    "load_curves",
    "load_histories",
    "load_knot_paths",
    "load_plan",
    "load_results",
    "prepare_plan",
    "run",
]
