"""The synthetic problems of the paper and the demo, drawn with explicit random seeds, identical on every machine."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import expit

from knotwork._checks import check_int
from knotwork.datasets._registry import content_sha256
from knotwork.datasets._table import Dataset

FloatArray = npt.NDArray[np.float64]

SYNTHETIC_SEED = 42
"""Random seed of the tables that are loaded by key."""


def ablation_function(x: npt.ArrayLike) -> FloatArray:
    """Return the noiseless target of the ablation: a wave, a step and a narrow peak.

    Notes
    -----
    f(x) = 0.8 sin(2 pi x) + 1.5 [x > 0.55] + 2 exp(-(x - 0.78)^2 / (2 * 0.03^2)).

    Examples
    --------
    >>> ablation_function([0.25, 0.5]).round(6)
    array([0.8, 0. ])
    """
    x = np.asarray(x, dtype=np.float64)
    peak = 2.0 * np.exp(-((x - 0.78) ** 2) / (2 * 0.03**2))
    return np.asarray(0.8 * np.sin(2 * np.pi * x) + 1.5 * (x > 0.55) + peak)


def synthetic_ablation(n_rows: int = 20_000, *, seed: int) -> Dataset:
    """Draw the table of the ablation: an informative feature, a correlated one, and a noisy target.

    The figure of knot movement during training uses the same table.

    Parameters
    ----------
    n_rows : int
        Number of rows; the paper does not state it.
    seed : int
        Random seed.

    Notes
    -----
    x0 is from Beta(2, 8) with probability 0.7, Beta(8, 2) with 0.2 and Uniform(0, 1) with 0.1;
    x1 = 0.6 x0 + 0.4 U with U from Uniform(0, 1); y = f(x0) + e with f the `ablation_function` and e from N(0, 0.1^2).

    Examples
    --------
    >>> synthetic_ablation(100, seed=0).numbers().shape
    (100, 2)
    """
    generator = _generator(n_rows, seed)
    draws = [generator.beta(2, 8, n_rows), generator.beta(8, 2, n_rows), generator.uniform(size=n_rows)]
    x0 = np.choose(generator.choice(3, size=n_rows, p=[0.7, 0.2, 0.1]), draws)
    x1 = 0.6 * x0 + 0.4 * generator.uniform(size=n_rows)
    y = ablation_function(x0) + generator.normal(scale=0.1, size=n_rows)
    return _dataset("ablation", pd.DataFrame({"x0": x0, "x1": x1, "y": y}), "regression", seed)


def illustration_curve(x: npt.ArrayLike) -> FloatArray:
    """Return the noiseless target of the regression that illustrates the encodings.

    Notes
    -----
    f(x) = sin(3 pi x) + 0.5 cos(7 pi x) exp(-2 x) + 0.3 x^2.

    Examples
    --------
    >>> illustration_curve([0.0])
    array([0.5])
    """
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(np.sin(3 * np.pi * x) + 0.5 * np.cos(7 * np.pi * x) * np.exp(-2 * x) + 0.3 * x**2)


def synthetic_regression(n_rows: int = 2500, *, seed: int) -> Dataset:
    """Draw the regression problem with one feature that illustrates the encodings.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Random seed.

    Notes
    -----
    x is from Uniform(0, 1), y = f(x) + e with f the `illustration_curve` and e from N(0, 0.04). As in
    N(0, 0.10^2) of the ablation, the second number is the variance: the standard deviation is 0.2.

    Examples
    --------
    >>> synthetic_regression(seed=0).n_rows
    2500
    """
    generator = _generator(n_rows, seed)
    x = generator.uniform(size=n_rows)
    y = illustration_curve(x) + generator.normal(scale=np.sqrt(0.04), size=n_rows)
    return _dataset("illustration_regression", pd.DataFrame({"x": x, "y": y}), "regression", seed)


def illustration_probability(x: npt.ArrayLike) -> FloatArray:
    """Return the probability of class 1 in the classification that illustrates the encodings.

    Notes
    -----
    p(x) = clip(s(25 (x - 0.33)) - s(25 (x - 0.72)) + 0.04, 0.04, 0.96), where s is the logistic function.

    Examples
    --------
    >>> illustration_probability([0.525])
    array([0.96])
    """
    x = np.asarray(x, dtype=np.float64)
    return np.asarray(np.clip(expit(25 * (x - 0.33)) - expit(25 * (x - 0.72)) + 0.04, 0.04, 0.96))


def synthetic_classification(n_rows: int = 2500, *, seed: int) -> Dataset:
    """Draw the classification problem with one feature that illustrates the encodings.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Random seed.

    Notes
    -----
    x is from Uniform(0, 1); y is 1 with probability p(x), the `illustration_probability`, and otherwise 0.

    Examples
    --------
    >>> sorted(set(synthetic_classification(seed=0).target_values().tolist()))
    [0, 1]
    """
    generator = _generator(n_rows, seed)
    x = generator.uniform(size=n_rows)
    y = (generator.uniform(size=n_rows) < illustration_probability(x)).astype(np.int64)
    return _dataset("illustration_classification", pd.DataFrame({"x": x, "y": y}), "classification", seed)


def synthetic_rentals(n_rows: int = 1200, *, seed: int) -> Dataset:
    """Draw the bicycle rentals of the demo: two peaks during the day, scaled by the weather.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Random seed.

    Notes
    -----
    hour is from 0 to 23, temperature from N(14, 8^2), wind from Gamma(2, 5), humidity from Uniform(20, 100), and
    rentals = 20 + 400 m(hour) g(temperature) - 4 max(wind - 12, 0) + e with e from N(0, 15^2),
    m(h) = exp(-(h - 8)^2 / 3) + 1.2 exp(-(h - 17.5)^2 / 5) and g(t) = exp(-((t - 20) / 14)^2). humidity has no effect.

    Examples
    --------
    >>> synthetic_rentals(100, seed=0).numerical
    ('hour', 'temperature', 'wind', 'humidity')
    """
    generator = _generator(n_rows, seed)
    hour = generator.integers(24, size=n_rows).astype(np.float64)
    temperature, wind = generator.normal(14, 8, n_rows), generator.gamma(2, 5, n_rows)
    humidity = generator.uniform(20, 100, n_rows)
    peaks = np.exp(-((hour - 8) ** 2) / 3) + 1.2 * np.exp(-((hour - 17.5) ** 2) / 5)
    mild = np.exp(-(((temperature - 20) / 14) ** 2))
    noise = generator.normal(scale=15, size=n_rows)
    rentals = 20 + 400 * peaks * mild - 4 * np.maximum(wind - 12, 0) + noise
    columns = {"hour": hour, "temperature": temperature, "wind": wind, "humidity": humidity, "rentals": rentals}
    return _dataset("demo_rentals", pd.DataFrame(columns), "regression", seed)


def synthetic_defects(n_rows: int = 1200, *, seed: int) -> Dataset:
    """Draw the factory defects of the demo: two narrow ranges with many defects, and a threshold.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    seed : int
        Random seed.

    Notes
    -----
    temperature is from Uniform(40, 90), pressure from N(3, 0.5^2), vibration from the exponential distribution with
    mean 1, speed from Uniform(100, 200); y is 1, a defect, with probability s(-3 + 6 exp(-(temperature - 65)^2 / 18)
    + 5 exp(-(pressure - 3.4)^2 / 0.01) + 3 [vibration > 2]), where s is the logistic function. speed has no effect.

    Examples
    --------
    >>> sorted(set(synthetic_defects(200, seed=0).target_values().tolist()))
    [0, 1]
    """
    generator = _generator(n_rows, seed)
    temperature, pressure = generator.uniform(40, 90, n_rows), generator.normal(3, 0.5, n_rows)
    vibration, speed = generator.exponential(1.0, n_rows), generator.uniform(100, 200, n_rows)
    windows = 6 * np.exp(-((temperature - 65) ** 2) / 18) + 5 * np.exp(-((pressure - 3.4) ** 2) / 0.01)
    defect = generator.uniform(size=n_rows) < expit(-3 + windows + 3 * (vibration > 2))
    columns = {"temperature": temperature, "pressure": pressure, "vibration": vibration, "speed": speed}
    return _dataset(
        "demo_defects", pd.DataFrame({**columns, "defect": defect.astype(np.int64)}), "classification", seed
    )


def encoding_illustration(n_rows: int = 44, *, seed: int) -> FloatArray:
    """Draw the values of the figure of the encodings; there is no target.

    Parameters
    ----------
    n_rows : int
        Number of values.
    seed : int
        Random seed.

    Returns
    -------
    ndarray of shape (n_rows,)
        Values between 0.015 and 0.985.

    Notes
    -----
    With equal probability from Beta(2.6, 4) or Beta(5, 2.6), clipped to [0.015, 0.985].

    Examples
    --------
    >>> encoding_illustration(seed=0).shape
    (44,)
    """
    generator = _generator(n_rows, seed)
    is_first = generator.uniform(size=n_rows) < 0.5
    values = np.where(is_first, generator.beta(2.6, 4.0, n_rows), generator.beta(5.0, 2.6, n_rows))
    return np.clip(values, 0.015, 0.985)


def _generator(n_rows: int, seed: int) -> np.random.Generator:
    check_int(n_rows, "n_rows", 1)
    return np.random.default_rng(check_int(seed, "seed", 0))


def _dataset(name: str, frame: pd.DataFrame, task: str, seed: int) -> Dataset:
    """Return a data set with numbers rounded to float32, because the last bits of a sine differ between machines."""
    numbers = frame.select_dtypes("float64").columns
    frame = frame.astype(dict.fromkeys(numbers, np.float32)).astype(dict.fromkeys(numbers, np.float64))
    return Dataset(
        name=name,
        frame=frame,
        target=frame.columns[-1],
        task=task,
        numerical=tuple(frame.columns[:-1]),
        categorical=(),
        sha256=content_sha256(frame),
        notes=(f"{len(frame)} rows drawn with seed {seed}",),
    )


SYNTHETIC: Mapping[str, Callable[..., Dataset]] = MappingProxyType(
    {
        "ablation": synthetic_ablation,
        "illustration_regression": synthetic_regression,
        "illustration_classification": synthetic_classification,
        "demo_rentals": synthetic_rentals,
        "demo_defects": synthetic_defects,
    }
)
"""The functions that draw the tables, by key; they take `n_rows` and `seed`."""
