"""The encodings of a stack against the encoders that they come from."""

import numpy as np
import torch

import knotwork as kw
from knotwork.basis._fitted import FittedPeriodic
from knotwork.encoders._methods import METHOD_TABLE
from knotwork.nn._stack import StackEncoding
from knotwork.training._members import column_units, in_units

FIXED = [name for name, method in METHOD_TABLE.items() if method.start is None]


def table(n=200, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3)) * [1.0, 1e6, 1e-4] + [0.0, -3e7, 5.0]
    X[::17, 1] = np.nan
    return X, np.sin(X[:, 0]) + (X[:, 2] > 5)


def fitted(method, X, y, size=7):
    kind = METHOD_TABLE[method]
    return kw.make_encoder(method.replace("Grad-", ""), size if kind.has_size else None).fit(X, y)


def expected(encoder, X, size):
    out = np.zeros((*X.shape, size), dtype=np.float32)
    columns = np.split(encoder.transform(X), np.cumsum([block.size for block in encoder.fitted_])[:-1], axis=1)
    for feature, block in enumerate(columns):
        out[:, feature, : block.shape[1]] = block
    return out


def take_frequencies(stack, encoders):
    """Give the stack the frequencies and phases that the encoders have drawn."""
    with torch.no_grad():
        for member, encoder in enumerate(encoders):
            for feature, block in enumerate(encoder.fitted_):
                if isinstance(block, FittedPeriodic):
                    stack.frequencies[member, feature, : len(block.frequencies)] = torch.from_numpy(block.frequencies)
                    if block.phases is not None:
                        stack.phases[member, feature, : len(block.phases)] = torch.from_numpy(block.phases)


def test_a_stack_of_all_methods_equals_their_encoders():
    X, y = table()
    encoders = [fitted(method, X[fold::2], y[fold::2]) for method in FIXED for fold in range(2)]
    order = sorted(range(len(encoders)), key=lambda place: str([type(b) for b in encoders[place].fitted_]))
    encoders = [encoders[place] for place in order]
    units = column_units(X)  # without them float32 does not tell the values of the third column apart
    stack = StackEncoding.from_encodings([e.fitted_ for e in encoders], [False] * len(encoders), units=units)
    take_frequencies(stack, encoders)
    out, penalty = stack(torch.from_numpy(in_units(X, units))[None].repeat(len(encoders), 1, 1))
    assert bool((penalty == 0).all())
    out = out.detach()
    for member, encoder in enumerate(encoders):
        scale = 1.0 if encoder.__class__.__name__ != "SplineEncoder" or encoder.family != "mspline" else 30.0
        np.testing.assert_allclose(out[member].numpy(), expected(encoder, X, stack.layout.size), atol=3e-4 * scale)


def test_a_mapping_gives_every_feature_its_own_kind():
    X, y = table()
    mappings = {0: "BS-Q@9", 1: "Std", 2: "IS-CART@7"}, {0: "Periodic@5", 1: "Robust", 2: "Cosine@9"}
    for mapping, sizes in zip(mappings, ((9, 1, 7), (5, 1, 9)), strict=True):
        encoder = kw.make_encoder(mapping).fit(X, y)
        stack = StackEncoding.from_encodings([encoder.fitted_] * 2, [False] * 2, units=column_units(X))
        assert stack.layout.sizes == sizes
        take_frequencies(stack, [encoder] * 2)
        out, _ = stack(torch.from_numpy(in_units(X, column_units(X)))[None].repeat(2, 1, 1))
        for member in range(2):
            np.testing.assert_allclose(out[member].detach().numpy(), expected(encoder, X, 9), atol=3e-4)


def test_frequencies_are_drawn_by_the_seed_of_a_member_whatever_the_others_are():
    X, y = table()
    periodic, cosine, wide = (
        fitted(name, X, y, size) for name, size in (("Periodic", 6), ("Cosine", 6), ("Cosine", 9))
    )
    alone = StackEncoding.from_encodings([periodic.fitted_], [False])
    alone.start(torch.tensor([5]))
    assert alone.frequencies.shape == (1, 3, 3)
    assert alone.phases is None
    assert 0.03 < float(alone.frequencies.detach().std()) < 0.3
    together = StackEncoding.from_encodings([cosine.fitted_, wide.fitted_, periodic.fitted_], [False] * 3)
    together.start(torch.tensor([4, 4, 5]))
    torch.testing.assert_close(together.frequencies[2, :, :3], alone.frequencies[0])
    torch.testing.assert_close(together.frequencies[1, :, :6], together.frequencies[0, :, :6])
    assert 1.0 < float(together.phases[1].detach().abs().max()) < np.pi
    out, _ = together(torch.from_numpy(X.astype(np.float32))[None].repeat(3, 1, 1))
    for grad in torch.autograd.grad(out.square().sum(), [together.frequencies, together.phases]):
        assert bool((grad[1] != 0).all())
        assert bool((grad[0, :, 6:] == 0).all()), "a parameter that is padding has a gradient"


def test_values_besides_blocks_are_centred_and_bounded():
    X, y = table()
    encoder = kw.make_encoder({0: "PLE@3", 1: "Robust", 2: "Cosine@3"}).fit(X, y)
    stack = StackEncoding.from_encodings([encoder.fitted_], [False], units=column_units(X))
    far = np.concatenate([X, [[1e9, 1e30, -1e30], [-1e9, np.nan, np.nan]]])
    values = stack.raw(stack.scaled(torch.from_numpy(in_units(far, column_units(X)))[None]))[0].numpy()
    low, high = encoder.domain_[0]
    np.testing.assert_allclose(values[:, 0], 2 * np.clip((far[:, 0] - low) / (high - low), 0, 1) - 1, atol=1e-5)
    np.testing.assert_allclose(values[:, 1], kw.ScalarEncoder("robust").fit(X).transform(far)[:, 1], atol=1e-4)
    np.testing.assert_allclose(values[-2:, 2], [-3.0, 0.0], atol=1e-5)


def test_gradients_reach_the_knots_of_members_that_learn_and_no_others():
    X, y = table()
    fixed, learned = fitted("BS-Q", X, y), fitted("BS-Grad-U", X, y)
    stack = StackEncoding.from_encodings([fixed.fitted_, learned.fitted_], [False, True])
    out, penalty = stack(torch.from_numpy(X.astype(np.float32))[None].repeat(2, 1, 1))
    assert penalty[0] == 0
    assert penalty[1] > 0
    (grad,) = torch.autograd.grad((out**2).sum() + penalty.sum(), [stack.logits])
    assert bool((grad[0] == 0).all())
    assert bool((grad[1] != 0).any())


def test_members_that_leave_take_their_parts_along():
    X, y = table()
    methods = ["Std", "BS-Q", "BS-U", "PLE", "IS-Q"]
    encoders = [fitted(method, X, y) for method in methods]
    stack = StackEncoding.from_encodings([encoder.fitted_ for encoder in encoders], [False] * 5)
    before, _ = stack(torch.from_numpy(X.astype(np.float32))[None].repeat(5, 1, 1))
    index = torch.tensor([2, 4])
    for name in ("breaks", "n_knots", "low", "scale", "learned"):
        setattr(stack, name, getattr(stack, name)[index])
    stack.layout = stack.layout.take(index.tolist())
    after, _ = stack(torch.from_numpy(X.astype(np.float32))[None].repeat(2, 1, 1))
    torch.testing.assert_close(after, before[index])


def test_knots_come_back_in_the_units_of_the_input():
    X, y = table()
    encoder = fitted("BS-Q", X, y)
    stack = StackEncoding.from_encodings([encoder.fitted_], [True])
    knots = stack.interior_knots()[0].numpy()
    for feature, actual in enumerate(encoder.knots_):
        spread = np.ptp(X[~np.isnan(X[:, feature]), feature])
        np.testing.assert_allclose(knots[feature], actual, atol=1e-4 * spread)
