"""AdamW of stacks is torch's AdamW, run for each member by itself."""

import pytest
import torch

from knotwork._kernels.adamw import AdamW
from knotwork.errors import ArgumentError

SHAPES = [(20, 7), (7,), (), (300, 150)]
DECAYS = [0.1, 0.0, 0.3, 0.01]


def make_stack(members, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(members, *shape, generator=generator).to(dtype) for shape in SHAPES]


def make_peers(stack, rates, groups, betas=(0.9, 0.999), epsilon=1e-8):
    """torch's optimiser of every member; rates of shape (n_groups, M)."""
    peers = []
    for member in range(stack[0].shape[0]):
        member_tensors = [tensor[member].clone().requires_grad_() for tensor in stack]
        options = [
            {"params": [tensor], "weight_decay": decay, "lr": float(rates[group, member])}
            for tensor, decay, group in zip(member_tensors, DECAYS, groups, strict=True)
        ]
        peers.append((member_tensors, torch.optim.AdamW(options, betas=betas, eps=epsilon)))
    return peers


def assert_equal_to(peers, stack, tolerance):
    for member, (member_tensors, _) in enumerate(peers):
        for got, expected in zip(stack, member_tensors, strict=True):
            torch.testing.assert_close(got[member], expected.detach(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("betas", "epsilon"), [((0.9, 0.999), 1e-8), ((0.0, 0.9), 1e-3)])
def test_twenty_steps_equal_torch(dtype, betas, epsilon):
    stack, groups = make_stack(3, dtype), [0, 0, 1, 1]
    rates = torch.tensor([[1e-3, 1e-2, 3e-4], [2e-3, 1e-4, 1e-3]])
    peers = make_peers(stack, rates.double(), groups, betas, epsilon)
    optimiser = AdamW(stack, decays=DECAYS, groups=groups, betas=betas, epsilon=epsilon)
    for i in range(20):
        grads = make_stack(3, dtype, seed=i + 1)
        optimiser.step(grads, rates, torch.ones(3, dtype=torch.bool))
        for member, (member_tensors, peer) in enumerate(peers):
            for tensor, grad in zip(member_tensors, grads, strict=True):
                tensor.grad = grad[member].clone()
            peer.step()
    assert_equal_to(peers, stack, 1e-6)
    assert all(master is parameter for master, parameter in zip(optimiser.masters, stack, strict=True))


def test_who_is_not_active_or_has_no_rate_stands_still():
    stack, groups, random = make_stack(4), [0, 1, 0, 1], torch.Generator().manual_seed(9)
    rates = torch.full((2, 4), 1e-2)
    peers = make_peers(stack, rates, groups)
    optimiser = AdamW(stack, decays=DECAYS, groups=groups)
    counts = torch.zeros(2, 4, dtype=torch.int64)
    for i in range(30):
        grads = make_stack(4, seed=i + 1)
        active = torch.rand(4, generator=random) < 0.6
        now = torch.where(torch.rand(2, 4, generator=random) < 0.4, 0.0, rates)
        moves = active & (now != 0)
        counts += moves
        for tensor, group in zip(grads, groups, strict=True):
            tensor[~moves[group]] = torch.nan
        optimiser.step(grads, now, active)
        for member, (member_tensors, peer) in enumerate(peers):
            for tensor, grad, group in zip(member_tensors, grads, groups, strict=True):
                tensor.grad = grad[member].clone() if moves[group, member] else None
            peer.step()
    assert torch.equal(optimiser.steps, counts)
    assert_equal_to(peers, stack, 1e-6)


def test_a_tensor_without_gradient_is_not_touched():
    stack = make_stack(2)
    before = [tensor.clone() for tensor in stack]
    optimiser = AdamW(stack, decays=DECAYS, groups=[0] * 4)
    grads = make_stack(2, seed=1)
    optimiser.step([grads[0], None, *grads[2:]], torch.full((1, 2), 0.1), torch.tensor([True, True]))
    assert [torch.equal(*pair) for pair in zip(stack, before, strict=True)] == [False, True, False, False]


@pytest.mark.parametrize("grad_type", [torch.float32, torch.bfloat16])
def test_half_precision_follows_a_float32_copy(grad_type):
    half, groups = make_stack(3, torch.bfloat16), [0] * 4
    full = [tensor.float() for tensor in half]
    rates, active = torch.tensor([[1e-4, 1e-3, 0.0]]), torch.ones(3, dtype=torch.bool)
    pair = [AdamW(stack, decays=DECAYS, groups=groups) for stack in (half, full)]
    for i in range(20):
        grads = make_stack(3, grad_type, seed=i)
        pair[0].step(grads, rates, active)
        pair[1].step([grad.float() for grad in grads], rates, active)
    for rounded, master, expected in zip(half, pair[0].masters, full, strict=True):
        assert rounded.dtype == torch.bfloat16
        torch.testing.assert_close(master, expected, rtol=1e-6, atol=1e-6)
        assert torch.equal(rounded, master.to(torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_member_does_not_see_its_neighbours(dtype):
    stack = make_stack(3, dtype)
    index = torch.tensor([2, 0])
    kept_stack = [tensor[index].clone() for tensor in stack]
    rates, active = torch.tensor([[1e-2, 1e-3, 1e-1]]), torch.tensor([True, True, False])
    pair = [AdamW(tensors, decays=DECAYS, groups=[0] * 4) for tensors in (stack, kept_stack)]
    for i in range(3):
        grads = make_stack(3, dtype, seed=i)
        pair[0].step(grads, rates, active)
        pair[1].step([grad[index] for grad in grads], rates[:, index], active[index])
    for complete, part in zip(stack, kept_stack, strict=True):
        assert torch.equal(complete[index], part)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_members_that_are_taken_go_on_as_in_the_stack(dtype):
    index, decays = torch.tensor([2, 0]), {"decays": DECAYS, "groups": [0] * 4}
    stack = make_stack(3, dtype)
    active = torch.ones(3, dtype=torch.bool)
    rates = torch.tensor([[1e-2, 1e-3, 1e-1]])
    optimiser = AdamW(stack, **decays)
    for i in range(3):
        optimiser.step(make_stack(3, dtype, seed=i), rates, active)
    kept = [tensor[index] for tensor in stack]
    taken = optimiser.take(index, kept)
    assert torch.equal(taken.steps, torch.full((1, 2), 3))
    for i in range(3):
        grads = make_stack(3, dtype, seed=10 + i)
        taken.step([grad[index] for grad in grads], rates[:, index], active[index])
        optimiser.step(grads, rates, active)
    assert torch.equal(taken.steps, optimiser.steps[:, index])
    for complete, part in zip(stack, kept, strict=True):
        assert torch.equal(complete[index], part)


def test_the_compiled_pass_is_the_definition():
    old, grad = torch.randn(3, 70_001), torch.randn(3, 70_001)
    rates, active, results = torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([True, False, True]), []
    for with_loops in (True, False):
        parameter = old.clone()
        optimiser = AdamW([parameter], decays=[0.1], groups=[0], betas=(0.9, 0.99))
        assert optimiser._arrays is not None
        optimiser._arrays = optimiser._arrays if with_loops else None
        for _ in range(2):
            optimiser.step([grad], rates, active)
        results.append((parameter, optimiser._first[0], optimiser._second[0]))
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    for got, before in zip(results[0], (old, *torch.zeros(2, 3, 70_001)), strict=True):
        assert torch.equal(got[1], before[1])
        assert not torch.equal(got[2], before[2])


def test_bad_arguments():
    stack = make_stack(2)
    with pytest.raises(ArgumentError, match="decays must have one value for each of the 4 parameters"):
        AdamW(stack, decays=[0.1], groups=[0] * 4)
    with pytest.raises(ArgumentError, match="parameters must be contiguous"):
        AdamW([torch.ones(2, 3, 4).transpose(1, 2)], decays=[0.1], groups=[0])
    with pytest.raises(ArgumentError, match="parameters must hold at least one tensor"):
        AdamW([], decays=[], groups=[])
    optimiser = AdamW(stack, decays=DECAYS, groups=[0] * 4)
    active = torch.ones(2, dtype=torch.bool)
    with pytest.raises(ArgumentError, match="rates must be of shape"):
        optimiser.step(stack, torch.ones(2, 2), active)
    with pytest.raises(ArgumentError, match="grads must have one entry for each of 4"):
        optimiser.step(stack[:1], torch.ones(1, 2), active)
    with pytest.raises(ArgumentError, match="parameters must be 4 tensors of 1 members"):
        optimiser.take(torch.tensor([0]), stack)


def test_gradients_that_are_written_where_the_optimiser_reads_them_are_not_copied():
    results = []
    for in_place in (False, True):
        stack = make_stack(2)
        optimiser = AdamW(stack, decays=DECAYS, groups=[0] * 4)
        grads = make_stack(2, seed=1)
        if in_place:
            for target, grad in zip(optimiser.grads, grads, strict=True):
                target.copy_(grad)
            grads = optimiser.grads
        optimiser.step(grads, torch.full((1, 2), 1e-2), torch.ones(2, dtype=torch.bool))
        results.append(stack)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
        assert one.is_contiguous()
