"""Examples in docstrings and in the README run, and give what they say."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest

import knotwork

ROOT = Path(__file__).parents[1]
MODULES = ["knotwork", *(info.name for info in pkgutil.walk_packages(knotwork.__path__, "knotwork."))]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with np.printoptions(legacy=False):
        result = doctest.testmod(importlib.import_module(name), optionflags=flags)
    assert result.failed == 0


def python_blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_readme_examples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(ROOT / "README.md")
    assert blocks
    names = {}
    for block in blocks:  # in one namespace, as a reader would type them
        exec(compile(block, "README.md", "exec"), names)
