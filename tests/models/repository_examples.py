"""Inputs of the roles that read a user's repository."""

from __future__ import annotations

from pydantic import BaseModel

from labwright.models.roles.coder import CoderFact, CoderInputs
from labwright.models.roles.repository import ShownFile
from labwright.models.roles.repository_patches import ShownArm, ShownRepository

README = ShownFile(path="README.md", text="# tinyfit\n\n    python main.py --seed 0\n\nTest R2 of 0.99.\n")
CODE = ShownFile(path="tinyfit/features.py", text="def tilt(x):\n    return [x[:, 0]]\n", first=4, whole=False)
WORDS = ("python", "train.py", "--seed", "{seed}")
METRIC = "metrics.json:test.r2"
WRONG = ("the last answer names no file",)

INPUTS: dict[str, BaseModel] = {
    "coder": CoderInputs(task="prepare", facts=(CoderFact(title="README.md", text=README.text),), frozen=("data/*",))
}


def make_huge_changes(long: str) -> dict[str, dict[str, object]]:
    """For each role what makes its prompt as large as it may come."""
    shown = (ShownFile(path=long[:300], text=long),) * 6
    lines = (long,) * 400
    return {
        "coder": {
            "task": "parts",
            "facts": (CoderFact(title=long, text=long),) * 40,
            "frozen": lines,
            "surroundings": long,
        },
        "arm_patch": {
            "requested": shown[:4],
            "changed": shown[:2],
            "complaints": lines[:20],  # so much is shown at most
            "made": (ShownArm(name="a", words=lines[:9], patch=long),) * 2,
            "repository": ShownRepository(command=long, metric=long, map=long, shown=shown[:4], frozen=lines),
        },
        "repository_plan": {
            "options": lines,
            "keys": lines,
            "complaints": lines[:20],
            "context": lines,
            "repository": ShownRepository(command=long, metric=long, map=long, shown=shown[:4], frozen=lines),
        },
    }
