"""Seeds and threads: the same file with the same `lab.seed` computes the same numbers."""

from __future__ import annotations

import os
import random
import sys
from types import ModuleType

import numpy as np

from lab._job import job


def seed_everything() -> None:
    """Seed random, numpy and torch with `lab.seed`. A torch that is imported later is seeded when it arrives."""
    random.seed(job().seed)
    np.random.seed(job().seed)
    if "torch" in sys.modules:
        _seed_torch(sys.modules["torch"])


def begin() -> None:
    """Turn to the job at hand, where modules were imported before there was one."""
    job.cache_clear()
    if "torch" in sys.modules:
        _seed_torch(sys.modules["torch"])


def torch_arrived(torch: ModuleType) -> None:
    """Fix torch's threads and seed. Convolutions differ in the last bits between one and two threads."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    _seed_torch(torch)


def _seed_torch(torch: ModuleType) -> None:
    torch.manual_seed(job().seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(os.environ.get("LAB_DETERMINISTIC") == "1")
