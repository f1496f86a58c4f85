"""The one door to language models: render, look up, ask, commit.

A call is identified by (decision, attempt, role, ordinal). If the ledger holds an answer to this question under that
key, the answer is given out again and nothing is asked. It is this question where all of it agrees but what it tells of
machine and limits (`models.roles.role`): that such text has changed is recorded, and the answer kept. Any other
question under the key is a new call, whose answer takes the place of the old one; both were paid for. A new answer is
committed before anybody sees it, so that what depends on it can be repeated from the ledger alone. In a run a question
is kept before it goes out (`record.prompts`): where that fails, nothing is asked and nothing to be paid.

Not guaranteed: a kill between a provider's answer and its commitment loses that answer, and the call is made again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic import ValidationError

from models.backend import Backend, Image, Reader, Reply, Request
from models.breaker import Breaker
from models.budget import Budget
from models.context import check_room
from models.errors import UNUSABLE, ImagesRefused, ModelError, ModelUnavailable
from models.ledger import Ledger
from models.longer import whole
from models.render import render
from models.roles.role import AnyRole, In, Out, Role, neutral
from models.settings import ModelSettings
from models.tracing import SILENT, Tracing
from record.events.running import Answered, Drifted, Unanswered
from record.nouns.decisions import CallKey

Keep = Callable[[str], None]
"""Keeps the text of a question, e.g. `record.prompts.keep` of a run. Raises `RecordError`."""


class Models:
    """Answers typed questions, each at most once a run."""

    def __init__(
        self, backend: Backend, ledger: Ledger, settings: ModelSettings, clock: Callable[[], float], *,
        breaker: Breaker | None = None, budget: Budget | None = None, keep: Keep | None = None,
        tracing: Tracing = SILENT,
    ) -> None:
        """`clock` gives seconds that never go back, e.g. `time.monotonic`. `breaker` waits while a provider is down.

        `budget` has the most that a call may take set aside before it is made. `keep` is given each question before it
        is asked, unless `models.keep_prompts` is off; `tracing` is told of each call.
        """
        self._backend = backend
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._breaker = breaker
        self._budget = budget
        self._keep = keep if settings.keep_prompts else None
        self._tracing = tracing
        self._longer: dict[str, int] = {}
        """Tokens that an answer of a role needed, where they are more than was set."""

    @property
    def name(self) -> str:
        """The model as it was configured, or all of them in words."""
        return self._backend.name

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
        if isinstance(self._backend, Reader):
            check_room(self._request(role, inputs, ()), await self._backend.reads(role), beside=beside,
                       model=self.name_of(role))

    def at(self, decision: int, attempt: int) -> Desk:
        """A caller for one attempt at one decision. Make it once an attempt: it counts from zero."""
        return Desk(self, decision, attempt)

    async def answer(self, key: CallKey, role: Role[In, Out], inputs: In, *, images: Sequence[Image] = ()) -> Out:
        """The answer under `key`, from the ledger or from the model. Use `at(...).ask(...)`, which makes the key.

        Raises: the `ModelError` of `models.errors`.
        """
        request, output_type = self._request(role, inputs, images), role.output_for(inputs)
        known = self._known(key, request, output_type)
        return known if known is not None else output_type.model_validate((await self._ask(key, request)).answer)

    def _known(self, key: CallKey, request: Request, output_type: type[Out]) -> Out | None:
        """The committed answer to this very question, also where another model or temperature was asked it."""
        stored = self._ledger.answered(key)
        if stored is None:
            return None
        same = request_sha256(request, stored.asked) == stored.request_sha256
        if not same and question_sha256(request) != stored.question_sha256:
            return None
        try:
            answer = output_type.model_validate(stored.answer)
        except ValidationError:  # of another version of the program
            return None
        if not same:
            self._drift(key, request_text(request, stored.asked))
        return answer

    def _drift(self, key: CallKey, text: str) -> None:
        """Record, once, that the question would be sent as this text now."""
        event = Drifted(key=key, request_sha256=_sha256(text))
        if self._ledger.drifted(key) != event:
            if self._keep is not None:
                self._keep(text)
            self._ledger.append(event)

    def given_up(self, key: CallKey) -> bool:
        """Whether no usable answer came of a call, and it is not made again."""
        return self._ledger.given_up(key)

    def give_up(self, key: CallKey, why: str, then: str) -> None:
        """Record that no usable answer came of a call, and what is done instead."""
        self._ledger.append(Unanswered(key=key, why=why, then=then))

    def _request(self, role: Role[In, Out], inputs: In, images: Sequence[Image]) -> Request:
        return Request(
            role=role,
            inputs=inputs,
            prompt=render(role, inputs, images=len(images)),
            output_type=role.output_for(inputs),
            images=tuple(images),
            temperature=self._settings.temperature(role),
            max_tokens=max(self._settings.tokens(role), self._longer.get(role.name, 0)),
        )

    def _asked(self, request: Request) -> str:
        return f"{self._backend.name_of(request.role)} at temperature {request.temperature:g}"

    async def _ask(self, key: CallKey, request: Request) -> Answered:
        asked = self._asked(request)
        text = request_text(request, asked)
        if self._keep is not None:
            self._keep(text)
        digest = _sha256(text)
        with self._tracing.call(key, request_sha256=digest, asked=asked) as tell:
            began = self._clock()
            reply = await self._reply(key, request)
            event = Answered(
                key=key,
                request_sha256=digest,
                question_sha256=question_sha256(request),
                model=reply.model,
                answer=reply.output.model_dump(mode="json", by_alias=True),
                usage=reply.usage,
                seconds=max(0.0, self._clock() - began),
                retries=reply.retries,
                asked=asked,
                left_out=reply.left_out,
            )
            self._ledger.append(event)
            tell(event)
        return self._ledger.answered(key) or event  # as a resume will read it

    async def _reply(self, key: CallKey, request: Request) -> Reply:
        if self._breaker is None:
            return await self._paid(key, request)
        return await self._breaker.through(lambda: self._paid(key, request))

    async def _paid(self, key: CallKey, request: Request) -> Reply:
        """The reply to one try, for which the most that it may take is set aside. What may be billed stays so."""
        if self._budget is None:
            return await self._whole(key, request)
        self._budget.reserve_call(key.decision, str(key), request)
        try:
            return await self._whole(key, request)
        except ModelError as error:
            if not error.billed:
                self._budget.give_back(str(key))
            raise

    async def _whole(self, key: CallKey, request: Request) -> Reply:
        """The reply, for which more room was asked where it was cut at its length: then this is kept for the role."""
        aside: list[str] = []

        def room(longer: Request) -> bool:
            aside.append(f"{key}+{len(aside) + 1}")
            return self._budget is None or self._budget.reserve_longer(key.decision, aside[-1], longer)

        reply, tokens = await whole(
            request, lambda longer: self._tried(key, longer), room, tries=1 + self._settings.output_retries)
        if aside:
            self._longer[request.role.name] = tokens
        for name in aside:
            if self._budget is not None:
                self._budget.give_back(name)
        return reply

    async def _tried(self, key: CallKey, request: Request) -> Reply:
        limit = self._settings.answer_limit
        try:
            async with asyncio.timeout(limit):
                return await self._backend.answer(request)
        except TimeoutError:
            late = ModelUnavailable(
                f"{self._backend.name_of(request.role)} gave no answer for {key} within {limit:g} s, retries included; "
                "raise models.timeout or choose a faster model"
            )
            late.billed = True
            raise late from None


class Desk:
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
        return await self._models.answer(self._next(role), role, inputs, images=images)

    async def usable(
        self, role: Role[In, Out], inputs: In, images: Sequence[Image] = (), *, then: str,
        fatal: type[ModelError] = ImagesRefused,
    ) -> Out | None:
        """The answer; None where the model gave none that can be used, which is recorded with what is done instead.

        Raises: `fatal`, and the `ModelError` that say more than that of one question (`ModelUnavailable` ...).
        """
        key = self._next(role)
        if self._models.given_up(key):
            return None
        try:
            return await self._models.answer(key, role, inputs, images=images)
        except fatal:
            raise
        except UNUSABLE as error:
            self._models.give_up(key, str(error), then)
            return None

    def _next(self, role: AnyRole) -> CallKey:
        key = CallKey(decision=self.decision, attempt=self._attempt, role=role.name, ordinal=self._asked[role.name])
        self._asked[role.name] += 1
        return key

    def skip(self, role: AnyRole) -> None:
        """Count a call that is not made again: what came of it is recorded."""
        self._asked[role.name] += 1


def request_sha256(request: Request, asked: str) -> str:
    """The hash of what a model is shown and asked for; `asked` names model and temperature."""
    return _sha256(request_text(request, asked))


def question_sha256(request: Request) -> str:
    """The hash of a question by which it is known again: without model and temperature, machine and limits."""
    inputs = neutral(request.inputs)
    prompt = request.prompt if inputs == request.inputs else render(request.role, inputs, images=len(request.images))
    return _sha256(request_text(replace(request, prompt=prompt), ""))


def request_text(request: Request, asked: str) -> str:
    """What a model is shown and asked for, as one text (JSON); `record.prompts.Asked` reads it.

    Bounds (time, tokens, retries) and addresses are not part of it: they may change when a run is resumed.
    """
    content = {
        "asked": asked,
        "role": request.role.name,
        "system": request.prompt.system,
        "user": request.prompt.user,
        "images": [image.sha256 for image in request.images],
        "schema": request.output_type.model_json_schema(),
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
