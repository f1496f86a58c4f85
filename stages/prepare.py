"""From an idea's prose to a typed data plan and materialised datasets, before any code is written."""

from __future__ import annotations

from models.door import Desk
from models.roles import CatalogueEntry, PlanInputs
from record.events import Prepared
from record.folder import write_file
from record.nouns import DataPlan
from sandbox.datasets import SHARES, Entry, catalogue, materialise
from sandbox.scoring import METRICS
from stages.bench import Bench, do_work, in_thread

ROUNDS = 3
"""How often a plan that names what does not exist is shown its faults."""


class PlanError(Exception):
    """No usable data plan came of the idea. Who acts: the person; name datasets in the idea, or another model."""


async def prepare(bench: Bench) -> None:
    """Record the data plan of the run's idea, and its datasets. Raises `PlanError`."""

    async def work(desk: Desk) -> None:
        plan = await _plan(bench, desk)
        assert bench.state.started is not None
        seed = bench.state.started.seed
        facts = [await in_thread(lambda name=use.name: materialise(
            name, views=bench.folder.views, labels=bench.folder.labels, seed=seed, sources=bench.sources))
            for use in plan.datasets]
        write_file(bench.folder.root / "data_plan.json", plan.model_dump_json(indent=1))
        bench.recorder.append(Prepared(data_plan=plan, datasets=tuple(facts)))

    await do_work(bench, "prepare", work)


async def _plan(bench: Bench, desk: Desk) -> DataPlan:
    assert bench.state.started is not None
    seed = bench.state.started.seed
    entries = await in_thread(lambda: catalogue(bench.sources, seed=seed))
    known = tuple(_entry(one) for one in entries)
    complaints: tuple[str, ...] = ()
    for _ in range(ROUNDS):
        plan = await desk.ask("plan", PlanInputs(
            idea=bench.idea, catalogue=known, metrics=tuple(METRICS), node_seconds=bench.node_seconds,
            device=bench.device, shares=SHARES, complaints=complaints), DataPlan)
        complaints = faults_of(plan, {entry.name for entry in known})
        if not complaints:
            return plan
    raise PlanError(f"no usable data plan after {ROUNDS} tries: {'; '.join(complaints)}")


def _entry(one: Entry) -> CatalogueEntry:
    """A dataset as the planner sees it, with the sizes that its splits will have to within a few examples."""
    common = CatalogueEntry(
        name=one.name, title=one.title, examples=one.examples, features=one.features, classes=one.classes,
        sizes={split: round(share * one.examples) for split, share in SHARES.items()})
    if (own := one.facts) is None:
        return common
    return common.model_copy(update={
        "own": True, "sizes": own.sizes, "task": own.task, "target": own.target, "columns": own.columns,
        "class_names": own.class_names, "shape": own.shape, "missing": own.missing, "split_rule": own.split_rule,
        "warnings": own.warnings})


def faults_of(plan: DataPlan, datasets: set[str]) -> tuple[str, ...]:
    """What is wrong with a plan, one sentence each; empty when it can be carried out."""
    faults = [f"there is no dataset {use.name!r}; there are {', '.join(sorted(datasets))}"
              for use in plan.datasets if use.name not in datasets]
    roles = [arm.role for arm in plan.arms]
    faults += [f"no arm has the role {role!r}" for role in ("baseline", "method") if role not in roles]
    for noun, names in (("arm", [arm.name for arm in plan.arms]), ("level", [level.name for level in plan.levels]),
                        ("metric", [metric.name for metric in plan.metrics]),
                        ("dataset", [use.name for use in plan.datasets])):
        faults += [f"{noun} {name!r} is named twice" for name in sorted({n for n in names if names.count(n) > 1})]
    faults += [f"metric {metric.name!r} has the wrong direction" for metric in plan.metrics
               if metric.name in METRICS and METRICS[metric.name].higher_is_better != metric.higher_is_better]
    return tuple(faults)
