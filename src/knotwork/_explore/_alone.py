"""How well a column predicts alone: the first fits of the page, which order the columns and name a finding.

The page computes the same in JavaScript, and a test compares the two.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from knotwork.basis import FloatArray

PENALTY = 1.0
"""The ridge penalty with which the page opens."""

LEAST_GAIN, STANDARD_ERRORS = 0.005, 2.0
"""Gain over a straight line from which a page opens on the column with the largest, also in standard errors of the
difference of squared errors; if no column has it, the page opens on the best one."""

Codes = npt.NDArray[np.integer]


class Alone(NamedTuple):
    """Scores on held-out rows, R2 or AUC; None where it is not defined, or where there is no line, as of categories.

    Parameters
    ----------
    fit, line : float or None
        That of the encoding with which the page opens, and that of the column scaled to mean 0 and variance 1.
    is_clear : bool
        Whether squared errors are smaller than those of the line by more than their standard errors.
    """

    fit: float | None
    line: float | None
    is_clear: bool = False

    @property
    def gain(self) -> float:
        """What the encoding adds to the line."""
        return 0.0 if self.fit is None or self.line is None else self.fit - self.line


def squared_errors(rows: FloatArray, codes: Codes, n_training: int, outputs: FloatArray) -> FloatArray:
    """Return the squared error of each held-out row by a ridge fit on groups; those of several outputs are added.

    Parameters
    ----------
    rows : ndarray of shape (n_groups, m)
        The encoded groups.
    codes : ndarray of shape (n,)
        The group of each row, training rows first.
    n_training : int
        Number of training rows.
    outputs : ndarray of shape (n, n_outputs)
        The target.
    """
    train, test = codes[:n_training], codes[n_training:]
    counts = np.bincount(train, minlength=len(rows)).astype(np.float64)
    sums = np.stack([np.bincount(train, each, len(rows)) for each in outputs[:n_training].T], axis=1)
    centred = rows - counts @ rows / counts.sum()
    mean = sums.sum(axis=0) / counts.sum()
    system = centred.T @ (counts[:, None] * centred) + PENALTY * np.eye(rows.shape[1])
    coefficients = np.linalg.solve(system, centred.T @ (sums - counts[:, None] * mean))
    errors: FloatArray = ((outputs[n_training:] - (mean + centred @ coefficients)[test]) ** 2).sum(axis=1)
    return errors


def r_squared(rows: FloatArray, codes: Codes, n_training: int, outputs: FloatArray) -> float | None:
    """Return the held-out R2 of a ridge fit on groups; parameters as in `squared_errors`."""
    held_out = outputs[n_training:]
    spread = float(((held_out - held_out.mean(axis=0)) ** 2).sum()) if len(held_out) > 1 else 0.0
    if not spread > 1e-9 * float((held_out**2).sum()):
        return None
    return 1.0 - float(squared_errors(rows, codes, n_training, outputs).sum()) / spread


def area_under_curve(rows: FloatArray, codes: Codes, n_training: int, is_one: npt.NDArray[np.bool_]) -> float | None:
    """Return the held-out AUC of a logistic ridge fit on groups; parameters as in `squared_errors`."""
    train, test = codes[:n_training], codes[n_training:]
    held_out = is_one[n_training:]
    if len(set(held_out.tolist())) < 2 or len(set(is_one[:n_training].tolist())) < 2:
        return None
    counts = [np.bincount(train[is_one[:n_training] == one], minlength=len(rows)) for one in (True, False)]
    model = LogisticRegression(C=1.0 / PENALTY, solver="newton-cholesky", tol=1e-10, max_iter=200)
    model.fit(np.tile(rows, (2, 1)), np.repeat([1, 0], len(rows)), sample_weight=np.concatenate(counts))
    return float(roc_auc_score(held_out, model.decision_function(rows)[test]))


def is_clear(errors: FloatArray, errors_of_line: FloatArray) -> bool:
    """Return whether the squared errors of rows are clearly smaller than those of a line.

    Examples
    --------
    >>> is_clear(np.array([0.0, 1.0, 0.0, 1.0]), np.array([3.0, 3.0, 4.0, 4.0]))
    True
    """
    differences = errors_of_line - errors
    return bool(differences.sum() > STANDARD_ERRORS * np.sqrt(len(differences)) * differences.std())


def line_of(centres: FloatArray, counts: FloatArray) -> FloatArray:
    """Return groups scaled to mean 0 and variance 1 as one column; `counts` has their rows.

    Examples
    --------
    >>> line_of(np.array([0.0, 1.0]), np.array([1.0, 1.0])).tolist()
    [[-1.0], [1.0]]
    """
    mean = np.average(centres, weights=counts)
    deviation = float(np.sqrt(np.average((centres - mean) ** 2, weights=counts))) or 1.0
    scaled: FloatArray = (centres - mean)[:, None] / deviation
    return scaled
