"""scikit-learn's checks of estimators, of which those that take the same path as others are slow."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

__all__ = ["is_repeated", "parametrize_checks"]


def is_repeated(check):
    """Return whether a check is that of the same name once more, on arrays that are mapped from a file."""
    return "readonly_memmap" in (check.keywords or {})


def parametrize_checks(estimators, is_slow, excused=None):
    """Return scikit-learn's decorator of a test, whose cases are slow where ``is_slow(estimator, check)`` holds."""
    mark = parametrize_with_checks(estimators, expected_failed_checks=excused)
    names, cases = mark.args
    cases = [case if hasattr(case, "marks") else pytest.param(*case) for case in cases]
    cases = [
        pytest.param(*case.values, marks=[*case.marks, pytest.mark.slow]) if is_slow(*case.values) else case
        for case in cases
    ]
    return pytest.mark.parametrize(names, cases, **mark.kwargs)
