"""Traits of families, encodings as JSON, and encodings without compiled code."""

import json
from dataclasses import replace

import numpy as np
import pytest

from knotwork import basis
from knotwork.basis import _compiled
from knotwork.basis._compiled import ROWS_TOGETHER, encode_dense, encode_sparse
from knotwork.basis._fitted import (
    FittedAffine,
    FittedBasis,
    FittedPeriodic,
    compiled_table,
    fitted_from_json,
    fitted_to_json,
)
from knotwork.errors import ArgumentError

NAMES = list(basis.FAMILIES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("degree", range(4))
def test_a_family_makes_its_basis(name, degree):
    family = basis.FAMILIES[name]
    functions = family.make([0.2, 0.7], degree=degree)
    assert basis.family_of(functions) is family
    assert functions.size == 2 + family.smallest_size(degree)
    assert functions.degree == (degree if family.has_degree else 0)
    assert family.suffix == family.short.lower()


def test_a_basis_of_no_family_is_refused():
    class Other(basis.Basis):
        size = 1
        _values = _slopes = None

    with pytest.raises(ArgumentError, match="registered family.*basis=Other"):
        basis.family_of(Other(np.array([0.5])))


@pytest.mark.parametrize("wrong", [{"basis": int}, {"short": "B-S"}, {"short": ""}, {"kind": None, "normalised": True}])
def test_invalid_traits_are_refused(wrong):
    with pytest.raises(ArgumentError):
        replace(basis.FAMILIES["bspline"], **wrong)


@pytest.mark.parametrize("name", NAMES)
def test_encoded_values_are_those_on_the_scaled_domain(name):
    share = np.linspace(0.0, 1.0, 33)
    expected = basis.evaluate(name, share, [0.25, 0.5])
    functions = basis.make_basis(name, [1.0, 3.0], domain=(-1.0, 7.0))
    np.testing.assert_allclose(functions.encode(8.0 * share - 1.0), expected, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_encodings_are_written_and_read_exactly(name):
    functions = basis.make_basis(name, [0.1, 1 / 3], degree=2, domain=(-0.7, 1e9))
    read = fitted_from_json(json.loads(json.dumps(fitted_to_json(FittedBasis(functions, 9)))))
    assert type(read.basis) is type(functions)
    assert (read.size, read.basis.domain, read.basis.degree) == (9, functions.domain, functions.degree)
    np.testing.assert_array_equal(read.basis.knots, functions.knots)
    for encoding in (
        FittedAffine(0.1, 1 / 3, smooth=True),
        FittedPeriodic(0.1, 1 / 3, 3, 0.5, np.array([0.1, 1 / 7])),
        FittedPeriodic(0.1, 1 / 3, 2, 0.5, np.array([0.1, 1 / 7]), np.array([-1.0, 2.0])),
    ):
        again = fitted_from_json(json.loads(json.dumps(fitted_to_json(encoding))))
        assert repr(again) == repr(encoding)
        np.testing.assert_array_equal(again.encode(np.array([0.3, np.nan]), "clip")[1], 0.0)
    scaled = FittedAffine(0.1, 1 / 3)
    assert fitted_to_json(fitted_from_json(json.loads(json.dumps(fitted_to_json(scaled))))) == fitted_to_json(scaled)


@pytest.mark.parametrize("extrapolation", ["clip", "linear"])
@pytest.mark.parametrize("indicator", [False, True])
def test_encodings_without_compiled_code_are_encoded_alike(monkeypatch, extrapolation, indicator):
    random = np.random.default_rng(0)
    monkeypatch.setattr(_compiled, "VALUES_PER_CALL", 1)  # chunks are as short as they may be
    encodings = [FittedBasis(basis.make_basis(name, [-0.3, 0.2], domain=(-1.0, 1.0)), 7) for name in NAMES]
    encodings.insert(2, FittedAffine(0.5, 2.0))
    X = random.uniform(-1.5, 1.5, size=(2 * ROWS_TOGETHER + 100, len(encodings)))
    assert len(_compiled._slices(X.shape)) == 3
    X[random.uniform(size=X.shape) < 0.05] = np.nan
    settings = {"extrapolation": extrapolation, "indicator": indicator}
    compiled = encode_dense(X, compiled_table(tuple(encodings), **settings), dtype=np.float64)
    for name in ("mspline", "ple"):  # the others stay compiled
        plain = replace(basis.FAMILIES[name], kind=None, normalised=False)
        monkeypatch.setitem(basis.FAMILIES, name, plain)
    table = compiled_table(tuple(map(replace, encodings)), **settings)  # tables are kept by encoding
    assert [place for place, _ in table.plain] == [3, 4]
    for n_threads in (1, 2):
        got = encode_dense(X, table, dtype=np.float64, n_threads=n_threads)
        np.testing.assert_allclose(got, compiled, atol=1e-10)
        assert encode_dense(X, table, n_threads=n_threads).dtype == np.float32
        np.testing.assert_array_equal(encode_sparse(X, table, dtype=np.float64, n_threads=n_threads).toarray(), got)
    assert encode_sparse(X[:0], table).shape == (0, table.width)
