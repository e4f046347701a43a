"""Weights as PyTorch saves them, with an input and PyTorch's output: `X.safetensors` and `X.io.safetensors`.

`python golden/pretrained.py` writes small ones into golden/pretrained/, which tests read;
`python golden/pretrained.py --full DIR` writes torchvision's ResNet-18 and an nn.TransformerEncoder as people use them.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ beside the references

import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import resnet18
from torchvision.models.resnet import BasicBlock, ResNet

HERE = Path(__file__).resolve().parent


def narrow_resnet(width, classes):
    """torchvision's ResNet-18, its stem included, with `width` channels in place of 64."""

    class Narrow(ResNet):
        def _make_layer(self, block, planes, blocks, stride=1, dilate=False):
            self.inplanes = width if planes == 64 else self.inplanes
            return super()._make_layer(block, planes * width // 64, blocks, stride, dilate)

    model = Narrow(BasicBlock, [2, 2, 2, 2], num_classes=classes)
    model.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
    model.bn1, model.fc = nn.BatchNorm2d(width), nn.Linear(8 * width, classes)
    return model


def encoder(layers, width, heads, feedforward):
    """PyTorch's defaults: tokens first, `[tokens,batch,width]`, norms last, and no norm at the end."""
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, feedforward), layers)


def as_if_trained(model):
    """Moments, scales and biases that are not where they start."""
    for name, tensor in model.state_dict().items():
        if name.endswith("num_batches_tracked"):
            tensor.fill_(100)
        elif name.endswith("running_var") or (tensor.dim() == 1 and name.endswith("weight")):
            tensor.uniform_(0.5, 1.5)
        elif tensor.dim() == 1:
            tensor.normal_(0, 0.1)
    return model.eval()


@torch.no_grad()
def write(folder, name, model, x, **sizes):
    model = as_if_trained(model)
    save_file(model.state_dict(), folder / f"{name}.safetensors")
    sizes = {key: torch.tensor(value) for key, value in sizes.items()}
    save_file({"x": x, "y": model(x).contiguous(), **sizes}, folder / f"{name}.io.safetensors")
    for file in (f"{name}.safetensors", f"{name}.io.safetensors"):
        print(f"{folder / file}: {(folder / file).stat().st_size:,} bytes")


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    match sys.argv[1:]:
        case []:
            folder = HERE / "pretrained"
            folder.mkdir(exist_ok=True)
            write(folder, "resnet18", narrow_resnet(4, 5), torch.randn(2, 3, 48, 40))
            write(folder, "encoder", encoder(2, 16, 2, 24), torch.randn(7, 3, 16), heads=2)
        case ["--full", folder]:
            folder = Path(folder)
            folder.mkdir(parents=True, exist_ok=True)
            write(folder, "resnet18", resnet18(), torch.randn(2, 3, 224, 224))
            write(folder, "encoder", encoder(6, 512, 8, 2048), torch.randn(32, 2, 512), heads=8)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
