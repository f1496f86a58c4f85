"""The budget layer: decide which work may start in a run, so that all work in progress together never exceeds a cap.

Before a call or an attempt starts, its maximum cost is reserved, as an event; it is settled with the actual cost.
Guarantees: what is spent and reserved for calls and attempts stays within the cap (`Budget` refuses otherwise). Started
work can be finished, and the paper can be written: the maximum cost of every decision in progress, and of every step
outside the search that is still to come, is left free (`CostReservations`); `Budget.find_shortage` says whether there
is room for more.

Limits: a provider may bill more than it reports (a request that was interrupted and answered by a second one), or count
more tokens than the upper estimate (`models.prices.estimate_prompt_tokens`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pydantic import Field

from labwright.models import prices
from labwright.models.backend import Backend, ModelRequest, Reply
from labwright.models.errors import BudgetSpent, ModelError
from labwright.models.prices import OVERHEAD_TOKENS, estimate_prompt_tokens
from labwright.models.roles.role import AnyRole
from labwright.models.settings import ModelSettings
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import CostReserved, LimitReached, ReservationReturned
from labwright.record.schema.decisions import CallKey, Cost, RunTask, SearchAction
from labwright.record.schema.frozen_model import FrozenModel

ROUNDING_TOLERANCE = 1e-9


class BudgetSettings(FrozenModel):
    """Budget caps of a run; None: no cap. The run's wall clock is limited by `time_limit`."""

    usd: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="USD for model calls; flag --budget-usd"
    )
    tokens: int | None = Field(default=None, gt=0, description="prompt and answer tokens; flag --budget-tokens")
    gpu_hours: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="GPU-hours of experiments; flag --gpu-hours"
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
        """Return the cap that `wanted` exceeds, among those that `more` counts against: `$5.00`; None if it fits."""
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
        """Format an amount in the units that are capped: `$1.20 and 0.5 GPU-hours`."""
        parts = [f"${amount.usd:.2f}"] * (self.usd is not None)
        parts += [f"{amount.tokens} tokens"] * (self.tokens is not None)
        parts += [f"{amount.gpu_seconds / 3600:.2f} GPU-hours"] * (self.gpu_hours is not None)
        return " and ".join(parts)


class CostReservations(Protocol):
    """Maximum costs of the parts of a run."""

    def compute_step_costs(self) -> Mapping[str, Cost]:
        """Return the cost of every step outside the search, by its task."""
        ...

    def compute_action_cost(self, action: SearchAction) -> Cost: ...

    def compute_attempt_cost(self, limit: float) -> Cost:
        """Return the cost of one execution of code with a limit in seconds."""
        ...


class Budget:
    """Reserves costs, or refuses. Without caps it does nothing."""

    def __init__(
        self, caps: BudgetSettings, recorder: Recorder, reservations: CostReservations, models: ModelSettings
    ) -> None:
        self._caps = caps
        self._recorder = recorder
        self._shares = reservations
        self._models = models

    async def answer(self, key: CallKey, request: ModelRequest, backend: Backend) -> Reply:
        """Return the backend's reply; its maximum cost is reserved first, and stays reserved if the request may be
        billed.

        Raises: `BudgetSpent`, which limits the run unless the request is for a longer answer; what the backend raises.
        """
        name = f"{key}+{request.cuts}" if request.cuts else str(key)
        if self._caps.usd is not None or self._caps.tokens is not None:
            most = compute_max_call_cost(
                self._models, request.role, estimate_prompt_tokens(request), max_tokens=request.max_tokens
            )
            self._reserve(key.decision, name, most, limits=not request.cuts)
        try:
            reply = await backend.answer(request)
        except ModelError as error:
            if not (error.billed or request.cuts):  # truncated answers have to be paid
                self.release(name)
            raise
        for number in range(1, request.cuts + 1):  # the name of the first reservation settles all of them
            self.release(f"{key}+{number}")
        return reply

    def reserve_attempt(self, decision_id: int, name: str, limit: float) -> None:
        """Reserve the maximum cost of a decision's attempt that has a limit in seconds. Raises `BudgetSpent`."""
        if self._caps.gpu_hours is not None:
            self._reserve(decision_id, name, self._shares.compute_attempt_cost(limit))

    def release(self, name: str) -> None:
        """Record that no part of the reservation under a name was spent."""
        if name in self._recorder.state.reservations:
            self._recorder.append(ReservationReturned(name=name))

    def find_shortage(self, *actions: SearchAction, settled: bool = False) -> str | None:
        """Return the reason why the budget has no room for actions, or None. `settled`: assume that nothing in
        progress costs more.
        """
        share = sum((self._shares.compute_action_cost(one) for one in actions), start=Cost())
        bound = self._committed_cost(nodes=not settled, flying=not settled)
        cap = self._caps.find_exceeded_cap(bound + share, share)
        if cap is None:
            return None
        return (
            f"the budget of {cap}: {self._caps.format_amount(bound)} are spent or reserved, the paper included, and "
            f"the next step may cost {self._caps.format_amount(share)}"
        )

    def _reserve(self, decision_id: int, name: str, spending: Cost, *, limits: bool = True) -> None:
        more = CostReserved(k=decision_id, name=name, spending=spending)
        cap = self._caps.find_exceeded_cap(self._committed_cost(more, nodes=False), spending)
        if cap is None:
            after = self._committed_cost(more)
            beyond = after.subtract_floored(self._committed_cost())  # more than the share of its decision
            if max(beyond.usd, beyond.tokens, beyond.gpu_seconds) > ROUNDING_TOLERANCE:
                cap = self._caps.find_exceeded_cap(after, spending)
        if cap is None:
            self._recorder.append(more)
            return
        reason = (
            f"the budget of {cap}: {self._caps.format_amount(self._committed_cost())} are spent or reserved, "
            f"and {name} may "
            f"cost {self._caps.format_amount(spending)}"
        )
        state = self._recorder.state
        if limits and state.limit_reason is None and state.released is None:
            self._recorder.append(LimitReached(reason=reason))
        raise BudgetSpent(f"{reason}; resume with a higher --budget-usd, --budget-tokens or --gpu-hours")

    def _committed_cost(self, more: CostReserved | None = None, *, nodes: bool = True, flying: bool = True) -> Cost:
        """Return the cost already spent, the cost that calls and attempts may still have, and the cost kept free for
        later steps.

        `nodes`: include what nodes in progress may still need. `flying`: include calls and attempts in progress.
        """
        state = self._recorder.state
        aside: dict[int, Cost] = {}  # for calls and attempts in progress
        for one in (*state.reservations.values(), *([more] if more is not None else [])) if flying else ():
            aside[one.k] = aside.get(one.k, Cost()) + one.spending
        begun = {one.action.task for one in state.decisions.values() if isinstance(one.action, RunTask)}
        left = [share for task, share in self._shares.compute_step_costs().items() if task not in begun]
        for k, decided in state.decisions.items():
            if k not in state.finished_decisions and (nodes or isinstance(decided.action, RunTask)):
                done = state.settled_costs.get(k, Cost()) + aside.get(k, Cost())
                left.append(self._shares.compute_action_cost(decided.action).subtract_floored(done))
        return sum((*state.settled_costs.values(), *state.lost_costs.values(), *aside.values(), *left), start=Cost())


# --- the maximum cost of a call -------------------------------------------------------------------------------------


def compute_max_call_cost(
    settings: ModelSettings, role: AnyRole, prompt: int, *, max_tokens: int | None = None
) -> Cost:
    """Return the maximum cost of one call with the most expensive model that may answer; `prompt` in tokens.

    Every try may write `max_tokens` tokens, and the next try reads them. Requests that fail in transport may be billed
    if they reached their time limit: at most one per try, and at most `retries` in all.
    """
    answer = max_tokens or settings.get_max_tokens(role)
    tries = 1 + settings.output_retries
    asked = [prompt + number * (answer + OVERHEAD_TOKENS) for number in range(tries)]
    asked += asked[-1:] * min(settings.retries, tries)
    models = settings.list_candidates(role)
    if not models:
        return Cost()
    return Cost(
        usd=max(sum(prices.compute_max_usd(one, size, answer) or 0.0 for size in asked) for one in models),
        tokens=sum(asked) + len(asked) * answer,
    )


def list_unpriced_models(settings: ModelSettings) -> tuple[str, ...]:
    """Return the models whose price is unknown."""
    return tuple(one.name for one in settings.distinct_models if prices.compute_max_usd(one, 1000, 1000) is None)
