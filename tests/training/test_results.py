"""Results of training: members that are kept, and paths of learned knots from the fitted ones to the best."""

import numpy as np

from knotwork.nn._backbones import MLPConfig
from knotwork.training import TrainingConfig, train
from tests.training.cases import make_member, make_table

NETWORK = MLPConfig(widths=(8,), dropout=0.0)
WARMUP = 2
CONFIG = TrainingConfig(
    max_epochs=9, batch_size=64, learning_rate=3e-2, knot_warmup=WARMUP, knot_rate=1.0, patience=2, metric="reported"
)
METHODS = [("BS-Grad-U", 7), ("Std", None), ("IS-Grad-U", 9), ("BS-Q", 7), ("MS-Grad-U", 7)]


def trained(keep_knots):
    table = make_table()
    members = [
        make_member(table, method, size or 7, seed=seed)
        for seed, (method, size) in enumerate(METHODS)
        for _ in range(2)
    ]
    return members, train(table, members, NETWORK, CONFIG, device="cpu", keep_knots=keep_knots)


def best_knots(result, place):
    """Return the knots of a member's best network in the units of the data."""
    piece = next(piece for piece in result.pieces if place in piece.places)
    knots = piece.network.encoding.interior_knots()[piece.places.index(place)].double().numpy()
    return result.units[0][:, None] + result.units[1][:, None] * knots


def test_paths_begin_at_the_fitted_knots_and_pass_through_the_best():
    members, result = trained(keep_knots=True)
    lengths = set()
    for place, (member, history) in enumerate(zip(members, result.histories, strict=True)):
        path = result.knot_paths[place]
        if not member.learnable:
            assert path is None
            continue
        lengths.add(len(path))
        assert len(path) == history.epochs + 1
        start = np.stack([encoding.basis.knots for encoding in member.encodings])
        np.testing.assert_allclose(path[0], start, rtol=1e-5)
        for still in path[1 : WARMUP + 1]:
            np.testing.assert_array_equal(still, path[0])
        if history.epochs > WARMUP:
            assert np.abs(path[-1] - path[0]).max() > 0
        np.testing.assert_allclose(path[history.best_epoch], best_knots(result, place), rtol=1e-5)
    assert len(lengths) > 1, "no member has left before the others"


def test_nothing_is_kept_unless_asked_for_and_training_is_the_same():
    _, without = trained(keep_knots=False)
    _, with_paths = trained(keep_knots=True)
    assert without.knot_paths is None
    for one, other in zip(without.histories, with_paths.histories, strict=True):
        np.testing.assert_array_equal(one.loss, other.loss)
        np.testing.assert_array_equal(one.score, other.score)


def test_features_with_fewer_knots_are_padded():
    table = make_table()
    wide, narrow = (make_member(table, "BS-Grad-U", size) for size in (9, 6))
    mixed = type(wide)(wide.train, wide.valid, [*wide.encodings[:-1], narrow.encodings[-1]], learnable=True)
    path = train(table, [mixed], NETWORK, CONFIG, device="cpu", keep_knots=True).knot_paths[0]
    assert path.shape[1:] == (len(wide.encodings), 5)
    np.testing.assert_array_equal(np.isnan(path[0]).sum(axis=1), [0] * (len(wide.encodings) - 1) + [3])


def test_kept_members_predict_as_before():
    table = make_table()
    specs = [("BS-Q", 7), ("Std", None), ("BS-Grad-U", 7), ("IS-Q", 15), ("PLE", 7)]
    members = [make_member(table, method, size) for method, size in specs]
    trained = train(table, members, NETWORK, CONFIG, device="cpu")
    before = trained.outputs(table.numbers, table.codes)
    for places in ([0, 4], [1], [2, 3], [0, 1, 2, 3, 4]):
        kept = trained.take(places)
        for place, outputs in zip(places, kept.outputs(table.numbers, table.codes), strict=True):
            np.testing.assert_allclose(outputs, before[place], rtol=1e-5, atol=1e-6)
        assert [history.loss[0] for history in kept.histories] == [trained.histories[p].loss[0] for p in places]
        assert all(
            bool(p.network.encoding.learned.any()) == (p.network.encoding.logits is not None) for p in kept.pieces
        )
    after = trained.outputs(table.numbers, table.codes)
    for outputs, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(outputs, expected)
