"""One damaged file does not stop a study: it is named, and everything else is read."""

import json
import os
import time

import pandas as pd
import pyarrow.parquet as pq
import pytest

from knotwork.report import load_plans, load_records
from knotwork.study import _folder as folder_files
from knotwork.study import load_histories, load_results, pack, run
from knotwork.study._folder import claim, process_home, read_table
from knotwork.study._records import RecordWarning, consolidate, write_records
from knotwork.study._status import study_status
from tests.study.cases import comparable, tiny_plan
from tests.study.test_records import row


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("finished")
    run(tiny_plan(sizes=[4, 5]), out, device="cpu")
    return out


@pytest.fixture
def study(finished, tmp_path):
    import shutil

    return shutil.copytree(finished, tmp_path / "study")


def first(study, pattern):
    return sorted(study.glob(pattern))[0]


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def test_a_flipped_bit_anywhere_in_a_record_is_noticed(tmp_path):
    path = write_records(tmp_path, "a", [row("k", error="x" * 50), row("l")])
    complete = path.read_bytes()
    for place in range(0, len(complete), 61):
        path.write_bytes(complete)
        flip(path, place)
        assert isinstance(read_table(path), str), f"byte {place}"
    path.write_bytes(complete)
    assert read_table(path)["key"].to_pylist() == ["k", "l"]


def test_a_text_like_a_checksum_in_a_column_is_no_checksum(tmp_path):
    path = write_records(tmp_path, "a", [row("k", error="knotwork-sha256:" + "1" * 64)])
    assert load_results(tmp_path)["key"].to_list() == ["k"]
    assert read_table(path)["error"].to_pylist() == ["knotwork-sha256:" + "1" * 64]


def test_a_record_with_a_damaged_footer_is_named(study):
    path = first(study, "records/*.parquet")
    content = path.read_bytes()
    place = content.rindex(b"dataset")
    path.write_bytes(content[:place] + b"\xff\xfe" + content[place + 2 :])
    os.utime(path)
    with pytest.warns(RecordWarning, match=f"{path.name} was changed or damaged"):
        assert len(load_results(study)) < 12


def test_a_footer_of_an_earlier_version_that_is_not_text_is_named(tmp_path):
    path = write_records(tmp_path, "a", [row("a")])
    table = pq.read_table(path).replace_schema_metadata({"metrics": "[]"})
    pq.write_table(table, path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"nrmse", b"\xff\xfe\xfd\xfc\xfb"))
    write_records(tmp_path, "b", [row("b")])
    with pytest.warns(RecordWarning, match=r"a.parquet cannot be read|a.parquet is not a record"):
        assert load_results(tmp_path)["key"].to_list() == ["b"]


def test_a_flipped_bit_in_the_copy_of_the_records_loses_nothing(study):
    complete = load_results(study)
    n_bytes = (study / "records.parquet").stat().st_size
    for place in range(0, n_bytes, n_bytes // 12):
        flip(study / "records.parquet", place)
        with pytest.warns(RecordWarning, match=r"records.parquet .*only a copy of the records"):
            pd.testing.assert_frame_equal(load_results(study), complete)
        flip(study / "records.parquet", place)
    flip(study / "records.parquet", n_bytes // 2)
    sentences = []
    run(tiny_plan(sizes=[4, 5]), study, device="cpu", report=sentences.append)
    assert any("records.parquet" in sentence for sentence in sentences)
    pd.testing.assert_frame_equal(load_results(study), complete)  # without a warning: the copy was written again


def test_a_truncated_trace_is_named(study, tmp_path):
    n_networks = load_histories(study)["key"].nunique()
    path = first(study, "histories/*.parquet")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.warns(RecordWarning, match=path.name):
        assert 0 < load_histories(study)["key"].nunique() < n_networks
    with pytest.warns(RecordWarning, match=path.name):
        assert pack(study, tmp_path / "copy", histories=True) == {"tiny": 10}


@pytest.mark.parametrize("damage", ["flipped", "truncated", "text", "deep", "another plan"])
def test_a_damaged_manifest_is_restored_from_the_records(study, tmp_path, damage):
    complete = comparable(load_records(study))
    path = first(study, "plans/*.json")
    content = path.read_text()
    path.write_text(
        {
            "flipped": content.replace(json.loads(content)["networks"][3][0], "f" * 64),
            "truncated": content[:-1],
            "text": "hello",
            "deep": "[" * 100_000,
            "another plan": content.replace('"tiny"', '"tiny2"'),
        }[damage]
    )
    with pytest.warns(RecordWarning, match=f"{path.name} is damaged.*taken from the records"):
        pd.testing.assert_frame_equal(comparable(load_records(study)), complete)
    with pytest.warns(RecordWarning, match=path.name):
        assert list(load_plans(study)) == [path.stem]
    status = study_status(study)[-1]
    assert (status.n_ok, list(status.problems)) == (10, [f"plans/{path.name}"])
    with pytest.warns(RecordWarning, match=path.name):
        pack(study, tmp_path / "copy")
    pd.testing.assert_frame_equal(comparable(load_results(tmp_path / "copy")), complete)
    sentences = []
    run(tiny_plan(sizes=[4, 5]), study, device="cpu", report=sentences.append)
    assert any(path.name in sentence for sentence in sentences)
    pd.testing.assert_frame_equal(comparable(load_records(study)), complete)  # without a warning


def test_networks_that_no_plan_lists_are_not_left_out_in_silence(study, tmp_path):
    write_records(study, "other", [row("k")])
    with pytest.warns(RecordWarning, match="1 networks .* belong to no plan"):
        pack(study, tmp_path / "copy")


@pytest.mark.parametrize("name", ["../../elsewhere", "a/b", "..", "", "a\nb", "a\\b", "x" * 101])
def test_names_that_lead_to_other_folders(name):
    with pytest.raises(ValueError, match="name must have 1 to 100 characters"):
        tiny_plan(name=name)
    with pytest.raises(ValueError, match="label of a backbone must have 1 to 100 characters"):
        tiny_plan(backbones=[{"name": "mlp", "label": name}])


def test_a_plan_of_an_earlier_version_with_such_a_name_is_packed_into_the_copy(study, tmp_path):
    path = first(study, "plans/*.json")
    content = {**json.loads(path.read_text()), "plan": "../../elsewhere"}
    del content["sha256"]
    path.write_text(json.dumps(content))
    target = tmp_path / "deep" / "copy"
    assert pack(study, target) == {"../../elsewhere": 10}
    assert [each.name for each in (target / "records").iterdir()] == [f"_.._elsewhere-{path.stem[:8]}.parquet"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["deep", "study"]
    assert len(load_results(target)) == 10


def write_lock(path, **holder):
    path.write_text(json.dumps({"token": "t", "home": "elsewhere", "pid": 1, **holder}))


def test_a_lock_dated_tomorrow_is_taken_over_after_two_minutes(tmp_path, monkeypatch):
    path = tmp_path / "slot.lock"
    write_lock(path)
    now, tomorrow = time.monotonic(), time.time() + 86_400
    os.utime(path, (tomorrow, tomorrow))
    assert claim(tmp_path, "slot") is None
    monkeypatch.setattr(folder_files.time, "monotonic", lambda: now + 100.0)
    assert claim(tmp_path, "slot") is None
    os.utime(path, (tomorrow + 10, tomorrow + 10))  # its process lives, with another clock
    monkeypatch.setattr(folder_files.time, "monotonic", lambda: now + 200.0)
    assert claim(tmp_path, "slot") is None
    monkeypatch.setattr(folder_files.time, "monotonic", lambda: now + 321.0)
    with claim(tmp_path, "slot") as lock:
        assert json.loads(path.read_text())["token"] == lock.token


@pytest.mark.parametrize("pid", [0, -1, 2**80, True, "1", None, 1.5, [1]])
def test_a_lock_with_a_senseless_process_is_taken_over_after_two_minutes(tmp_path, pid):
    path = tmp_path / "slot.lock"
    write_lock(path, home=process_home(), pid=pid)
    assert claim(tmp_path, "slot") is None
    long_ago = time.time() - 121.0
    os.utime(path, (long_ago, long_ago))
    with claim(tmp_path, "slot") as lock:
        assert lock is not None


def test_failures_dated_tomorrow_are_trained_again(tmp_path, monkeypatch):
    plan = tiny_plan(methods=["Std"], sizes=[])
    with monkeypatch.context() as patch:
        patch.setattr("knotwork.study._trainer.train", lambda *given, **settings: 1 / 0)
        patch.setattr("knotwork.study._runner.time.time", lambda clock=time.time: clock() + 86_400)
        assert run(plan, tmp_path, device="cpu").n_failed == 2
    assert run(plan, tmp_path, device="cpu").n_ok == 0
    assert run(plan, tmp_path, device="cpu", retry_failed=True).n_ok == 2


def test_the_copy_of_the_records_is_sealed(tmp_path):
    for name in "ab":
        write_records(tmp_path, name, [row(name)])
    consolidate(tmp_path)
    flip(tmp_path / "records.parquet", -60)
    with pytest.warns(RecordWarning, match=r"records\.parquet"):
        assert len(load_results(tmp_path)) == 2
