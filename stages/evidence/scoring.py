"""Probe and read the code that the paper rests on, before the test set is unsealed, then score its sealed predictions.

The probes execute the code with one thing changed (`review.honesty`: `label_probe`, `row_probe`). All probes (seed,
labels, rows) are applied to the winner, but only the row probe to each ablation. A probe that does not fit into time or
budget ends as unclear and says so. A probe executes each cell that it needs once; the row probe uses one cell per arm.
"""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal, get_args

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles.node_assessment import CODE_READER, CodeReaderInputs
from labwright.record.ablation_results import find_ablation
from labwright.record.claims.differences import compute_differences
from labwright.record.claims.estimates import (
    compute_paper_claims,
    find_ablation_nodes,
    find_added_replicates,
    find_trusted_replicates,
    find_winner,
)
from labwright.record.events.search_events import CodeRead, NodeProbed, NodeSuspected, SealedTestResampled
from labwright.record.python_syntax import collect_reads
from labwright.record.reducers.run_state import RunState
from labwright.record.reference_baselines import find_reference_nodes
from labwright.record.run_folder import ResultFolder, list_result_folders, read_source
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import PROBE_TASK, ExpandTree, RunTask
from labwright.record.schema.nodes import Cell, CodeDoubt, HonestyFinding, Node
from labwright.record.source_tree import ENTRY_FILE, PLOTS_FILE, select_code
from labwright.record.untrusted_files import remove_tree
from labwright.review.honesty.code_reading import ReadCode, number_lines, read_code, strip_comments
from labwright.review.honesty.label_probe import (
    MAX_PERMUTATIONS,
    PROBE_FILE,
    ROW_PROBE_SCRIPT,
    ProbeResult,
    build_probe_script,
    find_arms_ignoring_labels,
    find_same_rows,
    judge_label_permutation,
    judge_row_replacement,
)
from labwright.sandbox.job import Job, JobOutcome, SubmissionRefused
from labwright.sandbox.scoring import SubmittedPredictions, read_final_predictions
from labwright.stages.evidence.resampling import resample_differences, score_node
from labwright.stages.measuring import TooLate, measure_job
from labwright.stages.nodes.node_cells import (
    build_rerun_job,
    has_nondeterminism,
    list_measured_cells,
    select_read_cells,
)
from labwright.stages.nodes.node_runner import remeasure_reused
from labwright.stages.run_context import RunContext, decision_number, record_time_limit, run_once
from labwright.stages.stage_runner import find_trusted_winner


async def remeasure_reused_cells(context: RunContext) -> None:
    """Make the nodes of the paper measure their reused cells themselves if two executions of one key differed."""

    async def work(_: ModelClient) -> None:
        for node in nodes_to_score(context.state):
            if any(line.outcome == "taken over" for line in node.attempts[-1].cells):
                with suppress(BudgetSpent, TooLate):
                    await remeasure_reused(context, node.id)

    if has_nondeterminism(context.state):
        await run_once(context, "measure what was taken over", work)


async def score_tests(context: RunContext) -> None:
    """Probe the winner; record test measurements of the winner, the ablations, and the replicates of both.

    Also record how their differences vary with the test examples (`stages.evidence.resampling`).
    """
    await remeasure_reused_cells(context)
    await probe_winners(context)
    find_trusted_winner(context)

    async def work(_: ModelClient) -> None:
        await score_selected_nodes(context)

    await run_once(context, "score tests", work)


async def score_selected_nodes(context: RunContext) -> None:
    """Record the missing test measurements of the frozen nodes and the resampled differences.

    No node is scored twice; nodes that are frozen later (what reviewers requested) are scored then.
    """
    for node in nodes_to_score(context.state):
        await score_node(context, node)
    difference_keys = {
        one.key
        for one in compute_differences(context.state, compute_paper_claims(context.state))
        if one.split == "test"
    }
    needs_effects = context.plan.hypotheses and not any(
        key.startswith("hypothesis/") for key in context.state.search.resampled_intervals
    )
    if (needs_effects or difference_keys - context.state.search.resampled_intervals.keys()) and (
        intervals := await to_thread(resample_differences, context.state, context.folder)
    ):
        context.recorder.append(SealedTestResampled(found=intervals))


def nodes_to_score(state: RunState) -> list[Node]:
    """Return the working nodes among the winner, the ablations, the replicates of both, those of addenda, and the
    reference models."""
    best = find_winner(state)
    tops = ([state.nodes[best]] if best else []) + find_ablation_nodes(state)
    nodes = [
        *(node for top in tops for node in (top, *find_trusted_replicates(state, top.id))),
        *find_added_replicates(state),
        *find_reference_nodes(state),
    ]
    return [node for node in nodes if node.status == "good" and node.attempts and not node.suspect]


# Probes, and the reading of the code behind the paper.


# Let a model read the code behind the paper, without comments and docstrings, before the test set is unsealed.


async def audit_code(context: RunContext, client: ModelClient) -> None:
    """Let the role read the code of the winner and of the ablations, and that of the next winner if one turns out
    suspect.

    Code is read only once, and never after the budget is spent.
    """
    for reading in context.state.search.code_readings:
        if reading.decision == client.decision:
            client.skip(CODE_READER)
            if reading.second is not None:
                client.skip(CODE_READER)
    while (best := find_winner(context.state)) is not None and not _is_audited(context, best):
        await _audit_node(context, client, context.state.nodes[best])
    for node in find_ablation_nodes(context.state):
        if not _is_audited(context, node.id):
            await _audit_node(context, client, node)


def _is_audited(context: RunContext, node: str) -> bool:
    return any(one.node == node for one in context.state.search.code_readings)


def _describe_change(context: RunContext, node: Node) -> str:
    """Return the change that an ablation makes, as planned or else by the title of its node; empty for other nodes."""
    action = context.state.decisions[node.decision].action
    planned = find_ablation(context.state, action.item) if isinstance(action, ExpandTree) else None
    if planned is not None:
        return planned.change_text
    return (node.title or node.plan) if node.arms else ""


async def _audit_node(context: RunContext, client: ModelClient, node: Node) -> None:
    plan, source = context.plan, select_code(read_source(context.folder.get_source_path(node.id)))
    code = {path: strip_comments(text) for path, text in source.items()}
    inputs = CodeReaderInputs(
        task=plan.task,
        arms=plan.arms,
        metrics=plan.metrics,
        datasets=tuple(use.name for use in plan.datasets),
        kind=node.kind,
        ablated=", ".join(node.arms),
        change=_describe_change(context, node),
        files={path: number_lines(text) for path, text in code.items() if text.strip()},
        facts=tuple(one.why for one in node.findings if not one.suspect),
    )
    # no file if a repository is measured without a patch
    found = await read_code(client, inputs, code) if inputs.files else ReadCode()
    if found.confirmed:
        findings = tuple(
            HonestyFinding(
                kind=f"read: {one.kind}",
                why=one.what,
                file=one.file,
                line=one.first,
                text=code[one.file].splitlines()[one.first - 1].strip()[:160],
            )
            for one in found.confirmed
        )
        context.recorder.append(NodeSuspected(node=node.id, findings=findings))
    context.recorder.append(build_reading(node, client, found, found.doubts))


def build_reading(node: Node, client: ModelClient, found: ReadCode, doubts: tuple[CodeDoubt, ...]) -> CodeRead:
    """Return the event that a node's code was read, with the doubts to keep."""
    return CodeRead(
        node=node.id,
        reader=client.get_model_name(CODE_READER),
        decision=client.decision,
        verdict=found.verdict,
        doubts=doubts,
        dropped=found.dropped,
        second=found.second,
    )


ProbeKind = Literal["labels", "rows"]


async def probe_winners(context: RunContext) -> None:
    """Probe and audit the winner (and the next best node if it proves suspect), then probe the ablations."""

    async def work(client: ModelClient) -> None:
        while (
            (best := find_winner(context.state)) is not None
            and not context.state.nodes[best].suspect
            and not all(_is_probed(context, best, kind) for kind in get_args(ProbeKind))
        ):
            await _NodeProbes(context, best).run_all()
        await probe_ablations(context, client)

    await run_once(context, PROBE_TASK, work)


async def probe_ablations(context: RunContext, client: ModelClient) -> None:
    """Run the row probe on the reported ablations and have all code read, unless already done."""
    nodes = [node.id for node in find_ablation_nodes(context.state) if not _is_probed(context, node.id, "rows")]
    probes = [_NodeProbes(context, node) for node in nodes]
    outcomes = await asyncio.gather(*(one.probe_rows() for one in probes))
    for probe, outcome in zip(probes, outcomes, strict=True):
        probe.record_probe("rows", *outcome)
    await audit_code(context, client)


def _is_probed(context: RunContext, node: str, probe: str) -> bool:
    return any(one.node == node and one.probe == probe for one in context.state.search.probes)


def select_cells(cells: Sequence[Cell], reads: Mapping[str, str]) -> list[Cell]:
    """Return the first cell of each arm, and the cells whose artifacts these read."""
    return select_read_cells(cells, {cell.arm: cell for cell in reversed(cells)}.values(), reads)


class ProbeNotRunError(Exception):
    """Raised when a probe cannot be carried out; the message is the reason."""


class _NodeProbes:
    """The probes of one node."""

    def __init__(self, context: RunContext, name: str) -> None:
        self.context = context
        self.name = name
        source = read_source(context.folder.get_source_path(name))
        self.code = {path: text for path, text in source.items() if path != PLOTS_FILE}
        self.seconds = 0.0
        self.reservations = list[str]()
        """Name of each probe's reservation in the budget."""

    @property
    def node(self) -> Node:
        return self.context.state.nodes[self.name]

    async def run_all(self) -> None:
        """Run all probes that are not recorded yet, until the node turns out suspect."""
        probes = {"labels": self.probe_labels, "rows": self.probe_rows}
        for kind in get_args(ProbeKind):
            if not _is_probed(self.context, self.name, kind) and not self.node.suspect:
                self.record_probe(kind, *await probes[kind]())

    async def probe_labels(self) -> tuple[ProbeResult, tuple[Measurement, ...]]:
        """Run the code with permuted labels; the GPU time of one run is reserved from the start
        (`stages.cost_table`)."""
        metric, result, runs = self.context.plan.primary_metric, ProbeResult("still", ""), 0
        measured: tuple[Measurement, ...] = ()
        chance = self.context.state.search.constants.get(metric.name)
        try:
            if not any(".y" in text for text in select_code(self.code).values()):
                raise ProbeNotRunError("not run: the code does not read labels")
            while result.outcome == "still" and runs < MAX_PERMUTATIONS:
                outcome = await self._run_probe("labels", runs, build_probe_script(runs))
                runs, measured = runs + 1, outcome.measurements
                after = await self._read_predictions(outcome.measured_folders)
                if arms := find_arms_ignoring_labels(await self._read_submitted(), after, self.context.plan):
                    why = (
                        f"with permuted training labels the predictions of {', '.join(arms)} are identical in every "
                        "digit: they do not depend on the labels"
                    )
                    result = ProbeResult("still", why)
                    break
                if chance is None:
                    raise ProbeNotRunError(f"the record has no {metric.name} of predictions that ignore the inputs")
                result = judge_label_permutation(self.node.measurements, measured, metric=metric, chance=chance)
            result = result._replace(why=f"{result.why} (permutation {runs} of at most {MAX_PERMUTATIONS})")
        except ProbeNotRunError as error:
            result = ProbeResult("unclear", "; ".join(filter(None, (result.why, str(error)))))
        return result, measured

    async def probe_rows(self) -> tuple[ProbeResult, tuple[Measurement, ...]]:
        """Run the code with every second row to be predicted replaced.

        If predictions of other rows change too, the code is run once more unchanged: nondeterministic code proves
        nothing.
        """
        plan, before = self.context.plan, await self._read_submitted()
        reads = collect_reads(self.code.get(ENTRY_FILE, "")) or {}
        cells, measured = select_cells(self._list_measured_cells(), reads), tuple[Measurement, ...]()
        try:
            if not before:
                raise ProbeNotRunError("not run: no predictions were submitted")
            outcome = await self._run_probe("rows", 0, ROW_PROBE_SCRIPT, cells=cells)
            measured = outcome.measurements
            words = " ".join([plan.task, plan.notes, *(f"{one.title} {one.description}" for one in plan.arms)])
            after = await self._read_predictions(outcome.measured_folders)
            result = judge_row_replacement(before, after, plan, words=words)
            if result.outcome == "still":
                unchanged = await self._run_probe("rows", 1, cells=cells)
                original = {(one.dataset, one.condition): one.values for one in before}
                again = await self._read_predictions(unchanged.measured_folders)
                known = (one for one in again if (one.dataset, one.condition) in original)
                if not all(find_same_rows(original[one.dataset, one.condition], one.values).all() for one in known):
                    result = ProbeResult("unclear", "a second, unchanged run of the code predicts other values")
        except ProbeNotRunError as error:
            result = ProbeResult("unclear", str(error))
        return result, measured

    # --- shared helpers -----------------------------------------------------------------------------------------------

    async def _read_submitted(self) -> tuple[SubmittedPredictions, ...]:
        """Read the final predictions that the node submitted; empty if there are none."""
        return await self._read_predictions(list_result_folders(self.context.state, self.context.folder, self.node))

    async def _read_predictions(self, folders: Sequence[ResultFolder]) -> tuple[SubmittedPredictions, ...]:
        labels = self.context.folder.labels
        with suppress(SubmissionRefused):
            found = [await to_thread(read_final_predictions, one.path, labels) for one in folders]
            return tuple(prediction for one in found for prediction in one)
        return ()

    def _list_measured_cells(self) -> list[Cell]:
        """Return the cells behind the node's numbers, smallest data first; empty for a plain script.

        Sorting by recorded seconds would select different cells from run to run.
        """
        sizes = {one.name: one.features * sum(one.sizes.values()) for one in self.context.facts}
        return sorted(
            (line.cell for line in list_measured_cells(self.node)), key=lambda cell: sizes.get(cell.dataset, 0)
        )

    async def _run_probe(
        self, kind: ProbeKind, number: int, script: str = "", *, cells: Sequence[Cell] = ()
    ) -> JobOutcome:
        """Execute the node's code, through a script that changes something if one is given, and for `cells` only if any
        are given.

        Raises `ProbeNotRunError`, including when the code fails.
        """
        context, name = self.context, f"{self.name}/{kind}{number}"
        folder = context.folder.root / "probes" / name
        try:
            own = "it queries language models" if context.plan.subjects else None
            own = "the repository reads its own data" if context.repository is not None else own
            if (why := context.state.limit_reason or own) is not None:
                raise ProbeNotRunError(f"not run: {why}")
            k = decision_number(context.recorder, RunTask(task=PROBE_TASK))
            self.reservations.append(name)
            await to_thread(remove_tree, folder, ignore_errors=True)  # leftovers of a kill
            job = Job(
                name=name,
                folder=folder,
                source=self.code | ({PROBE_FILE: script} if script else {}),
                entry=PROBE_FILE if script else ENTRY_FILE,
                seed=self.node.seed,
                timeout=context.retry_seconds,
                datasets=tuple(use.name for use in context.plan.datasets),
            )
            job = build_rerun_job(job, self.node, context.state)
            if cells and job.cells:
                job = replace(job, cells={cell: job.cells[cell] for cell in cells})
            outcome = await measure_job(context, job, decision=k)
        except BudgetSpent as error:
            raise ProbeNotRunError(f"not run: {error}") from error
        except TooLate:
            record_time_limit(context)
            raise ProbeNotRunError(f"not run: {context.state.limit_reason}") from None
        self.seconds += outcome.seconds
        if outcome.failure is not None:
            raise ProbeNotRunError(f"the code failed: {outcome.failure.message}")
        return outcome

    def record_probe(self, kind: ProbeKind, found: ProbeResult, measured: tuple[Measurement, ...]) -> None:
        """Record the result of a probe; the node becomes suspect if honest code would not give this result."""
        context, budget = self.context, self.context.budget
        if found.outcome == "still":
            context.recorder.append(NodeSuspected(node=self.name, findings=(HonestyFinding(kind=kind, why=found.why),)))
        context.recorder.append(
            NodeProbed(
                node=self.name,
                probe=kind,
                seconds=self.seconds,
                measurements=measured,
                outcome=found.outcome,
                why=found.why,
            )
        )
        if budget is not None:
            for name in self.reservations:
                budget.release(name)  # the actual cost has been charged by now
        self.seconds, self.reservations = 0.0, []
