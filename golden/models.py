"""models.json: models in f32, from their initial weights through ten steps on ten batches."""

import copy

import torch
from torch import nn
import torch.nn.functional as F

from common import pack, randoms, settings, values

STEPS = 10


def make():
    return {
        "dtype": "f32",
        "models": [
            run_mlp(
                name="regress",
                sizes=[10, 16, 1],
                activation="relu",
                loss="mse",
                optimizer="adam",
                optimizer_attrs={"lr": 1e-2},
                batches=[regression_batch(8, 10) for _ in range(STEPS)],
            ),
            run_mlp(
                name="classify",
                sizes=[12, 20, 8, 4],
                activation="gelu",
                loss="cross_entropy",
                optimizer="adamw",
                optimizer_attrs={"lr": 1e-2},
                batches=[class_batch(8, 12, 4) for _ in range(STEPS)],
            ),
            run_mlp(
                name="deep",
                sizes=[6, 10, 10, 10, 1],
                activation="tanh",
                loss="bce_with_logits",
                optimizer="sgd",
                optimizer_attrs={"lr": 0.1, "momentum": 0.9, "nesterov": True},
                clip_norm=0.2,  # some steps are above it, some below
                batches=[binary_batch(6, 6) for _ in range(STEPS)],
            ),
        ]
        + architectures(),
    }


def architectures():
    """Models that are not MLPs, by SGD: keys' biases have no gradient but rounding, which Adam would make large."""
    classifier = {"vocabulary": 11, "width": 8, "heads": 2, "layers": 2, "classes": 3, "feedforward": 12}
    classifier |= {"dropout": 0.0}
    gpt = {"vocabulary": 9, "context": 6, "width": 8, "heads": 2, "layers": 1}
    tied = gpt | {"tied": True}
    vit = {"channels": 2, "patch": 2, "width": 8, "heads": 2, "layers": 1, "classes": 3}
    mixer = {"channels": 1, "patch": 2, "width": 6, "mix_patches": 5, "mix_channels": 8, "blocks": 2, "classes": 3}
    table = {"numbers": 3, "categories": [(4, 2), (6, 3)], "width": 8, "hidden": 12, "blocks": 2, "outputs": 1}
    return [
        run_sized("transformer", "transformer-classifier", classifier, TransformerClassifier(**classifier), token_batch),
        run_sized("gpt", "gpt", gpt, Gpt(**gpt), text_batch),
        run_sized("gpt-tied", "gpt", tied, Gpt(**tied), text_batch),
        run_sized("vit", "vit", vit, Vit(**vit, patches=6), lambda: picture_batch(2)),
        run_sized("mixer", "mixer", mixer, Mixer(**mixer, patches=6), lambda: picture_batch(1)),
        run_sized("lenet", "lenet", LENET, LeNet(**LENET), lambda: square_batch(1, 16)),
        run_sized("vgg", "vgg", VGG, Vgg(**VGG), lambda: square_batch(2, 5)),
        run_sized("resnet", "resnet", RESNET, resnet(RESNET), lambda: square_batch(1, 16, rows=6), lr=2e-3),
        run_sized("table", "table-net", table, TableNet(**table), table_batch, loss="mse"),
        run_sized("resnet-9", "resnet-9", RESNET9, ResNet9(**RESNET9), lambda: square_batch(2, 16, rows=8), lr=2e-3),
        run_sized("nlinear", "nlinear", NLINEAR, NLinear(**NLINEAR), series_batch, loss="mse"),
    ]


def run_sized(name, architecture, sizes, model, batch, loss="cross_entropy", lr=0.05):
    with torch.no_grad():  # embeddings as large as PyTorch makes them would drown the rest
        for key, parameter in model.named_parameters():
            if "emb" in key or "tokens" in key or "positions" in key:
                parameter.mul_(0.5)
    record = {"architecture": architecture, "attrs": sizes}
    batches = [batch() for _ in range(STEPS)]
    return run(name, model, record, loss, "sgd", {"lr": lr, "momentum": 0.9}, batches, clip_norm=1.0)


ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}
LOSSES = {
    "mse": F.mse_loss,
    "cross_entropy": F.cross_entropy,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
}
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def run_mlp(name, sizes, activation, **more):
    record = {"architecture": "mlp", "attrs": {"sizes": sizes, "activation": activation}}
    return run(name, mlp(sizes, activation), record, **more)


def run(name, model, record, loss, optimizer, optimizer_attrs, batches, clip_norm=None):
    record = {"name": name} | record | {
        "loss": loss,
        "optimizer": optimizer,
        "optimizer_attrs": settings(OPTIMIZERS[optimizer](model.parameters(), **optimizer_attrs)),
        "clip_norm": clip_norm,
        "initial": state(model),
        "batches": [{name: pack(t) for name, t in zip(("x", "y", "codes"), batch)} for batch in batches],
    }

    def steps(model):
        """Losses before each update, gradient norms before clipping, and step 0's gradients."""
        opt = OPTIMIZERS[optimizer](model.parameters(), foreach=False, **optimizer_attrs)
        losses, norms, first = [], [], None
        for batch in batches:
            dtype = next(model.parameters()).dtype
            x, y, *codes = (t.to(dtype) if t.is_floating_point() else t for t in batch)
            predicted = model(x, *codes)
            if y.dtype == torch.int64:  # each token of a text has a class of its own
                predicted, y = predicted.flatten(0, -2), y.flatten()
            value = LOSSES[loss](predicted, y)
            opt.zero_grad()
            value.backward()
            first = first or {key: pack(p.grad.float()) for key, p in model.named_parameters()}
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip_norm or float("inf")))
            opt.step()
            losses.append(value.detach())
        return torch.stack(losses), torch.stack(norms), first

    exact, _, first = steps(copy.deepcopy(model).double())
    losses, norms, _ = steps(model)
    worst = ((losses.double() - exact) / exact).abs().max().item()
    assert worst < 2e-6, f"{name}: f32 strays {worst:.1e} from f64; too chaotic to be a reference"
    return record | {
        "grads": first,
        "losses": values(losses),
        "losses_f64": values(exact),
        "grad_norms": values(norms),
        "final": {key: pack(parameter) for key, parameter in model.named_parameters()},
    }


def mlp(sizes, activation):
    layers = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


LENET = {"inputs": 1, "size": [16, 16], "channels": [3, 4], "hidden": 6, "outputs": 3}
VGG = {"inputs": 2, "outputs": 3, "channels": [4, 6]}
RESNET9 = {"inputs": 2, "outputs": 3, "width": 2}
NLINEAR = {"length": 7, "columns": 2, "horizon": 3}
RESNET = {"inputs": 1, "outputs": 3, "depth": "18", "stem": "cifar", "width": 2}


class LeNet(nn.Module):
    def __init__(self, inputs, size, channels, hidden, outputs):
        super().__init__()
        left = [((side - 4) // 2 - 4) // 2 for side in size]
        self.conv1, self.conv2 = nn.Conv2d(inputs, channels[0], 5), nn.Conv2d(channels[0], channels[1], 5)
        self.fc1, self.fc2 = nn.Linear(channels[1] * left[0] * left[1], hidden), nn.Linear(hidden, outputs)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Vgg(nn.Module):
    def __init__(self, inputs, outputs, channels):
        super().__init__()
        self.stages = nn.ModuleList()
        for width in channels:
            stage = nn.Module()
            stage.conv1, stage.bn1 = nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            stage.conv2, stage.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
            self.stages.append(stage)
            inputs = width
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        for stage in self.stages:
            x = F.relu(stage.bn1(stage.conv1(x)))
            x = F.max_pool2d(F.relu(stage.bn2(stage.conv2(x))), 2)
        return self.fc(x.mean((2, 3)))


def resnet(sizes):
    """torchvision's, narrowed, with the stem for small pictures."""
    from torchvision.models.resnet import BasicBlock, ResNet

    width = sizes["width"]

    class Narrow(ResNet):
        def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
            self.inplanes = width if planes == 64 else self.inplanes
            return super()._make_layer(block, planes * width // 64, blocks, stride, dilate)

    model = Narrow(BasicBlock, [2, 2, 2, 2], num_classes=sizes["outputs"])
    model.conv1 = nn.Conv2d(sizes["inputs"], width, 3, padding=1, bias=False)
    model.bn1, model.fc = nn.BatchNorm2d(width), nn.Linear(8 * width, sizes["outputs"])
    model.maxpool = nn.Identity()
    return model


class ResNet9(nn.Module):
    def __init__(self, inputs, outputs, width):
        super().__init__()
        self.conv1, self.bn1 = convolution(inputs, width), nn.BatchNorm2d(width)
        for stage in (1, 2, 3):
            channels, layer = width << stage, nn.Module()
            layer.conv, layer.bn = convolution(channels // 2, channels), nn.BatchNorm2d(channels)
            if stage != 2:
                layer.res = nn.Module()
                layer.res.conv1, layer.res.bn1 = convolution(channels, channels), nn.BatchNorm2d(channels)
                layer.res.conv2, layer.res.bn2 = convolution(channels, channels), nn.BatchNorm2d(channels)
            setattr(self, f"layer{stage}", layer)
        self.fc = nn.Linear(8 * width, outputs)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        for layer in (self.layer1, self.layer2, self.layer3):
            x = F.max_pool2d(F.relu(layer.bn(layer.conv(x))), 2)
            if hasattr(layer, "res"):
                y = F.relu(layer.res.bn1(layer.res.conv1(x)))
                x = x + F.relu(layer.res.bn2(layer.res.conv2(y)))
        return self.fc(x.mean((2, 3)))


def convolution(inputs, outputs):
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


class NLinear(nn.Module):
    def __init__(self, length, columns, horizon):
        super().__init__()
        self.linear = nn.Linear(length, horizon)

    def forward(self, x):
        last = x[:, -1:]
        return (self.linear((x - last).mT).mT + last).flatten(1)


def series_batch():
    x = randoms(6, 7, 2, dtype=torch.float32)
    return x, x[:, :3].flatten(1) * 0.5


def square_batch(channels, side, rows=6):
    x = randoms(rows, channels, side, side, dtype=torch.float32)
    return x, x.mean((2, 3))[:, 0].gt(0).long() + (x[:, 0, 0, 0] > 0).long()


class TransformerClassifier(nn.Module):
    def __init__(self, vocabulary, width, heads, layers, classes, feedforward, dropout):
        super().__init__()
        self.emb = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, feedforward, dropout, batch_first=True) for _ in range(layers)
        )
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        x = self.emb(x)
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.mean(1))


def pre_norm(width, heads):
    settings = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True}
    return nn.TransformerEncoderLayer(width, heads, 4 * width, **settings)


class Table(nn.Module):
    """A learned table that is added rather than looked up."""

    def __init__(self, rows, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, width))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers, tied=False):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), Table(context, width)
        self.layers = nn.ModuleList(pre_norm(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        if not tied:
            self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        count = x.shape[1]
        after = torch.ones(count, count, dtype=torch.bool).triu(1)
        h = self.tokens(x) + self.positions.weight[:count]
        for layer in self.layers:
            h = layer(h, after)
        h = self.norm(h)
        return self.head(h) if hasattr(self, "head") else h @ self.tokens.weight.T


def cut(x, side):
    """Squares of pixels, row by row, each with its channels outermost."""
    return nn.functional.unfold(x, side, stride=side).transpose(1, 2)


class Vit(nn.Module):
    def __init__(self, channels, patch, width, heads, layers, classes, patches):
        super().__init__()
        self.side, self.patch = patch, nn.Linear(channels * patch * patch, width)
        self.positions = Table(patches, width)
        self.layers = nn.ModuleList(pre_norm(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        h = self.patch(cut(x, self.side)) + self.positions.weight
        for layer in self.layers:
            h = layer(h)
        return self.head(self.norm(h).mean(1))


class MixerBlock(nn.Module):
    def __init__(self, patches, width, mix_patches, mix_channels):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.patches1, self.patches2 = nn.Linear(patches, mix_patches), nn.Linear(mix_patches, patches)
        self.channels1, self.channels2 = nn.Linear(width, mix_channels), nn.Linear(mix_channels, width)

    def forward(self, x):
        x = x + self.patches2(F.gelu(self.patches1(self.norm1(x).mT))).mT
        return x + self.channels2(F.gelu(self.channels1(self.norm2(x))))


class Mixer(nn.Module):
    def __init__(self, channels, patch, width, mix_patches, mix_channels, blocks, classes, patches):
        super().__init__()
        self.side, self.patch = patch, nn.Linear(channels * patch * patch, width)
        self.blocks = nn.ModuleList(MixerBlock(patches, width, mix_patches, mix_channels) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        h = self.patch(cut(x, self.side))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h).mean(1))


class TableBlock(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear1, self.linear2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.linear2(F.relu(self.linear1(self.norm(x))))


class TableNet(nn.Module):
    def __init__(self, numbers, categories, width, hidden, blocks, outputs):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(rows, columns) for rows, columns in categories)
        self.input = nn.Linear(numbers + sum(columns for _, columns in categories), width)
        self.blocks = nn.ModuleList(TableBlock(width, hidden) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)

    def forward(self, x, codes):
        h = self.input(torch.cat([x] + [e(codes[:, i]) for i, e in enumerate(self.embeddings)], dim=1))
        for block in self.blocks:
            h = block(h)
        return self.head(F.relu(self.norm(h)))


def state(model):
    return {key: pack(tensor) for key, tensor in model.state_dict().items()}


def regression_batch(rows, features):
    x = randoms(rows, features, dtype=torch.float32)
    y = x[:, :1] - 0.5 * x[:, 1:2] * x[:, 2:3] + 0.25
    return x, y


def class_batch(rows, features, classes):
    x = randoms(rows, features, dtype=torch.float32)
    return x, x[:, :classes].argmax(dim=1)


def binary_batch(rows, features):
    x = randoms(rows, features, dtype=torch.float32)
    return x, (x[:, :1] * x[:, 1:2] + x[:, 2:3] > 0).float()


def token_batch(rows=4, tokens=5):
    """The class is what the sum of the tokens leaves over."""
    x = torch.randint(11, (rows, tokens))
    return x, x.sum(1) % 3


def text_batch(rows=3, tokens=6):
    """A text that counts in threes from somewhere; the next token is the class."""
    text = (torch.randint(9, (rows, 1)) + 3 * torch.arange(tokens + 1)) % 9
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def picture_batch(channels, rows=4):
    """The class is the third of the picture's columns with most light."""
    x = randoms(rows, channels, 4, 6, dtype=torch.float32)
    return x, x.sum((1, 2)).reshape(rows, 3, 2).sum(2).argmax(1)


def table_batch(rows=6):
    x, codes = randoms(rows, 3, dtype=torch.float32), torch.stack([torch.randint(n, (rows,)) for n in (4, 6)], dim=1)
    y = x[:, :1] * (codes[:, :1] % 2) + 0.25 * codes[:, 1:]
    return x, y, codes
