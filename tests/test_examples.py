"""Examples that need no data sets run as they are written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from knotwork._explore._page import TABLE_SCRIPTS
from knotwork.report import LIGHT

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow  # its figures are those of tests/report/test_illustrations.py
def test_encodings(tmp_path):
    run_example("encodings.py", tmp_path)
    for name in ("encodings", "bases", "features"):
        assert is_pair(tmp_path / f"{name}.svg")


def test_pages_of_the_gallery_have_the_present_script():
    """Where this fails, write them again: python examples/gallery.py docs/gallery."""
    source = EXAMPLES.parent / "src" / "knotwork" / "_explore"
    scripts = [source / f"{name}.js" for name in TABLE_SCRIPTS]
    parts = [path.read_text() for path in (*scripts, source / "page.css")]
    pages = sorted((EXAMPLES.parent / "docs" / "gallery").glob("*.html"))
    assert len(pages) == 4
    guide = (EXAMPLES.parent / "docs" / "gallery.md").read_text()
    for page in pages:
        assert all(part in page.read_text() for part in parts), page
        assert f"gallery/{page.name}#" in guide


@pytest.mark.slow  # as above
def test_pictures_of_the_guide(tmp_path):
    run_example("pictures.py", tmp_path, "encodings", "placements")
    for name in ("encodings", "placements"):
        assert is_pair(tmp_path / f"guide_{name}.svg")


def test_images_of_the_guide_are_pairs_of_one_style():
    images = EXAMPLES.parent / "docs" / "images"
    light = [path for path in images.glob("*.svg") if not path.stem.endswith("_dark")]
    assert len(light) >= 6
    assert all(is_pair(path) and path.stat().st_size < 250_000 for path in light)
    text = "".join(path.read_text() for path in (images.parent).glob("*.md"))
    for name in re.findall(r"images/(\w+)\.svg#only-light", text):
        assert f"images/{name}_dark.svg#only-dark" in text
        assert (images / f"{name}.svg").exists()


def is_pair(path):
    """Return whether a light figure has a dark one beside it: the same but for its colours."""
    light, dark = path.read_text(), path.with_stem(f"{path.stem}_dark").read_text()
    colour = re.compile("#[0-9a-f]{6}", re.IGNORECASE)
    return light != dark and colour.sub("", light) == colour.sub("", dark) and LIGHT.ink.lower() in light.lower()
