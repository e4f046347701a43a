"""models.json: three MLPs in f32, from their initial weights through ten steps on ten batches."""

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
            run(
                name="regress",
                sizes=[10, 16, 1],
                activation="relu",
                loss="mse",
                optimizer="adam",
                optimizer_attrs={"lr": 1e-2},
                batches=[regression_batch(8, 10) for _ in range(STEPS)],
            ),
            run(
                name="classify",
                sizes=[12, 20, 8, 4],
                activation="gelu",
                loss="cross_entropy",
                optimizer="adamw",
                optimizer_attrs={"lr": 1e-2},
                batches=[class_batch(8, 12, 4) for _ in range(STEPS)],
            ),
            run(
                name="deep",
                sizes=[6, 10, 10, 10, 1],
                activation="tanh",
                loss="bce_with_logits",
                optimizer="sgd",
                optimizer_attrs={"lr": 0.1, "momentum": 0.9, "nesterov": True},
                clip_norm=0.2,  # some steps are above it, some below
                batches=[binary_batch(6, 6) for _ in range(STEPS)],
            ),
        ],
    }


ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}
LOSSES = {
    "mse": F.mse_loss,
    "cross_entropy": F.cross_entropy,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
}
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def run(name, sizes, activation, loss, optimizer, optimizer_attrs, batches, clip_norm=None):
    model = mlp(sizes, activation)
    record = {
        "name": name,
        "sizes": sizes,
        "activation": activation,
        "loss": loss,
        "optimizer": optimizer,
        "optimizer_attrs": settings(OPTIMIZERS[optimizer](model.parameters(), **optimizer_attrs)),
        "clip_norm": clip_norm,
        "initial": state(model),
        "batches": [{"x": pack(x), "y": pack(y)} for x, y in batches],
    }

    def steps(model):
        """Losses before each update, gradient norms before clipping, and step 0's gradients."""
        opt = OPTIMIZERS[optimizer](model.parameters(), foreach=False, **optimizer_attrs)
        losses, norms, first = [], [], None
        for x, y in batches:
            dtype = next(model.parameters()).dtype
            value = LOSSES[loss](model(x.to(dtype)), y.to(dtype) if y.is_floating_point() else y)
            opt.zero_grad()
            value.backward()
            first = first or {key: pack(p.grad) for key, p in model.named_parameters()}
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip_norm or float("inf")))
            opt.step()
            losses.append(value.detach())
        return torch.stack(losses), torch.stack(norms), first

    exact, _, _ = steps(copy.deepcopy(model).double())
    losses, norms, first = steps(model)
    worst = ((losses.double() - exact) / exact).abs().max().item()
    assert worst < 2e-6, f"{name}: f32 strays {worst:.1e} from f64; too chaotic to be a reference"
    return record | {
        "grads": first,
        "losses": values(losses),
        "losses_f64": values(exact),
        "grad_norms": values(norms),
        "final": state(model),
    }


def mlp(sizes, activation):
    layers = []
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


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
