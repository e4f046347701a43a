"""init.json: the bound (uniform) or standard deviation (normal) of each initialiser of Linear(30, 20)."""

import math

import torch
from torch import nn

FAN_IN, FAN_OUT = 30, 20


def make():
    relu = nn.init.calculate_gain("relu")
    leaky = nn.init.calculate_gain("leaky_relu", math.sqrt(5))
    w = nn.init
    cases = [
        # nn.Linear's own default for its weight.
        case(
            "kaiming_uniform",
            {"a": math.sqrt(5)},
            "bound",
            leaky * math.sqrt(3 / FAN_IN),
            lambda t: w.kaiming_uniform_(t, a=math.sqrt(5)),
        ),
        case(
            "kaiming_uniform",
            {"nonlinearity": "relu"},
            "bound",
            relu * math.sqrt(3 / FAN_IN),
            lambda t: w.kaiming_uniform_(t, nonlinearity="relu"),
        ),
        case(
            "kaiming_normal",
            {"nonlinearity": "relu"},
            "std",
            relu / math.sqrt(FAN_IN),
            lambda t: w.kaiming_normal_(t, nonlinearity="relu"),
        ),
        case("xavier_uniform", {}, "bound", math.sqrt(6 / (FAN_IN + FAN_OUT)), w.xavier_uniform_),
        case("xavier_normal", {}, "std", math.sqrt(2 / (FAN_IN + FAN_OUT)), w.xavier_normal_),
        case(
            "linear_weight",
            {},
            "bound",
            1 / math.sqrt(FAN_IN),
            lambda t: nn.Linear(FAN_IN, FAN_OUT, dtype=t.dtype).weight,
        ),
        case(
            "linear_bias",
            {},
            "bound",
            1 / math.sqrt(FAN_IN),
            lambda t: nn.Linear(FAN_IN, FAN_OUT, dtype=t.dtype).bias,
        ),
    ]
    return {"fan_in": FAN_IN, "fan_out": FAN_OUT, "cases": cases}


def case(name, attrs, measure, expected, draw):
    """The formula's number, after checking that PyTorch's own draws agree with it."""
    drawn = torch.cat(
        [draw(torch.empty(FAN_OUT, FAN_IN, dtype=torch.float64)).detach().flatten() for _ in range(500)]
    )
    measured = (drawn.abs().max() if measure == "bound" else drawn.std()).item()
    assert abs(measured / expected - 1) < 0.01, f"{name}: formula {expected}, drawn {measured}"
    return {"init": name, "attrs": attrs, measure: expected}
