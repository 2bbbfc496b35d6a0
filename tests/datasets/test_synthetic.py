"""Synthetic problems have the distributions of the paper; the tables of scikit-learn have their sizes."""

import numpy as np
import pytest

from knotwork.datasets import (
    EMBEDDED,
    SYNTHETIC,
    _synthetic,
    ablation_function,
    encoding_illustration,
    illustration_curve,
    illustration_probability,
    load_dataset,
    synthetic_ablation,
    synthetic_classification,
    synthetic_defects,
    synthetic_regression,
    synthetic_rentals,
)
from knotwork.errors import ArgumentError


def test_functions_at_points_done_by_hand():
    np.testing.assert_allclose(ablation_function([0.55, 0.78]), [0.8 * np.sin(1.1 * np.pi) + 2 * np.exp(-(23**2) / 18),
                               0.8 * np.sin(1.56 * np.pi) + 3.5])  # fmt: skip
    np.testing.assert_allclose(illustration_curve([0.0, 1.0]), [0.5, -0.5 * np.exp(-2) + 0.3], atol=1e-12)
    np.testing.assert_allclose(illustration_probability([0.33]), [0.5 - 1 / (1 + np.exp(9.75)) + 0.04])
    assert illustration_probability([0.0, 0.525, 1.0]) == pytest.approx([0.0402537, 0.96, 0.0409102], abs=1e-4)


def test_the_ablation_has_the_moments_of_its_mixture():
    data = synthetic_ablation(200_000, seed=1)
    x0, x1 = data.numbers().T
    assert data.numerical == ("x0", "x1")
    assert x0.mean() == pytest.approx(0.7 * 0.2 + 0.2 * 0.8 + 0.1 * 0.5, abs=3e-3)
    beta = 16 / (100 * 11)  # the variance of Beta(2, 8) and of Beta(8, 2)
    second = 0.7 * (beta + 0.04) + 0.2 * (beta + 0.64) + 0.1 / 3
    assert np.mean(x0**2) == pytest.approx(second, abs=3e-3)
    uniform = (x1 - 0.6 * x0) / 0.4
    assert uniform.min() >= -1e-12
    assert uniform.max() <= 1 + 1e-12
    assert uniform.mean() == pytest.approx(0.5, abs=3e-3)
    assert np.corrcoef(uniform, x0)[0, 1] == pytest.approx(0, abs=0.01)
    noise = data.target_values() - ablation_function(x0)
    assert noise.mean() == pytest.approx(0, abs=1e-3)
    assert noise.std() == pytest.approx(0.1, rel=0.01)


def test_the_illustrations():
    data = synthetic_regression(100_000, seed=2)
    x = data.numbers()[:, 0]
    assert x.mean() == pytest.approx(0.5, abs=5e-3)
    assert (data.target_values() - illustration_curve(x)).std() == pytest.approx(0.2, rel=0.01)
    data = synthetic_classification(100_000, seed=2)
    inside = np.abs(data.numbers()[:, 0] - 0.525) < 0.01
    assert data.target_values()[inside].mean() == pytest.approx(0.96, abs=0.02)
    assert data.task == "classification"
    values = encoding_illustration(100_000, seed=2)
    assert values.min() >= 0.015
    assert values.max() <= 0.985
    assert values.mean() == pytest.approx((2.6 / 6.6 + 5.0 / 7.6) / 2, abs=5e-3)


@pytest.mark.parametrize("key", SYNTHETIC)
def test_seeds_and_rows_matter(key):
    draw = SYNTHETIC[key]
    assert draw(50, seed=3).sha256 == draw(50, seed=3).sha256
    assert len({draw(50, seed=3).sha256, draw(50, seed=4).sha256, draw(51, seed=3).sha256}) == 3
    assert draw(50, seed=3).notes == ("50 rows drawn with seed 3",)
    for wrong in ({"n_rows": 0, "seed": 1}, {"seed": -1}):
        with pytest.raises(ArgumentError, match="must be an integer of at least"):
            draw(**wrong)
    n_rows = {"ablation": 20_000, "demo_rentals": 1200, "demo_defects": 1200}
    assert load_dataset(key).n_rows == n_rows.get(key, 2500)


@pytest.mark.parametrize(
    ("key", "shape", "task", "n_classes"),
    [
        ("sk_diabetes", (442, 10), "regression", None),
        ("sk_breast_cancer", (569, 30), "classification", 2),
        ("sk_wine", (178, 13), "classification", 3),
        ("sk_iris", (150, 4), "classification", 3),
    ],
)
def test_tables_of_scikit_learn(key, shape, task, n_classes):
    data = load_dataset(key, offline=True)
    assert data.numbers().shape == shape
    assert data.task == task
    assert n_classes is None or len(set(data.target_values())) == n_classes
    assert len(data.sha256) == 64
    assert key in EMBEDDED


@pytest.mark.parametrize("name", SYNTHETIC)
def test_last_bits_do_not_matter(name, monkeypatch):
    """Another machine's sine and exponential give the same table: only the last bits of theirs differ."""
    expected = SYNTHETIC[name](n_rows=500, seed=3)
    for function in ("ablation_function", "illustration_curve"):
        exact = getattr(_synthetic, function)
        monkeypatch.setattr(_synthetic, function, lambda x, exact=exact: np.nextafter(exact(x), np.inf))
    assert SYNTHETIC[name](n_rows=500, seed=3).sha256 == expected.sha256


def test_the_tables_of_the_demo_have_the_effects_of_their_formulas():
    rentals = synthetic_rentals(50_000, seed=0)
    hour, temperature, wind, _ = rentals.numbers().T
    still = (wind < 12) & (abs(temperature - 20) < 1)
    noon, night = (rentals.target_values()[still & (hour == at)].mean() for at in (8, 2))
    assert night == pytest.approx(20, abs=3)
    assert noon == pytest.approx(420, abs=6)
    defects = synthetic_defects(50_000, seed=0)
    temperature, pressure, vibration, _ = defects.numbers().T
    calm = (vibration < 2) & (abs(pressure - 3.4) > 0.4)
    hot, cold = (defects.target_values()[calm & (abs(temperature - at) < 0.5)].mean() for at in (65, 45))
    assert hot == pytest.approx(1 / (1 + np.exp(-3)), abs=0.03)
    assert cold == pytest.approx(1 / (1 + np.exp(3)), abs=0.03)
