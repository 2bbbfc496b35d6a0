"""What a fit trains: kinds of networks, folds and random seeds, as the parameters of an estimator or an effort say."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from knotwork._checks import argument_error
from knotwork._preparation.members import PreparedTable, Split
from knotwork._trees import RANDOM, SMALL, SYMMETRIC, USUAL, BoostedTrees, TreeMember
from knotwork.basis import FittedColumn
from knotwork.encoders import Encoding, FeatureChoice
from knotwork.nn import Backbone, InteractionConfig, MLPConfig, RealMLPConfig, ResNetConfig, TabMConfig
from knotwork.training import (
    History,
    Member,
    Trained,
    TrainingConfig,
    TrainingTable,
    network_products,
    product_rate,
)


@dataclass(frozen=True)
class Recipe:
    """A kind of member: networks, or boosted trees.

    Parameters
    ----------
    encodings : tuple of Encoding
        The encoding of every numerical column; empty for trees.
    backbone : Backbone or BoostedTrees
        The network after it, or the trees.
    config : TrainingConfig
        How a network is trained.
    interactions : InteractionConfig, optional
        Pairs of numerical columns by their places, or the number of those to find.
    """

    encodings: tuple[Encoding, ...]
    backbone: Backbone | BoostedTrees
    config: TrainingConfig
    interactions: InteractionConfig | None = None

    @property
    def has_trees(self) -> bool:
        """Whether its members are boosted trees."""
        return isinstance(self.backbone, BoostedTrees)

    def member(
        self,
        prepared: PreparedTable,
        split: Split,
        encodings: Sequence[FittedColumn],
        *,
        seed: int,
        interactions: InteractionConfig | None,
    ) -> Member:
        """Return a member for a fold; trees have no encodings, and no network."""
        if isinstance(self.backbone, BoostedTrees):
            return TreeMember(split.train, split.valid, (), seed=seed, kind=self.backbone)
        member = prepared.member(self.encodings, split, encodings, seed=seed)
        return replace(member, interactions=interactions, backbone=self.backbone, config=self.config)

    @property
    def network(self) -> tuple[Any, ...]:
        """What its members are, without how they are trained."""
        return self.encodings, self.backbone, self.interactions


@dataclass(frozen=True)
class FitPlan:
    """What a fit trains: every recipe with every random seed on every fold.

    Parameters
    ----------
    recipes : sequence of Recipe
        The kinds of networks.
    search : {"all", "validated", "ensemble"}
        Which of them predict: all with equal weights, those of the recipe that is best on the validation rows, or those
        that are best together.
    n_folds : int, default=1
        Number of parts into which the rows are divided; each network leaves out one of them for early stopping.
        One: a single part of the rows is held out.
    n_seeds : int, default=1
        Networks of each recipe and fold.
    most_kept : int, optional
        Maximum number of recipes and seeds that predict; by default any number.
    in_order : bool, default=False
        Whether the most valuable recipes are the first, which get the time that they need before the others.
    usual_epochs : int, default=0
        Epochs of the first networks without a time limit; 0 if none are trained then either.
    """

    recipes: Sequence[Recipe]
    search: str
    n_folds: int = 1
    n_seeds: int = 1
    most_kept: int | None = None
    in_order: bool = False
    usual_epochs: int = 0

    def with_choices(self, choices: Sequence[FeatureChoice]) -> "FitPlan":
        """Return the plan with the encodings that were chosen for the columns."""
        encodings = tuple(Encoding.parse(choice.encoding) for choice in choices)
        return replace(self, recipes=[replace(recipe, encodings=encodings) for recipe in self.recipes])

    def with_interactions(self, interactions: InteractionConfig | None) -> "FitPlan":
        """Return the plan with interactions in all networks."""
        recipes = [
            recipe if recipe.has_trees else replace(recipe, interactions=interactions) for recipe in self.recipes
        ]
        return replace(self, recipes=recipes)


@dataclass(frozen=True)
class Kind:
    """A kind of network of an effort, for any table: the encoding of numerical columns, a network, and its training."""

    encoding: str
    backbone: Backbone
    epochs: int
    training: tuple[tuple[str, Any], ...] = ()

    def config(self, task: str, *, epochs: int, batch_size: int) -> TrainingConfig:
        """Return the configuration of training; patience is that of the kind, or none."""
        settings = {"patience": None, **self.backbone.training(task), **dict(self.training)}
        return TrainingConfig(**{**settings, "max_epochs": epochs, "batch_size": batch_size})


COSINE = (("schedule", "cosine"), ("learning_rate", 2e-3), ("weight_decay", 0.02))
STEADY = (
    ("schedule", "constant"),
    ("learning_rate", 1e-3),
    ("weight_decay", 3e-4),
    ("patience", 16),
    ("precision", "bf16"),
)
FOUR_CYCLES = (("label_smoothing", 0.0),)
"""Training of the kinds: half a cosine; a constant rate, stopped early; and that of RealMLP, in four cycles, without
label smoothing, which improves accuracies and spoils probabilities. Chosen with the kinds, see `ON_CPU`."""


def _perceptron(*widths: int) -> MLPConfig:
    return MLPConfig(widths=widths, dropout=0.1)


FINE = "PLE-Q@80+LR8"
RAMPS = "PLE-Q@30+L4x"
STEPS = "PLE-Q@100+L4x"
SPLINES = "BS-Q@15+L4x"
LEARNED_WAVES = "PBLD@16"
PERIODS = "PLR@16+LR8x"

ON_GPU = {
    "fast": (Kind(RAMPS, RealMLPConfig(), 44, FOUR_CYCLES), Kind(FINE, _perceptron(384, 384, 384), 33, COSINE)),
    "balanced": (
        Kind(RAMPS, RealMLPConfig(), 128, FOUR_CYCLES),
        Kind(FINE, _perceptron(384, 384, 384), 60, COSINE),
        Kind(LEARNED_WAVES, RealMLPConfig(), 128, FOUR_CYCLES),
        Kind(PERIODS, RealMLPConfig(), 128, FOUR_CYCLES),
        Kind("PLE-Q@48+LR16", _perceptron(512, 512, 512), 150, COSINE),
    ),
    "best": (
        Kind(RAMPS, RealMLPConfig(), 256, FOUR_CYCLES),
        Kind("PLE-Q@30+LR16", TabMConfig(), 150, STEADY),
        Kind(LEARNED_WAVES, RealMLPConfig(), 256, FOUR_CYCLES),
        Kind(FINE, _perceptron(384, 384, 384), 60, COSINE),
        Kind(PERIODS, RealMLPConfig(), 256, FOUR_CYCLES),
        Kind("PLE-Q@48+LR16", _perceptron(512, 512, 512), 150, COSINE),
        Kind("PLE-Q@30+LR16", ResNetConfig(n_blocks=2, hidden=384, dropout=0.15), 60, COSINE),
    ),
}
CYCLES = (*FOUR_CYCLES, ("cycle_gain", 0.01))
"""On a CPU training ends with a cycle that gained less than 1 %. On the 30 tables that the kinds were chosen on, the
quick network then has 62 % of the epochs, 47 % in the median, and a validation loss that is 0.2 % larger."""

QUICK = Kind(RAMPS, RealMLPConfig(widths=(96, 96)), 96, CYCLES)
NARROW = Kind(LEARNED_WAVES, RealMLPConfig(widths=(96, 96)), 128, CYCLES)
SMOOTH = Kind(SPLINES, RealMLPConfig(widths=(160, 160)), 96, CYCLES)
STEPPED = Kind(STEPS, RealMLPConfig(widths=(128, 128)), 96, CYCLES)
ON_CPU = {
    "fast": (QUICK,),
    "balanced": (NARROW, SMOOTH, STEPPED),
    "best": (
        NARROW,
        SMOOTH,
        STEPPED,
        Kind(RAMPS, RealMLPConfig(widths=(256, 256)), 96, CYCLES),
        Kind(LEARNED_WAVES, RealMLPConfig(), 192, CYCLES),
    ),
}
"""The kinds of networks of every effort, the most valuable first: a CPU has smaller ones with fewer epochs.

They were chosen by out-of-fold losses on training rows, those on a CPU as what boosted trees lack, see
benchmarks/README.md."""

SCALED = Kind("Robust", RealMLPConfig(widths=(128, 128)), 48, FOUR_CYCLES)
MANY_COLUMNS = 300
"""Tables with more numbers have this kind if the time does not suffice for all others: placing thousands of knots and
training a few epochs on tens of thousands of encoded columns would be worse."""

EFFORTS = tuple(ON_GPU)
"""Words for how much is trained, from the least to the most."""

MEMBERS = ("all", "networks", "trees")
"""Words for what an effort trains."""


@dataclass(frozen=True)
class TreesRule:
    """The boosted trees of the efforts.

    Parameters
    ----------
    kinds : dict of str to tuple of BoostedTrees
        The kinds of each effort, chosen with those of networks.
    share : float
        Share of the time of an effort, or of a time limit, that they may take.
    round_seconds : float
        Seconds of a tree, on two cores of the machine of the benchmarks, which grow the trees of two folds side by
        side.
    value_seconds, symmetric_value_seconds : float
        Seconds of a tree for each value of the table: LightGBM's trees, and symmetric ones.
    """

    kinds: dict[str, tuple[BoostedTrees, ...]]
    share: float = 0.3
    round_seconds: float = 1.5e-4
    value_seconds: float = 1.5e-9
    symmetric_value_seconds: float = 4e-9


ALL_TREES = (SMALL, SYMMETRIC, USUAL, RANDOM)
TREES = TreesRule(
    {
        "fast": (replace(SMALL, learning_rate=0.1), SYMMETRIC),
        "balanced": ALL_TREES,
        "best": ALL_TREES,
    }
)

KINDS_THAT_PREDICT = {"fast": 2, "balanced": 3, "best": 5}
"""Maximum number of kinds of networks that predict."""


@dataclass(frozen=True)
class DeviceEfforts:
    """What efforts train on a type of device, and how fast the device is: measured on two cores, and on a large GPU.

    What is trained does not depend on the number of cores, so that results do not either.

    Parameters
    ----------
    kinds : dict of str to tuple of Kind
        The kinds of networks of each effort.
    folds : dict of str to tuple of int
        Numbers of folds of each effort: the most, and those where time does not suffice for them.
    seconds : dict of str to pair of float
        Seconds that training may take: at least, and for each row.
    products : float
        Products of weights per second, forward and backward, that networks reach.
    row_seconds, code_seconds : float
        Seconds for each row of a network and epoch besides the products, and those that a table with categories or
        missing values takes in addition.
    step_seconds : float
        The shortest time of a step.
    """

    kinds: dict[str, tuple[Kind, ...]]
    folds: dict[str, tuple[int, ...]]
    seconds: dict[str, tuple[float, float]]
    products: float
    row_seconds: float
    code_seconds: float
    step_seconds: float


DEVICE_EFFORTS = {
    "cpu": DeviceEfforts(
        kinds=ON_CPU,
        folds={"fast": (6, 4), "balanced": (8, 5), "best": (8,)},
        seconds={"fast": (3.0, 0.8e-3), "balanced": (20.0, 1.9e-3), "best": (200.0, 30e-3)},
        products=2.4e10,
        row_seconds=1.2e-6,
        code_seconds=1.0e-6,
        step_seconds=0.0,
    ),
    "cuda": DeviceEfforts(
        kinds=ON_GPU,
        folds={"fast": (5,), "balanced": (8,), "best": (8,)},
        seconds={"fast": (1.0, 1e-4), "balanced": (10.0, 5e-4), "best": (60.0, 3e-3)},
        products=1e13,
        row_seconds=0.0,
        code_seconds=0.0,
        step_seconds=1.5e-4,
    ),
}


@dataclass(frozen=True)
class MachineRule:
    """How the speed of a machine is measured where there is a time limit.

    Parameters
    ----------
    products : float
        Multiplications per second of products of matrices on the two cores of the machine of the benchmarks.
    most : float
        Largest speed that counts: members are too few for many cores.
    """

    products: float = 1.08e11
    most: float = 2.5


MACHINE = MachineRule()

FEWEST_FOLDS_OF_EFFORTS = 3
FEWEST_ROWS_FOR_FOLDS = 60
"""Tables of fewer rows have no folds, but one part that is held out."""

SHARE_OF_LIMIT = 0.85
"""Share of a time limit that is planned: the rest is for reading the table, placing knots and choosing weights."""


@dataclass(frozen=True)
class BatchRule:
    """The rows of a batch; conventions.

    Parameters
    ----------
    smallest, usual, largest : int
        Sizes, all powers of two.
    fewest : int
        Batches are smaller than usual where an epoch would have fewer than this number.
    many_rows : int
        Batches are larger than usual in tables of more rows.
    """

    smallest: int = 32
    usual: int = 256
    largest: int = 4096
    fewest: int = 16
    many_rows: int = 20480


BATCHES = BatchRule()


def plan_effort(
    effort: str,
    table: TrainingTable,
    *,
    device: str,
    time_limit: float | None,
    n_folds: int | None = None,
    members: str = "all",
    n_categorical: int = 0,
    speed: float = 1.0,
) -> FitPlan:
    """Return what an effort trains on a table: boosted trees first, then networks.

    If the networks of the effort would take too long, there are fewer folds, then fewer kinds of them; then those of
    the next smaller effort; then fewer epochs and folds; and none beside trees if that would be too long as well. In a
    table of very many columns they are small, without an encoding.

    Parameters
    ----------
    effort : str
        One of `EFFORTS`.
    table : TrainingTable
        The table.
    device : str
        Type of the device, such as ``"cpu"``.
    time_limit : float or None
        Seconds of the whole fit.
    n_folds : int, optional
        Number of folds, if the user has decided it; 1 for a single part that is held out.
    members : str, default="all"
        One of `MEMBERS`.
    n_categorical : int, default=0
        Number of categorical columns.
    speed : float, default=1.0
        How fast the machine is, in units of that of the benchmarks; it counts if there is a time limit.
    """
    seconds, efforts = effort_seconds(effort, table.n_rows, device=device), _efforts_on(device)
    if time_limit is not None:
        seconds = min(seconds, SHARE_OF_LIMIT * time_limit * speed)
    boosted = _boosted(effort, table, members)
    is_short = bool(boosted) and time_limit is not None
    networks: list[Recipe] = []
    folds = n_folds or max(efforts.folds[effort])
    for kinds, share, fewer in _smaller(effort, efforts, table) if members != "trees" else ():
        networks, folds = _recipes(kinds, table, share=share), n_folds or fewer
        if _seconds(networks, table, folds, efforts) <= (1.0 - TREES.share if is_short else 1.0) * seconds:
            break
    else:
        if is_short:
            networks, folds = [], n_folds or min(efforts.folds[effort])
    folds = 1 if n_folds is None and table.n_rows < FEWEST_ROWS_FOR_FOLDS else folds
    n_columns = table.numbers.shape[1] + n_categorical
    trees = _in_time(boosted, table, folds, seconds=seconds, n_columns=n_columns)
    most_kept = len(trees) + min(KINDS_THAT_PREDICT[effort], len(networks))
    usual = 0 if members == "trees" else efforts.kinds[effort][0].epochs
    recipes = [*trees, *networks]
    return FitPlan(recipes, "ensemble", n_folds=folds, most_kept=most_kept, in_order=True, usual_epochs=usual)


def machine_speed(device: str) -> float:
    """Return how fast a device is now, in units of that of the benchmarks; it is measured for a CPU."""
    return min(product_rate() / MACHINE.products, MACHINE.most) if device == "cpu" else 1.0


def effort_seconds(effort: str, n_rows: int, *, device: str) -> float:
    """Return the seconds that the training of an effort may take on a type of device, without a time limit."""
    least, per_row = _efforts_on(device).seconds[effort]
    return least + per_row * n_rows


def _efforts_on(device: str) -> DeviceEfforts:
    return DEVICE_EFFORTS["cuda" if device == "cuda" else "cpu"]


def _boosted(effort: str, table: TrainingTable, members: str) -> list[BoostedTrees]:
    """Return the boosted trees of an effort that suit a table; raise an error if nothing else is wanted."""
    if members == "networks":
        return []
    kinds = [kind for kind in TREES.kinds[effort] if kind.suits(table.goal, table.n_classes)]
    reasons = {
        f"there are no boosted trees for the objective {table.goal.name!r} with what is installed": bool(kinds),
        "the rows do not fit in memory": table.chunks is None,
        f"it has fewer than {FEWEST_ROWS_FOR_FOLDS} rows": table.n_rows >= FEWEST_ROWS_FOR_FOLDS,
    }
    reason = next((text for text, is_met in reasons.items() if not is_met), None)
    if reason is not None and members == "trees":
        raise argument_error("members", f"be 'all' or 'networks': {reason}", members)
    return kinds if reason is None else []


def _in_time(
    kinds: Sequence[BoostedTrees], table: TrainingTable, n_folds: int, *, seconds: float, n_columns: int
) -> list[Recipe]:
    """Return recipes of boosted trees with as many rounds as their part of the time suffices for."""
    n_trees = table.n_targets * max(table.n_classes if table.n_classes > 2 else 1, table.goal.n_outputs)
    recipes = []
    for kind in kinds:
        per_value = TREES.symmetric_value_seconds if kind.symmetric else TREES.value_seconds
        per_round = n_trees * (TREES.round_seconds + per_value * table.n_rows * n_columns)
        rounds = TREES.share * seconds / (n_folds * len(kinds) * per_round)
        recipes.append(Recipe((), kind.within(rounds), TrainingConfig()))
    return recipes


def _smaller(effort: str, efforts: DeviceEfforts, table: TrainingTable) -> Iterator[tuple[Sequence[Kind], float, int]]:
    """Yield kinds of networks, shares of their epochs, and numbers of folds, from the most work to the least."""
    if table.numbers.shape[1] > MANY_COLUMNS:
        yield efforts.kinds[effort], 1.0, max(efforts.folds[effort])
        for share in (1.0, 0.5, 0.25, 0.1):
            yield (SCALED,), share, FEWEST_FOLDS_OF_EFFORTS
        return
    # One kind that is trained properly is better than several that are cut short, and several kinds on few folds are
    # better than fewer on many.
    for place in range(EFFORTS.index(effort), -1, -1):
        kinds, (*more, folds) = efforts.kinds[EFFORTS[place]], efforts.folds[EFFORTS[place]]
        fewest = len(efforts.kinds[EFFORTS[place - 1]]) if place else 1
        for many in more:
            yield kinds, 1.0, many
        for count in range(len(kinds), fewest - 1, -1):
            yield kinds[:count], 1.0, folds
    few = max(folds // 2, FEWEST_FOLDS_OF_EFFORTS)
    for share, fewer in ((0.7, folds), (0.5, folds), (0.5, few), (0.35, few)):
        yield kinds[:1], share, fewer
    for share in (0.25, 0.15, 0.1):
        yield kinds[:1], share, FEWEST_FOLDS_OF_EFFORTS


def _recipes(kinds: Sequence[Kind], table: TrainingTable, *, share: float) -> list[Recipe]:
    """Return kinds as recipes for a table, with a share of their epochs."""
    n_rows, n_columns = table.n_rows, table.numbers.shape[1]
    recipes = []
    for kind in kinds:
        batch_size = _batch_size(n_rows)
        config = kind.config(table.goal.trained_as, epochs=max(round(share * kind.epochs), 2), batch_size=batch_size)
        recipes.append(Recipe((Encoding.parse(kind.encoding),) * n_columns, kind.backbone, config))
    return recipes


def _batch_size(n_rows: int) -> int:
    """Return the rows of a batch, a power of two."""
    doubled = max(int(np.ceil(np.log2(max(n_rows, 1) / BATCHES.many_rows))), 0)
    few = 2 ** round(np.log2(max(n_rows, 1) / BATCHES.fewest))
    return int(min(max(min(BATCHES.usual, few), BATCHES.smallest) * 2**doubled, BATCHES.largest))


def _seconds(recipes: Sequence[Recipe], table: TrainingTable, n_folds: int, efforts: DeviceEfforts) -> float:
    """Return an estimate of how long training takes, on a GPU with all kinds side by side."""
    n_rows = table.n_rows * max(n_folds - 1, 1) / n_folds
    seconds = steps = 0.0
    per_row = efforts.row_seconds + (efforts.code_seconds if table.cardinalities else 0.0)
    for recipe in recipes:
        if isinstance(recipe.backbone, BoostedTrees):
            continue
        rows = recipe.config.max_epochs * n_rows
        size, embedding = (recipe.encodings[0].size, recipe.encodings[0].embedding) if recipe.encodings else (1, None)
        products = network_products(table, size, embedding, recipe.backbone)
        seconds += rows * n_folds * (products / efforts.products + per_row)
        steps = max(steps, rows / recipe.config.batch_size_for(table.n_rows))
    return max(seconds, steps * efforts.step_seconds)


def plan_members(prepared: PreparedTable, plan: FitPlan, seeds: npt.NDArray[np.int64]) -> list[Member]:
    """Return a member of every recipe, random seed and fold, in this order.

    All recipes have the same random seeds, so that chance does not favour one of them.
    """
    networks = [recipe for recipe in plan.recipes if not recipe.has_trees]
    fitted = iter(prepared.fit_folds([recipe.encodings for recipe in networks]))
    interactions = {each: prepared.fold_pairs(each) for each in {recipe.interactions for recipe in networks}}
    members = []
    for recipe in plan.recipes:
        by_fold = [()] * plan.n_folds if recipe.has_trees else next(fitted)
        pairs = [None] * plan.n_folds if recipe.has_trees else interactions[recipe.interactions]
        members += [
            recipe.member(prepared, split, encodings, seed=(seed + split.fold) % 2**31, interactions=pair)
            for seed in seeds.tolist()
            for split, encodings, pair in zip(prepared.splits, by_fold, pairs, strict=True)
        ]
    return members


def share_of_validation(n_folds: int | None) -> float:
    """Return the share of a time limit for validation, where networks are trained again on all rows afterwards.

    A network of all rows takes as long as those of n folds without one of them each, divided by n - 1.
    """
    return 0.75 if n_folds is None else max((n_folds - 1) / n_folds, 0.5)


def refit_members(
    prepared: PreparedTable, members: Sequence[Member], recipes: Sequence[Recipe], *, trained: Trained
) -> list[Member]:
    """Return a member on all rows for every recipe and random seed, for the epochs that its folds have chosen.

    The number of epochs, and the learning rates of schedules that follow the score, are those of the fold whose best
    epoch is the median.

    Parameters
    ----------
    prepared : PreparedTable
        The table and its folds.
    members : sequence of Member
        Networks of every recipe, seed and fold.
    recipes : sequence of Recipe
        The recipe of each.
    trained : Trained
        The same after training.
    """
    rows, n_folds = np.arange(len(prepared.table.target)), len(prepared.splits)
    everything = replace(prepared.splits[0], train=rows, valid=rows[:0])
    bags = range(0, len(members), n_folds)
    networks = [recipes[bag] for bag in bags if not recipes[bag].has_trees]
    fitted = iter(prepared.fit([recipe.encodings for recipe in networks], everything))
    pairs = {each: prepared.with_pairs(each, everything) for each in {recipe.interactions for recipe in networks}}
    refitted = []
    for bag in bags:
        recipe, seed = recipes[bag], members[bag].seed
        by_epoch = sorted(trained.histories[bag : bag + n_folds], key=lambda history: history.best_epoch)
        median = by_epoch[(n_folds - 1) // 2]
        if isinstance(recipe.backbone, BoostedTrees):
            trees = replace(recipe, backbone=replace(recipe.backbone, rounds=median.best_epoch))
            member = trees.member(prepared, everything, (), seed=seed, interactions=None)
        else:
            about: dict[str, Any] = {"seed": seed, "interactions": pairs[recipe.interactions]}
            config, rates = _rates(recipe.config, median, was_stopped=trained.interrupted)
            member = recipe.member(prepared, everything, next(fitted).encodings, **about)
            member = replace(member, config=config, rates=rates)
        refitted.append(member)
    return refitted


def _rates(
    config: TrainingConfig, history: History, *, was_stopped: bool
) -> tuple[TrainingConfig, npt.NDArray[np.float64]]:
    """Return configuration and learning rates with which training goes as it did until its best epoch."""
    if not config.is_stepwise:
        return config, history.learning_rate[: history.best_epoch]
    # Without early stopping a schedule that ended after fewer epochs was made shorter for a time limit.
    stops = config.patience is not None or config.cycle_gain > 0.0
    length = config.max_epochs if was_stopped or stops else history.epochs
    return replace(config, max_epochs=length), np.full(history.best_epoch, config.learning_rate)


@dataclass(frozen=True, eq=False)
class Warm:
    """What a later fit needs to resume from the networks of this one.

    Parameters
    ----------
    plan : FitPlan
        What the parameters asked for.
    recipes : list of Recipe
        The recipe of each network that was kept.
    members : list of Member
        The same networks before training, without their rows: of every recipe and seed all folds.
    random_state : tuple
        State of the random numbers before the rows of the folds were drawn.
    """

    plan: FitPlan
    recipes: list[Recipe]
    members: list[Member]
    random_state: Any


def warm_members(warm: Warm, prepared: PreparedTable, plan: FitPlan) -> tuple[FitPlan, list[Member]] | None:
    """Return what resumes from the networks of an earlier fit, or None if the plan is another.

    Settings of training may differ. Only the networks that were kept are trained; the others had no weight.

    Parameters
    ----------
    warm : Warm
        The earlier fit.
    prepared : PreparedTable
        The table and its folds.
    plan : FitPlan
        What would be trained anew.
    """
    kinds = {recipe.network: recipe for recipe in plan.recipes}
    before = [recipe.network for recipe in warm.plan.recipes]
    counts = [(each.search, each.n_folds, each.n_seeds) for each in (warm.plan, plan)]
    if before != list(kinds) or counts[0] != counts[1]:
        return None
    recipes = [kinds[recipe.network] for recipe in warm.recipes]
    members = [
        replace(
            old,
            train=prepared.splits[place % plan.n_folds].train,
            valid=prepared.splits[place % plan.n_folds].valid,
            seed=(old.seed + 1) % 2**31,  # another order of the rows
            config=recipe.config,
        )
        for place, (old, recipe) in enumerate(zip(warm.members, recipes, strict=True))
    ]
    bags = recipes[:: plan.n_folds]
    if plan.search == "ensemble":  # each network that was kept may get another weight
        return replace(plan, recipes=bags, n_seeds=1), members
    return replace(plan, recipes=bags[:1], n_seeds=len(bags)), members
