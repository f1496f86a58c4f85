"""Small git repositories for tests: a linear model with features of known importance."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

TRAIN = '''
import argparse
import json

import numpy as np

from tinyfit.features import bend, shift, tilt, twist, wobble
from tinyfit.report import banner


def centre(x):
    """Inputs around zero."""
    return x - x.mean(0)


def design(x, opts):
    cols = [np.ones(len(x))]
    cols += tilt(x)
    cols += twist(x)
    cols += shift(x)
    if opts.bend:
        cols += bend(x)
    cols += wobble(x)
    return np.stack(cols, 1)


parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--no-bend", dest="bend", action="store_false")
parser.add_argument("--verbose", action="store_true")
opts = parser.parse_args()
rng = np.random.default_rng(opts.seed)
x = rng.uniform(-1, 1, (600, 5))
y = 2 * x[:, 0] + x[:, 1] ** 2 + 1.5 * x[:, 2] + .1 * rng.normal(size=600)
x = centre(x)
banner(opts)
F = design(x, opts)
w = np.linalg.solve(F[:300].T @ F[:300] + 1e-3 * np.eye(F.shape[1]), F[:300].T @ y[:300])
rest = y[300:] - F[300:] @ w
with open("metrics.json", "w") as file:
    json.dump({"test": {"r2": float(1 - (rest ** 2).mean() / y[300:].var())}}, file)
'''
FEATURES = """
import numpy as np


def tilt(x):
    return [x[:, 0]]


def bend(x):
    return [x[:, 1] ** 2]


def twist(x):
    return [x[:, 2]]


def shift(x):
    return [x[:, 2] * 2.0 + 0.1]


def wobble(x):
    return [np.sin(9 * x[:, 3])]
"""
REPORT = """
def banner(opts):
    print("fitting", sorted(vars(opts)))
"""
FILES = {
    "README.md": "# tinyfit\n\n    pip install -r requirements.txt\n    python train.py --seed 0\n\nR2 about 0.99.\n",
    "requirements.txt": "numpy\n",
    ".gitignore": "metrics.json\n__pycache__/\n",
    "train.py": TRAIN.lstrip(),
    "tinyfit/__init__.py": "",
    "tinyfit/features.py": FEATURES.lstrip(),
    "tinyfit/report.py": REPORT.lstrip(),
}
"""tilt matters most, then bend; twist and shift are redundant: only removing both has an effect."""


def run_git(folder: Path, *words: str) -> str:
    """Run git in a folder with a fixed author and return its output."""
    return subprocess.run(
        [
            "git",
            "-c",
            "user.name=author",
            "-c",
            "user.email=author@example.org",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "init.defaultBranch=main",
            *words,
        ],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
    ).stdout


def make_repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    """Create a repository with one commit of these files (default: tinyfit)."""
    for name, text in (files or FILES).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run_git(folder, "init", "-q")
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", "Release")
    return folder
