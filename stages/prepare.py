"""From an idea's prose to a typed data plan and materialised datasets, before any code is written."""

from __future__ import annotations

from models.door import Desk
from models.errors import ContextTooLong, ModelConfigError
from models.roles import CatalogueEntry, PlanInputs, Study
from record.events.searching import Prepared
from record.folder import write_file
from record.nouns.data import DataPlan, Scorer
from sandbox.datasets import SHARES, Entry, catalogue, materialise
from sandbox.scorers import describe_scorer, freeze, read_scorer
from sandbox.scoring import METRICS
from stages.bench import Bench, do_work, in_thread
from stages.context.lines import lines_of
from stages.context.work import read_context
from stages.paper.library import check_library
from stages.plan_faults import faults_of
from stages.room import check_room

UNREADABLE = "the answer before could not be read as a data plan: answer with all its fields, and nothing else"
ROUNDS = 3
"""How often a plan that names what does not exist is shown its faults."""


class PlanError(Exception):
    """No usable data plan came of the idea. Who acts: the person; name datasets in the idea, or another model."""


async def prepare(bench: Bench) -> None:
    """Record the data plan of the run's idea, and its datasets.

    Raises: `PlanError`, and `ModelConfigError` where the models cannot read what the study tells them.
    """
    await read_context(bench)

    async def work(desk: Desk) -> None:
        await check_library(bench)
        plan = await _plan(bench, desk)
        assert bench.state.started is not None
        seed = bench.state.started.seed
        facts = [await in_thread(lambda name=use.name: materialise(
            name, views=bench.folder.views, labels=bench.folder.labels, seed=seed, sources=bench.sources))
            for use in plan.datasets]
        scorers = {use.name: freeze(use.name, bench.scorers[use.name], bench.folder.scorers)
                   for use in plan.datasets if use.name in bench.scorers}
        facts = [one.model_copy(update={"scorer": describe_scorer(scorers[one.name])}) if one.name in scorers else one
                 for one in facts]
        await check_room(bench, Study(idea=bench.idea, data_plan=plan, facts=tuple(facts)))
        write_file(bench.folder.root / "data_plan.json", plan.model_dump_json(indent=1))
        bench.recorder.append(Prepared(
            data_plan=plan, datasets=tuple(facts), scorers=tuple(scorers.values())))

    await do_work(bench, "prepare", work)


async def _plan(bench: Bench, desk: Desk) -> DataPlan:
    assert bench.state.started is not None
    seed = bench.state.started.seed
    entries = await in_thread(lambda: catalogue(bench.sources, seed=seed))
    scorers = {name: read_scorer(name, place)[0] for name, place in bench.scorers.items()}
    known = tuple(_entry(one, scorers.get(one.name)) for one in entries)
    metrics = dict.fromkeys((*METRICS, *(metric.name for one in scorers.values() for metric in one.metrics)))
    complaints: tuple[str, ...] = ()
    for _ in range(ROUNDS):
        inputs = PlanInputs(
            idea=bench.idea, catalogue=known, metrics=tuple(metrics), node_seconds=bench.node_seconds,
            retry_seconds=bench.retry_seconds, rate=bench.state.rate, device=bench.device, shares=SHARES,
            context=lines_of(bench.state.context), complaints=complaints)
        try:
            plan = await desk.usable("plan", inputs, DataPlan, fatal=ContextTooLong,
                                     then="it is asked again, as often as for a plan with faults")
        except ContextTooLong as error:
            raise ModelConfigError(str(error)) from None
        complaints = ((UNREADABLE,) if plan is None
                      else faults_of(plan, {entry.name: entry for entry in known}, scorers))
        if plan is not None and not complaints:
            return plan
    raise PlanError(f"no usable data plan after {ROUNDS} tries: {'; '.join(complaints)}; say in the idea "
                    "which data and metrics to take, or choose another --model")


def _entry(one: Entry, scorer: Scorer | None) -> CatalogueEntry:
    """A dataset as the planner sees it, with the sizes that its splits will have to within a few examples."""
    common = CatalogueEntry(
        name=one.name, title=one.title, examples=one.examples, features=one.features, classes=one.classes,
        sizes={split: round(share * one.examples) for split, share in SHARES.items()},
        scorer=describe_scorer(scorer) if scorer is not None else "")
    if (own := one.facts) is None:
        return common
    return common.model_copy(update={
        "own": True, "sizes": own.sizes, "task": own.task, "target": own.target, "columns": own.columns,
        "class_names": own.class_names, "shape": own.shape, "missing": own.missing, "split_rule": own.split_rule,
        "warnings": own.warnings})
