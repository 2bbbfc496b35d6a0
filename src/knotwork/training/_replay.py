"""Work that is repeated many times: called as it is on a CPU, captured once and replayed on a GPU."""

import gc
from collections.abc import Callable
from typing import Any, final

import torch

__all__ = ["Replayed"]


@final
class Replayed:
    """A function without arguments and result that is called again and again on tensors that stay in place.

    On a GPU the first call runs as it is, which compiles what must be compiled; the second captures a CUDA graph, and
    from then on the graph is replayed, so that launching hundreds of small kernels costs what launching one does.

    Parameters
    ----------
    function : callable
        What is called. It must not wait for the device nor make decisions on the host that change.
    device : torch.device
        Where it works.
    pool : optional
        Memory pool to share with other graphs that are never replayed at the same time.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, pool: Any = None) -> None:
        self._function = function
        self._on_gpu = device.type == "cuda"
        self._pool = pool
        self._warm = False
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Do the work once."""
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
        """Free the graph now: one that is collected while another is captured would end the capture."""
        if self._graph is not None:
            self._graph.reset()
        self._graph = None

    def _capture(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        collecting = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(self._graph, pool=self._pool):
                self._function()
        finally:
            if collecting:
                gc.enable()

    def _run_aside(self) -> None:
        """Run on a stream of its own, as what is captured afterwards asks for."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._function()
        torch.cuda.current_stream().wait_stream(stream)
