"""optimizers.json: eight updates of each optimiser, gradient clipping, accumulation, and loss scaling, in f64."""

import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import torch.optim._muon as torch_muon

from common import pack, randoms, settings, values

STEPS, SIZE = 8, 7


class Lamb(torch.optim.Optimizer):
    """You et al. 2019, algorithm 2, with bias correction."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, foreach=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            (first, second), decay = group["betas"], group["weight_decay"]
            for p in group["params"]:
                kept = self.state[p]
                t = kept["t"] = kept.get("t", 0) + 1
                m = kept["m"] = first * kept.get("m", torch.zeros_like(p)) + (1 - first) * p.grad
                v = kept["v"] = second * kept.get("v", torch.zeros_like(p)) + (1 - second) * p.grad**2
                r = m / (1 - first**t) / ((v / (1 - second**t)).sqrt() + group["eps"]) + decay * p
                trust = p.norm() / r.norm() if p.norm() > 0 and r.norm() > 0 else 1.0
                p -= group["lr"] * trust * r


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, foreach=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                m = self.state[p].get("m", torch.zeros_like(p))
                c = first * m + (1 - first) * p.grad
                p -= group["lr"] * (c.sign() + group["weight_decay"] * p)
                self.state[p]["m"] = second * m + (1 - second) * p.grad


# Name, class, arguments that differ from PyTorch's defaults.
SGD, RMSPROP, ADAM, ADAMW = torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adam, torch.optim.AdamW
OPTIMIZERS = [
    ("sgd", SGD, {"lr": 0.1}),
    ("sgd", SGD, {"lr": 0.1, "momentum": 0.9}),
    ("sgd", SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1}),
    ("sgd", SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("sgd", SGD, {"lr": 0.1, "weight_decay": 0.01}),
    ("sgd", SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("rmsprop", RMSPROP, {}),
    ("rmsprop", RMSPROP, {"alpha": 0.9}),
    ("rmsprop", RMSPROP, {"momentum": 0.9}),
    ("rmsprop", RMSPROP, {"centered": True}),
    ("rmsprop", RMSPROP, {"weight_decay": 0.01}),
    ("adam", ADAM, {}),
    ("adam", ADAM, {"weight_decay": 0.01}),
    ("adam", ADAM, {"betas": (0.8, 0.99)}),
    ("adamw", ADAMW, {}),
    ("adamw", ADAMW, {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.1}),
    ("lamb", Lamb, {}),
    ("lamb", Lamb, {"lr": 0.1, "betas": (0.8, 0.99), "weight_decay": 0.0}),
    ("lion", Lion, {}),
    ("lion", Lion, {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1}),
]


def make():
    initial = randoms(SIZE)
    gradients = [randoms(SIZE) for _ in range(STEPS)]
    gradients[2][0] = 0.0  # one zero gradient, and one large
    gradients[5][1] = 40.0
    return {
        "dtype": "f64",
        "initial": values(initial),
        "gradients": [values(g) for g in gradients],
        "cases": [updates(*row, initial, gradients) for row in OPTIMIZERS],
        "clipping": clipping(),
        "accumulation": accumulation(),
        "scaling": scaling(initial, gradients),
        "muon": muon(),
    }


def updates(name, kind, given, initial, gradients):
    parameter = initial.clone().requires_grad_()
    optimizer = kind([parameter], foreach=False, **given)
    trail = []
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        trail.append(values(parameter))
    return {"optimizer": name, "attrs": settings(optimizer), "params": trail}


def orthogonal(x, coefficients, steps, eps):
    """PyTorch's iteration without its rounding to bf16."""
    a, b, c = coefficients
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    return x.T if tall else x


def muon():
    """Matrices `[out,in]`, wide, tall and square, by `torch.optim.Muon`."""
    torch_muon._zeropower_via_newtonschulz = orthogonal
    cases = []
    for shape, given, ours in (
        ((3, 5), {}, {}),
        ((5, 3), {}, {}),
        ((4, 4), {"nesterov": False, "weight_decay": 0.0}, {"nesterov": False, "weight_decay": 0.0}),
        ((5, 2), {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.9}, {"size": "match-rms-adamw", "momentum": 0.9}),
        ((1, 6), {"ns_steps": 3}, {"steps": 3}),
    ):
        initial, gradients = randoms(*shape), [randoms(*shape) for _ in range(STEPS)]
        parameter = initial.clone().requires_grad_()
        optimizer = torch.optim.Muon([parameter], lr=0.02, **given)
        trail = []
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
            trail.append(values(parameter))
        given = [values(g) for g in gradients]
        cases.append({"attrs": {"lr": 0.02} | ours, "initial": pack(initial), "gradients": given, "params": trail})
    return cases


def clipping():
    """Two tensors, clipped together: their common norm once above and once below the limit."""
    cases = []
    for kind, limit, scale in (
        ("norm", 1.0, 2.0),
        ("norm", 1.0, 0.1),
        ("value", 0.1, 1.0),
        ("value", 0.1, 0.02),
    ):
        before = [randoms(2, 3, scale=scale), randoms(4, scale=scale)]
        holders = [torch.zeros_like(g).requires_grad_() for g in before]
        for holder, gradient in zip(holders, before):
            holder.grad = gradient.clone()
        case = {"clip": kind, "limit": limit, "grads": [pack(g) for g in before]}
        if kind == "norm":
            case["total_norm"] = clip_grad_norm_(holders, limit).item()
        else:
            clip_grad_value_(holders, limit)
        cases.append(case | {"clipped": [pack(h.grad) for h in holders]})
    return cases


def accumulation():
    """Linear regression by SGD; each update adds the gradients of `mse / 3` over 3 micro-batches."""
    lr, micro, rows = 0.1, 3, 4
    weight, bias = randoms(5).requires_grad_(), randoms(1).requires_grad_()
    optimizer = torch.optim.SGD([weight, bias], lr=lr)
    record = {"lr": lr, "micro_batches": micro, "weight": pack(weight), "bias": pack(bias), "updates": []}
    for _ in range(3):
        optimizer.zero_grad()
        batches, parts = [], []
        for _ in range(micro):
            x, y = randoms(rows, 5), randoms(rows)
            loss = torch.nn.functional.mse_loss(x @ weight + bias, y)
            (loss / micro).backward()
            batches.append({"x": pack(x), "y": pack(y)})
            parts.append(loss.item())
        grads = {"weight": pack(weight.grad), "bias": pack(bias.grad)}
        optimizer.step()
        record["updates"].append(
            {
                "batches": batches,
                "losses": parts,  # of each micro-batch, not yet divided
                "grads": grads,
                "after": {"weight": pack(weight), "bias": pack(bias)},
            }
        )
    return record


def scaling(initial, gradients):
    """Adam behind a GradScaler; in some steps the first gradient is infinite. JSON has no word for that: `overflows` names them."""
    parameter = initial.clone().requires_grad_()
    optimizer = ADAM([parameter], lr=0.1)
    settings = {"initial": 8.0, "growth": 2.0, "backoff": 0.5, "interval": 2}
    names = {"initial": "init_scale", "growth": "growth_factor", "backoff": "backoff_factor", "interval": "growth_interval"}
    scaler = torch.amp.GradScaler("cpu", **{names[k]: v for k, v in settings.items()})
    overflows, scales, trail = [0, 4, 5], [], []
    for i, gradient in enumerate(gradients):
        scales.append(scaler.get_scale())
        seen = gradient.clone()
        if i in overflows:
            seen[0] = float("inf")
        scaler.scale(torch.ones(()))  # begins a step
        parameter.grad = seen * scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        trail.append(values(parameter))
    return {"lr": 0.1, "overflows": overflows, "scales": scales, "params": trail, **settings}
