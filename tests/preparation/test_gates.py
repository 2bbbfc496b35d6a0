"""Gates choose the encodings of planted curves, by a penalty with the gradient of its definition."""

import numpy as np
import pytest
import torch

import knotwork as kw
from knotwork._preparation.gates import choose_by_gates
from knotwork.encoders._choice import read_candidates
from knotwork.errors import ArgumentError
from knotwork.nn._gates import column_moments, gate_gradient, gate_penalty, gate_sizes
from knotwork.training._members import TrainingTable

NAMES = ["step", "sine", "line", "noise"]


def planted(n=3000, seed=0):
    """A step, a wave, a line and noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1.0, 1.0, size=(n, 4))
    curves = 2.0 * (X[:, 0] > 0.3), 0.8 * np.sin(6.0 * X[:, 1]), X[:, 2]
    return X, sum(curves) + 0.3 * random.normal(size=n)


def make_table(X, y, codes=None, **settings):
    codes = np.zeros((len(X), 0), dtype=np.int64) if codes is None else codes
    return TrainingTable(X, codes, y, "regression", **settings)


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_planted_curves_get_their_families(seed):
    X, y = planted(seed=seed)
    X[::7, 1] = np.nan
    choices = choose_by_gates(make_table(X, y), np.arange(len(X)), names=NAMES, seed=seed, device="cpu")
    chosen = {choice.column: choice.encoding for choice in choices}
    assert chosen["step"].startswith(("PLE", "IS"))
    assert chosen["sine"].startswith("BS")
    assert chosen["line"] == chosen["noise"] == "Std"
    for choice in choices:
        assert sum(choice.shares.values()) == pytest.approx(1.0)
    assert "% of the column's, that of" in choices[0].reason
    assert choices[3].reason.startswith("It hardly matters: its gates are")


def test_few_rows_and_single_candidates_have_no_gates():
    X, y = planted(30)
    table = make_table(X, y)
    few = choose_by_gates(table, np.arange(30), names=NAMES, device="cpu")
    assert {choice.reason for choice in few} == {"30 rows are too few to compare others."}
    [only] = read_candidates(["PLE@8"])
    choices = choose_by_gates(table, np.arange(30), names=NAMES, candidates=[only], device="cpu")
    assert [choice.encoding for choice in choices] == ["PLE@8"] * 4
    assert choose_by_gates(make_table(X[:, :0], y), np.arange(30), names=[], device="cpu") == []


def test_constant_and_empty_columns_are_harmless():
    X, y = planted(200)
    X[:, 0], X[:, 1] = 3.0, np.nan
    weights = np.linspace(0.5, 1.5, 200)
    codes = np.random.default_rng(0).integers(1, 3, size=(200, 1))
    table = make_table(X, y, codes, cardinalities=(3,), weights=weights)
    choices = choose_by_gates(table, np.arange(200), names=NAMES, device="cpu")
    assert [choice.encoding for choice in choices[:2]] == ["Std", "Std"]


def test_the_gradient_equals_autograd_of_the_definition():
    torch.manual_seed(0)
    blocks, strengths = torch.rand(2, 50, 3, 4), torch.rand(2, 3)
    moments, weights = column_moments(blocks), torch.randn(2, 3, 4, 5, requires_grad=True)
    (expected,) = torch.autograd.grad(gate_penalty(weights, moments, strengths).sum(), weights)
    torch.testing.assert_close(gate_gradient(weights.detach(), moments, strengths), expected, rtol=1e-4, atol=1e-6)
    assert not gate_gradient(torch.zeros(2, 3, 4, 5), moments, strengths).any()
    hidden = torch.einsum("mrfs,mfsh->mfrh", blocks, weights)
    spread = hidden.var(dim=2, correction=0).mean(dim=-1).sqrt()
    torch.testing.assert_close(gate_sizes(weights, moments), spread, rtol=1e-4, atol=1e-5)


def test_estimators_choose_by_gates():
    X, y = planted(400)
    short = {"training": kw.TrainingConfig(max_epochs=2), "device": "cpu", "random_state": 0}
    model = kw.TabularRegressor("per-feature-gated", size=8, **short).fit(X, y)
    assert [*model.encoding_[0].values()] == [choice["encoding"] for choice in model.encoding_choices_]
    assert {*model.encoding_choices_[0]["shares"]} == {"BS-Q@8", "Std", "PLE@8", "IS-Q@8"}
    again = kw.TabularRegressor("per-feature-gated", size=8, **short).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    classes = kw.TabularClassifier("per-feature-gated", time_limit=5.0, **short).fit(X, y > y.mean())
    assert len(classes.encoding_choices_) == 4
    with pytest.raises(ArgumentError, match="name a method for each column"):
        kw.TabularRegressor({0: "per-feature-gated"}, **short).fit(X, y)
