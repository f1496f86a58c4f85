"""Events of model calls and budgets, folded: answers, reservations, usage by role."""

from __future__ import annotations

from record.events.calls import Answered, CallEvent, Drifted, Reserved, Returned, Unanswered
from record.fold.parts import RoleUsage
from record.fold.spending import cut_off, settle
from record.fold.state import RunState
from record.nouns.calls import Spending


def apply_call(state: RunState, event: CallEvent) -> None:
    """Fold one of them into the state, in place."""
    match event:
        case Answered():
            _answered(state, event)
        case Drifted():
            state.drifted[event.key] = event
        case Unanswered():
            state.unanswered[event.key] = event
        case Reserved():
            cut_off(state, [event.name] if event.name in state.reserved else [])
            state.reserved[event.name] = event
        case Returned():
            state.reserved.pop(event.name, None)


def _answered(state: RunState, event: Answered) -> None:
    if (before := state.answers.pop(event.key, None)) is not None:
        state.superseded.append(before)
        state.drifted.pop(event.key, None)
    state.answers[event.key] = event
    state.calls[event.key.decision] += 1
    role = state.usage.setdefault(event.key.role, RoleUsage())
    role.calls += 1
    role.input_tokens += event.usage.input_tokens
    role.output_tokens += event.usage.output_tokens
    role.cached_tokens += event.usage.cached_tokens
    role.cache_write_tokens += event.usage.cache_write_tokens
    role.cached_usd += event.usage.cached_usd or 0.0
    role.usd += event.usage.usd or 0.0
    role.unpriced += event.usage.usd is None
    role.seconds += event.seconds
    settle(state, str(event.key), event.key.decision, Spending(
        usd=event.usage.usd or 0.0, tokens=event.usage.input_tokens + event.usage.output_tokens))
