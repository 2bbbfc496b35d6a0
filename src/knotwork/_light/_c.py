"""A predictor in C: one file that needs nothing but the mathematical library, for one row at a time.

The shapes of all values of one row are known, so each node becomes a loop over them.
"""

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from knotwork._checks import argument_error
from knotwork._graph import OPERATIONS, Array, Graph, Node, traced
from knotwork._light._conversions import column_contents
from knotwork._light._predictor import Predictor
from knotwork._preparation.cells import DIGITS

C_TYPES = {"float32": "float", "float64": "double", "int64": "int", "int32": "int", "bool": "unsigned char"}
"""The types of values; whole numbers are codes and places."""

PER_LINE = 16


class Elements(NamedTuple):
    """Where the elements of a value are: an expression of a pointer, and the steps along the axes of a loop."""

    pointer: str
    steps: tuple[int, ...]


HEAD = """\
/* A model of knotwork: predictions of one row. Compile it with any C compiler, and link the mathematical library (-lm).

   int knotwork_predict(const double *numbers, const int *codes, double *out);

   numbers: KNOTWORK_NUMBERS numerical values, named by knotwork_number_names; NAN where a value is missing.
   codes: KNOTWORK_CATEGORIES codes, named by knotwork_category_names: those of knotwork_code(column, text), or of
   knotwork_code_of(column, number) where categories are numbers or truth values; 0 where a value is missing. Pass NULL
   if there are none.
   out: KNOTWORK_OUTPUTS numbers, named by knotwork_output_names: predictions, or probabilities of classes.

   Returns 0, or 1 if there is not enough memory. How cells become numbers is written in knotwork_conversions. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

"""

HELPERS = """\
#define KNOTWORK_DEFINE(T, N) \\
static inline void matmul_##N(const T *a, const T *b, T *o, int n, int inner, int width) { \\
  for (int i = 0; i < n; i++, o += width) { \\
    for (int m = 0; m < width; m++) o[m] = 0; \\
    for (int j = 0; j < inner; j++) { \\
      const T x = *a++; const T *row = b + (size_t)j * width; \\
      if (x != 0) for (int m = 0; m < width; m++) o[m] += x * row[m]; \\
    } \\
  } \\
} \\
static inline T most_##N(const T *x, int n, int step) { \\
  T most = x[0]; \\
  for (int k = 1; k < n; k++) if (x[k * step] > most) most = x[k * step]; \\
  return most; \\
} \\
static inline double total_##N(const T *x, int n, int step) { \\
  double total = 0; \\
  for (int k = 0; k < n; k++) total += x[k * step]; \\
  return total; \\
} \\
static inline double logsumexp_##N(const T *x, int n, int step) { \\
  const T most = most_##N(x, n, step); double total = 0; \\
  for (int k = 0; k < n; k++) total += exp((double)(x[k * step] - most)); \\
  return log(total) + most; \\
} \\
static inline void softmax_##N(const T *x, T *o, int n, int step) { \\
  const double all = logsumexp_##N(x, n, step); \\
  for (int k = 0; k < n; k++) o[k * step] = (T)exp(x[k * step] - all); \\
} \\
static inline void logsoftmax_##N(const T *x, T *o, int n, int step) { \\
  const double all = logsumexp_##N(x, n, step); \\
  for (int k = 0; k < n; k++) o[k * step] = (T)(x[k * step] - all); \\
} \\
static inline void cumsum_##N(const T *x, T *o, int n, int step) { \\
  T total = 0; \\
  for (int k = 0; k < n; k++) o[k * step] = total += x[k * step]; \\
} \\
static inline void rcumsum_##N(const T *x, T *o, int n, int step) { \\
  T total = 0; \\
  for (int k = n - 1; k >= 0; k--) o[k * step] = total += x[k * step]; \\
} \\
static inline void layernorm_##N(const T *x, const T *w, const T *b, T *o, int n, double epsilon) { \\
  const double mean = total_##N(x, n, 1) / n; double square = 0; \\
  for (int k = 0; k < n; k++) square += (x[k] - mean) * (x[k] - mean); \\
  const double unit = 1 / sqrt(square / n + epsilon); \\
  for (int k = 0; k < n; k++) o[k] = (T)((x[k] - mean) * unit * w[k] + b[k]); \\
} \\
static inline void splines_##N(const T *x, const T *t, const int *counts, T *o, int features, int length, \\
    int degree) { \\
  const int width = length - 1 - degree; T v[32]; \\
  for (int f = 0; f < features; f++, t += length, o += width) { \\
    int at = 0; \\
    while (at < counts[f] && x[f] >= t[degree + 1 + at]) at++; \\
    v[0] = 1; \\
    for (int q = 0; q < degree; q++) { \\
      T saved = 0; \\
      for (int r = 0; r <= q; r++) { \\
        const T right = t[at + degree + 1 + r] - x[f], left = x[f] - t[at + degree - q + r]; \\
        const T share = v[r] / (right + left); \\
        v[r] = saved + right * share; saved = left * share; \\
      } \\
      v[q + 1] = saved; \\
    } \\
    for (int m = 0; m < width; m++) o[m] = 0; \\
    for (int r = 0; r <= degree; r++) o[at + r] = v[r]; \\
  } \\
}
KNOTWORK_DEFINE(float, f)
KNOTWORK_DEFINE(double, d)

static inline int place(double x, const double *breaks, int n, double *distance) {
  int low = 0, high = n - 2;
  const double inside = x < breaks[0] ? breaks[0] : x > breaks[n - 1] ? breaks[n - 1] : x;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (inside >= breaks[middle]) low = middle; else high = middle - 1;
  }
  *distance = inside - breaks[low];
  return low;
}

static inline void curve(double x, const double *breaks, int n, const double *coefficients, int powers, int k,
    const double *missing, double *out) {
  double u = 0;
  const double *c = x == x ? coefficients + (size_t)place(x, breaks, n, &u) * powers * k : coefficients;
  for (int j = 0; j < k; j++) {
    double total = 0;
    if (x == x) for (int p = powers - 1; p >= 0; p--) total = total * u + c[p * k + j];
    out[j] = x == x ? total : missing[j];
  }
}

static inline void surface(double x, double y, const double *x_breaks, int nx, const double *y_breaks, int ny,
    const double *coefficients, int na, int nb, int k, double *out) {
  double u = 0, v = 0;
  for (int j = 0; j < k; j++) out[j] = 0;
  if (x != x || y != y) return;
  const int cell = place(x, x_breaks, nx, &u) * (ny - 1) + place(y, y_breaks, ny, &v);
  const double *c = coefficients + (size_t)cell * na * nb * k;
  for (int j = 0; j < k; j++) for (int a = na - 1; a >= 0; a--) {
    double inner = 0;
    for (int b = nb - 1; b >= 0; b--) inner = inner * v + c[(a * nb + b) * k + j];
    out[j] = out[j] * u + inner;
  }
}

static inline void trees(const double *numbers, const int *codes, int n_numbers, const int *feature,
    const double *value, const int *left, const int *right, const unsigned char *missing_left, const int *roots,
    const int *outputs,
    const int *columns, const int *starts, const double *code_values, int n_trees, double *out) {
  for (int tree = 0; tree < n_trees; tree++) {
    int node = roots[tree];
    while (feature[node] >= 0) {
      const int code = feature[node] - n_numbers;
      const double x = code < 0 ? numbers[feature[node]] : code_values[starts[code] + codes[columns[code]]];
      node = x > value[node] || (x != x && !missing_left[node]) ? right[node] : left[node];
    }
    out[outputs[tree]] += value[node];
  }
}

"""


def c_model(predictor: Predictor) -> bytes:
    """Return a file in C, see its head."""
    names = [name for name in (predictor.output, "std") if name in predictor.graph.outputs]
    writer = _Writer(predictor.graph.needed(names), predictor)
    body = "\n".join(writer.lines(names))
    return (HEAD + _tables(predictor, names) + HELPERS + writer.constants(body) + body).encode("ascii")


def quoted(text: str) -> str:
    """Return a text as a literal of C, in ASCII; octal digits leave no doubt where a byte ends."""
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:;()=+/"
    return (
        '"'
        + "".join(sign if sign in plain else "".join(f"\\{byte:03o}" for byte in sign.encode()) for sign in text)
        + '"'
    )


def _texts(name: str, texts: Sequence[str]) -> str:
    listed = ", ".join(map(quoted, texts)) or "0"
    return f"const char *const {name}[] = {{{listed}}};\n"


def _tables(predictor: Predictor, names: list[str]) -> str:
    """Return names, conversions and the codes of categories."""
    columns = predictor.columns
    outputs = [f"{name} {each}".strip() for name in names for each in predictor.response_names]
    categorical = list(columns.categorical.items())
    out = [f"#define KNOTWORK_NUMBERS {len(columns.numerical_names)}\n"]
    out += [f"#define KNOTWORK_CATEGORIES {len(categorical)}\n#define KNOTWORK_OUTPUTS {len(outputs)}\n\n"]
    out += [_texts("knotwork_number_names", list(map(str, columns.numerical_names)))]
    out += [_texts("knotwork_category_names", [str(label) for label, _ in categorical])]
    out += [_texts("knotwork_output_names", outputs)]
    conversions = [f"{each['label']}: {each['conversion']}" for each in column_contents(columns) if each["conversion"]]
    out += [_texts("knotwork_conversions", conversions), "\n"]
    words: list[int] = []
    numbers: list[int] = []
    for place, (_, column) in enumerate(categorical):
        is_text = column.kind in ("text", "mixed")
        out.append(_categories(place, column.categories, is_text=is_text))
        (words if is_text else numbers).append(place)
    out += [_code_function("knotwork_code", "const char *text", "!text", words)]
    out += [_code_function("knotwork_code_of", "double number", "number != number", numbers)]
    return "".join(out)


def _categories(place: int, categories: tuple[Any, ...], *, is_text: bool) -> str:
    if is_text:
        return _texts(f"categories{place}", categories).replace("const char", "static const char", 1)
    values = ", ".join(f"{float(each):.17g}" for each in categories) or "0"
    return f"static const double categories{place}[] = {{{values}}};\n"


def _code_function(name: str, parameter: str, is_missing: str, places: list[int]) -> str:
    """Return a function that looks up categories."""
    value = parameter.rsplit(maxsplit=1)[-1].lstrip("*")
    test = f"!strcmp(categories[k], {value})" if value == "text" else f"categories[k] == {value}"
    kind = "const char *const *" if value == "text" else "const double *"
    lines = [f"int {name}(int column, {parameter}) {{", f"  {kind}categories; int n;", f"  if ({is_missing}) return 0;"]
    if value == "number":
        lines += [f"  if (number != floor(number)) {{ char buffer[40]; snprintf(buffer, 40, \"%.{DIGITS}g\", number); "
                  "number = atof(buffer); }"]  # fmt: skip
    lines += ["  switch (column) {"]
    for place in places:
        size = f"(int)(sizeof categories{place} / sizeof *categories{place})"
        lines.append(f"    case {place}: categories = categories{place}; n = {size}; break;")
    lines += [
        "    default: return 0;",
        "  }",
        f"  for (int k = 0; k < n; k++) if ({test}) return k + 1;",
        "  return 0;",
        "}\n\n",
    ]
    return "\n".join(lines)


def _steps(shape: tuple[int, ...], joint: tuple[int, ...]) -> tuple[int, ...]:
    """Return the steps through a value of a shape that is repeated to another; 0 where it is."""
    steps, step = [], 1
    for length, full in zip(reversed(shape), reversed(joint), strict=False):
        steps.append(step if length == full else 0)
        step *= length
    return (*([0] * (len(joint) - len(shape))), *reversed(steps))


class _Writer:
    """The nodes of a graph as statements, for the values of one row."""

    def __init__(self, graph: Graph, predictor: Predictor) -> None:
        columns = predictor.columns
        self.graph = graph
        inputs: dict[str, Array] = {
            "numbers": np.zeros((1, len(columns.numerical_names))),
            "codes": np.zeros((1, len(columns.cardinalities)), dtype=np.int64),
        }
        self.values = traced(graph, inputs)
        self.pointers = {"numbers": "numbers", "codes": "codes"}
        self.pointers |= {name: f"c{place}" for place, name in enumerate(graph.constants)}
        self.fields: list[str] = []

    def constants(self, body: str) -> str:
        """Return the constants that the statements use: shapes and axes are known before."""
        used = set(re.findall(r"\bc\d+\b", body))
        arrays = {self.pointers[name]: array for name, array in self.graph.constants.items()}
        return "".join(_constant(name, array) for name, array in arrays.items() if name in used)

    def lines(self, names: list[str]) -> list[str]:
        """Return the functions; results are in one structure."""
        parts = [self._part(node) for node in self.graph.nodes]
        out, at = [], 0
        for name in names:
            value = self.graph.outputs[name]
            n = self.values[value].size
            out.append(f"  for (int k = 0; k < {n}; k++) out[{at} + k] = {self.pointers[value]}[k];")
            at += n
        functions = [f"static void part{k}({ARGUMENTS}) {{\n{text}\n}}\n" for k, text in enumerate(parts) if text]
        listed = "".join(f"part{k}, " for k, text in enumerate(parts) if text)
        return [
            "typedef struct {",
            *self.fields,
            "} Values;\n",
            *functions,
            # GCC 12 takes loops that read and write in different steps for functions without effect, and drops their
            # calls (-ftree-loop-im with -fivopts). Which functions are in a volatile table it does not know.
            f"static void (*const volatile parts[])({ARGUMENTS}) = {{{listed}0}};\n",
            "int knotwork_predict(const double *numbers, const int *codes, double *out) {",
            "  Values *v = malloc(sizeof *v);",
            "  if (!v) return 1;",
            "  for (int k = 0; parts[k]; k++) parts[k](numbers, codes, v);",
            *out,
            "  free(v);",
            "  return 0;",
            "}\n",
        ]

    def _part(self, node: Node) -> str:
        if node.operation in ("Flatten", "Identity", "Reshape", "Unsqueeze"):
            self.pointers[node.output] = self.pointers[node.inputs[0]]
            return ""
        result = self.values[node.output]
        self.pointers[node.output] = f"v->v{len(self.fields)}"
        self.fields.append(f"  {C_TYPES[result.dtype.name]} v{len(self.fields)}[{max(result.size, 1)}];")
        return f"  (void)numbers; (void)codes; (void)v;\n{self._statement(node)}"

    def _statement(self, node: Node) -> str:
        if node.operation in STATEMENTS:
            return STATEMENTS[node.operation](self, node)
        if node.operation == "Sum":
            return self._elements(node, " + ".join(f"x{place}" for place in range(len(node.inputs))))
        formula = OPERATIONS[node.operation].code if node.operation in OPERATIONS else ""
        if not formula:
            raise argument_error("path", "be of another format: C has no such operation", node.operation)
        return self._elements(node, formula)

    def _elements(self, node: Node, formula: str) -> str:
        """Return a loop over the elements of the result."""
        shape = self.values[node.output].shape
        names = [f"x{place}" for place in range(len(node.inputs))] if node.operation == "Sum" else list("abc")
        places = [Elements(self.pointers[name], _steps(self.values[name].shape, shape)) for name in node.inputs]
        kinds = [C_TYPES[self.values[name].dtype.name] for name in node.inputs]
        given = zip(kinds, names, places, strict=False)
        reads = " ".join(f"const {kind} {name} = {{{place}}};" for place, (kind, name, _) in enumerate(given))
        result = Elements(self.pointers[node.output], _steps(shape, shape))
        return _loop(shape, [*places, result], f"{reads} {{{len(places)}}} = {formula};")

    def lines_of(self, name: str, axis: int) -> tuple[int, int, int]:
        """Return how many lines there are before an axis, its length, and the step along it."""
        shape = self.values[name].shape
        axis %= len(shape)
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


ARGUMENTS = "const double *numbers, const int *codes, Values *v"


def _constant(name: str, array: Array) -> str:
    kind, flat = C_TYPES[array.dtype.name], array.reshape(-1)
    if kind in ("float", "double"):
        digits = "%.9g" if kind == "float" else "%.17g"
        texts = [
            {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}.get(text, text)
            for text in map(digits.__mod__, flat.tolist())
        ]
    else:
        texts = [str(int(each)) for each in flat.tolist()]
    rows = [", ".join(texts[start : start + PER_LINE]) for start in range(0, len(texts), PER_LINE)]
    listed = ",\n".join(rows) or "0"
    return f"static const {kind} {name}[] = {{{listed}}};\n"


def _loop(shape: tuple[int, ...], places: Sequence[Elements], statement: str) -> str:
    """Return loops over the axes of a shape; in the statement, ``{0}`` is the element of the first place."""
    axes = [axis for axis, length in enumerate(shape) if length != 1]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for axis in axes:  # axes that all values go through as one are one
        steps = tuple(place.steps[axis] for place in places)
        if merged and all(before == step * shape[axis] for before, step in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = merged[-1][0] * shape[axis], steps
        else:
            merged.append((shape[axis], steps))
    texts = []
    for number, place in enumerate(places):
        parts = [
            f"{steps[number]} * i{k}" if steps[number] != 1 else f"i{k}"
            for k, (_, steps) in enumerate(merged)
            if steps[number]
        ]
        texts.append(f"{place.pointer}[{' + '.join(parts) or '0'}]")
    loops = "".join(f"  for (int i{k} = 0; i{k} < {length}; i{k}++)\n" for k, (length, _) in enumerate(merged))
    filled = statement
    for number, text in enumerate(texts):
        filled = filled.replace(f"{{{number}}}", text)
    return f"{loops}  {{ {filled} }}"


def _copied(shape: tuple[int, ...], source: Elements, target: Elements) -> str:
    return _loop(shape, [source, target], "{1} = {0};")


def _letter(writer: _Writer, name: str) -> str:
    return "f" if writer.values[name].dtype == np.float32 else "d"


def _along(helper: str) -> Callable[[_Writer, Node], str]:
    """Return the statement of an operation that maps lines to lines."""

    def statement(writer: _Writer, node: Node) -> str:
        x = node.inputs[0]
        axis = int(writer.values[node.inputs[1]]) if node.operation == "CumSum" else node.attributes["axis"]
        before, length, step = writer.lines_of(x, axis)
        name = f"r{helper}" if node.attributes.get("reverse") else helper
        start = f"i * {length * step} + j"
        given = f"{writer.pointers[x]} + {start}, {writer.pointers[node.output]} + {start}, {length}, {step}"
        call = f"{name}_{_letter(writer, x)}({given});"
        return f"  for (int i = 0; i < {before}; i++) for (int j = 0; j < {step}; j++) {call}"

    return statement


def _reduced(helper: str, divide: bool = False) -> Callable[[_Writer, Node], str]:
    """Return the statement of an operation that maps lines to numbers."""

    def statement(writer: _Writer, node: Node) -> str:
        x, axes = node.inputs
        (axis,) = writer.values[axes].tolist()
        before, length, step = writer.lines_of(x, axis)
        value = f"{helper}_{_letter(writer, x)}({writer.pointers[x]} + i * {length * step} + j, {length}, {step})"
        value += f" / {length}" if divide else ""
        return (
            f"  for (int i = 0; i < {before}; i++) for (int j = 0; j < {step}; j++) "
            f"{writer.pointers[node.output]}[i * {step} + j] = {value};"
        )

    return statement


def _matmul(writer: _Writer, node: Node) -> str:
    (a, b), result = node.inputs, writer.values[node.output]
    n, inner = writer.values[a].shape[-2:]
    width = result.shape[-1]
    batch = result.shape[:-2]
    places = [
        Elements(pointer, tuple(step * size for step in _steps(shape[:-2], batch)))
        for pointer, shape, size in (
            (writer.pointers[a], writer.values[a].shape, n * inner),
            (writer.pointers[b], writer.values[b].shape, inner * width),
            (writer.pointers[node.output], result.shape, n * width),
        )
    ]
    call = f"matmul_{_letter(writer, node.output)}(&{{0}}, &{{1}}, &{{2}}, {n}, {inner}, {width});"
    return _loop(batch, places, call)


def _transpose(writer: _Writer, node: Node) -> str:
    x, shape = node.inputs[0], writer.values[node.output].shape
    all_steps = _steps(writer.values[x].shape, writer.values[x].shape)
    source = Elements(writer.pointers[x], tuple(all_steps[axis] for axis in node.attributes["perm"]))
    return _copied(shape, source, Elements(writer.pointers[node.output], _steps(shape, shape)))


def _slice(writer: _Writer, node: Node) -> str:
    x, shape = node.inputs[0], writer.values[node.output].shape
    steps = _steps(writer.values[x].shape, writer.values[x].shape)
    start, _, axis = (int(writer.values[name][0]) for name in node.inputs[1:])
    source = Elements(f"({writer.pointers[x]} + {start * steps[axis]})", steps)
    return _copied(shape, source, Elements(writer.pointers[node.output], _steps(shape, shape)))


def _pad(writer: _Writer, node: Node) -> str:
    x, result = node.inputs[0], writer.values[node.output]
    shape, steps = writer.values[x].shape, _steps(result.shape, result.shape)
    before = writer.values[node.inputs[1]].tolist()[: len(shape)]
    start = sum(low * step for low, step in zip(before, steps, strict=True))
    target = Elements(f"({writer.pointers[node.output]} + {start})", steps)
    fill = f"  memset({writer.pointers[node.output]}, 0, sizeof {writer.pointers[node.output]});\n"
    return fill + _copied(shape, Elements(writer.pointers[x], _steps(shape, shape)), target)


def _concat(writer: _Writer, node: Node) -> str:
    shape = writer.values[node.output].shape
    steps, axis, start, out = _steps(shape, shape), node.attributes["axis"], 0, []
    for name in node.inputs:
        own = writer.values[name].shape
        target = Elements(f"({writer.pointers[node.output]} + {start * steps[axis]})", steps)
        out.append(_copied(own, Elements(writer.pointers[name], _steps(own, own)), target))
        start += own[axis]
    return "\n".join(out)


def _gather(writer: _Writer, node: Node) -> str:
    x, places = node.inputs
    before, length, step = writer.lines_of(x, node.attributes["axis"])
    n = writer.values[places].size
    return (
        f"  for (int i = 0; i < {before}; i++) for (int p = 0; p < {n}; p++) for (int j = 0; j < {step}; j++)\n"
        f"    {writer.pointers[node.output]}[(i * {n} + p) * {step} + j] = "
        f"{writer.pointers[x]}[(i * {length} + {writer.pointers[places]}[p]) * {step} + j];"
    )


def _layernorm(writer: _Writer, node: Node) -> str:
    x, weight, bias = (writer.pointers[name] for name in node.inputs)
    before, length, _ = writer.lines_of(node.inputs[0], -1)
    given = f"{x} + i * {length}, {weight}, {bias}, {writer.pointers[node.output]} + i * {length}, {length}"
    call = f"layernorm_{_letter(writer, node.output)}({given}, {node.attributes['epsilon']!r});"
    return f"  for (int i = 0; i < {before}; i++) {call}"


def _spline_statement(writer: _Writer, node: Node) -> str:
    x, knots, counts = (writer.pointers[name] for name in node.inputs)
    features, length = writer.values[node.inputs[1]].shape
    settings = f"{features}, {length}, {node.attributes['degree']}"
    return (
        f"  splines_{_letter(writer, node.output)}({x}, {knots}, {counts}, {writer.pointers[node.output]}, {settings});"
    )


def _tree_statement(writer: _Writer, node: Node) -> str:
    numbers, codes, *arrays = (writer.pointers[name] for name in node.inputs)
    feature, value, left, right, missing, roots, outputs, start, columns, starts, values = arrays
    n_trees, out = writer.values[node.inputs[7]].size, writer.pointers[node.output]
    given = [numbers, codes, str(node.attributes["n_numerical"]), feature, value, left, right, missing, roots, outputs]
    call = ", ".join([*given, columns, starts, values, str(n_trees), out])
    n_outputs = writer.values[node.output].size
    return f"  for (int k = 0; k < {n_outputs}; k++) {out}[k] = {start}[k];\n  trees({call});"


def _curve_statement(writer: _Writer, node: Node) -> str:
    x, breaks, coefficients, missing = (writer.pointers[name] for name in node.inputs)
    _, powers, k = writer.values[node.inputs[2]].shape
    n = writer.values[node.inputs[1]].size
    return f"  curve({x}[0], {breaks}, {n}, {coefficients}, {powers}, {k}, {missing}, {writer.pointers[node.output]});"


def _surface_statement(writer: _Writer, node: Node) -> str:
    x, y, x_breaks, y_breaks, coefficients = (writer.pointers[name] for name in node.inputs)
    nx, ny = (writer.values[name].size for name in node.inputs[2:4])
    _, _, na, nb, k = writer.values[node.inputs[4]].shape
    given = f"{x}[0], {y}[0], {x_breaks}, {nx}, {y_breaks}, {ny}, {coefficients}, {na}, {nb}, {k}"
    return f"  surface({given}, {writer.pointers[node.output]});"


STATEMENTS: dict[str, Callable[[_Writer, Node], str]] = {
    "Concat": _concat,
    "Curve": _curve_statement,
    "CumSum": _along("cumsum"),
    "Gather": _gather,
    "LayerNormalization": _layernorm,
    "LogSoftmax": _along("logsoftmax"),
    "MatMul": _matmul,
    "Pad": _pad,
    "ReduceLogSumExp": _reduced("logsumexp"),
    "ReduceMean": _reduced("total", divide=True),
    "ReduceSum": _reduced("total"),
    "Slice": _slice,
    "Softmax": _along("softmax"),
    "Splines": _spline_statement,
    "Surface": _surface_statement,
    "Transpose": _transpose,
    "Trees": _tree_statement,
}
"""The statements of operations that are not of each element alone."""
