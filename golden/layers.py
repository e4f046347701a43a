"""layers.json: each layer's output, gradients of its inputs and parameters, and buffers after the step, in f64.

Parameters and buffers are named `layer.` and PyTorch's own name. Where dropout is a setting, it is 0.
"""

import math

import torch
from torch import nn

from common import pack, positives, randoms

EPS_OF_F32 = torch.finfo(torch.float32).eps


def make():
    cases = []

    def add(layer, module, inputs, mode="train", call=None, **attrs):
        """One case; `call(module, *inputs)` where the module is not just called. Floats get gradients, masks do not."""
        module = module.double().train(mode == "train")
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(randoms(*parameter.shape, scale=0.5))
            for name, buffer in module.named_buffers():
                if name.endswith("running_mean"):
                    buffer.copy_(randoms(*buffer.shape))
                if name.endswith("running_var"):
                    buffer.copy_(positives(*buffer.shape))
        before = named(module.state_dict())
        inputs = {
            name: x.clone().requires_grad_() if x.is_floating_point() and name not in ("padding", "added") else x
            for name, x in inputs.items()
        }
        y = (call or (lambda m, *x: m(*x)))(module, *inputs.values())
        cotangent = randoms(*y.shape)
        wanted = {name: x for name, x in inputs.items() if x.requires_grad}
        wanted |= {f"layer.{name}": p for name, p in module.named_parameters()}
        grads = torch.autograd.grad(y, list(wanted.values()), cotangent) if wanted else []
        changed = {name: t for name, t in named(module.state_dict()).items() if t != before[name]}
        cases.append(
            {
                "layer": layer,
                "attrs": attrs,
                "mode": mode,
                "inputs": {name: pack(x) for name, x in inputs.items()},
                "state": before,
                "output": pack(y),
                "cotangent": pack(cotangent),
                "grads": {name: pack(g) for name, g in zip(wanted, grads)},
                "after": changed,
            }
        )

    norms(add)
    batch_norms(add)
    shapes(add)
    embeddings(add)
    positions(add)
    attention(add)
    transformers(add)
    convolutions(add)
    pools(add)
    return {"dtype": "f64", "cases": cases}


def named(state):
    return {f"layer.{name}": pack(tensor) for name, tensor in state.items()}


def norms(add):
    x = randoms(3, 5, 6)
    far = randoms(2, 7) + 16.0  # a mean far from 0, where a variance in one pass is lost
    add("LayerNorm", nn.LayerNorm(6), {"x": x}, dims=[6])
    add("LayerNorm", nn.LayerNorm([5, 6], eps=1e-3), {"x": x}, dims=[5, 6], eps=1e-3)
    add("LayerNorm", nn.LayerNorm(33, bias=False), {"x": randoms(2, 33)}, dims=[33], bias=False)
    add("LayerNorm", nn.LayerNorm(7, elementwise_affine=False), {"x": far}, dims=[7], affine=False)
    add("LayerNorm", nn.LayerNorm(1), {"x": randoms(4, 1)}, dims=[1])
    add("RmsNorm", nn.RMSNorm(6, eps=EPS_OF_F32), {"x": x}, dims=[6])
    add("RmsNorm", nn.RMSNorm([5, 6], eps=1e-3), {"x": x}, dims=[5, 6], eps=1e-3)
    plain = nn.RMSNorm(33, eps=1e-5, elementwise_affine=False)
    add("RmsNorm", plain, {"x": randoms(2, 33)}, dims=[33], eps=1e-5, affine=False)
    picture = randoms(2, 6, 2, 3)
    add("GroupNorm", nn.GroupNorm(3, 6), {"x": picture}, groups=3, channels=6)
    add("GroupNorm", nn.GroupNorm(1, 6, eps=1e-3), {"x": randoms(2, 6, 3)}, groups=1, channels=6, eps=1e-3)
    add("GroupNorm", nn.GroupNorm(2, 6, affine=False), {"x": randoms(3, 6)}, groups=2, channels=6, affine=False)
    add("InstanceNorm", nn.InstanceNorm2d(6), {"x": picture}, channels=6)
    add("InstanceNorm", nn.InstanceNorm1d(4, affine=True), {"x": randoms(2, 4, 5)}, channels=4, affine=True)


def batch_norms(add):
    for mode in ("train", "eval"):
        add("BatchNorm1d", nn.BatchNorm1d(4), {"x": randoms(5, 4)}, mode, channels=4)
        settings = {"eps": 1e-3, "momentum": 0.3}
        add("BatchNorm1d", nn.BatchNorm1d(4, **settings), {"x": randoms(3, 4, 5)}, mode, channels=4, **settings)
        add("BatchNorm2d", nn.BatchNorm2d(3), {"x": randoms(2, 3, 4, 3)}, mode, channels=3)
        add("BatchNorm2d", nn.BatchNorm2d(2, affine=False), {"x": randoms(2, 2, 2, 2)}, mode, channels=2, affine=False)
    cumulative = nn.BatchNorm1d(4, momentum=None)
    cumulative.num_batches_tracked.fill_(3)
    add("BatchNorm1d", cumulative, {"x": randoms(5, 4)}, channels=4, momentum=None)


class Residual(nn.Module):
    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


def shapes(add):
    picture = randoms(2, 3, 2, 4)
    add("Flatten", nn.Flatten(), {"x": picture})
    add("Identity", nn.Identity(), {"x": randoms(3, 4)})
    add("Dropout2d", nn.Dropout2d(0.5), {"x": picture}, "eval", p=0.5)
    for factor in (1, 2, 3):
        add("Upsample", nn.Upsample(scale_factor=factor), {"x": picture}, factor=factor, how="nearest")
        for corners in (False, True):
            bilinear = nn.Upsample(scale_factor=factor, mode="bilinear", align_corners=corners)
            add("Upsample", bilinear, {"x": picture}, factor=factor, how="bilinear", align_corners=corners)
    one = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    add("Upsample", one, {"x": randoms(1, 2, 1, 1)}, factor=2, how="bilinear", align_corners=True)
    add("Residual", Residual(nn.Linear(4, 4), nn.Identity()), {"x": randoms(3, 4)}, sizes=[4, 4])
    add("Residual", Residual(nn.Linear(4, 2), nn.Linear(4, 2)), {"x": randoms(3, 4)}, sizes=[4, 2])


def embeddings(add):
    for shape in ((), (6,), (3, 4), (2, 2, 3)):
        indices = torch.randint(7, shape)
        add("Embedding", nn.Embedding(7, 5), {"indices": indices}, rows=7, width=5)
        add("Embedding", nn.Embedding(7, 5, padding_idx=2), {"indices": indices}, rows=7, width=5, padding=2)
    every = torch.tensor([[0, 6, 2], [2, 2, 0]])
    add("Embedding", nn.Embedding(7, 1, padding_idx=2), {"indices": every}, rows=7, width=1, padding=2)


class LearnedPositions(nn.Module):
    def __init__(self, longest, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(longest, width))

    def forward(self, x):
        return x + self.weight[: x.shape[-2]]


class SinusoidalPositions(nn.Module):
    """Attention Is All You Need, 3.5."""

    def forward(self, x):
        tokens, width = x.shape[-2:]
        encoding = torch.zeros(tokens, width, dtype=torch.float64)
        for t in range(tokens):
            for column in range(width):
                angle = t / 10000 ** (column // 2 * 2 / width)
                encoding[t, column] = math.cos(angle) if column % 2 else math.sin(angle)
        return x + encoding


class RotaryPositions(nn.Module):
    """RoFormer, with the pairs that are turned together half a width apart."""

    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, x):
        tokens, width = x.shape[-2:]
        rates = self.base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        turn = torch.polar(torch.ones(tokens, width // 2).double(), torch.arange(tokens).double()[:, None] * rates)
        turned = torch.complex(*x.chunk(2, dim=-1)) * turn
        return torch.cat([turned.real, turned.imag], dim=-1)


def positions(add):
    add("LearnedPositions", LearnedPositions(5, 4), {"x": randoms(2, 3, 4)}, longest=5, width=4)
    add("LearnedPositions", LearnedPositions(3, 4), {"x": randoms(2, 3, 4)}, longest=3, width=4)
    add("SinusoidalPositions", SinusoidalPositions(), {"x": randoms(2, 5, 6)}, width=6)
    add("SinusoidalPositions", SinusoidalPositions(), {"x": randoms(3, 5)}, width=5)
    add("RotaryPositions", RotaryPositions(10000.0), {"x": randoms(2, 5, 6)}, width=6, base=10000.0)
    add("RotaryPositions", RotaryPositions(100.0), {"x": randoms(1, 2, 3, 4)}, width=4, base=100.0)


def hidden_after(queries, keys):
    return torch.ones(queries, keys, dtype=torch.bool).triu(1)


def attention(add):
    width, heads = 6, 2

    def attend(causal=False):
        def call(m, query, key, value, *masks):
            # a float is added, whole numbers tell of padding; for PyTorch a causal mask is of the added kind
            padding = next((m.bool() for m in masks if not m.is_floating_point()), None)
            added = next((m for m in masks if m.is_floating_point()), None)
            added = hidden_after(query.shape[1], key.shape[1]) if causal else added
            return m(query, key, value, key_padding_mask=padding, attn_mask=added, need_weights=False)[0]

        return call

    def new(**settings):
        return nn.MultiheadAttention(width, heads, batch_first=True, **settings)

    def given(batch=2, queries=3, keys=4, **masks):
        k = randoms(batch, keys, width)
        return {"query": randoms(batch, queries, width), "key": k, "value": randoms(batch, keys, width)} | masks

    sizes = {"width": width, "heads": heads}
    add("MultiheadAttention", new(), given(), call=attend(), **sizes)
    add("MultiheadAttention", new(bias=False), given(), call=attend(), bias=False, **sizes)
    add("MultiheadAttention", new(), given(1, 1, 1), call=attend(), **sizes)
    add("MultiheadAttention", new(), given(2, 4, 4), call=attend(causal=True), causal=True, **sizes)
    add("MultiheadAttention", new(), given(2, 2, 3), call=attend(causal=True), causal=True, **sizes)
    padding = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 0]])
    add("MultiheadAttention", new(), given(padding=padding), call=attend(), **sizes)
    # the whole second row is padding: zeros go into out_proj
    everything = torch.tensor([[0, 0, 1, 0], [1, 1, 1, 1]])
    add("MultiheadAttention", new(), given(padding=everything), call=attend(), **sizes)
    add("MultiheadAttention", new(), given(2, 4, 4, padding=padding), call=attend(causal=True), causal=True, **sizes)
    add("MultiheadAttention", new(), given(added=randoms(3, 4)), call=attend(), **sizes)
    add("MultiheadAttention", new(), given(added=randoms(4, 3, 4)), call=attend(), **sizes)

    def itself(m, x):
        return m(x, x, x, need_weights=False)[0]

    narrow = nn.MultiheadAttention(4, 4, batch_first=True)
    add("MultiheadAttention", narrow, {"x": randoms(2, 3, 4)}, call=itself, width=4, heads=4)
    # rows longer than a vector
    long = nn.MultiheadAttention(2, 1, batch_first=True)
    add("MultiheadAttention", long, {"x": randoms(1, 35, 2)}, call=itself, width=2, heads=1)


def convolutions(add):
    def conv2d(inputs, outputs, size, x, **more):
        attrs = {key: list(value) if isinstance(value, tuple) else value for key, value in more.items()}
        module = nn.Conv2d(inputs, outputs, size, **more)
        add("Conv2d", module, {"x": x}, channels=[inputs, outputs], kernel=list(module.kernel_size), **attrs)

    conv2d(1, 1, 1, randoms(1, 1, 1, 1))
    conv2d(3, 5, 3, randoms(2, 3, 5, 6))
    conv2d(2, 17, (2, 3), randoms(2, 2, 4, 5), bias=False)
    conv2d(3, 4, 3, randoms(2, 3, 5, 5), padding=1)
    conv2d(2, 3, 3, randoms(1, 2, 6, 7), stride=2, padding=1)
    conv2d(2, 3, (3, 2), randoms(1, 2, 7, 6), stride=(2, 3), padding=(2, 0), dilation=(1, 2))
    conv2d(4, 6, 3, randoms(2, 4, 4, 4), groups=2, padding=1)
    conv2d(4, 4, 3, randoms(2, 4, 5, 4), groups=4, padding=1)
    conv2d(2, 2, 1, randoms(1, 2, 4, 4), stride=2)
    conv2d(1, 3, 5, randoms(3, 1, 5, 5))

    def conv1d(inputs, outputs, size, x, **more):
        add("Conv1d", nn.Conv1d(inputs, outputs, size, **more), {"x": x}, channels=[inputs, outputs], size=size, **more)

    conv1d(3, 4, 3, randoms(2, 3, 7))
    conv1d(2, 2, 2, randoms(1, 2, 6), stride=2, padding=1, bias=False)
    conv1d(4, 4, 3, randoms(2, 4, 9), dilation=2, groups=2)

    def transposed(inputs, outputs, size, x, **more):
        module = nn.ConvTranspose2d(inputs, outputs, size, **more)
        add("ConvTranspose2d", module, {"x": x}, channels=[inputs, outputs], kernel=list(module.kernel_size), **more)

    transposed(3, 2, 3, randoms(2, 3, 4, 3))
    transposed(2, 3, 3, randoms(1, 2, 3, 3), stride=2, padding=1, output_padding=1)
    transposed(2, 2, 2, randoms(2, 2, 3, 2), stride=2, bias=False)
    transposed(4, 2, 3, randoms(1, 4, 3, 3), groups=2, padding=1, dilation=2)


def pools(add):
    x = randoms(2, 3, 6, 5)
    add("MaxPool2d", nn.MaxPool2d(2), {"x": x}, size=2)
    add("MaxPool2d", nn.MaxPool2d(3, 2, 1), {"x": x}, size=3, stride=2, padding=1)
    add("MaxPool2d", nn.MaxPool2d(3, 1), {"x": randoms(1, 17, 4, 4)}, size=3, stride=1)
    # equal elements: the first gets the gradient
    add("MaxPool2d", nn.MaxPool2d(2), {"x": torch.ones(1, 2, 4, 4, dtype=torch.float64)}, size=2)
    add("AvgPool2d", nn.AvgPool2d(2), {"x": x}, size=2)
    add("AvgPool2d", nn.AvgPool2d(3, 2, 1), {"x": x}, size=3, stride=2, padding=1)
    add("GlobalPool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), {"x": x})


def transformers(add):
    sizes = {"width": 4, "heads": 2, "feedforward": 6}
    settings = {"dim_feedforward": 6, "dropout": 0.0, "batch_first": True}

    def causal(m, x):
        return m(x, hidden_after(x.shape[1], x.shape[1]))

    def padded(m, x, padding):
        return m(x, src_key_padding_mask=padding.bool())

    def encoder(**more):
        return nn.TransformerEncoderLayer(4, 2, **settings, **more)

    x, padding = randoms(2, 3, 4), torch.tensor([[0, 0, 1], [0, 0, 0]])
    add("TransformerEncoderLayer", encoder(), {"x": x}, **sizes)
    first = {"norm_first": True, "activation": "gelu"}
    add("TransformerEncoderLayer", encoder(**first), {"x": x}, **first, **sizes)
    hidden = {"norm_first": True, "causal": True}
    add("TransformerEncoderLayer", encoder(norm_first=True), {"x": x}, call=causal, **hidden, **sizes)
    add("TransformerEncoderLayer", encoder(), {"x": x, "padding": padding}, call=padded, **sizes)

    def decoder(**more):
        return nn.TransformerDecoderLayer(4, 2, **settings, **more)

    def decode(m, x, memory):
        return m(x, memory, tgt_mask=hidden_after(x.shape[1], x.shape[1]))

    both = {"x": x, "memory": randoms(2, 5, 4)}
    add("TransformerDecoderLayer", decoder(), both, call=decode, **sizes)
    add("TransformerDecoderLayer", decoder(**first), both, call=decode, **first, **sizes)

    stack = nn.TransformerEncoder(encoder(), 2, enable_nested_tensor=False)
    add("TransformerEncoder", stack, {"x": x}, count=2, **sizes)
    stack = nn.TransformerEncoder(encoder(norm_first=True), 1, nn.LayerNorm(4), enable_nested_tensor=False)
    add("TransformerEncoder", stack, {"x": x}, count=1, norm=True, norm_first=True, **sizes)
    stack = nn.TransformerDecoder(decoder(), 2, nn.LayerNorm(4))
    add("TransformerDecoder", stack, both, call=decode, count=2, norm=True, **sizes)
