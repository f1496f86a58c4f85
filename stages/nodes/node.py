"""One node from its decision to its verdict: propose, execute, plot, judge.

Every step first asks the record whether it is done, and every model answer comes from the call ledger when it was
committed before; so a node that a kill cut short is simply expanded again.

Source: AI-Scientist-v2, section 3.2.2 (execution, plotting, vision review, buggy and non-buggy nodes).
"""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from labwright.models.roles.assessing import FEEDBACK
from labwright.models.roles.coding import CODE, Program
from labwright.models.roles.figures import PLOT, PlotInputs
from labwright.record.descriptors import remove_tree
from labwright.record.events.searching import Decided, Executed, Judged, Proposed, Suspected
from labwright.record.folder import draft_of, is_full, part_of, read_source, seal, write_source
from labwright.record.ladder import TUNED
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import (
    Attempt,
    Failure,
    Finding,
    Node,
    NodeKind,
    NodeStatus,
    NodeStep,
    Verdict,
    node_id,
)
from labwright.record.reading import RecordError
from labwright.record.source import ENTRY, PLOTS, setups_of
from labwright.review.honesty import check
from labwright.review.honesty.run_facts import Ran, of_run
from labwright.sandbox.errors import SubmissionRefused
from labwright.sandbox.job import Artifacts, Job, Outcome, TooLate
from labwright.sandbox.monitor import read_curves
from labwright.sandbox.scoring import Predictions, final_predictions
from labwright.sandbox.workspace import forget_rescued, rescue_checkpoints
from labwright.search.replication import again
from labwright.search.scheduler import Freed
from labwright.search.signals import NodeKilled
from labwright.search.tree import View
from labwright.stages.bench import Bench, end_if_repeated, enter, note_spent, note_time, of_node
from labwright.stages.briefs import advice, code_inputs, feedback_inputs, node_brief, plotting_reference, seen_by
from labwright.stages.nodes.canvas import Canvas
from labwright.stages.nodes.cells import asking, grid_of
from labwright.stages.nodes.of_repository import plot_script, repository_program
from labwright.stages.nodes.plotting import draw
from labwright.stages.nodes.watching import watcher
from labwright.stages.repository.patches import NothingLeftError

REPEATS: frozenset[NodeKind] = frozenset({"replicate", "trial", "tune"})
"""Nodes that run their parent's program, with another seed or other settings."""
TUNED_PLAN = "The program of {}, unchanged, with the setting that trials chose for each arm. Its plan: "
NO_SPACE = "No space left on device"
"""What code says when it meets a full disk; that is no finding of an experiment where the disk is ours."""


async def expand(bench: Bench, decided: Decided, freed: Freed) -> None:
    """Make the node of a decision. A failed experiment is a verdict, and so are files that our own code fails on;
    only a broken model, executor, disk or record raises, and `SameFaultError`.
    """
    work = _NodeWork(bench, decided, bench.models.at(decided.k, 0), freed)
    node = node_id(decided.k)
    try:
        if node in bench.state.killed:  # and the program with it, before it could be recorded
            raise NodeKilled(node)
        await bench.signals.unless_killed(node, work.run())
    except TooLate:
        note_time(bench)
        work.judge("cancelled", Failure(kind="other", message=f"not run: {bench.state.limited or 'the time is up'}"))
    except NodeKilled:
        left = part_of(bench.folder.attempt(node, len(bench.state.nodes[node].attempts) + 1))
        await to_thread(remove_tree, left, ignore_errors=True)
        work.judge("cancelled", Failure(kind="killed", message=f"ended by a person: {bench.state.killed[node].text}"))
    except NothingLeftError as error:
        work.judge("cancelled", Failure(kind="nothing left", message=str(error)))
    except (ModelOutputInvalid, ModelRefused) as error:
        work.judge("buggy", Failure(kind="no answer", message=f"the model gave no usable answer: {error}"))
    except BudgetSpent as error:
        work.judge("cancelled", Failure(kind="other", message=str(error)))
    except Exception as error:  # noqa: BLE001  a worker's edge: what comes of what code left is its node's
        work.judge("buggy", of_node(error))


async def measure_taken_over(bench: Bench, name: str) -> None:
    """Execute a node once more, with cells of its own in place of those that it took over; suspect where that fails.

    Raises `BudgetSpent`, `TooLate`: it stays as it is.
    """
    decided = bench.state.decisions[bench.state.nodes[name].decision]
    await _NodeWork(bench, decided, bench.models.at(decided.k, 0), lambda: None).attempt(
        len(bench.state.nodes[name].attempts) + 1
    )
    failure = bench.state.nodes[name].attempts[-1].failure
    if failure is not None:
        bench.recorder.append(
            Suspected(
                node=name,
                findings=(
                    Finding(
                        kind="taken over",
                        why=f"measured by itself, in place of what it had taken over, it failed: "
                        f"{failure.kind}: {failure.message}",
                    ),
                ),
            )
        )


def varied(action: Expand) -> str:
    """What a node that runs its parent's program varies, in words: `seed 3`, or of which arms the settings."""
    if action.kind == "replicate":
        return f"seed {action.seed}"
    if action.kind == "tune":
        found = ", ".join(one.arm for one in action.trials if one.number)
        return f"the settings chosen for {found}" if found else "no setting was better than the defaults"
    return "; ".join(
        f"{one.arm}: "
        + ", ".join(f"{name}={value}" for name, value in one.setting.items())
        + (f" (at {one.share:g})" if one.share < 1 else "")
        for one in action.trials
    )


def ladder_program(action: Expand) -> tuple[Program, dict[str, str]]:
    """The program of the ladder, which is ours: what it is, and its files."""
    text = (Path(__file__).parents[1] / "ladder" / ENTRY).read_text()
    tried = sum(one.arm == TUNED for one in action.trials)
    return Program(
        title="reference arms of the program's own",
        varies=f"{tried} settings" if tried else f"seed {action.seed}",
        plan="What the study is held against: a trivial rule, and boosted trees or a linear model off the shelf, tuned "
        "with as many trials as an arm of the plan (docs/ladder.md).",
    ), {ENTRY: text}


@dataclass
class _NodeWork:
    bench: Bench
    decided: Decided
    client: ModelClient
    freed: Freed

    async def run(self) -> None:
        kind = self.action.kind
        if kind == "aggregate":
            self.freed()
            await self.aggregate()
            return
        await self.propose()
        failure = await self.execute()
        self.freed()
        if failure is not None and failure.kind in ("hopeless", "budget"):
            self.judge("pruned" if failure.kind == "hopeless" else "cancelled", failure)
            return
        doubts = [str(one) for one in self.node.findings if one.suspect]
        if failure is None and doubts:
            failure = Failure(kind="suspect", message="; ".join(doubts))
        if kind in ("replicate", "trial", "rung"):
            self.judge("buggy" if failure else "good", failure)
            return
        if failure is None:
            arrays = self.bench.folder.attempt(self.node.id, len(self.node.attempts)) / "arrays"
            failure = await draw(self.bench, self.client, Canvas(self.node.id, arrays))
        if failure is not None:
            self.judge("buggy", failure)
            return
        self.enter("judging")
        verdict = await self.client.ask(FEEDBACK, feedback_inputs(self.bench, self.decided))
        unsound = None if verdict.sound else Failure(kind="other", message=f"judged unsound: {verdict.analysis}")
        self.judge("buggy" if unsound else "good", unsound, verdict)

    @property
    def action(self) -> Expand:
        return cast(Expand, self.decided.action)

    @property
    def node(self) -> Node:
        return self.bench.state.nodes[node_id(self.decided.k)]

    def enter(self, step: NodeStep) -> None:
        enter(self.bench, self.node.id, step)

    @property
    def parent(self) -> Node:
        """The parent, as the decision may see it."""
        return self.view.nodes[self.action.parent or ""]

    @property
    def view(self) -> View:
        return seen_by(self.bench, self.decided)

    async def propose(self) -> None:
        """Record plan and source: from the model, or those of the parent where only seed or settings differ.

        What a person wrote, or was recorded before a kill, is there.
        """
        if self.node.source_sha256:
            return
        self.enter("writing")
        if self.action.kind == "rung":
            added, program, files = (), *ladder_program(self.action)
        elif self.action.kind in REPEATS:
            added, parent = (), self.parent
            brief = node_brief(self.bench.folder, parent)
            files = brief.files if self.action.kind == "tune" else brief.others
            plan = TUNED_PLAN.format(parent.id) + parent.plan if self.action.kind == "tune" else parent.plan
            program = Program(title=parent.title, plan=plan, varies=varied(self.action))
        elif self.bench.repository is not None:
            program, files, added = await repository_program(self.bench, self.decided, self.client, self.view)
        else:
            inputs = code_inputs(self.bench, self.decided)
            program = await self.client.ask(CODE, inputs)
            if program.nothing_left and inputs.covered:
                raise NothingLeftError(program.nothing_left)
            files = program.tree(inputs.parent.files if inputs.parent else {})
            added = program.added(inputs)
        varies = program.varies
        if self.action.kind == "debug":  # of the same trial, whose constants it may have changed
            varies = "; mended: ".join(filter(None, (self.parent.varies, varies)))
        arms = self.parent.arms if self.action.kind in ("debug", "replicate", "trial", "tune") else ()
        sha256 = write_source(self.bench.folder.source(self.node.id), files)
        self.bench.recorder.append(
            Proposed(
                node=self.node.id,
                decision=self.decided.k,
                title=program.title,
                plan=program.plan,
                varies=varies,
                source_sha256=sha256,
                setups=setups_of(files),
                arms=arms or added,
            )
        )

    async def execute(self) -> Failure | None:
        """Run the code, unless the record has it; once more with other limits where it or a cell ran into one.

        Raises `TooLate`: the run's time limit was reached before it began.
        """
        if not self.node.attempts:
            await self.attempt(1)
        first = self.node.attempts[0]
        if len(self.node.attempts) == 1 and (
            first.lacks_time if first.failure is None else first.failure.kind in ("memory", "timeout")
        ):
            with suppress(TooLate):
                await self.attempt(2)
        return self.node.attempts[-1].failure

    async def attempt(self, number: int) -> None:
        """One execution: what is run again gets more time, what ran out of memory has the machine to itself.

        Raises `TooLate`; then nothing of the budget is taken.
        """
        bench, node = self.bench, self.node
        before = node.attempts[-1].failure if node.attempts else None
        alone = before is not None and before.kind == "memory"
        limit = bench.retry_seconds if number > 1 and not alone else bench.node_seconds
        earlier, final = self.earlier(number), bench.folder.attempt(node.id, number)
        draft, grid = draft_of(final), await grid_of(bench, self.decided, self.view)
        if bench.budget is not None:
            bench.budget.reserve_attempt(node.decision, f"{node.id}/{number}", limit)
        self.enter("waiting")
        job = Job(
            name=f"{node.id}/{number}",
            folder=draft,
            source=read_source(bench.folder.source(node.id)),
            seed=node.seed,
            timeout=limit,
            alone=alone,
            late=lambda: bench.seconds_left() <= 0,
            begins=lambda: self.enter("running"),
            live=bench.folder.live(node.id, number),
            watch=watcher(bench, self.decided),
            earlier=earlier,
            artifacts=self.artifacts(),
            datasets=tuple(use.name for use in bench.plan.datasets),
            needs={arm: bench.plan.needs_of(arm) for arm in bench.plan.compared},
        )
        job = asking(job, bench.plan, bench.subjects, bench.facts)
        try:
            outcome = await (bench.executor.run(job) if grid is None else grid.run(job))
        except TooLate:
            if bench.budget is not None:
                bench.budget.give_back(f"{node.id}/{number}")
            raise
        if outcome.failure is not None and NO_SPACE in outcome.failure.message and is_full(draft):
            raise RecordError(f"{NO_SPACE} at {bench.folder.root}: free disk space, then resume; {node.id} runs again")
        outcome = outcome if grid is None else grid.whole(outcome)
        found = await to_thread(self.findings, outcome, draft)
        seal(draft, final)
        if found and not node.findings:
            bench.recorder.append(Suspected(node=node.id, findings=found))
        bench.recorder.append(
            Executed(
                node=node.id,
                attempt=Attempt(
                    number=number,
                    seconds=outcome.seconds,
                    limit=limit,
                    alone=alone,
                    failure=outcome.failure,
                    measurements=outcome.measurements,
                    said=outcome.said,
                    arrays=outcome.arrays,
                    sealed=outcome.sealed,
                    artifacts=outcome.artifacts,
                    curves_sha256=outcome.curves_sha256,
                    stdout_tail=outcome.stdout_tail,
                    resumed=outcome.resumed,
                    asked=outcome.asked,
                    exchanges_sha256=outcome.exchanges_sha256,
                    cells=outcome.cells,
                    peak_host_bytes=outcome.peak_host_bytes,
                    peak_gpu_bytes=outcome.peak_gpu_bytes,
                ),
            )
        )
        forget_rescued(draft)
        note_spent(bench, outcome.failure)

    def earlier(self, number: int) -> Path | None:
        """Where this attempt finds checkpoints: with itself, if a kill cut it, else with the attempt before.

        In `ticket` order what a kill cut begins anew, since code that goes on may come to something else.
        """
        bench, node = self.bench, self.node
        rescued = rescue_checkpoints(part_of(bench.folder.attempt(node.id, number)))
        if rescued is not None and bench.search.order == "arrival" and not bench.plan.subjects:
            return rescued
        return bench.folder.attempt(node.id, number - 1) if number > 1 and not bench.plan.subjects else None

    def artifacts(self) -> dict[str, Artifacts]:
        """What the good nodes that this decision may see left for others."""
        last = [(one.id, one.attempts[-1]) for one in self.view.nodes.values() if one.status == "good" and one.attempts]
        return {
            name: Artifacts(self.bench.folder.attempt(name, attempt.number), attempt.artifacts)
            for name, attempt in last
            if attempt.artifacts
        }

    def findings(self, outcome: Outcome, folder: Path) -> tuple[Finding, ...]:
        """What makes the numbers of code that ran worthless, and what it is noted for; `folder` has what it left. Code
        that is run again was looked at with its parent's."""
        if outcome.failure is not None or self.action.kind == "rung":
            return ()
        ours = self.action.kind in REPEATS or self.bench.repository is not None
        sources = {} if ours else read_source(self.bench.folder.source(self.node.id))
        return check(
            sources,
            self.bench.plan,
            facts=self.bench.state.datasets,
            measurements=outcome.measurements,
            beside=() if ours else self.facts(sources, outcome, folder),
        )

    def facts(self, sources: Mapping[str, str], outcome: Outcome, folder: Path) -> tuple[Finding, ...]:
        """What an execution shows that speaks against its code."""
        predicted: tuple[Predictions, ...] = ()
        with suppress(SubmissionRefused):
            predicted = final_predictions(folder, self.bench.folder.labels)
        runs = {line.cell: self.bench.state.cells[line.id][1] for line in outcome.cells if line.id}
        return of_run(
            Ran(
                sources,
                predicted,
                read_curves(folder),
                {cell: run.training for cell, run in runs.items() if run.failure is None},
            ),
            self.bench.plan,
        )

    async def aggregate(self) -> None:
        """Draw the replicates of the parent together; measures nothing.

        Source: AI-Scientist-v2, section 3.2.2, aggregation nodes.
        """
        bench = self.bench
        replicates = [one for one in again(self.view, self.parent.id, self.node.stage) if one.status == "good"]
        canvas = Canvas(
            self.node.id,
            inputs={one.id: bench.folder.attempt(one.id, len(one.attempts)) / "arrays" for one in replicates},
        )
        if self.node.source_sha256:
            self.client.skip(PLOT)
        else:
            self.enter("writing")
            script = await self.aggregating(canvas, tuple(one.seed for one in replicates))
            sha256 = write_source(bench.folder.source(self.node.id), {PLOTS: script})
            bench.recorder.append(
                Proposed(
                    node=self.node.id,
                    decision=self.decided.k,
                    title=f"replicates of {self.parent.id} together",
                    plan="mean and spread over seeds",
                    source_sha256=sha256,
                    varies=", ".join(f"seed {one.seed}" for one in replicates),
                )
            )
        failure = await draw(bench, self.client, canvas)
        self.judge("buggy" if failure else "good", failure)

    async def aggregating(self, canvas: Canvas, seeds: tuple[int, ...]) -> str:
        """The script that draws the replicates together: the model's, of a repository's study ours."""
        bench, script = self.bench, node_brief(self.bench.folder, self.parent).plots
        if bench.repository is not None:
            self.client.skip(PLOT)
            return plot_script()
        answer = await self.client.ask(
            PLOT,
            PlotInputs(
                data_plan=bench.plan,
                purpose="aggregate",
                arrays=await canvas.briefs(),
                plan=self.parent.plan,
                advice=advice(self.parent.reviews),
                plots=script,
                seeds=seeds,
                lab_reference=plotting_reference(bench),
            ),
        )
        return answer.script(script)

    def judge(self, status: NodeStatus, failure: Failure | None, verdict: Verdict | None = None) -> None:
        self.bench.folder.forget_live(self.node.id)
        if self.node.finished:
            return
        reasons = (f"{failure.kind}: {failure.message}",) if failure else ()
        self.bench.recorder.append(
            Judged(node=self.node.id, status=status, reasons=reasons, failure=failure, verdict=verdict)
        )
        end_if_repeated(self.bench.state, failure)
