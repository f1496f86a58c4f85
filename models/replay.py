"""A model that returns recorded answers, to repeat a whole run without the original model.

    scientist run --idea idea.json --config config.yaml --model replay:exchange.jsonl

The file has one answer per line, `{"role": ..., "ordinal": ..., "answer": {...}}`; `ordinal` counts the requests of a
role from 0. Answers are chosen by role and ordinal only; prompts are not compared, so that a recording survives
changes of prompts; each answer is validated against the current output type. `scientist export RUN --exchange FILE`
extracts the file from the record of a run.

Limits: a run whose order of requests differs from the recorded one may get wrong answers. Record and replay with
`search.order=ticket`, and with little concurrency. A resumed run continues counting after its existing answers
(`resume_after`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.errors import ModelConfigError, ModelOutputInvalid
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.schema import FrozenModel
from labwright.record.schema.decisions import TokenUsage

REPLAY_PREFIX = "replay:"


class RecordedAnswer(FrozenModel):
    """One answer of an exchange."""

    role: str
    ordinal: int = Field(ge=0, description="number of the request among those of this role, from 0")
    answer: dict[str, Any]


class ReplayModel(Backend):
    """A `Backend` that costs nothing and needs no network; it counts requests and recorded answers by role."""

    def __init__(self, exchange: Iterable[RecordedAnswer], name: str = "replay") -> None:
        """Raises `ModelConfigError`: an answer is recorded twice."""
        super().__init__(name)
        self._answers: dict[tuple[str, int], dict[str, Any]] = {}
        self.request_counts: Counter[str] = Counter()
        self.recorded_answers: Counter[str] = Counter()
        for one in exchange:
            if (one.role, one.ordinal) in self._answers:
                raise ModelConfigError(
                    f"{name}: two answers of role {one.role!r} have ordinal {one.ordinal}; record the run again"
                )
            self._answers[one.role, one.ordinal] = one.answer
            self.recorded_answers[one.role] += 1

    def resume_after(self, answered: Iterable[str]) -> None:
        """Continue counting after the existing answers of a run, given by their roles."""
        self.request_counts.update(answered)

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the next answer of the role.

        Raises: `ModelConfigError`: none is left. `ModelOutputInvalid`: it does not fit the current output type.
        """
        ordinal = self.request_counts[request.role.name]
        self.request_counts[request.role.name] += 1
        answer = self._answers.get((request.role.name, ordinal))
        if answer is None:
            raise ModelConfigError(
                f"{self.name}: no answer of role '{request.role}' with ordinal {ordinal} is recorded, only "
                f"{self.recorded_answers[request.role.name]} of this role; record the run again"
            )
        try:
            output = request.output_type.model_validate(answer)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise ModelOutputInvalid(
                f"{self.name}: the answer of role '{request.role}' with ordinal {ordinal} is no longer a valid "
                f"{request.output_type.__name__} ({where}: {first['msg']}); record the run again"
            ) from None
        return Reply(output=output, usage=TokenUsage(usd=0.0), model=self.name)


def open_replay(name: str) -> ReplayModel:
    """Open the backend for a model name `replay:FILE`. Raises `ModelConfigError`: no such file, or no answers in it."""
    path = Path(name.removeprefix(REPLAY_PREFIX))
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # an answer may contain other line separators
    except (OSError, UnicodeDecodeError) as error:
        raise ModelConfigError(
            f"{name!r}: {path} cannot be read ({error}); write replay:FILE with the exchange of a run"
        ) from None
    exchange: list[RecordedAnswer] = []
    for number, line in enumerate(lines, start=1):
        try:
            exchange += [RecordedAnswer.model_validate_json(line)] if line.strip() else []
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"]
            raise ModelConfigError(
                f"{name!r}: line {number} is not a valid recorded answer ({message}); each line is "
                '{"role": ..., "ordinal": ..., "answer": {...}}'
            ) from None
    if not exchange:
        raise ModelConfigError(f"{name!r} has no recorded answers; make it with scientist export RUN --exchange FILE")
    return ReplayModel(exchange, name)


def extract_exchange(events: Iterable[Event]) -> tuple[RecordedAnswer, ...]:
    """Return the answers of a run in the order in which they were committed, numbered by role.

    If there are two answers under one key, the later one replaces the first, since a replay asks only once.
    """
    counted: Counter[str] = Counter()
    exchange: list[RecordedAnswer] = []
    for event in {event.key: event for event in events if isinstance(event, CallAnswered)}.values():
        exchange.append(RecordedAnswer(role=event.key.role, ordinal=counted[event.key.role], answer=event.answer))
        counted[event.key.role] += 1
    return tuple(exchange)


def format_exchange(exchange: Iterable[RecordedAnswer]) -> str:
    """Format an exchange as the text of its file."""
    return "".join(json.dumps(one.model_dump(mode="json"), ensure_ascii=False) + "\n" for one in exchange)


# A model whose answers come from a function, for tests and tools. backend = ScriptedModel(lambda request:
# Program(...)) backend = ScriptedModel.from_role_functions(code=lambda inputs: Program(...), vision=lambda inputs:
# ...)

Script = Callable[[ModelRequest], BaseModel | Reply]


class ScriptedModel(Backend):
    """Answers by calling a function and passes on its errors; `requests` lists the requests in order."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        super().__init__(name)
        self.requests: list[ModelRequest] = []

    @classmethod
    def from_role_functions(cls, **answers: Callable[[Any], BaseModel]) -> ScriptedModel:
        """Return a model that answers each role by a function of its typed inputs."""

        def script(request: ModelRequest) -> BaseModel:
            if request.role.name not in answers:
                raise ModelConfigError(f"this script has no answer for role '{request.role}', only {sorted(answers)}")
            return answers[request.role.name](request.inputs)

        return cls(script)

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the script's answer; usage is counted as four characters per token, without price."""
        self.requests.append(request)
        answer = self._script(request)
        if isinstance(answer, Reply):
            reply = answer
        else:
            asked = len(request.prompt.system) + len(request.prompt.user)
            usage = TokenUsage(input_tokens=asked // 4, output_tokens=len(answer.model_dump_json()) // 4)
            reply = Reply(output=answer, usage=usage, model=self.name)
        if not isinstance(reply.output, request.output_type):
            raise ModelOutputInvalid(
                f"the script answered role '{request.role}' with {type(reply.output).__name__}, "
                f"not {request.output_type.__name__}"
            )
        return reply
