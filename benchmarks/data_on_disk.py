"""Images larger than memory: generated, cut into a view, trained on for one epoch and scored, with limited memory.

python -m benchmarks.data_on_disk [--gb 20] [--memory-gb 4] [--folder DIR] [--out FILE]

Prints JSON: the seconds of an epoch through `lab.data` relative to a plain `np.memmap` of as many bytes,
alternating in one kernel; peak memory of kernel and host, without page cache; and the scores. All files are
removed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from labwright.sandbox.data.spec import parse_spec
from labwright.sandbox.datasets import build_registry
from labwright.sandbox.exec_file import run_file
from labwright.sandbox.isolation.processes import measure_use
from labwright.sandbox.settings import SandboxSettings

SIDE, CHANNELS, CLASSES, SHARDS = 128, 3, 4, 8
EPOCHS_CODE = """
import json, time
import lab, numpy as np

data = lab.data("images")
x, y = data.train.x, data.train.y
plain = np.memmap({plain!r}, np.uint8, "r", shape=x.shape)

def epoch(images):
    "One pass in shuffled blocks, as a loader reads: each batch is scaled, and a mean picture learned a class."
    sums, count = np.zeros((data.classes, *images.shape[1:])), np.zeros(data.classes)
    starts = np.random.default_rng(0).permutation(np.arange(0, len(images), 256))
    for start in starts:
        batch = images[start:start + 256].astype(np.float32) / 255
        for label in range(data.classes):
            rows = y[start:start + 256] == label
            sums[label] += batch[rows].sum(axis=0)
            count[label] += rows.sum()
    return sums / count[:, None, None, None]

means, seconds = None, {{"lab": [], "plain": []}}
for turn in range({turns}):
    for name, images in (("lab", x), ("plain", plain)) if turn % 2 else (("plain", plain), ("lab", x)):
        began = time.perf_counter()
        found = epoch(images)
        means = found if name == "lab" else means
        seconds[name].append(time.perf_counter() - began)
flat = means.reshape(data.classes, -1).astype(np.float32)
for split in ("validation", "test"):
    rows = getattr(data, split).x
    found = []
    for start in range(0, len(rows), 256):
        batch = rows[start:start + 256].reshape(len(rows[start:start + 256]), -1).astype(np.float32) / 255
        found.append(np.argmin(((flat ** 2).sum(1) - 2 * batch @ flat.T), axis=1))
    lab.submit("images", split, "method", predictions=np.concatenate(found))
print("SECONDS " + json.dumps(seconds))
"""


def make_images(folder: Path, gb: float) -> int:
    """Write shards of noise around one picture per class; return the number of images."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(60, 196, (CLASSES, SIDE, SIDE, CHANNELS), dtype=np.int16)
    rows = int(gb * 1e9 / SHARDS / (SIDE * SIDE * CHANNELS))
    noise = rng.integers(-60, 60, (4096, SIDE, SIDE, CHANNELS), dtype=np.int16)
    for shard in range(SHARDS):
        x = np.lib.format.open_memmap(folder / f"x-{shard}.npy", "w+", np.uint8, (rows, SIDE, SIDE, CHANNELS))
        y = rng.integers(CLASSES, size=rows)
        for start in range(0, rows, 512):
            some = y[start : start + 512]
            x[start : start + 512] = pictures[some] + noise[rng.integers(len(noise), size=len(some))]
        del x
        np.save(folder / f"y-{shard}.npy", y)
    return rows * SHARDS


async def measure(gb: float, memory_gb: float, around: Path, turns: int) -> dict[str, Any]:
    images = around / "images"
    images.mkdir()
    count = make_images(images, gb)
    plain = around / "readable" / "plain.bin"
    plain.parent.mkdir()
    rows = int(count * 0.5)
    with open(plain, "wb") as file:  # of the size of train, with the same pictures
        for shard in range(SHARDS):
            part = np.load(images / f"x-{shard}.npy", mmap_mode="r")
            for start in range(0, len(part), 512):
                if (left := rows * SIDE * SIDE * CHANNELS - file.tell()) > 0:
                    file.write(part[start : start + 512].tobytes()[:left])
    script = around / "epochs.py"
    script.write_text(EPOCHS_CODE.format(plain=str(plain), turns=turns))
    began, peak, done = time.perf_counter(), [0], threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], measure_use((os.getpid(),)).private)

    looking = threading.Thread(target=look)
    looking.start()
    outcome = await run_file(
        script,
        timeout=7200,
        sources=build_registry([parse_spec(f"images={images}", around)]),
        settings=SandboxSettings(memory_gb=memory_gb, readable=(str(plain.parent),)),
    )
    done.set()
    looking.join()
    seconds_line = next((line for line in outcome.stdout_tail.splitlines() if line.startswith("SECONDS ")), "")
    seconds: dict[str, list[float]] = json.loads(seconds_line.removeprefix("SECONDS ")) if seconds_line else {}
    ratios = [a / b for a, b in zip(seconds.get("lab", ()), seconds.get("plain", ()), strict=True)]
    return {
        "gb": gb,
        "images": count,
        "memory_gb": memory_gb,
        "failure": outcome.failure and outcome.failure.message,
        "epoch_over_plain_map": statistics.median(ratios) if ratios else None,
        "ratios": ratios,
        "seconds": seconds,
        "kernel_peak_gb": (outcome.peak_host_bytes or 0) / 1e9,
        "host_peak_gb": peak[0] / 1e9,
        "whole_seconds": time.perf_counter() - began,
        "scores": {one.name: (one.value, one.grade) for one in outcome.measurements},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=20.0)
    parser.add_argument("--memory-gb", type=float, default=4.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="folder with free space: five halves of --gb")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    around = Path(tempfile.mkdtemp(prefix="data-on-disk-", dir=args.folder))
    try:
        found = asyncio.run(measure(args.gb, args.memory_gb, around, args.turns))
    finally:
        shutil.rmtree(around)
    text = json.dumps(found, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
