"""Members in a model file: settings and tensors, checked against the file before a network takes any memory.

The compiled loops of the encoding do not check bounds. The checks here guarantee what the loops need: one part encodes
each member and feature, its functions fit into its columns, and its knots increase from 0 to 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from knotwork._checks import argument_error, type_error
from knotwork._kernels.encoding import Layout
from knotwork._model_files import ModelFile, check_shape
from knotwork._trees import Forest, ForestPiece
from knotwork.basis import TRAITS, Functions, FunctionTraits
from knotwork.encoders import Embedding
from knotwork.nn import WAVE_KINDS, Backbone, InteractionConfig, StackEncoding, StackLayout
from knotwork.training import Network, NetworkPiece, Piece

COUNTS = ("n_blocks",)
"""Settings of backbones that are numbers of layers; the other integers are widths, bounded by the elements."""

MOST_LAYERS = 500
MOST_LAYOUT_PARTS = 10_000
"""Largest numbers of layers of a network and of parts of a layout: far more than any model has, and few enough to build
within seconds."""

MOST_CYCLIC = 20
"""Largest degree of cyclic splines in fewer columns than that: functions that meet in one column are added."""


@dataclass(frozen=True)
class ModelShape:
    """What all members of a model have in common; `n_targets` is None for a target of shape (n,)."""

    n_numerical: int
    cardinalities: tuple[int, ...]
    categories: str
    task: str
    d_out: int
    n_targets: int | None = None

    def check_units(self, piece: "SavedPiece | SavedForests") -> None:
        """Check the places of members, and the units of their targets."""
        n_members = len(piece.places)
        if not n_members:
            raise argument_error("places", "name at least one member", piece.places)
        of_targets = (n_members,) if self.n_targets is None else (n_members, self.n_targets)
        for name, values in (("shift", piece.shift), ("scale", piece.scale)):
            check_shape(name, values.shape, of_targets)


def check_layers(settings: Mapping[str, Any], *, n_layers: int, n_elements: int) -> None:
    """Refuse settings of a backbone with more layers than `n_layers`, or wider ones than all tensors of a file."""
    for name, value in settings.items():
        widths = value if isinstance(value, tuple) else (value,)
        if len(widths) > n_layers:
            raise argument_error(name, f"have at most {n_layers} entries", len(widths))
        most = n_layers if name in COUNTS else n_elements
        if any(type(width) is int and width > most for width in widths):
            raise argument_error(name, f"be at most {most}, the largest that the file allows", value)


def network_arrays(pieces: Sequence[Piece]) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors of networks by their names in the file."""
    return {
        f"pieces{place}.network.{name}": tensor.detach().cpu().numpy()
        for place, piece in enumerate(pieces)
        if isinstance(piece, NetworkPiece)
        for name, tensor in piece.network.state_dict().items()
    }


@final
@dataclass(frozen=True, eq=False)
class SavedPiece:
    """A `NetworkPiece` with the settings of its network in place of the network.

    Parameters
    ----------
    layout : StackLayout
        Its encoding.
    places : tuple of int
        Places of its members among all.
    backbone : Backbone
        The network after the encoding.
    embedding : Embedding or None
        What follows each encoding.
    interactions : tuple of InteractionConfig
        Pairs of columns of each member; empty if there are none.
    shift, scale : ndarray of shape (n_members,) or (n_members, n_targets)
        The units of the target.
    """

    layout: StackLayout
    places: tuple[int, ...]
    backbone: Backbone
    embedding: Embedding | None
    interactions: tuple[InteractionConfig, ...]
    shift: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]

    @classmethod
    def from_piece(cls, piece: NetworkPiece) -> Self:
        """Return a piece without the tensors of its network."""
        network, pairs = piece.network, piece.network.pair_embedding
        interactions = (
            () if pairs is None else (InteractionConfig(each, pairs.rank, pairs.width) for each in pairs.pairs)
        )
        shift, scale = (values.double().cpu().numpy() for values in (piece.shift, piece.scale))
        settings = (network.encoding.layout, tuple(piece.places), piece.backbone, network.embedding)
        return cls(*settings, tuple(interactions), shift, scale)

    def restored(self, file: ModelFile, prefix: str, shape: ModelShape) -> NetworkPiece:
        """Return the piece with its network, on the CPU; `prefix` begins the names of its tensors."""
        shape.check_units(self)
        n_members = len(self.places)
        self._check_interactions(shape.n_numerical, file.n_elements)
        _check_layout(self.layout, n_features=shape.n_numerical, n_elements=file.n_elements)
        encoding = _encoding(self.layout, file, f"{prefix}.network.encoding", n_members=n_members)
        settings = (encoding, shape.cardinalities, self.backbone, shape.d_out)
        options: dict[str, Any] = {"task": shape.task, "categories": shape.categories}
        options |= {"embedding": self.embedding, "interactions": list(self.interactions)}
        # A network on the meta device takes no memory: a file that declares a huge one fails here.
        with torch.device("meta"):
            for name, tensor in Network(*settings, **options).state_dict().items():
                file.check(f"{prefix}.network.{name}", tensor.shape, _dtype(tensor))
        # Building a network draws random parameters, which are then replaced: the user's generator must not move.
        with torch.random.fork_rng(devices=[]):
            network = Network(*settings, **options)
        for name, tensor in network.state_dict().items():
            # One tensor after the other: a second copy of all of them would double the memory.
            tensor.copy_(torch.from_numpy(file.array(f"{prefix}.network.{name}", tensor.shape, _dtype(tensor))))
            if name.endswith("running_var") and bool((tensor < 0).any()):
                raise argument_error(name, "be at least 0", float(tensor.min()))
        shift, scale = map(torch.from_numpy, (self.shift, self.scale))
        return NetworkPiece(self.places, shift, scale, network.eval(), self.backbone)

    def _check_interactions(self, n_columns: int, n_elements: int) -> None:
        """Check that all members have as many pairs of numerical columns, not larger than the file."""
        if not self.interactions:
            return
        shapes = {each.shape for each in self.interactions if isinstance(each.pairs, tuple)}
        if len(self.interactions) != len(self.places) or len(shapes) != 1:
            raise argument_error("pairs", f"have as many entries for each of {len(self.places)} members", shapes)
        if len(self.places) * np.prod([float(each) for each in shapes.pop()]) > n_elements:
            raise argument_error("pairs", "not be larger than the file", len(self.interactions))
        places = {place for each in self.interactions for pair in each.pairs for place in pair}
        if not all(type(place) is int and 0 <= place < n_columns for place in places):
            raise argument_error("pairs", f"be pairs of places from 0 to {n_columns - 1}", sorted(places, key=str)[:5])


@final
@dataclass(frozen=True, eq=False)
class SavedForests:
    """A `ForestPiece`; parameters as there."""

    places: tuple[int, ...]
    shift: npt.NDArray[np.float64]
    scale: npt.NDArray[np.float64]
    forests: tuple[Forest, ...]

    @classmethod
    def from_piece(cls, piece: ForestPiece) -> Self:
        """Return the trees of a piece."""
        return cls(tuple(piece.places), piece.shift.numpy(), piece.scale.numpy(), piece.forests)

    def restored(self, file: ModelFile, prefix: str, shape: ModelShape) -> ForestPiece:
        """Return the piece; parameters as in `SavedPiece.restored`."""
        del file, prefix
        shape.check_units(self)
        if len(self.forests) != len(self.places):
            raise argument_error("forests", f"be one for each of {len(self.places)} members", len(self.forests))
        for forest in self.forests:
            forest.check(shape.n_numerical, shape.cardinalities)
            check_shape("start", forest.start.shape, (shape.d_out,))
        return ForestPiece(self.places, torch.from_numpy(self.shift), torch.from_numpy(self.scale), self.forests)


def saved_piece(piece: Piece) -> SavedPiece | SavedForests:
    """Return what a file has of a piece, besides the tensors of networks."""
    if isinstance(piece, ForestPiece):
        return SavedForests.from_piece(piece)
    assert isinstance(piece, NetworkPiece)
    return SavedPiece.from_piece(piece)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _check_layout(layout: StackLayout, *, n_features: int, n_elements: int) -> None:
    """Check that the encoded values of a layout are not larger than the file, and that each part has functions."""
    sizes, size = layout.sizes, layout.size
    if len(sizes) != n_features or min(sizes, default=1) < 1:
        raise argument_error("sizes", f"have one number for each of {n_features} numerical columns", len(sizes))
    if size != max(sizes, default=1) or size * n_features > n_elements:
        raise argument_error("size", "be the largest of the sizes, and not larger than the file", size)
    if not 0.0 < layout.min_spacing < 1.0:
        raise argument_error("min_spacing", "be a number between 0 and 1", layout.min_spacing)
    if len(layout.parts) > MOST_LAYOUT_PARTS:
        raise argument_error("parts", f"be at most {MOST_LAYOUT_PARTS}", len(layout.parts))
    for part in layout.parts:
        if part.family:
            Layout(part.family, max(part.degree, 0))
        if bool(part.family) != (part.kind == Functions.PLAIN):
            raise argument_error("family", "be that of functions in plain torch", part.family)
        features = range(n_features) if part.features is None else part.features or (-1,)
        if n_features and not 0 <= min(features) <= max(features) < n_features:
            raise argument_error("features", f"be from 0 to {n_features - 1}", features)
        traits = TRAITS.get(part.kind)
        if traits is None or not _is_degree(part.degree, traits, size=size):
            requirement = "be a kind of functions with a degree that is valid for it"
            raise argument_error("kind", requirement, (part.kind, part.degree))
        if not 0 <= part.start < part.stop:
            raise argument_error("start", "be at least 0 and smaller than stop", (part.start, part.stop))


def _is_degree(degree: int, traits: FunctionTraits, *, size: int) -> bool:
    """Return whether functions can have a degree."""
    if traits.degree is not None:
        return degree == traits.degree
    most = max(size, MOST_CYCLIC) if traits.is_cyclic else size
    return traits.least_degree <= degree <= most


def _encoding(layout: StackLayout, file: ModelFile, prefix: str, *, n_members: int) -> StackEncoding:
    shape = n_members, len(layout.sizes)
    expected: dict[str, tuple[Sequence[int | None], str]] = {
        "breaks": ((*shape, None), "float32"),
        "n_knots": (shape, "int32"),
        "low": (shape, "float32"),
        "scale": (shape, "float32"),
        "learned": ((n_members,), "bool"),
    }
    if f"{prefix}.smooth" in file.shapes:
        expected["smooth"] = shape, "bool"
    arrays = {name: file.array(f"{prefix}.{name}", *kind) for name, kind in expected.items()}
    learned_missing = f"{prefix}.missing" in file.shapes
    if learned_missing:
        file.check(f"{prefix}.missing", (*shape, layout.size), "float32")
    if any(part.has_widths for part in layout.parts):
        file.check(f"{prefix}.log_widths", (*shape, layout.size), "float32")
    if layout.waves:  # the encoding allocates as many frequencies
        file.check(f"{prefix}.frequencies", (*shape, layout.n_frequencies), "float32")
    _check_breaks(arrays["breaks"], arrays["n_knots"])
    _check_parts(layout, arrays["n_knots"], arrays["learned"])
    if (arrays["scale"] <= 0.0).any():
        raise argument_error("scale", "be larger than 0", float(arrays["scale"].min()))
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
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
            part.kind in (Functions.AFFINE, *WAVE_KINDS) and counts.any()
        ):
            raise argument_error("sizes", "be large enough for all functions", layout.sizes)
        if part.learned and ((counts + 1) * layout.min_spacing >= 1.0).any():
            raise argument_error("min_spacing", "leave space between the knots", layout.min_spacing)
    if (times != 1).any():
        raise type_error("parts", "encode every member and feature once", len(layout.parts))
