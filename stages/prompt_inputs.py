"""Inputs of the prompts for one node: typed, bounded in size, and limited to results that its decision may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean

from labwright.models.prompt_filters import cut_line
from labwright.models.roles.experiment_code import CodeInputs, NodeBrief, NodeInFlight, NodeLine, RequiredMeasurements
from labwright.models.roles.node_assessment import FeedbackInputs
from labwright.record.ablation_results import find_ablation
from labwright.record.claims.estimates import has_same_values
from labwright.record.claims.open_questions import read_memory, select_studies
from labwright.record.estimands import list_main_arms
from labwright.record.event_log import Recorder
from labwright.record.events.run_events import StudiesRecalled
from labwright.record.events.search_events import DecisionMade
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, read_source
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.decisions import CompareNodes, ExpandTree
from labwright.record.schema.nodes import (
    SEARCH_KINDS,
    STAGES,
    BranchStep,
    Node,
    StageName,
    StageSummary,
    format_node_id,
)
from labwright.record.schema.paper import FigureReview
from labwright.record.source_tree import PLOTS_FILE, select_code
from labwright.record.tuning_results import ChosenSetting, collect_trial_results, find_chosen
from labwright.record.untrusted_files import MAX_FILE_BYTES, read_file
from labwright.search.stage_snapshot import StageSnapshot, build_snapshot, collect_values, list_stage_datasets
from labwright.stages.difference_tables import build_tables
from labwright.stages.run_context import RunContext

# Summaries of a whole stage for prompts, bounded in size regardless of the number of nodes.

MAX_LINES = 24
"""Maximum number of lines: the latest nodes. A stage has at most 21 by default."""
MAX_OUTCOME_CHARS = 160
"""Maximum number of characters of an outcome."""
MAX_MESSAGE_CHARS = 100
"""Maximum number of characters of an error message."""
MAX_VARIATION_CHARS = 80
"""Maximum number of characters of a node's variation."""

_UNTRIED_FAILURES = ("no answer", "nothing left")
"""Failures of nodes that ran no experiment."""


def summarise_nodes(view: StageSnapshot, action: ExpandTree) -> tuple[NodeLine, ...]:
    """Return one line each for the latest finished search nodes of the stage; the parent is excluded.

    Before the last stage, children of the same parent from earlier stages are included, since the parent's verdict may
    suggest a change that one of them has already tried.
    """
    known = [
        node
        for node in view.nodes.values()
        if node.kind in SEARCH_KINDS
        and node.is_finished
        and node.id != action.parent
        and (node.failure is None or node.failure.kind not in _UNTRIED_FAILURES)
        and (
            node.stage == view.stage
            or (view.stage != "ablation" and action.parent is not None and node.parent == action.parent)
        )
    ]
    return tuple(
        NodeLine(
            id=node.id,
            kind=node.kind,
            varies=cut_line(node.varies, MAX_VARIATION_CHARS),
            error=node.failure.name if node.failure else None,
            outcome=cut_line(node.failure.message, MAX_MESSAGE_CHARS)
            if node.failure
            else format_means(node, view.plan, MAX_OUTCOME_CHARS) or node.status,
        )
        for node in known[-MAX_LINES:]
    )


def describe_outcome(node: Node, plan: DataPlan) -> str:
    """Describe the outcome of a node: the mean of the primary metric by dataset and arm, or the error."""
    if node.failure is not None:
        return cut_line(node.failure.line, MAX_MESSAGE_CHARS)
    means = format_means(node, plan, 2 * MAX_OUTCOME_CHARS)
    over = " (means over levels)" if plan.levels else ""
    return f"{plan.primary_metric.name}{over}: {means}" if means else node.status


def format_means(node: Node, plan: DataPlan, limit: int) -> str:
    """Return the means of the primary metric as `dataset arm mean, arm mean; dataset ...`, in the plan's order.

    The text has about `limit` characters; means that do not fit are counted, and missing levels are noted. Arms outside
    the plan come last.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    for entry, value in collect_values(node, plan.primary_metric).items():
        groups.setdefault((entry.dataset, entry.arm), []).append(value)
    order = {
        (use.name, arm.name): i for i, (use, arm) in enumerate((use, arm) for use in plan.datasets for arm in plan.arms)
    }
    levels = max(1, len(plan.levels))
    parts: list[str] = []
    before = ""
    for (dataset, arm), values in sorted(groups.items(), key=lambda group: order.get(group[0], len(order))):
        partly = f" ({len(values)} of {levels} levels)" if len(values) < levels else ""
        parts.append(f"{', ' if dataset == before else f'; {dataset} '}{arm} {fmean(values):.4g}{partly}")
        before = dataset
    shown = parts[: max(1, sum(end <= limit for end in accumulate(map(len, parts))))]
    left = f", and {len(parts) - len(shown)} more means omitted" if len(shown) < len(parts) else ""
    return "".join(shown).removeprefix("; ") + left


MAX_ERROR_CHARS = 120
"""Maximum number of characters of an error in a line about a failure."""


def trace_branch(state: RunState, node: str | None) -> tuple[BranchStep, ...]:
    """Return the path from the first draft to this node, with the change and plan of each step."""
    steps: list[BranchStep] = []
    at = state.nodes.get(node or "")
    while at is not None:
        steps.append(BranchStep(node=at.id, stage=at.stage, kind=at.kind, varies=at.varies, plan=at.plan))
        at = state.nodes.get(at.parent or "")
    return tuple(reversed(steps))


def describe_failures(nodes: Iterable[Node]) -> tuple[str, ...]:
    """Return one line per failed or pruned node, with its change, its error, and the node that fixed it."""
    nodes, lines = list(nodes), list[str]()
    fixes = [one for one in nodes if one.kind == "debug" and one.status == "good"]
    fixed = {one.parent: f"; fixed by {one.id}" for one in fixes}
    for node in nodes:
        if node.status in ("buggy", "pruned"):
            failure, varies = node.failure, " ".join(node.varies.split())[:MAX_ERROR_CHARS] or "nothing in particular"
            why = " ".join(failure.line.split())[:MAX_ERROR_CHARS] if failure else node.status
            lines.append(f"{node.id} ({node.kind}, {varies}): {why}{fixed.get(node.id, '')}")
    return tuple(lines)


MAX_MEANS_CHARS = 2000
"""Maximum number of characters of an ablation's means, for a judge that reads two ablations together."""


def format_advice(reviews: Iterable[FigureReview]) -> tuple[str, ...]:
    """Return the improvements that reviewers suggest for accepted figures, one line `name: issues` per figure."""
    return tuple(f"{one.name}: {'; '.join(one.issues)}" for one in reviews if one.readable and one.issues)


SHORT_RUN_SHARE = 0.05
"""Share of the time limit; a prompt suggests a harder experiment if the node used less."""
STAGE_GOALS: dict[StageName, str] = {
    "preliminary": "a working prototype of what the data plan compares",
    "tuning": "each arm with its selected setting, also on a second dataset if the plan has one",
    "agenda": "carry out the experiments that the idea lists, on all datasets of the plan",
    "ablation": "find out which components the claim depends on: remove or replace one, and leave the rest unchanged",
}
"""The goal of each stage, as prompts state it. Source: AI-Scientist-v2, section 3.2.1."""


def build_code_inputs(context: RunContext, decided: DecisionMade) -> CodeInputs:
    """Build the inputs of role `code` for an expansion.

    `spare` is set only for nodes of the main experiments, and not in `ticket` order, where time influences nothing. For
    nodes in flight, only the contents of their decisions and the designs of drafts (which are written one after the
    other) are shown.
    """
    action = decided.action
    assert isinstance(action, ExpandTree)
    view, state = build_decision_view(context, decided), context.state
    parent = view.nodes[action.parent] if action.parent else None
    duty, numbered = find_required_measurements(view), enumerate(context.idea.experiments, 1)
    covered = action.kind == "improve" and (
        action.item in view.answered_items
        or any(item == action.item for n, item in numbered if n in context.plan.covered)
    )
    spare = None
    if parent is not None and parent.attempts and action.stage == "agenda" and action.kind == "improve":
        share = parent.attempts[-1].seconds / context.node_seconds
        spare = share if context.search.order == "arrival" and share < SHORT_RUN_SHARE else None
    planned = state.search.planned_ablations
    others = planned.ablations if action.stage == "ablation" and planned is not None else ()
    in_flight = [(node, state.decisions[node.decision].action) for node in view.unfinished_search_nodes]
    return CodeInputs(
        **dict(context.build_study_inputs(decided.k)),
        stage=action.stage,
        kind=action.kind,
        variation=state.compute_variation(decided.k),
        goal=STAGE_GOALS[action.stage],
        item=action.item,
        arm=action.arm,
        ordinal=action.ordinal,
        duty=duty,
        ablation=find_ablation(state, action.item) if action.stage == "ablation" else None,
        others=tuple(one for one in others if one.item_text != action.item),
        covered=covered,
        floored=tuple(one.line for one in view.find_floored(parent)) if action.kind in ("improve", "debug") else (),
        parent=None
        if parent is None
        else build_node_brief(
            context.folder, parent, view.list_replicates(parent.id), list_arm_settings(state, parent, decided)
        ),
        tables=build_tables([parent] if parent else [], context.plan),
        siblings=summarise_nodes(view, action),
        spare=spare,
        in_flight=tuple(
            NodeInFlight(
                id=node.id,
                kind=node.kind,
                item=other.item,
                varies=state.nodes[node.id].varies if node.kind == "draft" else "",
            )
            for node, other in in_flight
            if isinstance(other, ExpandTree)
        ),
        notes=state.list_notes(decided.k, action.stage),
        studies=state.list_earlier_studies() if action.kind == "draft" else (),
        node_seconds=context.node_seconds,
        retry_seconds=context.retry_seconds,
        rate=state.rate,
        quiet_seconds=context.quiet_seconds,
        earlier=list_visible_summaries(view),
        device=context.device,
        network=context.network,
        lab_reference=context.lab_reference,
        packages=context.importable_packages,
        pretrained=context.pretrained_models,
    )


def build_feedback_inputs(context: RunContext, decided: DecisionMade) -> FeedbackInputs:
    """Build the inputs of role `feedback` for an executed node; for an ablation, include the other good ablations."""
    node, view = context.state.nodes[format_node_id(decided.k)], build_decision_view(context, decided)
    action = decided.action
    assert isinstance(action, ExpandTree)
    parent = view.nodes[action.parent] if action.parent else None
    is_ablation = view.stage == "ablation"
    is_sound = parent is not None and parent.status == "good" and not parent.suspect
    before = parent if is_sound and parent is not None and parent.verdict is not None and parent.verdict.sound else None
    return FeedbackInputs(
        **dict(context.build_study_inputs(decided.k)),
        stage=node.stage,
        kind=node.kind,
        node=node,
        item=action.item if node.stage == "agenda" else "",
        code=select_code(read_source(context.folder.get_source_path(node.id))),
        before=select_code(read_source(context.folder.get_source_path(before.id))) if before is not None else {},
        parent_measurements=parent.measurements if parent else (),
        floored=tuple(one.line for one in view.find_floored(node)),
        ablation=find_ablation(context.state, action.item) if is_ablation else None,
        duty=find_required_measurements(view),
        tables=build_tables([node], context.plan, parent=parent if is_ablation else None),
        settings=list_arm_settings(context.state, (parent or node) if is_ablation else node, decided),
        beside=tuple(
            NodeLine(id=one.id, kind=one.kind, varies=one.varies, outcome=format_means(one, view.plan, MAX_MEANS_CHARS))
            for one in view.good_nodes
            if is_ablation and one.id != node.id
        ),
    )


def build_decision_view(context: RunContext, decided: DecisionMade) -> StageSnapshot:
    """Return the part of the tree that a decision may see; the result does not change later."""
    assert isinstance(decided.action, ExpandTree | CompareNodes)
    return build_snapshot(context.state, decided.action.stage, decided.seen, before=decided.k, settings=context.search)


def list_visible_summaries(view: StageSnapshot) -> tuple[StageSummary, ...]:
    """Return the visible reports on earlier stages; each is written while the search of the next stage is already
    running.
    """
    before = STAGES[: STAGES.index(view.stage)]
    return tuple(view.summary_by_stage[name] for name in before if name in view.summary_by_stage)


def list_arm_settings(state: RunState, node: Node, decided: DecisionMade) -> tuple[ChosenSetting, ...]:
    """Return the setting and the tuning effort of each arm in a node of cells, as far as a decision may see them."""
    if node.id not in state.required_cells:
        return ()
    return tuple(find_chosen(state, node.id, collect_trial_results(state, decided.seen, before=decided.k)).values())


def read_plots(folder: RunFolder, node: Node) -> str:
    """Return the script of a node's last figures; empty if nothing was drawn."""
    if not node.plot_count:
        return ""
    return read_file(folder.get_plots_path(node.id, node.plot_count), PLOTS_FILE, MAX_FILE_BYTES).decode(
        errors="replace"
    )


def find_aggregate_script(folder: RunFolder, nodes: Iterable[Node], script: str) -> str:
    """Return the script of the last good aggregate made from a node's script; empty if there is none."""
    known = {node.id: node for node in nodes}
    made = (one for one in reversed(known.values()) if one.kind == "aggregate" and one.status == "good" and one.parent)
    return next((read_plots(folder, one) for one in made if read_plots(folder, known[one.parent or ""]) == script), "")


def build_node_brief(
    folder: RunFolder, node: Node, replicates: Sequence[Node] = (), settings: tuple[ChosenSetting, ...] = ()
) -> NodeBrief:
    """Build the summary of a node for the prompt of a child, with the last accepted plots."""
    files = read_source(folder.get_source_path(node.id)) if node.source_sha256 else {}
    if plots := read_plots(folder, node):
        files[PLOTS_FILE] = plots
    return NodeBrief(node=node, files=files, seedless=has_same_values(replicates), settings=settings)


def find_required_measurements(view: StageSnapshot) -> RequiredMeasurements:
    """Return the measurements required of a node of this stage: one dataset in the first stage, two in the second, then
    all; an ablation measures only its own arms.
    """
    plan = view.plan
    levels = tuple(level.name for level in plan.levels)
    if view.stage == "ablation":
        measured = {one.dataset for one in view.root.measurements} if view.root else set[str]()
        names = list_stage_datasets(view.stage, plan)
        return RequiredMeasurements(datasets=tuple(name for name in names if name in measured) or names, levels=levels)
    return RequiredMeasurements(
        datasets=list_stage_datasets(view.stage, plan), levels=levels, arms=list_main_arms(plan)
    )


def build_node_line(node: Node, plan: DataPlan) -> NodeLine:
    """Build a node's row in a stage's table, with the analysis of its verdict if it worked."""
    analysis = node.verdict.analysis if node.verdict and node.status == "good" else ""
    return NodeLine(
        id=node.id,
        kind=node.kind,
        varies=node.varies,
        status=node.status,
        outcome=describe_outcome(node, plan),
        analysis=analysis,
        checks=tuple(one for one in (node.verdict.checks if node.verdict else ()) if one.outcome != "passed"),
    )


def read_plotting_reference(context: RunContext) -> str:
    """Return the part of the `lab` reference that a plotting script needs."""
    return context.lab_reference[context.lab_reference.index("## plots.py") :]


# Records of earlier studies for the prompts of this one, read once from a memory (`record.claims.open_questions`).


def recall_studies(
    recorder: Recorder, memory: Path | None, text: str, *, idea_sha256: str = "", datasets: Sequence[str] = ()
) -> None:
    """Record, once per log, which records of a memory the prompts show; nothing without a memory.

    Records are chosen by what a study is about: a text, the hash of its idea and its data.
    """
    if memory is None or recorder.state.recalled_studies is not None:
        return
    found = read_memory(memory)
    shown = select_studies(found.studies, text, idea_sha256=idea_sha256, datasets=datasets)
    recorder.append(
        StudiesRecalled(
            memory=str(memory), shown=shown, left_out=len(found.studies) - len(shown), problems=found.problems[:5]
        )
    )
