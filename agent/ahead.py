"""What a run is likely to take from here to its end: the forecast of a run of its shape, less what was done."""

from __future__ import annotations

from agent.forecast import Shape, forecast
from agent.settings import Settings, SettingsError, override
from inspector.status import Ahead
from models import prices
from models.roles import ROLES
from record.fold.state import RunState
from record.nouns.decisions import Usage

WRITE_UP = ("summary", "figures", "outline", "write", "reflect", "judge")
"""The roles that are still asked once nothing new is proposed."""


def ahead_of(state: RunState) -> Ahead | None:
    """What is likely to come; None before the data plan, after the end, and where the settings cannot be read."""
    settings = settings_of(state)
    if settings is None or state.data_plan is None or state.phase == "done":
        return None
    whole = forecast(Shape(
        plan=state.data_plan, datasets=state.datasets, search=settings.search, paper=settings.writing,
        device=settings.sandbox.device, node_seconds=settings.sandbox.timeout, time_limit=settings.time_limit))
    calls = {one.role: max(0, one.likely - _made(state, one.role)) for one in whole.calls
             if (state.limited is None and state.stage is not None) or one.role in WRITE_UP}
    hours = whole.gpu_hours.likely - _gpu_seconds(state) / 3600 if whole.gpu_hours is not None else None
    return Ahead(
        calls=sum(calls.values()), tokens=sum(number * _tokens(role, settings) for role, number in calls.items()),
        usd=_usd(calls, settings), gpu_hours=None if hours is None else max(0.0, hours))


def settings_of(state: RunState) -> Settings | None:
    """The settings of a run as it goes on; None before its start, and where this version does not know them."""
    if state.started is None:
        return None
    try:
        return override(state.started.settings, state.overrides)
    except SettingsError:
        return None


def _tokens(role: str, settings: Settings) -> int:
    """Tokens of one call; the offline model takes none."""
    models = settings.models.candidates(ROLES[role])
    return sum(ROLES[role].usual) if models and models[0].name != "offline" else 0


def _made(state: RunState, role: str) -> int:
    """Calls of a role so far, those before a branching included."""
    return sum(usage[role].calls for usage in (state.usage, *(one.usage for one in state.ancestry)) if role in usage)


def _gpu_seconds(state: RunState) -> float:
    before = sum(one.spent.gpu_seconds for one in state.ancestry)
    return before + sum(one.gpu_seconds for one in state.settled.values())


def _usd(calls: dict[str, int], settings: Settings) -> float | None:
    total = 0.0
    for role, number in calls.items():
        models = settings.models.candidates(ROLES[role])
        into, out = ROLES[role].usual
        cost = prices.usd(models[0], Usage(input_tokens=into, output_tokens=out)) if models else 0.0
        if cost is None:
            return None
        total += number * cost
    return total
