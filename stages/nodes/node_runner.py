"""Work on one node from its decision to its verdict: propose, execute, plot, judge.

Every step first checks whether the record already has its result, and committed model answers come from the call
ledger; a node interrupted by a kill can therefore be expanded again.

Source: AI-Scientist-v2, section 3.2.2 (execution, plotting, vision review, buggy and non-buggy nodes).
"""

from __future__ import annotations

from asyncio import to_thread
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from labwright.models.roles.experiment_code import CODE, Program, ProgramDescription
from labwright.models.roles.figures import PLOT, PlotInputs
from labwright.models.roles.node_assessment import FEEDBACK
from labwright.record.claims.estimates import select_whole_replicates
from labwright.record.events.search_events import DecisionMade, NodeJudged, NodeProposed, NodeSuspected
from labwright.record.reference_baselines import OFF_THE_SHELF_ARM
from labwright.record.run_folder import partial_path, seal_source
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import (
    SEARCH_KINDS,
    Failure,
    HonestyFinding,
    Node,
    NodeKind,
    NodeStatus,
    NodeStep,
    NodeVerdict,
    format_node_id,
)
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE, read_constants
from labwright.record.tuning_results import build_effective_plan
from labwright.record.untrusted_files import remove_tree
from labwright.review.honesty.code_reading import find_equal_arms
from labwright.review.honesty.label_probe import find_impossible_scores, list_withheld_metrics
from labwright.sandbox.job import ArtifactFile, JobOutcome, SubmissionRefused
from labwright.sandbox.scoring import read_final_predictions
from labwright.sandbox.workspace import rescue_checkpoints
from labwright.search.replication import find_concluding_replicates, list_unread_nodes
from labwright.search.scheduler import NodeKilled, ReleaseSlot
from labwright.search.stage_snapshot import StageSnapshot
from labwright.stages.measuring import TooLate
from labwright.stages.nodes.node_cells import execute_attempt, list_node_artifacts, prepare_node_cells
from labwright.stages.nodes.node_plots import PlotArrays, draw_plots, list_array_folders
from labwright.stages.nodes.program_author import let_author_write, wants_author
from labwright.stages.nodes.repository_program import build_repository_program, read_declared_values, read_plot_script
from labwright.stages.prompt_inputs import (
    build_code_inputs,
    build_decision_view,
    build_feedback_inputs,
    build_node_brief,
    find_aggregate_script,
    format_advice,
    read_plotting_reference,
)
from labwright.stages.repository.paper_study import NothingLeftError
from labwright.stages.run_context import RunContext, as_node_failure, enter_step, raise_if_repeated, record_time_limit

RERUN_KINDS: frozenset[NodeKind] = frozenset({"replicate", "trial", "tune"})
"""Kinds of nodes that run their parent's program with another seed or other settings."""
TUNED_PLAN = "The unchanged program of {}, with the setting that trials selected for each arm. Its plan: "
UNTUNED_PLAN = "The unchanged program of {} at its defaults, since no trial ran. Its plan: "


async def expand(context: RunContext, decided: DecisionMade, release_slot: ReleaseSlot) -> None:
    """Create and run the node of a decision.

    Failed experiments become verdicts, as do internal errors caused by files of the node. Only errors of the model,
    executor, disk or record, and `RepeatedFaultError`, are raised.
    """
    work = NodeRunner(context, decided, context.models.make_client(decided.k, 0), release_slot)
    node = format_node_id(decided.k)
    try:
        unread = list_unread_nodes(context.state) if context.search.order == "arrival" else ()
        if node in {*context.state.killed_nodes, *(one.id for one in unread)}:  # before this program was killed
            raise NodeKilled(node)
        await context.signals.run_unless_killed(node, work.run())
    except TooLate:
        record_time_limit(context)
        why = f"not run: {context.state.limit_reason or 'the time limit was reached'}"
        work.record_verdict("cancelled", Failure(kind="other", message=why))
    except NodeKilled:
        left = partial_path(context.folder.get_attempt_path(node, len(context.state.nodes[node].attempts) + 1))
        await to_thread(remove_tree, left, ignore_errors=True)
        killed = context.state.killed_nodes.get(node)
        ended = "a limit ended the stage" if work.action.kind == "trial" else "the last look ended the sampling"
        failure = Failure(kind="other", message=f"not needed: {ended}")
        if killed is not None:
            failure = Failure(kind="killed", message=f"killed by the user: {killed.text}")
        work.record_verdict("cancelled", failure)
    except NothingLeftError as error:
        work.record_verdict("cancelled", Failure(kind="nothing left", message=str(error)))
    except (ModelOutputInvalid, ModelRefused) as error:
        work.record_verdict("buggy", Failure(kind="no answer", message=f"the model gave no usable answer: {error}"))
    except BudgetSpent as error:
        work.record_verdict("cancelled", Failure(kind="other", message=str(error)))
    except Exception as error:  # noqa: BLE001  boundary of a worker: errors in files left by code belong to its node
        work.record_verdict("buggy", as_node_failure(error))


async def remeasure_reused(context: RunContext, name: str) -> None:
    """Execute a node once more, measuring its reused cells itself; mark it suspect if that fails.

    Raises: `BudgetSpent`, `TooLate`; the node is then unchanged.
    """
    decided = context.state.decisions[context.state.nodes[name].decision]
    await NodeRunner(context, decided, context.models.make_client(decided.k, 0), lambda: None).run_attempt()
    failure = context.state.nodes[name].attempts[-1].failure
    if failure is not None:
        why = f"when it measured its reused cells itself, it failed: {failure.kind}: {failure.message}"
        context.recorder.append(NodeSuspected(node=name, findings=(HonestyFinding(kind="taken over", why=why),)))


def describe_variation(action: ExpandTree) -> str:
    """Describe what a node that runs its parent's program varies: `seed 3`, or the settings of its arms."""
    if action.kind == "replicate":
        return f"seed {action.seed}"
    if action.kind == "tune":
        tuned = ", ".join(one.arm for one in action.trials if one.number)
        return f"the settings selected for {tuned}" if tuned else "no setting was better than the defaults"
    return "; ".join(
        f"{one.arm}: {', '.join(f'{name}={value}' for name, value in one.setting.items())}" for one in action.trials
    )


def build_reference_program(action: ExpandTree) -> tuple[Program, dict[str, str]]:
    """Return description and files of the built-in program for the reference models."""
    text = (Path(__file__).parents[1] / "reference_models" / ENTRY_FILE).read_text()
    trials = sum(one.arm == OFF_THE_SHELF_ARM for one in action.trials)
    return Program(
        title="built-in reference models",
        varies=f"{trials} settings" if trials else f"seed {action.seed}",
        plan="Reference models of the study: a trivial predictor, and off-the-shelf boosted trees or a linear model, "
        "tuned with as many trials as an arm of the plan (docs/search.md).",
    ), {ENTRY_FILE: text}


@dataclass
class NodeRunner:
    context: RunContext
    decided: DecisionMade
    client: ModelClient
    release_slot: ReleaseSlot

    async def run(self) -> None:
        kind = self.action.kind
        if kind == "aggregate":
            self.release_slot()
            await self.draw_aggregate()
            return
        with self.context.work_in_progress.acquire({self.node.id}):
            await self.propose()
        failure = await self.execute()
        self.release_slot()
        if failure is not None and failure.kind in ("hopeless", "budget"):
            self.record_verdict("pruned" if failure.kind == "hopeless" else "cancelled", failure)
            return
        findings = [str(one) for one in self.node.findings if one.suspect]
        if failure is None and findings:
            failure = Failure(kind="suspect", message="; ".join(findings))
        if kind in ("replicate", "trial", "rung"):
            self.record_verdict("buggy" if failure else "good", failure)
            return
        if failure is None:
            arrays = PlotArrays(self.node.id, list_array_folders(self.context, self.node))
            failure = await draw_plots(self.context, self.client, arrays)
        if failure is not None:
            self.record_verdict("buggy", failure)
            return
        if self.repeats_parent():
            self.record_verdict("good", None, self.parent.verdict)
            return
        self.enter_step("judging")
        verdict = await self.client.ask(FEEDBACK, build_feedback_inputs(self.context, self.decided))
        unsound = None if verdict.sound else Failure(kind="other", message=f"judged unsound: {verdict.analysis}")
        self.record_verdict("buggy" if unsound else "good", unsound, verdict)

    @property
    def action(self) -> ExpandTree:
        return cast(ExpandTree, self.decided.action)

    @property
    def node(self) -> Node:
        return self.context.state.nodes[format_node_id(self.decided.k)]

    def enter_step(self, step: NodeStep) -> None:
        enter_step(self.context, self.node.id, step)

    @property
    def parent(self) -> Node:
        """The parent as the decision may see it."""
        return self.view.nodes[self.action.parent or ""]

    def repeats_parent(self) -> bool:
        """Return whether the node runs its parent's program and took over every cell with the parent's values, so that
        the parent's judgement holds."""
        if self.action.kind != "tune" or self.parent.verdict is None or not self.parent.attempts:
            return False
        last, before = self.node.attempts[-1], self.parent.attempts[-1]
        taken = bool(last.cells) and all(one.outcome == "taken over" for one in last.cells)
        return taken and last.validation_values == before.validation_values

    @property
    def view(self) -> StageSnapshot:
        return build_decision_view(self.context, self.decided)

    async def propose(self) -> None:
        """Record plan and source: from the model, or those of the parent if only seed or settings differ.

        Do nothing if they are already recorded, by an earlier attempt or because the user wrote the code.
        """
        if self.node.source_sha256:
            return
        self.enter_step("writing")
        if self.action.kind == "rung":
            added, program, files = (), *build_reference_program(self.action)
        elif self.action.kind in RERUN_KINDS:
            added, parent = (), self.parent
            brief = build_node_brief(self.context.folder, parent)
            files = brief.files if self.action.kind == "tune" else brief.non_plot_files
            tried = any(number for _, number in self.view.decided_trials)
            plan, varies = parent.plan, describe_variation(self.action)
            if self.action.kind == "tune":
                plan = (TUNED_PLAN if tried else UNTUNED_PLAN).format(parent.id) + parent.plan
                varies = varies if tried else "the defaults: no other setting was tried"
            program = Program(title=parent.title, plan=plan, varies=varies)
        elif self.context.repository is not None:
            program, files, added = await build_repository_program(self.context, self.decided, self.client, self.view)
        else:
            await self.wait_for_earlier_drafts()
            program, files, added = await self.write_program()
        varies = program.varies
        if self.action.kind == "debug":  # still the same variation, whose constants it may have changed
            varies = "; fixed: ".join(filter(None, (self.parent.varies, varies)))
        arms = self.parent.arms if self.action.kind in ("debug", "replicate", "trial", "tune") else ()
        sha256 = seal_source(self.context.folder.get_source_path(self.node.id), files)
        setups = read_constants(files)
        if self.context.repository is not None and self.action.kind in RERUN_KINDS:
            setups = self.parent.setups
        elif self.context.repository is not None and self.action.kind != "rung":
            names = (*(one.name for one in self.context.plan.arms), *added)
            setups = await to_thread(read_declared_values, self.context, files, names)
        self.context.recorder.append(
            NodeProposed(
                node=self.node.id,
                decision=self.decided.k,
                title=program.title,
                plan=program.plan,
                varies=varies,
                source_sha256=sha256,
                setups=setups,
                arms=arms or added,
            )
        )

    async def write_program(self) -> tuple[ProgramDescription, dict[str, str], tuple[str, ...]]:
        """Return the program that a model writes, its files, and the arms outside the plan: one answer, or the work of
        an author with tools. Raises `NothingLeftError`, `ModelError`."""
        inputs = build_code_inputs(self.context, self.decided)
        if wants_author(self.context, self.decided, self.view):
            program, files = await let_author_write(
                self.context, self.decided, self.client, self.view, inputs, self.list_artifacts()
            )
        else:
            program = await self.client.ask(CODE, inputs)
            files = {}
        if program.nothing_left and inputs.covered:
            raise NothingLeftError(program.nothing_left)
        if isinstance(program, Program):
            files = program.apply_to(inputs.parent.files if inputs.parent else {})
        return program, files, program.list_added_arms(inputs)

    async def wait_for_earlier_drafts(self) -> None:
        """Wait until the drafts decided before this one are written, so that it can choose another design."""
        earlier = self.view.list_nodes_of_kind("draft") if self.action.kind == "draft" else ()
        for written in self.context.work_in_progress.list_pending(one.id for one in earlier):
            await written.wait()

    async def execute(self) -> Failure | None:
        """Run the code unless it is recorded; run it once more with other limits if it or one of its cells hit a limit.

        Raises: `TooLate` if the run's time limit was reached before the code started.
        """
        if not self.node.attempts:
            await self.run_attempt()
        first = self.node.attempts[0]
        kind = first.failure and first.failure.kind
        again = kind == "timeout" or self.needs_machine or (kind in (None, "memory") and first.is_out_of_time)
        if again and len(self.node.attempts) == 1:
            with suppress(TooLate, BudgetSpent):
                await self.run_attempt()
        return self.node.attempts[-1].failure

    @property
    def needs_machine(self) -> bool:
        """Whether the first attempt failed because memory ran out, in a plain script or in a cell that was not tried
        once more, alone on the machine."""
        if not self.node.attempts or (failure := (first := self.node.attempts[0]).failure) is None:
            return False
        runs = self.context.state.cells.list_node_runs(self.node.id)
        hungry = {run.key: run.id for run in reversed(runs) if run.failure is not None and run.failure.kind == "memory"}
        once = [line for line in first.cells if line.why.startswith("memory:") and line.id in hungry.values()]
        return failure.kind == "memory" and (not first.cells or bool(once))

    async def run_attempt(self) -> None:
        """Execute the code once; a second attempt gets more time, or the whole machine if memory ran out."""
        context, node, alone = self.context, self.node, self.needs_machine
        with ExitStack() as claims:
            cells = await prepare_node_cells(context, self.decided, self.view, claims)
            await execute_attempt(
                context,
                self.node,
                cells,
                limit=context.retry_seconds if node.attempts and not alone else context.node_seconds,
                alone=alone,
                rescued=self.rescue_checkpoints(),
                artifacts=self.list_artifacts(),
                quiet_seconds=self.quiet_seconds,
                check=self.check_outcome,
            )

    @property
    def quiet_seconds(self) -> float | None:
        """Seconds of silence after which code is stopped. Replicates never are (None), because results without the bad
        seeds would be biased."""
        return self.context.quiet_seconds if self.action.kind in SEARCH_KINDS else None

    def rescue_checkpoints(self) -> Path | None:
        """Return the folder with the checkpoints of this attempt's cells after a kill; None if there are none."""
        context, node = self.context, self.node
        number = len(node.attempts) + 1
        rescued = rescue_checkpoints(partial_path(context.folder.get_attempt_path(node.id, number)))
        return rescued if context.search.order == "arrival" and not context.plan.subjects else None

    def list_artifacts(self) -> dict[str, dict[str, ArtifactFile]]:
        """Return the artifacts of the good nodes that this decision may see."""
        good = [one for one in self.view.nodes.values() if one.status == "good"]
        return list_node_artifacts(self.context.state, self.context.folder, good)

    def check_outcome(self, outcome: JobOutcome) -> tuple[HonestyFinding, ...]:
        """Return the honesty findings on an executed program.

        Programs that run their parent's code are skipped, because the code was checked with the parent.
        """
        if outcome.failure is not None or self.action.kind == "rung":
            return ()
        withheld = list_withheld_metrics(self.context.plan, self.context.state.search.datasets)
        skips_code = self.action.kind in RERUN_KINDS or self.context.repository is not None
        return (
            *find_impossible_scores(outcome.measurements, withheld),
            *(() if skips_code else self.find_run_facts(outcome)),
        )

    def find_run_facts(self, outcome: JobOutcome) -> tuple[HonestyFinding, ...]:
        """Return the facts of an execution that need an explanation in the code."""
        with suppress(SubmissionRefused):
            labels, folders = self.context.folder.labels, outcome.measured_folders
            return tuple(
                find_equal_arms([one for each in folders for one in read_final_predictions(each.path, labels)])
            )
        return ()

    async def draw_aggregate(self) -> None:
        """Plot the replicates of the parent together, without measuring anything.

        Source: AI-Scientist-v2, section 3.2.2, aggregation nodes.
        """
        context = self.context
        found = find_concluding_replicates(self.view, self.parent.id, self.node.stage)
        replicates = select_whole_replicates(context.state, found)
        canvas = PlotArrays(self.node.id, inputs={one.id: list_array_folders(context, one) for one in replicates})
        if self.node.source_sha256:
            self.client.skip(PLOT)
        else:
            self.enter_step("writing")
            script = await self.write_aggregate_script(canvas, tuple(one.seed for one in replicates))
            sha256 = seal_source(context.folder.get_source_path(self.node.id), {PLOTS_FILE: script})
            context.recorder.append(
                NodeProposed(
                    node=self.node.id,
                    decision=self.decided.k,
                    title=f"combined replicates of {self.parent.id}",
                    plan="mean and spread over seeds",
                    source_sha256=sha256,
                    varies=", ".join(f"seed {one.seed}" for one in replicates),
                )
            )
        failure = await draw_plots(context, self.client, canvas)
        self.record_verdict("buggy" if failure else "good", failure)

    async def write_aggregate_script(self, canvas: PlotArrays, seeds: tuple[int, ...]) -> str:
        """Return the script that plots the replicates together: the built-in one in a repository study, that of an
        earlier aggregate of the same figures, or the model's."""
        context, script = self.context, build_node_brief(self.context.folder, self.parent).plots
        known = find_aggregate_script(context.folder, self.view.nodes.values(), script)
        if context.repository is not None:
            known = read_plot_script()
        if known:
            self.client.skip(PLOT)
            return known
        inputs = PlotInputs(
            data_plan=build_effective_plan(context.state, self.decided.k),
            purpose="aggregate",
            arrays=await canvas.read_briefs(),
            plan=self.parent.plan,
            advice=format_advice(self.parent.reviews),
            plots=script,
            seeds=seeds,
            lab_reference=read_plotting_reference(context),
        )
        return (await self.client.ask(PLOT, inputs)).apply_to(script)

    def record_verdict(self, status: NodeStatus, failure: Failure | None, verdict: NodeVerdict | None = None) -> None:
        self.context.folder.delete_live_output(self.node.id)
        if self.node.is_finished:
            return
        reasons = (f"{failure.kind}: {failure.message}",) if failure else ()
        self.context.recorder.append(
            NodeJudged(node=self.node.id, status=status, reasons=reasons, failure=failure, verdict=verdict)
        )
        raise_if_repeated(self.context.state, failure)
