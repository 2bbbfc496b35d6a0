"""The graph of a model, which needs neither torch nor onnx: nodes, the table of their operations, and a runtime."""

from knotwork._graph._forest import Floats, Forest, Ints
from knotwork._graph._graph import DOUBLE, EPSILON, FLOAT, Array, Graph, Node, as_numpy
from knotwork._graph._operations import OPERATIONS, Operator, spline_widths
from knotwork._graph._program import Program, traced
from knotwork._graph._storage import PackedGraph, StoredConstant, pack, unpack

__all__ = ["Graph"]
