"""recurrent.json: RNN, GRU and LSTM in f64, with every gradient; and forecasters through ten steps."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
import torch.nn.functional as F

from common import pack, randoms, values

STEPS = 10
CELLS = {
    "tanh": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="tanh", **options),
    "relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}


def make():
    cases = []
    for cell in CELLS:
        cases += [
            case(cell, steps=1, rows=1, inputs=1, hidden=1),
            case(cell, steps=4, rows=3, inputs=2, hidden=3, start=True),
            case(cell, steps=3, rows=18, inputs=2, hidden=3, batch_first=True),
            case(cell, steps=5, rows=2, inputs=3, hidden=2, num_layers=2, bias=False),
            case(cell, steps=3, rows=2, inputs=2, hidden=18, bidirectional=True),
            case(cell, steps=5, rows=4, inputs=2, hidden=3, lengths=[3, 5, 1, 2]),
            case(
                cell,
                steps=4,
                rows=3,
                inputs=2,
                hidden=3,
                num_layers=2,
                bidirectional=True,
                batch_first=True,
                start=True,
                lengths=[4, 1, 2],
            ),
        ]
    models = [forecaster("gru", 1, 1e-2), forecaster("lstm", 2, 1e-2)]
    return {"dtype": "f64", "cases": cases, "models": models}


def case(cell, steps, rows, inputs, hidden, start=False, lengths=None, **options):
    layer = CELLS[cell](inputs, hidden, **options).double()
    for p in layer.parameters():
        p.data = randoms(*p.shape, scale=min(0.6, 1.2 / hidden**0.5))
    batch_first, both = options.get("batch_first", False), options.get("bidirectional", False)
    x = randoms(*((rows, steps) if batch_first else (steps, rows)), inputs).requires_grad_()
    count = options.get("num_layers", 1) * (1 + both)
    state = lambda: randoms(count, rows, hidden).requires_grad_()
    starts = [state() for _ in range(2 if cell == "lstm" else 1)] if start else []

    given = None if not starts else tuple(starts) if cell == "lstm" else starts[0]
    fed = x
    if lengths:
        fed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=batch_first, enforce_sorted=False)
    output, last = layer(fed, given)
    if lengths:
        output, _ = pad_packed_sequence(output, batch_first=batch_first, total_length=steps)
    results = [output, *(last if cell == "lstm" else [last])]
    cotangents = [randoms(*r.shape) for r in results]
    sum((r * c).sum() for r, c in zip(results, cotangents)).backward()
    return {
        "cell": cell,
        "inputs": inputs,
        "hidden": hidden,
        "layers": options.get("num_layers", 1),
        "bias": options.get("bias", True),
        "bidirectional": both,
        "batch_first": batch_first,
        "x": pack(x),
        "starts": [pack(s) for s in starts],
        "lengths": lengths,
        "parameters": {name: pack(p) for name, p in layer.named_parameters()},
        "results": [pack(r) for r in results],
        "cotangents": [pack(c) for c in cotangents],
        "grad_x": pack(x.grad),
        "grad_starts": [pack(s.grad) for s in starts],
        "grads": {name: pack(p.grad) for name, p in layer.named_parameters()},
    }


class Forecaster(nn.Module):
    """The benchmark's: a recurrent layer, and a linear one on its output at the last step."""

    def __init__(self, cell, layers):
        super().__init__()
        self.rnn = CELLS[cell](10, 20, num_layers=layers, batch_first=True)
        self.fc = nn.Linear(20, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0][:, -1, :])


def forecaster(cell, layers, rate):
    model = Forecaster(cell, layers).double()
    for p in model.parameters():
        p.data = (p.data * 4096).round() / 4096
    initial = {name: pack(p) for name, p in model.named_parameters()}
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    batches, losses, grads = [], [], None
    for _ in range(STEPS):
        x = randoms(5, 9, 10, grid=16)
        y = x[:, -1, :1] - 0.5 * x[:, -2, 1:2]
        batches.append({"x": pack(x), "y": pack(y)})
        loss = F.mse_loss(model(x), y)
        adam.zero_grad()
        loss.backward()
        grads = grads or {name: pack(p.grad) for name, p in model.named_parameters()}
        adam.step()
        losses.append(loss.detach())
    return {
        "cell": cell,
        "layers": layers,
        "rate": rate,
        "initial": initial,
        "batches": batches,
        "grads": grads,
        "losses": values(torch.stack(losses)),
        "final": {name: pack(p) for name, p in model.named_parameters()},
    }
