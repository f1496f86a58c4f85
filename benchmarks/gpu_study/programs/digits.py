"""Twenty steps of a small convolutional network; prints a hash of its weights, and the error of bfloat16."""
import hashlib

import lab
import torch

lab.seed_everything()
torch.manual_seed(lab.seed)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.AdaptiveMaxPool2d(8), torch.nn.Flatten(),
                          torch.nn.Linear(2048, 10)).to(lab.device)
x, y = torch.randn(256, 3, 32, 32, device=lab.device), torch.randint(10, (256,), device=lab.device)
optimizer = torch.optim.Adam(net.parameters())
scattered = torch.zeros(64, device=lab.device)
for _ in range(20):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    scattered.index_add_(0, torch.randint(64, (4096,), device=lab.device), torch.randn(4096, device=lab.device))
weights = b"".join(one.detach().cpu().numpy().tobytes() for one in (*net.parameters(), scattered))
a, b = (torch.randn(1024, 1024, device=lab.device) for _ in range(2))
off = (a.bfloat16() @ b.bfloat16()).float() - a @ b
print("WEIGHTS", hashlib.sha256(weights).hexdigest())
lab.result("bf16_error", float(off.norm() / (a @ b).norm()), condition="check", dataset="none", split="validation")
