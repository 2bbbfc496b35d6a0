"""Files that are cut short, changed or hostile give a clear error, and run nothing."""

import json
import pickle
import resource
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import knotwork
from knotwork import TabularRegressor
from knotwork._model_files import SCHEMA, FileLimits, n_values
from knotwork.errors import PersistenceError
from knotwork.nn import MLPConfig
from tests.estimators.saved_cases import SHORT, fitted, of_all_backbones, read_file, table, write_file

pytestmark = pytest.mark.filterwarnings("ignore::knotwork.errors.ColumnWarning")  # of constant columns


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a file with learned knots, categories, missing values and two members."""
    path = tmp_path_factory.mktemp("saved") / "model"
    fitted("BS-Grad-U@6", "resnet", n_members=2).save(path)
    return path


def test_files_that_knotwork_did_not_write(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file .*missing"):
        knotwork.load(tmp_path / "missing")
    with pytest.raises(PersistenceError, match="is not a file"):
        knotwork.load(tmp_path)
    for name, content in {
        "empty": b"",
        "pickle": pickle.dumps([1]),
        "text": b"hello" * 100,
        "zeros": bytes(64),
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(PersistenceError, match=f"{name}' is not a knotwork file, or is damaged or truncated"):
            knotwork.load(tmp_path / name)
    save_file({"a": torch.zeros(2)}, tmp_path / "other")
    with pytest.raises(PersistenceError, match="contains tensors, but no knotwork estimator"):
        knotwork.load(tmp_path / "other")
    with pytest.raises(ValueError, match="device must be 'auto' or a device"):
        knotwork.load(tmp_path / "other", device="abacus")


def test_files_cut_short(saved, tmp_path):
    complete = saved.read_bytes()
    lengths = {*range(0, 40), *np.linspace(40, len(complete) - 1, 60).astype(int).tolist(), len(complete) - 1}
    for length in sorted(lengths):
        (tmp_path / "cut").write_bytes(complete[:length])
        with pytest.raises(PersistenceError, match="damaged or truncated"):
            knotwork.load(tmp_path / "cut")
    (tmp_path / "cut").write_bytes(complete + b"x")
    with pytest.raises(PersistenceError, match="damaged or truncated"):
        knotwork.load(tmp_path / "cut")


def test_changed_bytes_are_an_error_or_change_no_tensor(saved, tmp_path):
    complete = saved.read_bytes()
    _, wanted = read_file(saved)
    start = 8 + int.from_bytes(complete[:8], "little")
    rng = np.random.default_rng(0)
    places = [*rng.integers(0, start, 120), *rng.integers(start, len(complete), 40)]
    for place in places:
        changed = bytearray(complete)
        changed[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "changed").write_bytes(changed)
        try:
            model = knotwork.load(tmp_path / "changed", device="cpu")
        except PersistenceError:
            continue
        assert place < start, "a changed tensor was loaded"
        state = model.trained_.pieces[0].network.state_dict()
        for name, tensor in state.items():
            assert torch.equal(tensor, wanted[f"pieces0.network.{name}"])
        model.predict(table(5).set_axis(model.feature_names_in_, axis=1))


def change(content, where, value):
    *path, last = where
    for step in path:
        content = content[step]
    content[last] = value


def mapping(values):
    """Return a mapping as files have it."""
    return {"type": "mapping", "keys": list(values), "values": list(values.values())}


CANDIDATE = {
    "method": "BS-Q", "size": 6, "backbone": "mlp", "score": 0.5, "metric": "rmse", "seconds": 1.0, "weight": 1.0
}  # fmt: skip
ODD = {
    "method": "eval", "size": 0, "backbone": "vgg", "score": "0", "metric": "exec", "seconds": -1.0, "weight": None
}  # fmt: skip
HUGE = 2**62
LAYOUT = ("model", "pieces", 0, "layout")
PART = (*LAYOUT, "parts", 0)
BACKBONE = ("model", "pieces", 0, "backbone")
CHOICE = {"type": "FeatureChoice", "column": "age", "encoding": "Std", "losses": mapping({}), "reason": ""}
LOG_LOSS = {"type": "log_loss", "class_weight": None, "calibrate": None}
COLUMN_CONFIG = ("parameters", "columns")
VALIDATION = {"type": "ValidationConfig", "rows": "time", "share": 0.1, "refit": False}
EDITS = [
    (("class",), "os.system"),
    (("class",), ["TabularRegressor"]),
    (("class",), "TabularClassifier"),
    (("extra",), 1),
    (("model",), {}),
    (("model", "type"), "SavedPiece"),
    (("model", "extra"), 1),
    (("model", "task", "type"), "Classification"),
    (("model", "task", "type"), "classification"),
    (("model", "task", "objective"), LOG_LOSS),
    (("model", "task"), {"type": "Classification", "objective": LOG_LOSS, "labels": None, "by_class": None}),
    (("model", "task", "labels"), {"type": "Labels", "values": [1], "dtype": "int64"}),
    (("model", "n_targets"), 1),
    (("parameters",), []),
    (("parameters", "extra"), 1),
    (("parameters", "encoding"), {"a": 1}),
    (("parameters", "encoding"), mapping({"a": 3})),
    (("parameters", "encoding"), {"type": "mapping", "keys": [mapping({})], "values": ["BS"]}),
    (("parameters", "encoding"), {"type": "mapping", "keys": ["a", "b"], "values": ["BS"]}),
    (("parameters", "encoding"), [3]),
    (("parameters", "encoding"), {"type": "list", "items": "BS-Q"}),
    (("parameters", "encoding"), {"type": "list", "items": [3]}),
    (("parameters", "encoding"), {"type": "list", "items": [], "more": 1}),
    (("parameters", "encoding"), {"type": "array"}),
    (("parameters", "search"), 3),
    (COLUMN_CONFIG, 3),
    (COLUMN_CONFIG, {"categorical": ["code"]}),
    ((*COLUMN_CONFIG, "categorical"), [[]]),
    ((*COLUMN_CONFIG, "categorical"), "code"),
    ((*COLUMN_CONFIG, "categories"), "both"),
    ((*COLUMN_CONFIG, "missing"), None),
    ((*COLUMN_CONFIG, "extra"), 1),
    (("parameters", "n_members"), -1),
    (("parameters", "random_state"), 0.5),
    (("parameters", "random_state"), -1),
    (("parameters", "verbose"), False),
    (("parameters", "warm_start"), 1),
    (("parameters", "validation"), "all"),
    (("parameters", "validation"), 1),
    (("parameters", "validation"), []),
    (("parameters", "validation"), {"rows": "time"}),
    (("parameters", "validation"), VALIDATION | {"share": 2.0}),
    (("parameters", "validation"), VALIDATION | {"refit": 1}),
    (("parameters", "validation"), VALIDATION | {"rows": [[[0], [1]]]}),
    (("parameters", "interactions"), [["age", "age"]]),
    (("parameters", "interactions"), -1),
    (("parameters", "objective"), {"type": "quantile", "quantiles": 2.0}),
    (("parameters", "objective"), LOG_LOSS | {"class_weight": "even"}),
    (("parameters", "objective"), LOG_LOSS | {"class_weight": [["a"]]}),
    (("parameters", "objective"), {"type": "custom"}),
    (("parameters", "objective"), 3),
    (("parameters", "training"), {"max_epochs": 1}),
    (("parameters", "backbone"), {"type": "mlp", "widths": [HUGE], "dropout": 0.1}),
    (("parameters", "backbone"), "vgg"),
    (("parameters", "effort"), 3),
    (("parameters", "time_limit"), "1"),
    (("parameters", "time_limit"), -1.0),
    (("model", "columns"), []),
    (("model", "columns", 0, "role"), "categorical"),
    (("model", "columns", 3, "categories"), []),
    (("model", "columns", 0, "name"), 1),
    (("model", "columns", 0, "name"), "owns"),
    (("model", "choices"), None),
    (("model", "choices"), [CHOICE]),
    (("model", "encodings"), []),
    (("model", "encodings"), ["BS-Q@6", "BS-Q@6"]),
    (("model", "encodings", 0), []),
    (("model", "encodings", 0, 0), "eval"),
    (("model", "encodings", 1, 0), 3),
    (("model", "weights"), [0.5, 0.5]),
    (("model", "candidates"), {}),
    (("model", "candidates"), [mapping({"method": "BS-Q"})]),
    *((("model", "candidates"), [mapping({**CANDIDATE, name: value})]) for name, value in ODD.items()),
    (("model", "indicated"), [5]),
    (("model", "indicated"), [0, 0]),
    (("model", "indicated"), [-1]),
    (("model", "indicated"), []),
    (BACKBONE, {"type": "mlp", "widths": [8], "dropout": 0.1}),
    (BACKBONE, None),
    (BACKBONE, "resnet"),
    ((*BACKBONE, "type"), "mlp"),
    ((*BACKBONE, "width"), HUGE),
    ((*BACKBONE, "width"), 9),
    ((*BACKBONE, "hidden"), -1),
    ((*BACKBONE, "n_blocks"), 10**9),
    ((*BACKBONE, "n_blocks"), True),
    ((*BACKBONE, "dropout"), [0.0] * 10),
    (("model", "config", "metric"), "auc"),
    (("model", "config", "max_epochs"), 0),
    (("model", "categories"), "both"),
    (("model", "categories"), "code"),
    (("model", "pieces"), []),
    (("model", "pieces"), {}),
    (("model", "pieces", 0, "places"), [0, 0]),
    (("model", "pieces", 0, "places"), [0, 2]),
    (("model", "pieces", 0, "places"), [0]),
    (("model", "pieces", 0, "places"), []),
    ((*LAYOUT, "size"), HUGE),
    ((*LAYOUT, "size"), 0),
    ((*LAYOUT, "size"), 1.5),
    ((*LAYOUT, "sizes"), [HUGE] * 4),
    ((*LAYOUT, "sizes"), [1] * 4),
    ((*LAYOUT, "sizes"), []),
    ((*LAYOUT, "min_spacing"), 0.0),
    ((*LAYOUT, "min_spacing"), 0.5),
    ((*LAYOUT, "parts"), []),
    ((*PART, "kind"), 4),
    ((*PART, "kind"), -2),
    ((*PART, "kind"), -1),
    ((*PART, "degree"), HUGE),
    ((*PART, "degree"), 4),
    ((*PART, "degree"), -1),
    ((*PART, "start"), 1),
    ((*PART, "start"), -1),
    ((*PART, "stop"), 1),
    ((*PART, "stop"), HUGE),
    ((*PART, "learned"), False),
    ((*PART, "features"), [0, 1]),
    ((*PART, "features"), [0, 1, 2, 3, 3]),
    ((*PART, "features"), [0, 1, 2, HUGE]),
    ((*PART, "features"), [-1, 0, 1, 2]),
    ((*PART, "features"), []),
    ((*PART, "family"), "bspline"),
    ((*PART, "family"), "eval"),
    (("model", "best_epochs"), []),
    (("model", "best_epochs", 0), 3),
    (("model", "best_epochs", 0), -1),
    (("model", "seconds", 0), -1),
    (("model", "interrupted"), None),
    (("model", "importances"), None),
    (("model", "calibration", "temperature"), 0.0),
    (("model", "calibration", "residuals", "ends"), [0.9, 0.1]),
    (("model", "calibration", "groups"), [mapping({"rows": 1})]),
]


@pytest.mark.parametrize(("where", "value"), EDITS, ids=str)
def test_invalid_content(saved, tmp_path, where, value):
    content, tensors = read_file(saved)
    change(content, (where,) if isinstance(where, str) else where, value)
    write_file(tmp_path / "edited", content, tensors)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PersistenceError, match=r"edited' is damaged or was not written by knotwork: .* again\."):
        knotwork.load(tmp_path / "edited")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "more than 50 MB were needed"


ENCODING = "pieces0.network.encoding."
TENSORS = {
    "no knots at all": (f"{ENCODING}n_knots", lambda t: t - 100),
    "more knots than breaks": (f"{ENCODING}n_knots", lambda t: t + 1),
    "counts of another type": (f"{ENCODING}n_knots", lambda t: t.long()),
    "breaks that fall": (f"{ENCODING}breaks", lambda t: t.flip(-1)),
    "breaks that are equal": (f"{ENCODING}breaks", torch.zeros_like),
    "breaks that are no numbers": (f"{ENCODING}breaks", lambda t: t * torch.nan),
    "breaks of another shape": (f"{ENCODING}breaks", lambda t: t[..., :-1]),
    "breaks without an axis": (f"{ENCODING}breaks", lambda t: t[0]),
    "no breaks": (f"{ENCODING}breaks", lambda t: t[..., :0]),
    "a range of nothing": (f"{ENCODING}scale", torch.zeros_like),
    "nobody learns": (f"{ENCODING}learned", torch.zeros_like),
    "infinite logits": (f"{ENCODING}logits", lambda t: t + torch.inf),
    "weights of another shape": ("pieces0.network.backbone.first.weight", lambda t: t.transpose(1, 2)),
    "weights of half the precision": ("pieces0.network.backbone.first.weight", lambda t: t.half()),
    "weights that are no numbers": ("pieces0.network.backbone.head.bias", lambda t: t * torch.nan),
    "negative variances": ("pieces0.network.backbone.blocks.0.up_norm.running_var", lambda t: -t - 1),
    "a shift in another type": ("pieces0.shift", lambda t: t.float()),
    "a unit of nothing": ("units", torch.zeros_like),
    "a history of four rows": ("member0.history", lambda t: torch.cat([t, t[:1]])),
    "too few importances": ("importances", lambda t: t[1:]),
    "weights of one member": ("weights", lambda t: t[:1]),
    "weights that do not add up to one": ("weights", lambda t: 0.9 * t),
    "negative weights": ("weights", lambda t: t + torch.tensor([1.0, -1.0]).double()),
    "residuals that fall": ("calibration.residuals.values", lambda t: t.flip(-1)),
    "negative floors": ("calibration.residuals.floor", lambda t: -1.0 - t),
    "one tensor more": ("other", lambda _: torch.zeros(1)),
    "one parameter more": ("pieces0.network.other", lambda _: torch.zeros(1)),
    "no units": ("units", lambda _: None),
    "no embeddings": ("pieces0.network.embeddings.values", lambda _: None),
}


@pytest.mark.parametrize("case", TENSORS)
def test_invalid_tensors(saved, tmp_path, case):
    content, tensors = read_file(saved)
    name, edit = TENSORS[case]
    changed = edit(tensors.get(name))
    tensors = {key: tensor for key, tensor in {**tensors, name: changed}.items() if tensor is not None}
    write_file(tmp_path / "edited", content, tensors)
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Return a file with networks of four backbones: MLP, TabM, ResNet and FT-Transformer."""
    path = tmp_path_factory.mktemp("several") / "model"
    with pytest.MonkeyPatch.context() as monkeypatch:
        of_all_backbones(monkeypatch).save(path)
    return path


def swap(content, one, other, *names):
    pieces = content["model"]["pieces"]
    for name in names:
        pieces[one][name], pieces[other][name] = pieces[other][name], pieces[one][name]


SEVERAL = {
    "backbones of other networks": lambda content: swap(content, 0, 1, "backbone"),
    "layouts of other networks": lambda content: swap(content, 0, 3, "layout"),
    "networks of other tensors": lambda content: content["model"]["pieces"].reverse(),
    "fewer predictions": lambda content: change(content, ("model", "pieces", 1, "backbone", "n_predictions"), 2),
    "many predictions": lambda content: change(content, ("model", "pieces", 1, "backbone", "n_predictions"), HUGE),
    "no predictions": lambda content: change(content, ("model", "pieces", 1, "backbone", "n_predictions"), 0),
    "a member twice": lambda content: change(content, ("model", "pieces", 1, "places"), [0, 1]),
    "a member that does not exist": lambda content: change(content, ("model", "pieces", 1, "places"), [2, 99]),
    "a network less": lambda content: content["model"]["pieces"].pop(),
    "a network more": lambda content: content["model"]["pieces"].append(content["model"]["pieces"][0]),
}


@pytest.mark.parametrize("case", SEVERAL)
def test_invalid_networks_of_several_backbones(several, tmp_path, case):
    content, tensors = read_file(several)
    SEVERAL[case](content)
    write_file(tmp_path / "edited", content, tensors)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000, "more than 50 MB were needed"


EMBEDDING = {"type": "Embedding", "width": 3, "relu": False, "raw": True}


@pytest.fixture(scope="module")
def periodic(tmp_path_factory):
    """Return a file with frequencies, phases and an embedding, in which the first part has two features."""
    path = tmp_path_factory.mktemp("periodic") / "model"
    fitted({"age": "PBLD@6", "income": "Cosine@6+L3x", "flat": "Robust+L3x", "owns": "Std+L3x"}, n_members=2).save(path)
    content, _ = read_file(path)
    assert {part["kind"] for part in content["model"]["pieces"][0]["layout"]["parts"]} == {-1, 5}
    return path


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("model", "pieces", 0, "embedding"), EMBEDDING | {"width": 4}),
        (("model", "pieces", 0, "embedding"), EMBEDDING | {"relu": True, "raw": False}),
        (("model", "pieces", 0, "embedding"), EMBEDDING | {"width": 999_999}),
        (("model", "pieces", 0, "embedding"), EMBEDDING | {"width": 0}),
        (("model", "pieces", 0, "embedding"), EMBEDDING | {"width": 0, "raw": False}),
        (("model", "pieces", 0, "embedding"), "L3x"),
        (("model", "pieces", 0, "embedding"), 3),
        (("model", "pieces", 0, "embedding"), None),
        ((*LAYOUT, "parts", 1, "kind"), 4),
        ((*LAYOUT, "parts", 1, "kind"), 6),
        ((*LAYOUT, "parts", 1, "degree"), 1),
        ((*LAYOUT, "parts", 1, "degree"), 7),
        ((*LAYOUT, "parts", 1, "degree"), HUGE),
    ],
    ids=str,
)
def test_invalid_embeddings_and_frequencies(periodic, tmp_path, where, value):
    content, tensors = read_file(periodic)
    change(content, where, value)
    write_file(tmp_path / "edited", content, tensors)
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")


def test_a_file_that_declares_more_frequencies_than_it_has_takes_no_memory(periodic, tmp_path):
    content, tensors = read_file(periodic)
    layout = content["model"]["pieces"][0]["layout"]
    many = sum(tensor.numel() for tensor in tensors.values()) * 1000
    tensors["other"] = torch.zeros(many)
    change(layout, ("size",), many // 8)
    change(layout, ("sizes",), [many // 8] * len(layout["sizes"]))
    change(layout, ("parts", 1, "degree"), many // 8)
    write_file(tmp_path / "edited", content, tensors)
    with pytest.raises(PersistenceError, match="frequencies must be of shape"):
        knotwork.load(tmp_path / "edited")


@pytest.mark.parametrize("name", ["frequencies", "phases", "smooth"])
@pytest.mark.parametrize("edit", [lambda t: None, lambda t: t[..., :-1], lambda t: t.double() * torch.nan])
def test_invalid_tensors_of_frequencies(periodic, tmp_path, name, edit):
    content, tensors = read_file(periodic)
    changed = edit(tensors.pop(f"{ENCODING}{name}"))
    write_file(tmp_path / "edited", content, tensors | ({} if changed is None else {f"{ENCODING}{name}": changed}))
    if name == "smooth" and changed is None:  # a network without smooth clipping is valid
        assert knotwork.load(tmp_path / "edited").trained_.pieces[0].network.encoding.smooth is None
        return
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": 0}',
        '{"schema": true}',
        f'{{"schema": {SCHEMA}}}',
        '{"schema": NaN}',
        '{"schema": 1e999}',
        '{"schema": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"a":' * 50_000,
    ],
    ids=lambda text: text[:20],
)
def test_invalid_json(saved, tmp_path, text):
    write_file(tmp_path / "edited", text, read_file(saved)[1])
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")


MANY = 20_001
LARGE = {
    "nested lists": lambda c, t: (many_values(c, "candidates", "[[],[]]", 3_000_000), t),
    "short texts": lambda c, t: (many_values(c, "warnings", '"ab"', 2_000_000), t),
    "brackets": lambda c, t: ("[" * 20_000_000, t),
    "a length of nothing": lambda c, t: (c, {**t, f"{ENCODING}breaks": torch.empty(2, 0, 2**40)}),
    "histories": lambda c, t: (
        changed(c, ("model",), {**c["model"], "best_epochs": [0] * 9_000, "seconds": [0.0] * 9_000}),
        {**t, **{f"member{place}.history": torch.empty(3, 0).double() for place in range(9_000)}},
    ),
    "tensors": lambda c, t: (c, {**t, **{f"pieces{place}.shift": torch.empty(0) for place in range(MANY)}}),
    "widths": lambda c, t: (changed(c, BACKBONE, MLP_OF_50_000_LAYERS), t),
    "widths of a parameter": lambda c, t: (changed(c, ("parameters", "backbone"), MLP_OF_50_000_LAYERS), t),
    "blocks": lambda c, t: (changed(c, BACKBONE, RESNET_OF_50_000_BLOCKS), t),
    "pieces": lambda c, t: (changed(c, ("model", "pieces"), c["model"]["pieces"] * 5_000), t),
    "parts": lambda c, t: (with_parts(c, 50_000), t),
    "encodings": lambda c, t: (changed(c, ("model", "encodings"), [[f"BS-Q@{n}" for n in range(200_000)]] * 2), t),
    "columns": lambda c, t: (with_columns(c, 100_000), t),
}
MLP_OF_50_000_LAYERS = {"type": "mlp", "widths": [1] * 50_000, "dropout": 0.1}
RESNET_OF_50_000_BLOCKS = {"type": "resnet", "width": 8, "n_blocks": 50_000, "hidden": 6, "dropout": 0.1}


def many_values(content, name, value, n_values):
    text = json.dumps(changed(content, ("model", name), "many"))
    return text.replace('"many"', "[" + ",".join([value] * n_values) + "]")


def changed(content, where, value):
    change(content, where, value)
    return content


def with_parts(content, n_parts):
    return changed(content, (*LAYOUT, "parts"), content["model"]["pieces"][0]["layout"]["parts"] * n_parts)


def with_columns(content, n):
    about = {"role": "categorical", "kind": "number", "name": None, "categories": [1], "format": None, "notices": []}
    content["model"]["indicated"] = []
    return changed(content, ("model", "columns"), [{"type": "TableColumn", **about}] * n)


@pytest.mark.parametrize("case", LARGE)
def test_files_that_declare_more_than_they_hold_are_refused_within_bounds(saved, tmp_path, case):
    content, tensors = LARGE[case](*read_file(saved))
    write_file(tmp_path / "edited", content, tensors)
    size = (tmp_path / "edited").stat().st_size
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(PersistenceError, match="edited' is damaged"):
        knotwork.load(tmp_path / "edited")
    assert time.process_time() - started < 30.0, "more than a few passes over what the file holds were needed"
    more = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert more < 3 * size + 60e6, "more than three times the size of the file and 60 MB were needed"


@pytest.mark.slow  # a fresh process; that files which are refused take no memory is shown by the tests above
def test_a_valid_file_takes_at_most_three_times_its_size(tmp_path):
    path = tmp_path / "large"
    model = TabularRegressor("Std", MLPConfig(widths=(1500, 1500)), training=SHORT, device="cpu", random_state=0)
    model.fit(np.arange(20.0)[:, None], np.arange(20.0)).save(path)
    script = (
        "import resource, sys, knotwork, knotwork.estimators._persistence\n"
        "used = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "knotwork.load(sys.argv[1], device='cpu')\n"  # what is loaded at first use does not count
        "before = used(); knotwork.load(sys.argv[2], device='cpu'); print(used() - before)"
    )
    small = tmp_path / "small"
    fitted().save(small)
    command = [sys.executable, "-c", script, str(small), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3 * path.stat().st_size


def test_what_cannot_be_loaded_is_not_saved(tmp_path, monkeypatch):
    model = fitted(n_members=2)
    with monkeypatch.context() as patch:
        patch.setattr("knotwork.estimators._persistence.MOST_LAYERS", 1)
        with pytest.raises(PersistenceError, match="widths must have at most 1 entries.* Fit again with fewer layers"):
            model.save(tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr("knotwork.estimators._persistence.FILE_LIMITS", FileLimits(n_tensors=5))
        with pytest.raises(PersistenceError, match="it has .* tensors in 1 stacks.* Fit again with fewer members"):
            model.save(tmp_path / "model")
    monkeypatch.setattr("knotwork._model_files.most_values", lambda n_bytes: 10)
    with pytest.raises(PersistenceError, match="too many categories"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_texts_with_many_marks_are_counted_as_one_value():
    assert n_values(json.dumps(["a,[{" * 1_000_000, 'b\\",' * 10])) == 2


def test_a_changed_category_is_noticed(saved, tmp_path):
    complete = saved.read_bytes()
    assert complete.count(b"Bonn") == 1
    (tmp_path / "changed").write_bytes(complete.replace(b"Bonn", b"Bohn"))
    with pytest.raises(PersistenceError, match="its text was changed after it was saved"):
        knotwork.load(tmp_path / "changed")


def test_importances_of_a_wide_table_are_saved_if_they_were_computed(tmp_path, monkeypatch):
    monkeypatch.setattr("knotwork.estimators._persistence.MOST_SHUFFLED", 5)
    model = fitted()
    model.save(tmp_path / "model")
    assert not hasattr(model, "_importances")
    with pytest.raises(AttributeError, match="access feature_importances_ before the estimator is saved"):
        _ = knotwork.load(tmp_path / "model").feature_importances_
    importances = model.feature_importances_
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(knotwork.load(tmp_path / "model").feature_importances_, importances)


def test_errors_contain_no_terminal_escapes(saved, tmp_path):
    content, tensors = read_file(saved)
    write_file(tmp_path / "newer", {**content, "schema": SCHEMA + 1, "version": "\x1b[2J9"}, tensors)
    with pytest.raises(PersistenceError, match=r"knotwork \\x1b\[2J9, with schema"):
        knotwork.load(tmp_path / "newer")


def test_numbers_that_are_not_finite(saved, tmp_path):
    content, tensors = read_file(saved)
    for number in ("NaN", "Infinity", "1e999"):
        text = json.dumps(content).replace('"score": ', f'"score": {number}, "s": ', 1)
        write_file(tmp_path / "edited", text, tensors)
        with pytest.raises(PersistenceError, match="numbers must be finite"):
            knotwork.load(tmp_path / "edited")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (1, f"a newer version, knotwork 9.1, with schema {SCHEMA + 1}; .* reads schema {SCHEMA}. Update knotwork"),
        (-1, f"an older version, knotwork 9.1, with schema {SCHEMA - 1}; .* Fit the estimator again"),
    ],
)
def test_another_schema(saved, tmp_path, change, message):
    content, tensors = read_file(saved)
    write_file(tmp_path / "other", {**content, "schema": SCHEMA + change, "version": "9.1", "more": []}, tensors)
    with pytest.raises(PersistenceError, match=message):
        knotwork.load(tmp_path / "other")
