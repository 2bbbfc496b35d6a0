"""Small tables, encodings and members that the tests of the engine share."""

from dataclasses import replace

import numpy as np
import torch

from knotwork.encoders import METHOD_TABLE, Encoding
from knotwork.training._members import DeviceTable, Member, TrainingTable, complete
from knotwork.training._network import build_network
from knotwork.training._stack import StackJob, TrainingStack


def make_table(task="regression", n=260, *, n_categorical=1, seed=0, n_classes=3, weights=None):
    random = np.random.default_rng(seed)
    numbers = random.normal(size=(n, 3)) * [1.0, 100.0, 1e-3] + [0.0, 5000.0, 0.0]
    codes = random.integers(1, 4, size=(n, n_categorical))
    signal = np.sin(2 * numbers[:, 0]) + numbers[:, 1] / 100 - 50 + (codes == 2).sum(axis=1)
    signal += 0.1 * random.normal(size=n)
    if task == "regression":
        return TrainingTable(numbers, codes, 7.0 + 3.0 * signal, task, (4,) * n_categorical, weights=weights)
    edges = np.quantile(signal, np.arange(1, n_classes) / n_classes)
    target = np.searchsorted(edges, signal)
    return TrainingTable(numbers, codes, target, task, (4,) * n_categorical, n_classes, weights)


MIXED = [
    "Std",
    "MinMax",
    "PLE",
    "BS-Q",
    "IS-U",
    "BS-Grad-U",
    "IS-Grad-U",
    "MS-Grad-U",
    "Robust",
    "Cosine",
    "MS-Q",
    "Periodic",
]


def make_mixed(table):
    """Members of all kinds, and one with another method for every feature."""
    members = [make_member(table, method, seed=place, fold=place % 5) for place, method in enumerate(MIXED)]
    encodings = [made.encodings[place] for place, made in enumerate(members[-len(members[0].encodings) :])]
    return [*members, replace(members[0], encodings=encodings)]


def make_member(table, method="BS-Q", size=7, seed=0, *, fold=0, n_valid=50, n_test=0, **settings):
    """A member on rows of its own: folds differ in their rows and in how many they are."""
    order = np.random.default_rng(100 + fold).permutation(len(table.target))
    valid, train = order[:n_valid], order[n_valid + n_test : len(order) - 7 * fold]
    kind = METHOD_TABLE[method]
    encoder = Encoding(method, size if kind.has_size else None).start.encoder()
    encoder.fit(table.numbers[train], table.target[train])
    return Member(train, valid, encoder.fitted_, kind.learnable, seed, **{"embedding": kind.embedding, **settings})


def make_stack(table, members, backbone, config, **settings):
    """A stack of members before training, on the CPU; `settings` are those of `build_network`."""
    members = complete(members, backbone, config)
    data = DeviceTable.from_table(table, torch.device("cpu"))
    network = build_network(table, members, units=data.units, **settings)
    job = StackJob(table, data, backbone, config)
    return TrainingStack.start(job, members, network)
