"""Losses in one pass equal torch's, with their gradients; so does the cosine of the loops."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from knotwork._kernels.embedding import cosines
from knotwork._kernels.losses import log_loss, squared_loss


def make_batch(n_outputs):
    random = np.random.default_rng(0)
    outputs = random.normal(size=(2, 30, n_outputs)).astype(np.float32) * 5.0
    shares = random.uniform(0.0, 2.0, size=(2, 30)).astype(np.float32)
    shares[1, 20:] = 0.0
    return outputs, shares, np.array([30, 20])


def expected(loss, outputs, shares, counts):
    given = torch.from_numpy(outputs).double().requires_grad_()
    by_row = loss(given) * torch.from_numpy(shares)
    slopes = torch.autograd.grad((by_row.sum(dim=1) / torch.from_numpy(counts)).sum(), given)[0]
    return by_row.sum(dim=1).detach().numpy(), slopes.numpy()


def run(loop, outputs, goals, shares, counts, smoothing):
    totals, slopes = np.zeros(2), np.zeros_like(outputs)
    loop(outputs, goals, shares, counts, smoothing, totals, slopes)
    return totals, slopes


def test_squared_errors():
    outputs, shares, counts = make_batch(1)
    goals = np.random.default_rng(1).normal(size=shares.shape).astype(np.float32)
    got = run(squared_loss, outputs, goals, shares, counts, 0.0)
    wanted = expected(lambda given: (given[..., 0] - torch.from_numpy(goals)).square(), outputs, shares, counts)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("n_classes", [2, 7])
def test_cross_entropies(n_classes, smoothing):
    outputs, shares, counts = make_batch(n_classes)
    outputs[0, 0] = 500.0 * np.arange(n_classes)  # its exponential would overflow
    codes = np.random.default_rng(1).integers(0, n_classes, size=shares.shape)

    def loss(given):
        settings = {"reduction": "none", "label_smoothing": smoothing}
        return functional.cross_entropy(given.flatten(0, 1), torch.from_numpy(codes).flatten(), **settings).view(2, 30)

    got = run(log_loss, outputs, codes.astype(np.float32), shares, counts, smoothing)
    for one, other in zip(got, expected(loss, outputs, shares, counts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_cosines():
    turns = np.concatenate([np.linspace(-3.0, 3.0, 10_001), [0.0, 0.25, 0.5, 1e4 + 0.125]]).astype(np.float32)
    out = np.empty_like(turns)
    cosines(turns, out)
    np.testing.assert_allclose(out, np.cos(2.0 * np.pi * turns.astype(np.float64)), atol=3e-7)
