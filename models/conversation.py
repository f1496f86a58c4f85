"""A conversation in which a model uses tools: what it may call, what it called, and what it was shown.

A step of a conversation is a question like any other (`models.client`); its answer is one `ToolCall`. The prompt stays
the same, and the transcript grows by one exchange a step. Providers with tools get the transcript as messages; others
get it as text (`render_conversation`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field

from labwright.record.schema import FrozenModel
from labwright.record.schema.decisions import ToolSpec

MAX_NOTE_CHARACTERS = 2000


class ToolCall(FrozenModel):
    """One call of a tool: the answer of one step."""

    tool: str = Field(min_length=1, max_length=100, description="name of the tool")
    arguments: dict[str, Any] = Field(default_factory=dict, description="its arguments, as its schema says")
    note: str = Field(default="", description="what you want to find out or change, in one sentence")


@dataclass(frozen=True)
class ToolExchange:
    """A call and the result that the model was shown."""

    call: ToolCall
    result: str


@dataclass(frozen=True)
class Conversation:
    """The tools offered in the next step, and what happened before it."""

    tools: tuple[ToolSpec, ...]
    exchanges: tuple[ToolExchange, ...] = ()

    def check_call(self, call: ToolCall) -> None:
        """Raise `ValueError` if the tool is not offered."""
        names = [one.name for one in self.tools]
        if call.tool not in names:
            raise ValueError(f"there is no tool {call.tool!r} now: call one of {', '.join(names)}")

    def hash_exchanges(self) -> str:
        """Hash everything that was called and shown."""
        content = [[one.call.tool, one.call.arguments, one.result] for one in self.exchanges]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def list_texts(self) -> list[str]:
        """List the texts that a model reads in addition to the prompt."""
        tools = [one.name + one.description + json.dumps(one.parameters) for one in self.tools]
        return [*tools, *(text for one in self.exchanges for text in (one.call.model_dump_json(), one.result))]

    def format_step(self) -> dict[str, Any]:
        """Return what a record of the question adds: all tools in the first step, and later only what is new."""
        if not self.exchanges:
            return {"tools": [asdict(one) for one in self.tools]}
        last = self.exchanges[-1]
        return {
            "tools": [one.name for one in self.tools],
            "after": self.hash_exchanges(),
            "call": last.call.model_dump(mode="json"),
        }


def render_conversation(conversation: Conversation) -> str:
    """Render tools and transcript as text, for a model without tools of its own."""
    tools = "\n".join(
        f"- `{one.name}`: {one.description} Arguments: `{json.dumps(one.parameters)}`" for one in conversation.tools
    )
    steps = "\n\n".join(
        f"### Call {number}\n{one.call.model_dump_json()}\n\n### Result {number}\n{one.result}"
        for number, one in enumerate(conversation.exchanges, 1)
    )
    return (
        f"\n## Tools\n\nAnswer with exactly one call of one of these tools.\n\n{tools}\n"
        + (f"\n## Calls so far\n\n{steps}\n" if steps else "")
        + "\n## Now\n\nAnswer with the next call.\n"
    )
