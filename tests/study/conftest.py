"""Records that several files of tests compare with."""

import pytest

from knotwork.study import load_results, run
from tests.study.cases import comparable, many_units


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    """The records of `many_units`, trained in this process."""
    out = tmp_path_factory.mktemp("local")
    run(many_units(), out, device="cpu")
    return comparable(load_results(out))
