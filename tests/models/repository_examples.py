"""Inputs of the roles that read a user's repository."""

from __future__ import annotations

from pydantic import BaseModel

from labwright.models.roles.experiment_code import CoderFact
from labwright.models.roles.repository import (
    FunctionFact,
    PartsInputs,
    PartWay,
    PrepareInputs,
    ShownFile,
    ShownRepository,
    SwitchFact,
)

README = ShownFile(path="README.md", text="# tinyfit\n\n    python main.py --seed 0\n\nTest R2 of 0.99.\n")
CODE = ShownFile(path="tinyfit/features.py", text="def tilt(x):\n    return [x[:, 0]]\n", first=4, whole=False)
WORDS = ("python", "train.py", "--seed", "{seed}")
METRIC = "metrics.json:test.r2"
WRONG = ("the last answer names no file",)

PREPARE = PrepareInputs(known=(CoderFact(title="README.md", text=README.text),), frozen=("data/*",))
FUNCTION = FunctionFact(
    path="tinyfit/features.py",
    symbol="tilt",
    name="tilt",
    calls=1,
    callers=("train.py:design",),
    arguments={"x": "array(600, 5)"},
    result="list of 1: array(600)",
)
SWITCH = SwitchFact(name="bend", path="train.py", symbol="bend", way=PartWay(what="--no-bend", words=("--no-bend",)))
INPUTS: dict[str, BaseModel] = {
    "coder": PartsInputs(
        known=(CoderFact(title="README.md", text=README.text),),
        frozen=("data/*",),
        functions=(FUNCTION,),
        switches=(SWITCH,),
        metric_places=("train.py:<module>",),
        surroundings="As it is, the repository gives 0.99 over 3 seeds.",
    )
}


def make_huge_changes(long: str) -> dict[str, dict[str, object]]:
    """For each role what makes its prompt as large as it may come."""
    shown = (ShownFile(path=long[:300], text=long),) * 6
    lines = (long,) * 400
    return {
        "coder": {
            "functions": (FUNCTION.model_copy(update={"symbol": long, "arguments": {"x": long}}),) * 400,
            "switches": (SWITCH.model_copy(update={"path": long}),) * 400,
            "metric_places": (long,) * 400,
            "known": (CoderFact(title=long, text=long),) * 40,
            "frozen": lines,
            "surroundings": long,
        },
        "repository_plan": {
            "options": lines,
            "keys": lines,
            "complaints": lines[:20],
            "context": lines,
            "repository": ShownRepository(command=long, metric=long, map=long, shown=shown[:4], frozen=lines),
        },
    }
