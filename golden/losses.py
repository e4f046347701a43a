"""losses.json: each loss, mean reduction, with its gradient with respect to the prediction, in f64."""

import torch
import torch.nn.functional as F

from common import pack, positives, randoms, values


def make():
    cases = []

    def add(loss, compute, prediction, target, **attrs):
        prediction = prediction.clone().requires_grad_()
        value = compute(prediction, target)
        (grad,) = torch.autograd.grad(value, prediction)
        cases.append(
            {
                "loss": loss,
                "attrs": attrs,
                "prediction": pack(prediction),
                "target": pack(target),
                "value": value.item(),
                "grad": pack(grad),
            }
        )

    distances(add)
    cross_entropies(add)
    binary_cross_entropies(add)
    pinballs(add)
    return {"dtype": "f64", "reduction": "mean", "cases": cases}


def distances(add):
    # The kink of mae (equal) and of huber (exactly delta apart) come first in each edge case.
    edge = torch.tensor([[1.0], [2.0], [0.5], [-3.0], [80.0], [-80.0]], dtype=torch.float64)
    zero = torch.tensor([[1.0], [1.0], [0.0], [1.0], [0.0], [0.0]], dtype=torch.float64)
    pairs = [(edge, zero)] + [
        (randoms(*s, scale=2.0), randoms(*s, scale=2.0)) for s in ((1, 1), (33, 1), (8, 3))
    ]
    for prediction, target in pairs:
        add("mse", F.mse_loss, prediction, target)
        add("mae", F.l1_loss, prediction, target)
        for delta in (1.0, 0.5):
            add("huber", lambda p, t: F.huber_loss(p, t, delta=delta), prediction, target, delta=delta)


def cross_entropies(add):
    for rows, classes, scale in ((1, 2, 1.0), (6, 4, 2.0), (33, 10, 3.0), (5, 3, None)):
        logits = extremes(rows, classes) if scale is None else randoms(rows, classes, scale=scale)
        target = torch.randint(classes, (rows,))
        weights = positives(classes)
        # Also the share of each class, as mixed pictures have them.
        shares = torch.softmax(randoms(rows, classes, scale=2.0), 1)
        for smoothing in (0.0, 0.1):
            for weight in (None, weights):
                for wanted in (target, shares):
                    add(
                        "cross_entropy",
                        lambda p, t: F.cross_entropy(p, t, weight=weight, label_smoothing=smoothing),
                        logits,
                        wanted,
                        label_smoothing=smoothing,
                        class_weights=None if weight is None else values(weight),
                    )


def binary_cross_entropies(add):
    for rows, outputs, scale in ((1, 1, 1.0), (33, 1, 3.0), (6, 4, 2.0), (5, 3, None)):
        logits = extremes(rows, outputs) if scale is None else randoms(rows, outputs, scale=scale)
        target = torch.randint(2, (rows, outputs)).double()
        # One positive weight per output, as PyTorch broadcasts it.
        for weight in (None, positives(outputs)):
            add(
                "bce_with_logits",
                lambda p, t: F.binary_cross_entropy_with_logits(p, t, pos_weight=weight),
                logits,
                target,
                pos_weight=None if weight is None else values(weight),
            )


def pinballs(add):
    # PyTorch has no such loss; its maximum shares the gradient evenly at the kink, where prediction and target are equal.
    def pinball(levels):
        level = torch.tensor(levels, dtype=torch.float64).reshape(1, -1, 1)

        def compute(p, t):
            d = t.unsqueeze(1) - p.reshape(len(t), len(levels), t.shape[1])
            return torch.maximum(level * d, (level - 1) * d).mean()

        return compute

    edge = torch.tensor([[1.0, 1.0, 1.0], [-80.0, 0.0, 80.0]], dtype=torch.float64)
    add("quantile", pinball([0.1, 0.5, 0.9]), edge, torch.ones(2, 1).double(), quantiles=[0.1, 0.5, 0.9])
    for rows, width, levels in (
        (1, 1, [0.5]),
        (33, 1, [0.1, 0.5, 0.9]),
        (8, 3, [0.05, 0.95]),
        (5, 1, [0.01, 0.25, 0.3, 0.99]),
    ):
        prediction = randoms(rows, len(levels) * width, scale=2.0)
        add("quantile", pinball(levels), prediction, randoms(rows, width, scale=2.0), quantiles=levels)


def extremes(rows, columns):
    """Logits of +-80, where a naive exp overflows f32."""
    return (
        torch.tensor([80.0, -80.0, 0.0])
        .double()
        .repeat(rows * columns)[: rows * columns]
        .reshape(rows, columns)
        .roll(1, 0)
    )
