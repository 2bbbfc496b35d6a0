"""The records in results/ are complete, and the pages made from them agree with them."""

import ast
import importlib
import re
import sys
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from markupsafe import Markup, escape

from knotwork.basis import FAMILIES
from knotwork.datasets import DATASETS
from knotwork.report import load_records, report_folder
from knotwork.report._page import ReportFiles
from knotwork.study import load_plan, load_results

sys.path.insert(0, str(Path(__file__).parents[1] / "results"))

import ablation_rows
import benchmark_claims
import questions
import readme
from data_table import FILE as DATA
from data_table import describe_dataset

from report import all_sections, data_section, encodings_section

ROOT = Path(__file__).parents[1]
TIMES = re.compile(r"\| (mlp|resnet|ft feature) \| 4,750 \| [\d,]+ \| ([\d,]+) \|")
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
PARTIAL = {
    "paper-mlp-seeds": (4_914, "paper-mlp"),
    "coordinate-sizes": (386, "paper-ft-coordinate"),
    "converged": (2_072, ""),
}
"""Plans of which some networks are not trained: those that are, and another plan that has some of them."""


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
    for name, (available, other) in PARTIAL.items():
        records = load_results(ROOT / "results", load_plan(name).plan_hash)
        assert len(records) == available
        assert (records["status"] == "ok").all()
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        assert row.startswith(f"| `{name}` | {load_plan(name).n_networks:,} | {available:,}, without ")
        if other:
            shared = records["key"].isin(load_results(ROOT / "results", load_plan(other).plan_hash)["key"]).sum()
            assert row.endswith(f" ({shared:,} are networks of `{other}`) |")


@pytest.mark.parametrize(
    "name",
    # What the long pages say is computed again by tests below and in test_inference.py.
    [pytest.param("findings", marks=pytest.mark.slow), pytest.param("claims", marks=pytest.mark.slow), "choices"],
)
def test_pages_agree_with_the_records(name):
    module = importlib.import_module(name)
    assert module.page() == module.PAGE.read_text(encoding="utf-8"), "run make paper-tables"


def test_the_sections_of_the_readme_agree_with_records_and_benchmarks():
    text = readme.README.read_text(encoding="utf-8")
    assert readme.with_sections(text) == text, "run make paper-tables"


def test_the_readme_has_no_other_numbers():
    """A result belongs into a section that is written from records; other numbers are settings."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"<!-- (\w+): written by .*?<!-- \1: end -->", "", text, flags=re.DOTALL)
    for code_or_link in (r"^```.*?^```", r"`[^`]*`", r"\]\([^)]*\)", r"<[^>]*>"):
        text = re.sub(code_or_link, "", text, flags=re.MULTILINE | re.DOTALL)
    numbers = re.findall(r"(?<![\w.-])\d+(?:[.,]\d+)*(?:e-?\d+)?", text)
    settings = {"25", "1", "95", "3.11", "1e300", "1e12", "1e-12", "2026"}
    assert set(numbers) <= settings, f"write {set(numbers) - settings} by results/readme.py"
    assert len(DATASETS) == 25
    assert "# 280 networks on four tables" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert load_plan("demo").n_networks == 280


FIGURE = re.compile(r'<figure id="figure-([\w-]+)">(.*?)<figcaption', re.DOTALL)


def in_words(files, picture):
    """Return a figure as a page shows it, with its label, tooltips and texts in place of the drawing."""
    texts = {text.get_text() for axes in picture.figure.axes for text in axes.texts}
    words = [f'<svg aria-label="{escape(picture.label)}">']
    words += [f"<title>{escape(title)}</title>" for title in picture.titles.values()]
    words += [f"<text>{escape(text)}</text>" for text in texts if re.search(r"\d", text)]
    name = re.sub(r"[^A-Za-z0-9_-]", "_", files.prefix + picture.name)
    return {"name": name, "svg": Markup("".join(words)), "narrow": None, "fits": True, "caption": picture.caption}


def figures_in(page):
    """Return the label of each figure of a page, its tooltips, and the texts in it."""
    return {
        name: (
            unescape(re.search(r'aria-label="([^"]*)"', body)[1]),
            {unescape(title) for title in re.findall(r"<title>(.*?)</title>", body, flags=re.DOTALL)},
            {unescape(re.sub(r"<[^>]+>", "", text)).strip() for text in
             re.findall(r"<text[^>]*>(.*?)</text>", body, flags=re.DOTALL)},
        )
        for name, body in FIGURE.findall(page)
    }  # fmt: skip


@pytest.mark.slow  # its parts are those of tests/report and test_paper_section.py; this is the page of all records
def test_the_published_report_agrees_with_the_records(tmp_path, monkeypatch):
    """All of the page is written again; drawings, which take most of the time, are compared by their words."""
    monkeypatch.setattr(ReportFiles, "picture", in_words)
    page = report_folder(ROOT / "results", tmp_path / "report.html", sections=all_sections())
    published = (ROOT / "docs" / "paper" / "report.html").read_text(encoding="utf-8")
    again = page.read_text(encoding="utf-8")
    assert FIGURE.sub("", again) == FIGURE.sub("", published), "run make paper-tables"
    drawn, shown = figures_in(again), figures_in(published)
    assert list(drawn) == list(shown)
    for name, (label, titles, texts) in drawn.items():
        assert label == shown[name][0]
        assert shown[name][1] <= titles, name
        assert texts <= shown[name][2], name


def test_a_network_of_two_plans_is_counted_once_in_the_report():
    published = (ROOT / "docs" / "paper" / "report.html").read_text(encoding="utf-8")
    ranked = load_results(ROOT / "results", load_plan("paper-mlp").plan_hash)
    starts = load_results(ROOT / "results", load_plan("learned-starts").plan_hash)
    shared = int(starts["key"].isin(ranked["key"]).sum())
    assert (shared, len(starts) - shared) == (3_375, 1_875)
    text = " ".join(unescape(re.sub(r"<[^>]+>", "", published)).split())
    assert f"{shared} of them are part of the main ranks as well, {len(starts) - shared} are not." in text


def claims_on_page():
    lines = (ROOT / "docs" / "paper_claims.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in rows if row[0] != "claim"]


def test_every_claim_has_a_place_a_number_and_a_verdict():
    rows = claims_on_page()
    assert len(rows) > 70
    for row in rows:
        assert len(row) == 4
        assert all(row)
        assert row[3] in ("confirmed", "not confirmed", "cannot be told")
        assert re.search(r"\d", row[2]) or row[3] == "cannot be told", row
    assert len({row[0] for row in rows}) == len(rows), "no claim twice"
    assert {row[3] for row in rows} == {"confirmed", "not confirmed", "cannot be told"}


@pytest.mark.parametrize(
    ("claim", "verdict", "numbers"),
    [
        ("PLE has the highest mean AUC with every backbone at every size", "not confirmed", "in 7 of 9 cells"),
        ("FT-Transformer: Std is better than PLE at all sizes", "cannot be told", "PLE is better at 3 of 3 sizes"),
        ("M-splines often deteriorate at larger sizes", "cannot be told", "3 of 4 have a larger mean"),
        ("the values of 163 configurations", "cannot be told", "0.51"),
    ],
)
def test_what_the_records_show_is_among_the_claims(claim, verdict, numbers):
    (row,) = [row for row in claims_on_page() if row[0] == claim]
    assert row[3] == verdict
    assert numbers in row[2]


def test_verdicts_follow_the_records():
    study = benchmark_claims.Benchmark()
    claim = "PLE has the best average rank at all three sizes"
    verdicts = {each.text: each.verdict for each in benchmark_claims.classification_ranks(study)}
    assert verdicts[claim] == "not confirmed"
    study = benchmark_claims.Benchmark()
    better = (study.frame["method"] == "PLE") & (study.frame["task"] == "classification")
    study.frame = study.frame.assign(score=study.frame["score"].where(~better, 1.0))
    verdicts = {each.text: each.verdict for each in benchmark_claims.classification_ranks(study)}
    assert verdicts[claim] == "confirmed"


def test_a_verdict_that_depends_on_the_divisor_cannot_be_told():
    study, part = benchmark_claims.Benchmark(), benchmark_claims.regression_tokens
    alone = {claim.text: claim for claim in part(study)}
    claims = {claim.text: claim for claim in benchmark_claims.with_all_divisors(study, part)}
    assert list(claims) == list(alone)
    frame, lower = study.frame[study.frame["network"] == "ft feature"], {}
    for column in ("target_std", "target_mean"):
        by = [frame[name] for name in ("method", "size", "dataset")]
        means = (
            (frame["rmse"] / frame[column]).groupby(by, dropna=False).mean().groupby(level=[0, 1], dropna=False).mean()
        )
        lower[column] = int((means["PLE"] < means["Std"].iloc[0]).sum())
    assert lower == {"target_std": 3, "target_mean": 0}
    text = "FT-Transformer: Std is better than PLE at all sizes"
    assert (alone[text].holds, claims[text].holds, claims[text].by_divisor) == (False, None, True)
    assert "divided by the mean of the target: Std " in claims[text].ours
    assert claims[text].ours.endswith("PLE is better at 0 of 3 sizes")
    same = [claim for claim in claims.values() if not claim.by_divisor]
    assert 0 < len(same) < len(claims)
    assert all(claim == alone[claim.text] for claim in same)


def test_numbers_of_the_papers_data_sets_add_up():
    """The paper's own sums and averages, from its table of splits."""
    table = questions.paper_tables()
    assert table.groupby("task")["paper_rows"].sum().to_dict() == {"regression": 255_489, "classification": 255_928}
    features = table["paper_columns"].map(sum).groupby(table["task"]).mean().round(1)
    assert features.to_dict() == {"regression": 10.5, "classification": 13.0}


TYPED = re.compile(r"\d+(?:[.,]\d+)*")


def typed_numbers(tree):
    """Return the numbers in texts of a syntax tree that are written by hand, not computed."""
    documentation = {
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    }
    patterns = {id(part) for node in ast.walk(tree) if isinstance(node, ast.FormattedValue) for part in ast.walk(node)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in patterns else None
        if isinstance(text, str) and text not in documentation and " " in text.strip() and "\\d" not in text:
            yield from TYPED.findall(re.sub(r"[\w-]*[A-Za-z][\w@-]*", "", text))


@pytest.mark.parametrize("name", ["findings", "questions", "token_kinds", "token_sizes", "inference", "converged",
                                  "advice", "readme", "choices"])  # fmt: skip
def test_results_are_not_typed_by_hand(name):
    """Texts of the pages contain settings of the study; a result is computed where it is written."""
    settings = {"7", "15", "30", "14", "12", "95", "5", "0", "50", "2", "1", "25", "70", "20,000", "200,000", "10",
                "65,536", "2021", "0.75", "1.13", "1.2", "19", "13", "80", "0.0001"}  # fmt: skip
    typed = set(typed_numbers(ast.parse((ROOT / "results" / f"{name}.py").read_text(encoding="utf-8"))))
    assert typed <= settings, f"compute {typed - settings}"


@pytest.mark.parametrize("name", ["claims", "benchmark_claims", "training_claims"])
def test_what_claims_say_of_our_records_is_not_typed_by_hand(name):
    """A claim quotes the paper's numbers; ours, its third argument, are computed: only settings are typed."""
    settings = {"7", "15", "30", "14", "12", "3", "5", "35", "50", "9", "2"}
    tree = ast.parse((ROOT / "results" / f"{name}.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    claims = [call for call in calls if ast.unparse(call.func).endswith("Claim")]
    assert len(claims) > 2
    typed = {number for claim in claims for number in typed_numbers(ast.Expression(claim.args[2]))}
    assert typed <= settings, f"compute {typed - settings}"


def test_the_records_of_the_ablation_with_other_rows():
    grids = questions.row_counts()
    assert list(grids) == [*ablation_rows.ROWS, 20_000]
    for grid in grids.values():
        assert len(grid) == len(questions.ablation_grid())
        assert set(grid["seeds"]) == {5}


def test_precision_is_within_the_spread_over_folds():
    rows = readme.rows_of("Training stacks of networks", "spread over folds, difference")
    ratios = [abs(float(row["difference"])) / float(row["spread over folds"]) for row in rows]
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert f"the largest mean difference is {max(ratios):.2f} of the spread over folds" in text


def test_steps_of_the_plain_loop_are_those_of_the_benchmark():
    steps = importlib.import_module("findings").PLAIN_STEP
    page = " ".join((ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8").split())
    names = {"mlp": "MLP", "resnet": "ResNet", "ft feature": "FT-Transformer"}
    for network, seconds in steps.items():
        assert re.search(rf"\b{1e6 * seconds:.0f} and \d+ us \({names[network]}\)", page)


def test_the_page_on_clusters_agrees_with_the_findings():
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    rows = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8").splitlines()
    times = TIMES.findall(page)
    assert len(times) == 3
    for name, seconds in times:
        (row,) = [row for row in rows if row.startswith(f"| `paper-{name.split()[0]}` ")]
        assert row.endswith(f" | {seconds} |")


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
