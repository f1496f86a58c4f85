"""A script of a few seconds; runs with `lab` and, for comparison, without."""
import time

began = time.perf_counter()
import torch

imported = time.perf_counter()
device = "cuda" if torch.cuda.is_available() else "cpu"
x = torch.ones(1024, 1024, device=device)
first = time.perf_counter()
for _ in range(200 if device == "cuda" else 20):
    x = torch.nn.functional.normalize(x @ x)
print("TIMES", imported - began, first - imported, time.perf_counter() - first, float(x.sum()))
try:
    import lab
except ImportError:
    pass
else:
    lab.result("done", 1.0, condition="check", dataset="none", split="validation")
