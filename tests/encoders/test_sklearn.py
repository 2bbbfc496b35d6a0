"""scikit-learn's checks of estimators, on every encoder and every setting that affects them.

One is excused: with ``extrapolation="error"`` rows of weight zero may lie outside the training range, and the check
transforms them.
"""

from sklearn.base import clone

import knotwork as kw
from tests.encoders.cases import ENCODERS
from tests.encoders.checks import is_repeated, parametrize_checks

FIRST = [
    *(ENCODERS[name] for name in ("BS-Q", "BS-LGBM", "PLE", "Std", "Periodic", "CS-Q", "per feature")),
    clone(ENCODERS["BS-Q"]).set_params(missing="error"),
    clone(ENCODERS["BS-Q"]).set_params(extrapolation="error"),
    clone(ENCODERS["BS-Q"]).set_params(sparse_output=True),
    clone(ENCODERS["IS-CART"]).set_params(dtype="float64"),
]
"""One for each way through the code: placements, kinds of encoders, refusals, sparse output, another type."""

OTHERS = [
    *(encoder for encoder in ENCODERS.values() if encoder not in FIRST),
    clone(ENCODERS["BS-Q"]).set_params(missing="indicator"),
    *(clone(ENCODERS["BS-Q"]).set_params(extrapolation=extrapolation) for extrapolation in ("linear", "continue")),
    kw.SplineEncoder("cyclic", 5, period=24.0),
    kw.SplineEncoder(size=6, extrapolation="periodic", placement="uniform", degree=2),
    clone(ENCODERS["PLE"]).set_params(sparse_output=True),
    *(clone(ENCODERS[name]).set_params(dtype="float64") for name in ("BS-Q", "Std")),
]
"""Other values of the same settings, which are slow; tests/encoders/test_contract.py has most of them."""


def excused(estimator):
    if estimator.extrapolation != "error":
        return {}
    reason = "rows of weight zero are outside the training range, which extrapolation='error' refuses"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


def is_slow(estimator, check):
    return estimator not in FIRST or (is_repeated(check) and estimator is not FIRST[0])


@parametrize_checks([*FIRST, *OTHERS], is_slow, excused)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
