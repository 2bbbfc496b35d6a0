"""Functions whose work on a GPU is captured once and replayed."""

import gc
import threading
from collections.abc import Callable
from typing import Any, final

import torch

__all__ = ["Replayed"]

CAPTURING = threading.Lock()
"""Held while a graph is captured or freed: threads of other devices do so as well."""


@final
class Replayed:
    """A function without arguments and result that is called repeatedly on tensors that stay in place.

    On a GPU the first call runs directly, which compiles kernels; the second captures a CUDA graph, which is replayed
    from then on: launching hundreds of small kernels then costs as much as launching one. The function must not wait
    for the device, nor make decisions on the host that change. Graphs that are never replayed at the same time may
    share a memory `pool` and the `stream` of the capture, by which cuBLAS chooses its workspace.
    """

    def __init__(
        self, function: Callable[[], None], device: torch.device, pool: Any = None, stream: Any = None
    ) -> None:
        self._function = function
        self._on_gpu = device.type == "cuda"
        self._pool, self._stream = pool, stream
        self._warm = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run the function once."""
        if not self._on_gpu:
            self._function()
        elif not self._warm:
            self._run_aside()
            self._warm = True
        else:
            if self._graph is None:
                self._capture()
            assert self._graph is not None
            self._graph.replay()

    def release(self) -> None:
        """Free graph and function now: garbage collection of a graph during the capture of another would end it."""
        with CAPTURING:
            if self._graph is not None:
                self._graph.reset()
            self._graph = None
        del self._function  # it belongs to what owns this

    def _capture(self) -> None:
        about = {"pool": self._pool, "stream": self._stream, "capture_error_mode": "thread_local"}
        with CAPTURING:
            self._graph = torch.cuda.CUDAGraph()
            collecting = gc.isenabled()  # a collection might free a graph of an earlier stack
            gc.disable()
            try:
                with torch.cuda.graph(self._graph, **about):
                    self._function()
            finally:
                if collecting:
                    gc.enable()

    def _run_aside(self) -> None:
        """Run on a side stream, as torch requires before a capture."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._function()
        torch.cuda.current_stream().wait_stream(stream)
