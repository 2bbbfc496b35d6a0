"""What was found by attacking the library: paths, servers and modes of Python that are out of the ordinary."""

import gzip
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import knotwork as kw
from knotwork._files import check_writable, write_atomically
from knotwork.compare._run import _command
from knotwork.datasets import _loading
from knotwork.errors import DatasetUnavailableError

RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"a": RANDOM.normal(size=80), "b": RANDOM.uniform(size=80)})
TINY = {"encoding": "Std", "training": kw.TrainingConfig(max_epochs=1), "random_state": 0, "device": "cpu"}


def test_a_model_at_a_path_that_is_not_utf_8(tmp_path):
    path = tmp_path / os.fsdecode(b"b\xe4d.knotwork")
    kw.TabularRegressor(**TINY).fit(X, X["a"]).save(path)
    assert kw.load(path, device="cpu").predict(X).shape == (80,)


def test_pages_have_names_that_are_not_utf_8(tmp_path):
    from knotwork.compare._page import write_text

    write_text(tmp_path / "page.html", os.fsdecode(b"b\xe4d.csv"))
    assert (tmp_path / "page.html").read_text() == "b\\udce4d.csv"


def test_the_printed_command_is_one_for_the_shell(tmp_path):
    path = tmp_path / "my models; rm x" / "model.knotwork"
    done = subprocess.run(["sh", "-c", f"printf '%s|' {_command(path)}"], capture_output=True, text=True, check=True)
    assert done.stdout == f"knotwork|predict|{path}|new_rows.csv|"


def test_a_file_that_cannot_be_written_is_noticed_before_the_work(tmp_path):
    check_writable(tmp_path / "new" / "model.knotwork")
    assert list((tmp_path / "new").iterdir()) == []
    with pytest.raises(OSError, match="File name too long"):
        check_writable(tmp_path / ("x" * 240) / "y" / ("z" * 240))


def test_an_error_while_writing_names_the_file(tmp_path):
    def full(file):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match=r"No space left on device: '.*note.txt'"):
        write_atomically(tmp_path / "note.txt", full)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="be a file, not a pipe or a device"):
        kw._checks.check_file(tmp_path / "pipe", "table")


@pytest.mark.slow
def test_without_docstrings_lightgbm_is_refused_in_a_sentence():
    code = (
        "import numpy as np, knotwork as kw\n"
        "x = np.arange(90.0)[:, None]\n"
        "try:\n    kw.make_encoder('BS-LGBM', size=7).fit(x, x[:, 0])\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "" or "without docstrings, which python -OO and PYTHONOPTIMIZE=2 leave out" in done.stdout


@pytest.fixture
def slow_server():
    """The port of a server whose answers never end, a byte at a time: each arrives in time, all of them never would."""
    server, stop = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def send():
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=send)
    thread.start()
    yield server.getsockname()[1]
    stop.set()
    thread.join()
    server.close()


def test_a_server_that_sends_byte_after_byte_is_given_up(monkeypatch, slow_server):
    monkeypatch.setattr(_loading, "LIMITS", _loading.DownloadLimits(download=0.3))
    with pytest.raises(_loading._ArchiveError, match="not sent the whole answer in 0 seconds"):
        _loading._download(f"http://127.0.0.1:{slow_server}/table.zip")


SHUTTLE = SimpleNamespace(key="shuttle")


def test_so_is_one_that_scikit_learn_reads(monkeypatch, slow_server):
    monkeypatch.setattr(_loading, "LIMITS", _loading.DownloadLimits(download=0.3))
    monkeypatch.setattr("sklearn.datasets._openml._DATA_INFO", f"http://127.0.0.1:{slow_server}/{{}}")
    with pytest.raises(DatasetUnavailableError, match="not sent the whole answer in 0 seconds"):
        _loading._fetch_openml(SimpleNamespace(data_id=1), SHUTTLE)


@pytest.mark.parametrize(
    ("content", "packed", "words"),
    [(b"x" * 5000, False, "longer than 4000 bytes"), (b"x" * 90_000, True, "would have more than 50,000 bytes")],
)
def test_answers_for_scikit_learn_have_a_limit_of_size(monkeypatch, content, packed, words):
    monkeypatch.setattr(_loading, "LIMITS", _loading.DownloadLimits(archive=4000, member=50_000))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = gzip.compress(content) if packed else content
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if packed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        monkeypatch.setattr("sklearn.datasets._openml._DATA_INFO", f"http://127.0.0.1:{server.server_port}/{{}}")
        try:
            with pytest.raises(DatasetUnavailableError, match=words):
                _loading._fetch_openml(SimpleNamespace(data_id=1), SHUTTLE)
        finally:
            server.shutdown()
            thread.join()


def test_scikit_learn_takes_the_settings_of_a_download(monkeypatch):
    """Its checks of parameters refuse some in new versions."""
    seen = {}
    monkeypatch.setattr(_loading, "fetch_openml", lambda **given: seen.update(given) or SimpleNamespace(data=X))
    _loading._fetch_openml(SimpleNamespace(data_id=1), SHUTTLE)
    from sklearn.datasets import fetch_openml
    from sklearn.utils._param_validation import validate_parameter_constraints

    constraints = fetch_openml._skl_parameter_constraints
    validate_parameter_constraints(constraints, seen, caller_name="fetch_openml")


@pytest.mark.parametrize("target", [0.0, 7.5, -1e300])
def test_a_constant_target_is_predicted_exactly(target):
    model = kw.TabularRegressor(**TINY).fit(X, np.full(80, target))
    np.testing.assert_allclose(model.predict(X + 3.0), target, rtol=1e-12, atol=1e-12)


def test_predictions_need_no_column_that_the_model_ignores(tmp_path):
    from knotwork.compare import predict_table

    table = X.assign(customer_id=np.arange(80))
    model = kw.TabularRegressor(**TINY)
    with pytest.warns(UserWarning, match="'customer_id' is ignored"):
        model.fit(table, X["a"])
    model.save(tmp_path / "model.knotwork")
    X.to_csv(tmp_path / "new.csv", index=False)
    made = predict_table(tmp_path / "model.knotwork", tmp_path / "new.csv", out=tmp_path / "out.csv")
    np.testing.assert_allclose(made["prediction"], model.predict(table), atol=1e-6)


def test_columns_with_a_shape_are_in_no_pair():
    y = X["a"] - 3 * X["a"] * X["b"]
    model = kw.AdditiveRegressor(monotone={"a": "increasing"}, pairs=1).fit(X, y)
    assert model.term_names_ == ["a", "b"]
    with pytest.raises(ValueError, match="name no columns of monotone or curvature, got pairs='a'"):
        kw.AdditiveRegressor(monotone={"a": "increasing"}, pairs=[("a", "b")]).fit(X, y)


@pytest.mark.parametrize("values", [5e-324 * np.arange(80), np.append(np.zeros(79), 5e-324), 1e-310 * X["a"]])
def test_numbers_near_the_smallest_are_a_column(values):
    model = kw.AdditiveRegressor().fit(np.column_stack([values, X["b"]]), X["b"])
    assert model.score(np.column_stack([values, X["b"]]), X["b"]) > 0.99


def test_a_very_wide_file_is_refused_by_its_header(tmp_path, monkeypatch):
    from knotwork import _predictions
    from knotwork.compare import predict_table

    kw.TabularRegressor(**TINY).fit(X, X["a"]).save(tmp_path / "model.knotwork")
    monkeypatch.setattr(_predictions, "read_frame", lambda *given: pytest.fail("the file is read"))
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{place}" for place in range(200_000)) + "\n" + "1," * 199_999 + "1\n")
    with pytest.raises(ValueError, match="have the 2 columns .* got table='200000 columns'. wide.csv does not have"):
        predict_table(tmp_path / "model.knotwork", path)


@pytest.mark.parametrize("least_count", [1, 3])
def test_a_file_names_no_rarer_categories_than_asked_for(tmp_path, least_count):
    table = X.assign(customer=["Ada Lovelace", "Grace Hopper", "Grace Hopper", *["other"] * 40, *["third"] * 37])
    columns = kw.ColumnConfig(least_count=least_count)
    model = kw.TabularRegressor(**TINY, columns=columns).fit(table, X["a"])
    model.save(tmp_path / "model.knotwork")
    content = (tmp_path / "model.knotwork").read_bytes()
    assert (b"Lovelace" in content) == (b"Hopper" in content) == (least_count == 1)
    assert b"third" in content
    again = kw.load(tmp_path / "model.knotwork", device="cpu")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    if least_count > 1:
        np.testing.assert_array_equal(model.predict(table[:3]), model.predict(table[:3].assign(customer="new")))


def test_a_new_file_has_the_mode_of_the_process_and_a_replaced_one_keeps_its_own(tmp_path):
    path, model = tmp_path / "model.knotwork", kw.TabularRegressor(**TINY).fit(X, X["a"])
    before = os.umask(0o077)
    try:
        model.save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    model.save(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_unfinished_files_of_killed_processes_are_removed(tmp_path):
    names = [f".model.knotwork.{'0a' * 16}.tmp", f".model.knotwork.{'0b' * 16}.tmp", ".other.tmp"]
    for name in names:
        (tmp_path / name).write_bytes(b"half")
    for name in (names[0], names[2]):
        os.utime(tmp_path / name, (0, 0))
    write_atomically(tmp_path / "note.txt", lambda file: file.write(b"all"))
    assert sorted(os.listdir(tmp_path)) == sorted([*names[1:], "note.txt"])


def test_a_report_on_a_full_disk_leaves_no_folders(tmp_path, monkeypatch):
    from knotwork.report import _page

    def full(files):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_page, "write_together", full)
    pages = _page.ReportFiles(tmp_path, contents={tmp_path / "figures" / "a.svg": b"", tmp_path / "tables" / "b": b""})
    with pytest.raises(OSError, match="No space"):
        pages.write(tmp_path / "report.html", "text")
    assert os.listdir(tmp_path) == []
