"""Records of several plans: which are ranked together, and which are separate parts."""

import numpy as np
import pandas as pd
import pytest

from knotwork.report import make_report
from knotwork.report._aggregate import split_records
from knotwork.report._document import _extra_section
from knotwork.report._figures import heatmap_picture
from knotwork.report._words import describe_seeds
from tests.report.cases import make_records
from tests.report.conftest import leave_out_pdf

SMALL = {"methods": ["Std", "PLE", "BS-U", "BS-Grad-U"], "sizes": (7,), "n_folds": 2}


def plan_of(name, *, tokens=None, together=True, salt="", **options):
    """Return records of a plan, with keys that say what was trained."""
    records = make_records(**(SMALL | {"n_regression": 3, "n_classification": 0, "backbones": ["mlp"]} | options))
    if tokens is not None:
        records["tokens"] = tokens
    names = ["dataset", "backbone", "tokens", "method", "size", "fold"]
    keys = ["-".join(map(str, row)) + salt + str(together) for row in records[names].to_numpy()]
    return records.assign(plan=name, together=together, key=keys)


def grid(name="ablation"):
    records = plan_of(name, n_regression=1, sizes=(5, 10, 15, 20)).assign(dataset="ablation")
    return records.assign(key=records["key"] + name)


def timed(name, together):
    records = plan_of(name, n_regression=1, sizes=(7, 15), together=together).assign(dataset="sgemm")
    return records.assign(key=records["key"] + name)


def split(*plans):
    return split_records(pd.concat(plans, ignore_index=True))


def test_plans_of_one_name_are_ranked_together_and_others_are_not():
    parts = split(
        plan_of("paper-mlp"), grid(), timed("speed", False), plan_of("paper-resnet", backbones=["resnet"]),
        timed("speed-stacked", True), plan_of("paper", backbones=["ft"], tokens="feature"),
    )  # fmt: skip
    assert [(part.kind, part.plans) for part in parts] == [
        ("benchmark", ("paper", "paper-mlp", "paper-resnet")),
        ("times", ("speed", "speed-stacked")),
        ("grid", ("ablation",)),
    ]
    assert set(parts[0].frame["network"]) == {"mlp", "resnet", "ft feature"}
    assert set(parts[1].frame["network"]) == {"mlp (alone)", "mlp (stacked)"}
    assert set(parts[0].frame["dataset"]) == {"reg00", "reg01", "reg02"}


def test_a_network_of_two_plans_counts_once():
    (part,) = split(plan_of("paper-mlp"), plan_of("paper"))
    assert len(part.frame) == len(plan_of("paper"))


def test_plans_that_trained_the_same_network_differently_are_separate():
    parts = split(plan_of("paper", n_regression=4), plan_of("paper-rates", salt="faster"))
    assert [part.plans for part in parts] == [("paper",), ("paper-rates",)]


def test_a_plan_with_further_random_seeds_is_separate():
    """Although it has the most records: means of the first plan must not change when seeds are added."""
    main = plan_of("paper", sizes=(7, 15))
    first = main[main["size"].isna() | (main["size"] == 15)]
    later = [first.assign(key=first["key"] + str(n), seed=first["seed"] + n) for n in (5, 10)]
    seeds = pd.concat([first, *later]).assign(plan="paper-seeds")
    assert len(seeds) > len(main)
    parts = split(main, seeds)
    assert [part.plans for part in parts] == [("paper",), ("paper-seeds",)]
    assert len(parts[0].frame) == len(main)


def test_plans_that_the_main_one_cannot_take_do_not_join_each_other():
    """Seeds of one network do not become ranks of others, nor do variants of its training."""
    main = plan_of("paper", sizes=(7, 15))
    tokens = plan_of("paper-tokens", tokens="coordinate", salt="tokens", n_regression=2)
    first = main[main["size"].isna() | (main["size"] == 15)]
    later = first.assign(key=first["key"] + "5", seed=first["seed"] + 5)
    seeds = pd.concat([first, later]).assign(plan="paper-seeds")
    parts = split(main, tokens, seeds)
    assert [part.plans for part in parts] == [("paper",), ("paper-seeds",), ("paper-tokens",)]
    assert [part.n_seeds for part in parts] == [1, 2, 1]
    section = _extra_section(parts[1], "extra", set(parts[0].frame["key"]))
    assert section.title == "Which of 4 methods is best on reg00, reg01 and reg02 with mlp, with 2 random seeds?"
    assert "Each network was trained with 2 random seeds per fold" in str(section.content[1])


def test_variants_of_two_plans_are_separate():
    rates = [plan_of("end", salt=name, n_regression=4).assign(variant=name) for name in ("slow", "fast")]
    knots = plan_of("end-knots", salt="knots", methods=["BS-Grad-U"]).assign(variant="no penalty")
    other = plan_of("end-resnet", backbones=["resnet"]).assign(variant="slow")
    assert [part.plans for part in split(*rates, knots, other)] == [("end", "end-resnet"), ("end-knots",)]


def test_seeds_are_counted_by_kind_of_tokens():
    records = make_records(2, 0, backbones=["ft"], methods=["Std", "PLE"], sizes=(7,), n_folds=2)
    kinds = [records.assign(tokens=kind, seed=seed) for seed, kind in enumerate(("feature", "column"))]
    (part,) = split_records(pd.concat(kinds, ignore_index=True))
    assert part.n_seeds == 1
    assert describe_seeds(part.frame).startswith("Each network was trained with one random seed per fold")


def test_a_backbone_counts_once_for_a_data_set_whatever_its_tokens():
    parts = split(
        plan_of("paper-mlp"), plan_of("paper-ft", backbones=["ft"], tokens="feature"),
        plan_of("paper-ft-coordinate", backbones=["ft"], tokens="coordinate", n_regression=2),
    )  # fmt: skip
    assert [part.plans for part in parts] == [("paper-ft", "paper-mlp"), ("paper-ft-coordinate",)]


@pytest.mark.usefixtures("no_pdf")
def test_a_further_plan_names_its_networks_that_are_ranked_as_well(tmp_path):
    starts = plan_of("starts", methods=["Std", "PLE", "BS-U", "BS-Q"])
    records = pd.concat([plan_of("paper", n_regression=4), starts, plan_of("rates", salt="faster")])
    text = make_report(records, tmp_path / "report.html").read_text(encoding="utf-8")
    n_shared = 3 * 3 * 2  # data sets, methods that both have, folds
    assert f"24 networks. {n_shared} of them are part of the main ranks as well, {24 - n_shared} are not." in text
    assert "24 networks. They are not part of the main ranks." in text


def test_plans_with_different_methods_are_separate():
    parts = split(plan_of("paper", n_regression=4), plan_of("paper-starts", methods=["BS-U", "BS-Q"]))
    assert [part.plans for part in parts] == [("paper",), ("paper-starts",)]


def test_only_a_plan_that_trained_networks_alone_on_one_data_set_measures_times():
    assert [part.kind for part in split(timed("speed", False))] == ["times"]
    assert [part.kind for part in split(timed("speed", True))] == ["benchmark"]
    assert [part.kind for part in split(plan_of("speed", together=False))] == ["benchmark"], "three data sets"
    sizes = plan_of("speed", n_regression=1, sizes=(5, 10, 15, 20), together=False)
    assert [part.kind for part in split(sizes)] == ["grid"]


def test_records_without_plans_are_one_part():
    (part,) = split_records(make_records(2, 0, backbones=["mlp"], **SMALL))
    assert (part.kind, part.plans) == ("benchmark", ())
    assert split_records(grid().drop(columns=["plan", "key"]))[0].kind == "grid"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    records = pd.concat(
        [plan_of("paper-mlp", n_regression=4), grid(), timed("speed", False),
         timed("speed-stacked", True), plan_of("starts", methods=["BS-U", "BS-Q"])],
        ignore_index=True,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        leave_out_pdf(patch)
        return folder, make_report(records, folder / "report.html").read_text(encoding="utf-8"), records


def test_each_part_has_its_section(page):
    folder, text, records = page
    for head, plans in (
        ("Which size is best on ablation?", "Plan: ablation."),
        ("How long does an epoch take on sgemm?", 'Plans: speed, <i class="w">speed-stacked</i>.'),
        ("Which of 2 methods is best on reg00, reg01 and reg02 with mlp?", "Plan: starts."),
    ):
        assert f">{head}</h2>" in text
        assert plans in text
    assert "among 4 methods over 4 problems" in text, "the ablation and SGEMM are no problems of the benchmark"
    assert f"<dd>{records['key'].nunique():,}</dd>" in text, "a network of two plans counts once"
    for name in ("speed__speed-stacked_learned_to_fixed", "starts_average_ranks_regression"):
        assert (folder / "tables" / f"{name}.csv").exists()


def test_ratio_of_times_is_that_of_the_records_trained_alone(page):
    _, text, records = page
    alone = records[(records["plan"] == "speed")].groupby("method")["train_seconds"].sum()
    by_size = records[records["plan"] == "speed"].groupby(["method", "size"])["train_seconds"].sum()
    ratios = [by_size["BS-Grad-U", size] / by_size["BS-U", size] for size in (7.0, 15.0)]
    assert f"takes {min(ratios):.2f} to {max(ratios):.2f} times as long" in text
    stacked = records[records["plan"] == "speed-stacked"]["train_seconds"].sum()
    assert f"{alone.sum() / stacked:.1f} times that" in text


def test_a_heatmap_marks_rows_with_different_data_sets():
    even = split(plan_of("paper-mlp"), plan_of("paper-resnet", backbones=["resnet"]))
    uneven = split(plan_of("paper-mlp"), plan_of("paper-resnet", backbones=["resnet"], n_regression=2))
    assert "In brackets" not in heatmap_picture(even[0].summary, "regression").caption
    picture = heatmap_picture(uneven[0].summary, "regression")
    assert "In brackets" in picture.caption
    labels = {text.get_text() for axes in picture.figure.axes for text in axes.texts}
    labels |= {text.get_text() for text in picture.figure.texts}
    labels |= {label.get_text() for axes in picture.figure.axes for label in axes.get_yticklabels()}
    assert {"mlp (3)", "resnet (2)"} <= labels


@pytest.mark.usefixtures("no_pdf")
def test_only_an_ablation(tmp_path):
    text = make_report(grid(), tmp_path / "report.html").read_text(encoding="utf-8")
    assert "nothing is ranked" in text
    assert ">Which size is best on ablation?</h2>" in text
    assert 'id="score-table"' not in text


@pytest.mark.usefixtures("no_pdf")
def test_only_times(tmp_path):
    records = timed("speed", False).assign(train_seconds=np.nan, prepare_seconds=np.nan)
    text = make_report(records, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No times are recorded" in text
    assert "Scores by data set" in text
