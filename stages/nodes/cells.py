"""The cells that a node owes, by what key each is known, and which of them were measured before.

A key is a hash of all that a cell's code can reach: what is not in the key is not there for it. So two cells with the
same key measure the same, and the second one takes over what the first one measured.

Not kept: code whose values depend on the time of day, the number of the process or the load of the machine. One in
`CHECKED` cells that could be taken over is therefore measured again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from labwright.models.settings import SubjectSettings
from labwright.record.estimands import main_arms
from labwright.record.events.searching import CellExecuted, CellsOwed, Decided
from labwright.record.fold.state import RunState
from labwright.record.folder import read_source, seal, sha256_of_files
from labwright.record.ladder import cells_of_rung
from labwright.record.nouns.cells import Cell, CellLine
from labwright.record.nouns.data import DataPlan, DatasetFacts, Needs
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import CellRun, Node, node_id
from labwright.record.nouns.tuning import Trial
from labwright.record.repository_source import CODE
from labwright.record.source import ENTRY, visible_files
from labwright.record.syntax import reads_of, strings_in
from labwright.record.tuning import cells_of_trial
from labwright.sandbox.cells import failure_of_cells
from labwright.sandbox.job import CellOutcome, Job, Outcome
from labwright.sandbox.results import SAID
from labwright.search.tree import View
from labwright.stages.bench import Bench, enter, note_spent
from labwright.stages.briefs import duty_of

CHECKED = 50
"""Of so many cells that could be taken over one is measured again."""


def is_grid(source: Mapping[str, str]) -> bool:
    """Whether a program measures cell by cell; otherwise it is a plain script, which does all at once."""
    return CODE in source or reads_of(source.get(ENTRY, "")) is not None


def owed(
    node: Node, view: View, *, plan: DataPlan, trials: Sequence[Trial] = (), reads: Mapping[str, str] | None = None
) -> tuple[Cell, ...]:
    """What a node has to measure, the most important first: of each dataset all arms at one level, then at the next.

    A replicate owes what its parent owed; an ablation, and what repairs one, its own arms alone, with the method's
    setting; a node that tries settings those of each, with those that they read.
    """
    if trials:
        read = dict.fromkeys(arm for one in trials if (arm := (reads or {}).get(one.arm)) is not None)
        known = (Trial(arm=arm, number=node.trials.get(arm, 0), setting={}) for arm in read)
        return tuple(
            cell
            for one in (*known, *trials)
            for cell in cells_of_trial(plan, one.arm, seed=node.seed, number=one.number, share=one.share)
        )
    duty = duty_of(view)
    method = next(arm.name for arm in plan.arms if arm.role == "method")
    parent = view.nodes.get(node.parent or "")
    arms = node.arms or (parent.arms if parent is not None and node.kind in ("debug", "replicate") else ()) or duty.arms
    if view.stage == "ablation" and not arms:
        main = main_arms(plan)
        arms = tuple(arm.name for arm in plan.arms if arm.name not in main)
    if node.kind == "replicate" and parent is not None and parent.attempts:
        cells = (one.cell for one in parent.attempts[-1].cells)
        return tuple(cell.model_copy(update={"seed": node.seed}) for cell in cells)
    return tuple(
        Cell(
            dataset=dataset,
            arm=arm,
            level=level,
            seed=node.seed,
            trial=node.trials.get(arm if arm in plan.compared else method, 0),
        )
        for dataset in duty.datasets
        for level in duty.levels or ("",)
        for arm in arms
        if plan.owes(dataset, arm, level)
    )


def arms_of(node: Node, plan: DataPlan) -> tuple[str, ...]:
    """All arms that a node's program may have a file for."""
    return tuple(dict.fromkeys((*(arm.name for arm in plan.arms), *node.arms)))


def keys_of(
    cells: Iterable[Cell], source: Mapping[str, str], *, arms: Iterable[str], bench: Bench, view: View
) -> dict[Cell, str]:
    """The key of each cell: what it sees of the source, its data, artifacts, models, scorer, and what it runs on."""
    arms, cells = tuple(arms), tuple(cells)
    reads = reads_of(source.get(ENTRY, "")) or {}
    places = {(cell.place, cell.seed): cell for cell in reversed(cells)}
    facts = {one.name: one.fingerprint for one in bench.facts}
    scorers = {one.dataset: one.sha256 for one in bench.state.scorers}
    words = {word for text in source.values() for word in strings_in(text)}
    left = {
        f"{node.id}/{file}": digest
        for node in view.nodes.values()
        if node.id in words and node.attempts
        for file, digest in node.attempts[-1].artifacts.items()
    }

    def key(cell: Cell, above: tuple[str, ...] = ()) -> str:
        seen = visible_files(source, cell.arm, arms=arms, reads=reads)
        read = reads.get(cell.arm, cell.arm)
        other = cell.model_copy(update={"arm": read, "trial": 0})
        content: dict[str, object] = {
            "cell": cell.model_dump(exclude={"trial"}),
            "setting": bench.state.setting_of(cell.arm, cell.trial),
            "data": facts.get(cell.dataset, ""),
            "scorer": scorers.get(cell.dataset, ""),
            "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in seen.items()},
            **subjects_of(bench.plan, bench.subjects),
            "artifacts": left,
            "pretrained": bench.pretrained,
            "network": bench.network,
            "ground": bench.executor.ground,
            "reads": ""
            if read in (cell.arm, *above)
            else key(places.get((other.place, other.seed), other), (*above, cell.arm)),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    return {cell: key(cell) for cell in cells}


def subjects_of(plan: DataPlan, subjects: Mapping[str, SubjectSettings]) -> dict[str, object]:
    """What a key has of the language models that code may ask; nothing where it may ask none."""
    known = {name: subjects[name].definition for name in plan.subjects if name in subjects}
    return {"subjects": known} if known else {}


def asking(job: Job, plan: DataPlan, subjects: Mapping[str, SubjectSettings], facts: Iterable[DatasetFacts]) -> Job:
    """The job with what it may ask, kept under a key of its own where it does all at once."""
    if not plan.subjects:
        return job
    content = {
        "files": sha256_of_files(job.source),
        "seed": job.seed,
        **subjects_of(plan, subjects),
        "data": [one.fingerprint for one in facts],
    }
    return replace(
        job, subjects=plan.subjects, key=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    )


def code_of_arms(cells: Iterable[Cell], source: Mapping[str, str], *, arms: Iterable[str]) -> dict[str, str]:
    """Arm -> sha256 of the files that its cells see: what a tuned setting holds for."""
    arms, reads = tuple(arms), reads_of(source.get(ENTRY, "")) or {}
    return {
        arm: sha256_of_files(visible_files(source, arm, arms=arms, reads=reads))
        for arm in dict.fromkeys(cell.arm for cell in cells)
    }


def taken_over(decided: Decided, keys: Iterable[str], *, bench: Bench) -> dict[str, str]:
    """Key -> the execution that measured it for another node; nothing once two executions of one key differed.

    In `ticket` order only what the decision may see is taken over. One in `CHECKED` keys never is, nor an execution
    whose artifacts are gone (`record.keeping`).
    """
    state = bench.state

    def visible(node: str) -> bool:
        return bench.search.order == "arrival" or state.nodes[node].decision in decided.seen

    if differing(state, visible):
        return {}
    found = (
        (key, run.id)
        for key in keys
        if _shared(key)
        for node, run in state.cells.of_key(key)
        if run.failure is None and visible(node) and f"cells/{run.id}/artifacts" not in state.collected
    )
    return dict(reversed([*found]))  # the first of each key


def _shared(key: str) -> bool:
    """Whether a cell may be taken over, and is none of those that are measured again."""
    return bool(int(key[-8:], 16) % CHECKED)


def differing(state: RunState, visible: Callable[[str], bool] = lambda _: True) -> bool:
    """Whether two executions with the same key, for nodes that are visible, measured different values."""
    for key in state.cells.repeated:
        runs = [run for node, run in state.cells.of_key(key) if run.failure is None and visible(node)]
        if any(run.measurements != runs[0].measurements for run in runs):
            return True
    return False


AGAIN = ("timeout", "memory", "died")
"""Failures of a cell that a second attempt of its node, with other limits, may overcome."""


class Grid:
    """The cells of one node while it is executed: each is committed when it ends, and never executed again."""

    def __init__(self, bench: Bench, owed: CellsOwed) -> None:
        self._bench = bench
        self._owed = owed
        self.keys = dict(zip(owed.cells, owed.keys, strict=True))
        self._disowned = bool(self._node.attempts) and differing(bench.state)
        """Whether what was taken over is to be measured after all, since two executions of one key differed."""
        earlier = {line.id for attempt in self._node.attempts for line in attempt.cells}
        self._stand = {
            run.key: run
            for run in bench.state.cells.of_node(owed.node)
            if not (run.id in earlier and run.failure is not None and run.failure.kind in AGAIN)
        }
        """Key -> what was committed before, by this node in this attempt, or measured in an earlier one."""

    @property
    def _node(self) -> Node:
        return self._bench.state.nodes[self._owed.node]

    def run_of(self, cell: Cell) -> CellRun | None:
        """The execution that stands for a cell: the node's own, or one that is taken over."""
        key = self.keys[cell]
        taken = None if self._disowned else self._bench.state.cells.get(self._owed.taken.get(key, ""))
        return self._stand.get(key) or (taken[1] if taken is not None else None)

    async def run(self, job: Job) -> Outcome:
        """What comes of the job over the node's cells: those that are to be measured, and those that were executed."""
        known = {cell: run for cell in self.keys if (run := self.run_of(cell)) is not None}
        timed = self._bench.search.order == "arrival"
        with self._bench.in_progress.claim(key for cell, key in self.keys.items() if cell not in known):
            return await self._bench.executor.run(
                replace(
                    with_settings(job, self.keys, self._bench.state),
                    arms=arms_of(self._node, self._bench.plan),
                    ready={cell: self._bench.folder.cell(run.id) for cell, run in known.items() if run.failure is None},
                    failed={cell: _outcome_of(run) for cell, run in known.items() if run.failure is not None},
                    keys=self.keys,
                    cut=self._cut(),
                    expected=self._expected() if timed else {},
                    leave_out=timed,
                    took=self._took,
                )
            )

    def _cut(self) -> dict[Cell, Path]:
        """What executions of the node's cells left that ran into a limit: their checkpoints serve the next one."""
        cut = {
            run.key: self._bench.folder.cell(run.id)
            for run in self._bench.state.cells.of_node(self._owed.node)
            if run.failure is not None and run.failure.kind in AGAIN
        }
        return {cell: cut[key] for cell, key in self.keys.items() if key in cut}

    def _expected(self) -> dict[Cell, float]:
        """Seconds that the parent took for a cell of the same place."""
        parent = self._bench.state.nodes.get(self._node.parent or "")
        lines = parent.attempts[-1].cells if parent is not None and parent.attempts else ()
        took = {line.cell.place: line.seconds for line in lines if line.outcome in ("measured", "taken over")}
        return {cell: took[cell.place] * cell.share for cell in self.keys if cell.place in took}

    async def _took(self, cell: Cell, outcome: CellOutcome, folder: Path) -> Path:
        key = self.keys[cell]
        before = len(self._bench.state.cells.of_key(key))
        run = CellRun(id=f"{key[:24]}-{before}", key=key, **vars(outcome))
        final = self._bench.folder.cell(run.id)
        final.parent.mkdir(exist_ok=True)
        seal(folder, final)
        self._bench.recorder.append(CellExecuted(node=self._owed.node, run=run))
        note_spent(self._bench, outcome.failure)
        self._stand[key] = run
        if run.failure is None:
            self._bench.in_progress.done(key)
        return final

    def whole(self, outcome: Outcome) -> Outcome:
        """The outcome of the node: its values are those of the executions that stand for its cells.

        What is sealed of them together has an index of its own, as the executor wrote it. Of several settings of one
        arm, none is the node's: their values are with the cells.
        """
        if self._node.tries:
            ran = (self.run_of(cell) for cell in self.keys)
            failure = None if any(run is not None and run.failure is None for run in ran) else outcome.failure
            return replace(
                outcome,
                seconds=self._seconds,
                cells=tuple(map(self._line, outcome.cells)),
                failure=failure,
                measurements=(),
                said=(),
                arrays={},
                sealed={},
                artifacts={},
            )
        runs = [run for cell in self.keys if (run := self.run_of(cell)) is not None and run.failure is None]
        lines = tuple(map(self._line, outcome.cells))
        failure = outcome.failure
        if failure is not None and failure.kind == "diverged" and self._node.kind == "replicate":
            failure = failure_of_cells(
                lines,
                {
                    run.id: run.failure
                    for cell in self.keys
                    if (run := self.run_of(cell)) is not None and run.failure is not None
                },
                replicate=True,
            )
        single = {(one.dataset, one.condition, one.name) for run in runs for one in run.measurements}
        compared = {metric.name for metric in self._bench.plan.metrics if metric.compares}
        return replace(
            outcome,
            seconds=self._seconds,
            cells=lines,
            failure=failure,
            measurements=(
                *(value for run in runs for value in run.measurements),
                *(
                    one
                    for one in outcome.measurements
                    if one.name in compared and (one.dataset, one.condition, one.name) not in single
                ),
            ),
            said=tuple(value for run in runs for value in run.said)[-SAID:],
            arrays={name: digest for run in runs for name, digest in run.arrays.items()},
            sealed=outcome.sealed or {name: digest for run in runs for name, digest in run.sealed.items()},
            artifacts={name: digest for run in runs for name, digest in run.artifacts.items()},
        )

    @property
    def _seconds(self) -> float:
        """Seconds of computing of this attempt, on all slots: of every execution of a cell that is its own."""
        earlier = {line.id for attempt in self._node.attempts for line in attempt.cells}
        return sum(run.seconds for run in self._bench.state.cells.of_node(self._owed.node) if run.id not in earlier)

    def _line(self, line: CellLine) -> CellLine:
        run = self.run_of(line.cell)
        if run is None:
            return line
        node = self._bench.state.cells[run.id][0]
        found = line.model_copy(update={"id": run.id, "seconds": run.seconds})
        if run.failure is not None:
            return found.model_copy(update={"diverged": run.failure.kind == "diverged"})
        return found if node == self._owed.node else found.model_copy(update={"outcome": "taken over", "node": node})


def _outcome_of(run: CellRun) -> CellOutcome:
    return CellOutcome(**{field.name: getattr(run, field.name) for field in fields(CellOutcome)})


async def grid_of(bench: Bench, decided: Decided, view: View) -> Grid | None:
    """The cells of a decision's node; None where its program is a plain script. What it owes is recorded once, when no
    other node measures any of it: what those have measured by then is taken over."""
    node = bench.state.nodes[node_id(decided.k)]
    if node.id not in bench.state.owed:
        source = read_source(bench.folder.source(node.id))
        if not is_grid(source):
            return None
        arms = arms_of(node, bench.plan)
        trials = action.trials if isinstance(action := decided.action, Expand) and node.kind == "trial" else ()
        reads = reads_of(source.get(ENTRY, "")) or {}
        cells = (
            cells_of_rung(bench.state, node)
            if node.kind == "rung"
            else owed(node, view, plan=bench.plan, trials=trials, reads=reads)
        )
        keys = keys_of(cells, source, arms=arms, bench=bench, view=view)
        while others := _measured_beside(bench, keys.values()):
            enter(bench, node.id, "waiting")
            for one in others:
                await one.wait()
        bench.recorder.append(
            CellsOwed(
                node=node.id,
                cells=tuple(keys),
                keys=tuple(keys.values()),
                code=code_of_arms(keys, source, arms=arms),
                taken=taken_over(decided, keys.values(), bench=bench),
            )
        )
    return Grid(bench, bench.state.owed[node.id])


def _measured_beside(bench: Bench, keys: Iterable[str]) -> list[asyncio.Event]:
    """What tells that other nodes are through with cells that are theirs as well, and could be taken over."""
    if bench.search.order == "ticket" or differing(bench.state):
        return []
    return bench.in_progress.claimed_by_others(key for key in keys if _shared(key))


def with_settings(job: Job, cells: Iterable[Cell], state: RunState) -> Job:
    """A job that measures these cells, each with the hyperparameters of its arm in its trial."""
    cells = tuple(cells)
    plan = state.data_plan
    needs = {} if plan is None else {arm: plan.needs_of(arm) for arm in {cell.arm for cell in cells} or plan.compared}
    return replace(
        job,
        cells=cells,
        settings={cell: state.setting_of(cell.arm, cell.trial) for cell in cells},
        needs={arm: one for arm, one in needs.items() if one != Needs()},
        rungs_by=state.data_plan.tuning.rungs_by if state.data_plan is not None else job.rungs_by,
    )


def again(job: Job, node: Node, state: RunState) -> Job:
    """A job that executes a node's program again: for a program of cells, every cell that was measured, none ready."""
    lines = measured_cells(node)
    return replace(
        with_settings(job, (line.cell for line in lines), state),
        keys=_keys(state, node),
        arms=tuple({line.cell.arm: 0 for line in lines}),
        expected={line.cell: line.seconds for line in lines},
        leave_out=False,
    )


def _keys(state: RunState, node: Node) -> dict[Cell, str]:
    owed = state.owed.get(node.id)
    return {} if owed is None else dict(zip(owed.cells, owed.keys, strict=True))


def seconds_measured(node: Node) -> float:
    """Seconds of computing behind a node's last measurements, also those that other nodes spent for it."""
    return sum(line.seconds for line in measured_cells(node)) or node.attempts[-1].seconds


def measured_cells(node: Node) -> list[CellLine]:
    """The cells behind a node's last measurements."""
    return [line for line in node.attempts[-1].cells if line.outcome in ("measured", "taken over")]
