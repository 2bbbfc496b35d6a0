"""Downloads from a local server: valid tables, mismatches and outages."""

import os
import socket
from types import SimpleNamespace
from urllib.error import URLError

import pandas as pd
import pytest

from knotwork.datasets import DATASETS, _loading, cache_folder, fetch_dataset, load_dataset
from knotwork.datasets._loading import DATASET_SOURCES, ByHand, OpenML, UCIArchive
from knotwork.datasets._registry import content_sha256
from knotwork.errors import DatasetMismatchError, DatasetUnavailableError
from tests.datasets.conftest import zipped

ABALONE = "/static/public/1/abalone.zip"
LINES = (
    b"M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15\nM,0.35,0.265,0.09,0.2255,0.0995,0.0485,0.07,7\n"
    b"F,0.53,0.42,0.135,0.677,0.2565,0.1415,0.21,9\n"
)


def test_a_download_is_checked_and_stored(small_registry, server):
    server[ABALONE] = (200, zipped(**{"abalone.data": LINES}))
    data = load_dataset("abalone")
    assert data.frame["Sex"].tolist() == ["M", "M", "F"]
    path = cache_folder() / "abalone.parquet"
    assert os.listdir(cache_folder()) == [path.name]
    server.clear()  # from here on the server has nothing
    assert load_dataset("abalone").sha256 == data.sha256
    assert fetch_dataset("abalone") == path
    path.write_bytes(b"damaged")
    with pytest.raises(DatasetUnavailableError):  # a damaged file is fetched again
        fetch_dataset("abalone")
    server[ABALONE] = (200, zipped(**{"abalone.data": LINES}))
    assert load_dataset("abalone", offline=fetch_dataset("abalone") != path).n_rows == 3


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (LINES[:-1].replace(b"0.53,", b"0.54,"), "values differ"),
        (LINES + LINES, "must have 3 rows, got 6"),
        (LINES.replace(b"0.455", b"long"), "column 'Length' must hold numbers"),
        (b"", "must have 3 rows, got 0"),
        (LINES + b"1,2,3,4,5,6,7,8,9,10,11\n", "cannot be read"),
    ],
)
def test_another_table_raises_an_error_and_is_not_stored(small_registry, server, lines, words):
    server[ABALONE] = (200, zipped(**{"abalone.data": lines}))
    with pytest.raises(DatasetMismatchError, match=f"UCI 1 does not match.*{words}.*Nothing was kept.*read_table"):
        fetch_dataset("abalone")
    assert not cache_folder().exists()


def patched(archive, *, flags=0, method=None, size=None):
    """Return an archive of one file with other flags, method of compression or size in both of its headers."""
    changed = bytearray(archive)
    for start, offset in ((archive.index(b"PK\x03\x04"), 6), (archive.index(b"PK\x01\x02"), 8)):
        place = start + offset
        changed[place] |= flags
        if method is not None:
            changed[place + 2 : place + 4] = method.to_bytes(2, "little")
        if size is not None:
            changed[place + 16 : place + 20] = size.to_bytes(4, "little")
    return bytes(changed)


PACKED = zipped(**{"abalone.data": LINES * 50})
DATA = PACKED.index(b"abalone.data") + len("abalone.data")


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (patched(PACKED, flags=1), "'abalone.data' of the server's archive is encrypted"),
        (patched(PACKED, method=99), "packed in a way that Python cannot unpack"),
        (patched(PACKED, size=4_000_000_000), "would have 4,000,000,000 bytes"),
        (patched(PACKED, size=100), "is damaged"),
        (PACKED[:DATA] + b"\x00\xff" * 20 + PACKED[DATA + 40 :], "is damaged"),
        (PACKED[:-30], "not a ZIP archive, or is damaged"),
        (PACKED[: len(PACKED) // 2], "not a ZIP archive, or is damaged"),
        (zipped(**{"abalone.data": b"x" * 30_000}), "would have 30,000 bytes"),
        (b"PK" + b"0" * 70_000, "longer than 60,000 bytes"),
    ],
)
def test_archives_that_cannot_be_unpacked(small_registry, server, archive, words, monkeypatch):
    monkeypatch.setattr(_loading, "LIMITS", _loading.DownloadLimits(archive=60_000, member=20_000))
    server[ABALONE] = (200, archive)
    with pytest.raises(DatasetUnavailableError, match=f"could not be downloaded from .*{words}.*Next: try again later"):
        fetch_dataset("abalone")
    assert not cache_folder().exists()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((503, b"down"), "answered 503"),
        ((404, b"gone"), "answered 404"),
        ((200, b"<html>maintenance</html>"), "not a ZIP archive"),
        ((200, zipped(readme=b"moved")), "has no file.*abalone.data"),
        ((200, None), "(timed out|Timeout)"),
    ],
    ids=["503", "404", "page", "archive", "silence"],
)
def test_the_error_for_an_outage_names_server_reason_and_next_step(server, monkeypatch, answer, words):
    if answer[1] is None:  # a busy machine may need longer for the others
        monkeypatch.setattr(_loading, "LIMITS", _loading.DownloadLimits(connection=0.3))
    server[ABALONE] = answer
    with pytest.raises(DatasetUnavailableError, match=words) as caught:
        load_dataset("abalone")
    for part in ("'abalone'", _loading.UCI_SERVER, "try again later", "KNOTWORK_DATA", "KNOTWORK_OFFLINE=1"):
        assert part in str(caught.value)


def test_no_connection():
    with pytest.raises(DatasetUnavailableError, match="127.0.0.1:9/static/public/1/abalone.zip.*refused"):
        fetch_dataset("abalone")


def test_a_write_that_fails_leaves_nothing(small_registry, server, monkeypatch):
    server[ABALONE] = (200, zipped(**{"abalone.data": LINES}))

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        fetch_dataset("abalone")
    assert os.listdir(cache_folder()) == []


@pytest.mark.parametrize("key", [key for key, source in DATASET_SOURCES.items() if isinstance(source, ByHand)])
def test_a_table_without_a_server_is_explained(key):
    with pytest.raises(
        DatasetUnavailableError, match=f"'{key}'.*cannot be built from a download.* Take .*KNOTWORK_DATA"
    ):
        fetch_dataset(key)


def test_openml(small_registry, monkeypatch):
    seen = {}

    def answer(**options):
        seen.update(options, timeout=socket.getdefaulttimeout())
        table = small_registry["shuttle"].astype({"class": "category", "A1": float})
        return SimpleNamespace(data=table[list(reversed(table.columns))].assign(id=0))

    monkeypatch.setattr(_loading, "fetch_openml", answer)
    data = load_dataset("shuttle")
    assert (seen["data_id"], seen["timeout"]) == (40685, _loading.LIMITS.connection)
    assert socket.getdefaulttimeout() is None
    assert tuple(data.frame.columns) == DATASETS["shuttle"].columns
    assert sorted(set(data.target_values())) == ["1", "4", "5"]


def test_openml_with_other_columns(small_registry, monkeypatch):
    table = small_registry["shuttle"].rename(columns={"A1": "V1"})
    monkeypatch.setattr(_loading, "fetch_openml", lambda **_: SimpleNamespace(data=table))
    with pytest.raises(DatasetMismatchError, match="OpenML 40685.*columns are missing: 'A1'; it has 'V1'"):
        fetch_dataset("shuttle")


@pytest.mark.parametrize("error", [URLError("no route"), TimeoutError("timed out"), ValueError("412: unknown id")])
def test_openml_down(monkeypatch, error):
    def fail(**_):
        raise error

    monkeypatch.setattr(_loading, "fetch_openml", fail)
    with pytest.raises(DatasetUnavailableError, match=r"https://www.openml.org/d/40685: .*(no route|timed out|412)"):
        fetch_dataset("shuttle")


def as_csv(frame, columns=None, **options):
    return frame[columns or list(frame.columns)].to_csv(index=False, **options).encode()


def archive_of(key, frame):  # noqa: PLR0911 - one case after the other
    """What UCI's archive of a data set looks like, written from our table."""
    spec = DATASETS[key]
    if key == "abalone":
        return zipped(**{"abalone.data": as_csv(frame, ["Sex", *spec.numerical, "Rings"], header=False)})
    if key == "pulsar":
        return zipped(**{"HTRU_2.csv": as_csv(frame, header=False)})
    if key == "wine_quality":
        red, white = as_csv(frame[:1599], sep=";"), as_csv(frame[1599:], sep=";")
        return zipped(**{"winequality-red.csv": red, "winequality-white.csv": white})
    if key in ("bank", "marketing"):
        unknown = frame.iloc[:3].assign(job="unknown")
        rows = pd.concat([unknown, frame]) if key == "marketing" else frame
        return zipped(**{"bank.zip": zipped(**{"bank-full.csv": as_csv(rows, sep=";", quoting=2)})})
    if key == "eeg":
        head = "@RELATION eeg\n" + "".join(f"@ATTRIBUTE {name} NUMERIC\n" for name in spec.numerical)
        lines = as_csv(frame, header=False)
        return zipped(**{"EEG Eye State.arff": f"{head}@ATTRIBUTE eyeDetection {{0,1}}\n@DATA\n".encode() + lines})
    if key == "adult":
        names = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
                 "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
                 "income"]  # fmt: skip
        text = as_csv(frame.assign(fnlwgt=1), names, header=False).replace(b",", b", ").splitlines(keepends=True)
        test = b"|1x3 Cross validator\n" + b"".join(line.replace(b"\n", b".\n") for line in text[32561:]) + b"\n"
        return zipped(**{"adult.data": b"".join(text[:32561]), "adult.test": test})
    return zipped(**{DATASET_SOURCES[key].members[0]: as_csv(frame.assign(other=1))})


ARCHIVES = [key for key, source in DATASET_SOURCES.items() if isinstance(source, UCIArchive)]


@pytest.mark.parametrize("key", [*ARCHIVES[:3], *(pytest.param(key, marks=pytest.mark.slow) for key in ARCHIVES[3:])])
def test_recipes_give_back_the_real_tables(data_folder, server, key):
    source, frame = DATASET_SOURCES[key], pd.read_parquet(data_folder / f"{key}.parquet")
    server[f"/static/public/{source.dataset_id}/{source.archive}.zip"] = (200, archive_of(key, frame))
    fetched = pd.read_parquet(fetch_dataset(key))
    pd.testing.assert_frame_equal(fetched, frame, check_dtype=False)


@pytest.mark.parametrize("key", [key for key, source in DATASET_SOURCES.items() if isinstance(source, OpenML)])
def test_real_tables_survive_the_types_of_openml(data_folder, monkeypatch, key):
    spec, frame = DATASETS[key], pd.read_parquet(data_folder / f"{key}.parquet")
    sent = frame.astype(dict.fromkeys(spec.texts, "category"))
    monkeypatch.setattr(_loading, "fetch_openml", lambda **_: SimpleNamespace(data=sent))
    fetched = pd.read_parquet(fetch_dataset(key))
    assert content_sha256(fetched, spec.texts) == spec.content_sha256
