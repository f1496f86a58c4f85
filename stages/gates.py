"""Gates: points where a run waits until a person approves what comes next, if the settings ask for it.

A gate is a pause: nothing new starts, work in flight finishes, no time limit counts, and stop requests work. That the
gate was reached and who approved it are events, so a killed run waits at the same gate when it is resumed. A change
made at a gate passes the same checks as the work of a model, and is recorded with its author.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from labwright.record.events.run_events import CommandReceived, GateEditRefused, GateReached
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.nodes import GateName
from labwright.stages.run_context import RunContext, StopRequested

COMES_NEXT: dict[GateName, str] = {
    "plan": "the data of the plan (data_plan.json) are fetched and the search begins",
    "lock": "the plan (data_plan.json) is locked and tested on fresh seeds; after that no hypothesis can change",
    "paper": "the paper is released",
}
CheckEdit = Callable[[CommandReceived], Awaitable[tuple[str, ...]]]
"""Checks the change of an approval; returns what is wrong with it, and applies it if nothing is."""


def is_gate_open(context: RunContext, gate: GateName, plan: DataPlan | None = None, more: str = "") -> bool:
    """Return whether the run may pass a gate. At a gate that it reaches now, record that it waits, and pause.

    `plan` is the plan to approve, if it is not recorded yet; `more` is added to what comes next.
    """
    if not context.state.has_gate(gate) or context.state.find_approval(gate) is not None:
        return True
    if gate not in context.state.gates:
        comes_next = "; ".join(filter(None, (COMES_NEXT[gate], more)))
        cost = context.forecast(context.state, plan)
        context.recorder.append(GateReached(gate=gate, comes_next=comes_next, cost=cost, plan=plan))
    context.signals.pause()
    return False


async def wait_at_gate(
    context: RunContext, gate: GateName, check: CheckEdit, plan: DataPlan | None = None, more: str = ""
) -> None:
    """Wait until a person approves, and apply the change of the approval, if any. Raises `StopRequested`."""
    while True:
        if is_gate_open(context, gate, plan, more):
            approval = context.state.find_approval(gate)
            if approval is None or not (faults := await check(approval)):
                return
            context.recorder.append(GateEditRefused(gate=gate, reasons=faults))
        elif not await context.signals.wait_to_continue():
            raise StopRequested
