"""Recommendations: complete, usable, and in agreement with the paper's numbers and with our records."""

import json
import re
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork._recommend import CHOICES, RECOMMENDATIONS, TASKS, Recommendation, recommend
from knotwork.encoders._methods import METHOD_TABLE

sys.path.insert(0, str(Path(__file__).parents[2] / "results"))

import advice
import questions

ANSWERS = list(product(*CHOICES.values()))
COMBINATIONS = list(dict.fromkeys(answer[:3] for answer in ANSWERS))
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
def test_the_default_is_the_papers(task, backbone, budget):
    answer = recommend(task, backbone, budget=budget)
    assert replace(answer, evidence="") == RECOMMENDATIONS[task, backbone, budget]
    assert answer is recommend(task, backbone, budget=budget, source="paper")


@pytest.mark.parametrize(("task", "backbone", "budget", "source"), ANSWERS)
def test_methods_and_sizes_can_be_used(task, backbone, budget, source):
    found = recommend(task, backbone, budget=budget, source=source)
    assert {found.method, *found.alternatives} <= set(kw.METHODS)
    assert found.alternatives
    assert found.method not in found.alternatives
    assert len(set(found.alternatives)) == len(found.alternatives)
    assert (found.size is not None) == METHOD_TABLE[found.method].has_size
    assert found.size in (None, 7, 15, 30)
    for method in (found.method, *found.alternatives):
        if not METHOD_TABLE[method].learnable:
            kw.make_encoder(method, found.size).fit([[0.0], [1.0], [2.0]], [0, 1, 0])


@pytest.mark.parametrize(("task", "backbone", "budget", "source"), ANSWERS)
def test_it_prints_as_three_sentences(task, backbone, budget, source):
    found = recommend(task, backbone, budget=budget, source=source)
    text = str(found)
    assert text.startswith(found.method)
    assert "None" not in text
    assert all(word in text for word in (found.reason, found.evidence, *found.alternatives))
    assert text.endswith(".")
    assert len(re.findall(r"\.(?=\s|$)", text)) == 3


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


@pytest.mark.parametrize("name", ["task", "backbone", "budget", "source"])
def test_every_argument_matters(name):
    choices = CHOICES[name]
    assert len({recommend(**{name: choice}) for choice in choices}) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "ranking"}, "task must be one of 'regression', 'classification', got task='ranking'"),
        ({"backbone": "ftt"}, "backbone must be one of 'mlp', 'resnet', 'ft', got backbone='ftt'"),
        ({"budget": 3}, "budget must be one of 'low', 'medium', 'high', got budget=3"),
        ({"source": "ours"}, "source must be one of 'paper', 'records', got source='ours'"),
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
    for budget, size in zip(CHOICES["budget"], (7, 15, 30), strict=True):
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


def test_the_file_is_what_the_records_say():
    assert json.loads(advice.FILE.read_text(encoding="utf-8")) == advice.content(), "run make paper-tables"


@pytest.fixture(scope="module")
def errors():
    """Return the error of each method and size on each table, by task and network, straight from the records."""
    frame = questions.main_benchmark()
    frame = frame.assign(
        error=frame["score"].where(frame["task"] == "regression", (1 - frame["score"])),
        size=frame["size"].astype(float).fillna(0.0),
    )
    wide = frame.pivot_table(index=["task", "network", "dataset"], columns=["method", "size"], values="error")
    return wide.clip(lower=1e-6)


@pytest.mark.parametrize(
    ("task", "backbone", "budget", "by_rank", "by_error"),
    [("regression", "mlp", "medium", 19, 19), ("regression", "ft", "medium", 19, 36)],
)
def test_places_of_the_papers_advice_in_our_records(errors, task, backbone, budget, by_rank, by_error):
    answer = recommend(task, backbone, budget=budget)
    table = errors.loc[task, "ft feature" if backbone == "ft" else backbone]
    excess = np.log(table.div(table.min(axis=1), axis=0).clip(upper=2.0)).mean()
    key = answer.method, float(answer.size)
    assert table.rank(axis=1).mean().rank()[key] == by_rank
    assert excess.rank()[key] == by_error
    assert f"at place {by_rank} of 38 methods and sizes by average rank, and at place {by_error}" in answer.evidence
    assert f"on average {100 * np.expm1(excess[key]):.1f} % above" in answer.evidence


@pytest.mark.parametrize("backbone", CHOICES["backbone"])
def test_the_highest_budget_has_the_least_mean_error_of_all(errors, backbone):
    for task in TASKS:
        table = errors.loc[task, "ft feature" if backbone == "ft" else backbone]
        best = np.log(table.div(table.min(axis=1), axis=0).clip(upper=2.0)).mean().idxmin()
        answer = recommend(task, backbone, budget="high", source="records")
        assert (answer.method, float(answer.size or 0)) == best


def test_a_table_has_no_part_in_the_choice_that_it_scores():
    key = "regression", "mlp", "medium"
    entry = advice.budgets()[key]
    logs = advice.log_excess(entry)
    before = advice.left_out(entry, key, logs)
    paper = entry.configurations.index(advice.of_paper(*key))
    choices = [int(np.argmin(np.delete(logs, table, axis=0).mean(axis=0))) for table in range(len(logs))]
    reached = np.array([logs[table, choice] for table, choice in enumerate(choices)])
    assert before.excess == pytest.approx(100 * np.expm1(reached.mean()))
    assert (before.better, before.worse) == ((reached < logs[:, paper]).sum(), (reached > logs[:, paper]).sum())
    spoilt = logs.copy()
    spoilt[0] = 100.0 - spoilt[0]  # the first table would choose the worst ones
    assert int(np.argmin(np.delete(spoilt, 0, axis=0).mean(axis=0))) == choices[0]


def test_what_is_said_without_one_table(errors):
    table = errors.loc["classification", "mlp"].drop(index="shuttle")
    key = "classification", "mlp", "high"
    place = sorted(errors.loc["classification", "mlp"].index).index("shuttle")
    fewer = advice.without_one_table(advice.budgets()[key])[place]
    expected = np.log(table.div(table.min(axis=1), axis=0).clip(upper=2.0)).mean()
    paper = advice.of_paper(*key)
    assert advice.choice_of(fewer, paper).excess == pytest.approx(100 * np.expm1(expected[paper[0], float(paper[1])]))
    pairs, worst = advice.sensitivity()
    assert len(pairs) == 25
    assert worst == "shuttle"


def test_the_candidates_of_a_search_are_as_near_to_the_best_as_they_are_said_to_be():
    from knotwork.estimators import _settings

    logs = {"ten": [], "recommended": [], "size 15": []}
    for task, backbone in product(TASKS, ("mlp", "resnet")):
        entry = advice.budgets()[task, backbone, "high"]
        names, excess = [advice.named(each) for each in entry.configurations], advice.log_excess(entry)
        recommended = advice.named(advice.of_paper(task, backbone, _settings.BUDGET))
        chosen = {"ten": _settings.CANDIDATES, "recommended": [recommended],
                  "size 15": [name for name in names if name.endswith("@15")]}  # fmt: skip
        for name, each in chosen.items():
            logs[name].extend(excess[:, [names.index(one) for one in each]].min(axis=1))
    ten, recommended, size = (f"{100 * np.expm1(np.mean(logs[name])):.1f} %" for name in logs)
    text = " ".join(Path(_settings.__file__).read_text(encoding="utf-8").split())
    assert f"the best of these ten is on average {ten} above the error" in text
    assert f"the recommended encoding is {recommended} above it and the best of all at size 15, {size}." in text
