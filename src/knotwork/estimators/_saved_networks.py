"""Networks in a model file: JSON and tensors, checked against the file before a network takes any memory.

The compiled loops of the encoding do not check bounds. The checks here guarantee what the loops need: one part encodes
each member and feature, its functions fit into its columns, and its knots increase from 0 to 1.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error, check_bool, check_choice, check_int, listed, type_error
from knotwork._kernels.encoding import Layout, StackPart
from knotwork.basis import TRAITS, Functions, FunctionTraits
from knotwork.encoders import Embedding
from knotwork.nn import BACKBONES, WAVES, Backbone, InteractionConfig, StackEncoding, StackLayout
from knotwork.training import Network, Piece

__all__ = [
    "MOST_LAYERS",
    "MOST_TENSORS",
    "Capacity",
    "NetworkShape",
    "TensorFile",
    "backbone_from_json",
    "backbone_to_json",
    "check_entries",
    "check_list",
    "interactions_from_json",
    "interactions_to_json",
    "piece_from_json",
    "piece_tensors",
    "piece_to_json",
    "read_tensor",
]

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I32": torch.int32, "BOOL": torch.bool}
"""The valid types of tensors in a file."""

COUNTS = ("n_blocks",)
"""Settings of backbones that are numbers of layers; the other integers are widths, bounded by the elements."""

MOST_TENSORS = 20_000
MOST_LAYERS = 500
MOST_PARTS = 10_000
"""Largest numbers of tensors in a file, of layers of a network and of parts of a layout: far more than any model has,
and few enough to build within seconds."""

MOST_CYCLIC = 20
"""Largest degree of cyclic splines in fewer columns than that: functions that meet in one column are added."""

SHORT = 1024
"""A length that a tensor without elements may have in any file."""


class Capacity(NamedTuple):
    """Limits for the sizes that a file declares: the number of layers, and of the elements of all its tensors."""

    n_layers: int
    n_elements: int


@final
class TensorFile:
    """An open file of safetensors, with the types and shapes of its tensors.

    Parameters
    ----------
    file : safetensors.safe_open
        The file; the package has no types.
    """

    def __init__(self, file: Any) -> None:
        names = file.keys()
        if len(names) > MOST_TENSORS:
            raise argument_error("tensors", f"be at most {MOST_TENSORS}", len(names))
        self._file = file
        headers = {name: file.get_slice(name) for name in names}
        self.kinds = {name: (header.get_dtype(), tuple(header.get_shape())) for name, header in headers.items()}
        n_elements = sum(math.prod(shape) for _, shape in self.kinds.values())
        self.capacity = Capacity(MOST_LAYERS, n_elements)
        for name, (_, shape) in self.kinds.items():  # with a length of 0 among them, the others may be anything
            if max(shape, default=0) > max(n_elements, SHORT):
                raise argument_error(name, "have lengths that are not larger than the file", shape)

    def mapped(self, name: str) -> Tensor:
        """Return a tensor that takes no memory but that of the file."""
        tensor: Tensor = self._file.get_tensor(name)
        return tensor

    def check(self, name: str, shape: Sequence[int | None], dtype: torch.dtype) -> None:
        """Check that a tensor is in the file and has a shape and a type; None stands for any length."""
        if name not in self.kinds:
            raise argument_error("tensors", f"include {name!r}", len(self.kinds))
        code, given = self.kinds[name]
        if DTYPES.get(code) != dtype:
            raise argument_error(name, f"be of type {dtype}", code)
        if len(given) != len(shape) or any(n not in (None, length) for n, length in zip(shape, given, strict=True)):
            raise argument_error(name, f"be of shape {tuple(shape)}", given)


@dataclass(frozen=True)
class NetworkShape:
    """The settings of all networks of a model; `n_targets` is None for a target of shape (n,)."""

    n_numerical: int
    cardinalities: tuple[int, ...]
    categories: str
    task: str
    d_out: int
    n_targets: int | None = None


def check_entries(content: Any, name: str, known: Any) -> dict[str, Any]:
    """Return a dict that has all the known entries and no other."""
    if not isinstance(content, dict):
        raise type_error(name, "be a dict", type(content).__name__)
    if set(content) != set(known):
        raise argument_error(name, f"have the entries {listed(known, most=40)}", listed(content))
    return content


def check_list(content: Any, name: str) -> list[Any]:
    """Return a list."""
    if not isinstance(content, list):
        raise type_error(name, "be a list", type(content).__name__)
    return content


def read_tensor(file: TensorFile, name: str, shape: Sequence[int | None], dtype: torch.dtype) -> Tensor:
    """Return a copy of a tensor whose shape and type are checked before it is read; None stands for any length."""
    return _checked(file, name, shape, dtype).clone()


def _checked(file: TensorFile, name: str, shape: Sequence[int | None], dtype: torch.dtype) -> Tensor:
    """Return a tensor of the file, of a shape and type, and finite unless it is a history."""
    file.check(name, shape, dtype)
    tensor = file.mapped(name)
    if tensor.is_floating_point() and not name.endswith("history") and not bool(tensor.isfinite().all()):
        raise argument_error(name, "be finite", "NaN or infinity")
    return tensor


def piece_to_json(piece: Piece) -> dict[str, Any]:
    """Return a piece without its tensors, in types of JSON."""
    layout = piece.network.encoding.layout
    parts = [_part_to_json(part) for part in layout.parts]
    content = {"parts": parts, "sizes": [*layout.sizes], "size": layout.size, "min_spacing": layout.min_spacing}
    embedding, pairs = piece.network.embedding, piece.network.pair_embedding
    return {
        "layout": content,
        "places": [*piece.places],
        "backbone": backbone_to_json(piece.backbone),
        "embedding": None if embedding is None else str(embedding),
        "interactions": None if pairs is None else {"pairs": pairs.pairs, "rank": pairs.rank, "width": pairs.width},
    }


def backbone_to_json(backbone: Backbone) -> dict[str, Any]:
    """Return the configuration of a backbone in types of JSON."""
    settings = {
        name: [*map(int, value)] if isinstance(value, tuple) else value for name, value in asdict(backbone).items()
    }
    return {"name": backbone.name, "settings": settings}


def backbone_from_json(content: Any, capacity: Capacity) -> Backbone:
    """Return the configuration of a backbone whose network is not larger than the file."""
    check_entries(content, "backbone", ("name", "settings"))
    kind = BACKBONES[check_choice(content["name"], "backbone", BACKBONES)]
    defaults = {field.name: field.default for field in fields(kind)}
    settings = dict(check_entries(content["settings"], "settings", defaults))
    for name, default in defaults.items():
        value = settings[name]
        if isinstance(default, tuple):
            if len(check_list(value, name)) > capacity.n_layers:
                raise argument_error(name, f"have at most {capacity.n_layers} entries", len(value))
            settings[name] = tuple(_count(width, name, capacity.n_elements) for width in value)
        elif isinstance(default, int):
            _count(value, name, capacity.n_layers if name in COUNTS else capacity.n_elements)
        elif type(value) not in ((int, float) if isinstance(default, float) else (str,)):
            raise type_error(name, "be a number" if isinstance(default, float) else "be text", value)
    return kind(**settings)


def _count(value: Any, name: str, most: int) -> int:
    if check_int(value, name, minimum=1) > most:
        raise argument_error(name, f"be at most {most}, the largest that the file allows", value)
    return int(value)


def _part_to_json(part: StackPart) -> dict[str, Any]:
    content = {name: vars(part)[name] for name in ("kind", "degree", "start", "stop", "learned")}
    content["features"] = None if part.features is None else [*part.features]
    if part.kind == Functions.PLAIN:
        content["family"] = part.family
    return content


def piece_tensors(piece: Piece, prefix: str) -> dict[str, Tensor]:
    """Return the tensors of a piece by their names in the file."""
    tensors = {f"{prefix}.network.{name}": tensor for name, tensor in piece.network.state_dict().items()}
    tensors[f"{prefix}.shift"], tensors[f"{prefix}.scale"] = piece.shift.double(), piece.scale.double()
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def piece_from_json(content: Any, file: TensorFile, prefix: str, *, shape: NetworkShape) -> Piece:
    """Return the piece that `piece_to_json` and `piece_tensors` wrote, on the CPU."""
    check_entries(content, "piece", ("layout", "places", "backbone", "embedding", "interactions"))
    backbone = backbone_from_json(content["backbone"], file.capacity)
    embedding = None if content["embedding"] is None else _embedding(content["embedding"])
    places = tuple(check_int(place, "places", minimum=0) for place in check_list(content["places"], "places"))
    if not places:
        raise argument_error("places", "name at least one member", places)
    layout = _layout(content["layout"], n_features=shape.n_numerical, capacity=file.capacity)
    encoding = _encoding(layout, file, prefix, n_members=len(places))
    settings = (encoding, shape.cardinalities, backbone, shape.d_out)
    interactions = _interactions(content["interactions"], n_members=len(places), shape=shape, capacity=file.capacity)
    options: dict[str, Any] = {"task": shape.task, "categories": shape.categories}
    options |= {"embedding": embedding, "interactions": interactions}
    # A network on the meta device takes no memory: a file that declares a huge one fails here.
    with torch.device("meta"):
        _check_state(Network(*settings, **options), file, prefix)
    # Building a network draws random parameters, which are then replaced: the user's generator must not move.
    with torch.random.fork_rng(devices=[]):
        network = Network(*settings, **options)
    for name, tensor in network.state_dict().items():
        # One tensor after the other: a second copy of all of them would double the memory.
        tensor.copy_(_checked(file, f"{prefix}.network.{name}", tensor.shape, tensor.dtype))
        if name.endswith("running_var") and bool((tensor < 0).any()):
            raise argument_error(name, "be at least 0", float(tensor.min()))
    of_targets = (len(places),) if shape.n_targets is None else (len(places), shape.n_targets)
    shift, scale = (read_tensor(file, f"{prefix}.{name}", of_targets, torch.float64) for name in ("shift", "scale"))
    return Piece(network.eval(), places, shift, scale, backbone)


def _interactions(content: Any, *, n_members: int, shape: NetworkShape, capacity: Capacity) -> list[InteractionConfig]:
    """Return the interactions of each member, if any: pairs of numerical columns, not larger than the file."""
    if content is None:
        return []
    check_entries(content, "interactions", ("pairs", "rank", "width"))
    rank, width = (_count(content[name], name, capacity.n_elements) for name in ("rank", "width"))
    members = [_pairs(pairs, shape.n_numerical) for pairs in check_list(content["pairs"], "pairs")]
    if len(members) != n_members or len({len(pairs) for pairs in members}) != 1:
        raise argument_error("pairs", f"have as many entries for each of {n_members} members", len(members))
    if n_members * len(members[0]) * rank * width > capacity.n_elements:
        raise argument_error("pairs", "not be larger than the file", (len(members[0]), rank, width))
    return [InteractionConfig(pairs, rank, width) for pairs in members]


def _pairs(content: Any, n_columns: int) -> tuple[tuple[int, int], ...]:
    pairs = []
    for pair in check_list(content, "pairs"):
        if len(check_list(pair, "pairs")) != 2 or not all(
            check_int(place, "pairs", minimum=0) < n_columns for place in pair
        ):
            raise argument_error("pairs", f"be pairs of places from 0 to {n_columns - 1}", pair)
        pairs.append((pair[0], pair[1]))
    return tuple(pairs)


def _embedding(text: Any) -> Embedding:
    if not isinstance(text, str):
        raise type_error("embedding", "be text", text)
    return Embedding.parse(text)


def _check_state(network: Network, file: TensorFile, prefix: str) -> None:
    """Compare names, shapes and types of a network's tensors with those of the file."""
    state = {f"{prefix}.network.{name}": tensor for name, tensor in network.state_dict().items()}
    given = {name for name in file.kinds if name.startswith(f"{prefix}.network.")}
    if given != set(state):
        raise argument_error("tensors", "be those of the network", sorted(given ^ set(state))[:5])
    for name, tensor in state.items():
        file.check(name, tuple(tensor.shape), tensor.dtype)


def _layout(content: Any, *, n_features: int, capacity: Capacity) -> StackLayout:
    """Return a layout whose blocks are not larger than the file."""
    check_entries(content, "layout", ("parts", "sizes", "size", "min_spacing"))
    sizes = tuple(check_int(size, "sizes", minimum=1) for size in check_list(content["sizes"], "sizes"))
    size = check_int(content["size"], "size", minimum=1)
    if len(sizes) != n_features:
        raise argument_error("sizes", f"have one number for each of {n_features} numerical columns", len(sizes))
    if size != max(sizes, default=1) or size * n_features > capacity.n_elements:
        raise argument_error("size", "be the largest of the sizes, and not larger than the file", size)
    if not isinstance(content["min_spacing"], float) or not 0.0 < content["min_spacing"] < 1.0:
        raise argument_error("min_spacing", "be a number between 0 and 1", content["min_spacing"])
    if len(check_list(content["parts"], "parts")) > MOST_PARTS:
        raise argument_error("parts", f"be at most {MOST_PARTS}", len(content["parts"]))
    parts = tuple(_part(part, n_features, size) for part in content["parts"])
    return StackLayout(parts, sizes, size, content["min_spacing"])


def _part(content: Any, n_features: int, size: int) -> StackPart:
    names = ("kind", "degree", "start", "stop", "learned", "features")
    plain = isinstance(content, dict) and content.get("kind") == Functions.PLAIN
    check_entries(content, "part", (*names, "family") if plain else names)
    kind, degree, start, stop = (check_int(content[name], name, minimum=Functions.PLAIN) for name in names[:4])
    family = Layout(content["family"], max(degree, 0)).family if plain else ""
    features = content["features"]
    if features is not None:
        features = tuple(check_int(feature, "features", minimum=0) for feature in check_list(features, "features"))
        if not features or max(features) >= n_features:
            raise argument_error("features", f"be from 0 to {n_features - 1}", features)
    traits = TRAITS.get(kind)
    if traits is None or not _is_degree(degree, traits, size=size, waves=kind in WAVES):
        raise argument_error("kind", "be a kind of functions with a degree that is valid for it", (kind, degree))
    if not 0 <= start < stop:
        raise argument_error("start", "be at least 0 and smaller than stop", (start, stop))
    return StackPart(kind, degree, start, stop, check_bool(content["learned"], "learned"), features, family)


def _is_degree(degree: int, traits: FunctionTraits, *, size: int, waves: bool) -> bool:
    """Return whether functions can have a degree; that of waves is their number, with a frequency at least."""
    if traits.degree is not None:
        return degree == traits.degree
    most = max(size, MOST_CYCLIC) if traits.is_cyclic else size
    return (2 if waves else 1 - traits.smallest) <= degree <= most


def _encoding(layout: StackLayout, file: TensorFile, prefix: str, *, n_members: int) -> StackEncoding:
    shape = n_members, len(layout.sizes)
    expected: dict[str, tuple[Sequence[int | None], torch.dtype]] = {
        "breaks": ((*shape, None), torch.float32),
        "n_knots": (shape, torch.int32),
        "low": (shape, torch.float32),
        "scale": (shape, torch.float32),
        "learned": ((n_members,), torch.bool),
    }
    if f"{prefix}.network.encoding.smooth" in file.kinds:
        expected["smooth"] = shape, torch.bool
    tensors = {name: read_tensor(file, f"{prefix}.network.encoding.{name}", *kind) for name, kind in expected.items()}
    learned_missing = f"{prefix}.network.encoding.missing" in file.kinds
    if learned_missing:
        file.check(f"{prefix}.network.encoding.missing", (*shape, layout.size), torch.float32)
    if any(part.has_widths for part in layout.parts):
        file.check(f"{prefix}.network.encoding.log_widths", (*shape, layout.size), torch.float32)
    if layout.waves:  # the encoding allocates as many frequencies
        file.check(f"{prefix}.network.encoding.frequencies", (*shape, layout.n_frequencies), torch.float32)
    n_knots = tensors["n_knots"].numpy()
    _check_breaks(tensors["breaks"].numpy(), n_knots)
    _check_parts(layout, n_knots, tensors["learned"].numpy())
    if bool((tensors["scale"] <= 0.0).any()):
        raise argument_error("scale", "be larger than 0", float(tensors["scale"].min()))
    return StackEncoding(layout, **tensors, learned_missing=learned_missing)


def _check_breaks(breaks: npt.NDArray[np.float32], n_knots: npt.NDArray[np.int32]) -> None:
    """Check that knots increase from 0 to 1, and that the padding is 1."""
    n_breaks = breaks.shape[-1]
    if n_breaks < 2:
        raise argument_error("breaks", "have both ends", n_breaks)
    if n_knots.size and (n_knots.min() < 0 or n_knots.max() > n_breaks - 2):
        raise argument_error("n_knots", f"be from 0 to {n_breaks - 2}", (int(n_knots.min()), int(n_knots.max())))
    inside = np.arange(n_breaks - 1) <= n_knots[..., None]
    steps = np.diff(breaks, axis=-1)
    increasing = np.where(inside, steps > 0, steps == 0).all()
    if not increasing or (breaks[..., 0] != 0.0).any() or (breaks[..., -1] != 1.0).any():
        raise argument_error("breaks", "increase from 0 to 1, followed by ones", breaks.shape)


def _check_parts(layout: StackLayout, n_knots: npt.NDArray[np.int32], learned: npt.NDArray[np.bool_]) -> None:
    """Check that every member and feature is encoded once, by functions that fit into its columns."""
    n_members = len(n_knots)
    every = len(layout.sizes)
    n_encoded = sum((part.stop - part.start) * len(part.features or range(every)) for part in layout.parts)
    if n_encoded != n_knots.size:  # before the work that each part takes
        raise type_error("parts", "encode every member and feature once", len(layout.parts))
    times = np.zeros(n_knots.shape, dtype=np.int64)
    sizes = np.array(layout.sizes, dtype=np.int64)
    for part in layout.parts:
        if part.stop > n_members:
            raise argument_error("stop", f"be at most {n_members}, the number of members", part.stop)
        members = slice(part.start, part.stop)
        if (learned[members] != part.learned).any():
            raise argument_error("learned", "agree with the members", part.learned)
        features = np.arange(len(sizes)) if part.features is None else np.array(part.features)
        times[members] += np.bincount(features, minlength=len(sizes))
        counts = n_knots[members][:, features].astype(np.int64)
        if (counts + part.smallest > sizes[features]).any() or (
            part.kind in (Functions.AFFINE, *WAVES) and counts.any()
        ):
            raise argument_error("sizes", "be large enough for all functions", layout.sizes)
        if part.learned and ((counts + 1) * layout.min_spacing >= 1.0).any():
            raise argument_error("min_spacing", "leave space between the knots", layout.min_spacing)
    if (times != 1).any():
        raise type_error("parts", "encode every member and feature once", len(layout.parts))


def interactions_to_json(value: Any, name: str) -> Any:
    """Return the parameter `interactions` of an estimator in types of JSON; a sequence has only its pairs."""
    del name
    if value is None:
        return None
    config = InteractionConfig.from_value(value)
    if not isinstance(config.pairs, tuple):
        return config.pairs if value is not config else asdict(config)
    pairs = [[str(column) if isinstance(column, str) else int(column) for column in pair] for pair in config.pairs]
    return {"pairs": pairs} if value is not config else {**asdict(config), "pairs": pairs}


def interactions_from_json(content: Any, name: str) -> Any:
    """Return the parameter `interactions` that `interactions_to_json` wrote."""
    if not isinstance(content, dict):
        return None if content is None else InteractionConfig(content).pairs
    pairs = content.get("pairs")
    if isinstance(pairs, list):
        content = {**content, "pairs": [tuple(check_list(pair, name)) for pair in pairs]}
    if set(content) == {"pairs"}:  # a sequence of pairs
        InteractionConfig(content["pairs"])
        return content["pairs"]
    return InteractionConfig(**check_entries(content, name, [field.name for field in fields(InteractionConfig)]))
