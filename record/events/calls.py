"""Answers of models, and what is set aside for calls and attempts."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from record.nouns.calls import CallKey, Spending, Usage
from record.nouns.frozen import Frozen


class Answered(Frozen):
    """A model's answer was paid for and committed. A later one under the same key takes its place: both were paid."""

    type: Literal["answered"] = "answered"
    key: CallKey
    request_sha256: str = Field(description="of the question as it was sent")
    question_sha256: str = Field(default="", description="of the question without what it tells of machine and limits")
    model: str
    answer: dict[str, Any]
    usage: Usage
    seconds: float
    retries: int = 0
    asked: str = Field(default="", description="model and temperature as configured when asked; the hash covers them")
    left_out: tuple[str, ...] = Field(
        default=(), description="settings that the model does not take and that were not sent, as temperature")


class Drifted(Frozen):
    """A committed answer is used, though the machine or the limits that its question told of are others by now."""

    type: Literal["drifted"] = "drifted"
    key: CallKey
    request_sha256: str = Field(description="of the question as it would be sent now")


class Unanswered(Frozen):
    """A call got no answer that can be used, and the step that made it goes on without."""

    type: Literal["unanswered"] = "unanswered"
    key: CallKey
    why: str
    then: str = Field(description="what is done instead")


class Reserved(Frozen):
    """The most that a call or an attempt may take, set aside before it begins; recorded where a budget is set.

    `Answered`, `Executed` or `Returned` settle it. What a kill cut off stays spent.
    """

    type: Literal["reserved"] = "reserved"
    k: int = Field(description="the decision that it is for")
    name: str = Field(description="the call's key, or node/attempt")
    spending: Spending


class Returned(Frozen):
    """What was set aside for a call was not taken: the provider was not reached, or refused at once."""

    type: Literal["returned"] = "returned"
    name: str


CallEvent = Answered | Drifted | Unanswered | Reserved | Returned
"""Any of these."""
