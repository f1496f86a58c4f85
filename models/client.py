"""Typed questions to language models: `models.make_client(decision, attempt).ask(ROLE, inputs)`.

A question passes four layers, each in its own module, before it reaches a provider: the ledger (`models.ledger`: reuses
recorded answers), retry (`models.retry`: handles outages and truncated answers), the budget (`models.budget`: reserves
the maximum cost) and failover (`models.retry`: uses a substitute model).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from labwright.models.backend import Backend, Image, ModelRequest, Reply, check_reply
from labwright.models.budget import Budget
from labwright.models.conversation import Conversation
from labwright.models.errors import UNUSABLE_ANSWER_ERRORS, BudgetSpent, ContextTooLong, ImagesRefused, ModelError
from labwright.models.ledger import AnswerLedger, KeepPrompt
from labwright.models.prices import CHARACTERS_PER_TOKEN, CONTEXT_FIX, estimate_tokens
from labwright.models.prompt_renderer import render
from labwright.models.retry import Retry
from labwright.models.roles.experiment_code import CODER
from labwright.models.roles.role import AnyRole, In, Out, Role
from labwright.models.settings import ModelSettings
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import CallUnanswered
from labwright.record.schema.decisions import CallKey


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
        self._answers = AnswerLedger(recorder, clock, keep if settings.keep_prompts else None)

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

    async def check_room(self, role: Role[In, Out], inputs: In, *, extra_characters: int) -> None:
        """Check that a prompt with this many extra characters fits into the context of the role's model.

        Raises: `ContextTooLong`.
        """
        window = await self._backend.get_context_limit(role)
        tokens = estimate_tokens(self.make_request(role, inputs)) + round(extra_characters / CHARACTERS_PER_TOKEN)
        if window is not None and tokens > window:
            raise ContextTooLong(
                f"{self.get_model_name(role)}: role '{role}' takes about {tokens} tokens in this study, "
                f"{extra_characters} characters "
                f"of code among them, and the model's context is {window}; {CONTEXT_FIX}"
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
        request = self.make_request(role, inputs, images, conversation)
        asked = f"{self._backend.get_model_name(role)} at temperature {request.temperature:g}"

        async def ask(key: CallKey, request: ModelRequest) -> Reply:
            if self._budget is None:
                return check_reply(request, await self._backend.answer(request))
            return check_reply(request, await self._budget.answer(key, request, self._backend))

        event = await self._answers.answer(key, request, asked, lambda: self._retry.answer(key, request, ask))
        return role.get_output_type(inputs).model_validate(event.answer)


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
        fatal: type[ModelError] = ImagesRefused,
        conversation: Conversation | None = None,
    ) -> Out | None:
        """Return the answer; None if the model gave no usable one or the budget left the call out, which is
        recorded together with the consequence.

        Raises `fatal`, and any `ModelError` that affects more than this question (`ModelUnavailable` ...).
        """
        key = self._make_key(role)
        recorder = self.recorder
        if key in recorder.state.calls.unanswered_calls:
            return None
        try:
            return await self._models.answer(key, role, inputs, images, conversation)
        except fatal:
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
