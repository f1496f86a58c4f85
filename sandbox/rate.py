"""How fast experiments run: timed once a run, by processes with what an experiment gets, as many at once as may run.

Not kept: that it holds for other shapes of work, or while others use the machine.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from statistics import fmean

from record.machine import Rate
from sandbox.environment import threads_of
from sandbox.gpus.device import Device
from sandbox.settings import SandboxSettings

LIMIT = 60.0
"""Seconds that the whole may take; then nothing is known."""

_TIMED = """
import json, sys, time

def timed(work, times):
    work()
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times
"""

_NUMPY = _TIMED + """
import numpy as np

rng = np.random.default_rng(0)
draw = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
a, x, y = draw(1024, 1024), draw(4096, 784), rng.integers(10, size=4096)
first, second = draw(784, 256) * 0.05, draw(256, 10) * 0.05

def epoch():
    for at in range(0, 4096, 128):
        rows, labels = x[at:at + 128], y[at:at + 128]
        hidden = np.maximum(rows @ first, 0)
        logits = hidden @ second
        p = np.exp(logits - logits.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(128), labels] -= 1
        back = (p @ second.T) * (hidden > 0)
        second[...] -= 1e-4 * (hidden.T @ p)
        first[...] -= 1e-4 * (rows.T @ back)

print(json.dumps([timed(lambda: a @ a, 3), timed(epoch, 1)]))
"""

_TORCH = _TIMED + """
import torch

device = sys.argv[1]
a = torch.randn(1024, 1024, device=device)
x, y = torch.randn(4096, 784, device=device), torch.randint(10, (4096,), device=device)
net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)
steps = torch.optim.SGD(net.parameters(), lr=1e-4)
wait = torch.cuda.synchronize if device == "cuda" else lambda: None

def product():
    a @ a
    wait()

def epoch():
    for at in range(0, 4096, 128):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(net(x[at:at + 128]), y[at:at + 128]).backward()
        steps.step()
    wait()

print(json.dumps([timed(product, 3), timed(epoch, 1)]))
"""


def measured(terms: Rate, settings: SandboxSettings, gpus: Sequence[Device] = ()) -> Rate:
    """The terms with their times; without, where the interpreter cannot tell them. Waits for some seconds."""
    environment = threads_of(settings) | {"CUDA_VISIBLE_DEVICES": ",".join(one.uuid for one in gpus[:1])}
    code = (_TORCH, "cuda") if gpus else (_NUMPY, "cpu")
    times = _times(settings.python, code, 1 if gpus else terms.at_once, tuple(sorted(environment.items())))
    product, epoch = times if times is not None else (None, None)
    return terms.model_copy(update={
        "library": "torch" if gpus else "numpy", "product_seconds": product, "epoch_seconds": epoch})


@functools.cache
def _times(
    python: str, code: tuple[str, str], at_once: int, variables: tuple[tuple[str, str], ...]
) -> tuple[float, float] | None:
    """Seconds of a product and of an epoch, the means over processes at once; None where one of them fails."""
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    running = [subprocess.Popen([python, "-c", *code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                stdin=subprocess.DEVNULL, cwd="/", env=environment | dict(variables))
               for _ in range(at_once)]
    try:
        said = [json.loads(one.communicate(timeout=LIMIT)[0]) for one in running]
        products, epochs = zip(*said, strict=True)  # each gave two numbers
        return fmean(products), fmean(epochs)
    except (ValueError, TypeError, subprocess.TimeoutExpired):
        return None
    finally:
        for one in running:
            one.kill()
            one.communicate()
