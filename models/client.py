"""Typed questions to language models: `models.at(decision, attempt).ask(ROLE, inputs)`.

A question passes four layers, each in its module, before a provider: the ledger (`models.ledger`: an answer is given
out again), retry (`models.retry`: an outage, an answer that was cut), the budget (`models.budget`: the most that it may
take is set aside) and failover (`models.failover`: a model that stands in).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from labwright.models.backend import Backend, Image, ModelRequest, Reply, checked
from labwright.models.budget import Budget
from labwright.models.context import CHARS_A_TOKEN, FIX, estimated_tokens
from labwright.models.errors import UNUSABLE, ContextTooLong, ImagesRefused, ModelError
from labwright.models.ledger import AnswerLedger, Keep
from labwright.models.render import render
from labwright.models.retry import Retry
from labwright.models.roles.role import AnyRole, In, Out, Role
from labwright.models.settings import ModelSettings
from labwright.record.events.running import Unanswered
from labwright.record.log import Recorder
from labwright.record.nouns.decisions import CallKey


class Models:
    """The models of a run, each question answered at most once."""

    def __init__(
        self,
        backend: Backend,
        recorder: Recorder,
        settings: ModelSettings,
        clock: Callable[[], float],
        *,
        retry: Retry | None = None,
        budget: Budget | None = None,
        keep: Keep | None = None,
    ) -> None:
        """`clock` gives seconds that never go back, e.g. `time.monotonic`. `keep` is given each question before it is
        asked, unless `models.keep_prompts` is off."""
        self._backend = backend
        self._settings = settings
        self._budget = budget
        self._retry = retry or Retry(settings)
        self.recorder = recorder
        self._answers = AnswerLedger(recorder, clock, keep if settings.keep_prompts else None)

    @property
    def sees(self) -> bool:
        """Whether a model looks at pictures. One that refused them is blind for the rest of the process."""
        return self._backend.sees

    def name_of(self, role: AnyRole) -> str:
        """The model that plays a role, as it was configured."""
        return self._backend.name_of(role)

    async def check_room(self, role: Role[In, Out], inputs: In, *, beside: int) -> None:
        """Refuse a prompt beside which so many characters do not fit into what the role's model reads.

        Raises: `ContextTooLong`.
        """
        window = await self._backend.reads(role)
        tokens = estimated_tokens(self.request(role, inputs)) + round(beside / CHARS_A_TOKEN)
        if window is not None and tokens > window:
            raise ContextTooLong(
                f"{self.name_of(role)}: role '{role}' takes about {tokens} tokens in this study, {beside} characters "
                f"of code among them, and the model's context is {window}; {FIX}"
            )

    def at(self, decision: int, attempt: int) -> ModelClient:
        """A client for one attempt at one decision. Make it once an attempt: it counts from zero."""
        return ModelClient(self, decision, attempt)

    def request(self, role: Role[In, Out], inputs: In, images: Sequence[Image] = ()) -> ModelRequest:
        """The question to the role's model."""
        return ModelRequest(
            role=role,
            inputs=inputs,
            prompt=render(role, inputs, images=len(images)),
            output_type=role.output_for(inputs),
            images=tuple(images),
            temperature=self._settings.temperature(role),
            max_tokens=self._settings.tokens(role),
        )

    async def answer(self, key: CallKey, role: Role[In, Out], inputs: In, images: Sequence[Image] = ()) -> Out:
        """The answer under `key`. Use `at(...).ask(...)`, which makes the key. Raises `ModelError`."""
        request = self.request(role, inputs, images)
        asked = f"{self._backend.name_of(role)} at temperature {request.temperature:g}"

        async def ask(key: CallKey, request: ModelRequest) -> Reply:
            if self._budget is None:
                return checked(request, await self._backend.answer(request))
            return checked(request, await self._budget.answer(key, request, self._backend))

        event = await self._answers.answer(key, request, asked, lambda: self._retry.answer(key, request, ask))
        return role.output_for(inputs).model_validate(event.answer)


class ModelClient:
    """Asks for one attempt at one decision, and counts its calls by role.

    Calls of the same role get their ordinals in the order in which `ask` is called: call them in an order that a
    resumed run repeats, and `skip` those whose outcome the record has.
    """

    def __init__(self, models: Models, decision: int, attempt: int) -> None:
        self._models = models
        self.decision = decision
        self._attempt = attempt
        self._asked: Counter[str] = Counter()

    def name_of(self, role: AnyRole) -> str:
        """The model that plays a role."""
        return self._models.name_of(role)

    async def ask(self, role: Role[In, Out], inputs: In, images: Sequence[Image] = ()) -> Out:
        """A validated answer. Raises `ModelError`."""
        return await self._models.answer(self._next(role), role, inputs, images)

    async def usable(
        self,
        role: Role[In, Out],
        inputs: In,
        images: Sequence[Image] = (),
        *,
        then: str,
        fatal: type[ModelError] = ImagesRefused,
    ) -> Out | None:
        """The answer; None where the model gave none that can be used, which is recorded with what is done instead.

        Raises: `fatal`, and the `ModelError` that concern more than this one question (`ModelUnavailable` ...).
        """
        key = self._next(role)
        recorder = self._models.recorder
        if key in recorder.state.unanswered:
            return None
        try:
            return await self._models.answer(key, role, inputs, images)
        except fatal:
            raise
        except UNUSABLE as error:
            recorder.append(Unanswered(key=key, why=str(error), then=then))
            return None

    def _next(self, role: AnyRole) -> CallKey:
        key = CallKey(decision=self.decision, attempt=self._attempt, role=role.name, ordinal=self._asked[role.name])
        self._asked[role.name] += 1
        return key

    def skip(self, role: AnyRole) -> None:
        """Count a call that is not made again: its outcome is recorded."""
        self._asked[role.name] += 1
