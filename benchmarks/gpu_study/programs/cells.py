"""Cells of one kernel, by arm: `ok` computes, `memory` uses all memory, `dies` kills itself, `forks` forks after CUDA,
`busy` computes for some seconds."""
import os
import signal
import time

import lab
import numpy as np
import torch

SECONDS = 6.0


def compute(steps):
    x = torch.ones(1024, 1024, device=lab.device)
    for _ in range(steps):
        x = torch.nn.functional.normalize(x @ x)
    if lab.device == "cuda":
        torch.cuda.synchronize()
    return float(x.sum())


def child(queue):
    queue.put(compute(1))


def run(cell):
    data = lab.data(cell.dataset)
    compute(3)
    if cell.arm.startswith("memory"):
        blocks = []
        while True:
            blocks.append(torch.ones(2**27, device=lab.device))
    if cell.arm.startswith("dies"):
        blocks = torch.ones(2**26, device=lab.device)
        os.kill(os.getpid(), signal.SIGKILL)
    if cell.arm.startswith("forks"):
        context = torch.multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        process.join(60)
        print("FORKED", process.exitcode)
        if process.exitcode != 0:
            raise RuntimeError("the forked process could not compute on the device")
    if cell.arm.startswith("busy"):
        until = time.monotonic() + SECONDS
        steps = 0
        while time.monotonic() < until:
            compute(20)
            steps += 20
        print("STEPS", cell.arm, steps, time.monotonic())
    if lab.device == "cuda":
        free, total = torch.cuda.mem_get_info()
        print("FREE", cell.arm, free / total)
    lab.submit(split="validation", predictions=np.zeros(len(data.validation.x), int))


lab.measure(run)
