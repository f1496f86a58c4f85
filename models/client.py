"""Typed questions to language models: `models.make_client(decision, attempt).ask(ROLE, inputs)`.

A question passes four layers before it reaches a provider: the ledger (reuses recorded answers), retry
(`models.retry`: handles outages and truncated answers), the budget (`models.budget`: reserves the maximum cost) and
failover (`models.retry`: uses a substitute model).
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from inspect import isfunction
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, DictLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import BaseModel, ValidationError

from labwright.models import prompt_filters
from labwright.models.backend import Backend, Image, ModelRequest, Prompt, Reply
from labwright.models.budget import Budget
from labwright.models.conversation import Conversation
from labwright.models.errors import (
    UNUSABLE_ANSWER_ERRORS,
    BudgetSpent,
    ContextTooLong,
    ImagesRefused,
    ModelOutputInvalid,
)
from labwright.models.prices import CHARACTERS_PER_TOKEN, CONTEXT_FIX
from labwright.models.retry import Retry
from labwright.models.roles.experiment_code import CODER
from labwright.models.roles.role import PROMPTS_FOLDER, AnyRole, In, Out, Role, neutralise_environment
from labwright.models.settings import ModelSettings
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import CallAnswered, CallUnanswered, PromptChanged
from labwright.record.machine import BENCHMARK_NETWORK
from labwright.record.schema.decisions import CallKey

# The ledger layer: an answered question is not asked again, and every answer is committed before it is used.
#
# A call is identified by (decision, attempt, role, ordinal). If the ledger has an answer to the same question under
# this key, the answer is reused. Questions are the same if they agree in all fields except those about machine and
# limits (`models.roles.role.EnvironmentField`): a change in these is recorded, and the answer is kept. A different
# question under the key is a new call, whose answer replaces the old one; both are paid for. Therefore everything that
# depends on an answer can be repeated from the ledger alone. In a run a question is stored before it is sent
# (`record.llm_calls`); if that fails, nothing is asked and nothing is billed.
#
# Limits: a kill between a provider's answer and its commit loses that answer, and the call is made again.

KeepPrompt = Callable[[str], None]
"""Stores the text of a question, e.g. in `record.llm_calls`. Raises `RecordError`."""


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


# Render prompts from typed inputs: `<role>.md` in the folder of the role has a block `system`, the same for all calls
# of the role in a run, and a block `user`. Partials begin with an underscore.
#
# Providers cache the common prefix of requests, so shared text comes first. The prompts of all roles that know the
# study begin alike (`_study.md`), and so do those of roles that see only its figures (`_drawn.md`). Then comes the text
# of the role, then the text of the call, most stable part first. `system` contains nothing that may change during a run
# (limits, devices, packages, notes).
#
# Templates see the fields of the inputs by name, and `images`, the number of images attached to the prompt. Values
# are never interpreted as templates. `models.prompt_filters` decides how much of a value is shown.

PROMPT_FILTERS = {
    name: one
    for name, one in vars(prompt_filters).items()
    if isfunction(one) and one.__module__ == prompt_filters.__name__ and not name.startswith("_")
}


def render(role: AnyRole, inputs: BaseModel, *, images: int = 0, loader: BaseLoader | None = None) -> Prompt:
    """Render the prompt of a role. Raises `jinja2.UndefinedError` if the inputs lack a field of the template."""
    template = _make_environment(loader, role.folder).get_template(f"{role.name}.md")
    values = {name: getattr(inputs, name) for name in type(inputs).model_fields}
    context = template.new_context({**values, "images": images})
    system, user = (
        _collapse_blank_lines("".join(template.blocks[block](context))).strip() + "\n" for block in ("system", "user")
    )
    return Prompt(system=system, user=user)


def _collapse_blank_lines(text: str) -> str:
    """Collapse runs of blank lines, except in fenced blocks: edits quote these and must match them exactly."""
    return re.sub(
        r"^(`{3,})[^\n`]*\n.*?^\1$|\n{3,}",
        lambda run: run[0] if run[1] else "\n\n",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


@functools.cache
def _make_environment(loader: BaseLoader | None, folder: Path) -> ImmutableSandboxedEnvironment:
    # Read all files at once: if the program is updated during a run, the run keeps its prompts.
    paths = (path for one in (PROMPTS_FOLDER, folder) for path in one.glob("*.md"))
    files = {path.name: path.read_text(encoding="utf-8") for path in paths}
    environment = ImmutableSandboxedEnvironment(
        loader=loader or DictLoader(files),
        undefined=StrictUndefined,
        autoescape=False,  # text for a model, not markup
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # needed for partials to end their last line
    )
    filters: dict[str, Any] = environment.filters
    filters.update(PROMPT_FILTERS)
    names: dict[str, Any] = environment.globals
    names.update(length=prompt_filters.FIELD_LENGTHS, network_timed=BENCHMARK_NETWORK)
    return environment


class Models:
    """The models of a run; each question is answered at most once."""

    def __init__(
        self,
        backend: Backend,
        recorder: Recorder,
        settings: ModelSettings,
        clock: Callable[[], float],
        *,
        retry: Retry | None = None,
        budget: Budget | None = None,
        keep: KeepPrompt | None = None,
    ) -> None:
        """`clock` returns monotonic seconds, e.g. `time.monotonic`. `keep` receives each question before it is asked,
        unless `models.keep_prompts` is off."""
        self._backend = backend
        self._settings = settings
        self._budget = budget
        self._retry = retry or Retry(settings)
        self.recorder = recorder
        self._clock = clock
        self._keep = keep if settings.keep_prompts else None

    @property
    def has_author(self) -> bool:
        """Whether a language model works with tools on any task (`models.author`); the offline model names parts."""
        return self._backend.get_model_name(CODER) not in ("offline", "nobody")

    @property
    def accepts_images(self) -> bool:
        """Whether a model accepts images. A model that refused images gets no more images from this process."""
        return self._backend.accepts_images

    def get_model_name(self, role: AnyRole) -> str:
        """Return the model configured for a role."""
        return self._backend.get_model_name(role)

    async def check_room(self, role: AnyRole, characters: int) -> None:
        """Check that a prompt with this many characters fits into the context of the role's model.

        Raises: `ContextTooLong`.
        """
        window = await self._backend.get_context_limit(role)
        tokens = round(characters / CHARACTERS_PER_TOKEN)
        if window is not None and tokens > window:
            raise ContextTooLong(
                f"{self.get_model_name(role)}: role '{role}' takes about {tokens} tokens in this study, and the "
                f"model's context is {window}; {CONTEXT_FIX}"
            )

    def make_client(self, decision: int, attempt: int) -> ModelClient:
        """Return a client for one attempt at one decision. Make only one client per attempt, since it counts calls from
        zero.
        """
        return ModelClient(self, decision, attempt)

    def make_request(
        self, role: Role[In, Out], inputs: In, images: Sequence[Image] = (), conversation: Conversation | None = None
    ) -> ModelRequest:
        """Build the question to the role's model."""
        return ModelRequest(
            role=role,
            inputs=inputs,
            prompt=render(role, inputs, images=len(images)),
            output_type=role.get_output_type(inputs),
            images=tuple(images),
            temperature=self._settings.get_temperature(role),
            max_tokens=self._settings.get_max_tokens(role),
            conversation=conversation,
        )

    async def answer(
        self,
        key: CallKey,
        role: Role[In, Out],
        inputs: In,
        images: Sequence[Image] = (),
        conversation: Conversation | None = None,
    ) -> Out:
        """Return the answer under `key`. Use `make_client(...).ask(...)`, which builds the key. Raises `ModelError`."""
        event = await self.answer_request(key, self.make_request(role, inputs, images, conversation))
        return role.get_output_type(inputs).model_validate(event.answer)

    async def answer_request(self, key: CallKey, request: ModelRequest) -> CallAnswered:
        """Return the committed answer to a question. Raises `ModelError`."""
        if (known := self._find_answer(key, request)) is not None:
            return known
        asked = f"{self._backend.get_model_name(request.role)} at temperature {request.temperature:g}"
        if self._keep is not None:
            self._keep(format_request(request, asked))
        began = self._clock()
        reply = await self._retry.answer(key, request, self._ask)
        event = CallAnswered(
            key=key,
            request_sha256=hash_request(request, asked),
            question_sha256=hash_question(request),
            model=reply.model,
            answer=reply.output.model_dump(mode="json", by_alias=True),
            usage=reply.usage,
            seconds=max(0.0, self._clock() - began),
            retries=reply.retries,
            asked=asked,
            left_out=reply.left_out,
        )
        self.recorder.append(event)
        return self.recorder.state.calls.answers.get(key, event)  # in the form that a resumed run will read

    async def _ask(self, key: CallKey, request: ModelRequest) -> Reply:
        """Return a reply that the role accepts for these inputs. Raises `ModelOutputInvalid`, other `ModelError`."""
        backend, budget = self._backend, self._budget
        reply = await (backend.answer(request) if budget is None else budget.answer(key, request, backend))
        try:
            request.check_answer(reply.output)
        except ValueError as error:
            reason = "; ".join(str(error).splitlines())[:600]
            raise ModelOutputInvalid(f"{reply.model}: invalid answer of role '{request.role}': {reason}") from None
        return reply

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
            if self._keep is not None:
                self._keep(format_request(request, stored.asked))
            self.recorder.append(drifted)
        return stored


class ModelClient:
    """Asks questions for one attempt at one decision, and counts its calls by role.

    Calls of the same role are numbered in the order in which `ask` is called: make them in an order that a resumed
    run repeats, and `skip` calls whose outcome is recorded.
    """

    def __init__(self, models: Models, decision: int, attempt: int) -> None:
        self._models = models
        self.decision = decision
        self.recorder = models.recorder
        self._attempt = attempt
        self._asked: Counter[str] = Counter()

    def get_model_name(self, role: AnyRole) -> str:
        """Return the model configured for a role."""
        return self._models.get_model_name(role)

    async def ask(self, role: Role[In, Out], inputs: In, images: Sequence[Image] = ()) -> Out:
        """Return a validated answer. Raises `ModelError`."""
        return await self._models.answer(self._make_key(role), role, inputs, images)

    async def ask_or_none(
        self,
        role: Role[In, Out],
        inputs: In,
        images: Sequence[Image] = (),
        *,
        instead: str,
        conversation: Conversation | None = None,
    ) -> Out | None:
        """Return the answer; None if the model gave no usable one or the budget left the call out, which is
        recorded together with the consequence.

        Raises `ImagesRefused`, and any `ModelError` that affects more than this question (`ModelUnavailable` ...).
        """
        key = self._make_key(role)
        recorder = self.recorder
        if key in recorder.state.calls.unanswered_calls:
            return None
        try:
            return await self._models.answer(key, role, inputs, images, conversation)
        except ImagesRefused:
            raise
        except (*UNUSABLE_ANSWER_ERRORS, BudgetSpent) as error:
            if isinstance(error, BudgetSpent) and not error.optional:
                raise
            recorder.append(CallUnanswered(key=key, why=str(error), then=instead))
            return None

    def get_next_key(self, role: AnyRole) -> CallKey:
        """Return the key of the role's next call."""
        return CallKey(decision=self.decision, attempt=self._attempt, role=role.name, ordinal=self._asked[role.name])

    def _make_key(self, role: AnyRole) -> CallKey:
        key = self.get_next_key(role)
        self._asked[role.name] += 1
        return key

    def skip(self, role: AnyRole) -> None:
        """Count a call that is not repeated because its outcome is recorded."""
        self._asked[role.name] += 1
