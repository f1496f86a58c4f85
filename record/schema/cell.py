"""The smallest thing that is measured, and what became of it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from labwright.record.schema.frozen_model import FrozenModel


class Cell(FrozenModel):
    """One arm at one level on one dataset, with one setting of hyperparameters and one seed."""

    dataset: str
    arm: str
    level: str = Field(default="", description="empty where the study has none")
    trial: int = Field(default=0, ge=0, description="number of a setting of hyperparameters; 0: the arm's defaults")
    share: float = Field(default=1.0, gt=0, le=1, description="of the training steps or examples: a rung of the trial")
    seed: int = 0

    if TYPE_CHECKING:

        def __hash__(self) -> int: ...  # which pydantic makes for what is frozen

    @property
    def condition(self) -> str:
        """As measurements and submissions name it: `arm`, or `arm@level`."""
        return f"{self.arm}@{self.level}" if self.level else self.arm

    @property
    def place_name(self) -> str:
        """Where it stands in the study, as the names of its arrays and artifacts end: `digits__method__noise20`."""
        return format_place_name(self.dataset, self.condition)

    @property
    def name(self) -> str:
        """What tells it from the other cells of a node, as a file may be named: its place, and the trial if any."""
        if not self.trial and self.share == 1:
            return self.place_name
        return "__".join(
            (
                self.place_name,
                *([] if self.level else [""]),
                *([f"t{self.trial}"] if self.trial else []),
                *([f"r{self.share!r}".replace(".", "_")] if self.share < 1 else []),
            )
        )

    def __str__(self) -> str:
        trial = f", trial {self.trial}" if self.trial else ""
        return f"{self.condition} on {self.dataset}{trial}" + (f" at {self.share:g}" if self.share < 1 else "")


def format_place_name(dataset: str, condition: str) -> str:
    """`Cell.place` of a condition, `arm` or `arm@level`; no two have the same. `lab` makes it likewise in cells."""
    parts = [dataset, *condition.split("@")]
    joined = "__".join(parts)
    if not any("__" in part for part in parts):
        return joined
    return f"{joined}__{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]}"


class TrainingCounts(FrozenModel):
    """What the sandbox counted while a cell trained; None: it saw none, as in code that trains in plain numpy.

    Of torch and scikit-learn alone, in the cell's own process (docs/search.md).
    """

    steps: int | None = Field(default=None, ge=1, le=2**53, description="of optimizers, or iterations that fits report")
    rows: int | None = Field(default=None, ge=1, le=2**53, description="that models were handed for them, repeats too")
    parameters: int | None = Field(default=None, ge=1, le=2**53, description="trained together, at most")


class CellOutcomeLine(FrozenModel):
    """What became of a cell that a node owes."""

    cell: Cell
    outcome: Literal["measured", "taken over", "failed", "left out"]
    id: str = Field(default="", description="of the execution; empty where it was left out")
    node: str = Field(default="", description="the node that measured it, where it was taken over")
    seconds: float = Field(default=0.0, description="of its execution, also where that was another node's")
    why: str = Field(default="", description="it failed, or was left out")
    diverged: bool = Field(
        default=False,
        description="whether it failed because a value was not finite; it counts as the metric's worst value then",
    )
