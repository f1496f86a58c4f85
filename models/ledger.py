"""The ledger layer: an answered question is not asked again, and every answer is committed before it is used.

A call is identified by (decision, attempt, role, ordinal). If the ledger has an answer to the same question under this
key, the answer is reused. Questions are the same if they agree in all fields except those about machine and limits
(`models.roles.role.EnvironmentField`): a change in these is recorded, and the answer is kept. A different question
under the key is a new call, whose answer replaces the old one; both are paid for. Therefore everything that depends on
an answer can be repeated from the ledger alone. In a run a question is stored before it is sent
(`record.llm_calls`); if that fails, nothing is asked and nothing is billed.

Limits: a kill between a provider's answer and its commit loses that answer, and the call is made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from labwright.models.backend import ModelRequest, Reply
from labwright.models.prompt_renderer import render
from labwright.models.roles.role import neutralise_environment
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import CallAnswered, PromptChanged
from labwright.record.schema.decisions import CallKey

KeepPrompt = Callable[[str], None]
"""Stores the text of a question, e.g. in `record.llm_calls`. Raises `RecordError`."""


@dataclass(frozen=True)
class AnswerLedger:
    """Answers questions from the record or by asking a model. `keep` receives each question before it is asked."""

    recorder: Recorder
    clock: Callable[[], float]
    keep: KeepPrompt | None = None

    async def answer(
        self, key: CallKey, request: ModelRequest, model_label: str, ask: Callable[[], Awaitable[Reply]]
    ) -> CallAnswered:
        """Return the committed answer; `model_label` is the model and its temperature. Raises what `ask` does."""
        if (known := self._find_answer(key, request)) is not None:
            return known
        if self.keep is not None:
            self.keep(format_request(request, model_label))
        began = self.clock()
        reply = await ask()
        event = CallAnswered(
            key=key,
            request_sha256=hash_request(request, model_label),
            question_sha256=hash_question(request),
            model=reply.model,
            answer=reply.output.model_dump(mode="json", by_alias=True),
            usage=reply.usage,
            seconds=max(0.0, self.clock() - began),
            retries=reply.retries,
            asked=model_label,
            left_out=reply.left_out,
        )
        self.recorder.append(event)
        return self.recorder.state.calls.answers.get(key, event)  # in the form that a resumed run will read

    def _find_answer(self, key: CallKey, request: ModelRequest) -> CallAnswered | None:
        """Return the committed answer to this question, even if another model or temperature answered it.

        If the question would now be sent with a different text, this is recorded once.
        """
        stored = self.recorder.state.calls.answers.get(key)
        if stored is None:
            return None
        drifted = PromptChanged(key=key, request_sha256=hash_request(request, stored.asked))
        same = drifted.request_sha256 == stored.request_sha256
        if not same and hash_question(request) != stored.question_sha256:
            return None
        try:
            request.output_type.model_validate(stored.answer)
        except ValidationError:  # from another version of the program
            return None
        if not same and self.recorder.state.calls.changed_prompts.get(key) != drifted:
            if self.keep is not None:
                self.keep(format_request(request, stored.asked))
            self.recorder.append(drifted)
        return stored


def hash_request(request: ModelRequest, model_label: str) -> str:
    """Hash the question that a model gets; `model_label` names model and temperature."""
    return hashlib.sha256(format_request(request, model_label).encode()).hexdigest()


def hash_question(request: ModelRequest) -> str:
    """Hash the question for identification, without model, temperature, machine and limits."""
    inputs = neutralise_environment(request.inputs)
    prompt = request.prompt if inputs == request.inputs else render(request.role, inputs, images=len(request.images))
    return hash_request(replace(request, prompt=prompt), "")


@cache
def build_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of an answer; do not modify it. Cached, since building takes about 10 ms."""
    return answer.model_json_schema()


def format_request(request: ModelRequest, model_label: str) -> str:
    """Return the question that a model gets, as one JSON document; `record.llm_calls.PromptRecord` reads it.

    Limits (time, tokens, retries) and addresses are not included, since they may change when a run is resumed. Of a
    conversation, only what is new in this step is included, and the hash of all that came before.
    """
    content: dict[str, Any] = {
        "asked": model_label,
        "role": request.role.name,
        "system": request.prompt.system,
        "user": request.prompt.user,
        "images": [image.sha256 for image in request.images],
        "schema": build_schema(request.output_type),
    }
    if request.conversation is not None:
        content["step"] = request.conversation.format_step()
        if exchanges := request.conversation.exchanges:
            question = hashlib.sha256(f"{request.prompt.system}\0{request.prompt.user}".encode()).hexdigest()
            content |= {"system": "", "user": exchanges[-1].result, "schema": {}}
            content["step"]["question"] = question
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
