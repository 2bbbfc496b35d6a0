"""The Triton kernels: on a machine with a GPU they run on it, elsewhere in Triton's interpreter, in another process,
which takes seconds to start and therefore runs all files of a kind.

What the interpreter lets pass and the compiler refuses is found by compiling for a GPU that is not available.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FILES = {
    "interpreted": [f"triton_cases_{name}.py" for name in ("encoding", "members", "steps", "attention", "fixed_order")],
    "compiled": ["triton_compiling.py"],
}


@pytest.mark.skipif(
    torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
    reason="Triton runs on the GPU, or is interpreted already",
)
@pytest.mark.parametrize("way", ["interpreted", pytest.param("compiled", marks=pytest.mark.slow)])
def test_triton_kernels(way):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: its kernels are not tested here (pip install triton)")
    files = [str(Path(__file__).with_name(file)) for file in FILES[way]]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    environment = os.environ | ({"TRITON_INTERPRET": "1"} if way == "interpreted" else {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
