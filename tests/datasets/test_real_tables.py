"""The 25 real tables are those of the registry, and load as the protocol says."""

import numpy as np
import pandas as pd
import pytest

from knotwork.datasets import DATASETS, check_dataset, load_dataset
from knotwork.datasets._registry import content_sha256


@pytest.fixture(autouse=True)
def real_tables(data_folder, monkeypatch):
    monkeypatch.setenv("KNOTWORK_DATA", str(data_folder))


@pytest.mark.parametrize("key", DATASETS)
def test_a_real_table(data_folder, key):
    spec, check = DATASETS[key], check_dataset(key)
    assert check.is_good, check.problems
    data = load_dataset(key, offline=True)
    assert data.n_rows == (spec.subsample or spec.n_rows)
    assert data.sha256 == spec.sha256
    assert data.numbers().shape == (data.n_rows, len(spec.numerical))
    assert np.isfinite(data.numbers()).all()
    assert len(data.target_values()) == data.n_rows
    assert bool(data.notes) == (spec.subsample is not None)
    table = pd.read_parquet(data_folder / f"{key}.parquet")
    assert content_sha256(table, spec.texts) == spec.content_sha256
    if spec.n_classes is not None:
        shares = [frame[spec.target].value_counts(normalize=True).sort_index() for frame in (table, data.frame)]
        assert (abs(shares[0] - shares[1]) * data.n_rows < 1).all()
        assert len(shares[1]) == spec.n_classes
