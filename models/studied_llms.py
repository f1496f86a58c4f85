"""Subjects: language models that experiments query, called by the host (docs/studied-models.md).

All calls pass through this module. The maximum cost of a call is committed before the call, and its answer before the
code sees it; limits on rate, concurrency and spending are shared by all cells. Committed answers are replayed, never
requested again.

Limits: a provider may bill more than was reserved for a request that it never answered.
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
from labwright.models.budget import ROUNDING_TOLERANCE, BudgetSettings
from labwright.models.errors import ModelConfigError
from labwright.models.prices import BYTES_PER_TOKEN, OVERHEAD_TOKENS
from labwright.models.providers import MAX_MODEL_NAME_CHARACTERS, open_model
from labwright.models.settings import MAX_RETRY_WAIT_SECONDS, RETRY_WAIT_SECONDS, SubjectSettings, locate_model
from labwright.models.transport import UNREADABLE_RESPONSE_ERRORS, Sleep, describe_error, find_redirect, is_transient
from labwright.record.llm_calls import LLMBudgetSpent, LLMCallStore, LLMQuestionRefused, LLMUnavailable
from labwright.record.schema import replace_unencodable
from labwright.record.schema.decisions import Cost, LLMExchange, LLMQuestion


def check_subjects(subjects: Mapping[str, SubjectSettings], caps: BudgetSettings) -> None:
    """Check that subjects can be opened, and that their cost can be counted under a cap. Raises `ModelConfigError`."""
    for name, one in subjects.items():
        if not name.isidentifier():
            raise ModelConfigError(f"subjects.{name}: use only letters, digits and _ in a subject's name")
        try:
            open_model(locate_model(one.model, one.base_url, os.environ))
        except ModelConfigError as error:
            raise ModelConfigError(f"subjects.{name}: {error}") from None
    unknown = [name for name, one in subjects.items() if prices.format_price(one.model_settings) == "unknown"]
    if unknown and (caps.subject_usd or caps.usd) is not None:
        raise ModelConfigError(
            f"a budget in USD is set, but the price of subject {', '.join(unknown)} is not known: set it in USD per "
            f"million tokens, e.g. --set 'subjects.{unknown[0]}.price={{input: 3.0, output: 15.0}}'"
        )
    paid = [name for name, one in subjects.items() if prices.format_price(one.model_settings) != "free"]
    if paid and caps.usd is not None and caps.subject_usd is None:
        raise ModelConfigError(
            f"budget.usd does not cover subjects ({', '.join(paid)}): set their own cap with "
            "budget.subject_usd, which is separate"
        )


MAX_SCHEMA_DEPTH = 40
"""Maximum nesting of lists and dicts in the JSON schema of a question."""
MAX_DOUBTFUL_TRIES = 4
"""Maximum number of tries of one question that may have to be paid."""


class StudiedLlms:
    """The subjects of a run, over its single record of exchanges."""

    def __init__(
        self,
        subjects: Mapping[str, SubjectSettings],
        caps: BudgetSettings,
        exchanges: LLMCallStore,
        *,
        replay: bool = False,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `replay`, only recorded answers are used."""
        self._subjects, self._caps, self._exchanges = subjects, caps, exchanges
        self._replay, self._sleep, self._clock = replay, sleep, clock
        self._open: dict[str, _StudiedLlm] = {}
        self._calls_in_flight: dict[tuple[str, str], asyncio.Task[LLMExchange]] = {}
        self._models = AsyncExitStack()
        self._request_count, self._request_done = 0, asyncio.Event()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._subjects)

    def find(self, cell: str, exchange: str) -> LLMExchange | None:
        return self._exchanges.index.find_exchange(cell, exchange)

    async def ask(self, cell: str, question: LLMQuestion, ordinal: int) -> LLMExchange:
        """Return the committed answer to this draw of a question, or a new one.

        Raises: `LLMQuestionRefused` and the other errors of `sandbox.llm_gateway`, `RecordError`.
        """
        exchange = f"{question.digest}-{ordinal}"
        while (found := self.find(cell, exchange)) is None:
            if self._replay:
                raise LLMQuestionRefused(
                    f"the record has no answer of {question.subject!r} to this question, and a replay asks no new ones"
                )
            key = cell, exchange
            task = self._calls_in_flight.get(key)
            if task is None:  # otherwise another execution of the cell is asking now
                task = asyncio.create_task(self._ask(cell, exchange, question), name=f"question to {question.subject}")
                self._calls_in_flight[key] = task
                try:
                    return await task
                finally:
                    task.cancel()
                    del self._calls_in_flight[key]
            await asyncio.wait({task})
        return found

    async def close(self) -> None:
        for task in list(self._calls_in_flight.values()):
            task.cancel()
        await self._models.aclose()
        await self._exchanges.close()

    async def _ask(self, cell: str, exchange: str, question: LLMQuestion) -> LLMExchange:
        subject = await self._open_llm(question.subject)
        subject.check_question(question)
        most, doubtful = subject.compute_max_cost(question), 0
        async with subject.gate:
            while True:
                await subject.wait_for_turn()
                await self._wait_for_room(question.subject, most)
                self._request_count += 1
                number, began = 0, self._clock()
                try:
                    number = await self._exchanges.reserve(cell, exchange, question, most)
                    response = await subject.send_request(question)
                    subject.record_success()
                    answer = _build_exchange(exchange, question, response)
                    used = prices.compute_billed_usage(
                        response, *subject.compute_max_tokens(question), subject.settings.model_settings
                    )
                    await self._exchanges.settle(
                        number,
                        most,
                        answer,
                        tokens=(used.input_tokens, used.output_tokens),
                        usd=used.usd or 0.0,
                        seconds=self._clock() - began,
                    )
                    return answer
                except _LlmRequestFailed as error:
                    if not error.doubtful:
                        await self._exchanges.release(number, most, str(error))
                    doubtful += error.doubtful
                    subject.record_failure(error, doubtful=doubtful)
                finally:
                    self._request_count -= 1
                    self._request_done.set()

    async def _wait_for_room(self, name: str, most: Cost) -> None:
        """Wait for room in the budget as long as calls in progress may free some. Raises an error if there will be
        no room.
        """
        while (why := self._find_shortage(name, most)) is not None:
            if not self._request_count:
                raise LLMBudgetSpent(why)
            self._request_done.clear()
            await self._request_done.wait()

    def _find_shortage(self, name: str, most: Cost) -> str | None:
        """Return the reason why a call does not fit into the remaining budget; None if it fits."""
        spent, usd, tokens = self._exchanges.spent, self._caps.subject_usd, self._caps.subject_tokens
        if usd is not None and most.usd and spent.usd + most.usd > usd + ROUNDING_TOLERANCE:
            cap = "subject_usd"
            why = f"${spent.usd:.2f} of ${usd:.2f}, and one call to {name!r} may cost ${most.usd:.4f}"
        elif tokens is not None and spent.tokens + most.tokens > tokens:
            cap = "subject_tokens"
            why = f"{spent.tokens} of {tokens} tokens, and one call to {name!r} may take {most.tokens}"
        else:
            return None
        return f"the budget of subjects is used up: {why}; resume with a higher budget.{cap}"

    async def _open_llm(self, name: str) -> _StudiedLlm:
        if name not in self._open:
            one = self._subjects[name]
            model = open_model(locate_model(one.model, one.base_url, os.environ))
            self._open[name] = _StudiedLlm(name, one, model, self._sleep, self._clock)
            await self._models.enter_async_context(model)
        return self._open[name]


class _LlmRequestFailed(Exception):
    """A request that got no answer."""

    def __init__(
        self,
        message: str,
        *,
        temporary: bool = False,
        doubtful: bool = False,
        wait: float | None = None,
        permanent: bool = False,
    ) -> None:
        """`temporary`: a retry may succeed; `doubtful`: it may be billed; `permanent`: every question fails."""
        super().__init__(message)
        self.temporary, self.doubtful, self.wait, self.permanent = temporary, doubtful, wait, permanent


@dataclass
class _StudiedLlm:
    """One subject in this process: its limits and whether it is down."""

    name: str
    settings: SubjectSettings
    model: Model
    sleep: Sleep
    clock: Callable[[], float]
    gate: asyncio.Semaphore = field(init=False)
    _next_request_at: float = 0.0
    """Time at which the next request may be sent."""
    _down_since: float | None = None
    """Start of the current outage; None: the subject answers."""
    _failures: int = 0

    def __post_init__(self) -> None:
        self.gate = asyncio.Semaphore(self.settings.concurrency)

    def check_question(self, question: LLMQuestion) -> None:
        """Check that a question can be asked. Raises `LLMQuestionRefused`."""
        if (question.max_tokens or 1) > self.settings.max_tokens:
            raise LLMQuestionRefused(
                f"max_tokens={question.max_tokens} exceeds the limit of {self.name!r} "
                f"({self.settings.max_tokens}, subjects.{self.name}.max_tokens)"
            )
        if question.logprobs is not None and not self.settings.model.startswith(("openai", "vllm", "ollama")):
            raise LLMQuestionRefused(f"{self.name!r} ({self.settings.model}) returns no logprobs")
        try:  # a failure of the local client is not a failure of the subject, which would end the run
            if not _is_shallow(question.json_schema, MAX_SCHEMA_DEPTH):
                raise ValueError(f"it is nested more than {MAX_SCHEMA_DEPTH} deep")
            json.dumps(question.json_schema, allow_nan=False)
        except UNREADABLE_RESPONSE_ERRORS as error:
            raise LLMQuestionRefused(
                f"this JSON schema cannot be sent to {self.name!r}: {type(error).__name__}: {describe_error(error)}"
            ) from None

    def compute_max_tokens(self, question: LLMQuestion) -> tuple[int, int]:
        """Return the maximum tokens that one request may read and write."""
        tokens = len(question.canonical_text.encode(errors="replace")) // BYTES_PER_TOKEN + OVERHEAD_TOKENS
        return tokens, question.max_tokens or self.settings.max_tokens

    def compute_max_cost(self, question: LLMQuestion) -> Cost:
        """Return the maximum cost of one request."""
        tokens = self.compute_max_tokens(question)
        return Cost(tokens=sum(tokens), usd=prices.compute_max_usd(self.settings.model_settings, *tokens) or 0.0)

    async def wait_for_turn(self) -> None:
        """Wait until a request may be sent: respect the configured rate, and delays requested by the subject."""
        while (wait := self._next_request_at - self.clock()) > 0:
            await self.sleep(wait)
        if self.settings.requests_a_minute is not None:
            self._next_request_at = self.clock() + 60.0 / self.settings.requests_a_minute

    async def send_request(self, question: LLMQuestion) -> ModelResponse:
        """Return the provider's response. Raises `_LlmRequestFailed`."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                return await self.model.request(
                    _build_messages(question), self._build_request_settings(question), _build_parameters(question)
                )
        except (TimeoutError, ai.ModelTimeoutError):
            why = f"no answer within {self.settings.timeout:g} s"
            failed = _LlmRequestFailed(why, temporary=True, doubtful=True)
        except ai.UserError as error:
            failed = _LlmRequestFailed(describe_error(error))
        except UNREADABLE_RESPONSE_ERRORS as error:
            why = f"its response is not an answer ({describe_error(error)})"
            failed = _LlmRequestFailed(why, temporary=True, doubtful=True)
        except ai.ContentFilterError as error:
            failed = _LlmRequestFailed(describe_error(error), doubtful=True)
        except (ai.ModelAPIError, ai.UnexpectedModelBehavior) as error:
            failed = _LlmRequestFailed(
                describe_error(error),
                temporary=is_transient(error) or isinstance(error, ai.ModelQuotaExceededError),
                doubtful=isinstance(error, ai.UnexpectedModelBehavior),
                wait=error.retry_after if isinstance(error, ai.ModelAPIError) else None,
                permanent=isinstance(error, ai.ModelAuthenticationError | ai.ModelNotFoundError)
                or bool(find_redirect(error)),
            )
        raise failed

    def _build_request_settings(self, question: LLMQuestion) -> Any:
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

    def record_success(self) -> None:
        self._down_since, self._failures = None, 0

    def record_failure(self, error: _LlmRequestFailed, *, doubtful: int) -> None:
        """Delay all questions to it until the next try. `doubtful` tries of this request may be billed.

        Raises: `LLMQuestionRefused`, or an error for the outage, if no further try makes sense.
        """
        if error.permanent:
            raise LLMUnavailable(
                f"subject {self.name!r} cannot be asked; check subjects.{self.name} and its key, then resume: {error}"
            )
        if not error.temporary or (doubtful >= 2 and self._down_since is None):  # others got answers
            raise LLMQuestionRefused(f"{self.name!r} did not answer: {error}")
        now = self.clock()
        self._down_since = now if self._down_since is None else self._down_since
        if now - self._down_since >= self.settings.outage_timeout or doubtful >= MAX_DOUBTFUL_TRIES:
            raise LLMUnavailable(
                f"subject {self.name!r} has not answered for {now - self._down_since:.0f} s "
                f"(subjects.{self.name}.outage_timeout); resume when it is back: {error}"
            )
        if self._next_request_at <= now:  # of calls that failed together, the first one sets the time of the next try
            usual = min(MAX_RETRY_WAIT_SECONDS, RETRY_WAIT_SECONDS * 2.0**self._failures)
            wait = usual if error.wait is None else error.wait
            if wait > self.settings.outage_timeout:
                raise LLMUnavailable(
                    f"subject {self.name!r} asks for a delay of {wait:.0f} s, more than the longest wait "
                    f"(subjects.{self.name}.outage_timeout): resume then: {error}"
                )
            self._failures += 1
            self._next_request_at = now + wait


def _is_shallow(value: Any, depth: int) -> bool:
    """Return whether lists and dicts are nested at most `depth` deep."""
    inner: Iterable[Any] = ()
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value).values()
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    return depth >= 0 and all(_is_shallow(one, depth - 1) for one in inner)


def _build_parameters(question: LLMQuestion) -> ModelRequestParameters:
    if question.json_schema is None:
        return ModelRequestParameters()
    return ModelRequestParameters(
        output_mode="native",
        allow_text_output=False,
        output_object=OutputObjectDefinition(json_schema=question.json_schema, name="answer"),
    )


def _build_messages(question: LLMQuestion) -> list[ModelMessage]:
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


def _build_exchange(exchange: str, question: LLMQuestion, response: ModelResponse) -> LLMExchange:
    texts = [part for part in response.parts if isinstance(part, TextPart)]
    details = [response.provider_details, *(part.provider_details for part in texts)]
    tokens: list[dict[str, Any]] = [token for one in details for token in (one or {}).get("logprobs") or ()]
    return LLMExchange(
        id=exchange,
        subject=question.subject,
        text=replace_unencodable("".join(part.content for part in texts)),
        model=replace_unencodable(response.model_name or "")[:MAX_MODEL_NAME_CHARACTERS],
        finish=response.finish_reason or "",
        logprobs=tuple(
            {
                "token": replace_unencodable(one["token"]),
                "logprob": one["logprob"],
                "top": {replace_unencodable(top["token"]): top["logprob"] for top in one.get("top_logprobs") or ()},
            }
            for one in tokens
        ),
    )
