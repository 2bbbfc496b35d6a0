"""The records in results/ are complete, and the pages made from them agree with them."""

import re
import runpy
import sys
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

from knotwork.basis import FAMILIES
from knotwork.datasets import DATASETS
from knotwork.report import Section, load_records, load_traces
from knotwork.report._aggregate import split_records
from knotwork.report._words import describe_ranks
from knotwork.study import load_plan, load_results
from tests.conftest import PAPER

sys.path.insert(0, str(Path(__file__).parents[1] / "results"))

from data_table import FILE as DATA
from data_table import describe_dataset

from report import data_section, encodings_section, paper_numbers, paper_section

ROOT = Path(__file__).parents[1]
TIMES = re.compile(r"\| (mlp|resnet|ft feature) \| 4,750 \| [\d,]+ \| ([\d,]+) \|")
HOURS = re.compile(r"\| (?:mlp|resnet|ft feature) \| 4,750 \| [\d,]+ \| [\d,]+ \| [\d.]+ \| ([\d.]+) \|")
COMPLETE = {
    "ablation": 815,
    "converged-knots": 702,
    "paper-mlp": 4_750,
    "paper-resnet": 4_750,
    "learned-starts": 5_250,
    "knot-training": 1_250,
    "efficiency": 69,
    "efficiency-stacked": 345,
    "paper-ft": 4_750,
    "paper-ft-coordinate": 700,
}


@pytest.mark.parametrize(("name", "n_networks"), COMPLETE.items())
def test_records_are_complete_and_none_has_failed(name, n_networks):
    plan = load_plan(name)
    records = load_results(ROOT / "results", plan.plan_hash)
    assert len(records) == n_networks
    assert plan.n_networks == n_networks
    assert (records["status"] == "ok").all()
    score = records["nrmse"].where(records["task"] == "regression", records["auc"])
    assert score.notna().all()


def test_the_readme_of_the_results_lists_all_plans():
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    for name, n_networks in COMPLETE.items():
        assert f"| `{name}` | {n_networks:,} | all" in text


def test_the_page_agrees_with_the_records():
    page = runpy.run_path(str(ROOT / "results" / "findings.py"))["page"]()
    assert page == (ROOT / "docs" / "findings.md").read_text(encoding="utf-8"), "run python results/findings.py"


def test_the_published_report_agrees_with_the_records():
    published = (ROOT / "docs" / "paper" / "report.html").read_text(encoding="utf-8")
    text = " ".join(unescape(re.sub(r"<[^>]+>", "", published)).split())
    traces = load_traces(ROOT / "results")
    parts = split_records(load_records(ROOT / "results"), {*traces.knots["key"], *traces.curves["key"]})
    main = parts[0]
    assert main.plans == ("paper-ft", "paper-mlp", "paper-resnet")
    sentences = [sentence for table in main.tables for sentence in describe_ranks(table).sentences]
    beside = paper_section(parts, paper_numbers(PAPER))
    sentences += [item for item in beside.content if isinstance(item, str)]
    for section in (item for item in beside.content if isinstance(item, Section) and not item.folded):
        sentences += [item for item in section.content if isinstance(item, str)]
    assert len(sentences) == 6 * 2 + 1 + 2 + 3 + 3, "two of each rank, agreement, AUC, NRMSE, and the ablation"
    for sentence in sentences:
        assert sentence in text, "run make paper-tables"


def test_steps_of_the_plain_loop_are_those_of_the_benchmark():
    steps = runpy.run_path(str(ROOT / "results" / "findings.py"))["PLAIN_STEP"]
    table = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for network, seconds in steps.items():
        assert f"| {network.split()[0]} | BS-Q | 30 | 1 | {1e6 * seconds:.0f} |" in table


def test_the_readme_and_the_guide_agree_with_the_page():
    page, readme = (
        " ".join((ROOT / name).read_text(encoding="utf-8").split()) for name in ("docs/findings.md", "README.md")
    )
    assert "Mean over the six settings: **0.85**" in page
    assert "correlate with the paper's at 0.85" in readme
    cards = {name: float(seconds.replace(",", "")) for name, seconds in TIMES.findall(page)}
    hours = sum(map(float, HOURS.findall(page)))
    minutes = [round(cards[name] / 60) for name in ("mlp", "resnet", "ft feature")]
    assert f"took {sum(cards.values()) / 60:.0f} minutes on one H200 ({{}}, {{}} and {{}})".format(*minutes) in readme
    assert f"they would take about {hours:.0f} hours" in readme
    rows = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8").splitlines()
    for name, seconds in cards.items():
        (row,) = [row for row in rows if row.startswith(f"| `paper-{name.split()[0]}` ")]
        assert row.endswith(f" | {seconds:,.0f} |")
    assert "by 0.87 with the paper's 163 values" in page
    assert "its ablation at 0.87" in readme
    assert "The largest ratio per epoch at size 30: mlp 1.10, resnet 1.07, ft feature 1.03" in page
    assert "at most 1.10 times the time per epoch of fixed ones at size 30 with an MLP, 1.07 with a ResNet" in readme
    assert "and 1.03 with an FT-Transformer" in readme
    assert "on 3 of 10 small data sets, and worse on 0" in page
    assert "on 3 of 10 small tables, and worse on none" in readme
    assert "with the paper's warm-up: 1 of 4 comparisons" in page


def test_the_table_of_data_sets_is_that_of_the_tables(data_folder, monkeypatch):
    monkeypatch.setenv("KNOTWORK_DATA", str(data_folder))
    rows = pd.read_csv(DATA).astype(object).set_index("dataset")
    assert list(rows.index) == list(DATASETS)
    for key in ("abalone", "air_quality"):
        for name, value in describe_dataset(key).items():
            if name != "dataset":
                assert rows.loc[key, name] == value or (value == "" and pd.isna(rows.loc[key, name])), (key, name)


def test_data_sets_are_shown_beside_the_numbers_of_the_paper():
    (table,) = data_section([]).content
    shown = {row[0].text: [cell.shown for cell in row] for row in table.rows}
    assert len(shown) == 25
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert shown["Gamma Telescope"][3] == "10 + 0 (paper 9 + 1)"
    assert shown["Abalone"][3] == "7 + 1"
    assert shown["Loan Status"][1:3] == ["45,000", "26,256"]
    assert shown["Adult"][8:] == ["76.1", "23.9", "76.1"]


def test_one_value_in_all_encodings_is_shown():
    (picture,) = encodings_section([]).content
    assert len(picture.figure.axes) == 2 * (1 + len(FAMILIES))


def test_what_is_known_of_the_provenance_of_records():
    frame = load_records(ROOT / "results")
    on_gpu = frame["device"].astype(str).str.startswith("cuda")
    assert frame.loc[on_gpu, "gpu"].fillna("").str.contains("H200").all(), "also of networks that several plans share"
    assert frame["precision"].notna().all()
    assert frame["commit"].notna().all()
    raw = load_results(ROOT / "results")
    assert not raw["commit"].astype(str).str.contains("according").any(), "the records themselves stay as they are"
