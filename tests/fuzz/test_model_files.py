"""Model files with random damage are refused, or predict as before; nothing crashes, hangs or raises a foreign error.

A file that was saved by this version has checksums: after damage to its bytes it predicts the same or is refused. Edits
of the header go without a checksum, as in an attack: they may load, but must not crash.
"""

import os

import numpy as np
import pytest

import knotwork
from knotwork import ColumnConfig
from tests.estimators.saved_cases import fitted, table
from tests.fuzz.children import Child
from tests.fuzz.mutations import mutate, mutate_header

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns


N_CASES = 2000 if os.environ.get("KNOTWORK_FUZZ") == "full" else 60
KINDS = {
    "learned": {"encoding": "BS-Grad-U@6", "backbone": "resnet", "n_members": 2},
    "mapping": {"encoding": {"age": "PBLD@6", "income": "Cosine@6+L3x", "flat": "Robust+L3x", "owns": "Std+L3x"}},
    "classes": {"encoding": "IS-Q@5", "backbone": "tabm", "kind": "text"},
    "ensemble": {"encoding": "auto", "search": "ensemble"},
    "tokens": {"encoding": "PLE@5", "backbone": "ft", "kind": "int"},
    "coordinate": {"encoding": "Std", "backbone": "coordinate", "kind": "text"},
    "codes": {"encoding": "BS-Q@6", "columns": ColumnConfig(["code"], categories="code")},
}


def predictions(path):
    """Return what a model file predicts for a few rows; for `Child`."""
    model = knotwork.load(path, device="cpu")
    predict = model.predict if isinstance(model, knotwork.TabularRegressor) else model.predict_proba
    return np.asarray(predict(table(20))).tolist()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, settings in KINDS.items():
        fitted(**settings).save(folder / name)
    return [folder / name for name in KINDS]


@pytest.mark.slow  # tests/estimators/test_damaged_files.py has one case of each kind
def test_damaged_model_files(files, tmp_path):
    failures, counts = [], {"refused": 0, "the same": 0, "loaded": 0}
    path = tmp_path / "damaged"
    with Child("tests.fuzz.test_model_files:predictions") as child:
        expected = {file: child.ask(path=str(file)).get("result") for file in files}
        assert None not in expected.values()
        for seed in range(N_CASES):
            random = np.random.default_rng(seed)
            file = files[int(random.integers(len(files)))]
            data, edited = file.read_bytes(), bool(random.random() < 0.5)
            path.write_bytes(mutate_header(data, random, key="knotwork") if edited else mutate(data, random))
            answer = child.ask(path=str(path))
            if "error" in answer and answer["ours"]:
                counts["refused"] += 1
            elif "result" in answer and answer["result"] == expected[file]:
                counts["the same"] += 1
            elif "result" in answer and edited:
                counts["loaded"] += 1
            else:
                failures.append((seed, file.name, answer))
    print(f"\n{N_CASES} model files: {counts}")
    assert not failures, "\n".join(f"seed {seed} of {name}: {answer}" for seed, name, answer in failures[:5])
    assert counts["refused"] > 0.3 * N_CASES
