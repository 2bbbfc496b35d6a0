"""The opening: its sentence says what the ranks say, and its figure shows them."""

import re

import numpy as np
import pytest

from knotwork.report import make_report
from knotwork.report._aggregate import RankTable
from knotwork.report._figures import _spread, draw_rank_dots, lead_picture
from knotwork.report._style import PHONE
from knotwork.report._words import lead_sentences
from tests.report.cases import make_records

METHODS = ["Std", "PLE", "BS-Q", "BS-U", "IS-Q"]


def ranked(task, size, best, *, n_problems=12, second=None):
    """Return a table in which a method is the best of every problem; `second` is better in every third."""
    lower = task == "regression"
    scores = np.tile(np.linspace(0.5, 0.6, len(METHODS)), (n_problems, 1))
    scores[:, METHODS.index(best)] = 0.1
    if second is not None:
        scores[:, METHODS.index(second)] = 0.12
        scores[::3, METHODS.index(second)] = 0.01
    problems = [(f"data{i}", "mlp") for i in range(n_problems)]
    return RankTable(task, size, METHODS, problems, scores if lower else 1 - scores, {}, [])


def turned():
    """Return a table of two problems with opposite orders."""
    scores = np.array([np.arange(5.0), np.arange(5.0)[::-1]])
    return RankTable("regression", 7, METHODS, [("a", "mlp"), ("b", "mlp")], scores, {}, [])


def test_families_by_size():
    tables = [ranked(task, size, best) for task in ("regression", "classification")
              for size, best in ((7, "BS-Q"), (15, "IS-Q"), (30, "IS-Q"))]  # fmt: skip
    assert lead_sentences(tables)[0] == "B-splines lead at size 7, I-splines at sizes 15 and 30."


def test_tasks_that_differ():
    tables = [ranked("regression", 7, "BS-Q"), ranked("classification", 7, "BS-U"),
              ranked("regression", 15, "IS-Q"), ranked("classification", 15, "PLE")]  # fmt: skip
    assert lead_sentences(tables)[0] == (
        "B-splines lead at size 7; at size 15, I-splines for regression and PLE for classification."
    )
    assert lead_sentences(tables[2:])[0] == "IS-Q leads for regression and PLE for classification at size 15."


def test_a_single_size_has_the_names_of_methods():
    assert lead_sentences([ranked("regression", 7, "BS-Q")])[0] == "BS-Q leads at size 7."
    assert lead_sentences([ranked("regression", None, "Std")])[0] == "Std leads."
    assert lead_sentences([]) == []


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (ranked("regression", 7, "BS-Q", n_problems=40), "significantly better than all others"),
        (
            ranked("regression", 7, "BS-Q", second="BS-U", n_problems=40),
            "Of the 4 other methods, 1 is not significantly",
        ),
        (ranked("regression", 7, "BS-Q", n_problems=1), "By average rank, BS-Q leads at size 7, but this cannot"),
        (turned(), ", but no difference between the 5 methods is significant"),
    ],
)  # fmt: skip
def test_certainty(table, words):
    assert words in lead_sentences([table])[-1]


def test_the_figure_shows_the_ranks_and_names_its_parts():
    tables = [ranked("regression", 7, "BS-Q"), ranked("regression", 15, "IS-Q")]
    picture = lead_picture(tables)
    lines = {line.get_gid(): line for line in picture.figure.axes[0].lines if line.get_gid()}
    i = METHODS.index("IS-Q")
    np.testing.assert_allclose(lines[f"lead-0-{i}"].get_ydata(), [table.ranks[i] for table in tables])
    assert picture.methods[f"lead-0-{i}"] == "IS-Q"
    assert picture.titles[f"lead-0-{i}"] == "IS-Q, regression: average rank 5.00 at size 7, 1.00 at size 15"
    assert lines[f"lead-0-{i}"].get_linewidth() > lines["lead-0-0"].get_linewidth(), "those that lead are bold"
    assert picture.narrow.get_figwidth() <= PHONE
    assert lead_picture([ranked("regression", 7, "BS-Q", n_problems=1)]) is None


def test_one_size_is_drawn_with_intervals():
    table = ranked("regression", 7, "BS-Q")
    axes = draw_rank_dots([[table]]).figure.axes[0]
    assert axes.get_yticklabels()[0].get_text() == "BS-Q"
    assert [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1] == sorted(table.ranks)


def test_names_are_kept_apart():
    placed = _spread([1.0, 1.0, 1.1, 3.9, 4.0], gap=0.5, low=0.0, high=4.0)
    assert min(np.diff(placed)) >= 0.5 - 1e-12
    assert placed[0] >= 0.0
    assert placed[-1] <= 4.0


def few_tables():
    """Return records of two tables on which BS-Q has far less error than Std, too few to prove anything."""
    records = make_records(2, 0, backbones=["mlp"], methods=["Std", "BS-Q", "PLE"], sizes=(7,), n_folds=2)
    records.loc[records["method"] == "Std", "nrmse"] = 0.5
    records.loc[records["method"] == "BS-Q", "nrmse"] = 0.2
    records.loc[records["method"] == "PLE", "nrmse"] = 0.3
    return records


def test_the_finding_comes_first_and_few_tables_have_no_interval(tmp_path):
    page = make_report(few_tables(), tmp_path / "report.html").read_text()
    sentences = re.findall(r'<p class="(?:lead|certainty)">(.*?)</p>', page)
    plain = [re.sub(r"<.*?>", "", sentence) for sentence in sentences]
    assert plain[0].startswith("On reg0")
    assert "lowers the NRMSE from 0.500 (Std) to 0.200: 60 % less error." in plain[0]
    assert plain[1] == "By average rank, BS-Q leads at size 7, but no difference between the 3 methods is significant."
    assert "(95 % interval" not in page
    assert "bootstrap interval of 95 %" not in page
    assert "depend on the backbone?" not in page  # there is only one


def test_times_of_stacks_are_not_drawn_by_method(tmp_path):
    records = few_tables().assign(together=True)
    page = make_report(records, tmp_path / "stacked.html").read_text()
    assert "these records have no times by method" in page
    assert 'id="front"' not in page
    assert "Milliseconds per epoch" not in page
