"""The model calls of a study, and what its calls and experiments cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from labwright.record.events import run_events
from labwright.record.schema.decisions import CallKey, Cost
from labwright.record.schema.llm_exchanges import StudiedLLMUsage


@dataclass
class RoleUsage:
    """Usage by the calls of one role."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Input tokens read from the providers' caches."""
    cache_write_tokens: int = 0
    cached_usd: float = 0.0
    """Part of `usd` for cached tokens."""
    usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0


def sum_usage(found: Iterable[RoleUsage]) -> RoleUsage:
    """Return the sum of several usages."""
    total = RoleUsage()
    for one in found:
        for name in vars(total):
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


@dataclass
class CallState:
    """Answered and open model calls, and costs by decision."""

    answers: dict[CallKey, run_events.CallAnswered] = field(default_factory=dict[CallKey, run_events.CallAnswered])
    superseded_answers: list[run_events.CallAnswered] = field(default_factory=list[run_events.CallAnswered])
    """Answers to questions that later changed; their replacements are in `answers`."""
    changed_prompts: dict[CallKey, run_events.PromptChanged] = field(
        default_factory=dict[CallKey, run_events.PromptChanged]
    )
    tool_uses: dict[CallKey, run_events.ToolUsed] = field(default_factory=dict[CallKey, run_events.ToolUsed])
    """Results of the tools that authors called, by the answer that called them."""
    unanswered_calls: dict[CallKey, run_events.CallUnanswered] = field(
        default_factory=dict[CallKey, run_events.CallUnanswered]
    )
    usage_by_role: dict[str, RoleUsage] = field(default_factory=dict[str, RoleUsage])
    llm_usage: tuple[StudiedLLMUsage, ...] = ()
    """Usage of studied language models by experiments, up to the last task outside the search."""
    reservations: dict[str, run_events.CostReserved] = field(default_factory=dict[str, run_events.CostReserved])
    """Reservations for calls and attempts in progress, by `CostReserved.name`."""
    settled_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """Cost of the answers and attempts of each decision."""
    lost_costs: dict[int, Cost] = field(default_factory=dict[int, Cost])
    """Reservations of calls and attempts of a decision that were killed, or that failed with an unknown cost."""

    def apply(self, event: run_events.CallEvent) -> None:
        """Fold one event of model calls into the state, in place."""
        match event:
            case run_events.CallAnswered():
                self._add_answer(event)
            case run_events.ToolUsed():
                self.tool_uses[event.key] = event
            case run_events.PromptChanged():
                self.changed_prompts[event.key] = event
            case run_events.CallUnanswered():
                self.unanswered_calls[event.key] = event
            case run_events.CostReserved():
                self.book_lost(event.name)
                self.reservations[event.name] = event
            case run_events.ReservationReturned():
                self.reservations.pop(event.name, None)
            case run_events.StudiedLLMsAsked():
                self.llm_usage = event.uses

    def _add_answer(self, event: run_events.CallAnswered) -> None:
        if (before := self.answers.pop(event.key, None)) is not None:
            self.superseded_answers.append(before)
            self.changed_prompts.pop(event.key, None)
        self.answers[event.key] = event
        role = self.usage_by_role.setdefault(event.key.role, RoleUsage())
        role.calls += 1
        for name, amount in event.usage:  # RoleUsage has the same fields
            setattr(role, name, getattr(role, name) + (amount or 0))
        role.unpriced += event.usage.usd is None
        role.seconds += event.seconds
        cost = Cost(usd=event.usage.usd or 0.0, tokens=event.usage.input_tokens + event.usage.output_tokens)
        self.settle(str(event.key), event.key.decision, cost)

    def settle(self, name: str, decision_id: int, cost: Cost) -> None:
        """Book the cost of a call or attempt of decision k and drop its reservation."""
        self.reservations.pop(name, None)
        self.settled_costs[decision_id] = self.settled_costs.get(decision_id, Cost()) + cost

    def book_lost(self, *names: str) -> None:
        """Book the open reservations among these as spent: the work did not complete."""
        for name in names:
            if (one := self.reservations.pop(name, None)) is not None:
                self.lost_costs[one.k] = self.lost_costs.get(one.k, Cost()) + one.spending

    @property
    def total_usage(self) -> RoleUsage:
        """Usage over all roles."""
        return self.sum_usage_without()

    def sum_usage_without(self, *roles: str) -> RoleUsage:
        """Return the usage over all roles except these."""
        return sum_usage(one for role, one in self.usage_by_role.items() if role not in roles)

    @property
    def spent_cost(self) -> Cost:
        """Cost of completed work plus reservations for calls and attempts in progress."""
        return sum(
            (
                *self.settled_costs.values(),
                *self.lost_costs.values(),
                *(one.spending for one in self.reservations.values()),
            ),
            start=Cost(),
        )

    @property
    def mean_writing_seconds(self) -> float:
        """Mean time to write the code of a node; 0.0 before the first."""
        code = self.usage_by_role.get("code")
        return code.seconds / code.calls if code is not None else 0.0
