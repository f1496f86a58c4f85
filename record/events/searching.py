"""What the search decides, what its steps come to, and how a stage ends."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from record.ablation import Ablation, MissingAblation
from record.nouns.data import DataPlan, DatasetFacts, Scorer
from record.nouns.decisions import Action, Seen
from record.nouns.frozen import Frozen
from record.nouns.stages import StageName, StageSummary


class Prepared(Frozen):
    """The data plan was fixed and its datasets were materialised."""

    type: Literal["prepared"] = "prepared"
    data_plan: DataPlan
    datasets: tuple[DatasetFacts, ...]
    scorers: tuple[Scorer, ...] = Field(default=(), description="frozen for datasets of the plan")


class Decided(Frozen):
    """Decision k, committed before anything is done about it. Its prompts use only the results in `seen`."""

    type: Literal["decided"] = "decided"
    k: int
    action: Action
    seen: Seen = Seen()


class WorkDone(Frozen):
    """A step outside the search is finished."""

    type: Literal["work_done"] = "work_done"
    k: int


class Compared(Frozen):
    """Decision k, a comparison, is answered; it is never asked again for this pair."""

    type: Literal["compared"] = "compared"
    k: int
    a: str
    b: str
    better: str | None = Field(default=None, description="the sounder node; None: neither")
    reasons: str = ""


class Settled(Frozen):
    """A stage's search ended and this node was carried forward (None: nothing good was found).

    Again where the one that was carried forward turned out suspect while later stages were searched.
    """

    type: Literal["settled"] = "settled"
    stage: StageName
    best: str | None
    reasons: tuple[str, ...] = ()
    ended: str = Field(description="why the stage's search ended")


class Summarised(Frozen):
    """Decision k, the report on a stage, is written."""

    type: Literal["summarised"] = "summarised"
    k: int = 0
    summary: StageSummary


class AblationsPlanned(Frozen):
    """What the last stage takes up, in this order; without any, the risks of the idea."""

    type: Literal["ablations_planned"] = "ablations_planned"
    ablations: tuple[Ablation, ...] = ()
    risks: tuple[str, ...] = Field(default=(), description="for each risk of the idea, which ablation tests it or why "
                                                           "none does")
    why: str = Field(default="", description="why there are none")


class AblationsMissed(Frozen):
    """What a reviewer of the draft would ask for, and what of it is run."""

    type: Literal["ablations_missed"] = "ablations_missed"
    missing: tuple[MissingAblation, ...] = ()
    why: str = Field(default="", description="why these, or why there are none")


SearchEvent = Prepared | Decided | WorkDone | Compared | Settled | Summarised | AblationsPlanned | AblationsMissed
"""Any of these."""
