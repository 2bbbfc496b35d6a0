"""Examples that need no data sets run as they are written."""

import subprocess
import sys
from pathlib import Path

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
