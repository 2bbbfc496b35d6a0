"""Published tables of scores, and a strategy for tables with ties."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

# Demsar (2006), table 6: AUC of C4.5 and of its variants with m, cf and both tuned, on 14 data sets.
# On voting the paper prints 0.975 twice and ranks them 2 and 3, from more digits than it prints: hence 0.97501. With a
# tie there, the average ranks of the last two would be 2.929 and 1.929, not the published 2.893 and 1.964.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)

# Hollander and Wolfe (1973), p. 140: times of 22 baseball players for three ways of rounding first base, as in the help
# of R's friedman.test.
# fmt: off
ROUNDING = np.array([
    [5.40, 5.50, 5.55], [5.85, 5.70, 5.75], [5.20, 5.60, 5.50], [5.55, 5.50, 5.40], [5.90, 5.85, 5.70],
    [5.45, 5.55, 5.60], [5.40, 5.40, 5.35], [5.45, 5.50, 5.35], [5.25, 5.15, 5.00], [5.85, 5.80, 5.70],
    [5.25, 5.20, 5.10], [5.65, 5.55, 5.45], [5.60, 5.35, 5.45], [5.05, 5.00, 4.95], [5.50, 5.50, 5.40],
    [5.45, 5.55, 5.50], [5.55, 5.55, 5.35], [5.45, 5.50, 5.55], [5.50, 5.45, 5.25], [5.65, 5.60, 5.40],
    [5.70, 5.65, 5.55], [6.30, 6.30, 6.25],
])
# fmt: on

# Hollander and Wolfe (1973), p. 29: depression scale of 9 patients at two visits, as in the help of R's wilcox.test.
DEPRESSION = np.array(
    [
        [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30],
        [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29],
    ]
).T


def tables(min_problems=2, max_methods=7):
    """Tables of whole numbers with many ties."""
    shapes = st.tuples(st.integers(min_problems, 12), st.integers(2, max_methods))
    return shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=st.integers(-3, 3).map(float)))
