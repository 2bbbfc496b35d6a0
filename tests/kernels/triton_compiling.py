"""Compile the Triton kernels of stacks for an H100, without one: whatever is launched is compiled instead.

The interpreter lets pass what the compiler refuses, such as a variable that changes its shape. `test_triton` runs
this file in a process of its own, because it takes Triton's driver away.
"""

import ctypes
import struct
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from knotwork._kernels import dispatch, encoding_triton, launching
from knotwork._kernels.dropout import Noise
from knotwork._kernels.encoding import Knots, StackPart, encode
from knotwork._kernels.fixed_order import fixed_order, look_up
from knotwork.basis._families import Functions
from knotwork.nn._encoding import SplineEncoding
from knotwork.nn._flat import MLP, RealMLP, ResNet
from knotwork.nn._ft_transformer import FTTransformer

WAYS = ("forward", "backward")


class NoGPU:
    """What the compiler asks of a driver."""

    @staticmethod
    def get_current_target():
        return GPUTarget("cuda", 90, 32)

    @staticmethod
    def get_current_device():
        return 0

    @staticmethod
    def get_current_stream(device):
        return device


class NoCuda:
    """What launches code: it does nothing."""

    @staticmethod
    def cuLaunchKernel(*arguments):  # noqa: N802 - its name in the driver
        assert len(arguments) == 11
        return 0


NAMES = []


class Recorded:
    """Compiled code, whose launches are recorded by its name in `NAMES`; its arguments are packed as on a GPU."""

    def __init__(self, compiled):
        self.name = compiled.name
        self.loaded = launching._Loaded(0, 128, 0, list(compiled.src.signature.values()))
        self.is_argument = self.loaded.is_argument

    def launch(self, grid, arguments):
        NAMES.append(self.name)
        self.loaded.launch(grid, arguments)


@pytest.fixture
def compiled(monkeypatch):
    """Return a list of the names of launched kernels; results of kernels are whatever lies in memory."""
    driver.set_active(NoGPU())
    NAMES.clear()
    monkeypatch.setattr(launching, "_loaded", Recorded)
    monkeypatch.setattr(launching, "_cuda", NoCuda)
    monkeypatch.setattr(dispatch, "on_triton", lambda tensor: tensor.dtype in (torch.float32, torch.bfloat16))
    return NAMES


def noise():
    return Noise(torch.tensor([3, 4]), torch.tensor([0, 0]))


# Products of float32 take the compiler as long as all of bfloat16, and are what the interpreter multiplies: usually
# those of bfloat16 are compiled, with narrower heads than networks have.
@pytest.mark.parametrize(
    ("tokens", "dtype", "width"),
    [
        ("feature", torch.bfloat16, 64),
        ("coordinate", torch.bfloat16, 64),
        pytest.param("feature", torch.bfloat16, 192, marks=pytest.mark.slow),
        pytest.param("coordinate", torch.float32, 192, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_ft_transformer(compiled, tokens, dtype, width):
    network = FTTransformer([7] * 4, 1, cardinalities=[3], tokens=tokens, n_blocks=2, d_token=width, n_members=2).to(
        dtype
    )
    blocks = torch.rand(2, 32, 4, 7, requires_grad=True)
    network.forward_stack(blocks, torch.zeros(2, 32, 1, dtype=torch.int64), noise=noise()).sum().backward()
    network.eval()(blocks.detach(), torch.zeros(2, 32, 1, dtype=torch.int64))
    directed = {f"_{name}_{way}" for name in ("attention", "first", "layer_norm", "reglu") for way in WAYS}
    assert directed | {"_tokens_forward", "_weights_backward", "_blocks_backward"} <= set(compiled)


@pytest.mark.parametrize(
    ("dtype", "width"),
    [
        (torch.bfloat16, 64),
        pytest.param(torch.bfloat16, 192, marks=pytest.mark.slow),
        pytest.param(torch.bfloat16, 800, marks=pytest.mark.slow),
        pytest.param(torch.float32, 192, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_ft_transformer_with_many_tokens(compiled, dtype, width):
    network = FTTransformer([30] * 9, 1, tokens="coordinate", n_blocks=2, d_token=width, n_members=2).to(dtype)
    network.forward_stack(torch.rand(2, 4, 9, 30), None, noise=noise()).sum().backward()
    assert {"_tiled_forward", "_queries_backward", "_keys_backward"} <= set(compiled)
    assert "_attention_forward" not in compiled


@pytest.mark.parametrize("long_from", [dispatch.LONG_FROM, 0])
@pytest.mark.parametrize(
    ("kind", "kernels"), [(MLP, {"_bias_act_forward", "_bias_act_backward"}), (ResNet, {"_dropout"})]
)
def test_networks_with_a_flat_input(compiled, kind, kernels, long_from, monkeypatch):
    monkeypatch.setattr(dispatch, "LONG_FROM", long_from)  # values are counted in 32 bits, or in 64
    network = kind(21, 1, n_members=2).bfloat16()
    hidden = network.enter(torch.rand(2, 32, 21).bfloat16())
    network.rest(hidden, counts=torch.tensor([32, 30]), noise=noise()).sum().backward()
    assert set(compiled) == kernels


@pytest.mark.parametrize(
    ("kind", "dtype"), [pytest.param(MLP, torch.float32, marks=pytest.mark.slow), (ResNet, torch.bfloat16)]
)
def test_networks_in_a_fixed_order(compiled, kind, dtype, monkeypatch):
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    network, table = kind(24, 1, n_members=2).to(dtype), torch.rand(2, 9, 8, requires_grad=True)
    with fixed_order():
        vectors = look_up(table, torch.zeros(2, 32, 3, dtype=torch.int64)).flatten(-2)
        hidden = network.enter(vectors.to(dtype))
        network.rest(hidden, counts=torch.tensor([32, 30]), noise=noise()).sum().backward()
    assert {"_product", "_column_sums", "_look_up_backward"} <= set(compiled)


@pytest.mark.parametrize(
    ("activation", "p"), [("relu", 0.1), ("mish", 0.1), ("mish", 0.0), ("selu", 0.1), ("selu", 0.0)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_realmlp(compiled, dtype, activation, p):
    network = RealMLP(21, 1, activation=activation, dropout=p, n_members=2).to(dtype)
    network.rest(network.enter(torch.rand(2, 32, 21).to(dtype)), noise=noise()).sum().backward()
    assert compiled == ["_bias_act_forward"] * 3 + ["_bias_act_backward"] * 3


@pytest.mark.parametrize(
    ("kind", "degree", "n_knots"), [(Functions.LOCAL, 3, 40), (Functions.NORMALISED, 3, 2), (Functions.TAILS, 4, 2)]
)
def test_learned_knots(compiled, kind, degree, n_knots, monkeypatch):
    if kind == Functions.NORMALISED:
        monkeypatch.setattr(dispatch, "LONG_FROM", 0)  # values are counted in 64 bits
    part = StackPart(kind, degree, 0, 2, learned=True)
    x, breaks = torch.rand(2, 32, 4), torch.linspace(0.0, 1.0, n_knots + 2).repeat(2, 4, 1)
    logits, counts = torch.zeros(2, 4, n_knots + 1, requires_grad=True), torch.full((2, 4), n_knots, dtype=torch.int32)
    knots = Knots(counts, breaks, logits, torch.tensor([True, True]))
    computed = encode(x, knots, [part], size=n_knots + 4, dtype=torch.bfloat16)
    (computed.values.sum() + computed.penalty.sum()).backward()
    assert compiled == ["_penalty_forward", "_forward", "_backward", "gather_sums"]


def test_many_values_have_a_launch_more(compiled, monkeypatch):
    monkeypatch.setattr(encoding_triton, "MOST_WITH_KNOTS", 50)
    SplineEncoding(3, 8)(torch.rand(20, 3)).sum().backward()
    assert compiled == ["_penalty_forward", "_forward", "_backward", "gather_sums"]


def test_a_layer_has_one_launch_forward_and_two_backward(compiled):
    layer = SplineEncoding(3, 8, family="mspline")
    (layer(torch.rand(20, 3)).sum() + layer.spacing_penalty()).backward()
    assert compiled == ["_forward", "_backward", "gather_sums"]
    fixed = SplineEncoding(3, 8, learnable=False)
    fixed(torch.rand(20, 3, requires_grad=True)).sum().backward()
    assert compiled[3:] == ["_forward", "_backward"]


TABLES = {Functions.NATURAL: "bends", Functions.RADIAL: "factors"}


@pytest.mark.parametrize(
    ("kind", "n_knots", "long_from"),
    [
        (Functions.NATURAL, 28, dispatch.LONG_FROM),
        (Functions.RADIAL, 40, dispatch.LONG_FROM),
        (Functions.THIN_PLATE, 3, 0),
    ],
)
def test_functions_that_vary_everywhere(compiled, kind, n_knots, long_from, monkeypatch):
    monkeypatch.setattr(dispatch, "LONG_FROM", long_from)
    x, counts = torch.rand(2, 32, 4, requires_grad=True), torch.full((2, 4), n_knots, dtype=torch.int32)
    logits, widths = torch.zeros(2, 4, n_knots + 1), torch.zeros(2, 4, n_knots + 2)
    knots = Knots(counts, logits=logits.requires_grad_(), log_widths=widths.requires_grad_())
    encode(
        x, knots, [StackPart(kind, 0, 0, 2, learned=True)], size=n_knots + 2, dtype=torch.bfloat16
    ).values.sum().backward()
    forward = [f"_{TABLES[kind]}_forward"] if kind in TABLES else []
    backward = [*forward, f"_{TABLES[kind]}_backward"] if kind in TABLES else []
    rows = ["_dense_forward", *["_dense_backward"] * (2 if kind == Functions.NATURAL else 1), "_add_parts"]
    assert compiled == ["_penalty_forward", *forward, *rows, *backward, "_logits_backward"]


def test_what_the_compiler_refuses_is_found(compiled):
    @triton.jit
    def changing(pointer, n):
        value = triton.language.zeros((1, 4), triton.language.float32)
        if n > 3:
            value += triton.language.zeros((2, 4), triton.language.float32)
        triton.language.store(pointer + triton.language.arange(0, 4)[None, :], value)

    with pytest.raises(triton.compiler.errors.CompilationError):
        launching.launch(changing, (1,), torch.zeros(4), 2)
    assert not compiled


class ReadingCuda:
    """A driver that reads the arguments of a launch as bytes, and returns a code."""

    def __init__(self, n_arguments, code=0):
        self.n_arguments, self.code, self.read = n_arguments, code, []

    def __call__(self):
        return self

    def cuLaunchKernel(self, *arguments):  # noqa: N802 - its name in the driver
        addresses = arguments[9]
        assert len(addresses) == self.n_arguments + launching.N_SCRATCH
        self.read.append((arguments[:9], [ctypes.string_at(address, 8) for address in addresses]))
        return self.code

    def cuGetErrorString(self, code, text):  # noqa: N802 - its name in the driver
        text._obj.value = b"out of luck" if code == 7 else None


def test_arguments_are_packed_as_kernels_read_them(monkeypatch):
    driver.set_active(NoGPU())
    types = ["*fp32", "i32", "constexpr", "fp32", "i64", "u1"]
    loaded = launching._Loaded(99, 64, 1024, types)
    cuda = ReadingCuda(5)
    monkeypatch.setattr(launching, "_cuda", cuda)
    assert loaded.is_argument == [True, True, False, True, True, True]
    loaded.launch((3, 2, 1), (2**40 + 16, -5, 0.25, -(2**35), True))
    settings, values = cuda.read[0]
    assert settings == (99, 3, 2, 1, 64, 1, 1, 1024, 0)
    assert struct.unpack("<Q", values[0]) == (2**40 + 16,)
    assert struct.unpack_from("<i", values[1]) == (-5,)
    assert struct.unpack_from("<f", values[2]) == (0.25,)
    assert struct.unpack("<q", values[3]) == (-(2**35),)
    assert values[4][0] == 1
    assert values[5:] == [bytes(8)] * launching.N_SCRATCH
    loaded.launch((3, 0, 1), (0, 0, 0.0, 0, False))
    assert len(cuda.read) == 1, "no programs are no launch, which the driver refuses"
    with ThreadPoolExecutor(4) as threads:  # each launch has memory of its own
        list(threads.map(lambda n: loaded.launch((n, 1, 1), (n, n, float(n), n, False)), range(1, 200)))
    for settings, values in cuda.read[1:]:
        assert struct.unpack("<Q", values[0]) == (settings[1],)
        assert struct.unpack_from("<i", values[1]) == (settings[1],)


def test_a_launch_that_fails_is_an_error(monkeypatch):
    driver.set_active(NoGPU())
    loaded = launching._Loaded(0, 32, 0, ["*fp32"])
    monkeypatch.setattr(launching, "_cuda", ReadingCuda(1, code=7))
    with pytest.raises(RuntimeError, match="could not be launched: out of luck"):
        loaded.launch((1, 1, 1), (0,))
    monkeypatch.setattr(launching, "_cuda", ReadingCuda(1, code=8))
    with pytest.raises(RuntimeError, match="could not be launched: CUDA error 8"):
        loaded.launch((1, 1, 1), (0,))


def test_a_thread_that_has_done_nothing_on_a_gpu_enters_its_context(monkeypatch):
    driver.set_active(NoGPU())
    calls = []

    class Fresh(NoCuda):
        """A driver that refuses launches until its context is current."""

        cuDeviceGet = staticmethod(lambda handle, device: calls.append(("device", device)) or 0)  # noqa: N815
        cuDevicePrimaryCtxRetain = staticmethod(lambda context, device: calls.append("retain") or 0)  # noqa: N815
        cuCtxSetCurrent = staticmethod(lambda context: calls.append("current") or 0)  # noqa: N815

        @staticmethod
        def cuLaunchKernel(*arguments):  # noqa: N802 - its name in the driver
            calls.append("launch")
            return 0 if "current" in calls else launching.INVALID_CONTEXT

    monkeypatch.setattr(launching, "_cuda", Fresh)
    loaded = launching._Loaded(0, 32, 0, ["*fp32"])
    for _ in range(2):
        loaded.launch((1, 1, 1), (0,))
    assert calls == ["launch", ("device", 0), "retain", "current", "launch", "launch"]


@pytest.mark.parametrize(
    "changed",
    [
        {"global_scratch_size": 64},
        {"launch_pdl": True},
        {"num_ctas": 2},
        {"shared": 2048},
        {"target": GPUTarget("hip", "gfx942", 64)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_needs_more_than_a_launch_is_left_to_triton(compiled, changed):
    SplineEncoding(3, 8)(torch.rand(20, 3))
    assert compiled == ["_forward"]
    (caches,) = encoding_triton._forward.device_caches.values()
    kernel = next(iter(caches[0].values()))
    plain = {"name": "_forward", "shared": 0, "num_warps": 4, "num_ctas": 1, "target": GPUTarget("cuda", 90, 32)}
    for metadata, fits in ((plain, True), (plain | changed, False)):
        loads = []
        utilities = SimpleNamespace(
            load_binary=lambda *given, loads=loads: loads.append(given) or (1, 2, 3, 4, 5),
            get_device_properties=lambda device: {"max_shared_mem": 1024},
        )
        driver.set_active(SimpleNamespace(get_current_device=lambda: 0, utils=utilities))
        given = SimpleNamespace(name="_forward", kernel=b"", src=kernel.src, metadata=SimpleNamespace(**metadata))
        assert (launching._Loaded.from_compiled(given) is not None) == fits
        assert len(loads) == fits
