"""One stage of research: search, settle on a best node, report. Replicates and aggregates are part of the search."""

from __future__ import annotations

from record.events import Settled
from record.nouns import StageName
from search.policy import BestFirst
from search.scheduler import Scheduler
from stages.bench import Bench, do_work
from stages.node import expand
from stages.report import reasons_for, summarise, whole_stage


class NothingWorkedError(Exception):
    """The first stage found no node that works: there is nothing to build on."""


async def run_stage(bench: Bench, stage: StageName) -> bool:
    """Bring a stage to its end and report it; False when the run was asked to stop before."""
    if not bench.state.stages[stage].settled and not await search_stage(bench, stage):
        return False
    if stage == "preliminary" and bench.state.stages[stage].best is None:
        raise NothingWorkedError(_what_failed(bench, stage))
    await do_work(bench, f"summary of {stage}", lambda desk: summarise(bench, desk, stage))
    return True


async def search_stage(bench: Bench, stage: StageName) -> bool:
    """Search a stage and settle on its best node; False when the run was asked to stop before."""
    scheduler = Scheduler(
        recorder=bench.recorder, policy=BestFirst(bench.search), settings=bench.search, stage=stage,
        expand=lambda decided, freed: expand(bench, decided, freed), signals=bench.signals)
    end = await scheduler.run()
    if end is None:
        return False
    view = whole_stage(bench, stage)
    bench.recorder.append(Settled(
        stage=stage, best=view.best.id if view.best else None, reasons=reasons_for(view), ended=end.reason))
    return True


def _what_failed(bench: Bench, stage: StageName) -> str:
    nodes = bench.state.stage_nodes(stage)
    errors = [node.failure.message.splitlines()[0] for node in nodes if node.failure]
    return (f"none of the {len(nodes)} nodes of stage {stage} works (last error: {errors[-1] if errors else 'none'}); "
            "look at them with 'scientist tree', and try another model or a simpler idea")
