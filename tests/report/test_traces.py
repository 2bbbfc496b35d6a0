"""Learning curves, paths of knots and fitted curves: figures agree with the traces."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from knotwork.datasets import load_dataset
from knotwork.report import make_report, report_folder
from knotwork.report._aggregate import read_records
from knotwork.report._traces import (
    Traces,
    describe_knots,
    fit_picture,
    knot_pictures,
    learning_picture,
    noiseless_scores,
    scatter_picture,
)
from knotwork.study import Plan, run
from tests.report.cases import make_records

NOTHING = {
    "histories": pd.DataFrame({"key": [], "epoch": [], "loss": [], "score": [], "rate": []}),
    "knots": pd.DataFrame({"key": [], "epoch": [], "feature": [], "knot": [], "position": []}),
    "curves": pd.DataFrame({"key": [], "x": [], "value": []}),
}


def keyed(records, plan="plan"):
    return records.assign(key=[f"{plan}-{i}" for i in range(len(records))], plan=plan)


def benchmark():
    return keyed(make_records(2, 0, backbones=["mlp"], methods=["Std", "PLE"], sizes=(7,), n_folds=2))


def histories(records):
    scores = {"Std": [3.0, 1.0, 2.0], "PLE": [4.0, 3.0]}
    rows = [
        {"key": row["key"], "epoch": epoch, "loss": 2 * score, "score": score, "rate": 0.1}
        for row in records.to_dict("records")
        for epoch, score in enumerate(scores[row["method"]])
    ]
    return pd.DataFrame(rows)


def test_learning_curves_are_those_of_one_fold():
    records = benchmark()
    picture = learning_picture(read_records(records), histories(records), "regression")
    lines = picture.figure.axes[1].lines
    assert [line.get_ydata().tolist() for line in lines if not line.get_gid().startswith("best")] == [[3, 1, 2], [4, 3]]
    assert [line.get_xydata()[0].tolist() for line in lines if line.get_gid().startswith("best")] == [[2, 1], [2, 3]]
    assert picture.label.endswith("Best epoch of those trained: Std 2 of 3, PLE 2 of 2.")
    assert learning_picture(read_records(records), NOTHING["histories"], "regression") is None


def moving():
    """Return records of two variants, and knots of which the second moves by 0.3 or 0.1 after two still epochs."""
    records = keyed(make_records(1, 0, backbones=["mlp"], methods=["BS-Grad-U"], sizes=(7,), n_folds=2), "knots")
    records = records.assign(fold=0, variant=["1e-5", "1e-4"])
    rows = [
        {"key": key, "epoch": epoch, "feature": feature, "knot": knot, "position": 0.25 * (knot + 1) + moved}
        for key, far in zip(records["key"], (0.1, 0.3), strict=True)
        for epoch, moved_now in enumerate([0.0, 0.0, 0.0, far])
        for feature in ("x0", "x1")
        for knot, moved in enumerate([0.0, moved_now])
    ]
    return records, pd.DataFrame(rows)


def test_paths_of_knots():
    records, knots = moving()
    frame = read_records(records)
    (picture,) = knot_pictures(frame, knots)
    panels = picture.figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["variant 1e-5", "variant 1e-4"]
    paths = {line.get_gid(): line.get_ydata() for line in panels[1].lines}
    np.testing.assert_allclose(paths["knot-1-1"], [0.0, 0.0, 0.0, 0.3])
    np.testing.assert_allclose(paths["knot-1-0"], [0.0] * 4)
    turned = read_records(records.assign(variant=["2e-4", "1e-5"]))
    assert [axes.get_title(loc="left") for axes in knot_pictures(turned, knots)[0].figure.axes] == [
        "variant 1e-5",
        "variant 2e-4",
    ]
    known = knot_pictures(read_records(records.assign(plan="knot-relocation")), knots)[0]
    assert [axes.get_title(loc="left") for axes in known.figure.axes] == [
        "learning rate of knots 1e-5",
        "learning rate of knots 1e-4",
    ]
    assert describe_knots(frame, knots) == [
        "BS-Grad-U: at the end of training, the largest distance of a knot from its start is 0.100 (variant 1e-5), "
        "0.300 (1e-4)."
    ]


@pytest.mark.usefixtures("no_pdf")
def test_traced_plans_are_not_ranked(tmp_path):
    records, knots = moving()
    both = pd.concat([benchmark(), records], ignore_index=True)
    traces = Traces(**(NOTHING | {"knots": knots}))
    text = make_report(both, tmp_path / "report.html", traces=traces).read_text(encoding="utf-8")
    assert ">How far do learned knots move?</h2>" in text
    assert 'id="figure-knots_BS-Grad-U"' in text
    assert "among 2 methods over 2 problems" in text


def test_scatter_only_of_the_data_that_was_used():
    records = make_records(1, 0, backbones=["mlp"], methods=["Std"], n_folds=1).assign(dataset="ablation")
    assert scatter_picture(read_records(records)) is None
    sha = load_dataset("ablation").sha256
    assert scatter_picture(read_records(records.assign(data_sha256=sha))).name == "data_ablation"


def test_a_study_with_all_traces(tmp_path):
    fits = Plan(
        name="illustration", datasets=["illustration_regression", "illustration_classification"], folds=1, sizes=[10],
        methods=["PLE", "BS-U"], backbones=["linear"], bins="uniform", split="holdout",
    )  # fmt: skip
    knots = Plan(
        name="moving", datasets=["sk_diabetes"], methods=["BS-Grad-U"], sizes=[6], folds=1, split="holdout",
        keep_knots=True,
        backbones=[{"name": "mlp", "widths": [8]}], training={"max_epochs": 3, "knot_warmup": 0},
    )  # fmt: skip
    for plan in (fits, knots):
        run(plan, tmp_path, device="cpu")
    text = report_folder(tmp_path, tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="figure-fits"' in text
    assert 'id="figure-knots_BS-Grad-U"' in text
    for name in ("fits", "fits_dark", "knots_BS-Grad-U"):
        assert (tmp_path / "figures" / f"{name}.pdf").exists()


@pytest.mark.parametrize("dataset", ["illustration_regression", "illustration_classification"])
def test_fits_are_drawn_with_the_truth(dataset):
    grid = np.linspace(0, 1, 5)
    task = dataset.removeprefix("illustration_")
    records = keyed(make_records(task == "regression", task != "regression", backbones=["linear"], methods=["PLE"],
                                 sizes=(10,), n_folds=1)).assign(dataset=dataset)  # fmt: skip
    curves = pd.DataFrame({"key": records["key"].iloc[0], "x": grid, "value": grid**2})
    figure = fit_picture(read_records(records), curves).figure
    (fit,) = [line for line in figure.axes[0].lines if line.get_gid() == "fit"]
    np.testing.assert_array_equal(fit.get_ydata(), grid**2)
    truth = next(line for line in figure.axes[0].lines if line.get_label() == "truth")
    at_zero = {"regression": 0.5, "classification": 0.04}[task]
    assert truth.get_ydata()[0] == pytest.approx(at_zero, abs=1e-3)
    note = figure.axes[0].get_title(loc="left")
    true, value = truth.get_ydata(), grid**2
    if task == "regression":
        assert note.endswith(f"NRMSE {np.sqrt(np.mean((value - true) ** 2)) / np.std(true):.4f}")
    else:
        assert "AUC" in note
        assert note.endswith(f"Brier score {np.mean(true * (1 - value) ** 2 + (1 - true) * value**2):.4f}")


def test_scores_of_classes_are_expectations_over_drawn_classes():
    rng = np.random.default_rng(0)
    truth, fit = rng.uniform(size=50), rng.uniform(size=50)
    drawn = (rng.uniform(size=(4000, 50)) < truth).astype(int).ravel()
    scores = noiseless_scores("classification", truth, fit)
    assert scores["AUC"] == pytest.approx(roc_auc_score(drawn, np.tile(fit, 4000)), abs=2e-3)
    assert scores["Brier score"] == pytest.approx(brier_score_loss(drawn, np.tile(fit, 4000)), abs=2e-3)
