"""ops.json: every op's output and vector-Jacobian product, in f64."""

import numpy as np
import torch
import torch.nn.functional as F

from common import pack, positives, randoms

KINKS = [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]
LARGE = [-100.0, -50.0, -20.0, -5.0, 0.0, 5.0, 20.0, 50.0, 100.0]
LENGTHS = [(1,), (33,), (100, 3)]
BROADCASTS = [
    ((3, 4), (4,)),
    ((4,), (3, 4)),
    ((3, 1), (1, 4)),
    ((3, 4), ()),
    ((), (3, 4)),
    ((2, 1, 3), (4, 1)),
]


def make():
    cases = Cases()
    unary_maps(cases)
    binary_maps(cases)
    comparisons(cases)
    matmuls(cases)
    reductions(cases)
    movements(cases)
    softmaxes(cases)
    return {"dtype": "f64", "cases": cases.made}


class Cases:
    def __init__(self):
        self.made = []

    def add(self, op, compute, *inputs, **attrs):
        """Runs `compute(*inputs)` and its vjp; integer and 0/1 inputs get a null gradient."""
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        output = compute(*inputs)
        cotangent, grads = None, [None] * len(inputs)
        if output.requires_grad:
            cotangent = randoms(*output.shape)
            wanted = [i for i, x in enumerate(inputs) if x.requires_grad]
            for i, grad in zip(wanted, torch.autograd.grad(output, [inputs[i] for i in wanted], cotangent)):
                grads[i] = grad
        self.made.append(
            {
                "op": op,
                "attrs": attrs,
                "inputs": [pack(x) for x in inputs],
                "output": pack(output),
                "cotangent": pack(cotangent),
                "grads": [pack(g) for g in grads],
            }
        )


def f64(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def unary_maps(cases):
    everywhere = {
        "neg": torch.neg,
        "abs": torch.abs,
        "square": torch.square,
        "relu": F.relu,
        "exp": torch.exp,
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "softplus": F.softplus,
    }
    saturating = {"exp", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus"}
    for op, compute in everywhere.items():
        cases.add(op, compute, f64(*KINKS))
        for shape in LENGTHS:
            cases.add(op, compute, randoms(*shape, scale=2.0))
        if op in saturating:
            cases.add(op, compute, f64(*LARGE))

    for op, compute in {"sqrt": torch.sqrt, "log": torch.log}.items():
        cases.add(op, compute, f64(2.0**-20, 0.25, 1.0, 2.0, 1e6))
        for shape in LENGTHS:
            cases.add(op, compute, positives(*shape))

    for slope in (0.01, 0.2):
        for x in (f64(*KINKS), f64(*LARGE), randoms(33)):
            cases.add("leaky_relu", lambda x: F.leaky_relu(x, slope), x, slope=slope)
    for alpha in (1.0, 0.5):
        for x in (f64(*KINKS), f64(*LARGE), randoms(33)):
            cases.add("elu", lambda x: F.elu(x, alpha), x, alpha=alpha)
    for low, high in ((-1.0, 1.0), (-0.5, 2.0)):
        for x in (f64(*KINKS), randoms(33, scale=2.0)):
            cases.add("clamp", lambda x: x.clamp(low, high), x, min=low, max=high)

    for exponent in (2.0, 3.0, 1.0, 0.0):
        cases.add("pow", lambda x: x.pow(exponent), f64(*KINKS), exponent=exponent)
    for exponent in (-1.0, -2.0):
        cases.add("pow", lambda x: x.pow(exponent), f64(-2.0, -1.0, -0.5, 0.5, 1.0, 2.0), exponent=exponent)
    for exponent in (0.5, -0.5, 2.5, 1.75):
        cases.add("pow", lambda x: x.pow(exponent), positives(33), exponent=exponent)


def binary_maps(cases):
    arithmetic = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
    extremes = {"minimum": torch.minimum, "maximum": torch.maximum}
    for op, compute in {**arithmetic, **extremes}.items():
        second = positives if op == "div" else randoms
        for shape in LENGTHS:
            cases.add(op, compute, randoms(*shape), second(*shape))
        for a, b in BROADCASTS:
            cases.add(op, compute, randoms(*a), second(*b))
    cases.add("div", torch.div, f64(1.0, -1.0, 0.0, 3.0), f64(-2.0, -0.5, 4.0, 2.0**-10))
    for op, compute in extremes.items():
        # Ties: PyTorch gives each side half of the gradient.
        cases.add(op, compute, f64(-1.0, 0.0, 1.0, 2.0), f64(-1.0, 0.0, 2.0, 1.0))
        cases.add(op, compute, f64(-1.0, 0.0, 1.0), torch.zeros((), dtype=torch.float64))

    cases.add("pow_tensor", torch.pow, f64(0.5, 1.0, 2.0, 3.0), f64(-1.0, 0.0, 0.5, 2.0))
    cases.add("pow_tensor", torch.pow, positives(33), randoms(33))
    cases.add("pow_tensor", torch.pow, positives(3, 4), randoms(4))

    cases.add(
        "where", torch.where, torch.tensor([True, False, True]), f64(1.0, 2.0, 3.0), f64(-1.0, -2.0, -3.0)
    )
    for cond, a, b in (
        ((33,), (33,), (33,)),
        ((100, 3), (100, 3), (3,)),
        ((3, 1), (1, 4), ()),
        ((4,), (3, 4), (3, 1)),
    ):
        cases.add("where", torch.where, randoms(*cond) > 0, randoms(*a), randoms(*b))


def comparisons(cases):
    for op in ("lt", "le", "gt", "ge", "eq", "ne"):
        compute = getattr(torch, op)
        cases.add(op, compute, f64(-1.0, 0.0, 1.0, 2.0, -0.0), f64(0.0, 0.0, 0.0, 2.0, 0.0))
        cases.add(op, compute, randoms(33, grid=2), randoms(33, grid=2))
        cases.add(op, compute, randoms(3, 1, grid=2), randoms(1, 4, grid=2))
        cases.add(op, compute, randoms(3, 4, grid=2), randoms(grid=2))


def matmuls(cases):
    # (batch of a, batch of b, m, k, n)
    plain = [
        ((), (), 2, 3, 4),
        ((), (), 1, 1, 1),
        ((), (), 1, 33, 1),
        ((), (), 33, 7, 17),
        ((), (), 100, 5, 3),
    ]
    batched = [
        ((3,), (3,), 2, 5, 4),
        ((2, 3), (2, 3), 4, 3, 2),
        ((2, 1), (1, 3), 4, 3, 5),
        ((2, 3), (), 4, 3, 2),
        ((), (3,), 2, 4, 3),
    ]
    for batch_a, batch_b, m, k, n in plain + batched:
        for ta, tb in ((False, False), (True, False), (False, True), (True, True)):
            if (ta or tb) and m * k * n == 1:
                continue
            a = randoms(*batch_a, *((k, m) if ta else (m, k)), grid=64)
            b = randoms(*batch_b, *((n, k) if tb else (k, n)), grid=64)
            product = lambda a, b: torch.matmul(a.mT if ta else a, b.mT if tb else b)
            cases.add("matmul", product, a, b, ta=ta, tb=tb)


def reductions(cases):
    shapes = [
        ((1,), [0]),
        ((33,), [0]),
        ((100, 3), [0]),
        ((100, 3), [1]),
        ((2, 3, 4), [1]),
        ((2, 3, 4), [0, 2]),
        ((2, 3, 4), [0, 1, 2]),
        ((2, 1, 33), [2]),
        ((5, 3, 2, 4), [1, 2]),
    ]
    folds = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}
    for op, fold in folds.items():
        for shape, axes in shapes:
            for keepdims in (False, True):
                cases.add(
                    op,
                    lambda x: fold(x, dim=axes, keepdim=keepdims),
                    randoms(*shape),
                    axes=axes,
                    keepdims=keepdims,
                )
    # Ties in max: torch.amax splits the gradient evenly among them.
    for axes in ([1], [0], [0, 1]):
        tied = torch.tensor(
            [[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [-1.0, 3.0, -1.0, -2.0]], dtype=torch.float64
        )
        cases.add("max", lambda x: torch.amax(x, dim=axes), tied, axes=axes, keepdims=False)

    for shape, axes in shapes:
        if len(axes) == 1:
            for keepdims in (False, True):
                cases.add(
                    "argmax",
                    lambda x: first_max(x, axes[0], keepdims),
                    randoms(*shape),
                    axes=axes,
                    keepdims=keepdims,
                )
    cases.add(
        "argmax",
        lambda x: first_max(x, 1, False),
        f64(1, 3, 3, 0, 2, 2, 2, 2).reshape(2, 4),
        axes=[1],
        keepdims=False,
    )
    # All axes: the index into the flattened tensor.
    cases.add(
        "argmax", lambda x: first_max(x.flatten(), 0, False), randoms(2, 3, 4), axes=[0, 1, 2], keepdims=False
    )


def first_max(x, axis, keepdims):
    """argmax that is the first of ties by definition, not by accident of the kernel."""
    return torch.as_tensor(np.argmax(x.detach().numpy(), axis=axis, keepdims=keepdims))


def movements(cases):
    for source, shape in (
        ((4,), [3, 4]),
        ((3, 1), [3, 4]),
        ((), [2, 3]),
        ((1,), [33]),
        ((2, 1, 3), [5, 2, 4, 3]),
        ((3, 4), [3, 4]),
    ):
        cases.add("broadcast_to", lambda x: x.broadcast_to(shape), randoms(*source), shape=shape)
    for source, shape in (
        ((2, 6), [3, 4]),
        ((2, 3, 4), [24]),
        ((33,), [3, 11]),
        ((1, 1), []),
        ((100, 3), [5, 20, 3]),
    ):
        cases.add("reshape", lambda x: x.reshape(shape), randoms(*source), shape=shape)
    for source, perm in (
        ((3, 4), [1, 0]),
        ((2, 3, 4), [2, 0, 1]),
        ((2, 3, 4), [0, 2, 1]),
        ((2, 3, 1, 5), [3, 1, 0, 2]),
        ((100, 3), [1, 0]),
        ((33,), [0]),
    ):
        cases.add("transpose", lambda x: x.permute(perm), randoms(*source), perm=perm)
    for source, axis, start, end in (
        ((33,), 0, 5, 20),
        ((33,), 0, 0, 33),
        ((100, 3), 0, 90, 100),
        ((100, 3), 1, 1, 2),
        ((2, 5, 3), 1, 1, 4),
        ((2, 5, 3), 2, 0, 2),
    ):
        cases.add(
            "slice",
            lambda x: x.narrow(axis, start, end - start),
            randoms(*source),
            axis=axis,
            start=start,
            end=end,
        )
    for sources, axis in (
        (((2,), (3,)), 0),
        (((1,), (33,), (2,)), 0),
        (((2, 3), (2, 1)), 1),
        (((2, 3), (4, 3), (1, 3)), 0),
        (((2, 1, 3), (2, 4, 3)), 1),
        (((2, 2, 1), (2, 2, 2), (2, 2, 3)), 2),
    ):
        cases.add("concat", lambda *xs: torch.cat(xs, dim=axis), *[randoms(*s) for s in sources], axis=axis)
    for table, rows in (
        ((5, 3), [4, 0, 0, 2]),
        ((5,), [1, 1, 1]),
        ((1, 4), [0]),
        ((100, 2), list(range(99, -1, -3))),
        ((4, 2, 3), [3, 1, 3]),
        ((6, 2), [[0, 5, 5], [2, 5, 0]]),
    ):
        cases.add("gather_rows", lambda t, i: t[i], randoms(*table), torch.tensor(rows))


def softmaxes(cases):
    large = torch.stack([f64(*LARGE), f64(*LARGE).flip(0), f64(100, 100, 100, 50, 50, 0, 0, -50, -100)])
    for op, compute in {"softmax": F.softmax, "log_softmax": F.log_softmax}.items():
        for shape, axis in (
            ((1,), 0),
            ((33,), 0),
            ((4, 1), 1),
            ((3, 5), 1),
            ((3, 5), 0),
            ((2, 5, 3), 1),
            ((2, 5, 3), 2),
            ((100, 10), 1),
            ((2, 3, 4, 2), 2),
        ):
            cases.add(op, lambda x: compute(x, dim=axis), randoms(*shape, scale=2.0), axis=axis)
        for axis in (1, 0):
            cases.add(op, lambda x: compute(x, dim=axis), large, axis=axis)
