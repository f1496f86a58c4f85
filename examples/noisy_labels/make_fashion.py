"""Write fashion.npz: 9,000 training and 4,000 test images from the Debian package dataset-fashion-mnist.

usage: python make_fashion.py [FOLDER_OF_THE_PACKAGE]   (default: /usr/share/datasets/fashion-mnist)
"""

import gzip
import sys
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")


def read_idx(name: str) -> np.ndarray:
    path = next(folder.rglob(f"{name}*"))
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    sizes = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(sizes)


draw = np.random.default_rng(11)
train = draw.permutation(60_000)[:9_000]
test = draw.permutation(10_000)[:4_000]
np.savez_compressed(
    "fashion.npz",
    train_x=read_idx("train-images")[train],
    train_y=read_idx("train-labels")[train].astype(np.int64),
    test_x=read_idx("t10k-images")[test],
    test_y=read_idx("t10k-labels")[test].astype(np.int64),
)
