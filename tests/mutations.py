"""Do the tests notice mistakes? Changes the source in one place at a time, and runs the tests of that module.

    .venv/bin/python tests/mutations.py                       # mutants of 12 modules against the tests of make test
    .venv/bin/python tests/mutations.py --root /tmp/before    # of another checkout, against its own tests

A mutant is a comparison, a sum, a product or a condition that is changed. It is killed if a test fails. Places are
drawn by a random seed from the lines of the source of this checkout; a place whose line another checkout does not have
is left out there, so that both are compared on the same mutants.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODULES = {
    "basis/_bspline.py": ["basis"],
    "basis/_families.py": ["basis"],
    "knots/_placements.py": ["knots"],
    "knots/_columns.py": ["knots", "encoders/test_contract.py"],
    "encoders/_transformers.py": ["encoders/test_contract.py", "encoders/test_methods.py", "encoders/test_cyclic.py"],
    "encoders/_pairs.py": ["encoders/test_pairs.py", "encoders/test_tensor.py"],
    "_kernels/encoding.py": ["kernels/test_encoding.py", "nn/test_encoding.py"],
    "_kernels/dropout.py": ["kernels/test_dropout.py", "kernels/test_noise.py"],
    "training/_stack.py": ["training/test_stack.py", "training/test_engine.py", "training/test_train.py"],
    "training/_engine.py": ["training/test_engine.py", "training/test_train.py", "training/test_progress.py"],
    "additive/_fitting.py": ["additive/test_fitting.py", "additive/test_models.py"],
    "study/_records.py": ["study/test_records.py", "study/test_run.py", "study/test_packing.py"],
}
"""The modules that are changed, and the tests in tests/ that know them best."""

SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
LIMIT = 900
"""Seconds after which a mutant that makes a test hang counts as killed."""


def has_text(node):
    """Return whether an operand is text: a path or a sentence, whose change is an error in any case."""
    return any(isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
               for each in (node.left, node.right))  # fmt: skip


def changes(source):
    """Yield for each place that can be changed the first and last position in the text, and the new text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))

    def span(node):
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    tree = ast.parse(source)
    names = {id(child) for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign) and
             node in tree.body for child in ast.walk(node)}  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in names:
            continue  # constants of the module are often tuning, which no test should fix
        if isinstance(node, ast.BinOp) and type(node.op) in SWAPS and not has_text(node):
            left, right = ast.unparse(node.left), ast.unparse(node.right)
            yield *span(node), f"(({left}) {SWAPS[type(node.op)]} ({right}))"
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPS:
            left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
            yield *span(node), f"(({left}) {SWAPS[type(node.ops[0])]} ({right}))"
        elif isinstance(node, ast.BoolOp):
            yield *span(node), f"({f' {SWAPS[type(node.op)]} '.join(f'({ast.unparse(each)})' for each in node.values)})"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield *span(node), f"bool({ast.unparse(node.operand)})"
        elif isinstance(node, ast.If | ast.IfExp):
            yield *span(node.test), f"(not ({ast.unparse(node.test)}))"


def mutants(module, number, seed):
    """Return changes of a module, each as the line that is changed, its rank among equal lines, and the new module."""
    source = (ROOT / "src/knotwork" / module).read_text()
    places = sorted(set(changes(source)))
    chosen = random.Random(f"{seed} {module}").sample(places, min(number, len(places)))
    out = []
    for start, end, text in chosen:
        content = source.encode()
        line = content[:start].count(b"\n")
        out.append((source.splitlines()[line].strip(), content[start:end].decode(), text))
    return out


def mutated(source, line, before, after):
    """Return a source in which a piece of a line is replaced; None if it has no such line."""
    place = source.find(line)
    if place < 0 or source.find(before, place) < 0:
        return None
    at = source.index(before, place)
    return source[:at] + after + source[at + len(before) :]


def is_killed(root, module, new, tests):
    """Return whether a test fails with a changed module, in a copy of the package."""
    with tempfile.TemporaryDirectory() as folder:
        # Compiled code is used again, unless it may contain the function that is changed.
        stale = shutil.ignore_patterns("*.nbi", "*.nbc") if "@compiled" in new else None
        shutil.copytree(root / "src", Path(folder) / "src", ignore=stale)
        (Path(folder) / "src/knotwork" / module).write_text(new)
        environment = {**os.environ, "PYTHONPATH": f"{folder}/src", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(
                command, cwd=root, env=environment, capture_output=True, timeout=LIMIT, check=False, text=True
            )
        except subprocess.TimeoutExpired:
            return True
        if done.returncode in (3, 4, 5):  # an error of pytest, or no tests; a crash of the process is a mutant killed
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        return done.returncode != 0


def main():
    """Print a line for every mutant, and the number of those that were killed in each module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout whose source and tests are used")
    parser.add_argument("--number", type=int, default=5, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the places")
    parser.add_argument("--out", type=Path, help="file for the results, a JSON line each")
    parser.add_argument("modules", nargs="*", default=list(MODULES), help="modules within src/knotwork")
    given = parser.parse_args()
    for module in given.modules:
        results = []
        source = (given.root / "src/knotwork" / module).read_text()
        for line, before, after in mutants(module, given.number, given.seed):
            new = mutated(source, line, before, after)
            if new is None:
                print(f"{module}: left out, the line is not there: {line}", flush=True)
                continue
            results.append(is_killed(given.root, module, new, [f"tests/{each}" for each in MODULES[module]]))
            print(f"{module}: {'killed  ' if results[-1] else 'SURVIVED'} {before!r} -> {after!r}", flush=True)
            if given.out:
                with given.out.open("a") as file:
                    print(json.dumps([module, line, before, after, results[-1]]), file=file)
        print(f"{module}: {sum(results)} of {len(results)} killed", flush=True)


if __name__ == "__main__":
    main()
