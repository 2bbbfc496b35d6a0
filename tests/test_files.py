"""A file is replaced as a whole, or stays as it was."""

import os

import pytest

from knotwork import _files as files
from knotwork._files import write_atomically, write_together


def test_a_file_is_written_and_replaced(tmp_path):
    for content in (b"first", b"second"):
        write_atomically(tmp_path / "a", lambda file, content=content: file.write(content))
        assert (tmp_path / "a").read_bytes() == content
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("moment", ["while it is written", "when it reaches the disk"])
def test_whatever_fails_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch, error, moment):
    (tmp_path / "a").write_bytes(b"before")

    def fail(*args):
        raise error

    def write(file):
        file.write(b"half")
        if moment == "while it is written":
            fail()

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(type(error)):
        write_atomically(tmp_path / "a", write)
    assert (tmp_path / "a").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a"]


def test_nobody_sees_half_a_file(tmp_path):
    def write(file):
        file.write(b"half")
        file.flush()
        assert not (tmp_path / "a").exists()
        assert [path.name for path in tmp_path.glob(files.UNFINISHED)] == os.listdir(tmp_path)

    write_atomically(tmp_path / "a", write)


def test_a_link_is_followed_and_a_missing_folder_is_an_error(tmp_path):
    (tmp_path / "there").write_bytes(b"before")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_atomically(str(tmp_path / "link"), lambda file: file.write(b"after"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_bytes() == b"after"
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "none" / "a", lambda file: file.write(b""))


def test_files_are_written_together_or_not_at_all(tmp_path):
    (tmp_path / "a").write_bytes(b"before")

    def fail(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_together({tmp_path / "a": lambda file: file.write(b"after"), tmp_path / "b": fail})
    assert (tmp_path / "a").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a"]
    write_together({tmp_path / name: lambda file: file.write(b"after") for name in "ab"})
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"after"] * 2
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
