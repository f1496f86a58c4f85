"""What a node owes, what it takes over, and what a kill leaves of it: through the real stage, with scripted cells."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from benchmarks.scripted_study import PLAN, SlowModel, answer_role, draw_plots, make_late_context, make_measurements
from labwright.agent.audit import find_disagreements
from labwright.models.backend import ModelRequest
from labwright.models.roles.experiment_code import CodeInputs, Program
from labwright.record.cell_status import compute_all_cells
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.events.search_events import CellExecuted, ConfirmationLocked, DecisionMade, LookTaken
from labwright.record.retention import delete_unreferenced
from labwright.record.schema.data_plan import (
    Arm,
    DataPlan,
    DatasetUse,
    Hyperparameter,
    Level,
    OmittedCells,
    Trial,
    TuningPlan,
)
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import Cell, CellOutcomeLine, Failure, Node, StageName, format_node_id
from labwright.record.source_tree import WholeFile
from labwright.sandbox.job import CellResult, Job, JobOutcome, ResultStream
from labwright.sandbox.settings import SandboxSettings
from labwright.search.replication import FRESH_SEED_OFFSET
from labwright.search.scheduler import list_all_results
from labwright.search.settings import SearchSettings, StageLimits
from labwright.search.stage_snapshot import build_snapshot, get_panel
from labwright.stages.nodes import node_cells
from labwright.stages.nodes.node_cells import (
    build_rerun_job,
    compute_cell_keys,
    has_nondeterminism,
    required_cells,
    reusable_cells,
)
from labwright.stages.nodes.node_runner import expand, remeasure_reused
from labwright.stages.run_context import RunContext
from labwright.stages.stage_runner import StageRunner
from tests.fake_executor import FakeExecutor
from tests.hypotheses import make_hypotheses

ENTRY = "import arms.{0}\nimport lab\n\nRATE = {1}\n\n\ndef run(cell):\n    pass\n\n\nlab.measure(run)\n"
CellScript = Callable[[Cell], Failure | None]


@pytest.fixture(autouse=True)
def nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is one of those that are measured again to check the others."""
    monkeypatch.setattr(node_cells, "RECHECK_INTERVAL", 2**64)


def program(request: ModelRequest) -> BaseModel:
    """Each node changes the file of one arm, the method; what else it consists of stays."""
    if not isinstance(request.inputs, CodeInputs):
        return answer_role(request)
    number = request.inputs.ordinal
    files = {
        "experiment.py": ENTRY.format("baseline", 0.1),
        "arms/baseline.py": "X = 1\n",
        "arms/method.py": f"X = {number}\n",
        "plots.py": f"# {number}\n",
    }
    return Program(
        title="a program",
        plan="as before",
        varies=f"X={number}",
        files=tuple(WholeFile(path=path, text=text) for path, text in files.items()),
    )


def agenda(
    tmp_path: Path, script: CellScript = lambda cell: None, *, nodes: int = 2, plan: DataPlan = PLAN, fresh: int = 0
) -> tuple[RunContext, list[str]]:
    """A workbench in the agenda stage; cells measure where the script names no failure. The names of what was run."""
    ran: list[str] = []

    def cell(job: Job, cell: Cell) -> tuple[float, CellResult]:
        ran.append(f"{job.name} {cell.arm}")
        (job.folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        values = tuple(
            one.model_copy(update={"seed": cell.seed, "condition": cell.condition})
            for one in make_measurements(0.5)
            if one.arm == cell.arm
        )
        failure = script(cell)
        return 0.0, CellResult(seconds=1.0, failure=failure, cell=cell, measurements=() if failure else values)

    def plots(job: Job) -> tuple[float, JobOutcome]:
        return 0.0, draw_plots(job)

    settings = SearchSettings(
        num_workers=1,
        lookahead=0,
        agenda=StageLimits(nodes=nodes, num_seeds=fresh),
        max_seeds=fresh,
        ablation=StageLimits(nodes=1, num_seeds=0),
        planned_ablations=0,
        preliminary=StageLimits(num_seeds=0),
        tuning=StageLimits(num_seeds=0),
    )
    executor = FakeExecutor(plots, slots=1, cell=cell)
    return make_late_context(tmp_path, SlowModel(program, 0.0), executor, settings, plan=plan), ran


async def searched(bench: RunContext) -> list[Node]:
    research = StageRunner(bench)
    assert await research.run_stage("agenda")
    await research.close()
    await delete_unreferenced(bench.folder, bench.recorder)  # as each step of a run does; the search may end before
    return bench.state.list_stage_nodes("agenda")


async def test_a_child_takes_over_the_cells_that_its_change_does_not_touch(tmp_path: Path) -> None:
    bench, ran = agenda(tmp_path)
    first, second = await searched(bench)
    rate = Hyperparameter(name="rate", kind="log", low=1e-4, high=1, default=0.01, source="practice", arms=("method",))
    plan = PLAN.model_copy(update={"tuning": TuningPlan(), "space": (rate,)})
    once_more = build_rerun_job(
        Job("again", tmp_path, source={}),
        second,
        replace(bench.state, search=replace(bench.state.search, data_plan=plan)),
    )
    assert [task.setting for task in once_more.cells.values()] == [{}, {"rate": 0.01}]
    assert [line.outcome for line in first.attempts[-1].cells] == ["measured", "measured"]
    taken, own = second.attempts[-1].cells
    assert (taken.cell.arm, taken.outcome, taken.node) == ("baseline", "taken over", first.id)
    assert (own.cell.arm, own.outcome, own.node) == ("method", "measured", "")
    assert ran == [f"{first.id}/1 {arm}" for arm in ("baseline", "method")] + [f"{second.id}/1 method"]
    assert {one.arm for one in second.measurements} == {"baseline", "method"}, "what is taken over counts"
    assert second.attempts[-1].seconds == own.seconds, "computing is counted where it was spent"
    assert all(bench.folder.get_cell_path(line.id).is_dir() for line in (*first.attempts[-1].cells, own))
    assert list(find_disagreements(bench.state)) == [], "and the audit finds that each attempt agrees with its cells"
    outcomes = {
        node: [found.outcome for found in node_cells] for node, node_cells in compute_all_cells(bench.state).items()
    }
    assert outcomes == {first.id: ["measured", "measured"], second.id: ["taken over", "measured"]}


async def test_a_node_that_took_over_every_cell_of_its_parent_keeps_its_verdict(tmp_path: Path) -> None:
    bench, ran = agenda(tmp_path, nodes=1)
    [first] = await searched(bench)
    judged, measured = bench.state.calls.usage_by_role["feedback"].calls, len(ran)
    settings = tuple(Trial(arm=arm, number=0, setting={}) for arm in ("baseline", "method"))
    action = ExpandTree(stage="agenda", kind="tune", parent=first.id, seed=0, trials=settings)
    decided = DecisionMade(k=bench.state.last_decision + 1, action=action, seen=list_all_results(bench.state))
    bench.recorder.append(decided)
    await expand(bench, decided, lambda: None)
    again = bench.state.nodes[format_node_id(decided.k)]
    assert [line.outcome for line in again.attempts[-1].cells] == ["taken over", "taken over"] and len(ran) == measured
    assert again.status == "good" and again.verdict == first.verdict
    assert bench.state.calls.usage_by_role["feedback"].calls == judged
    assert again.varies == "the defaults: no other setting was tried", "no trial selected anything"
    assert "since no trial ran" in again.plan


async def test_once_two_executions_differ_what_was_taken_over_is_measured(tmp_path: Path) -> None:
    bench, ran = agenda(tmp_path)
    first, second = await searched(bench)
    taken = second.attempts[-1].cells[0]
    _, run = bench.state.cells[taken.id]
    other = run.model_copy(
        update={
            "id": run.id.replace("-0", "-1"),
            "measurements": tuple(one.model_copy(update={"value": one.value + 0.1}) for one in run.measurements),
        }
    )
    assert reusable_cells(bench.state.decisions[second.decision], [run.key], context=bench) == {run.key: run.id}
    gone = replace(bench.state, deleted_folders={f"cells/{run.id}/artifacts": "best"})
    without = replace(bench, recorder=SimpleNamespace(state=gone))  # pyrefly: ignore  (it is read)
    assert reusable_cells(bench.state.decisions[second.decision], [run.key], context=without) == {}, (
        "artifacts are gone"
    )
    bench.recorder.append(CellExecuted(node=first.id, run=other))
    assert reusable_cells(
        bench.state.decisions[second.decision], [run.key], context=bench
    ) == {} and has_nondeterminism(bench.state)
    ran.clear()
    await remeasure_reused(bench, second.id)
    again = bench.state.nodes[second.id].attempts[-1]
    assert ran == [f"{second.id}/2 baseline"] and again.number == 2
    assert [line.outcome for line in again.cells] == ["measured", "measured"]


async def test_an_arm_that_diverges_with_another_seed_leaves_a_replicate_good(tmp_path: Path) -> None:
    """In a study of one level, too, where that seed's method has no other cell."""

    def lost(cell: Cell) -> Failure | None:
        seed = cell.seed >= FRESH_SEED_OFFSET and cell.arm == "method"
        return (
            {
                FRESH_SEED_OFFSET: Failure(kind="diverged", message="nan"),
                FRESH_SEED_OFFSET + 1: Failure(kind="died", message="killed"),
            }.get(cell.seed)
            if seed
            else None
        )

    plan = PLAN.model_copy(
        update={
            "objective": "improve",
            "hypotheses": tuple(
                one.model_copy(update={"unit": "seeds"}) for one in make_hypotheses("method", "baseline", higher=False)
            ),
        }
    )
    bench, _ = agenda(tmp_path, lost, nodes=1, plan=plan, fresh=3)
    research = StageRunner(bench)
    for stage in ("agenda", "ablation"):
        assert await research.run_stage(stage)
    await research.close()
    again = {
        one.seed - FRESH_SEED_OFFSET: one
        for one in bench.state.nodes.values()
        if one.kind == "replicate" and one.stage == "agenda" and one.seed >= FRESH_SEED_OFFSET
    }
    assert {seed: one.status for seed, one in again.items()} == {0: "good", 1: "buggy", 2: "good", 3: "good"}
    assert [line.diverged for line in again[0].attempts[-1].cells] == [False, True]
    assert {one.arm for one in again[0].measurements} == {"baseline"}
    assert [one.seeds for one in bench.state.search.looks] == [tuple(FRESH_SEED_OFFSET + seed for seed in (0, 2, 3))]
    on_validation = replace(
        bench.state, search=replace(bench.state.search, test_measurements={}, looks=[])
    )  # this world submits no test predictions
    [part] = decide_hypotheses(on_validation)[0].parts
    assert part.diverged == {"method": 1, "baseline": 0} and len(part.values) == 2 and len(part.left_out) == 1


def interrupted_folders(job: Job) -> dict[Cell, Path]:
    """The folders whose checkpoints cells are given."""
    return {cell: task.folder for cell, task in job.cells.items() if task.known is None and task.folder is not None}


async def test_a_second_attempt_goes_on_from_the_checkpoints_of_a_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(cell: Cell) -> Failure | None:
        return Failure(kind="timeout", message="too slow") if cell.arm == "method" else None

    bench, ran = agenda(tmp_path, late, nodes=1)
    jobs: list[Job] = []
    measure = bench.executor.measure

    def noting(job: Job) -> ResultStream:
        jobs.append(job)
        assert all((place / "checkpoints").is_dir() for place in interrupted_folders(job).values())
        return measure(job)

    monkeypatch.setattr(bench.executor, "measure", noting)
    (node,) = await searched(bench)
    first, second = (job for job in jobs if job.arms)
    assert ran == [f"{node.id}/1 baseline", f"{node.id}/1 method", f"{node.id}/2 method"]
    line = node.attempts[0].cells[1]
    assert (interrupted_folders(first), interrupted_folders(second)) == (
        {},
        {line.cell: bench.folder.get_cell_path(line.id)},
    )
    assert not list(bench.folder.get_cell_path(line.id).iterdir()), (
        "the node has ended: nothing goes on from there any more"
    )


@pytest.mark.parametrize(
    ("seconds", "slow", "again", "alone", "limit"),
    [
        (60.0, False, [], None, None),
        (60.0, True, ["method"], False, 90.0),
        (2.0, False, ["baseline"], True, 2.0),  # the first attempt left no time for a retry
    ],
    ids=["tried alone", "tried alone, and another is out of time", "no time to try it alone"],
)
async def test_a_cell_that_ran_out_of_memory_is_tried_once_more_alone(
    tmp_path: Path, seconds: float, slow: bool, again: list[str], alone: bool | None, limit: float | None
) -> None:
    def hungry(cell: Cell) -> Failure | None:
        if cell.arm == "baseline":
            return Failure(kind="memory", message="too large")
        return Failure(kind="timeout", message="too slow") if slow else None

    bench, ran = agenda(tmp_path, hungry, nodes=1)
    (node,) = await searched(replace(bench, node_seconds=seconds))
    first = ("baseline", "method") if alone else ("baseline", "method", "baseline")
    assert ran == [f"{node.id}/1 {arm}" for arm in first] + [f"{node.id}/2 {arm}" for arm in again]
    assert [(one.alone, one.limit) for one in node.attempts[1:]] == ([] if alone is None else [(alone, limit)])
    assert node.status == "buggy" and node.failure is not None and node.failure.kind == "memory"


async def test_what_was_committed_before_a_kill_is_not_executed_again(tmp_path: Path) -> None:
    bench, ran = agenda(tmp_path, nodes=1)
    append, committed = bench.recorder.append, list[str]()

    class Killed(BaseException):
        pass

    def until_one(event: object) -> None:
        append(event)  # pyrefly: ignore  (any event)
        if isinstance(event, CellExecuted):
            committed.append(event.run.cell.arm)
            raise Killed

    bench.recorder.append = until_one  # pyrefly: ignore
    with suppress(Killed):
        await searched(bench)
    bench.recorder.append = append  # pyrefly: ignore
    (node,) = await searched(bench)
    assert committed and node.status == "good" and len(node.attempts) == 1
    assert set(ran) == {f"{node.id}/1 baseline", f"{node.id}/1 method"}
    assert all(ran.count(f"{node.id}/1 {arm}") == 1 for arm in committed), "what is committed is not measured again"
    assert node.attempts[0].seconds == 2.0, "what was spent before the kill counts"


async def test_a_key_names_all_that_a_cell_can_reach(tmp_path: Path) -> None:
    bench, _ = agenda(tmp_path, nodes=1)
    (node,) = await searched(bench)
    both = (Cell(dataset="digits", arm="baseline"), Cell(dataset="digits", arm="method"))
    base = {"experiment.py": ENTRY.format("x", 1), "arms/baseline.py": "a", "arms/method.py": "b", "plots.py": "p"}
    view = build_snapshot(bench.state, "agenda", list_all_results(bench.state))

    def keys(changes: dict[str, str]) -> tuple[str, ...]:
        return tuple(
            compute_cell_keys(both, base | changes, arms=("baseline", "method"), context=bench, view=view).values()
        )

    known = keys({})
    assert len(set(known)) == 2 and keys({"plots.py": "q"}) == known and node.is_finished
    assert [a == b for a, b in zip(keys({"arms/method.py": "c"}), known, strict=True)] == [True, False]
    for change in ({"experiment.py": ENTRY.format("x", 2)}, {"common.py": ""}, {"arms/__init__.py": ""}):
        assert not set(keys(change)) & set(known), change
    reads = base["experiment.py"].replace("measure(run)", "measure(run, reads={'method': 'baseline'})")
    assert keys({"experiment.py": reads, "arms/baseline.py": "z"})[1] != keys({"experiment.py": reads})[1]
    elsewhere = FakeExecutor()
    elsewhere.environment_fingerprint = "another machine, or another folder that code may read"
    for other in (replace(bench, sandbox=SandboxSettings(network="on")), replace(bench, executor=elsewhere)):
        assert not set(
            compute_cell_keys(both, base, arms=("baseline", "method"), context=other, view=view).values()
        ) & set(known)


async def test_what_the_plan_leaves_out_is_not_owed_and_does_not_rank(tmp_path: Path) -> None:
    plan = PLAN.model_copy(
        update={
            "datasets": (*PLAN.datasets, DatasetUse(name="wine")),
            "factor": "noise",
            "levels": (Level(name="low"), Level(name="high")),
            "left_out": (
                OmittedCells(arm="baseline", level="high", reason="it has no noise"),
                OmittedCells(dataset="wine", level="low", reason="it is seen on digits"),
            ),
        }
    )
    bench, _ = agenda(tmp_path, nodes=1)
    (node,) = await searched(bench)
    view = replace(build_snapshot(bench.state, "agenda", list_all_results(bench.state)), plan=plan)
    left = [
        (one.dataset, one.arm, one.level)
        for one in required_cells(node.model_copy(update={"arms": ()}), view, plan=plan)
    ]
    assert left == [
        ("digits", "baseline", "low"),
        ("digits", "method", "low"),
        ("digits", "method", "high"),
        ("wine", "method", "high"),
    ]
    assert get_panel("agenda", plan).entries == set(left)
    assert plan.conditions == ("baseline@low", "method@low", "method@high")
    assert plan.untested_statements[-1] == "low on wine (it is seen on digits)"


async def test_replicates_that_plan_the_number_of_seeds_measure_the_cells_of_hypotheses_and_what_these_read(
    tmp_path: Path,
) -> None:
    levels = (Level(name="low"), Level(name="high"))
    arms = (*PLAN.arms, Arm(name="source", role="baseline"), Arm(name="other", role="baseline"))
    hypotheses = make_hypotheses("method", "baseline", higher=True, level="low")
    plan = PLAN.model_copy(update={"factor": "noise", "levels": levels, "arms": arms, "hypotheses": hypotheses})
    bench, _ = agenda(tmp_path, nodes=1)
    (node,) = await searched(bench)
    lines = tuple(
        CellOutcomeLine(cell=Cell(dataset="digits", arm=arm.name, level=level.name), outcome="measured")
        for level in levels
        for arm in arms
    )
    parent = node.model_copy(update={"attempts": (node.attempts[-1].model_copy(update={"cells": lines}),)})
    view = replace(build_snapshot(bench.state, "agenda", list_all_results(bench.state)), plan=plan)
    view = replace(view, nodes={**view.nodes, parent.id: parent})

    def measured(stage: StageName, plan: DataPlan = plan, *, seed: int = 1000) -> list[tuple[str, str, int]]:
        replicate = Node(
            id="n9999", decision=9999, stage=stage, kind="replicate", parent=parent.id, seed=seed, status="running"
        )
        cells = required_cells(replicate, view, plan=plan, reads={"method": "source"})
        return [(one.arm, one.level, one.seed) for one in cells]

    assert measured("tuning") == [(arm, "low", 1000) for arm in ("baseline", "method", "source")]
    assert len(measured("agenda")) == len(lines)
    assert len(measured("tuning", plan.model_copy(update={"hypotheses": ()}))) == len(lines), "no hypothesis: all"

    lock = ConfirmationLocked(
        plan="", amendments=0, winner=parent.id, source="", n=1, seeds=(1000,), looks=(1, 2), trials={}
    )
    look = LookTaken(look=0, seeds=(1000,), undecided=(hypotheses[0].id,))
    view = replace(view, lock=lock, looks=(look,))
    assert len(measured("agenda")) == len(lines), "it was planned"
    late = [(arm, "low", 1001) for arm in ("baseline", "method", "source")]
    assert measured("agenda", seed=1001) == late, "a look added it: only what an undecided hypothesis reads"
