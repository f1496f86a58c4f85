"""The retry layer: a question is asked again after an outage, and with a higher limit if its answer was truncated.

Calls reach this layer when the provider's own retries are used up. While a provider is down, the circuit is open: one
call at a time probes it, other calls wait, and experiments continue. Each wait is an event (`ProviderOutage`, with the
time of the next try), and so is the recovery. An outage is probed at growing intervals, for up to
`models.outage_timeout` in total (a key that is no longer accepted and a model that is gone count as outages: they may
be fixed at the provider). If a quota is renewed within that time or before the run's time limit, the layer waits for it
once.

Limits: one circuit serves all models of a run; if one of several providers is down, all wait.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.errors import (
    AccessLost,
    AnswerCut,
    BudgetSpent,
    ImagesRefused,
    ModelConfigError,
    ModelError,
    ModelOutputInvalid,
    ModelRefused,
    ModelUnavailable,
    ProviderDown,
    QuotaSpent,
)
from labwright.models.roles import PLAN, ROLES, VISION
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.record.events.run_events import ProviderOutage, ProviderRecovered
from labwright.record.schema.decisions import CallKey, TokenUsage

AskFunction = Callable[[CallKey, ModelRequest], Awaitable[Reply]]
MAX_LONELY_ROUNDS = 3
"""Maximum number of rounds without an answer, while other requests get answers; then a request fails."""
OUTAGE_WAIT_SECONDS = 30.0
"""Seconds before a provider that is down is asked again, doubled each time: most outages last minutes."""
MAX_OUTAGE_WAIT_SECONDS = 600.0
"""Maximum number of seconds between two such tries: this is the maximum time that a run loses after the provider
recovers.
"""


@dataclass
class Retry:
    """Asks until an answer arrives. Without `report_outage`, it does not wait for the end of an outage.

    `seconds_left` returns what remains of the run's time limit.
    """

    settings: ModelSettings
    report_outage: Callable[[ProviderOutage | ProviderRecovered], object] | None = None
    seconds_left: Callable[[], float] = lambda: math.inf
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _outage_since: float | None = None
    """Time at which the circuit opened; None while it is closed."""
    _next_try_at: float = 0.0
    _wait_seconds: float = 0.0
    _answer_count: int = 0
    _needed_tokens: dict[str, int] = field(default_factory=dict[str, int])
    """Tokens that an answer of a role needed, if more than configured."""

    async def answer(self, key: CallKey, request: ModelRequest, ask: AskFunction) -> Reply:
        """Return the reply, including the usage of failed tries.

        Raises: `ProviderDown`; `ModelOutputInvalid`: the answer was truncated at the maximum length; and the errors of
        `ask`.
        """
        asked = replace(request, max_tokens=max(request.max_tokens, self._needed_tokens.get(request.role.name, 0)))
        cuts: list[AnswerCut] = []
        lonely = 0
        while True:
            answers = self._answer_count
            try:
                async with self._open_try(key):
                    reply = await ask(key, asked)
            except AnswerCut as cut:
                cuts.append(cut)
                tries = 1 + self.settings.output_retries
                if cut.tokens <= asked.cut_at:
                    raise _make_given_up_error(cut, asked, "the maximum of the model") from None
                if len(cuts) == tries:
                    raise _make_given_up_error(cut, asked, f"the last of {tries} answers") from None
                asked = replace(asked, max_tokens=2 * cut.tokens, cut_at=cut.tokens, cuts=len(cuts))
            except BudgetSpent:
                if not asked.cuts:
                    raise
                raise _make_given_up_error(cuts[-1], asked, "and the budget has no room for a longer one") from None
            except ModelUnavailable as error:
                if self.report_outage is None or isinstance(error, ProviderDown):
                    raise
                lonely += self._answer_count > answers
                if lonely >= MAX_LONELY_ROUNDS and isinstance(error, AccessLost | QuotaSpent):
                    raise ProviderDown(
                        f"{error}; other models are answering, so the run no longer waits for it"
                    ) from None
                if lonely >= MAX_LONELY_ROUNDS:
                    raise ModelRefused(
                        f"this request got no answer {lonely} times although other requests did, so the provider is "
                        f"not down; raise models.timeout, or choose another model: {error}"
                    ) from None
            else:
                if not cuts:
                    return reply
                self._needed_tokens[asked.role.name] = asked.max_tokens
                return replace(
                    reply,
                    usage=sum((cut.usage for cut in cuts), start=reply.usage),
                    retries=reply.retries + sum(cut.retries for cut in cuts),
                )

    # --- the circuit ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open_try(self, key: CallKey) -> AsyncGenerator[None]:
        """Wrap one request: wait while the circuit is open, and open or close it depending on the outcome."""
        probe = await self._is_probe()
        try:
            async with asyncio.timeout(self.settings.answer_limit_seconds):
                yield
        except TimeoutError:
            late = ModelUnavailable(
                f"no answer for {key} within {self.settings.answer_limit_seconds:g} s, retries included; "
                "raise models.timeout or choose a faster model"
            )
            late.billed = True
            self._handle_failure(late, probe)
            raise late from None
        except ModelUnavailable as error:
            self._handle_failure(error, probe)
            raise
        except ModelConfigError as error:
            if (
                self._answer_count and self.report_outage is not None
            ):  # a model that was asked late: keep the answers of others
                raise ProviderDown(f"{error}; then resume") from None
            raise
        except ModelError:
            self._handle_answer()  # a refusal is an answer too
            raise
        else:
            self._handle_answer()
        finally:
            if probe:
                self._turn.release()

    @property
    def _is_open(self) -> bool:
        return self._outage_since is not None

    async def _is_probe(self) -> bool:
        """Return whether this request is the one that probes the provider; if so, it holds the lock."""
        while self._is_open:
            await self._turn.acquire()
            if self._is_open:
                try:
                    await self.sleep(max(0.0, self._next_try_at - self.clock()))
                except BaseException:
                    self._turn.release()
                    raise
                return True
            self._turn.release()
        return False

    def _handle_failure(self, error: ModelUnavailable, probe: bool) -> None:
        """Open the circuit, or keep it open. Raises `ProviderDown` if the wait would exceed its limit."""
        if self.report_outage is None or (self._is_open and not probe):
            return
        now = self.clock()
        if self._outage_since is None:
            self._outage_since, self._wait_seconds = now, OUTAGE_WAIT_SECONDS
        else:
            self._wait_seconds = min(2 * self._wait_seconds, MAX_OUTAGE_WAIT_SECONDS)
        lasted = now - self._outage_since
        longest = self.settings.outage_timeout - lasted
        quota = error.seconds if isinstance(error, QuotaSpent) else None
        if quota is not None:
            if quota > max(longest, self.seconds_left()):
                raise ProviderDown(
                    f"{error}; it ends in {quota:.0f} s, after the run's time limit (and "
                    "models.outage_timeout): resume then"
                ) from None
        elif longest <= 0:
            raise ProviderDown(
                f"{error}; the outage has lasted {lasted:.0f} s, the longest wait allowed "
                "(models.outage_timeout): resume when the provider is back"
            ) from None
        wait = min(self._wait_seconds, longest) if quota is None else quota
        self._next_try_at = now + wait
        self.report_outage(ProviderOutage(reason=str(error), until=self.wall_clock() + wait))

    def _handle_answer(self) -> None:
        self._answer_count += 1
        if self._outage_since is not None and self.report_outage is not None:
            since, self._outage_since = self._outage_since, None
            self.report_outage(ProviderRecovered(seconds=max(0.0, self.clock() - since)))


def _make_given_up_error(cut: AnswerCut, request: ModelRequest, why: str) -> ModelOutputInvalid:
    return ModelOutputInvalid(
        f"{cut} (role {request.role}), {why}; raise models.roles.{request.role}.max_tokens if "
        "the model can write more, or choose another model"
    )


# The failover layer: each role's own model, and substitutes while that model is unavailable. An unavailable model is
# not asked for `REST_SECONDS` if another one can substitute for it. A request is passed on only if the model is
# unavailable: a refusal, a wrong key or an invalid answer concerns the request or the user, not the connection.
# pydantic-ai's `FallbackModel` does not support such pauses, models without images, or other kinds of backends.

REST_SECONDS = 60.0
"""Seconds during which a model that was unavailable is asked only if no other is left."""


class Failover(Backend):
    """A `Backend` that gives each role its own models, tried in order."""

    def __init__(
        self, name: str, models: Mapping[str, Sequence[Backend]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`name` describes all models; `models` maps roles to models, and "" those of roles outside the product. Roles
        without models are not answered."""
        super().__init__(name)
        self._models = models
        self._clock = clock
        self._rest: dict[int, float] = {}

    def _list_models(self, role: AnyRole) -> Sequence[Backend]:
        return self._models.get(role.name, self._models.get("", ()))

    @property
    def accepts_images(self) -> bool:
        """Whether any model accepts images."""
        return any(one.accepts_images for one in self._models.get(VISION.name, ())[:1])

    def get_model_name(self, role: AnyRole) -> str:
        return next((one.get_model_name(role) for one in self._list_models(role)), "nobody")

    async def get_context_limit(self, role: AnyRole) -> int | None:
        """Return the smallest known context of the role's models."""
        known = [await one.get_context_limit(role) for one in self._list_models(role)]
        return min((tokens for tokens in known if tokens is not None), default=None)

    async def answer(self, request: ModelRequest) -> Reply:
        """Return the answer of the first available model. Raises `ModelError`; `ModelUnavailable` if no model is
        available.
        """
        if not (models := self._list_models(request.role)):
            raise ModelConfigError(f"no model is configured for role '{request.role}'; set models.roles.{request.role}")
        # the role's own model comes first, paused ones last; models without images are never asked about images
        now = self._clock()
        order = sorted(
            [models[0], *(one for one in models[1:] if one.accepts_images or not request.images)],
            key=lambda one: self._rest.get(id(one), 0.0) > now,
        )
        failed: list[ModelUnavailable] = []
        for backend in order:
            try:
                reply = await backend.answer(request)
                return replace(reply, usage=sum((error.lost for error in failed), start=reply.usage))
            except ModelUnavailable as error:
                self._rest[id(backend)] = self._clock() + REST_SECONDS
                failed.append(error)
            except ImagesRefused:
                if not failed:  # the role's own model: the caller must know that images are not seen
                    raise
        # Raise the failure with the shortest wait, since its model may recover first; the message names the others too.
        soonest = min(failed, key=lambda error: (error.seconds or 0.0) if isinstance(error, QuotaSpent) else 0.0)
        soonest.lost = sum((error.lost for error in failed), start=TokenUsage(usd=0.0, cached_usd=0.0))
        soonest.billed = any(error.billed for error in failed)
        if others := [str(error) for error in failed if error is not soonest]:
            soonest.args = (f"{soonest}; and {'; and '.join(others)}",)
        raise soonest


def open_backend(settings: ModelSettings) -> Backend:
    """Open the backend of all configured models; sends no request. Raises `ModelConfigError`."""
    candidates = {name: settings.list_candidates(role) for name, role in ROLES.items()}
    candidates[""] = settings.model_copy(update={"roles": {}}).list_candidates(PLAN)
    distinct = {(one.name, one.base_url): one for each in candidates.values() for one in each}
    opened = {key: _open_single(one) for key, one in distinct.items()}
    models = {name: [opened[one.name, one.base_url] for one in each] for name, each in candidates.items()}
    if len(opened) == 1 and all(models.values()):
        return next(iter(opened.values()))
    return Failover(settings.model_names, models)


def _open_single(settings: ModelSettings) -> Backend:
    """Open the backend of one model. Imports are local so that only the client in use is loaded (they are slow)."""
    if settings.name == "offline":
        from labwright.models.offline.researcher import OfflineResearcher

        return OfflineResearcher()
    if settings.name.startswith("replay:"):
        from labwright.models.replay import open_replay

        return open_replay(settings.name)
    if settings.name.startswith("cli:"):
        from labwright.models.command_line_agent import open_command_line_agent

        return open_command_line_agent(settings)
    from labwright.models.providers import open_provider

    return open_provider(settings)
