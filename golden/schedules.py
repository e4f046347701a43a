"""schedules.json: the learning rate in use at each step, i.e. before that step's `scheduler.step()`."""

import math

import torch
from torch.optim import lr_scheduler as lrs

BASE, STEPS = 0.1, 60

SCHEDULES = [
    ("constant", lambda o: lrs.LambdaLR(o, lambda step: 1.0), {}),
    ("step", lrs.StepLR, {"step_size": 10, "gamma": 0.5}),
    ("exponential", lrs.ExponentialLR, {"gamma": 0.97}),
    ("cosine", lrs.CosineAnnealingLR, {"T_max": 50, "eta_min": 1e-5}),
    (
        "one_cycle",
        lambda o, **args: lrs.OneCycleLR(o, cycle_momentum=False, **args),
        {
            "max_lr": 0.1,
            "total_steps": 50,
            "pct_start": 0.3,
            "anneal_strategy": "cos",
            "div_factor": 25.0,
            "final_div_factor": 1e4,
        },
    ),
    ("warmup", lrs.LinearLR, {"start_factor": 0.1, "end_factor": 1.0, "total_iters": 10}),
]
PLATEAU = {"mode": "min", "factor": 0.5, "patience": 2, "threshold": 1e-4, "threshold_mode": "rel"}


def make():
    cases = [{"schedule": name, "args": args, "rates": rates(kind, args)} for name, kind, args in SCHEDULES]
    return {"base_lr": BASE, "cases": cases + [plateau()]}


def optimizer():
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=BASE)


def rates(kind, args):
    opt = optimizer()
    schedule = kind(opt, **args)
    seen = []
    # One-cycle ends where its steps end: asking PyTorch for more is an error.
    for step in range(args.get("total_steps", STEPS)):
        if step > 0:
            opt.step()
            schedule.step()
        seen.append(opt.param_groups[0]["lr"])
    return seen


def plateau():
    """`rates[i]` is in use when `metrics[i]` is measured; one more follows the last metric."""
    metrics = plateau_metrics()
    opt = optimizer()
    schedule = lrs.ReduceLROnPlateau(opt, **PLATEAU)
    seen = [BASE]
    for metric in metrics:
        schedule.step(metric)
        seen.append(opt.param_groups[0]["lr"])
    return {"schedule": "plateau", "args": PLATEAU, "metrics": metrics, "rates": seen}


def plateau_metrics():
    falling = [round(math.exp(-0.2 * i), 6) for i in range(10)]
    level = [falling[-1]] * 8  # no better
    too_little = [falling[-1] * (1 - 2e-5 * i) for i in range(1, 5)]  # better by less than the threshold
    again = [0.15, 0.14, 0.14, 0.141, 0.12, 0.13, 0.125, 0.11]
    worse = [0.2, 0.21, 0.19, 0.3, 0.25, 0.2, 0.11, 0.2, 0.105, 0.2]
    return falling + level + too_little + again + worse
