"""The random numbers of members: exact, even, and independent of the neighbours."""

import numpy as np
import pytest
import torch
from scipy import stats

from knotwork._kernels.dropout import (
    Noise,
    drawn_bits,
    keyed_bits,
    member_keys,
    pair_bits,
    pair_numbers,
    random_bits,
    row_order,
)


def mix(x):
    """lowbias32 in numpy's own 32-bit arithmetic."""
    x = np.asarray(x, dtype=np.uint32)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def u32(value):
    return np.array([value % 2**32], dtype=np.uint32)


@pytest.mark.parametrize("stream", [0, 1, 17])
def test_bits_are_those_of_32_bit_arithmetic(stream):
    seeds, steps = [0, 1, 2**31 - 1], [0, 12_345, 3_000_000_000]
    got = random_bits(Noise(torch.tensor(seeds), torch.tensor(steps)), stream, 1000)
    for row, seed, step in zip(got, seeds, steps, strict=True):
        key = mix(mix(mix(u32(seed ^ 0x3C6EF372)) + u32(step * 0x85EBCA6B)) + u32(stream * 0x27D4EB2F))
        expected = mix(np.arange(1000, dtype=np.uint32) * np.uint32(0x9E3779B9) + key)
        np.testing.assert_array_equal(row.numpy(), expected.astype(np.int64))


def test_bits_are_even_and_unrelated():
    noise = Noise(torch.arange(20), torch.arange(20) % 3)
    bits = random_bits(noise, 0, 20_000)
    counts = torch.bincount((bits >> 24).flatten(), minlength=256).numpy()
    assert stats.chisquare(counts).pvalue > 1e-4
    bit_means = ((bits[..., None] >> torch.arange(32)) & 1).double().mean(dim=(0, 1))
    assert float((bit_means - 0.5).abs().max()) < 5 * 0.5 / (20 * 20_000) ** 0.5
    other = random_bits(noise, 1, 20_000)
    later = random_bits(Noise(noise.seeds, noise.step + 1), 0, 20_000)
    pairs = [bits, other, later, bits.roll(1, dims=0), bits.roll(1, dims=1)]
    for unlike in pairs[1:]:
        correlation = np.corrcoef(bits.flatten().numpy(), unlike.flatten().numpy())[0, 1]
        assert abs(correlation) < 5 / (20 * 20_000) ** 0.5


def test_bits_depend_on_the_member_alone():
    noise = Noise(torch.tensor([5, 9, 11]), torch.tensor([1, 2, 3]))
    alone = random_bits(Noise(noise.seeds[1:2], noise.step[1:2]), 4, 50)
    assert torch.equal(random_bits(noise, 4, 80)[1:2, :50], alone)


def test_orders_are_permutations():
    counts = torch.tensor([0, 1, 7, 50, 64])
    orders = row_order(torch.arange(5), torch.arange(5), counts, n=64)
    assert orders.dtype == torch.int64
    for order, count in zip(orders, counts.tolist(), strict=True):
        assert sorted(order[:count].tolist()) == list(range(count))
        assert bool((order < 64).all())


def test_orders_are_uniform():
    n = 8
    seeds, epochs = (grid.flatten() for grid in torch.meshgrid(torch.arange(200), torch.arange(100), indexing="ij"))
    orders = row_order(seeds, epochs, torch.full_like(seeds, n), n)
    for place in range(n):
        assert stats.chisquare(torch.bincount(orders[:, place], minlength=n).numpy()).pvalue > 1e-4
    pairs = torch.bincount(orders[:, 0] * n + orders[:, 1], minlength=n * n).view(n, n)
    assert stats.chisquare(pairs[~torch.eye(n, dtype=torch.bool)].numpy()).pvalue > 1e-4


def test_orders_depend_on_seed_and_epoch_alone():
    seeds, epochs, counts = torch.tensor([3, 4, 5]), torch.tensor([0, 7, 2]), torch.tensor([30, 40, 20])
    orders = row_order(seeds, epochs, counts, n=45)
    alone = row_order(seeds[1:2], epochs[1:2], counts[1:2], n=40)
    assert torch.equal(orders[1, :40], alone[0])
    for other in (row_order(seeds + 1, epochs, counts, n=45), row_order(seeds, epochs + 1, counts, n=45)):
        for member in range(3):
            assert not torch.equal(orders[member, : counts[member]], other[member, : counts[member]])


def test_the_compiled_loop_draws_the_same_bits():
    keys = torch.tensor([0, 1, 2**31, 2**32 - 1])
    for n in (0, 1, 70_000):
        assert torch.equal(drawn_bits(keys, n), keyed_bits(keys, n))


def test_bits_of_pairs_are_products_of_32_bit_numbers():
    keys = torch.tensor([7, 2**32 - 5])
    numbers, columns = pair_numbers(keys, 5, 3, start=10)
    for key, row, column, bits in zip(keys.tolist(), numbers, columns, pair_bits(numbers, columns), strict=True):
        factor = np.uint32(0x9E3779B9)
        first = mix(np.arange(10, 15, dtype=np.uint32) * factor + u32(key)) | np.uint32(1)
        second = mix(np.array([2**32 - 1, 2**32 - 2, 2**32 - 3], dtype=np.uint32) * factor + u32(key)) | np.uint32(1)
        np.testing.assert_array_equal(row.numpy(), first.astype(np.int64))
        np.testing.assert_array_equal(column.numpy(), second.astype(np.int64))
        np.testing.assert_array_equal(bits.numpy(), (first[:, None] * second[None, :]).astype(np.int64))


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_pairs_are_even_and_unrelated(p):
    """Means, rows, columns and the corners of rectangles, which are where products could show a pattern."""
    keys = member_keys(Noise(torch.arange(8), torch.arange(8) % 3), 1)
    n, n_tokens = 2000, 150
    kept = (pair_bits(*pair_numbers(keys, n, n_tokens)) >= p * 2**32).double()
    z = (kept - (1 - p)) / (p * (1 - p)) ** 0.5
    assert float(z.mean(dim=(1, 2)).abs().max()) < 4.5 / (n * n_tokens) ** 0.5
    for size, sums in ((n_tokens, z.sum(2)), (n, z.sum(1))):
        expected = (2 / sums.numel()) ** 0.5
        assert abs(float(sums.square().mean()) / size - 1) < 5 * expected
    similar = (z.transpose(1, 2) @ z / n**0.5)[:, *torch.triu_indices(n_tokens, n_tokens, 1)]
    assert abs(float(similar.std()) - 1) < 0.01
    assert float(similar.abs().max()) < 7
    corners = z[:, :-1, :-1] * z[:, 1:, :-1] * z[:, :-1, 1:] * z[:, 1:, 1:]
    assert abs(float(corners.mean() / corners.std())) < 5 / corners.numel() ** 0.5
