"""Reduce a design that does not fit the available time, after its cells have been measured and before tuning begins.

Each reduction is an amendment of the plan with its reason. It depends on measured time, so a run in `ticket` order is
never reduced; the events ensure that a resumed run makes the same reductions.
"""

from __future__ import annotations

from math import isfinite

from labwright.record.control_files import describe_seen_results
from labwright.record.events.search_events import REDUCTION_AUTHOR, PlanAmended
from labwright.record.run_folder import write_file
from labwright.search.design_forecast import read_cell_times, reduce_design
from labwright.stages.run_context import RunContext


def fit_design(context: RunContext) -> None:
    """Amend the plan once per run, so that everything before the lock fits into the time left by fresh seeds."""
    state, times, left = context.state, read_cell_times(context.state.nodes.values()), context.seconds_left()
    if (
        context.search.order == "ticket"
        or times is None
        or not isfinite(left)
        or state.search.current_lock is not None
        or any(one.by == REDUCTION_AUTHOR for one in state.search.amendments)
    ):
        return
    for one in reduce_design(
        context.plan, times, slots=context.search.num_workers, seconds=left, references=context.search.ladder
    ):
        context.recorder.append(
            PlanAmended(
                number=len(context.state.search.amendments) + 1,
                data_plan=one.plan,
                why=one.why,
                by=REDUCTION_AUTHOR,
                seen=describe_seen_results(context.state),
            )
        )
        write_file(context.folder.root / "data_plan.json", one.plan.model_dump_json(indent=1))
