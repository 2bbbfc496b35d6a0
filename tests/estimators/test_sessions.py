"""What a user sees: progress, Ctrl-C, time limits, and messages that name what is wrong and what to do."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork.errors import ArgumentError, ArgumentTypeError, ColumnTypeError
from knotwork.estimators import _steps as steps
from knotwork.nn import MLPConfig

SHORT = kw.TrainingConfig(max_epochs=2, batch_size=32)
X = np.random.default_rng(0).normal(size=(40, 2))
y = (X[:, 0] > 0).astype(int)


class AtEpoch100:
    """A progress bar that calls a function at the 100th epoch."""

    def __init__(self, act):
        self.act = act

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def stage(self, text):
        pass

    @contextmanager
    def part(self, *shares):
        yield self

    def __call__(self, report):
        if report.epoch == 100:
            self.act()


def fit_for_long():
    """Fit a network that would train for hours; return it with its table and target."""
    numbers = np.random.default_rng(0).normal(size=(500, 3))
    wanted = numbers[:, 0] + numbers[:, 1]
    training = kw.TrainingConfig(max_epochs=1_000_000, patience=1_000_000, batch_size=64)
    model = kw.TabularRegressor("BS-Q", MLPConfig(widths=(16,)), training=training, random_state=0)
    return model.fit(numbers, wanted, verbose=True), numbers, wanted


LONG = """
import signal

from knotwork.estimators import _steps as steps
from tests.estimators.test_sessions import AtEpoch100, fit_for_long

signal.signal(signal.SIGINT, signal.default_int_handler)  # it is missing in processes in the background
steps.ProgressBar = lambda: AtEpoch100(lambda: print("trains", flush=True))
model, numbers, wanted = fit_for_long()
signal.signal(signal.SIGINT, signal.SIG_IGN)
history = model.history_[0]
print("epochs", len(history["loss"]), "best", history["best_epoch"], model.trained_.interrupted)
print("r2", model.score(numbers, wanted))
"""


@pytest.mark.usefixtures("ctrl_c")
def test_after_ctrl_c_the_model_is_the_best_so_far(monkeypatch):
    """The signal arrives while the 100th epoch is reported, as Ctrl-C does in a terminal."""
    monkeypatch.setattr(steps, "ProgressBar", lambda: AtEpoch100(lambda: signal.raise_signal(signal.SIGINT)))
    with pytest.warns(UserWarning, match="stopped by Ctrl-C"):
        model, numbers, wanted = fit_for_long()
    history = model.history_[0]
    assert model.trained_.interrupted
    assert 1 <= history["best_epoch"] <= len(history["loss"]) <= 100
    assert model.score(numbers, wanted) > 0.5


@pytest.mark.slow  # a process of its own; the test above sends the same signal
def test_after_ctrl_c_in_another_process_the_model_is_the_best_so_far():
    process = subprocess.Popen(
        [sys.executable, "-c", LONG],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    try:
        assert process.stdout.readline() == "trains\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    _, epochs, _, best, interrupted = out.splitlines()[0].split()
    assert interrupted == "True"
    assert 1 <= int(best) <= int(epochs)
    assert float(out.splitlines()[1].split()[1]) > 0.5


@pytest.mark.parametrize("kind", [kw.TabularRegressor, kw.TabularClassifier])
def test_progress_is_shown_on_standard_error_if_asked_for(kind, capfd):
    for verbose in (False, True):
        kind(backbone=MLPConfig(widths=(8,)), training=SHORT).fit(X, y, verbose=verbose)
        out, err = capfd.readouterr()
        assert out == ""
        assert ("epoch" in err) == verbose


def test_a_time_limit_stops_after_an_epoch():
    training = kw.TrainingConfig(max_epochs=1_000_000, patience=1_000_000, time_limit=1e-6)
    model = kw.TabularRegressor(backbone=MLPConfig(widths=(8,)), training=training, random_state=0).fit(X, y)
    assert len(model.history_[0]["loss"]) == 1
    assert model.trained_.interrupted


@pytest.mark.parametrize("kind", [kw.TabularRegressor, kw.TabularClassifier])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoding": "BS"}, "encoding.*BS-Q"),
        (
            {"encoding": 3},
            "encoding must be 'auto', 'recommended', the name of a method, or a mapping from columns",
        ),
        ({"encoding": {"a": "PLE"}}, "encoding must name numerical columns.*numerical columns are"),
        (
            {"encoding": {0: "BS-Grad-U", 1: "BS-U"}},
            r"encoding must have learned knots for all.*for \[1\]",
        ),
        ({"backbone": "cnn"}, "backbone must be one of 'mlp', 'resnet', 'tabm', 'realmlp', 'ft'"),
        (
            {"backbone": 3},
            "backbone must be one of 'mlp', 'resnet', 'tabm', 'realmlp', 'ft' or the configuration of one",
        ),
        ({"effort": "much"}, "effort must be one of 'fast', 'balanced', 'best'"),
        ({"time_limit": 0}, "time_limit must be a number larger than 0"),
        ({"time_limit": "1 min"}, "time_limit must be a number larger than 0"),
        ({"encoding": "BS-Q@2"}, "size must be an integer of at least 4"),
        ({"encoding": "PLE@7.0"}, "encoding must be a name, or a name and a size as in 'BS-Q@15'"),
        ({"n_members": 0}, "n_members must be an integer of at least 1"),
        ({"columns": {"categorical": [1]}}, "columns must be a ColumnConfig.*Write ColumnConfig"),
        ({"columns": kw.ColumnConfig(categorical=[5])}, "categorical must be a list of positions.*Known are: 0, 1"),
        ({"validation": "0.1"}, "validation must be None, 'time', a share"),
        ({"search": "best"}, "search must be one of 'validated', 'ensemble', 'per-feature'"),
        ({"warm_start": 1}, "warm_start must be True or False"),
        ({"training": {"max_epochs": 3}}, "training must be a TrainingConfig.*Write TrainingConfig"),
        ({"device": "gpu"}, "device must be 'auto' or a device of torch"),
        ({"device": "cuda:7"}, "device must be available: torch sees 0 GPUs"),
        ({"device": None}, "device must be 'auto' or a device of torch"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"device": "ray:tpu"}, "device must be one of 'ray', 'ray:cpu', 'ray:cuda'"),
        ({"device": ["ray", "cpu"]}, "device must be 'auto' or a device of torch"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(kind, arguments, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        kind(**{"training": SHORT, **arguments}).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"categories": "onehot"}, "categories must be one of 'embedding', 'code'"),
        ({"missing": "mean"}, "missing must be one of 'zeros', 'learned'"),
        ({"dates": "drop"}, "dates must be one of 'features', 'error'"),
        ({"categorical": "town"}, "categorical must be a list of columns, got .*Write categorical="),
        ({"categorical": 3}, "categorical must be a list of columns"),
    ],
    ids=str,
)
def test_wrong_settings_of_columns_are_named(settings, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        kw.ColumnConfig(**settings)


@pytest.mark.parametrize("of", [list, tuple, np.array, pd.Index, set, dict.fromkeys, iter], ids=lambda of: of.__name__)
def test_categorical_columns_may_be_any_sequence(of):
    assert set(kw.ColumnConfig(categorical=of(["a", "b"])).categorical) == {"a", "b"}
    assert kw.ColumnConfig(categorical=of([1])).categorical == (1,)


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "class_weight must be 'balanced' or a mapping"),
        ({2: 1.0}, "class_weight must name classes of y: 0, 1"),
        ({0: -1.0}, "class_weight must be finite and non-negative"),
        ({0: "heavy"}, "class_weight must be"),
        ({0: 0.0, 1: 0.0}, "class_weight must"),
    ],
)
def test_wrong_class_weights_are_named(class_weight, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        kw.TabularClassifier(training=SHORT, objective=kw.LogLoss(class_weight)).fit(X, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "sample_weight must be one-dimensional, with as many values as X has rows, 40"),
        (-np.ones(40), "sample_weight must be finite and non-negative"),
        (["a"] * 40, "sample_weight must be numbers"),
    ],
)
def test_wrong_sample_weights_are_named(weights, message):
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        kw.TabularRegressor(training=SHORT).fit(X, y, sample_weight=weights)


def test_metrics_of_the_other_task_are_refused():
    with pytest.raises(ArgumentError, match="metric must be valid for regression"):
        kw.TabularRegressor(training=kw.TrainingConfig(metric="auc")).fit(X, y)


def test_dates_are_refused_with_advice():
    frame = pd.DataFrame({"a": np.arange(40.0), "when": pd.date_range("2020-01-01", periods=40)})
    with pytest.raises(ColumnTypeError, match="column 'when'.*days since"):
        kw.TabularRegressor(training=SHORT, columns=kw.ColumnConfig(dates="error")).fit(frame, y)
