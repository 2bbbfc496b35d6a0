"""Recommendations: complete, usable, and in agreement with the paper's numbers."""

import re
from itertools import product

import pandas as pd
import pytest

import knotwork as kw
from knotwork._recommend import BACKBONES, BUDGETS, RECOMMENDATIONS, TASKS, Recommendation, recommend
from knotwork.encoders._methods import METHOD_TABLE

COMBINATIONS = list(product(TASKS, BACKBONES, BUDGETS))
NAMES = {"mlp": "mlp", "resnet": "resnet", "ft": "ftt"}  # ours and the paper's


@pytest.fixture
def ranks(paper_folder):
    return {task: pd.read_csv(paper_folder / f"average_ranks_{task}.csv", index_col="method") for task in TASKS}


@pytest.fixture
def quoted(paper_folder):
    table = pd.read_csv(paper_folder / "quoted_averages.csv")
    sizes = [None if pd.isna(size) else int(size) for size in table["size"]]
    return dict(zip(zip(table.task, table.backbone, table.method, sizes, strict=True), table.value, strict=True))


def fixed(ranks, task, size):
    """Return the methods without learned knots, best average rank first."""
    column = ranks[task][f"m{size}"].sort_values()
    return [name for name in column.index if not METHOD_TABLE[name].learnable]


def test_every_combination_exists_and_no_other():
    assert set(RECOMMENDATIONS) == set(COMBINATIONS)


@pytest.mark.parametrize(("task", "backbone", "budget"), COMBINATIONS)
def test_methods_and_sizes_can_be_used(task, backbone, budget):
    found = recommend(task, backbone, budget=budget)
    assert found == RECOMMENDATIONS[task, backbone, budget]
    assert {found.method, *found.alternatives} <= set(kw.METHODS)
    assert found.alternatives
    assert found.method not in found.alternatives
    assert len(set(found.alternatives)) == len(found.alternatives)
    assert (found.size is not None) == METHOD_TABLE[found.method].has_size
    assert found.size in (None, 7, 15, 30)
    for method in (found.method, *found.alternatives):
        if not METHOD_TABLE[method].learnable:
            kw.make_encoder(method, found.size).fit([[0.0], [1.0], [2.0]], [0, 1, 0])


@pytest.mark.parametrize(("task", "backbone", "budget"), COMBINATIONS)
def test_it_prints_as_two_sentences(task, backbone, budget):
    found = recommend(task, backbone, budget=budget)
    text = str(found)
    assert text.startswith(found.method)
    assert "None" not in text
    assert all(word in text for word in (found.reason, *found.alternatives))
    assert text.endswith(".")
    assert len(re.findall(r"\.(?=\s|$)", text)) == 2


def test_text():
    shown = Recommendation("BS-U", 7, "It is cheap.", ("BS-Q", "Std"))
    assert str(shown) == "BS-U with 7 columns per feature (or BS-Q, Std). It is cheap."
    assert str(Recommendation("Std", None, "It is cheap.", ("MinMax",))) == "Std (or MinMax). It is cheap."


def test_defaults_and_the_papers_table():
    assert recommend() is recommend("regression", "mlp", budget="low")
    for backbone in ("mlp", "resnet"):  # B-splines on uniform or quantile knots, PLE for classes, m about 7 to 10
        start = recommend("regression", backbone)
        assert (start.method, start.size, start.alternatives) == ("BS-Q", 7, ("BS-U",))
        assert (recommend("classification", backbone).method, recommend("classification", backbone).size) == ("PLE", 7)
    for task in TASKS:  # Std or MinMax
        assert recommend(task, "ft").method == "Std"
        assert "MinMax" in recommend(task, "ft").alternatives
    named = {name for each in RECOMMENDATIONS.values() for name in (each.method, *each.alternatives)}
    assert not {name for name in named if name.startswith("MS")}  # M-splines are no first choice


@pytest.mark.parametrize("name", ["task", "backbone", "budget"])
def test_every_argument_matters(name):
    choices = {"task": TASKS, "backbone": BACKBONES, "budget": BUDGETS}[name]
    assert len({recommend(**{name: choice}) for choice in choices}) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "ranking"}, "task must be one of 'regression', 'classification', got task='ranking'"),
        ({"backbone": "ftt"}, "backbone must be one of 'mlp', 'resnet', 'ft', got backbone='ftt'"),
        ({"budget": 3}, "budget must be one of 'low', 'medium', 'high', got budget=3"),
    ],
)
def test_wrong_arguments_are_told_the_choices(arguments, message):
    with pytest.raises(ValueError, match=message):
        recommend(**arguments)


@pytest.mark.parametrize(("task", "backbone", "budget"), COMBINATIONS)
def test_every_number_in_a_reason_is_the_papers(task, backbone, budget, ranks, quoted):
    reason = recommend(task, backbone, budget=budget).reason
    averages = {f"{value:.4f}" for key, value in quoted.items() if key[:2] == (task, NAMES[backbone])}
    values = {f"{value:.2f}" for value in ranks[task].to_numpy().ravel()} | averages
    numbers = re.findall(r"\d+\.\d+", reason)
    assert set(numbers) <= values


def test_ranks_behind_the_reasons(ranks):
    at = {(task, size): ranks[task][f"m{size}"] for task in TASKS for size in (7, 15, 30)}
    regression, classes = at["regression", 7], fixed(ranks, "classification", 7)
    assert (regression["BS-Q"], regression["BS-U"]) == (5.65, 7.29)
    assert fixed(ranks, "regression", 15)[:3] == ["IS-Q", "IS-LGBM", "IS-CART"]
    assert at["regression", 15][["IS-Q", "IS-LGBM", "IS-CART"]].tolist() == [6.01, 6.10, 6.67]
    assert at["regression", 30][["IS-Q", "BS-Grad-U"]].tolist() == [5.64, 6.47]
    assert set(fixed(ranks, "regression", 7)[:3]) == {"BS-Q", "BS-LGBM", "BS-CART"}
    assert classes[0] == "PLE"
    assert [at["classification", size].min() for size in (7, 15, 30)] == [5.01, 3.96, 3.33]
    assert at["classification", 30].nsmallest(2).iloc[1] == 5.19


@pytest.mark.parametrize("backbone", ["mlp", "resnet"])
def test_classes_get_the_best_fixed_methods_by_rank(backbone, ranks):
    for budget, size in zip(BUDGETS, (7, 15, 30), strict=True):
        found = recommend("classification", backbone, budget=budget)
        assert found.size == size
        assert [found.method, *found.alternatives] == fixed(ranks, "classification", size)[:3]


def test_averages_behind_the_reasons(quoted):
    ft = {key[2:]: value for key, value in quoted.items() if key[:2] == ("regression", "ftt")}
    assert ft["BS-Q", 7] < ft["Std", None] < ft["BS-Q", 15] < ft["BS-Q", 30]
    mlp = {key[2:]: value for key, value in quoted.items() if key[:2] == ("regression", "mlp")}
    assert mlp["IS-Grad-U", 30] < mlp["BS-Grad-U", 30] < mlp["BS-Grad-U", 7]
    area = {key[2:]: value for key, value in quoted.items() if key[:2] == ("classification", "ftt")}
    assert area["PLE", 30] > area["PLE", 7] > area["Std", None]
