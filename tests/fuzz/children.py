"""A process that runs cases one after the other, with limits on time and memory; it may crash or hang."""

import importlib
import json
import os
import resource
import select
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 10.0
"""Longest duration of a case, in seconds of a core: other work on the machine must not count."""

PATIENCE = 120.0
"""Seconds without an answer after which a case hangs."""

MEMORY = 500e6
"""Bytes that a case may take beyond those of the libraries and of the cases before."""

ADDRESSES = 2**32
"""Addresses that the process may reserve beyond those of the libraries; a thread reserves many that it never uses."""

__all__ = ["Child"]


class Child:
    """Runs a function, given as ``"module:function"``, in another process, which is started again when it ends.

    `ask` returns a dict: ``{"result": ...}`` of the function, or ``{"error": ..., "ours": ..., "trace": ...}`` where
    ``"ours"`` is whether the error belongs to the library, or ``{"ended": ...}`` for a crash or a hang.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.children", self.function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", "the process did not start"
        return process

    def _end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def ask(self, **arguments: Any) -> dict[str, Any]:
        """Call the function."""
        self.process = self.process or self._start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        if line:
            answer: dict[str, Any] = json.loads(line)
            seconds, memory = answer["seconds"], answer["memory"]
            within = seconds <= SECONDS and memory <= MEMORY
            return answer if within else {"ended": f"after {seconds:.1f} s with {memory / 1e6:.0f} MB"}
        reason = f"no answer after {PATIENCE:g} s" if not ready else f"exit {self.process.wait()}"
        self._end()
        return {"ended": reason}


def _answer(function: Callable[..., Any], arguments: dict[str, Any], ours: tuple[type[BaseException], ...]) -> Any:
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        answer = {"result": function(**arguments)}
    except Exception as error:
        trace = "".join(traceback.format_exception(error))[-3000:]
        shown = f"{type(error).__name__}: {str(error)[:300]}"
        answer = {"error": shown, "ours": isinstance(error, ours), "trace": trace}
    memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return {**answer, "seconds": time.process_time() - started, "memory": memory}


def main() -> None:
    """Answer requests until the input ends."""
    from knotwork import errors

    ours = tuple(getattr(errors, name) for name in errors.__all__)
    module, name = sys.argv[1].split(":")
    function = getattr(importlib.import_module(module), name)
    out, sys.stdout = sys.stdout, sys.stderr  # nothing that is printed may look like an answer
    print("ready", file=out, flush=True)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES, used + ADDRESSES))
    for line in sys.stdin:
        print(json.dumps(_answer(function, json.loads(line), ours)), file=out, flush=True)


if __name__ == "__main__":
    main()
