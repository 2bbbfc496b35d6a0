"""The engine against plain torch, and what must not depend on neighbours."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from knotwork._kernels.dropout import row_order
from knotwork._kernels.encoding import AFFINE, breaks_from_widths, rows_formula, spacing_penalty, widths_from_logits
from knotwork.encoders import Embedding
from knotwork.nn._backbones import FTTransformerConfig, MLPConfig, ResNetConfig
from knotwork.training._config import TrainingConfig
from knotwork.training._engine import train
from knotwork.training._stack import build_network
from tests.training.cases import MIXED, make_member, make_mixed, make_table

SMALL = {
    "mlp": MLPConfig(widths=(16, 8), dropout=0.0),
    "resnet": ResNetConfig(width=16, n_blocks=2, hidden=24, dropout=0.0),
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
        if self.parts[0].kind == AFFINE:
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
    from knotwork.training._members import column_units, in_units

    units = column_units(table.numbers)
    network = build_network(table, [member], backbone, units=units, categories=categories)
    network.start(torch.tensor([member.seed]))
    encoding, net = PlainEncoding(network), network.backbone
    if backbone.name == "mlp":
        layers = [plain_linear(net.first)]
        for layer in net.layers:
            layers += [nn.ReLU(), plain_linear(layer)]
        body = nn.Sequential(*layers)
    else:
        body = (PlainResNet if backbone.name == "resnet" else PlainTransformer)(net)
    numbers, codes = torch.from_numpy(in_units(table.numbers, units)), torch.from_numpy(table.codes)

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
            (free if exempt else decayed).append(parameter)
    optimiser = torch.optim.AdamW(
        [{"params": decayed}, {"params": free, "weight_decay": 0.0}],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
    )
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
    loss_of = nn.MSELoss() if table.task == "regression" else nn.CrossEntropyLoss()
    train_rows, valid_rows = torch.from_numpy(member.train), torch.from_numpy(member.valid)
    losses, scores, best, best_epoch = [], [], float("inf"), -1
    for epoch in range(config.max_epochs):
        order = row_order(*(torch.tensor([v]) for v in (member.seed, epoch, len(train_rows))), len(train_rows))[0]
        total = 0.0
        body.train()
        for places in order.split(config.batch_size):
            rows = train_rows[places]
            outputs, penalty = run(rows)
            own = outputs[:, 0] if table.task == "regression" else outputs
            goal = target[rows].float() if table.task == "regression" else target[rows]
            loss = loss_of(own, goal)
            for one in (optimiser, knots):
                if one is not None:
                    one.zero_grad()
            (loss + config.spacing_weight * penalty).backward()
            optimiser.step()
            if knots is not None and epoch >= config.knot_warmup:
                knots.step()
            total += float(loss.detach()) * len(rows)
        losses.append(total / len(train_rows))
        body.eval()
        with torch.no_grad():
            outputs = run(valid_rows)[0]
        if table.task == "regression":
            score = float((outputs[:, 0] - target[valid_rows]).square().mean().sqrt())
        else:
            from sklearn.metrics import roc_auc_score

            shares = torch.softmax(outputs.double(), dim=-1).numpy()
            score = -roc_auc_score(table.target[member.valid], shares, multi_class="ovr", average="weighted")
        scores.append(score)
        scheduler.step(score)
        if score < best:
            best, best_epoch = score, epoch
        if epoch - best_epoch >= config.patience:
            break
    return losses, scores, best_epoch


@pytest.mark.parametrize(
    "method",
    ["BS-Q", "PLE", "BS-Grad-U", "IS-Grad-U", "MS-Grad-U", "Robust", "Periodic", "PLR", "PBLD", "PLE+LR4x", "IS-Q+x",
     "BS-Grad-U+L4"],
)  # fmt: skip
@pytest.mark.parametrize("name", SMALL)
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


@pytest.mark.parametrize("name", SMALL)
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


@pytest.mark.parametrize("embedding", ["L4", "LR4x", "x"])
@pytest.mark.parametrize("name", SMALL)
def test_an_embedded_member_alone_and_in_a_stack_is_the_same(name, embedding):
    table = make_table()
    mixed = [replace(member, embedding=Embedding.parse(embedding)) for member in make_mixed(table)]
    others = [make_member(table, "PLR", seed=1), make_member(table, "BS-Q", seed=2)]
    together = train(table, [*mixed, *others], SMALL[name], FAST, device="cpu")
    assert len(together.pieces) == 3, "members of different embeddings share a stack"
    for place in (0, 2, 8, 9, 12, 13):  # only scaled, so that its blocks are padded; PLE; Robust; Cosine; a mix; PLR
        alone = train(table, [[*mixed, *others][place]], SMALL[name], FAST, device="cpu")
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
def test_members_that_leave_change_nothing_for_the_others(name, monkeypatch):
    """Many members stop at different epochs: taken out at once, or not before the end."""
    from knotwork.training import _engine as engine

    table = make_table()
    members = [make_member(table, method, seed=place, fold=place % 5) for place, method in enumerate(MIXED * 2)]
    config = replace(FAST, max_epochs=20, learning_rate=1e-2, patience=3)
    results, drops, drop = [], [], engine.TrainingStack.drop
    monkeypatch.setattr(engine.TrainingStack, "drop", lambda stack: (drops.append(steps), drop(stack)))
    for steps in (0.01, 1e9):
        monkeypatch.setattr(engine, "DROP_STEPS", {"cpu": steps})
        results.append(train(table, members, SMALL[name], config, device="cpu"))
    assert len(drops) > 3
    assert set(drops) == {0.01}
    assert len({history.epochs for history in results[0].histories}) > 5
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
