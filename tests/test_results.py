"""What is published in results/ is complete, and the page that tells of it says what the records say."""

import runpy
from pathlib import Path

import pytest

from knotwork.study import load_plan, load_results

ROOT = Path(__file__).parents[1]
COMPLETE = ["paper-mlp", "paper-resnet"]


@pytest.mark.parametrize("name", COMPLETE)
def test_records_are_complete(name):
    plan = load_plan(name)
    records = load_results(ROOT / "results", plan.plan_hash)
    assert len(records) == plan.n_networks == 4_750
    assert (records["status"] == "ok").all()
    score = records["nrmse"].where(records["task"] == "regression", records["auc"])
    assert score.notna().all()
    assert records["dataset"].nunique() == 25


def test_the_page_is_what_the_records_say():
    page = runpy.run_path(str(ROOT / "results" / "findings.py"))["page"]()
    assert page == (ROOT / "docs" / "findings.md").read_text(encoding="utf-8"), "run python results/findings.py"
