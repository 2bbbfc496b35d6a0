"""Plans are strict, and their keys change exactly when a result would."""

import hashlib
from dataclasses import replace

import pytest

from knotwork.encoders import METHOD_TABLE, Embedding, Method
from knotwork.study import PLANS, Plan, load_plan
from knotwork.study._networks import DataIdentity, expand, group_units
from tests.study.cases import tiny_plan

DATA = DataIdentity("abc", "y", "regression", ("x",), (), 100)
TOML = 'datasets = ["sk_iris"]\nmethods = ["Std"]\nbackbones = ["mlp"]\n'


@pytest.mark.parametrize(
    ("name", "n_networks"),
    [
        ("paper", 14_250),
        ("paper-mlp", 4_750),
        ("paper-resnet", 4_750),
        ("paper-ft", 4_750),
        ("paper-ft-coordinate", 700),
        ("ablation", 815),
        ("demo", 280),
        ("efficiency", 69),
        ("efficiency-epochs", 345),
        ("learned-starts", 5_250),
        ("paper-mlp-seeds", 5_250),
        ("knot-training", 1_250),
        ("illustration", 4),
        ("knot-relocation", 12),
        ("interactions", 1_200),
    ],
)
def test_built_in_plans_have_the_numbers_of_the_protocol(name, n_networks):
    assert load_plan(name).n_networks == n_networks


def test_every_built_in_plan_has_a_description():
    for name in PLANS:
        plan = load_plan(name)
        assert plan.name == name
        assert plan.description


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TOML + "fold = 5", ["fold", "folds", "together"]),
        (TOML + "[training]\nlr = 1", ["lr", "learning_rate", "preset"]),
        (TOML + "[training]\npreset = 'papr'", ["papr", "paper"]),
        (TOML + "[training]\ntime_limit = 3.0", ["time_limit", "speed"]),
        (TOML.replace("mlp", "mpl"), ["mpl", "resnet"]),
        (TOML.replace('"mlp"', '{ name = "mlp", drop = 1 }'), ["drop", "dropout"]),
        (TOML.replace("Std", "BS-Grad-X"), ["BS-Grad-X", "BS-Grad-U"]),
        (TOML.replace("Std", "BS-Q"), ["sizes", "BS-Q"]),
        (TOML + "sizes = [7]", ["sizes", "no method has a size"]),
        (TOML.replace("Std", "BS-Q") + "sizes = [3]", ["sizes", "at least 4"]),
        (TOML.replace("sk_iris", "iris"), ["iris", "sk_iris"]),
        (TOML + "folds = 1", ["folds", "at least 2"]),
        (TOML + "seed = 1.5", ["seed", "integer"]),
        (TOML.replace('"Std"', '"Std", "Std"'), ["methods", "duplicate"]),
        (TOML + '[[tables]]\npath = "a.csv"\ntarget = "y"\nsep = ";"', ["sep", "categorical"]),
        (TOML + '[[tables]]\npath = "a.csv"', ["target"]),
        (TOML.replace('methods = ["Std"]', ""), ["methods"]),
        (TOML + '[[variants]]\nname = "a"', ["variants", "training"]),
        (TOML + '[[variants]]\nname = "a"\ntraining = { lr = 1.0 }', ["lr", "learning_rate"]),
        (TOML + '[[variants]]\nname = "a"\ntraining = { learning_rate = -1.0 }', ["learning_rate", "-1.0"]),
        (TOML + '[[variants]]\nname = "a"\ntraining = { time_limit = 1.0 }', ["time_limit", "speed"]),
        (TOML + "[[variants]]\ntraining = { max_epochs = 1 }", ["name of a variant"]),
        (TOML + 2 * '[[variants]]\nname = "a"\ntraining = { max_epochs = 1 }\n', ["variants", "duplicate"]),
        (TOML + 'bins = "lgbm"', ["bins", "quantile"]),
        (TOML.replace("Std", "PLE-Adaptive") + 'bins = "uniform"', ["bins", "PLE-Adaptive"]),
        (TOML + "keep_knots = 1", ["keep_knots"]),
        ("datasets = [", ["TOML"]),
    ],
)
def test_invalid_plans_raise_an_error(tmp_path, text, words):
    path = tmp_path / "user.toml"
    path.write_text(text)
    with pytest.raises((ValueError, TypeError)) as caught:
        load_plan(path)
    for word in words:
        assert word in str(caught.value)


def test_the_error_for_an_unknown_plan_lists_the_known_ones():
    with pytest.raises(ValueError, match="'paper'"):
        load_plan("papper")


def test_paths_of_tables_are_relative_to_the_plan(tmp_path):
    (tmp_path / "user.toml").write_text(
        'methods = ["Std"]\nbackbones = ["mlp"]\n[[tables]]\npath = "flats.csv"\ntarget = "rent"\n'
    )
    plan = load_plan(tmp_path / "user.toml")
    assert plan.tables[0].path == str(tmp_path / "flats.csv")
    assert plan.names == ("flats",)


def keys(plan, data=DATA):
    return {tuple(each.identity.values()): each.key for each in expand(plan, "d", data)}


BASE = tiny_plan()


@pytest.mark.parametrize(
    ("changed", "which"),
    [
        (replace(BASE, description="other"), "none"),
        (replace(BASE, name="other"), "none"),
        (replace(BASE, methods=(*BASE.methods, "PLE")), "none"),
        (replace(BASE, sizes=(5, 7)), "none"),
        (replace(BASE, categories="embedding"), "none"),
        (replace(BASE, bins="uniform"), "none"),
        (replace(BASE, keep_knots=True), "learned"),
        (replace(BASE, datasets=("sk_iris", "sk_wine")), "none"),
        (replace(BASE, training=replace(BASE.config, knot_rate=1.0)), "learned"),
        (replace(BASE, training=replace(BASE.config, knot_warmup=9)), "learned"),
        (replace(BASE, training=replace(BASE.config, spacing_weight=0.5)), "learned"),
        (replace(BASE, training=replace(BASE.config, learning_rate=1.0)), "all"),
        (replace(BASE, training=replace(BASE.config, max_epochs=4)), "all"),
        (replace(BASE, backbones=({"name": "mlp", "widths": [9]},)), "all"),
        (replace(BASE, folds=3), "all"),
        (replace(BASE, split="holdout"), "all"),
        (replace(BASE, nrmse_by="range"), "all"),
        (replace(BASE, together=False), "all"),
    ],
)
def test_keys_change_exactly_when_results_may(changed, which):
    before, after = keys(BASE), keys(changed)
    differ = {name[3] for name, key in before.items() if after[name] != key}
    assert differ == {"none": set(), "learned": {"IS-Grad-U"}, "all": set(BASE.methods)}[which]


@pytest.mark.parametrize(
    "change", [{"sha256": "other"}, {"target": "z"}, {"numerical": ("w",)}, {"n_rows": 99}, {"task": "classification"}]
)
def test_keys_change_with_the_data(change):
    assert not set(keys(BASE).values()) & set(keys(BASE, replace(DATA, **change)).values())


def test_keys_depend_on_categories_only_for_tables_with_categories():
    with_category = replace(DATA, categorical=("c",))
    assert set(keys(BASE, with_category).values()).isdisjoint(
        keys(replace(BASE, categories="embedding"), with_category).values()
    )


def test_keys_depend_on_bins_only_for_methods_with_bins():
    plan = tiny_plan(methods=["BS-Q", "PLE", "PLE-Q", "PLE+L4", "PLE-Adaptive"])
    before, after = keys(plan), keys(replace(plan, methods=plan.methods[:-1], bins="uniform"))
    assert {name[3] for name, key in after.items() if before[name] != key} == {"PLE", "PLE+L4"}


def test_keys_depend_on_the_embedding(monkeypatch):
    methods = ("PLE", "PLE+L4", "PLE+LR4", "PLE+L4x")
    before = keys(tiny_plan(methods=methods))
    assert len(set(before.values())) == len(before)
    monkeypatch.setitem(METHOD_TABLE, "Mine", Method("ple", "cart", start="PLE", embedding=Embedding(4)))
    mine = keys(tiny_plan(methods=["Mine"]))
    monkeypatch.setitem(METHOD_TABLE, "Mine", Method("ple", "cart", start="PLE", embedding=Embedding(5)))
    assert set(mine.values()).isdisjoint(keys(tiny_plan(methods=["Mine"])).values())
    assert keys(tiny_plan(methods=methods)) == before


@pytest.mark.parametrize("method", ["PLE-Grad", "PLR", "PLE+L4"])
def test_linear_models_learn_no_knots_and_no_embedding(method):
    with pytest.raises(ValueError, match="fixed knots and no embedding in front of a linear model"):
        tiny_plan(methods=[method], backbones=["linear"])


def test_variants_have_distinct_keys_and_do_not_change_other_keys():
    slow = {"name": "slow", "training": {"knot_rate": 0.1}}
    same = {"name": "same", "training": {}}
    plan = replace(BASE, variants=(slow, same))
    assert plan.n_networks == 2 * BASE.n_networks
    plan_keys = [each.key for each in expand(plan, "d", DATA)]
    assert len(set(plan_keys)) == plan.n_networks
    assert set(plan_keys).isdisjoint(keys(BASE).values())
    assert plan.plan_hash != BASE.plan_hash
    (unit,) = group_units(expand(plan, "d", DATA), sizes=plan.sizes)
    assert {network.variant for network in unit.networks} == {"slow", "same"}
    alone = group_units(expand(plan, "d", DATA), sizes=plan.sizes, together=False)
    assert len({each.slot for each in alone}) == plan.n_networks
    assert "slow" in alone[0].name
    assert "slow" not in unit.name


def test_the_first_folds_are_those_of_all_folds():
    part = replace(BASE, first_folds=1)
    assert part.n_networks == BASE.n_networks // BASE.folds
    assert set(keys(part).items()) < set(keys(BASE).items())
    assert part.plan_hash != BASE.plan_hash
    with pytest.raises(ValueError, match=f"first_folds must be at most folds={BASE.folds}"):
        replace(BASE, first_folds=BASE.folds + 1)


def test_units_by_fold_are_ordered_by_fold_and_size():
    plan = replace(BASE, sizes=(7, 5))
    networks = [*expand(plan, "a", DATA), *expand(plan, "b", DATA)]
    units = group_units(networks, sizes=plan.sizes, by_fold=True)
    expected = [(fold, size, name) for fold in range(plan.folds) for size in (5, 7) for name in ("a", "b")]
    assert [(unit.fold, unit.size, unit.dataset) for unit in units] == expected
    assert len({unit.slot for unit in units}) == len(units)
    assert {network.key for unit in units for network in unit.networks} == {network.key for network in networks}


def test_further_seeds_keep_the_networks_of_the_first():
    once, thrice = (expand(tiny_plan(n_seeds=n), "d", DATA) for n in (1, 3))
    assert tiny_plan(n_seeds=3).n_networks == len(thrice) == 3 * len(once)
    assert {network.key for network in once} < {network.key for network in thrice}
    assert len({network.key for network in thrice}) == len(thrice)
    assert {(network.fold, network.seed) for network in thrice} == {
        (0, 42), (1, 43), (0, 44), (1, 45), (0, 46), (1, 47)
    }  # fmt: skip
    assert tiny_plan(n_seeds=1).plan_hash == tiny_plan().plan_hash != tiny_plan(n_seeds=3).plan_hash
    with pytest.raises(ValueError, match="n_seeds must"):
        tiny_plan(n_seeds=0)


def test_keys_of_existing_records_stay_valid():
    """Results of months hang on these: only a new `RECORD_VERSION` may change them, knowingly."""
    plan = load_plan("paper")
    digest = hashlib.sha256("".join(each.key for each in expand(plan, "abalone", DATA)).encode()).hexdigest()
    assert digest == "7931c8c252ed51972414b1da5a2b9acbfe76c51516e0b0ef41600e8a458f4616"
    assert plan.plan_hash == "b88cea32f3648d9176f7803ff805a0a1a2c042255d2b18174eda790b0dee0f9a"


def test_no_two_networks_share_a_key():
    plan = load_plan("paper")
    every = [each.key for each in expand(plan, "abalone", DATA)]
    assert len(set(every)) == len(every) == plan.n_networks // len(plan.names)


def test_plan_hash_covers_the_plan():
    assert replace(BASE, description="other").plan_hash == BASE.plan_hash
    assert replace(BASE, seed=1).plan_hash != BASE.plan_hash
    assert Plan.from_mapping({"name": "tiny", "datasets": ["sk_iris"], "methods": ["Std"], "backbones": ["mlp"]}) == (
        Plan(name="tiny", datasets=["sk_iris"], methods=["Std"], backbones=["mlp"])
    )


def test_units_are_backbone_by_size_and_those_without_size_join_the_smallest():
    plan = replace(BASE, sizes=(7, 5), backbones=("mlp", "resnet"))
    units = group_units(expand(plan, "d", DATA), sizes=plan.sizes)
    assert sorted((unit.backbone.label, unit.size) for unit in units) == [
        ("mlp", 5), ("mlp", 7), ("resnet", 5), ("resnet", 7)
    ]  # fmt: skip
    for unit in units:
        assert ("Std" in {each.encoding.method for each in unit.networks}) == (unit.size == 5)
    alone = group_units(expand(plan, "d", DATA), sizes=plan.sizes, together=False)
    assert len(alone) == plan.n_networks == len({unit.slot for unit in alone})


def test_a_slot_does_not_depend_on_missing_networks():
    networks = expand(BASE, "d", DATA)
    complete, rest = (group_units(members, sizes=BASE.sizes)[0] for members in (networks, networks[-1:]))
    assert complete.slot == rest.slot
    assert complete.record_name != rest.record_name
