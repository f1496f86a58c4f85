"""Subjects: language models that experiments ask, called by the host (docs/subjects.md).

Every call passes one place: what it may take is committed before it, its answer before the code sees it, and limits on
rate, concurrency and spending are shared by all cells. What was committed is replayed, never asked again.

Not guaranteed: what a provider bills for a request that it never answered beyond what was set aside for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic_ai import exceptions as ai
from pydantic_ai.messages import ModelMessage, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.messages import ModelRequest as Asked
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition

from labwright.models import prices
from labwright.models.budget import ROUNDING, BudgetSettings
from labwright.models.errors import ModelConfigError
from labwright.models.naming import locate
from labwright.models.prices import BYTES_A_TOKEN, OVERHEAD
from labwright.models.providers import LONGEST_NAME, open_model
from labwright.models.settings import RETRY_WAIT, RETRY_WAIT_CAP, SubjectSettings
from labwright.models.transport import UNREADABLE, Sleep, redirected, shown, transient
from labwright.record.exchanges import Exchanges, SubjectBudgetSpent, SubjectDown, SubjectRefused
from labwright.record.nouns.decisions import Spending
from labwright.record.nouns.frozen import encodable
from labwright.record.nouns.subjects import Exchange, Question


def check_subjects(subjects: Mapping[str, SubjectSettings], caps: BudgetSettings) -> None:
    """Refuse subjects that cannot be opened, or not be counted under a cap. Raises `ModelConfigError`."""
    for name, one in subjects.items():
        if not name.isidentifier():
            raise ModelConfigError(f"subjects.{name}: name a subject with letters, digits and _ alone")
        try:
            open_model(locate(one.model, one.base_url, os.environ))
        except ModelConfigError as error:
            raise ModelConfigError(f"subjects.{name}: {error}") from None
    unknown = [name for name, one in subjects.items() if prices.in_words(one.settings) == "unknown"]
    if unknown and (caps.subject_usd or caps.usd) is not None:
        raise ModelConfigError(
            f"a budget in USD is set, and the price of subject {', '.join(unknown)} is not known: set it in USD per "
            f"million tokens, as --set 'subjects.{unknown[0]}.price={{input: 3.0, output: 15.0}}'"
        )
    paid = [name for name, one in subjects.items() if prices.in_words(one.settings) != "free"]
    if paid and caps.usd is not None and caps.subject_usd is None:
        raise ModelConfigError(
            f"budget.usd says nothing of subjects ({', '.join(paid)}): say what they may take with "
            "budget.subject_usd, which comes on top"
        )


DEEPEST = 40
"""Lists and dicts in each other of the JSON schema of a question."""
DOUBTFUL = 4
"""Tries of one question that may have to be paid, at most."""


class SubjectModels:
    """The subjects of a run (`sandbox.subjects.Subjects`), over its one record of exchanges."""

    def __init__(
        self,
        subjects: Mapping[str, SubjectSettings],
        caps: BudgetSettings,
        exchanges: Exchanges,
        *,
        replay: bool = False,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `replay` nothing is asked that was not answered before."""
        self._subjects, self._caps, self._exchanges = subjects, caps, exchanges
        self._replay, self._sleep, self._clock = replay, sleep, clock
        self._open: dict[str, _Subject] = {}
        self._flying: dict[tuple[str, str], asyncio.Task[Exchange]] = {}
        self._models = AsyncExitStack()
        self._under_way, self._settled = 0, asyncio.Event()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._subjects)

    def definition(self, name: str) -> str:
        return self._subjects[name].definition

    def find(self, cell: str, exchange: str) -> Exchange | None:
        return self._exchanges.find(cell, exchange)

    async def ask(self, cell: str, question: Question, ordinal: int) -> Exchange:
        """The committed answer to that draw of a question, or a new one.

        Raises: `SubjectRefused`, `SubjectBudgetSpent`, `SubjectDown`, `RecordError`.
        """
        exchange = f"{question.digest}-{ordinal}"
        while (found := self.find(cell, exchange)) is None:
            if self._replay:
                raise SubjectRefused(
                    f"the record has no answer of {question.subject!r} to this question, and none is asked for anew"
                )
            key = cell, exchange
            if (task := self._flying.get(key)) is None:  # else another execution of the cell asks just now
                task = asyncio.create_task(self._ask(cell, exchange, question), name=f"question to {question.subject}")
                self._flying[key] = task
                try:
                    return await task
                finally:
                    task.cancel()
                    del self._flying[key]
            await asyncio.wait({task})
        return found

    async def close(self) -> None:
        for task in list(self._flying.values()):
            task.cancel()
        await self._models.aclose()
        await self._exchanges.close()

    async def _ask(self, cell: str, exchange: str, question: Question) -> Exchange:
        subject = await self._opened(question.subject)
        subject.check(question)
        most, doubtful = subject.most(question), 0
        async with subject.gate:
            while True:
                await subject.turn()
                await self._room(question.subject, most)
                self._under_way += 1
                number, began = 0, self._clock()
                try:
                    number = await self._exchanges.reserve(cell, exchange, question, most)
                    response = await subject.request(question)
                    subject.answered()
                    answer = _exchange(exchange, question, response)
                    used = prices.billed_usage(response, *subject.most_tokens(question), subject.settings.settings)
                    await self._exchanges.settle(
                        number,
                        most,
                        answer,
                        tokens=(used.input_tokens, used.output_tokens),
                        usd=used.usd or 0.0,
                        seconds=self._clock() - began,
                    )
                    return answer
                except _Failed as error:
                    if not error.doubtful:
                        await self._exchanges.give_back(number, most, str(error))
                    doubtful += error.doubtful
                    subject.failed(error, doubtful=doubtful)
                finally:
                    self._under_way -= 1
                    self._settled.set()

    async def _room(self, name: str, most: Spending) -> None:
        """Wait for room in the budget, as long as calls under way may leave some. Raises `SubjectBudgetSpent`."""
        while (why := self._lacking(name, most)) is not None:
            if not self._under_way:
                raise SubjectBudgetSpent(why)
            self._settled.clear()
            await self._settled.wait()

    def _lacking(self, name: str, most: Spending) -> str | None:
        """What does not fit beside all that is spent and set aside; None where it does."""
        spent, usd, tokens = self._exchanges.spent, self._caps.subject_usd, self._caps.subject_tokens
        if usd is not None and most.usd and spent.usd + most.usd > usd + ROUNDING:
            words = f"${spent.usd:.2f} of ${usd:.2f}, and one to {name!r} may take ${most.usd:.4f}", "subject_usd"
        elif tokens is not None and spent.tokens + most.tokens > tokens:
            words = f"{spent.tokens} of {tokens} tokens, and one to {name!r} may take {most.tokens}", "subject_tokens"
        else:
            return None
        return f"the budget of subjects is used up: {words[0]}; resume with a higher budget.{words[1]}"

    async def _opened(self, name: str) -> _Subject:
        if name not in self._open:
            one = self._subjects[name]
            model = open_model(locate(one.model, one.base_url, os.environ))
            self._open[name] = _Subject(name, one, model, self._sleep, self._clock)
            await self._models.enter_async_context(model)
        return self._open[name]


class _Failed(Exception):
    """A request without an answer."""

    def __init__(
        self, message: str, *, passing: bool, doubtful: bool, wait: float | None = None, ours: bool = False
    ) -> None:
        """`passing`: it may be answered later; `doubtful`: it may have to be paid; `ours`: so fails every question."""
        super().__init__(message)
        self.passing, self.doubtful, self.wait, self.ours = passing, doubtful, wait, ours


@dataclass
class _Subject:
    """One subject as this process has it: its limits, and whether it is down."""

    name: str
    settings: SubjectSettings
    model: Model
    sleep: Sleep
    clock: Callable[[], float]
    gate: asyncio.Semaphore = field(init=False)
    _next: float = 0.0
    """When the next request may go out."""
    _down: float | None = None
    """Since when nothing was answered."""
    _failures: int = 0

    def __post_init__(self) -> None:
        self.gate = asyncio.Semaphore(self.settings.concurrency)

    def check(self, question: Question) -> None:
        """Refuse what cannot be asked. Raises `SubjectRefused`."""
        if (question.max_tokens or 1) > self.settings.max_tokens:
            raise SubjectRefused(
                f"max_tokens={question.max_tokens} is more than an answer of {self.name!r} may have "
                f"({self.settings.max_tokens}, subjects.{self.name}.max_tokens)"
            )
        if question.logprobs is not None and not self.settings.model.startswith(("openai", "vllm", "ollama")):
            raise SubjectRefused(f"{self.name!r} ({self.settings.model}) gives no logprobs")
        try:  # what our own client stumbles over is no fault of the subject, for which the run would end
            if not _flat(question.json_schema, DEEPEST):
                raise ValueError(f"it is nested more than {DEEPEST} deep")
            json.dumps(question.json_schema, allow_nan=False)
        except UNREADABLE as error:
            raise SubjectRefused(
                f"this JSON schema cannot be sent to {self.name!r}: {type(error).__name__}: {shown(error)}"
            ) from None

    def most_tokens(self, question: Question) -> tuple[int, int]:
        """The most that one request may read, and write."""
        tokens = len(question.text.encode(errors="replace")) // BYTES_A_TOKEN + OVERHEAD
        return tokens, question.max_tokens or self.settings.max_tokens

    def most(self, question: Question) -> Spending:
        """The most that one request may take."""
        tokens = self.most_tokens(question)
        return Spending(tokens=sum(tokens), usd=prices.most_usd(self.settings.settings, *tokens) or 0.0)

    async def turn(self) -> None:
        """Wait until a request may go out: as often as was set, and not while the subject asked to be left alone."""
        while (wait := self._next - self.clock()) > 0:
            await self.sleep(wait)
        if self.settings.requests_a_minute is not None:
            self._next = self.clock() + 60.0 / self.settings.requests_a_minute

    async def request(self, question: Question) -> ModelResponse:
        """The provider's response. Raises `_Failed`."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await self.model.request(_messages(question), self._request_settings(question), _form(question))
        except (TimeoutError, ai.ModelTimeoutError):
            raise _Failed(f"no answer within {self.settings.timeout:g} s", passing=True, doubtful=True) from None
        except ai.UserError as error:
            raise _Failed(shown(error), passing=False, doubtful=False) from None
        except UNREADABLE as error:
            raise _Failed(f"what it sent is no answer ({shown(error)})", passing=True, doubtful=True) from None
        except ai.ContentFilterError as error:
            raise _Failed(shown(error), passing=False, doubtful=True) from None
        except (ai.ModelAPIError, ai.UnexpectedModelBehavior) as error:
            quota = isinstance(error, ai.ModelQuotaExceededError)
            raise _Failed(
                shown(error),
                passing=transient(error) or quota,
                doubtful=isinstance(error, ai.UnexpectedModelBehavior),
                wait=error.retry_after if isinstance(error, ai.ModelAPIError) else None,
                ours=isinstance(error, ai.ModelAuthenticationError | ai.ModelNotFoundError) or bool(redirected(error)),
            ) from None

    def _request_settings(self, question: Question) -> Any:
        given: dict[str, Any] = {
            "timeout": self.settings.timeout,
            "max_retries": 0,
            "max_tokens": question.max_tokens or self.settings.max_tokens,
        }
        if question.temperature is not None:
            given["temperature"] = question.temperature
        if question.logprobs is not None:
            given |= {"openai_logprobs": True, "openai_top_logprobs": question.logprobs}
        return given

    def answered(self) -> None:
        self._down, self._failures = None, 0

    def failed(self, error: _Failed, *, doubtful: int) -> None:
        """Have all questions to it wait before the next try. `doubtful` tries of this one may have to be paid.

        Raises: `SubjectRefused`, `SubjectDown`, where no try is worth it.
        """
        if error.ours:
            raise SubjectDown(
                f"subject {self.name!r} cannot be asked; check subjects.{self.name} and its key, then resume: {error}"
            )
        if not error.passing or (doubtful >= 2 and self._down is None):  # others got answers
            raise SubjectRefused(f"{self.name!r} did not answer: {error}")
        now = self.clock()
        self._down = now if self._down is None else self._down
        if now - self._down >= self.settings.outage_timeout or doubtful >= DOUBTFUL:
            raise SubjectDown(
                f"subject {self.name!r} has answered nothing for {now - self._down:.0f} s "
                f"(subjects.{self.name}.outage_timeout); resume when it is back: {error}"
            )
        if self._next <= now:  # of calls that failed together the first one says when to try again
            wait = min(RETRY_WAIT_CAP, RETRY_WAIT * 2.0**self._failures) if error.wait is None else error.wait
            if wait > self.settings.outage_timeout:
                raise SubjectDown(
                    f"subject {self.name!r} is to be left alone for {wait:.0f} s, longer than is waited "
                    f"(subjects.{self.name}.outage_timeout): resume then: {error}"
                )
            self._failures += 1
            self._next = now + wait


def _flat(value: Any, depth: int) -> bool:
    """Whether lists and dicts are nested no deeper than that."""
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    return depth >= 0 and all(_flat(one, depth - 1) for one in inner)


def _form(question: Question) -> ModelRequestParameters:
    return (
        ModelRequestParameters()
        if question.json_schema is None
        else ModelRequestParameters(
            output_mode="native",
            allow_text_output=False,
            output_object=OutputObjectDefinition(json_schema=question.json_schema, name="answer"),
        )
    )


def _messages(question: Question) -> list[ModelMessage]:
    found: list[ModelMessage] = []
    for one in question.messages:
        if one.role == "assistant":
            found.append(ModelResponse(parts=[TextPart(one.content)]))
            continue
        part = SystemPromptPart(one.content) if one.role == "system" else UserPromptPart(one.content)
        if found and isinstance(found[-1], Asked):
            found[-1] = Asked(parts=[*found[-1].parts, part])
        else:
            found.append(Asked(parts=[part]))
    return found


def _exchange(exchange: str, question: Question, response: ModelResponse) -> Exchange:
    texts = [part for part in response.parts if isinstance(part, TextPart)]
    details = [response.provider_details, *(part.provider_details for part in texts)]
    tokens: list[dict[str, Any]] = [token for one in details for token in (one or {}).get("logprobs") or ()]
    return Exchange(
        id=exchange,
        subject=question.subject,
        text=encodable("".join(part.content for part in texts)),
        model=encodable(response.model_name or "")[:LONGEST_NAME],
        finish=response.finish_reason or "",
        logprobs=tuple(
            {
                "token": encodable(one["token"]),
                "logprob": one["logprob"],
                "top": {encodable(top["token"]): top["logprob"] for top in one.get("top_logprobs") or ()},
            }
            for one in tokens
        ),
    )
