"""Examples that need no data sets run as they are written."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import PAPER

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_encodings(tmp_path):
    run_example("encodings.py", tmp_path)
    for name in ("encodings", "bases", "features"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_of_the_guide(tmp_path):
    run_example("pictures.py", tmp_path, "encodings", "placements")
    for name in ("encodings", "placements"):
        assert (tmp_path / f"guide_{name}.png").read_bytes().startswith(b"\x89PNG")
    kept = list((EXAMPLES.parent / "docs" / "images").glob("guide_*.png"))
    assert len(kept) == 4
    assert max(path.stat().st_size for path in kept) < 100_000


def write_ranks(folder):
    for task in ("regression", "classification"):
        (folder / f"average_ranks_{task}.csv").write_text("method,m7\nStd,4.0\nPLE,1.0\nBS-Q,1.4\nIS-Q,3.6\n")


def test_ranks_of_a_paper(tmp_path):
    write_ranks(tmp_path)
    said = run_example("paper_ranks.py", tmp_path, tmp_path / "out")
    # q of Demsar's table for 4 methods is 2.569: 2.569 sqrt(4 * 5 / (6 * 39)) = 0.75, and 0.78 for 36 blocks.
    assert "critical difference of 4 methods over 39 blocks 0.75" in said
    assert "critical difference of 4 methods over 36 blocks 0.78" in said
    assert said.count("m7: PLE, BS-Q\n") == said.count("m7: IS-Q, Std\n") == 2
    for name in ("regression_m7.svg", "classification_m7.pdf"):
        assert (tmp_path / "out" / name).stat().st_size > 1000


def test_ranks_of_the_paper(tmp_path):
    said = run_example("paper_ranks.py", PAPER, tmp_path)
    # q for 14 methods is 3.354: 3.354 sqrt(14 * 15 / (6 * 39)) = 3.18 and 3.31.
    assert "14 methods over 39 blocks 3.18" in said
    assert "14 methods over 36 blocks 3.31" in said
    first = next(line for line in said.partition("classification")[2].splitlines() if "m30" in line)
    assert first == "  m30: PLE, IS-Q, IS-LGBM, IS-CART, IS-Grad-U", "within 3.31 of 3.33"
    assert len(list(tmp_path.glob("*.svg"))) == 6
