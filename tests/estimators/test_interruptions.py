"""Ctrl-C in the training of an ensemble: the model is the best so far, and no thread goes on."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import knotwork as kw
from knotwork._trees import TREE_NAMES
from knotwork.estimators import _steps as steps
from knotwork.training import _engine as engine

X = np.random.default_rng(0).normal(size=(300, 3))
y = X[:, 0] + X[:, 1] ** 2

ENSEMBLE = """
from contextlib import contextmanager
import signal
import threading

import numpy as np
import knotwork as kw
from knotwork.estimators import _steps as steps
from knotwork.training import ProgressBar


class Announcing:
    def __enter__(self):
        self.bar = ProgressBar().__enter__()
        return self

    def __exit__(self, *error):
        self.bar.__exit__(*error)

    def stage(self, text):
        self.bar.stage(text)

    @contextmanager
    def part(self, *shares):
        with self.bar.part(*shares):
            yield self

    def __call__(self, report):
        self.bar(report)
        if report.epoch == 2:
            print("trains", flush=True)


signal.signal(signal.SIGINT, signal.default_int_handler)  # it is missing in processes in the background
steps.ProgressBar = Announcing
X = np.random.default_rng(0).normal(size=(2000, 3))
try:
    model = kw.TabularRegressor(effort="best", random_state=0, device="cpu").fit(X, X[:, 0], verbose=True)
    print("r2", model.score(X, X[:, 0]), model.trained_.interrupted)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("stopped")
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("threads", sum(thread.name.startswith("knotwork") for thread in threading.enumerate()))
"""


@pytest.fixture
def process(tmp_path):
    (tmp_path / "ensemble.py").write_text(ENSEMBLE)
    command = [sys.executable, tmp_path / "ensemble.py"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    yield started
    started.kill()
    started.communicate()


def stop_in(monkeypatch, epoch):
    """Press Ctrl-C at the end of an epoch of the first stack."""
    original = steps.train_spread

    def stop(report):
        if report.epoch == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        steps, "train_spread", lambda *given, **settings: original(*given, **{**settings, "report": stop})
    )


@pytest.mark.parametrize(
    ("kind", "effort"),
    [
        (kw.TabularRegressor, "fast"),
        (kw.TabularClassifier, "balanced"),
        pytest.param(kw.TabularClassifier, "fast", marks=pytest.mark.slow),
        pytest.param(kw.TabularRegressor, "balanced", marks=pytest.mark.slow),
    ],
)
def test_an_ensemble_is_that_of_the_epochs_so_far(monkeypatch, kind, effort):
    stop_in(monkeypatch, 3)
    target = y if kind is kw.TabularRegressor else y > 1
    with pytest.warns(UserWarning, match="stopped by Ctrl-C before its end: the model is the best so far"):
        model = kind(effort=effort, random_state=0, device="cpu").fit(X, target)
    assert model.trained_.interrupted
    of_networks = [history for history, backbone in zip(model.history_, model.backbones_, strict=True) if backbone]
    assert {len(history["loss"]) for history in of_networks} <= {3}
    finished = [np.isfinite(each["score"]) for each in networks_tried(model)]
    assert finished == [True] + [False] * (len(finished) - 1)
    assert np.isfinite(model.validation_score_)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_stops_a_loop_over_fits():
    """The first one cuts one fit short, which the loop does not see; the second one is in the next fit."""
    fits = []

    def interrupt(report):
        if report.epoch == 2:
            fits.append(report)
            signal.raise_signal(signal.SIGINT)

    model = kw.TabularRegressor("Std", training=kw.TrainingConfig(max_epochs=100), random_state=0, device="cpu")
    options = {"cv": 4, "params": {"callbacks": [interrupt]}}
    with pytest.warns(UserWarning, match="press Ctrl-C again to stop the loop"), pytest.raises(KeyboardInterrupt):
        cross_val_score(model, X, y, **options)
    assert len(fits) == 2


def networks_tried(model):
    return [each for each in model.candidates_ if each["backbone"] not in TREE_NAMES]


def test_ctrl_c_while_the_next_stack_is_set_up_keeps_the_one_before(monkeypatch):
    original, built = engine.starting_stacks, []

    def build(*given, **settings):
        built.append(1)
        if len(built) == 2:
            raise KeyboardInterrupt
        return original(*given, **settings)

    monkeypatch.setattr(engine, "starting_stacks", build)
    with pytest.warns(UserWarning, match="stopped by Ctrl-C"):
        model = kw.TabularRegressor(effort="balanced", random_state=0, device="cpu").fit(X, y)
    assert model.trained_.interrupted
    finished = [np.isfinite(each["score"]) for each in networks_tried(model)]
    assert finished == [True] + [False] * (len(finished) - 1)
    assert model.score(X, y) > 0.5


def test_a_signal_ends_the_training_of_an_ensemble(process):
    assert process.stdout.readline() == "trains\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "networks" in err  # the line of the progress bar
    r2, threads = out.splitlines()[-2:]
    assert float(r2.split()[1]) > 0.0
    assert r2.endswith("True")
    assert threads == "threads 0"


@pytest.mark.slow  # a second process; that one signal leaves no thread is shown by the test above
def test_a_second_signal_leaves_no_thread(process):
    assert process.stdout.readline() == "trains\n"
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "threads 0"
