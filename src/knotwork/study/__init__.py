"""Studies: plans of networks to train, run in a folder that keeps every result."""

from knotwork.study.plan import PLANS, Plan, load_plan
from knotwork.study.records import load_results
from knotwork.study.runner import RunSummary, prepare_plan, run

__all__ = ["PLANS", "Plan", "RunSummary", "load_plan", "load_results", "prepare_plan", "run"]
