"""The cores that a process may use."""

import pytest

from knotwork import _cores

V1, V2 = "5:memory:/a\n4:cpu,cpuacct:/a/b\n1:name=systemd:/a\n", "0::/a/b\n"


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        (V2, {"a/b/cpu.max": "200000 100000"}, 2),
        (V2, {"a/b/cpu.max": "150000 100000"}, 1),
        (V2, {"a/b/cpu.max": "50000 100000"}, 1),
        (V2, {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
        (V2, {"cpu.max": "200000 100000"}, 2),
        (V2, {"a/b/cpu.max": "max 100000"}, _cores.NO_LIMIT),
        (V1, {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "100000\n"}, 3),
        (
            V1,
            {"cpu,cpuacct/a/b/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/a/b/cpu.cfs_period_us": "1\n"},
            _cores.NO_LIMIT,
        ),
        (V1, {"memory/a/cpu.cfs_quota_us": "1\n", "memory/a/cpu.cfs_period_us": "1\n"}, _cores.NO_LIMIT),
        (None, {"cpu.max": "100000 100000"}, _cores.NO_LIMIT),
    ],
)
def test_quota_of_control_groups(tmp_path, groups, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    if groups is not None:
        (tmp_path / "groups").write_text(groups)
    assert _cores.cores_of_quota(tmp_path, tmp_path / "groups") == cores


def test_usable_cores_obey_affinity_quota_and_a_given_number(monkeypatch):
    monkeypatch.setattr(_cores.os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(_cores, "cores_of_quota", lambda: 4)
    assert _cores.usable_cores(16) == 4
    assert _cores.usable_cores(3) == 3
    monkeypatch.setattr(_cores.os, "sched_getaffinity", lambda _: {1}, raising=False)
    assert _cores.usable_cores(16) == 1
