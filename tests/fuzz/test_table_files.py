"""Damaged table files: no crash, no hang, no lost rows, no error that is not ours, and little memory.

``KNOTWORK_FUZZ=full`` reads 1,000 files of each kind instead of 40. Files are read in one child process, since a crash
would end the tests.
"""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.fuzz.table_worker import VARIANTS

N_FILES = 1000 if os.environ.get("KNOTWORK_FUZZ") == "full" else 40
MOST_MEMORY = 2.5 * 2**20
"""Kilobytes; a table may take 1 GiB before it is refused, and twice that while it is decoded."""


def test_damaged_tables_are_read_whole_or_refused(tmp_path):
    worker = Path(__file__).with_name("table_worker.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", worker, str(N_FILES), tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"exit {done.returncode} after {lines[-1:]}: {done.stderr[-2000:]}"
    outcomes = [line.split(maxsplit=3) for line in lines if line.startswith("end")]
    wrong = [" ".join(words) for words in outcomes if not words[3].startswith(("rows ", "refused"))]
    assert not wrong, "\n".join(wrong[:20])
    counts = Counter((kind, result.split()[0]) for _, kind, _, result in outcomes)
    for kind in VARIANTS:  # neither are all files refused, nor does damage go unnoticed
        assert counts[kind, "rows"] + counts[kind, "refused"] == N_FILES
        assert counts[kind, "rows"] >= N_FILES / 20
        assert counts[kind, "refused"] >= N_FILES / 20
    assert int(lines[-1].removeprefix("peak ")) < MOST_MEMORY
