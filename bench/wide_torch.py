"""PyTorch on the wide MLP of `citius bench --workloads wide`: 4096-4096-4096-4096, batch 8192, cross-entropy, fused Adam.

  python wide_torch.py [--precision bf16|tf32|fp32] [--seconds 5]

Compiled forward and backward under autocast; prints one JSON line and the card's own rate of a large product.
"""
import argparse, json, statistics, time
import torch

p = argparse.ArgumentParser()
p.add_argument("--precision", default="bf16")
p.add_argument("--seconds", type=float, default=5)
a = p.parse_args()
torch.backends.cuda.matmul.allow_tf32 = a.precision == "tf32"
n, batch, rows = 4096, 8192, 16384
x = torch.rand(rows, n, device="cuda")
y = torch.randint(0, n, (rows,), device="cuda")
layers = [m for i in range(3) for m in (torch.nn.Linear(n, n), torch.nn.ReLU())][:-1]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

@torch.compile(mode="max-autotune-no-cudagraphs")
def loss_of(xb, yb):
    with torch.autocast("cuda", torch.bfloat16, enabled=a.precision == "bf16"):
        return torch.nn.functional.cross_entropy(model(xb), yb)

def step(i):
    rows_ = torch.randperm(rows, device="cuda")[:batch] if i % 2 == 0 else step.left
    step.left = rows_
    loss = loss_of(x[rows_], y[rows_])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss

for i in range(10):
    loss = step(i)
torch.cuda.synchronize()
times, start = [], time.time()
while time.time() - start < a.seconds:
    t = time.perf_counter()
    for i in range(10):
        loss = step(i)
    torch.cuda.synchronize()
    times.append((time.perf_counter() - t) / 10)
s = statistics.median(times)
flops = 2 * batch * n * n * 8  # three layers forward, three gradients of weights, two of activations
big = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16 if a.precision == "bf16" else torch.float32)
for _ in range(3):
    big @ big
torch.cuda.synchronize()
t = time.perf_counter()
for _ in range(20):
    big @ big
torch.cuda.synchronize()
rate = 20 * 2 * 8192**3 / (time.perf_counter() - t) / 1e12
print(json.dumps({"peer": f"torch {torch.__version__}", "workload": "wide", "variant": f"compile {a.precision}", "device": "cuda",
                  "ms_per_step": round(s * 1e3, 3), "tflops": round(flops / s / 1e12, 1), "product_tflops": round(rate, 1),
                  "last_loss": round(loss.item(), 4)}))
