"""The page: well formed, self-contained, and complete even if records are missing."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from knotwork import _files as files
from knotwork._cli import app
from knotwork.datasets import DATASETS
from knotwork.report import Cell, Picture, ReportTable, Section, draw_cd_diagram, load_records, make_report
from tests.report.cases import make_records, write_study

pytestmark = pytest.mark.xdist_group("report")  # one process: a report serves several tests
LEAST = ("dataset", "task", "backbone", "method", "size", "fold", "nrmse", "auc")
VOID = {"meta", "link", "br", "input", "img", "hr"}


class Page(HTMLParser):
    """Checks that elements are closed in order, and gathers ids, links, addresses and text."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.ids, self.links, self.words, self.tags = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("href", "src", "xlink:href") if name in values]
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if not self.stack or self.stack[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))


def report(records, folder, **options):
    path = make_report(records, folder / "report.html", **options)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link.startswith(("#", "data:")), "no address outside the page"
        assert not link.startswith("#") or link[1:] in page.ids
    for target in re.findall(r"url\(#([^)]*)\)", text):
        assert target in page.ids
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\((?!#|\"data:)", text)
    assert "nan" not in re.findall(r"\w+", page.text.lower())
    assert page.tags.count("svg") == text.count('role="img" aria-label="')
    return page


def few(**options):
    usual = {"n_regression": 3, "n_classification": 2, "backbones": ["mlp", "ft"], "sizes": (7, 15), "n_folds": 2}
    return make_records(**(usual | {"methods": ["Std", "PLE", "BS-U", "BS-Grad-U"]} | options))


def alone(**options):
    return few(n_regression=1, n_classification=0, backbones=["mlp"], **options)


def fewest(**options):
    """Return what suffices for ranks: two data sets of either task, one network and one size."""
    return few(**({"n_regression": 2, "backbones": ["mlp"], "sizes": (7,)} | options))


@pytest.fixture(scope="module")
def full_report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    records = few()
    broken = records.query("dataset == 'reg00' and backbone == 'mlp' and method == 'PLE' and size == 7").index[:1]
    records.loc[broken, ["status", "error"]] = [
        "failed",
        "Traceback (most recent call last):\n  <b>\nValueError: a < b & c",
    ]
    return folder, report(records, folder, plan={"name": "a <plan>"})


def test_content_of_the_page(full_report):
    folder, page = full_report
    for words in ("Regression, size 7", "Classification, size 15", "ValueError: a < b & c", "a <plan>",
                  "0123456789abcdef",
                  "reg00 with mlp (without PLE)"):  # fmt: skip
        assert words in page.text
    assert 'title="1 of 2 folds"' in (folder / "report.html").read_text(encoding="utf-8")
    for name in ("summary", "ranks", "heatmaps", "sizes", "scores", "costs", "provenance", "failures"):
        assert name in page.ids
        assert f"#{name}" in page.links


def test_files_beside_the_page(full_report):
    folder, _ = full_report
    for name in (
        "cd_regression_size7",
        "heatmap_classification",
        "heatmap_scores_regression",
        "sizes_regression",
        "times",
        "cost_regression_size15",
    ):
        for ending in (".svg", "_dark.svg", ".pdf", "_dark.pdf"):
            assert (folder / "figures" / f"{name}{ending}").stat().st_size > 1000
    for name in ("scores_regression_size7", "average_ranks_classification", "wins_regression_size15", "overhead"):
        for ending in ("md", "tex", "csv"):
            assert (folder / "tables" / f"{name}.{ending}").stat().st_size > 50


def test_tooltips_have_values(full_report):
    folder, _ = full_report
    text = (folder / "report.html").read_text(encoding="utf-8")
    titles = re.findall(r"<title>([^<]*)</title>", text)
    assert any(
        re.fullmatch(r"PLE, ft feature, Regression, size 7: average rank \d\.\d\d over 3 data sets", title)
        for title in titles
    )
    assert any(re.fullmatch(r"BS-U, mlp, size 15: [\d.]+ ms per epoch", title) for title in titles)
    assert any(re.fullmatch(r"Std: average rank [\d.]+, [\d.]+ ms per epoch", title) for title in titles)


def test_readable_without_scripts(full_report):
    folder, page = full_report
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert 'id="filters" hidden' in text
    assert "reg02" in page.text


@pytest.mark.usefixtures("no_pdf")
def test_the_page_follows_the_records(tmp_path):
    records = fewest(n_classification=0)
    records.loc[records["method"] == "Std", "nrmse"] = 0.001
    assert "Std has the best average rank, 1.00" in report(records, tmp_path).text
    records.loc[records["method"] == "Std", "nrmse"] = 99.0
    page = report(records, tmp_path)
    assert "Std has the best" not in page.text
    assert "99.0000" in page.text


def all_failed(records):
    return records.assign(status="failed", nrmse=np.nan, auc=np.nan, error=None)


HARD = {
    "one data set": (lambda: alone(sizes=(7,)), "Tests need two data sets; there is one"),
    "one method": (lambda: fewest(methods=["PLE"]), "Ranks need two methods"),
    "only methods without size": (lambda: fewest(methods=["Std", "MinMax"]), "Regression"),
    "no regression": (lambda: fewest(n_regression=0), "There are no records of regression"),
    "all tied": (lambda: fewest().assign(nrmse=0.5, auc=0.5), "All methods tie in every problem"),
    "all failed": (lambda: all_failed(fewest()), "Ranks need two methods with scores; there are none"),
    "one fold": (lambda: fewest(n_folds=1), "Regression, size 7"),
    "one row": (lambda: few().iloc[:1], "There are no records of classification"),
    "no times": (lambda: fewest().assign(train_seconds=np.nan, prepare_seconds=np.nan), "No times are recorded"),
    "few columns": (lambda: fewest()[list(LEAST)], "not recorded"),
    "unknown methods": (lambda: fewest().replace({"method": {"PLE": "My <method>"}}), "My <method>"),
    "many sizes": (lambda: alone(sizes=(5, 10, 15, 20, 25)), "Scores by size"),
    "sizes differ by backbone": (
        lambda: fewest(backbones=["mlp", "ft"], sizes=(7, 15)).query("backbone == 'mlp' or size == 7"), "size 15"),
    "strange names": (lambda: fewest().replace({"dataset": {"reg00": "a/b <c> & 'd' |"}}), "a/b <c> & 'd' |"),
}  # fmt: skip


@pytest.mark.usefixtures("no_pdf")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (place % 2)) for place, name in enumerate(HARD)]
)
def test_reports_of_hard_cases_name_the_gaps(name, tmp_path):
    make, words = HARD[name]
    assert words in report(make(), tmp_path).text


@pytest.mark.usefixtures("no_pdf")
def test_deviations_of_the_data_are_listed(tmp_path):
    records = fewest(n_classification=0).replace({"dataset": {"reg00": "sgemm"}})
    assert DATASETS["sgemm"].deviation in report(records, tmp_path).text


def test_a_report_knows_no_paper(full_report):
    _, page = full_report
    assert "paper" not in page.text.lower()


def count_networks(parts):
    ranks = parts[0].tables[0]
    table = ReportTable("counts", "Networks", "Of each part.", ["part", "networks"],
                  [[Cell(part.title), Cell(value=float(len(part.frame)), digits=0)] for part in parts])  # fmt: skip
    figure = draw_cd_diagram(ranks.methods, ranks.ranks, ranks.cd).get_figure(root=True)
    other = ReportTable("others", "Others", "Only in a file.", ["a"], [[Cell("b")]])
    return Section(
        "How many <networks>",
        [f"There are {len(parts[0].frame)} networks & more.", Section("Folded", [table], folded=True),
         Section("A figure", [Picture("counted", figure, "A diagram.", "Ranks.")])],
        name="counts", files=[other],
    )  # fmt: skip


@pytest.mark.usefixtures("no_pdf")
def test_further_sections(tmp_path, full_report):
    records = fewest()
    page = report(records, tmp_path, sections=[count_networks, lambda parts: None])
    for words in ("How many <networks>", f"There are {len(records)} networks & more.", "Folded", "these records"):
        assert words in page.text
    assert "counts" in page.ids
    assert "#counts" in page.links
    assert "figure-counted" in page.ids
    assert "Only in a file." not in page.text
    for path in ("tables/counts.csv", "tables/others.md", "figures/counted_dark.svg"):
        assert (tmp_path / path).exists()
    assert "How many <networks>" not in full_report[1].text


def test_empty_records_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="records must have at least one row"):
        make_report(few().iloc[:0], tmp_path / "report.html")


@pytest.mark.usefixtures("no_pdf")
def test_command(tmp_path):
    write_study(tmp_path, alone(sizes=(7,)))
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert f"Report: {tmp_path / 'report.html'}" in result.output
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "tables").is_dir()
    assert len(load_records(tmp_path)) == 4 * 2
    elsewhere = tmp_path / "else" / "page.html"
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--out", str(elsewhere)]).exit_code == 0
    assert elsewhere.exists()


def test_command_without_records(tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert result.exit_code == 1
    assert "folder must have Parquet files" in result.output


def test_the_template_is_part_of_the_package():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert "report/templates/*.j2" in text


HOSTILE = ("<script>window.hacked = 1</script>", r"$\frac$", '"><img src=x onerror=hack()>', "{{7*7}}", "n" * 300)


def test_hostile_names_are_text(tmp_path, full_report):
    """Of data sets, methods and a plan: on the page and in the drawings, PDFs among them."""
    records = few(n_regression=3, n_classification=2, sizes=(7,))
    names = dict(zip(records["dataset"].unique(), HOSTILE, strict=True))
    records["dataset"] = records["dataset"].map(names)
    methods = {"PLE": "<script>window.hacked = 2</script>", "BS-U": r"$\sqrt$", "Std": '"><img src=y onerror=hack()>'}
    records["method"] = records["method"].replace(methods)
    page = report(records, tmp_path, plan={"name": HOSTILE[0]})
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    plain = (full_report[0] / "report.html").read_text(encoding="utf-8")
    assert text.count("<script>") == plain.count("<script>")
    assert "<img" not in text
    for name in (*HOSTILE, *methods.values()):
        assert name in page.text


def test_the_finding_comes_first(full_report):
    folder, _ = full_report
    text = (folder / "report.html").read_text(encoding="utf-8")
    places = [text.index(part) for part in ('<p class="lead">', 'id="figure-opening"', 'class="finding"', 'id="ranks"')]
    assert places == sorted(places)
    heads = re.findall(r"<h2[^>]*>([^<]*)</h2>", text)
    assert len(heads) == 8
    assert all(head.endswith("?") for head in heads)


@pytest.mark.usefixtures("no_pdf")
def test_scores_of_folds_are_those_of_the_records(tmp_path):
    records = fewest()
    report(records, tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    problems = json.loads(re.search(r'id="folds">(.*?)</script>', text)[1])
    problem = next(problem for problem in problems if problem["dataset"] == "reg01")
    part = records.query("dataset == 'reg01' and method == 'PLE'").sort_values("fold")
    assert problem["sizes"]["7"]["PLE"] == [float(f"{value:.5g}") for value in part["nrmse"]]
    assert set(problem["sizes"]["no size"]) == {"Std"}
    assert len((tmp_path / "tables" / "folds.csv").read_text().splitlines()) == 1 + len(records)


@pytest.mark.usefixtures("no_pdf")
def test_sections_without_content_are_left_out(tmp_path):
    page = report(fewest(methods=["Std", "PLE"]), tmp_path)
    assert not {"sizes", "failures"} & set(page.ids)
    assert "#sizes" not in page.links
    assert "no curves to show" not in page.text


@pytest.mark.usefixtures("no_pdf")
def test_a_full_disk_leaves_the_report_as_it_was(tmp_path, monkeypatch):
    make_report(alone(), tmp_path / "report.html")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(before) > 10
    left = iter(range(7))

    def fsync(_):
        if next(left, None) is None:  # the disk is full after some files
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(OSError, match="No space"):
        make_report(alone(methods=["Std", "PLE", "BS-Q"]), tmp_path / "report.html")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
