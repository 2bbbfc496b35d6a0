"""An operation takes the path of its device and type, and is its formula everywhere else."""

import pytest
import torch

from knotwork._kernels import dispatch
from knotwork._kernels.batch_norm import batch_norm
from knotwork._kernels.dispatch import Operation, Path
from knotwork._kernels.dropout import Noise, bias_act_dropout, dropout
from tests.kernels.cases import GPU


def scaled_sum(x, y, *, factor):
    return factor * (x + (0.0 if y is None else y)), factor * x


def make_operation(**options):
    """An operation whose compiled path leaves its calls in a list."""
    calls = []

    def forward(x, y, *, factor):
        calls.append("forward")
        return scaled_sum(x, y, factor=factor), (x,)

    def backward(grads, kept, needed, *, factor):
        calls.append(tuple(grad is not None for grad in grads))
        assert len(kept) == 1
        slope = sum(factor * grad for grad in grads if grad is not None)
        return slope if needed[0] else None, factor * grads[0] if needed[1] and grads[0] is not None else None

    return Operation(scaled_sum, cpu=Path(forward, backward), **options), calls


@pytest.mark.parametrize(
    ("x", "y", "compiled"),
    [
        (torch.ones(2), torch.ones(2), True),
        (torch.ones(2), None, True),
        (torch.ones(2), torch.ones(2, dtype=torch.int64), True),
        (torch.ones(2).double(), None, False),
        (torch.ones(2), torch.ones(2).double(), False),
        (torch.ones(0), None, False),
        (torch.ones(2, device="meta"), None, False),
    ],
)
def test_type_and_device_decide(x, y, compiled):
    operation, calls = make_operation()
    assert operation(x, y, factor=2.0)[0].shape == x.shape
    assert bool(calls) == compiled


@pytest.mark.parametrize(("leading", "compiled"), [(0, True), (1, False)])
def test_the_leading_tensor_decides(leading, compiled):
    operation, calls = make_operation(leading=leading)
    operation(torch.ones(1), torch.ones(0), factor=2.0)  # the second is empty
    assert bool(calls) == compiled


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_gradients_are_those_of_the_formula(used):
    operation, calls = make_operation()
    leaves = [torch.randn(3, requires_grad=True) for _ in range(2)]
    grads = [torch.randn(3) for _ in used]
    pair = []
    for path in (operation, scaled_sum):
        results = path(*leaves, factor=3.0)
        chosen = [results[i] for i in used]
        pair.append(torch.autograd.grad(chosen, leaves, grads, allow_unused=True, materialize_grads=True))
    for got, expected in zip(*pair, strict=True):
        torch.testing.assert_close(got, expected)
    assert calls == ["forward", tuple(i in used for i in range(2))]


@pytest.mark.parametrize("apart", [False, True])
def test_results_go_backward_one_after_the_other_where_they_may(apart):
    operation, _ = make_operation(apart=apart)
    x = torch.ones(3, requires_grad=True)
    first, second = operation(x, None, factor=2.0)
    second.sum().backward()
    if apart:
        first.sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 4.0))
    else:
        with pytest.raises(RuntimeError, match="second time"):
            first.sum().backward()


def test_gradients_of_gradients_are_refused():
    operation, _ = make_operation()
    x = torch.ones(3, requires_grad=True)
    (grad,) = torch.autograd.grad(operation(x, None, factor=2.0)[0].square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own, while it traces
def test_the_compiler_sees_the_formula():
    noise = Noise(torch.tensor([1, 2]), torch.tensor([0, 3]))
    x, bias, weight = torch.randn(2, 5, 4), torch.randn(2, 4), torch.rand(2, 4)

    def run(x, running_mean, running_var):
        y = dropout(bias_act_dropout(x, bias, 0.3, noise, 0), 0.2, noise, 1)
        return batch_norm(y, weight, bias, running_mean, running_var, None, relu=True, p=0.1, noise=noise, stream=2)

    results = []
    torch._dynamo.reset()
    for path in (run, torch.compile(run, backend="aot_eager", fullgraph=True)):
        leaf, buffers = x.clone().requires_grad_(), (torch.zeros(2, 4), torch.ones(2, 4))
        y = path(leaf, *buffers)
        results.append([y, *torch.autograd.grad(y.square().sum(), leaf), *buffers])
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_triton_takes_what_is_on_a_gpu():
    assert not dispatch.on_triton(torch.ones(2))
    if GPU:
        assert dispatch.on_triton(torch.ones(2, device="cuda"))
        assert not dispatch.on_triton(torch.ones(2, device="cuda").double())
