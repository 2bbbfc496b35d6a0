"""Whole steps on the Triton path: autograd around the kernels and, on a GPU, replay from a CUDA graph.

`test_triton` runs this file. Where there is no GPU, the operations are told that
there is one, and the kernels run in the interpreter.
"""

import pytest
import torch

from knotwork._kernels import dispatch
from knotwork._kernels.adamw import AdamW
from knotwork._kernels.batch_norm import batch_norm
from knotwork._kernels.dropout import Noise, bias_act_dropout, dropout, row_order
from tests.kernels.cases import DEVICE, GPU

MEMBERS, ROWS, WIDTH = 2, 24, 10


class Case:
    """A small network with every operation, its optimiser, and data."""

    def __init__(self, device, dtype):
        torch.manual_seed(0)
        self.weights = [(torch.randn(MEMBERS, WIDTH, WIDTH) / 3).to(device, dtype).requires_grad_() for _ in range(2)]
        self.scales = [torch.rand(MEMBERS, WIDTH).to(device, dtype).requires_grad_() for _ in range(5)]
        self.buffers = [(torch.zeros(MEMBERS, WIDTH) + shift).to(device, dtype) for shift in (0, 1, 0, 1)]
        self.noise = Noise(torch.tensor([3, 2**31 - 1], device=device), torch.tensor([0, 9], device=device))
        self.counts = torch.tensor([ROWS, 11], device=device)
        self.table = torch.randn(MEMBERS, 50, WIDTH).to(device, dtype)
        self.rates = torch.tensor([[1e-2, 1e-3], [0.0, 1e-2]], device=device)
        self.active = torch.ones(MEMBERS, dtype=torch.bool, device=device)
        self.parameters = [*self.weights, *self.scales]
        self.optimiser = AdamW(self.parameters, decays=[0.1] * 7, groups=[0, 0, 0, 0, 1, 1, 0])

    def step(self):
        """Take one step, without a word to the host, and return the loss of each member."""
        order = row_order(self.noise.seeds, self.noise.step, torch.full_like(self.counts, 50), 50)[:, :ROWS]
        x = self.table.gather(1, order[..., None].expand(-1, -1, WIDTH))
        hidden = x @ self.weights[0]
        options = {"noise": self.noise, "p": 0.25}
        hidden = batch_norm(hidden, *self.scales[:2], *self.buffers[:2], self.counts, relu=True, stream=0, **options)
        hidden = bias_act_dropout(hidden @ self.weights[1], self.scales[4], 0.25, self.noise, 1)
        hidden = bias_act_dropout(hidden, self.scales[1], 0.25, self.noise, 4, activation="mish", scale=0.5)
        hidden = dropout(hidden, 0.25, self.noise, 2)
        y = batch_norm(hidden, *self.scales[2:4], *self.buffers[2:], self.counts, residual=x, stream=3, **options)
        used = (torch.arange(ROWS, device=y.device) < self.counts[:, None])[..., None]
        losses = torch.where(used, y, 0.0).square().sum(dim=(1, 2)) / self.counts
        grads = torch.autograd.grad(losses.sum(), self.parameters)
        self.optimiser.step(grads, self.rates, self.active)
        self.noise.step.add_(1)
        return losses.detach()

    def numbers(self):
        return [tensor.detach().cpu().double() for tensor in (*self.parameters, *self.buffers, self.optimiser.steps)]


def assert_close(got, expected):
    for pair in zip(got, expected, strict=True):
        torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-4)


def test_steps_are_those_of_float64_on_the_cpu(monkeypatch):
    exact = Case("cpu", torch.float64)
    losses = [exact.step() for _ in range(3)]
    case = Case(DEVICE, torch.float32)
    if not GPU:
        monkeypatch.setattr(dispatch, "on_triton", lambda tensor: True)
    for expected in losses:
        assert_close([case.step().cpu().double()], [expected])
    assert_close(case.numbers(), exact.numbers())


@pytest.mark.skipif(not GPU, reason="a CUDA graph needs a GPU")
def test_steps_replay_from_a_graph():
    eager, captured = (Case("cuda", torch.float32) for _ in range(2))
    losses = [eager.step() for _ in range(6)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            captured.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = captured.step()
    for expected in losses[3:]:
        graph.replay()
        assert_close([loss], [expected])
    assert_close(captured.numbers(), eager.numbers())
