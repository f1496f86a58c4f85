"""An author: a model that works on files with tools and hands in a result (`roles.coder`).

Every step is a call of the ledger (decision, attempt, role `coder`, ordinal), so it is reserved, retried, paid and
stored like any other, and a resumed run reuses it. The result of a tool is recorded before the model sees it
(`ToolUsed`), with the tree after it; a resumed run restores the tree of the last one and runs no recorded tool again.

The work is bounded in steps, tokens, seconds and characters. The model is warned once that it is close to a bound. At
the bound it can only hand in; if that is refused, its work ends with the tree that it has and no result. A result that
does not fit its schema is refused like any other, but does not end the work before `MAX_LATE_HAND_INS`. The work also
ends at a limit of the study, and with the third refusal for one reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from labwright.models.client import ModelClient
from labwright.models.conversation import Conversation, ToolCall, ToolExchange
from labwright.models.roles.experiment_code import CODER, CoderInputs, HandIn
from labwright.record.events.run_events import HAND_IN, ToolUsed
from labwright.record.schema import describe_validation_error
from labwright.record.schema.decisions import CallKey, ToolResult, ToolSpec

H = TypeVar("H", bound=HandIn)
NEAR_BOUND = 0.8
"""Share of a bound at which the model is warned to hand in soon."""
MAX_LATE_HAND_INS = 3
"""Maximum number of hand-ins at a bound, if they do not fit the schema."""
MAX_EQUAL_REFUSALS = 3
"""Number of refusals with the same first line after which the work ends. The last one is not recorded."""


class WorkStopped(Exception):
    """Raised by the check of a result if a limit of the study prevents it. Nothing is recorded, so that a study resumed
    with other limits checks the result."""


class AuthorTools(Protocol):
    """Tools over a scratch copy of a tree, such as `sandbox.repository.scratch_tree.ScratchTree`."""

    @property
    def specs(self) -> Sequence[ToolSpec]: ...

    @property
    def tree(self) -> str:
        """The git tree of the files as they are now."""
        ...

    def restore(self, tree: str) -> None: ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult: ...


@dataclass(frozen=True)
class AuthorLimits:
    """Bounds of one author's work; `seconds` counts the model's answers and the tools, `characters` the transcript."""

    steps: int = 40
    tokens: int = 1_500_000
    seconds: float = 3600.0
    characters: int = 240_000


@dataclass(frozen=True)
class AuthorWork(Generic[H]):
    """What an author made: its result (None: it handed in nothing that was accepted) and the tree of its files."""

    result: H | None
    tree: str
    steps: int
    ended: str = ""
    """Why there is no result."""


@dataclass
class Author(Generic[H]):
    """One author's work on one task.

    `check` returns the reason to refuse a result with its tree, empty if it is accepted; what it runs must be recorded,
    since it is asked again if the process dies meanwhile. It may raise `WorkStopped`.
    """

    client: ModelClient
    tools: AuthorTools
    result: type[H]
    check: Callable[[H, str], Awaitable[str]]
    limits: AuthorLimits = AuthorLimits()
    find_limit: Callable[[], str | None] = lambda: None
    """Returns the limit of the study that was reached, if any: nothing new is asked or run then."""
    _exchanges: list[ToolExchange] = field(default_factory=list[ToolExchange], init=False)
    _tokens: int = field(default=0, init=False)
    _seconds: float = field(default=0.0, init=False)
    _was_warned: bool = field(default=False, init=False)
    _start: str = field(default="", init=False)

    async def work(self, inputs: CoderInputs) -> AuthorWork[H]:
        """Return what the author made. Raises `ModelError`, and what the tools and `check` raise."""
        self._start = tree = self.tools.tree
        hand_in = ToolSpec(HAND_IN, "Hand in the result and end the work.", self.result.model_json_schema())
        state, late = self.client.recorder.state, 0
        while True:
            last = self._compute_share() >= 1
            offered = (hand_in,) if last else (*self.tools.specs, hand_in)
            conversation = Conversation(offered, tuple(self._exchanges))
            key = self.client.get_next_key(CODER)
            if key not in state.calls.answers and (why := self.find_limit()):
                return AuthorWork(None, tree, len(self._exchanges), why)
            call = await self.client.ask_or_none(
                CODER, inputs, instead="the author's work ends here", conversation=conversation
            )
            if call is None:
                return AuthorWork(None, tree, len(self._exchanges), state.calls.unanswered_calls[key].why)
            answer = state.calls.answers[key]
            self._tokens += answer.usage.input_tokens - answer.usage.cached_tokens + answer.usage.output_tokens
            self._seconds += answer.seconds
            handed_in = self._read_result(call)
            result = None if isinstance(handed_in, str) else handed_in
            try:
                used = await self._use_tool(key, call, tree, handed_in, last=last)
            except WorkStopped as error:
                return AuthorWork(None, tree, len(self._exchanges), str(error))
            tree = used.tree
            if result is not None and not used.failed:
                return AuthorWork(result, tree, len(self._exchanges))
            late += last
            if last and (result is not None or late == MAX_LATE_HAND_INS):
                return AuthorWork(None, tree, len(self._exchanges), used.result.partition("\n")[0])

    def _read_result(self, call: ToolCall) -> H | str | None:
        """Return what a call hands in, or why that does not fit the schema; None for another tool."""
        try:
            return self.result.model_validate(call.arguments) if call.tool == HAND_IN else None
        except ValidationError as error:
            return describe_validation_error(error)

    async def _use_tool(
        self, key: CallKey, call: ToolCall, tree: str, handed_in: H | str | None, *, last: bool
    ) -> ToolUsed:
        """Return the recorded result of a call, or run its tool and record it; `handed_in` is of `_read_result`."""
        recorder = self.client.recorder
        digest = Conversation((), (ToolExchange(call, self._start), *self._exchanges)).hash_exchanges()
        known = recorder.state.calls.tool_uses.get(key)
        used = known if known is not None and known.transcript_sha256 == digest else None
        is_new = used is None
        if used is None:
            if self.tools.tree != tree:
                await asyncio.to_thread(self.tools.restore, tree)
            if handed_in is not None:
                why = handed_in if isinstance(handed_in, str) else await self.check(handed_in, tree)
                why = self._warn_of_repetition(why)
                made = ToolResult(why or "accepted", tree, 0.0, failed=bool(why))
            else:
                made = await self.tools.call(call.tool, call.arguments)
            used = ToolUsed(
                key=key,
                tool=call.tool,
                transcript_sha256=digest,
                result=made.text,
                tree=made.tree,
                seconds=made.seconds,
                failed=made.failed,
            )
        self._seconds += used.seconds
        self._exchanges.append(ToolExchange(call, used.result))
        is_near = self._compute_share() >= NEAR_BOUND
        if is_new:
            is_accepted = call.tool == HAND_IN and not used.failed
            if is_near and not (self._was_warned or last or is_accepted):
                left = max(0, self.limits.steps - len(self._exchanges) - 1)
                note = f"(Your work is close to its limit, at most {left} more calls before `hand_in`: finish.)"
                used = used.model_copy(update={"result": f"{used.result}\n\n{note}"})
                self._exchanges[-1] = ToolExchange(call, used.result)
            recorder.append(used)
        self._was_warned = self._was_warned or is_near
        return used

    def _warn_of_repetition(self, why: str) -> str:
        """Return a reason to refuse, without text that was shown, if it was given before. Raises `WorkStopped`."""
        first = why.partition("\n")[0]
        refusals = [one.result for one in self._exchanges if one.call.tool == HAND_IN]
        equal = [one for one in refusals if why and one.partition("\n")[0] == first]
        if len(equal) + 1 >= MAX_EQUAL_REFUSALS:
            raise WorkStopped(first)
        new = first if any(one.startswith(why) for one in equal) else why
        return new + "\n(refused for this reason before; the third time ends your work)" * bool(equal)

    def _compute_share(self) -> float:
        """Return the largest used share of the bounds, the final call reserved."""
        characters = sum(len(one.result) + len(one.call.model_dump_json()) for one in self._exchanges)
        limits = self.limits
        return max(
            (len(self._exchanges) + 1) / limits.steps,
            self._tokens / limits.tokens,
            self._seconds / limits.seconds,
            characters / limits.characters,
        )
