"""The cells that a node must measure, their keys, and the earlier measurements that can be reused.

A key is a hash of everything that a cell's code can read; anything outside the key is hidden from it. Two cells with
the same key therefore measure the same values, and the second reuses those of the first.

Limits: values may still depend on the time of day, the process id or the load of the machine. One in `RECHECK_INTERVAL`
reusable cells is therefore measured again.
"""

from __future__ import annotations

import hashlib
import json
from asyncio import to_thread
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from labwright.models.settings import SubjectSettings
from labwright.record.estimands import CellRef, list_main_arms, list_registered_cells, list_swapped_cells
from labwright.record.events.search_events import (
    AttemptExecuted,
    CellExecuted,
    CellsRequired,
    DecisionMade,
    NodeSuspected,
)
from labwright.record.line_store import RecordError
from labwright.record.python_syntax import collect_reads, collect_strings
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import list_reference_cells
from labwright.record.run_folder import (
    RunFolder,
    create_draft_folder,
    hash_texts,
    list_result_folders,
    read_source,
    seal_folder,
)
from labwright.record.schema.data_plan import DataPlan, DatasetFacts, ResourceNeeds, Trial
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import (
    PLANNING_STAGES,
    Attempt,
    Cell,
    CellOutcomeLine,
    CellRun,
    HonestyFinding,
    Node,
    format_node_id,
)
from labwright.record.source_tree import CODE_FILE, ENTRY_FILE, select_visible_files
from labwright.record.tuning_results import list_trial_cells
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.cell_scheduler import summarize_failures
from labwright.sandbox.job import ArtifactFile, CellResult, CellTask, Job, JobOutcome, combine_needs
from labwright.sandbox.results import write_job_output
from labwright.sandbox.workspace import CELLS_FOLDER, remove_rescued
from labwright.search.replication import is_late_seed, list_undecided_cells
from labwright.search.stage_snapshot import StageSnapshot
from labwright.stages.measuring import measure_job
from labwright.stages.prompt_inputs import find_required_measurements
from labwright.stages.run_context import RunContext, enter_step, record_spent_budget

RECHECK_INTERVAL = 50
"""One in this many reusable cells is measured again."""


def is_cell_program(source: Mapping[str, str]) -> bool:
    """Return whether a program measures cell by cell; otherwise it is a plain script that measures all conditions
    at once.
    """
    return CODE_FILE in source or collect_reads(source.get(ENTRY_FILE, "")) is not None


def required_cells(
    node: Node,
    view: StageSnapshot,
    *,
    plan: DataPlan,
    trials: Sequence[Trial] = (),
    reads: Mapping[str, str] | None = None,
) -> tuple[Cell, ...]:
    """Return the cells that a node must measure, by priority: on each dataset all arms at one level, then at the next.

    A replicate measures the cells of its parent: one that serves to plan the number of seeds only those that
    confirmatory hypotheses read, one with a fresh seed also those on other datasets of the plan (one that a look added
    to the planned seeds only those that an undecided hypothesis reads); an ablation, or a fix
    of one, only its own arms, with the setting of the method or of the arm that it names; a node that tries settings
    measures those of each trial. Arms whose results these read are added.
    """
    reads = reads or {}
    if trials:
        read = dict.fromkeys(arm for one in trials if (arm := reads.get(one.arm)) is not None)
        known = (Trial(arm=arm, number=node.trials.get(arm, 0), setting={}) for arm in read)
        return tuple(
            cell
            for one in (*known, *trials)
            for cell in list_trial_cells(plan, one.arm, seed=node.seed, number=one.number)
        )
    duty, parent = find_required_measurements(view), view.nodes.get(node.parent or "")
    inherited = parent.arms if parent is not None and node.kind in ("debug", "replicate") else ()
    datasets, main, measured = duty.datasets, list_main_arms(plan), list[Cell]()
    arms = node.arms or inherited or duty.arms
    if view.stage == "ablation" and not arms:
        arms = tuple(arm.name for arm in plan.arms if arm.name not in main)
    if node.kind == "replicate" and parent is not None and parent.attempts:
        measured = [one.cell.model_copy(update={"seed": node.seed}) for one in parent.attempts[-1].cells]
        if node.stage in PLANNING_STAGES:
            return tuple(select_read_cells(measured, list_registered_cells(plan), reads) or measured)
        if not _is_confirming(node, view):
            return tuple(measured)
        datasets, arms = tuple(use.name for use in plan.datasets), main
    wanted = (
        Cell(dataset=dataset, arm=arm, level=level, seed=node.seed, trial=node.trials.get(plan.find_tuned_arm(arm), 0))
        for dataset in datasets
        for level in duty.levels or ("",)
        for arm in arms
        if plan.has_cell(dataset, arm, level)
    )
    known = {cell.place_name for cell in measured}
    cells = (*measured, *(cell for cell in wanted if cell.place_name not in known))
    if is_late_seed(view, node.seed):
        return tuple(select_read_cells(cells, list_undecided_cells(plan, view.looks), reads))
    return cells


def select_read_cells(cells: Sequence[Cell], read: Iterable[CellRef | Cell], reads: Mapping[str, str]) -> list[Cell]:
    """Return the cells that are read, and those whose results these read in turn."""
    places = {(one.dataset, one.arm, one.level) for one in read}
    pending = list(places)
    while pending:
        dataset, arm, level = pending.pop()
        if (place := (dataset, reads.get(arm, arm), level)) not in places:
            places.add(place)
            pending.append(place)
    return [cell for cell in cells if (cell.dataset, cell.arm, cell.level) in places]


def list_arms(node: Node, plan: DataPlan | None) -> tuple[str, ...]:
    """Return all arms that a node's program may have a file for."""
    return tuple(dict.fromkeys((*(arm.name for arm in (plan.arms if plan is not None else ())), *node.arms)))


def compute_cell_keys(
    cells: Iterable[Cell],
    source: Mapping[str, str],
    *,
    arms: Iterable[str],
    context: RunContext,
    view: StageSnapshot | None = None,
) -> dict[Cell, str]:
    """Return the key of each cell, a hash of its visible source, data, artifacts, models, scorer and environment.

    Without a `view`, no artifact is visible.
    """
    arms, cells = tuple(arms), tuple(cells)
    reads = collect_reads(source.get(ENTRY_FILE, "")) or {}
    places = {(cell.place_name, cell.seed): cell for cell in reversed(cells)}
    facts = {one.name: one.fingerprint for one in context.facts}
    scorers = {one.dataset: one.sha256 for one in context.state.search.scorers}
    words = {word for text in source.values() for word in collect_strings(text)}
    read = (one for name, one in (view.nodes if view else {}).items() if name in words)
    known = list_node_artifacts(context.state, context.folder, read)
    artifacts = {f"{node}/{name}": one.sha256 for node, files in known.items() for name, one in files.items()}

    def key(cell: Cell, above: tuple[str, ...] = ()) -> str:
        seen = select_visible_files(source, cell.arm, arms=arms, reads=reads)
        read = reads.get(cell.arm, cell.arm)
        other = cell.model_copy(update={"arm": read, "trial": 0, "setting_of": "", "setting_trial": 0})
        content: dict[str, object] = {
            "cell": cell.model_dump(exclude={"trial", "setting_trial"}),
            "setting": context.state.search.find_cell_setting(cell),
            "data": facts.get(cell.dataset, ""),
            "scorer": scorers.get(cell.dataset, ""),
            "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in seen.items()},
            **build_subject_key(context.state.search.data_plan, context.subjects),
            "artifacts": artifacts,
            "pretrained": context.pretrained_models,
            "network": context.network,
            "ground": context.executor.environment_fingerprint,
            "reads": ""
            if read in (cell.arm, *above)
            else key(places.get((other.place_name, other.seed), other), (*above, cell.arm)),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    return {cell: key(cell) for cell in cells}


def build_subject_key(plan: DataPlan | None, subjects: Mapping[str, SubjectSettings]) -> dict[str, object]:
    """Return the part of a key for the language models that code may query; empty if it may query none."""
    known = {name: subjects[name].definition for name in (plan.subjects if plan else ()) if name in subjects}
    return {"subjects": known} if known else {}


def with_llm_access(
    job: Job, plan: DataPlan, subjects: Mapping[str, SubjectSettings], facts: Iterable[DatasetFacts]
) -> Job:
    """Return the job with access to the studied models, under its own key if it is a plain script."""
    tasks = job.with_script_cell()
    if not plan.subjects or not all(cell.is_script for cell in tasks):
        return replace(job, subjects=plan.subjects)
    content = {
        "files": hash_texts(job.source),
        "seed": next(iter(tasks)).seed,
        **build_subject_key(plan, subjects),
        "data": [one.fingerprint for one in facts],
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return replace(job, subjects=plan.subjects, cells={cell: replace(task, key=key) for cell, task in tasks.items()})


def hash_arm_code(cells: Iterable[Cell], source: Mapping[str, str], *, arms: Iterable[str]) -> dict[str, str]:
    """Return a map from arm to the sha256 of the files that its cells see; a tuned setting is valid for these files
    only.
    """
    arms, reads = tuple(arms), collect_reads(source.get(ENTRY_FILE, "")) or {}
    return {
        arm: hash_texts(select_visible_files(source, arm, arms=arms, reads=reads))
        for arm in dict.fromkeys(cell.arm for cell in cells)
    }


def reusable_cells(decided: DecisionMade, keys: Iterable[str], *, context: RunContext) -> dict[str, str]:
    """Return a map from key to the execution of another node that can be reused; empty once two executions of one key
    differed.

    In `ticket` order only results that the decision may see are reused. One in `RECHECK_INTERVAL` keys is never reused,
    and neither is an execution whose artifacts were deleted (`record.retention`).
    """
    state = context.state

    def visible(node: str) -> bool:
        return context.search.order == "arrival" or state.nodes[node].decision in decided.seen

    if has_nondeterminism(state, visible):
        return {}
    reusable = [
        (key, run.id)
        for key in keys
        if _is_reusable(key)
        for node, run in state.cells.list_key_runs(key)
        if run.failure is None and visible(node) and f"cells/{run.id}/artifacts" not in state.deleted_folders
    ]
    return dict(reversed(reusable))  # the first of each key


def _is_reusable(key: str) -> bool:
    """Return whether a cell may be reused, i.e. is not selected to be measured again."""
    return bool(int(key[-8:], 16) % RECHECK_INTERVAL)


def has_nondeterminism(state: RunState, is_visible: Callable[[str], bool] = lambda _: True) -> bool:
    """Return whether, among visible nodes, two executions with the same key measured different values."""
    for key in state.cells.repeated:
        runs = [run for node, run in state.cells.list_key_runs(key) if run.failure is None and is_visible(node)]
        if any(run.measurements != runs[0].measurements for run in runs):
            return True
    return False


RETRYABLE_FAILURES = ("timeout", "memory", "died")
"""Failures of a cell that a second attempt with other limits may overcome."""


class NodeCells:
    """The cells of one node during its execution: each is committed when it ends, and never executed again."""

    def __init__(self, context: RunContext, required: CellsRequired) -> None:
        self._context = context
        self._required = required
        self.keys = dict(zip(required.cells, required.keys, strict=True))
        self._remeasures = bool(self._node.attempts) and has_nondeterminism(context.state)
        """Whether reused cells must be measured again, because two executions of one key differed."""
        earlier = {line.id for attempt in self._node.attempts for line in attempt.cells}
        self._committed = {
            run.key: run
            for run in context.state.cells.list_node_runs(required.node)
            if not (run.id in earlier and run.failure is not None and run.failure.kind in RETRYABLE_FAILURES)
        }
        """Key -> execution committed earlier in this attempt, or measured in a previous attempt."""

    @property
    def _node(self) -> Node:
        return self._context.state.nodes[self._required.node]

    def find_run(self, cell: Cell) -> CellRun | None:
        """Return the execution used for a cell: the node's own, or a reused one."""
        key = self.keys[cell]
        reused = None if self._remeasures else self._context.state.cells.get(self._required.taken.get(key, ""))
        return self._committed.get(key) or (reused[1] if reused is not None else None)

    @property
    def owed_keys(self) -> list[str]:
        """Keys of the cells that the node measures itself."""
        return [key for cell, key in self.keys.items() if self.find_run(cell) is None]

    def add_to(self, job: Job, rescued: Path | None) -> Job:
        """Return the job with the node's cells, both those still to be measured and those already executed.

        `rescued` has the checkpoints of cells that a kill interrupted.
        """
        timed = self._context.search.order == "arrival"
        interrupted, expected = self._find_checkpoints(), self._estimate_seconds() if timed else {}

        def task(cell: Cell, task: CellTask) -> CellTask:
            if (run := self.find_run(cell)) is not None:
                folder = self._context.folder.get_cell_path(run.id)
            else:
                folder = interrupted.get(cell) or (rescued and rescued / CELLS_FOLDER / cell.name)
            return replace(task, key=self.keys[cell], known=run, folder=folder, expected_seconds=expected.get(cell))

        job, plan = apply_settings(job, self.keys, self._context.state), self._context.state.search.data_plan
        return replace(
            job,
            cells={cell: task(cell, one) for cell, one in job.cells.items()},
            arms=list_arms(self._node, plan),
            may_skip_cells=timed and plan is not None,
        )

    def _find_checkpoints(self) -> dict[Cell, Path]:
        """Return the folders of executions that hit a limit; the next execution continues from their checkpoints."""
        interrupted = {
            run.key: self._context.folder.get_cell_path(run.id)
            for run in self._context.state.cells.list_node_runs(self._required.node)
            if run.failure is not None and run.failure.kind in RETRYABLE_FAILURES
        }
        return {cell: interrupted[key] for cell, key in self.keys.items() if key in interrupted}

    def _estimate_seconds(self) -> dict[Cell, float]:
        """Return the seconds that the parent took for the same cell."""
        parent = self._context.state.nodes.get(self._node.parent or "")
        lines = parent.attempts[-1].cells if parent is not None and parent.attempts else ()
        seconds = {line.cell.place_name: line.seconds for line in lines if line.outcome in ("measured", "taken over")}
        return {cell: seconds[cell.place_name] for cell in self.keys if cell.place_name in seconds}

    def commit(self, result: CellResult, folder: Path) -> Path:
        """Move the folder of an ended cell to its place, commit the execution, and return the place."""
        key = self.keys[result.cell]
        before = len(self._context.state.cells.list_key_runs(key))
        run = CellRun(
            id=f"{key[:24]}-{before}", key=key, cell=result.cell, training=result.training, **result.copy_results()
        )
        final = self._context.folder.get_cell_path(run.id)
        final.parent.mkdir(exist_ok=True)
        seal_folder(folder, final)
        self._context.recorder.append(CellExecuted(node=self._required.node, run=run))
        record_spent_budget(self._context, result.failure)
        self._committed[key] = run
        if run.failure is None:
            self._context.work_in_progress.release(key)
        return final

    def to_node_outcome(self, outcome: JobOutcome) -> JobOutcome:
        """Return the outcome of the node, whose lines name the executions, with the compute time of this attempt over
        all slots. A node that tries several settings of an arm has no values itself; they are stored with its cells."""
        lines, failure = tuple(map(self._build_line, outcome.cells)), outcome.failure
        runs = {run.id: run for cell in self.keys if (run := self.find_run(cell)) is not None}
        earlier = {line.id for attempt in self._node.attempts for line in attempt.cells}
        own = (one for one in self._context.state.cells.list_node_runs(self._required.node) if one.id not in earlier)
        update: dict[str, object] = {"seconds": sum(one.seconds for one in own), "cells": lines}
        if self._node.is_trial:
            worked = any(run.failure is None for run in runs.values())
            update |= dict.fromkeys(("measurements", "self_reported"), ()) | {"failure": None if worked else failure}
            update |= {name: {} for name in ("arrays", "sealed", "artifacts")}
        elif failure is not None and failure.kind == "diverged" and self._node.kind == "replicate":
            failures = {run.id: run.failure for run in runs.values() if run.failure is not None}
            update["failure"] = summarize_failures(lines, failures, replicate=True)
        return outcome.model_copy(update=update)

    def seal_attempt(self, draft: Path, final: Path, job: Job, outcome: JobOutcome) -> JobOutcome:
        """Seal the folder of an attempt with the output of its cells, and return the outcome of the node."""
        tail = write_job_output(draft, job, outcome)
        remove_tree(draft / CELLS_FOLDER)
        seal_folder(draft, final)
        return self.to_node_outcome(outcome).model_copy(update={"stdout_tail": tail})

    def _build_line(self, line: CellOutcomeLine) -> CellOutcomeLine:
        run = self.find_run(line.cell)
        if run is None:
            return line
        node = self._context.state.cells[run.id][0]
        update: dict[str, object] = {"id": run.id, "seconds": run.seconds}
        if run.failure is not None:
            update["diverged"] = run.failure.kind == "diverged"
        elif node != self._required.node:
            update |= {"outcome": "taken over", "node": node}
        return line.model_copy(update=update)


async def execute_attempt(
    context: RunContext,
    node: Node,
    cells: NodeCells | None,
    *,
    limit: float,
    alone: bool = False,
    rescued: Path | None = None,
    artifacts: Mapping[str, Mapping[str, ArtifactFile]] = MappingProxyType({}),
    quiet_seconds: float | None = None,
    check: Callable[[JobOutcome], tuple[HonestyFinding, ...]] = lambda _: (),
) -> None:
    """Execute a node's code once, and record the attempt and what `check` finds; `cells` is None for a plain script.

    `limit` is in seconds; `rescued` has the checkpoints of cells that a kill interrupted. Raises `TooLate`,
    `BudgetSpent`.
    """
    number, plan = len(node.attempts) + 1, context.state.search.data_plan
    final = context.folder.get_attempt_path(node.id, number)
    job = Job(
        name=f"{node.id}/{number}",
        folder=create_draft_folder(final),
        source=read_recorded_source(context, node),
        seed=node.seed,
        timeout=limit,
        alone=alone,
        quiet_seconds=quiet_seconds,
        live_output=context.folder.get_live_output_path(node.id, number),
        artifacts=artifacts,
        datasets=tuple(use.name for use in plan.datasets) if plan is not None else (),
    )
    if cells is not None:
        job = cells.add_to(job, rescued)
    else:
        script = Cell(dataset="", arm="", seed=node.seed)
        earlier = context.folder.get_attempt_path(node.id, number - 1) if number > 1 else None
        checkpoints = rescued / CELLS_FOLDER / script.name if rescued is not None else earlier
        needs = combine_needs(map(context.plan.find_needs, context.plan.compared_arms))
        job = replace(job, cells={script: CellTask(needs=needs, folder=checkpoints)})
    if plan is not None:
        job = with_llm_access(job, plan, context.subjects, context.facts)
    enter_step(context, node.id, "waiting")
    outcome = await measure_job(
        context,
        job,
        on_start=lambda: enter_step(context, node.id, "running"),
        commit=cells.commit if cells is not None else None,
        decision=node.decision,
    )
    findings = await to_thread(check, outcome)
    if cells is not None:
        outcome = await to_thread(cells.seal_attempt, job.folder, final, job, outcome)
    else:
        seal_folder(outcome.folder, final)
        remove_tree(job.folder)
    if findings and not node.findings:
        context.recorder.append(NodeSuspected(node=node.id, findings=findings))
    attempt = Attempt(number=number, limit=limit, alone=alone, cells=outcome.cells, **outcome.copy_results())
    context.recorder.append(AttemptExecuted(node=node.id, attempt=attempt))
    remove_rescued(job.folder)
    record_spent_budget(context, outcome.failure)


def read_recorded_source(context: RunContext, node: Node) -> dict[str, str]:
    """Return the code of a node. Raises `RecordError` if it is not the recorded code, e.g. after a power failure."""
    source = read_source(place := context.folder.get_source_path(node.id))
    if hash_texts(source) != node.source_sha256:
        raise RecordError(f"{place} differs from the recorded code: restore it from a copy, then resume")
    return source


async def prepare_node_cells(
    context: RunContext, decided: DecisionMade, view: StageSnapshot, claims: ExitStack
) -> NodeCells | None:
    """Prepare the cells of a decision's node; None if its program is a plain script.

    The required cells are recorded once, when no other node is measuring any of them; those already measured are
    reused. Until `claims` is closed, other nodes wait for the cells that this node measures itself: nothing is awaited
    between the last check for pending cells and the claim, so a key is measured by one node at a time.
    """
    node = context.state.nodes[format_node_id(decided.k)]
    if node.id not in context.state.required_cells:
        source = read_recorded_source(context, node)
        if not is_cell_program(source):
            return None
        arms = list_arms(node, context.plan)
        trials = action.trials if isinstance(action := decided.action, ExpandTree) and node.kind == "trial" else ()
        reads = collect_reads(source.get(ENTRY_FILE, "")) or {}
        cells = list_reference_cells(context.state, node) if node.kind == "rung" else ()
        if node.kind != "rung":
            cells = required_cells(node, view, plan=context.plan, trials=trials, reads=reads)
            cells = (*cells, *list_controls_of_tuning(node, view, context.state))
        keys = compute_cell_keys(cells, source, arms=arms, context=context, view=view)
        shared = [key for key in keys.values() if _is_reusable(key)]
        while context.search.order == "arrival" and not has_nondeterminism(context.state):
            if not (others := context.work_in_progress.list_pending(shared)):
                break
            enter_step(context, node.id, "waiting")
            for event in others:
                await event.wait()
        context.recorder.append(
            CellsRequired(
                node=node.id,
                cells=tuple(keys),
                keys=tuple(keys.values()),
                code=hash_arm_code(keys, source, arms=arms),
                taken=reusable_cells(decided, keys.values(), context=context),
            )
        )
    cells = NodeCells(context, context.state.required_cells[node.id])
    claims.enter_context(context.work_in_progress.acquire(cells.owed_keys))
    return cells


def list_controls_of_tuning(node: Node, view: StageSnapshot, state: RunState) -> tuple[Cell, ...]:
    """Return, for a fresh seed of the winner, the cells of arms at another arm's setting, if it differs from their own.

    They run last, so that lack of time affects no verdict.
    """
    if not _is_confirming(node, view) or view.lock is None or not view.lock.swapped or is_late_seed(view, node.seed):
        return ()
    assert state.search.data_plan is not None
    swapped = list_swapped_cells(state.search.data_plan, trials=view.lock.trials, seed=node.seed)
    return tuple(
        one for one in swapped if state.search.find_cell_setting(one) != state.search.find_setting(one.arm, one.trial)
    )


def _is_confirming(node: Node, view: StageSnapshot) -> bool:
    """Return whether a node runs the winner with a fresh seed, and not to plan their number."""
    return view.lock is not None and node.stage not in PLANNING_STAGES and view.lock.is_confirming(node)


def apply_settings(job: Job, cells: Iterable[Cell], state: RunState) -> Job:
    """Return a job that measures these cells, each with the hyperparameters of its arm in its trial."""
    plan = state.search.data_plan
    tasks = {
        cell: CellTask(
            setting=state.search.find_cell_setting(cell),
            needs=plan.find_needs(cell.arm) if plan is not None else ResourceNeeds(),
        )
        for cell in cells
    }
    return replace(job, cells=tasks)


def build_rerun_job(job: Job, node: Node, state: RunState) -> Job:
    """Return a job that executes a node's program again, with every measured cell and without reuse."""
    lines, required = {line.cell: line for line in list_measured_cells(node)}, state.required_cells.get(node.id)
    if not lines:
        return job
    keys = dict(zip(required.cells, required.keys, strict=True)) if required is not None else {}
    job = apply_settings(job, lines, state)
    cells = {
        cell: replace(task, key=keys.get(cell, ""), expected_seconds=lines[cell].seconds)
        for cell, task in job.cells.items()
    }
    return replace(job, cells=cells, arms=tuple({cell.arm: 0 for cell in lines}), may_skip_cells=False)


def list_node_artifacts(
    state: RunState, folder: RunFolder, nodes: Iterable[Node]
) -> dict[str, dict[str, ArtifactFile]]:
    """Return the artifacts that nodes saved, by node and path."""
    found = {
        node.id: {
            name: ArtifactFile(place, sha256)
            for place, result in list_result_folders(state, folder, node)
            for name, sha256 in result.artifacts.items()
        }
        for node in nodes
    }
    return {node: files for node, files in found.items() if files}


def sum_measured_seconds(node: Node) -> float:
    """Return the compute time in seconds behind a node's last measurements, including time spent by other nodes."""
    return sum(line.seconds for line in list_measured_cells(node)) or node.attempts[-1].seconds


def list_measured_cells(node: Node) -> list[CellOutcomeLine]:
    """Return the cells behind a node's last measurements."""
    return [line for line in node.attempts[-1].cells if line.outcome in ("measured", "taken over")]
