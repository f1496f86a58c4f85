"""The one door to language models: render, look up, ask, commit.

A call is identified by (decision, attempt, role, ordinal). If the ledger holds an answer under that key, the answer is
given out again and nothing is asked; the hash of the request only verifies that it is the same question. A new answer
is committed before anybody sees it, so that what depends on it can be repeated from the ledger alone. In a run the
question is kept before it goes out (`record.prompts`): where that fails, nothing is asked and nothing to be paid.

Not guaranteed: a kill between a provider's answer and its commitment loses that answer, and the call is made again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from models.backend import Backend, Image, Reader, Reply, Request
from models.breaker import Breaker
from models.budget import Budget
from models.context import check_room
from models.errors import ModelError, ModelUnavailable, StaleAnswer
from models.ledger import Ledger
from models.longer import whole
from models.render import render
from models.roles import Role
from models.settings import ModelSettings
from models.tracing import SILENT, Tracing
from record.events.calls import Answered
from record.nouns.calls import CallKey

Output = TypeVar("Output", bound=BaseModel)
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
        self._longer: dict[Role, int] = {}
        """Tokens that an answer of a role needed, where they are more than was set."""

    @property
    def name(self) -> str:
        """The model as it was configured, or all of them in words."""
        return self._backend.name

    @property
    def sees(self) -> bool:
        """Whether a model looks at pictures. One that refused them is blind for the rest of the process."""
        return self._backend.sees

    def name_of(self, role: Role) -> str:
        """The model that plays a role, as it was configured."""
        return self._backend.name_of(role)

    async def check_room(self, role: Role, inputs: BaseModel, output_type: type[BaseModel], *, beside: int) -> None:
        """Refuse a prompt beside which so many characters do not fit into what the role's model reads.

        Raises: `ContextTooLong`.
        """
        if isinstance(self._backend, Reader):
            check_room(self._request(role, inputs, output_type, ()), await self._backend.reads(role), beside=beside,
                       model=self.name_of(role))

    def at(self, decision: int, attempt: int) -> Desk:
        """A caller for one attempt at one decision. Make it once an attempt: it counts from zero."""
        return Desk(self, decision, attempt)

    async def answer(
        self,
        key: CallKey,
        role: Role,
        inputs: BaseModel,
        *,
        output_type: type[Output],
        images: Sequence[Image] = (),
    ) -> Output:
        """The answer under `key`, from the ledger or from the model. Use `at(...).ask(...)`, which makes the key.

        Raises: `StaleAnswer`, and the other `ModelError` of `models.errors`.
        """
        request = self._request(role, inputs, output_type, images)
        stored = self._ledger.answered(key)
        if stored is None:
            stored = await self._ask(key, request)
        else:
            verify(stored, request, self._asked(request))
        return _read(stored, output_type)

    def _request(
        self, role: Role, inputs: BaseModel, output_type: type[BaseModel], images: Sequence[Image]
    ) -> Request:
        return Request(
            role=role,
            inputs=inputs,
            prompt=render(role, inputs, images=len(images)),
            output_type=output_type,
            images=tuple(images),
            temperature=self._settings.temperature(role),
            max_tokens=max(self._settings.tokens(role), self._longer.get(role, 0)),
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
            self._longer[request.role] = tokens
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
    resumed run repeats.
    """

    def __init__(self, models: Models, decision: int, attempt: int) -> None:
        self._models = models
        self._decision = decision
        self._attempt = attempt
        self._asked: Counter[str] = Counter()

    async def ask(
        self, role: Role, inputs: BaseModel, output_type: type[Output], images: Sequence[Image] = ()
    ) -> Output:
        """A validated answer of `output_type`. Raises `ModelError`."""
        key = CallKey(decision=self._decision, attempt=self._attempt, role=role, ordinal=self._asked[role])
        self._asked[role] += 1
        return await self._models.answer(key, role, inputs, output_type=output_type, images=images)


def request_sha256(request: Request, asked: str) -> str:
    """The hash of what a model is shown and asked for; `asked` names model and temperature."""
    return _sha256(request_text(request, asked))


def request_text(request: Request, asked: str) -> str:
    """What a model is shown and asked for, as one text (JSON); `record.prompts.Asked` reads it.

    Bounds (time, tokens, retries) and addresses are not part of it: they may change when a run is resumed.
    """
    content = {
        "asked": asked,
        "role": request.role,
        "system": request.prompt.system,
        "user": request.prompt.user,
        "images": [image.sha256 for image in request.images],
        "schema": request.output_type.model_json_schema(),
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def verify(stored: Answered, request: Request, asked_now: str) -> None:
    """Check that a committed answer belongs to this request.

    Another model or temperature is no contradiction: a run may be resumed with one, and what was paid for is kept.
    Raises: `StaleAnswer`.
    """
    now = request_sha256(request, stored.asked or asked_now)
    if now != stored.request_sha256:
        raise StaleAnswer(
            f"the answer recorded under {stored.key} belongs to another request: "
            f"recorded {stored.request_sha256[:16]}, now asked {now[:16]}; "
            "resume with the program version and settings that the run was recorded with, "
            "or start a new run from what it found"
        )


def _read(stored: Answered, output_type: type[Output]) -> Output:
    try:
        return output_type.model_validate(stored.answer)
    except ValidationError as error:
        raise StaleAnswer(
            f"the answer recorded under {stored.key} is no {output_type.__name__} of this program version "
            f"({error.error_count()} mismatches); resume with the version that the run was recorded with"
        ) from None
