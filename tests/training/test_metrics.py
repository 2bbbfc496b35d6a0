"""Metrics of a stack, member by member, against scikit-learn."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn import metrics as sk

from knotwork.training import _metrics as metrics
from knotwork.training._metrics import METRICS, evaluate

REGRESSION = {
    "rmse": sk.root_mean_squared_error,
    "mae": sk.mean_absolute_error,
    "r2": sk.r2_score,
}
ROWS = (60, 37, 5, 60)  # of each member; what lies beyond is padding
M, N = len(ROWS), max(ROWS)
GPU = torch.cuda.is_available()


def stack(task, n_classes=2, *, seed=0, weighted=True, digits=None):
    """Return outputs, targets and weights, with NaN outputs and codes of -1 in padding."""
    random = np.random.default_rng(seed)
    outputs = random.normal(size=(M, N, 1 if task == "regression" else n_classes), scale=2.0)
    if digits is not None:
        outputs = outputs.round(digits)
    if task == "regression":
        targets = outputs[..., 0] + random.normal(size=(M, N))
    else:
        targets = random.integers(n_classes, size=(M, N))
        targets[:, :n_classes] = np.arange(n_classes)[: min(n_classes, N)]  # every class is there
    weights = random.uniform(0.1, 3.0, size=(M, N)) if weighted else np.ones((M, N))
    for member, rows in enumerate(ROWS):
        weights[member, rows:] = 0.0
        outputs[member, rows:] = np.nan
        targets[member, rows:] = np.nan if task == "regression" else -1
    return torch.from_numpy(outputs), torch.from_numpy(targets), torch.from_numpy(weights)


def members(outputs, targets, weights):
    """Yield each member's rows without padding, as float64 arrays."""
    for member, rows in enumerate(ROWS):
        yield (
            outputs[member, :rows].double().numpy(),
            targets[member, :rows].numpy(),
            weights[member, :rows].double().numpy(),
        )


def expected_class_metric(name, logits, y, w):
    p = softmax(logits, axis=-1)
    n_classes = p.shape[-1]
    if name == "accuracy":
        return sk.accuracy_score(y, logits.argmax(-1), sample_weight=w)
    if name == "log_loss":
        return sk.log_loss(y, p, sample_weight=w, labels=range(n_classes))
    if name == "brier":
        if n_classes == 2:
            return sk.brier_score_loss(y, p[:, 1], sample_weight=w)
        return np.average(((p - np.eye(n_classes)[y]) ** 2).sum(-1), weights=w)
    if n_classes == 2:
        return sk.roc_auc_score(y, logits[:, 1] - logits[:, 0], sample_weight=w)
    return sk.roc_auc_score(y, p, sample_weight=w, multi_class="ovr", average="weighted")


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", REGRESSION)
def test_regression_is_scikit_learns(name, weighted):
    data = stack("regression", weighted=weighted)
    scores = METRICS[name].function(*data)
    assert scores.shape == (M,)
    assert scores.dtype == torch.float64
    expected = [REGRESSION[name](y, f[:, 0], sample_weight=w) for f, y, w in members(*data)]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("name", ["log_loss", "accuracy", "brier", "auc"])
def test_classification_is_scikit_learns(name, n_classes, weighted):
    data = stack("classification", n_classes, weighted=weighted)
    scores = METRICS[name].function(*data)
    assert scores.shape == (M,)
    assert scores.dtype == torch.float64
    expected = [expected_class_metric(name, *rows) for rows in members(*data)]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_the_multiclass_brier_score_is_scikit_learns():
    data = stack("classification", 4)
    try:
        expected = [
            sk.brier_score_loss(y, softmax(f, axis=-1), sample_weight=w, labels=range(4))
            for f, y, w in members(*data)
        ]  # fmt: skip
    except (TypeError, ValueError):
        pytest.skip("this scikit-learn has no multiclass Brier score (needs 1.7)")
    np.testing.assert_allclose(metrics.brier(*data), expected, rtol=1e-12)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_ties_are_exact(n_classes, weighted):
    outputs, targets, weights = stack("classification", n_classes, digits=0, weighted=weighted)
    scores = metrics.auc(outputs, targets, weights)
    for member, (f, y, w) in enumerate(members(outputs, targets, weights)):
        if n_classes == 2:
            score = f[:, 1] - f[:, 0]
            assert len(np.unique(score)) < len(score)
            expected = sk.roc_auc_score(y, score, sample_weight=w)
        else:  # scikit-learn counts as ties what is equal to the last bit, so it gets the same bits
            score = torch.softmax(torch.from_numpy(f), -1).numpy()
            expected = sk.roc_auc_score(y, score, sample_weight=w, multi_class="ovr", average="weighted")
        assert scores[member].item() == pytest.approx(expected, rel=1e-12)


def test_equal_scores_give_one_half():
    outputs = torch.zeros(2, 7, 2)
    targets = torch.tensor([[0, 1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0, 0]])
    assert metrics.auc(outputs, targets).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("task", "n_classes"), [("regression", 1), ("classification", 2), ("classification", 3)])
def test_narrow_outputs_lose_nothing_further(task, n_classes, dtype):
    outputs, targets, weights = stack(task, n_classes)
    outputs = outputs.to(dtype)
    if task == "regression":
        targets = targets.float()
    for name, scores in evaluate(task, outputs, targets, weights.float()).items():
        for member, (f, y, w) in enumerate(members(outputs, targets, weights.float())):
            if task == "regression":
                expected = REGRESSION[name](y.astype(np.float64), f[:, 0], sample_weight=w)
            elif name == "auc" and n_classes > 2:
                p = torch.softmax(torch.from_numpy(f), -1).numpy()
                expected = sk.roc_auc_score(y, p, sample_weight=w, multi_class="ovr", average="weighted")
            else:
                expected = expected_class_metric(name, f, y, w)
            assert scores[member].item() == pytest.approx(expected, rel=1e-10), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_extreme_logits(dtype):
    # Row by row: right by 2e4, wrong by 2e4, undecided.
    outputs = torch.tensor([[[-1e4, 1e4], [1e4, -1e4], [1e4, 1e4]]]).to(dtype)
    targets = torch.tensor([[1, 1, 0]])
    gap = 2.0 * float(torch.tensor(1e4).to(dtype))
    scores = {name: value.item() for name, value in evaluate("classification", outputs, targets).items()}
    assert scores["log_loss"] == pytest.approx((0.0 + gap + np.log(2.0)) / 3, rel=1e-12)
    assert scores["brier"] == pytest.approx((0.0 + 1.0 + 0.25) / 3, rel=1e-12)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["auc"] == pytest.approx(0.5)


def test_large_logits_are_still_told_apart_by_their_difference():
    outputs = torch.tensor([[[0.0, 1e4], [0.0, 1e4 + 1], [0.0, 1e4 + 2]]])
    assert metrics.auc(outputs, torch.tensor([[0, 1, 1]])).item() == 1.0


def test_extreme_multiclass_logits_are_finite():
    outputs = torch.full((1, 3, 3), -1e4)
    outputs[0, [0, 1, 2], [0, 1, 0]] = 1e4
    scores = evaluate("classification", outputs, torch.tensor([[0, 1, 2]]))
    assert scores["log_loss"].item() == pytest.approx(2e4 / 3)
    assert scores["brier"].item() == pytest.approx(2 / 3)
    # Class 0: one tie out of two pairs, 3/4; class 1: 1; class 2: two ties out of two, 1/2.
    assert scores["auc"].item() == pytest.approx((0.75 + 1.0 + 0.5) / 3)


def test_a_single_class_has_no_area():
    outputs, targets, weights = stack("classification", 2)
    targets[1] = torch.where(targets[1] >= 0, 1, -1)
    weights[3] = torch.where(targets[3] == 1, 0.0, weights[3])  # only padding has the other class
    assert metrics.auc(outputs, targets, weights).isnan().tolist() == [False, True, False, True]
    rest = torch.stack(
        [METRICS[name].function(outputs, targets, weights) for name in ("log_loss", "accuracy", "brier")]
    )
    assert rest.isfinite().all()


def test_absent_classes_are_left_out():
    outputs, targets, weights = stack("classification", 4)
    targets = torch.where(targets == 2, 1, targets)
    scores = metrics.auc(outputs, targets, weights)
    for member, (f, y, w) in enumerate(members(outputs, targets, weights)):
        p = softmax(f, axis=-1)
        areas = [sk.roc_auc_score(y == k, p[:, k], sample_weight=w) for k in (0, 1, 3)]
        shares = [w[y == k].sum() for k in (0, 1, 3)]
        assert scores[member].item() == pytest.approx(np.average(areas, weights=shares), rel=1e-12)
    alone = torch.where(targets >= 0, 3, -1)
    assert metrics.auc(outputs, alone, weights).isnan().all()


@pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")
@pytest.mark.parametrize("value", [0.0, 0.5, 1e6])
def test_r2_of_constant_targets(value):
    targets = torch.full((3, 7), value, dtype=torch.float64)
    outputs = targets.clone()[..., None]
    outputs[1, 0] += 1.0
    weights = torch.ones(3, 7, dtype=torch.float64)
    weights[2, 1:] = 0.0
    arrays = zip(outputs.numpy()[..., 0], targets.numpy(), weights.numpy(), strict=True)
    expected = [sk.r2_score(y[w > 0], f[w > 0]) for f, y, w in arrays]
    np.testing.assert_array_equal(metrics.r2(outputs, targets, weights), expected)
    np.testing.assert_array_equal(expected, [1.0, 0.0, np.nan])


def test_r2_of_constant_targets_is_not_left_to_rounding():
    weights = torch.from_numpy(np.random.default_rng(0).uniform(size=(50, 9)))
    targets = torch.full((50, 9), 0.1, dtype=torch.float64)
    assert (metrics.r2(targets[..., None] + 1.0, targets, weights) == 0.0).all()


@pytest.mark.parametrize(("task", "n_classes"), [("regression", 1), ("classification", 2), ("classification", 3)])
def test_a_member_without_rows_has_nan(task, n_classes):
    outputs, targets, weights = stack(task, n_classes)
    weights[1] = 0.0
    for name, scores in evaluate(task, outputs, targets, weights).items():
        assert scores.isnan().tolist() == [False, True, False, False], name


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_network_that_diverged_is_not_scored(n_classes, bad):
    outputs, targets, weights = stack("classification", n_classes)
    outputs[2, 0, 0] = bad
    for name, scores in evaluate("classification", outputs, targets, weights).items():
        assert scores.isnan().tolist() == [False, False, True, False], name


def test_regression_shows_what_is_not_finite():
    outputs, targets, weights = stack("regression")
    outputs[0, 0], outputs[1, 0] = np.nan, np.inf
    targets[0, : ROWS[0]] = 2.0  # a constant target does not hide NaN
    scores = evaluate("regression", outputs, targets, weights)
    assert all(value[0].isnan() for value in scores.values())
    assert scores["rmse"][1] == scores["mae"][1] == torch.inf
    assert scores["r2"][1] == -torch.inf


def test_members_taken_in_parts_are_the_same(monkeypatch):
    data = stack("classification", 3)
    whole = evaluate("classification", *data)
    monkeypatch.setattr(metrics, "LOGITS_AT_ONCE", 1)
    parts = evaluate("classification", *data)
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_no_weights_are_ones_and_gradients_are_not_kept(task):
    outputs, targets, _ = stack(task, 3)
    outputs, targets = outputs[:, : min(ROWS)].requires_grad_(), targets[:, : min(ROWS)]
    for name, scores in evaluate(task, outputs, targets).items():
        assert not scores.requires_grad
        assert torch.equal(scores, METRICS[name].function(outputs, targets, torch.ones(M, min(ROWS))))


@pytest.mark.parametrize(("task", "n_classes"), [("regression", 1), ("classification", 2), ("classification", 3)])
def test_shapes_never_depend_on_values(task, n_classes):
    # A tensor on the meta device has no values: reading one, or a shape that depends on one, is an error there.
    outputs, targets, weights = (each.to("meta") for each in stack(task, n_classes))
    for scores in evaluate(task, outputs, targets, weights).values():
        assert scores.shape == (M,)


@pytest.mark.skipif(not GPU, reason="no GPU: that metrics can be captured in a CUDA graph is NOT tested here")
@pytest.mark.parametrize(("task", "n_classes"), [("regression", 1), ("classification", 2), ("classification", 3)])
def test_metrics_in_a_cuda_graph(task, n_classes):
    first, second = stack(task, n_classes), stack(task, n_classes, seed=1)
    inputs = [each.cuda() for each in first]
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        evaluate(task, *inputs)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = evaluate(task, *inputs)
    for held, new in zip(inputs, second, strict=True):
        held.copy_(new)
    graph.replay()
    for name, expected in evaluate(task, *second).items():
        torch.testing.assert_close(captured[name].cpu(), expected, rtol=1e-10, atol=0.0)


def test_the_table():
    assert {name for name, metric in METRICS.items() if metric.task == "regression"} == set(REGRESSION)
    assert {name for name, metric in METRICS.items() if not metric.lower_is_better} == {"r2", "accuracy", "auc"}
    assert all(name == metric.name for name, metric in METRICS.items())
    with pytest.raises(dataclasses.FrozenInstanceError):
        METRICS["auc"].name = "area"


@pytest.mark.parametrize("name", METRICS)
def test_better_predictions_score_better(name):
    metric = METRICS[name]
    outputs, targets, weights = stack(metric.task, 3, weighted=False)
    weights = torch.where(torch.arange(N) < ROWS[2], weights, 0.0)
    if metric.task == "regression":
        perfect = targets[..., None]
    else:
        perfect = 9.0 * torch.nn.functional.one_hot(targets.clamp(min=0), 3)
    better, worse = metric.function(perfect, targets, weights), metric.function(outputs, targets, weights)
    assert ((better < worse) if metric.lower_is_better else (better > worse)).all()


def test_wrong_arguments():
    outputs, targets, weights = stack("classification", 3)
    with pytest.raises(ValueError, match="task must be one of 'regression', 'classification', got task='ranking'"):
        evaluate("ranking", outputs, targets, weights)
    with pytest.raises(ValueError, match=r"outputs must have shape \(M, N, d_out\)"):
        metrics.auc(outputs[0], targets, weights)
    with pytest.raises(ValueError, match=r"outputs must have shape \(M, N, 1\)"):
        metrics.rmse(outputs, targets, weights)
    with pytest.raises(ValueError, match="outputs must have a logit for each of two classes"):
        metrics.auc(outputs[..., :1], targets, weights)
    with pytest.raises(ValueError, match=r"targets must have shape \(4, 60\), as outputs do, got targets=\(4, 9\)"):
        metrics.log_loss(outputs, targets[:, :9], weights)
    with pytest.raises(ValueError, match=r"weights must have shape \(4, 60\)"):
        metrics.log_loss(outputs, targets, weights[:2])
    with pytest.raises(TypeError, match=r"targets must hold integer class codes, .*targets\.long\(\)"):
        metrics.auc(outputs, targets.double(), weights)
