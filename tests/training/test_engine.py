"""The engine against plain torch, and what must not depend on neighbours."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from knotwork._kernels.dropout import row_order
from knotwork._kernels.encoding import breaks_from_widths, rows_formula, spacing_penalty, widths_from_logits
from knotwork.basis._families import Functions
from knotwork.encoders import Embedding
from knotwork.nn._backbones import FTTransformerConfig, MLPConfig, RealMLPConfig, ResNetConfig, TabMConfig
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._members import DeviceTable
from tests.kernels.cases import combinations
from tests.training.cases import MIXED, make_member, make_mixed, make_stack, make_table

SMALL = {
    "mlp": MLPConfig(widths=(16, 8), dropout=0.0),
    "resnet": ResNetConfig(width=16, n_blocks=2, hidden=24, dropout=0.0),
    "tabm": TabMConfig(widths=(16, 8), n_predictions=3, dropout=0.0),
    "realmlp": RealMLPConfig(widths=(16, 8), dropout=0.0),
    "ft": FTTransformerConfig(d_token=16, n_blocks=2, n_heads=4, attention_dropout=0.0, ffn_dropout=0.0),
}
FAST = TrainingConfig(max_epochs=6, batch_size=64, learning_rate=3e-3, knot_warmup=2, patience=4, metric="reported")


def same(one, other, tolerance=1e-5):
    assert one.best_epoch == other.best_epoch
    for name in ("loss", "score", "learning_rate"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=tolerance, atol=tolerance)


class PlainEncoding(nn.Module):
    """The encoding of one member in plain torch, from the layers a user would take."""

    def __init__(self, network):
        super().__init__()
        encoding = network.encoding
        self.low, self.scale = encoding.low[0], encoding.scale[0]
        self.breaks, self.n_knots, self.parts, self.size = (
            encoding.breaks,
            encoding.n_knots,
            encoding.layout.parts,
            encoding.layout.size,
        )
        self.logits = None if encoding.logits is None else nn.Parameter(encoding.logits.detach().clone())
        self.smooth, self.embedding = encoding.smooth, network.embedding
        layer, waves = network.feature_embedding, (encoding.frequencies, encoding.phases)
        weights = (None, None) if layer is None else (layer.weight, layer.bias)
        self.frequencies, self.phases, self.weight, self.bias = (
            None if tensor is None else nn.Parameter(tensor[0].detach().clone()) for tensor in (*waves, *weights)
        )

    def forward(self, x):
        x = (x - self.low) / self.scale
        if self.smooth is not None:
            x = x / torch.sqrt(1 + (x / 3) ** 2)
        blocks, penalty = self.blocks(x)
        if self.weight is not None:
            blocks = torch.einsum("nfs,fsd->nfd", blocks, self.weight) + self.bias
        if self.embedding is not None:
            blocks = blocks.relu() if self.embedding.relu else blocks
            raw = x if self.smooth is not None else 2 * x.clamp(0, 1) - 1
            blocks = torch.cat([raw[..., None], blocks], dim=-1) if self.embedding.raw else blocks
        return blocks, penalty

    def blocks(self, x):
        if self.frequencies is not None:
            angles = 2 * torch.pi * self.frequencies * x[..., None]
            if self.phases is not None:
                return torch.cos(angles + self.phases), torch.zeros(())
            return torch.cat([angles.cos(), angles.sin()], dim=-1)[..., : self.size], torch.zeros(())
        if self.parts[0].kind == Functions.AFFINE:
            return x[..., None], torch.zeros(())
        breaks, penalty = self.breaks, torch.zeros(())
        if self.logits is not None:
            widths = widths_from_logits(self.logits, self.n_knots, 1e-3)
            breaks, penalty = breaks_from_widths(widths, self.n_knots), spacing_penalty(widths, self.n_knots, 1e-6)[0]
        (part,) = self.parts
        blocks = rows_formula(x[None], breaks, self.n_knots, kind=part.kind, degree=part.degree, size=self.size)
        return blocks[0], penalty


def plain_linear(linear):
    out = nn.Linear(*linear.weight.shape[1:], bias=linear.bias is not None)
    out.weight.data = linear.weight[0].detach().T.clone()
    if linear.bias is not None:
        out.bias.data = linear.bias[0].detach().clone()
    return out


def plain_norm(norm, kind):
    out = kind(norm.weight.shape[1])
    out.weight.data, out.bias.data = norm.weight[0].detach().clone(), norm.bias[0].detach().clone()
    return out


class PlainResNet(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.first = plain_linear(net.first)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                plain_linear(block.up),
                plain_norm(block.up_norm, nn.BatchNorm1d),
                nn.ReLU(),
                plain_linear(block.down),
                plain_norm(block.down_norm, nn.BatchNorm1d),
            )
            for block in net.blocks
        )
        self.head = plain_linear(net.head)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class PlainTabM(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.factors, self.weight, self.bias = (
            nn.Parameter(tensor[0].detach().clone())
            for tensor in (net.adapters.values, net.heads.weight, net.heads.bias)
        )
        self.layers = nn.ModuleList(plain_linear(layer) for layer in (net.first, *net.layers))

    def forward(self, x):
        predictions = []
        for factors, weight, bias in zip(self.factors, self.weight, self.bias, strict=True):
            hidden = x * factors
            for layer in self.layers:
                hidden = layer(hidden).relu()
            predictions.append(hidden @ weight + bias)
        out = torch.stack(predictions, dim=1)
        if self.training:
            return out
        return out.mean(dim=1) if out.shape[-1] == 1 else out.softmax(dim=-1).mean(dim=1).log()


class PlainRealMLP(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.factors = nn.Parameter(net.factors[0].detach().clone())
        self.layers = nn.ModuleList(plain_linear(layer) for layer in (net.first, *net.layers))
        self.roots = [float(net.first.fan_in[0]) ** 0.5, *(layer.weight.shape[1] ** 0.5 for layer in net.layers)]
        self.activation = nn.SELU() if len(self.layers[-1].bias) > 1 else nn.Mish()

    def forward(self, x):
        x = x * self.factors
        for place, (layer, root) in enumerate(zip(self.layers, self.roots, strict=True)):
            x = x @ layer.weight.T / root + layer.bias
            if place + 1 < len(self.layers):
                x = self.activation(x)
        return x

    def groups(self, config):
        """Parameter groups of torch's AdamW: weights, factors of the inputs, and biases."""
        weights, biases = ([getattr(layer, name) for layer in self.layers] for name in ("weight", "bias"))
        return [
            {"params": weights},
            {"params": [self.factors], "lr": 6.0 * config.learning_rate},
            {"params": biases, "lr": 0.1 * config.learning_rate, "weight_decay": 0.0},
        ]


class PlainTransformer(nn.Module):
    def __init__(self, net):
        super().__init__()
        tokenizer = net.tokenizer
        self.cls, self.weight, self.bias, self.categories = (
            nn.Parameter(tensor[0].detach().clone())
            for tensor in (tokenizer.cls, tokenizer.weight, tokenizer.bias, tokenizer.categories.values)
        )
        self.heads = net.blocks[0].n_heads
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    plain_norm(block.attention_norm, nn.LayerNorm),
                    plain_linear(block.qkv),
                    plain_linear(block.out),
                    plain_norm(block.norm, nn.LayerNorm),
                    plain_linear(block.up),
                    plain_linear(block.down),
                ]
            )
            for block in net.blocks
        )
        self.norm, self.head = plain_norm(net.norm, nn.LayerNorm), plain_linear(net.head)

    def forward(self, blocks, codes):
        tokens = [torch.einsum("fm,fmd->fd", row, self.weight) for row in blocks]
        features = torch.cat([torch.stack(tokens), self.categories[codes]], dim=1) + self.bias
        x = torch.cat([self.cls.expand(len(features), 1, -1), features], dim=1)
        for norm, qkv, out, ffn_norm, up, down in self.blocks:
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in qkv(norm(x)).chunk(3, dim=-1))
            mixed = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1) @ v
            x = x + out(mixed.transpose(1, 2).flatten(-2))
            value, gate = up(ffn_norm(x)).chunk(2, dim=-1)
            x = x + down(value * torch.relu(gate))
        return self.head(torch.relu(self.norm(x[:, 0])))


def plain_training(table, member, backbone, config, categories):  # noqa: PLR0912, PLR0915 - one loop, as one writes it
    """Train one network the ordinary way: module, AdamW, ReduceLROnPlateau, best score, early stopping."""
    data = DeviceTable.from_table(table, torch.device("cpu"))
    network = make_stack(table, [member], backbone, config, categories=categories).network
    encoding, net = PlainEncoding(network), network.backbone
    if backbone.name == "mlp":
        layers = [plain_linear(net.first)]
        for layer in net.layers:
            layers += [nn.ReLU(), plain_linear(layer)]
        body = nn.Sequential(*layers)
    else:
        kinds = {"resnet": PlainResNet, "tabm": PlainTabM, "realmlp": PlainRealMLP, "ft": PlainTransformer}
        body = kinds[backbone.name](net)
    numbers, codes = data.numbers, data.codes

    def run(rows):
        blocks, penalty = encoding(numbers[rows])
        if backbone.name == "ft":
            return body(blocks, codes[rows]), penalty
        flat = torch.cat([blocks.flatten(-2), codes[rows].float() - 1], dim=-1)
        return body(flat), penalty

    spared = ("cls", "bias", "categories") if backbone.name == "ft" else ()
    decayed = [parameter for parameter in (encoding.weight, encoding.bias) if parameter is not None]
    free = [parameter for parameter in (encoding.frequencies, encoding.phases) if parameter is not None]
    if backbone.name == "ft" and decayed:
        free.append(decayed.pop())
    for module in body.modules():
        for name, parameter in module.named_parameters(recurse=False):
            exempt = backbone.name == "ft" and (name in spared or isinstance(module, nn.LayerNorm) or module is body)
            exempt |= backbone.name == "tabm" and name == "factors"
            (free if exempt else decayed).append(parameter)
    groups = [{"params": decayed}, {"params": free, "weight_decay": 0.0}]
    if backbone.name == "realmlp":
        slow = {"lr": 0.1 * config.learning_rate}
        still = [parameter for parameter in (*free, encoding.bias) if parameter is not None]
        weight = [] if encoding.weight is None else [encoding.weight]
        groups = [*body.groups(config), {"params": weight, **slow}, {"params": still, **slow, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(
        groups, lr=config.learning_rate, weight_decay=config.weight_decay, betas=(0.9, config.beta2)
    )
    first_rates = [group["lr"] for group in optimiser.param_groups]
    averages, n_done = [parameter.detach().clone() for parameter in body.parameters()], 0
    knots = None
    if encoding.logits is not None:
        knots = torch.optim.AdamW([encoding.logits], lr=config.learning_rate * config.knot_rate, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimiser, "min", factor=config.plateau_factor, patience=config.plateau_patience
    )
    y = torch.from_numpy(table.target[member.train])
    mean, spread = (y.mean(), y.std(unbiased=False)) if table.task == "regression" else (0.0, 1.0)
    target = (
        (torch.from_numpy(table.target) - mean) / spread
        if table.task == "regression"
        else torch.from_numpy(table.target)
    )
    smoothing = config.label_smoothing
    loss_of = nn.MSELoss() if table.task == "regression" else nn.CrossEntropyLoss(label_smoothing=smoothing)
    train_rows, valid_rows = torch.from_numpy(member.train), torch.from_numpy(member.valid)
    losses, scores, best, best_epoch = [], [], float("inf"), -1
    for epoch in range(config.max_epochs):
        order = row_order(*(torch.tensor([v]) for v in (member.seed, epoch, len(train_rows))), len(train_rows))[0]
        total = 0.0
        body.train()
        for places in order.split(config.batch_size):
            rows = train_rows[places]
            outputs, penalty = run(rows)
            goal = target[rows].float() if table.task == "regression" else target[rows]
            each = outputs.unbind(dim=1) if backbone.name == "tabm" else [outputs]
            losses_of_each = [loss_of(one[:, 0] if table.task == "regression" else one, goal) for one in each]
            loss = sum(losses_of_each) / len(each)
            if config.schedule == "cycles":
                share = (n_done + 0.5) / (config.max_epochs * len(order.split(config.batch_size)))
                factor = 0.5 * (1 - math.cos(2 * math.pi * math.log2(1 + 15 * share)))
                for group, rate in zip(optimiser.param_groups, first_rates, strict=True):
                    group["lr"] = factor * rate
            for one in (optimiser, knots):
                if one is not None:
                    one.zero_grad()
            (loss + config.spacing_weight * penalty).backward()
            optimiser.step()
            if knots is not None and epoch >= config.knot_warmup:
                knots.step()
            total += float(loss.detach()) * len(rows)
            decay = min(config.weight_average, (1 + n_done) / (10 + n_done))
            for average, parameter in zip(averages, body.parameters(), strict=True):
                average.copy_(decay * average + (1 - decay) * parameter.detach())
            n_done += 1
        losses.append(total / len(train_rows))
        body.eval()
        with torch.no_grad():
            before = [parameter.clone() for parameter in body.parameters()]
            for parameter, average in zip(body.parameters(), averages, strict=True):
                parameter.copy_(average)
            outputs = run(valid_rows)[0]
            for parameter, old in zip(body.parameters(), before, strict=True):
                parameter.copy_(old)
        if table.task == "regression":
            score = float((outputs[:, 0] - target[valid_rows]).square().mean().sqrt())
        else:
            from sklearn.metrics import roc_auc_score

            shares = torch.softmax(outputs.double(), dim=-1).numpy()
            score = -roc_auc_score(table.target[member.valid], shares, multi_class="ovr", average="weighted")
        scores.append(score)
        if config.schedule == "plateau":
            scheduler.step(score)
        if score < best:
            best, best_epoch = score, epoch
        if config.patience is not None and epoch - best_epoch >= config.patience:
            break
    return losses, scores, best_epoch + 1  # counted from 1


PLAIN = ["BS-Q", "PLE", "BS-Grad-U", "IS-Grad-U", "MS-Grad-U", "Robust", "Periodic", "PLR", "PBLD", "PLE+LR4x"]
PLAIN += ["IS-Q+x", "BS-Grad-U+L4"]
# Every method with half of the backbones, and every backbone with half of the methods; usually every method with one of
# the backbones or two, and every backbone with two or three methods.
HALF = [
    pytest.param(name, method, marks=() if (i + j) % 10 in {0, 4} or (i, j) == (1, 5) else pytest.mark.slow)
    for i, name in enumerate(SMALL)
    for j, method in enumerate(PLAIN)
    if (i + j) % 2 == 0
]


def usually(*names):
    """Return all backbones as cases of a test; those that are not named here are slow."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.slow) for name in SMALL]


@pytest.mark.parametrize(("name", "method"), HALF)
def test_a_plain_torch_loop_gives_the_same(name, method):
    table = make_table()
    member = make_member(table, method, seed=5)
    trained = train(table, [member], SMALL[name], FAST, device="cpu", categories="code")
    losses, scores, best_epoch = plain_training(table, member, SMALL[name], FAST, "code")
    (history,) = trained.histories
    np.testing.assert_allclose(history.loss, losses, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(history.score, scores, rtol=1e-5, atol=1e-5)
    assert history.best_epoch == best_epoch


@pytest.mark.parametrize("name", SMALL)
def test_a_plain_torch_loop_gives_the_same_for_classes(name):
    table = make_table("classification")
    member = make_member(table, "BS-Q", seed=5)
    trained = train(table, [member], SMALL[name], FAST, device="cpu", categories="code")
    losses, scores, best_epoch = plain_training(table, member, SMALL[name], FAST, "code")
    (history,) = trained.histories
    np.testing.assert_allclose(history.loss, losses, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(history.score, scores, rtol=1e-5, atol=1e-5)
    assert history.best_epoch == best_epoch


@pytest.mark.parametrize(
    ("name", "task"),
    combinations(
        SMALL,
        ["regression", "classification"],
        usual=lambda name, task: (task == "regression") == (name in {"mlp", "tabm", "ft"}),
    ),
)
def test_a_plain_torch_loop_with_cycles_and_averages_gives_the_same(name, task):
    table = make_table(task)
    member = make_member(table, "BS-Q", seed=5)
    settings = {"schedule": "cycles", "patience": None, "weight_average": 0.8, "beta2": 0.95, "label_smoothing": 0.1}
    config = replace(FAST, **settings)
    trained = train(table, [member], SMALL[name], config, device="cpu", categories="code")
    losses, scores, best_epoch = plain_training(table, member, SMALL[name], config, "code")
    (history,) = trained.histories
    np.testing.assert_allclose(history.loss, losses, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(history.score, scores, rtol=2e-5, atol=2e-5)
    assert history.best_epoch == best_epoch
    assert history.epochs == config.max_epochs


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        *zip(SMALL, ["plateau", "cycles"] * len(SMALL), strict=False),
        pytest.param("mlp", "cycles", marks=pytest.mark.slow),
        pytest.param("resnet", "plateau", marks=pytest.mark.slow),
    ],
)
def test_averages_do_not_depend_on_neighbours(name, schedule, monkeypatch):
    """Members with different numbers of steps, some of which stop early and leave."""
    from knotwork.training import _engine as engine

    monkeypatch.setattr(engine, "DROP_STEPS", {"cpu": 0.01})
    table = make_table()
    members = [make_member(table, method, seed=place, fold=2 * place) for place, method in enumerate(MIXED)]
    assert len({-(-len(member.train) // FAST.batch_size) for member in members}) > 1
    config = replace(FAST, max_epochs=8, learning_rate=2e-2, patience=1, weight_average=0.5, schedule=schedule)
    together = train(table, members, SMALL[name], config, device="cpu")
    assert len({history.epochs for history in together.histories}) > 1
    for place in (0, 3, 8):
        alone = train(table, [members[place]], SMALL[name], config, device="cpu")
        same(together.histories[place], alone.histories[0], 2e-5)
        outputs = [
            trained.outputs(table.numbers, table.codes)[which] for trained, which in ((together, place), (alone, 0))
        ]
        np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-4)


# For the other backbones see `test_dropout_does_not_depend_on_neighbours`.
@pytest.mark.parametrize("name", usually("mlp", "resnet"))
def test_a_member_alone_and_in_a_stack_of_twenty_is_the_same(name):
    table = make_table()
    members = [
        make_member(table, MIXED[place % len(MIXED)], seed=place, fold=place % 5, learning_rate=1e-3 * (1 + place % 3))
        for place in range(20)
    ]
    together = train(table, members, SMALL[name], FAST, device="cpu")
    backwards = train(table, members[::-1], SMALL[name], FAST, device="cpu")
    for place in (0, 4, 7, 13, 19):
        alone = train(table, [members[place]], SMALL[name], FAST, device="cpu")
        same(together.histories[place], alone.histories[0])
        same(backwards.histories[19 - place], alone.histories[0])
        rows = np.arange(30)
        outputs = [
            trained.outputs(table.numbers[rows], table.codes[rows])[which]
            for trained, which in ((together, place), (alone, 0), (backwards, 19 - place))
        ]
        for other in outputs[1:]:
            np.testing.assert_allclose(other, outputs[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "embedding"),
    [
        ("mlp", "LR4x"),
        ("resnet", "L4"),
        ("realmlp", "x"),
        ("ft", "LR4x"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("mlp", "L4"), ("mlp", "x"), ("tabm", "LR4x"), ("ft", "x"))
        ),
    ],
)
def test_an_embedded_member_alone_and_in_a_stack_is_the_same(name, embedding):
    table = make_table(seed=1)  # with seed 0 rounding switches a ReLU of one member, in the last epoch
    mixed = [replace(member, embedding=Embedding.parse(embedding)) for member in make_mixed(table)]
    others = [make_member(table, "PLR", seed=1), make_member(table, "BS-Q", seed=2)]
    config = replace(FAST, max_epochs=4)  # rounding grows with every step
    together = train(table, [*mixed, *others], SMALL[name], config, device="cpu")
    assert len(together.pieces) == 3, "members of different embeddings share a stack"
    for place in (0, 2, 8, 9, 12, 13):  # only scaled, so that its blocks are padded; PLE; Robust; Cosine; a mix; PLR
        alone = train(table, [[*mixed, *others][place]], SMALL[name], config, device="cpu")
        same(together.histories[place], alone.histories[0])


@pytest.mark.parametrize("name", SMALL)
def test_dropout_does_not_depend_on_neighbours(name):
    settings = {"attention_dropout": 0.3, "ffn_dropout": 0.3} if name == "ft" else {"dropout": 0.3}
    backbone = replace(SMALL[name], **settings)
    table = make_table()
    members = [make_member(table, method, seed=place) for place, method in enumerate(MIXED)]
    together = train(table, members, backbone, FAST, device="cpu")
    alone = train(table, [members[3]], backbone, FAST, device="cpu")
    same(together.histories[3], alone.histories[0])
    without = train(table, [members[3]], SMALL[name], FAST, device="cpu")
    assert not np.allclose(without.histories[0].loss, alone.histories[0].loss, rtol=1e-3)


@pytest.mark.parametrize("name", SMALL)
def test_dropout_does_not_depend_on_the_rows_of_neighbours(name):
    """With fewer rows than a batch has, the length of a batch is that of the largest member."""
    settings = {"attention_dropout": 0.3, "ffn_dropout": 0.3} if name == "ft" else {"dropout": 0.3}
    backbone, config = replace(SMALL[name], **settings), replace(FAST, batch_size=512)
    table = make_table()
    members = [make_member(table, "BS-Q", seed=fold, fold=fold) for fold in range(3)]
    assert len({len(member.train) for member in members}) == 3
    together = train(table, members, backbone, config, device="cpu")
    for place, member in enumerate(members):
        same(together.histories[place], train(table, [member], backbone, config, device="cpu").histories[0])


# `test_averages_do_not_depend_on_neighbours` takes members out of stacks of all backbones.
@pytest.mark.parametrize("name", usually("mlp"))
def test_members_that_leave_change_nothing_for_the_others(name, monkeypatch):
    """Many members stop at different epochs: taken out at once, or not before the end."""
    from knotwork.training import _engine as engine

    table = make_table()
    members = [make_member(table, method, seed=place, fold=place % 5) for place, method in enumerate(MIXED)]
    rate = {"realmlp": 0.1, "tabm": 3e-2}.get(name, 1e-2)  # enough for many members to stop
    config = replace(FAST, max_epochs=20, learning_rate=rate, patience=3)
    results, drops, drop = [], [], engine._RunningStack._drop_stopped
    monkeypatch.setattr(engine._RunningStack, "_drop_stopped", lambda stack: (drops.append(steps), drop(stack)))
    for steps in (0.01, 1e9):
        monkeypatch.setattr(engine, "DROP_STEPS", {"cpu": steps})
        results.append(train(table, members, SMALL[name], config, device="cpu"))
    assert len(drops) > 3
    assert set(drops) == {0.01}
    assert len({history.epochs for history in results[0].histories}) > 3
    for one, other in zip(*(trained.histories for trained in results), strict=True):
        same(one, other)
    for one, other in zip(*(trained.outputs(table.numbers, table.codes) for trained in results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NO GPU: that it trains as the CPU does is not tested here")
@pytest.mark.parametrize("name", ["mlp", "resnet"])
def test_a_gpu_trains_as_the_cpu_does(name):
    table = make_table()
    members = make_mixed(table)
    config = replace(FAST, precision="float32")
    results = [
        train(table, members, replace(SMALL[name], dropout=0.3), config, device=where) for where in ("cpu", "cuda")
    ]
    for one, other in zip(*(trained.histories for trained in results), strict=True):
        same(one, other)
