"""A machine without data sets and without a network, a small registry, and a local server."""

import dataclasses
import io
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest

from knotwork.datasets import _loading as fetching
from knotwork.datasets import _registry as registry
from knotwork.datasets._registry import content_sha256


@pytest.fixture(autouse=True)
def bare_machine(tmp_path, monkeypatch):
    """No test of this folder sees the user's data sets, or a server on the network."""

    def refuse(**_):
        raise AssertionError("a test asked OpenML")

    for name in ("KNOTWORK_DATA", "KNOTWORK_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KNOTWORK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fetching, "UCI_SERVER", "http://127.0.0.1:9")
    monkeypatch.setattr(fetching, "fetch_openml", refuse)


def small_abalone():
    rows = [[0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15, "M", 15], [0.35, 0.265, 0.09, 0.2255, 0.0995, 0.0485,
            0.07, "M", 7], [0.53, 0.42, 0.135, 0.677, 0.2565, 0.1415, 0.21, "F", 9]]  # fmt: skip
    return pd.DataFrame(rows, columns=list(registry.DATASETS["abalone"].columns))


def small_shuttle():
    n = 60
    columns = {f"A{j}": range(j, j + n) for j in range(1, 10)}
    return pd.DataFrame({**columns, "class": ["1"] * 40 + ["4"] * 15 + ["5"] * 5})


def write_parquet(frame, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path, index=False)
    return path


@pytest.fixture
def small_registry(monkeypatch):
    """The registry as if these tables were those of the study; returns the tables."""
    tables = {"abalone": small_abalone(), "shuttle": small_shuttle()}
    changes = {"abalone": {}, "shuttle": {"subsample": 24, "n_classes": 3}}
    entries = dict(registry.DATASETS)
    for key, frame in tables.items():
        content = content_sha256(frame, entries[key].texts)
        entries[key] = dataclasses.replace(
            entries[key], n_rows=len(frame), content_sha256=content, sha256="0" * 64, **changes[key]
        )
    monkeypatch.setattr(registry, "DATASETS", entries)
    return tables


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def server(monkeypatch):
    """A server in the place of UCI's: a dict from paths to (status, body), to be filled by the test."""
    answers, release = {}, threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answers.get(self.path, (404, b"nothing here"))
            if body is None:
                release.wait(10)  # a server that is silent
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        monkeypatch.setattr(fetching, "UCI_SERVER", f"http://127.0.0.1:{running.server_port}")
        yield answers
        release.set()
        running.shutdown()
        thread.join()
