"""What calls and attempts took, what is set aside for them, and what stays spent of it."""

from __future__ import annotations

from record.fold.state import RunState
from record.nouns.calls import Spending


def settle(state: RunState, name: str, k: int, took: Spending) -> None:
    """Book what a call or an attempt of decision k took, in place of what was set aside for it."""
    state.reserved.pop(name, None)
    state.settled[k] = state.settled.get(k, Spending()) + took


def finish(state: RunState, k: int) -> None:
    """Note that the work of decision k is done."""
    state.finished.add(k)
    cut_off(state, [name for name, one in state.reserved.items() if one.k == k])


def cut_off(state: RunState, names: list[str]) -> None:
    """What was set aside for what did not come to its end stays spent."""
    for name in names:
        one = state.reserved.pop(name)
        state.lost[one.k] = state.lost.get(one.k, Spending()) + one.spending
