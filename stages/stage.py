"""One stage of research: search, settle on a best node, report. Replicates and aggregates are part of the search."""

from __future__ import annotations

from models.door import Desk
from models.roles import SummaryInputs
from record.claims import replicates_of, validation_claims
from record.events import Settled, Summarised
from record.nouns import Seen, StageName, StageSummary
from search.policy import BestFirst
from search.scheduler import Scheduler
from search.score import asked, coverage, gain, judging_arms
from search.tree import SEARCH_KINDS, View, view_of
from stages.bench import Bench, do_work
from stages.briefs import node_line, statistic
from stages.node import expand


class NothingWorkedError(Exception):
    """The first stage found no node that works: there is nothing to build on."""


async def run_stage(bench: Bench, stage: StageName) -> bool:
    """Bring a stage to its end and report it; False when the run was asked to stop before."""
    if not bench.state.stages[stage].settled and not await search_stage(bench, stage):
        return False
    if stage == "preliminary" and bench.state.stages[stage].best is None:
        raise NothingWorkedError(_what_failed(bench, stage))
    await do_work(bench, f"summary of {stage}", lambda desk: _summarise(bench, desk, stage))
    return True


async def search_stage(bench: Bench, stage: StageName) -> bool:
    """Search a stage and settle on its best node; False when the run was asked to stop before."""
    scheduler = Scheduler(
        recorder=bench.recorder, policy=BestFirst(bench.search), settings=bench.search, stage=stage,
        expand=lambda decided, freed: expand(bench, decided, freed), signals=bench.signals)
    end = await scheduler.run()
    if end is None:
        return False
    view = _whole(bench, stage)
    bench.recorder.append(Settled(
        stage=stage, best=view.best.id if view.best else None, reasons=reasons_for(view), ended=end.reason))
    return True


def _whole(bench: Bench, stage: StageName) -> View:
    """The stage with every result seen."""
    return view_of(bench.state, stage, Seen(through=bench.state.last_decision),
                   by_cost=bench.search.order == "arrival")


def reasons_for(view: View) -> tuple[str, ...]:
    """Why this node is carried forward, from what was compared."""
    best = view.best
    if best is None:
        return ("no node of this stage works",)
    reasons = [f"it measured {coverage(best, view.plan)} of the {len(asked(view.plan))} (dataset, condition) cells "
               "of the plan"]
    if view.stage == "ablation":
        return ("ablations are measured against the node that the agenda settled on",)
    if view.root is not None and best.id != view.root.id:
        gained = gain(best, view.root, view.plan, judging_arms(view.stage, view.plan))
        reasons.append(f"its {view.plan.primary.name} gains {gained:+.1%} over {view.root.id} on validation data, "
                       "for one seed")
    elif view.root is not None:
        reasons.append(f"no node of this stage gains over {best.id}")
    return tuple(reasons)


async def _summarise(bench: Bench, desk: Desk, stage: StageName) -> None:
    state = bench.state
    known = state.stages[stage]
    best = state.nodes.get(known.best or "")
    replicates = replicates_of(state, best.id) if best else []
    summary = await desk.ask("summary", SummaryInputs(
        idea=bench.idea, data_plan=bench.plan, stage=stage, ended=known.ended or "",
        nodes=tuple(node_line(node, bench.plan) for node in state.stage_nodes(stage) if node.kind in SEARCH_KINDS),
        best=known.best, best_plan=best.plan if best else "", reasons=known.reasons,
        statistics=tuple(statistic(claim) for claim in validation_claims(state, best.id)) if best else (),
        replicates_failed=sum(one.status != "good" for one in replicates)), StageSummary)
    bench.recorder.append(Summarised(summary=summary.model_copy(update={"stage": stage})))


def _what_failed(bench: Bench, stage: StageName) -> str:
    nodes = bench.state.stage_nodes(stage)
    errors = [node.failure.message.splitlines()[0] for node in nodes if node.failure]
    return (f"none of the {len(nodes)} nodes of stage {stage} works (last error: {errors[-1] if errors else 'none'}); "
            "look at them with 'scientist tree', and try another model or a simpler idea")
