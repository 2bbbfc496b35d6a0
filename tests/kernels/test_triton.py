"""The Triton kernels: on a machine with a GPU they run on it, elsewhere in Triton's interpreter, in another process.

What the interpreter lets pass and the compiler refuses is found by compiling for a GPU that is not available.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

CASES = {
    "triton_cases_encoding.py": {"TRITON_INTERPRET": "1"},
    "triton_cases_members.py": {"TRITON_INTERPRET": "1"},
    "triton_cases_steps.py": {"TRITON_INTERPRET": "1"},
    "triton_cases_attention.py": {"TRITON_INTERPRET": "1"},
    "triton_cases_fixed_order.py": {"TRITON_INTERPRET": "1"},
    "triton_compiling.py": {},
}


@pytest.mark.skipif(
    torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
    reason="Triton runs on the GPU, or is interpreted already",
)
@pytest.mark.parametrize("file", CASES)
def test_triton_kernels(file):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: its kernels are not tested here (pip install triton)")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__).with_name(file))]
    done = subprocess.run(command, env=os.environ | CASES[file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
