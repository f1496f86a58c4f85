"""The budget layer: decide which work may start in a run, so that all work in progress together never exceeds a cap.

Before a call or an attempt starts, its maximum cost is reserved, as an event; it is settled with the actual cost.
Guarantee: what is spent and reserved stays within the cap. A call or attempt that does not fit next to others in
progress waits for them. A call is a single request if there is little room for its retries.

For the rest of the run, only the likely cost of higher-ranked work is set aside (`CostEstimates`); a required
call (such as an outline) may use what is set aside. Work without room is refused (`BudgetSpent`).

Limits: a provider may bill more than it reports (a request that was interrupted and answered by a second one), or count
more tokens than the upper estimate (`models.prices.estimate_prompt_tokens`).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Literal, Protocol

from pydantic import Field

from labwright.models import prices
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.errors import BudgetSpent, ModelError, ModelOutputInvalid
from labwright.models.prices import OVERHEAD_TOKENS, estimate_prompt_tokens
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import CostReserved, LimitReached, ReservationReturned
from labwright.record.reducers.run_state import RunState
from labwright.record.schema import FrozenModel
from labwright.record.schema.decisions import CallKey, Cost, RunTask, SearchAction

ROUNDING_TOLERANCE = 1e-9
CALLS_WITH_RETRIES = 10
"""Calls with all retries for which there must be room; otherwise a call is one request, so that little is reserved, and
lost if the process dies."""
POLL_SECONDS = 0.1
"""Seconds between checks whether calls or attempts in progress left room for one that waits."""


class BudgetSettings(FrozenModel):
    """Budget caps of a run; None: no cap. The run's wall clock is limited by `time_limit`."""

    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="hard cap in USD for model calls")
    tokens: int | None = Field(default=None, gt=0, description="hard cap on prompt and answer tokens")
    gpu_hours: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="hard cap on GPU-hours of experiments"
    )

    subject_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="USD for calls of experiments to subjects, in addition to usd",
    )
    subject_tokens: int | None = Field(
        default=None, gt=0, description="tokens of calls of experiments to subjects, in addition to tokens"
    )

    def find_exceeded_cap(self, wanted: Cost, more: Cost) -> str | None:
        """Return the cap that `wanted` exceeds, among those to which `more` counts: `$5.00`; None if it fits."""
        if self.usd is not None and more.usd and wanted.usd > self.usd + ROUNDING_TOLERANCE:
            return f"${self.usd:.2f}"
        if self.tokens is not None and more.tokens and wanted.tokens > self.tokens:
            return f"{self.tokens} tokens"
        if (
            self.gpu_hours is not None
            and more.gpu_seconds
            and wanted.gpu_seconds > self.gpu_hours * 3600 + ROUNDING_TOLERANCE
        ):
            return f"{self.gpu_hours:g} GPU-hours"
        return None

    def format_amount(self, amount: Cost) -> str:
        """Format an amount in the capped units: `$1.20 and 0.5 GPU-hours`."""
        parts = [f"${amount.usd:.2f}"] * (self.usd is not None)
        parts += [f"{amount.tokens} tokens"] * (self.tokens is not None)
        parts += [f"{amount.gpu_seconds / 3600:.2f} GPU-hours"] * (self.gpu_hours is not None)
        return " and ".join(parts)


Priority = Literal["optional", "search", "needed"]
"""What a refused call means. optional: it is left out; search: the run reaches a limit; needed: likewise, and the call
may take what is set aside."""


class CostEstimates(Protocol):
    """Costs of the parts of a run."""

    def find_priority(self, state: RunState, decision_id: int, role: str) -> Priority:
        """Return the priority of a role's next call in a decision."""
        ...

    def compute_set_aside(
        self, state: RunState, decision_id: int | None = None, role: str = "", action: SearchAction | None = None
    ) -> Cost:
        """Return what the next call of a role in a decision must leave free; without a role, what an experiment must;
        without a decision, what a new action must."""
        ...

    def estimate_action(self, action: SearchAction, state: RunState) -> Cost: ...

    def compute_attempt_cost(self, limit: float) -> Cost:
        """Return the maximum cost of one execution of code with a limit in seconds."""
        ...


class Budget:
    """Reserves costs, or refuses. Without caps this layer does nothing."""

    def __init__(
        self, caps: BudgetSettings, recorder: Recorder, models: ModelSettings, estimates: CostEstimates | None = None
    ) -> None:
        """Without `estimates`, every call is needed, nothing is set aside, and attempts are not limited."""
        self._caps = caps
        self._recorder = recorder
        self._estimates = estimates
        self._models = models
        self._in_progress = set[str]()
        """Names of calls that a model is answering."""

    async def answer(self, key: CallKey, request: ModelRequest, backend: Backend) -> Reply:
        """Return the backend's reply; the maximum cost is reserved first, and stays reserved if the request may be
        billed.

        Raises: `BudgetSpent`, which limits the run unless the call is optional or for a longer answer; and the errors
        of the backend.
        """
        if self._caps.usd is None and self._caps.tokens is None:
            return await backend.answer(request)
        name = f"{key}+{request.cuts}" if request.cuts else str(key)
        left = self._models.output_retries
        while True:
            asked = await self._reserve_call(key, name, request)
            self._in_progress.add(name)
            try:
                reply = await backend.answer(asked)
            except ModelError as error:
                if not (error.billed or request.cuts):  # truncated answers have to be paid
                    self.release(name)
                if not (asked.single and left and type(error) is ModelOutputInvalid):
                    raise
                left -= 1
            else:
                for number in range(1, request.cuts + 1):  # the name of the first one settles all of them
                    self.release(f"{key}+{number}")
                return reply
            finally:
                self._in_progress.discard(name)

    async def reserve_attempt(self, decision_id: int, name: str, limit: float) -> None:
        """Reserve the maximum cost of a decision's attempt, with a limit in seconds. Raises `BudgetSpent`."""
        if self._caps.gpu_hours is None or self._estimates is None:
            return
        more = CostReserved(k=decision_id, name=name, spending=self._estimates.compute_attempt_cost(limit))
        while self._find_exceeded_cap(more, aside := self._compute_set_aside(decision_id)) is not None:
            if not any(
                one.k != decision_id and one.spending.gpu_seconds
                for one in self._recorder.state.calls.reservations.values()
            ):
                raise self._make_refusal(more, aside)
            await asyncio.sleep(POLL_SECONDS)
        self._recorder.append(more)

    def release(self, name: str) -> None:
        """Record that nothing of the reservation under a name was spent."""
        if name in self._recorder.state.calls.reservations:
            self._recorder.append(ReservationReturned(name=name))

    def find_shortage(self, *actions: SearchAction, settled: bool = False) -> str | None:
        """Return the reason why there is no room for actions, by their likely cost; None if there is room. `settled`:
        assume that nothing in progress costs more."""
        state, estimates = self._recorder.state, self._estimates
        if estimates is None or not (self._caps.usd or self._caps.tokens or self._caps.gpu_hours):
            return None
        share = sum((estimates.estimate_action(one, state) for one in actions), start=Cost())
        aside = estimates.compute_set_aside(state, action=actions[0])
        bound = sum((*state.calls.settled_costs.values(), *state.calls.lost_costs.values()), start=aside)
        for k, decided in state.decisions.items():
            if k not in state.finished_decisions and not settled and not isinstance(decided.action, RunTask):
                done = state.calls.settled_costs.get(k, Cost()) + state.calls.lost_costs.get(k, Cost())
                bound += estimates.estimate_action(decided.action, state).subtract_floored(done)
        cap = self._caps.find_exceeded_cap(bound + share, share)
        if cap is None:
            return None
        return (
            f"the budget of {cap}: {self._caps.format_amount(bound)} are spent, expected for work in progress or set "
            f"aside, and the next step is likely to cost {self._caps.format_amount(share)}"
        )

    async def _reserve_call(self, key: CallKey, name: str, request: ModelRequest) -> ModelRequest:
        """Reserve the maximum cost of a call, with all retries or as a single request, and return the request."""
        prompt = estimate_prompt_tokens(request)
        offers = [
            (
                replace(request, single=single),
                CostReserved(
                    k=key.decision,
                    name=name,
                    spending=compute_max_call_cost(
                        self._models, request.role, prompt, max_tokens=request.max_tokens, single=single
                    ),
                ),
            )
            for single in (False, True)
        ]
        estimates, state = self._estimates, self._recorder.state
        while True:
            priority = "needed" if estimates is None else estimates.find_priority(state, key.decision, key.role)
            aside = self._compute_set_aside(key.decision, key.role)
            spare = Cost() if priority == "needed" else aside
            all_retries = aside + offers[0][1].spending * (CALLS_WITH_RETRIES - 1)
            for asked, more, kept in ((*offers[0], all_retries), (*offers[1], aside), (*offers[1], spare)):
                if self._find_exceeded_cap(more, kept) is None:
                    self._recorder.append(more)
                    return asked
            if not self._in_progress:
                optional = priority == "optional"
                raise self._make_refusal(offers[-1][1], spare, limits=not (optional or request.cuts), optional=optional)
            await asyncio.sleep(POLL_SECONDS)

    def _compute_set_aside(self, decision_id: int, role: str = "") -> Cost:
        if self._estimates is None:
            return Cost()
        return self._estimates.compute_set_aside(self._recorder.state, decision_id, role)

    def _find_exceeded_cap(self, more: CostReserved, aside: Cost) -> str | None:
        return self._caps.find_exceeded_cap(
            self._recorder.state.calls.spent_cost + more.spending + aside, more.spending
        )

    def _make_refusal(
        self, more: CostReserved, aside: Cost, *, limits: bool = True, optional: bool = False
    ) -> BudgetSpent:
        """Return the error of a call or attempt without room, and record if the run reached a limit."""
        state, form, cap = self._recorder.state, self._caps.format_amount, self._find_exceeded_cap(more, aside)
        later = f", {form(aside)} are set aside for the paper" if aside != Cost() else ""
        reason = (
            f"the budget of {cap}: {form(state.calls.spent_cost)} are spent or reserved{later}, and {more.name} may "
            f"cost {form(more.spending)}"
        )
        if limits and state.limit_reason is None and state.paper.released is None:
            self._recorder.append(LimitReached(reason=reason))
        return BudgetSpent(
            f"{reason}; resume with a higher --budget-usd, --budget-tokens or --gpu-hours", optional=optional
        )


# --- the maximum cost of a call -------------------------------------------------------------------------------------


def compute_max_call_cost(
    settings: ModelSettings, role: AnyRole, prompt: int, *, max_tokens: int | None = None, single: bool = False
) -> Cost:
    """Return the maximum cost of one call with all models that may be asked; `prompt` in tokens.

    Every try may write `max_tokens`, and the next try reads them. Among requests that fail in transport, those that
    reached their time limit may be billed: at most one per try, and no more than `retries`. `single`: one request.
    """
    answer = max_tokens or settings.get_max_tokens(role)
    tries = 1 if single else 1 + settings.output_retries
    asked = [prompt + number * (answer + OVERHEAD_TOKENS) for number in range(tries)]
    asked += asked[-1:] * min(settings.retries, tries) * (not single)
    models = settings.list_candidates(role)
    if not models:
        return Cost()
    return Cost(
        usd=sum(prices.compute_max_usd(one, size, answer) or 0.0 for size in asked for one in models),
        tokens=(sum(asked) + len(asked) * answer) * len(models),
    )


def list_unpriced_models(settings: ModelSettings) -> tuple[str, ...]:
    """Return the models whose price is unknown."""
    return tuple(one.name for one in settings.distinct_models if prices.compute_max_usd(one, 1000, 1000) is None)
