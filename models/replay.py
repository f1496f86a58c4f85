"""A model that gives out recorded answers: a whole run again, without the model that carried it.

    scientist run --idea idea.json --config config.yaml --model replay:exchange.jsonl

The file has one answer a line, `{"role": ..., "ordinal": ..., "answer": {...}}`; `ordinal` counts the requests of a
role from 0. Answers go out by role and ordinal alone and prompts are not compared, so that a recording outlives every
change of a prompt; each is held against the output type of today. `scientist export RUN --exchange FILE` makes it
from the record of a run.

Not guaranteed: that a run which asks in another order than the recorded one gets the answers that it would need. Record
and replay with `search.order=ticket`, and with little at the same time. A run that is resumed counts on from the
answers that it has (`go_on`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from labwright.models.backend import ModelRequest, Reply, SingleModelBackend
from labwright.models.errors import ModelConfigError, ModelOutputInvalid
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered
from labwright.record.schema.decisions import TokenUsage
from labwright.record.schema.frozen_model import FrozenModel

REPLAY_PREFIX = "replay:"


class RecordedAnswer(FrozenModel):
    """One answer of an exchange."""

    role: str
    ordinal: int = Field(ge=0, description="which request of this role, from 0")
    answer: dict[str, Any]


class ReplayModel(SingleModelBackend):
    """A `Backend` that costs nothing and needs no network. By role, `asked` counts requests and `recorded` answers."""

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
        """Count on from the answers that a run has: the role of each."""
        self.request_counts.update(answered)

    async def answer(self, request: ModelRequest) -> Reply:
        """The next answer of the role.

        Raises: `ModelConfigError`: none is left. `ModelOutputInvalid`: it does not fit the output type of today.
        """
        ordinal = self.request_counts[request.role.name]
        self.request_counts[request.role.name] += 1
        answer = self._answers.get((request.role.name, ordinal))
        if answer is None:
            raise ModelConfigError(
                f"{self._name}: no answer of role '{request.role}' with ordinal {ordinal} is "
                f"recorded, only {self.recorded_answers[request.role.name]} of this role; record the run "
                "again"
            )
        try:
            output = request.output_type.model_validate(answer)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the answer"
            raise ModelOutputInvalid(
                f"{self._name}: the answer of role '{request.role}' with ordinal {ordinal} is no "
                f"{request.output_type.__name__} any more ({where}: {first['msg']}); record the run again"
            ) from None
        return Reply(output=output, usage=TokenUsage(usd=0.0), model=self._name)


def open_replay(name: str) -> ReplayModel:
    """The backend for a model name `replay:FILE`. Raises `ModelConfigError`: no such file, or no exchange in it."""
    path = Path(name.removeprefix(REPLAY_PREFIX))
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # an answer may hold other ends of lines
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
                f"{name!r}: line {number} is no recorded answer ({message}); each line is "
                '{"role": ..., "ordinal": ..., "answer": {...}}'
            ) from None
    if not exchange:
        raise ModelConfigError(f"{name!r} holds no recorded answer; make it with scientist export RUN --exchange FILE")
    return ReplayModel(exchange, name)


def extract_exchange(events: Iterable[Event]) -> tuple[RecordedAnswer, ...]:
    """The answers of a run in the order in which they were committed, numbered by role.

    Of two answers under one key it is the later one, at the place of the first: a replay asks once.
    """
    counted: Counter[str] = Counter()
    exchange: list[RecordedAnswer] = []
    for event in {event.key: event for event in events if isinstance(event, CallAnswered)}.values():
        exchange.append(RecordedAnswer(role=event.key.role, ordinal=counted[event.key.role], answer=event.answer))
        counted[event.key.role] += 1
    return tuple(exchange)


def format_exchange(exchange: Iterable[RecordedAnswer]) -> str:
    """An exchange as the text of its file."""
    return "".join(json.dumps(one.model_dump(mode="json"), ensure_ascii=False) + "\n" for one in exchange)
