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


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path, mode):
    (tmp_path / "a").write_bytes(b"before")
    (tmp_path / "a").chmod(mode)

    def write(file):
        assert os.fstat(file.fileno()).st_mode & 0o777 == mode, "somebody could read it while it is written"
        file.write(b"after")

    write_atomically(tmp_path / "a", write)
    assert (tmp_path / "a").read_bytes() == b"after"
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_mode_of_any_other(tmp_path):
    (tmp_path / "other").write_bytes(b"")
    write_atomically(tmp_path / "a", lambda file: file.write(b""))
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_several_files_are_all_replaced_or_none(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(b"before")

    def write(file):
        file.write(b"after")

    def fail(file):
        assert (tmp_path / "a").read_bytes() == b"before"
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_together({tmp_path / "a": write, tmp_path / "b": fail})
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == {"a": b"before", "b": b"before"}
    write_together({tmp_path / name: write for name in "abc"})
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == dict.fromkeys("abc", b"after")


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"The folder \S*nowhere does not exist\. Create it"):
        write_atomically(tmp_path / "nowhere" / "model.knotwork", lambda file: file.write(b""))
