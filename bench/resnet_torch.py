"""PyTorch on the ResNet-18 of `citius bench --workloads resnet`: pictures of 32x32, batch 512, cross-entropy, fused Adam.

  python resnet_torch.py [--precision bf16|tf32] [--seconds 10] [--eager] [--mode default|reduce-overhead]

torchvision's network with a stem of 3x3, channels last, compiled under autocast, rows drawn anew in every epoch; prints one JSON line.
"""
import argparse, json, statistics, time
import torch, torchvision

p = argparse.ArgumentParser()
p.add_argument("--precision", default="bf16")
p.add_argument("--seconds", type=float, default=10)
p.add_argument("--eager", action="store_true")
p.add_argument("--mode", default="default", help="of torch.compile; reduce-overhead records graphs, so that a slow host does not matter")
p.add_argument("--lr", type=float, default=1e-7, help="so small that random rows are not learned by heart: a card that multiplies zeros is faster")
a = p.parse_args()
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True
rows, batch = 5120, 512
x = torch.randn(rows, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
y = torch.randint(0, 10, (rows,), device="cuda")
model = torchvision.models.resnet18(num_classes=10)
model.conv1, model.maxpool = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False), torch.nn.Identity()
model = model.cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.Adam(model.parameters(), lr=a.lr, fused=True)


def loss_of(xb, yb):
    with torch.autocast("cuda", torch.bfloat16, enabled=a.precision == "bf16"):
        return torch.nn.functional.cross_entropy(model(xb), yb)


if not a.eager:
    loss_of = torch.compile(loss_of, mode=a.mode)


def epoch():
    for drawn in torch.randperm(rows, device="cuda").split(batch):
        torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(x[drawn], y[drawn])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return loss


for _ in range(3):
    loss = epoch()
torch.cuda.synchronize()
times, start = [], time.time()
while time.time() - start < a.seconds:
    t = time.perf_counter()
    loss = epoch()
    torch.cuda.synchronize()
    times.append((time.perf_counter() - t) / (rows // batch))
print(json.dumps({"peer": f"torch {torch.__version__}", "workload": "resnet", "variant": ("eager " if a.eager else "compile " if a.mode == "default" else f"compile {a.mode} ") + a.precision,
                  "device": "cuda", "ms_per_step": round(statistics.median(times) * 1e3, 3), "first_ms": [round(s * 1e3, 3) for s in times[:5]],
                  "last_loss": round(loss.item(), 4)}))
