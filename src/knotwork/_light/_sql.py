"""A predictor in SQL: one query over a table, for additive models and boosted trees.

The graph is computed for one row whose elements are expressions. What is long becomes a column of a subquery, so that
no expression stands twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from knotwork._checks import argument_error
from knotwork._graph import OPERATIONS, Array, Forest, Graph, Node
from knotwork._light._conversions import column_contents
from knotwork._light._predictor import Predictor
from knotwork._preparation.learning import Role

LONGEST = 60
"""Characters of an expression that may stand several times."""

SUMMED = 40
"""Terms that are added in one expression: engines limit the depth of expressions."""

MOST_STEPS, MOST_TREE_NODES = 1_000, 200_000
"""Columns of subqueries and nodes of trees at most: SQLite takes 30 KB for a node, and 2,000 columns."""

FORMULAS: dict[str, str] = {
    "Abs": "abs({0})",
    "Add": "({0} + {1})",
    "Div": "({0} / {1})",
    "Exp": "exp({0})",
    "Log": "ln({0})",
    "Mul": "({0} * {1})",
    "Neg": "(-{0})",
    "Sub": "({0} - {1})",
    "Max": "(CASE WHEN {0} > {1} THEN {0} ELSE {1} END)",
    "Clip": "(CASE WHEN {0} < {1} THEN {1} WHEN {0} > {2} THEN {2} ELSE {0} END)",
}
"""The operations on each element that SQL has."""


def _name_in_sql(name: str) -> str:
    """Return a name in double quotes, which may have any character."""
    return '"' + name.replace('"', '""') + '"'


def _text_in_sql(text: str) -> str:
    """Return a text as a literal: only the apostrophe has a meaning in it."""
    return "'" + text.replace("'", "''") + "'"


def _number_in_sql(value: Any) -> str:
    """Return a number as a literal of a float."""
    if value != value or abs(value) == np.inf:  # noqa: PLR0124 - only NaN differs from itself
        return "NULL" if value != value else ("1e999" if value > 0 else "-1e999")  # noqa: PLR0124
    return f"{float(value)!r}" if "e" in repr(float(value)) or "." in repr(float(value)) else f"{float(value)!r}.0"


def sql_model(predictor: Predictor) -> bytes:
    """Return a query in SQL; NULL is a missing value."""
    graph = predictor.graph.needed([predictor.output])
    n_nodes = sum(len(graph.constants[node.inputs[2]]) for node in graph.nodes if node.operation == "Trees")
    if n_nodes > MOST_TREE_NODES:
        raise argument_error(
            "path", f"be of another format: SQL has at most {MOST_TREE_NODES:,} nodes of trees", n_nodes
        )
    query = _Query(predictor)
    for node in graph.nodes:
        query.add(node, graph)
    values = query.values[graph.outputs[predictor.output]].reshape(-1)
    lines = ['-- A model of knotwork: predictions for the rows of the table "data".']
    contents = column_contents(predictor.columns)
    lines += [
        f"-- {_comment(each['label'])}: {_comment(each['conversion'])}" for each in contents if each["conversion"]
    ]
    lines += ["WITH", ",\n".join(query.steps())]
    names = predictor.response_names
    columns = [
        f"{_spelt(each)} AS {_name_in_sql(_output(predictor, name))}" for each, name in zip(values, names, strict=True)
    ]
    if predictor.labels is not None:
        columns.insert(0, f"{_best(values, predictor)} AS {_name_in_sql('prediction')}")
    lines += [f"SELECT {', '.join(columns)}", f"FROM step{query.n_steps}", 'ORDER BY "knotwork row";', ""]
    return "\n".join(lines).encode()


def _comment(text: str) -> str:
    """Return a text that cannot end the comment that it stands in."""
    return " ".join(text.split())


def _output(predictor: Predictor, name: str) -> str:
    if predictor.labels is not None:
        return f"probability_{name}"
    return f"prediction {name}".strip()


def _best(values: Array, predictor: Predictor) -> str:
    """Return the label with the largest probability, the first of equal ones."""
    assert predictor.labels is not None
    shares, cases = [_spelt(each) for each in values], []
    for place, label in enumerate(predictor.labels.values):
        others = [
            f"{shares[place]} {'>' if other < place else '>='} {share}"
            for other, share in enumerate(shares)
            if other != place
        ]
        shown = (
            _text_in_sql(label)
            if isinstance(label, str)
            else str(label).upper()
            if isinstance(label, bool)
            else repr(label)
        )
        cases.append(f"WHEN {' AND '.join(others) or '1 = 1'} THEN {shown}")
    return f"CASE {' '.join(cases)} END"


def _spelt(value: Any) -> str:
    return value if isinstance(value, str) else _number_in_sql(value)


@dataclass
class _Query:
    """The values of one row as arrays of numbers and of expressions, and the columns of subqueries."""

    predictor: Predictor
    values: dict[str, Array] = field(default_factory=dict)
    columns: list[list[str]] = field(default_factory=list)
    n_columns: int = 0

    def __post_init__(self) -> None:
        columns = self.predictor.columns
        numbers, codes = [], []
        for label, column, about in zip(columns.labels, columns, column_contents(columns), strict=True):
            source = _name_in_sql(str(label))
            if column.role == Role.CATEGORICAL:
                cases = [_category(source, label, code) for code, label in enumerate(column.categories, 1)]
                codes.append(f"CASE {' '.join(cases)} ELSE 0 END" if cases else "0")
            elif column.role != Role.IGNORED:  # text and dates become these columns of numbers before the query
                numbers += [f"CAST({_name_in_sql(each)} AS DOUBLE PRECISION)" for each in about["numbers"]]
        self.values["numbers"], self.values["codes"] = (self._kept(each, longest=0) for each in (numbers, codes))

    @property
    def n_steps(self) -> int:
        """Number of subqueries."""
        return len(self.columns)

    def steps(self) -> list[str]:
        """Return the subqueries."""
        first = 'step0 AS (SELECT *, row_number() OVER () AS "knotwork row" FROM "data")'
        return [first, *(
            f"step{place} AS (SELECT *, {', '.join(columns)} FROM step{place - 1})"
            for place, columns in enumerate(self.columns, 1)
        )]  # fmt: skip

    def _kept(self, elements: Sequence[Any], longest: int = LONGEST) -> Array:
        """Return elements of one row, of which long expressions are columns of the next subquery."""
        out, new = np.empty((1, len(elements)), dtype=object), []
        for place, element in enumerate(elements):
            out[0, place] = element
            if isinstance(element, str) and len(element) > longest:
                out[0, place] = f'"knotwork {self.n_columns}"'
                new.append(f"{element} AS {out[0, place]}")
                self.n_columns += 1
        if new:
            self.columns.append(new)
        if self.n_columns > MOST_STEPS:
            raise argument_error("path", "be of another format: the model is too large for SQL", self.n_columns)
        return out

    def add(self, node: Node, graph: Graph) -> None:
        """Compute a node."""
        given = [self.values[name] if name in self.values else graph.constants[name] for name in node.inputs]
        if node.operation in FORMULAS:
            made = np.frompyfunc(lambda *each: _filled(FORMULAS[node.operation], each), len(given), 1)(*given)
        elif node.operation in EXPRESSIONS:
            made = EXPRESSIONS[node.operation](*given, **node.attributes)
        else:
            hint = (
                "SQL says additive models, and boosted trees of numbers and classes: networks have .c, .js and .onnx."
            )
            raise argument_error("path", f"be of another format, SQL has no {node.operation}", node.operation, hint)
        made = np.asarray(made, dtype=object)
        self.values[node.output] = self._kept(made.reshape(-1).tolist()).reshape(made.shape)


def _category(source: str, label: Any, code: int) -> str:
    if isinstance(label, str):
        return f"WHEN {source} = {_text_in_sql(label)} THEN {code}"
    return f"WHEN {source} = {int(label) if isinstance(label, bool) else label!r} THEN {code}"


def _filled(formula: str, elements: Sequence[Any]) -> Any:
    return formula.format(*map(_spelt, elements))


def _curve(x: Array, breaks: Array, coefficients: Array, missing: Array) -> list[list[str]]:
    """Return polynomials as cases of the intervals."""
    source = x[0, 0]
    out = []
    for output in range(coefficients.shape[2]):
        cases = [f"WHEN {source} IS NULL THEN {_number_in_sql(missing[output])}"]
        cases += [f"WHEN {source} < {_number_in_sql(breaks[0])} THEN {_number_in_sql(coefficients[0, 0, output])}"]
        for place in range(len(breaks) - 1):
            low, high, last = breaks[place], breaks[place + 1], place == len(breaks) - 2
            polynomial = _horner(f"({source} - {_number_in_sql(low)})", coefficients[place, :, output].tolist())
            cases.append(f"WHEN {source} {'<=' if last else '<'} {_number_in_sql(high)} THEN {polynomial}")
        end = float(np.polynomial.polynomial.polyval(breaks[-1] - breaks[-2], coefficients[-1, :, output]))
        out.append(f"CASE {' '.join(cases)} ELSE {_number_in_sql(end)} END")
    return [out]


def _horner(distance: str, coefficients: Sequence[Any]) -> str:
    text = _spelt(coefficients[-1])
    for value in reversed(coefficients[:-1]):
        text = f"({text} * {distance} + {_spelt(value)})"
    return text


def _surface(x: Array, y: Array, x_breaks: Array, y_breaks: Array, coefficients: Array) -> list[list[str]]:
    """Return polynomials of two values as cases of cases."""
    inside = [
        f"(CASE WHEN {each[0, 0]} < {_number_in_sql(b[0])} THEN {_number_in_sql(b[0])} "
        f"WHEN {each[0, 0]} > {_number_in_sql(b[-1])} THEN {_number_in_sql(b[-1])} ELSE {each[0, 0]} END)"
        for each, b in ((x, x_breaks), (y, y_breaks))
    ]
    out = []
    for output in range(coefficients.shape[4]):
        rows = []
        for i in range(coefficients.shape[0]):
            cells = []
            for j in range(coefficients.shape[1]):
                u, v = (
                    f"({one} - {_number_in_sql(low)})"
                    for one, low in zip(inside, (x_breaks[i], y_breaks[j]), strict=True)
                )
                polynomial = _horner(u, [_horner(v, each) for each in coefficients[i, j, :, :, output]])
                cells.append(_until(inside[1], y_breaks, j, polynomial))
            rows.append(_until(inside[0], x_breaks, i, _chosen(cells)))
        known = f"WHEN {x[0, 0]} IS NULL OR {y[0, 0]} IS NULL THEN 0.0"
        out.append(f"CASE {known} ELSE {_chosen(rows)} END")
    return [out]


def _until(value: str, breaks: Array, place: int, text: str) -> str:
    is_last = place == len(breaks) - 2
    return f"ELSE {text}" if is_last else f"WHEN {value} < {_number_in_sql(breaks[place + 1])} THEN {text}"


def _chosen(cases: list[str]) -> str:
    """Return the choice among cases, of which the last one begins with ELSE."""
    return f"CASE {' '.join(cases)} END" if len(cases) > 1 else cases[0].removeprefix("ELSE ")


def _trees(numbers: Array, codes: Array, *arrays: Array, n_numerical: int) -> list[list[str]]:
    """Return sums of trees, each a case of cases."""
    forest = Forest(n_numerical, *arrays)
    terms: list[list[str]] = [[_number_in_sql(start)] for start in forest.start]
    for root, output in zip(forest.roots.tolist(), forest.outputs.tolist(), strict=True):
        terms[output].append(_tree(forest, root, numbers[0], codes[0] if codes.size else codes))
    return [[_added(each) for each in terms]]


def _tree(forest: Forest, node: int, numbers: Array, codes: Array) -> str:
    """Return a tree from a node on."""
    feature, value = int(forest.feature[node]), forest.value[node]
    if feature < 0:
        return _number_in_sql(value)
    left, right = (_tree(forest, int(each[node]), numbers, codes) for each in (forest.left, forest.right))
    if feature < forest.n_numerical:
        test = f"{numbers[feature]} <= {_number_in_sql(value)}"
        missing = "left" if forest.missing_left[node] else "right"
        if missing == "left":
            return f"CASE WHEN {numbers[feature]} > {_number_in_sql(value)} THEN {right} ELSE {left} END"
        return f"CASE WHEN {test} THEN {left} ELSE {right} END"
    place = feature - forest.n_numerical
    column = int(forest.code_columns[place])
    start = int(forest.code_starts[place])
    ends = np.append(forest.code_starts, len(forest.code_values))
    stop = int(ends[ends > start].min(initial=len(forest.code_values)))
    of_codes = forest.code_values[start:stop]
    goes_right = (of_codes > value) | (np.isnan(of_codes) & ~forest.missing_left[node])
    chosen = ", ".join(map(str, np.flatnonzero(goes_right).tolist()))
    return f"CASE WHEN {codes[column]} IN ({chosen or 'NULL'}) THEN {right} ELSE {left} END"


def _added(terms: Sequence[Any]) -> str:
    """Return a sum whose depth is small."""
    texts = [_spelt(each) for each in terms]
    while len(texts) > 1:
        texts = [f"({' + '.join(texts[start : start + SUMMED])})" for start in range(0, len(texts), SUMMED)]
    return texts[0]


def _softmax(x: Array, *, axis: int) -> list[list[str]]:
    """Return shares, by differences from each other: no exponential is larger than needed."""
    del axis
    row = x[0]
    return [[f"(1.0 / {_added([_exponential(other, one) for other in row])})" for one in row]]


def _exponential(other: Any, one: Any) -> str:
    """Return ``exp(other - one)``, at most e^700."""
    if other is one or other == one:
        return "1.0"
    difference = f"({_spelt(other)} - {_spelt(one)})"
    return f"exp(CASE WHEN {difference} > 700.0 THEN 700.0 ELSE {difference} END)"


def _sum(*values: Array) -> Any:
    return np.frompyfunc(lambda *each: _added(each), len(values), 1)(*values)


def _gather(x: Array, places: Array, *, axis: int) -> Any:
    """Return elements, or the rows of a table by a code."""
    if places.dtype != object:
        return np.take(x, places, axis=axis)
    code = places.reshape(-1)[0]
    table = x.reshape(len(x), -1)
    columns = []
    for values in table.T:
        cases = " ".join(f"WHEN {place} THEN {_number_in_sql(value)}" for place, value in enumerate(values.tolist()))
        columns.append(f"CASE {code} {cases} END")
    out = np.empty((1, table.shape[1]), dtype=object)
    out[0] = columns
    return out


def _is_missing(x: Array) -> Any:
    return np.frompyfunc(lambda each: f"(CASE WHEN {each} IS NULL THEN 1.0 ELSE 0.0 END)", 1, 1)(x)


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "Cast": lambda x, *, to: x,
    "Concat": OPERATIONS["Concat"].function,
    "Curve": _curve,
    "Gather": _gather,
    "Identity": OPERATIONS["Identity"].function,
    "IsNaN": _is_missing,
    "Reshape": OPERATIONS["Reshape"].function,
    "Slice": lambda x, start, stop, axis: np.take(
        x, range(*slice(start[0], stop[0]).indices(x.shape[axis[0]])), axis[0]
    ),
    "Softmax": _softmax,
    "Sum": _sum,
    "Surface": _surface,
    "Trees": _trees,
}
"""The other operations that SQL can say."""
