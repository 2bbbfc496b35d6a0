"""scikit-learn's checks of estimators, on every encoder and every setting that affects them.

One is excused: with ``extrapolation="error"`` rows of weight zero may lie outside the training range, and the check
transforms them.
"""

from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import knotwork as kw
from tests.encoders.cases import ENCODERS

VARIANTS = [
    *ENCODERS.values(),
    *(clone(ENCODERS["BS-Q"]).set_params(missing=missing) for missing in ("indicator", "error")),
    *(
        clone(ENCODERS["BS-Q"]).set_params(extrapolation=extrapolation)
        for extrapolation in ("linear", "continue", "error")
    ),
    kw.SplineEncoder("cyclic", 5, period=24.0),
    kw.SplineEncoder(size=6, extrapolation="periodic", placement="uniform", degree=2),
    *(clone(ENCODERS[name]).set_params(sparse_output=True) for name in ("BS-Q", "PLE")),
    *(clone(ENCODERS[name]).set_params(dtype="float64") for name in ("BS-Q", "IS-CART", "Std")),
]


def excused(estimator):
    if estimator.extrapolation != "error":
        return {}
    reason = "rows of weight zero are outside the training range, which extrapolation='error' refuses"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks(VARIANTS, expected_failed_checks=excused)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
