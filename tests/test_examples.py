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


def test_pages_of_the_gallery_have_the_present_script():
    """Where this fails, write them again: python examples/gallery.py docs/gallery."""
    source = EXAMPLES.parent / "src" / "knotwork" / "_explore"
    parts = [path.read_text() for path in (*sorted(source.glob("*.js")), source / "page.css")]
    pages = sorted((EXAMPLES.parent / "docs" / "gallery").glob("*.html"))
    assert len(pages) == 4
    guide = (EXAMPLES.parent / "docs" / "gallery.md").read_text()
    for page in pages:
        assert all(part in page.read_text() for part in parts), page
        assert f"gallery/{page.name}#" in guide


def test_pictures_of_the_guide(tmp_path):
    run_example("pictures.py", tmp_path, "encodings", "placements")
    for name in ("encodings", "placements"):
        assert (tmp_path / f"guide_{name}.png").read_bytes().startswith(b"\x89PNG")
    kept = list((EXAMPLES.parent / "docs" / "images").glob("guide_*.png"))
    assert len(kept) == 4
    assert max(path.stat().st_size for path in kept) < 100_000
