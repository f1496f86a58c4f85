"""What the prompt for one node says: typed, of bounded size, and only what its decision may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from labwright.models.roles.assessing import FeedbackInputs, Statistic
from labwright.models.roles.coding import CodeInputs, CommonFailure, Duty, InFlight, NodeBrief, NodeLine, Unreported
from labwright.record.ablation_results import ablation_of
from labwright.record.claims.means import Claim, same_values
from labwright.record.estimands import main_arms
from labwright.record.events.searching import Decided
from labwright.record.fold.state import RunState
from labwright.record.folder import RunFolder, read_source
from labwright.record.nouns.data import DataPlan
from labwright.record.nouns.decisions import Compare, Expand
from labwright.record.nouns.figures import FigureReview
from labwright.record.nouns.nodes import SEARCH_KINDS, STAGES, Node, StageName, StageSummary, node_id
from labwright.record.source import PLOTS, code_of, difference
from labwright.record.tuning import Chosen, chosen, results
from labwright.search.score import datasets_of
from labwright.search.tree import View, view_of
from labwright.stages.bench import Bench
from labwright.stages.summaries import means, memory, outcome
from labwright.stages.tables import tables_of

WHOLE = 2000
"""Characters of an ablation's means, for a judge who reads two ablations together."""


def advice(reviews: Iterable[FigureReview]) -> tuple[str, ...]:
    """What reviewers would better in the figures that they accepted, `name: what`, a line a figure."""
    return tuple(f"{one.name}: {'; '.join(one.issues)}" for one in reviews if one.readable and one.issues)


SHORT = 0.05
"""Share of a node's time limit below which there is room for a harder experiment."""
GOALS: dict[StageName, str] = {
    "preliminary": "a working prototype of what the data plan compares",
    "tuning": "each arm with the setting that was chosen for it, on a second dataset too where the plan has one",
    "agenda": "carry out the experiments that the idea lists, on all datasets of the plan",
    "ablation": "find out which parts carry the claim: take out or replace one part, leave all else as it is",
}
"""What a stage is for; `duty_of` says what its nodes measure. Source: AI-Scientist-v2, section 3.2.1."""


def code_inputs(bench: Bench, decided: Decided) -> CodeInputs:
    """What role `code` gets for an expansion.

    `spare` is told of agenda nodes, not in `ticket` order, where time decides nothing. Of nodes in flight only what
    their decisions say is shown.
    """
    action = decided.action
    assert isinstance(action, Expand)
    view, state = seen_by(bench, decided), bench.state
    parent = view.nodes[action.parent] if action.parent else None
    siblings, rest = memory(view, action)
    duty, numbered = duty_of(view), enumerate(bench.idea.experiments, 1)
    covered = action.kind == "improve" and any(
        item == action.item for n, item in numbered if n in bench.plan.covered
    )  # by the plan's arms
    spare = None
    if (
        parent is not None
        and parent.attempts
        and bench.search.order == "arrival"
        and (action.stage == "agenda" and action.kind == "improve")
    ):
        spare = parent.attempts[-1].seconds / bench.node_seconds
    others = state.planned.ablations if action.stage == "ablation" and state.planned is not None else ()
    items = {k: one.action.item for k, one in state.decisions.items() if isinstance(one.action, Expand)}
    return CodeInputs(
        idea=bench.idea,
        data_plan=bench.plan,
        facts=bench.facts,
        stage=action.stage,
        kind=action.kind,
        variation=state.variation_of(decided.k),
        goal=GOALS[action.stage],
        item=action.item,
        arm=action.arm,
        ordinal=action.ordinal,
        duty=duty,
        ablation=ablation_of(state, action.item) if action.stage == "ablation" else None,
        others=tuple(one for one in others if one.item != action.item),
        covered=covered,
        parent=node_brief(bench.folder, parent, view.replicates(parent.id), settings_of(state, parent, decided))
        if parent
        else None,
        tables=tables_of([parent] if parent else [], bench.plan),
        common=common_failure(bench.folder, [view.nodes[name] for name in action.mends], bench.plan),
        siblings=siblings,
        rest=rest,
        spare=spare if spare is not None and spare < SHORT else None,
        in_flight=tuple(InFlight(id=node.id, kind=node.kind, item=items[node.decision]) for node in view.searching),
        notes=state.notes_for(decided.k, action.stage),
        node_seconds=bench.node_seconds,
        retry_seconds=bench.retry_seconds,
        rate=state.rate,
        unreported=unreported(bench, view),
        quiet_seconds=bench.quiet_seconds,
        earlier=summaries(bench, view),
        device=bench.device,
        network=bench.network,
        lab_reference=bench.lab_reference,
        packages=bench.importable,
        pretrained=bench.pretrained,
    )


def common_failure(folder: RunFolder, children: Sequence[Node], plan: DataPlan) -> CommonFailure | None:
    """What children of one node failed of alike, with what the first of them changed; None without any."""
    if not children or (failure := children[0].failure) is None:
        return None
    names = (children[0].parent or "", children[0].id)
    parent, child = (code_of(read_source(folder.source(name))) for name in names)
    return CommonFailure(
        children=tuple(node_line(one, plan) for one in children),
        failure=failure,
        difference=difference(parent, child, names),
    )


def feedback_inputs(bench: Bench, decided: Decided) -> FeedbackInputs:
    """What role `feedback` gets for a node that ran; with an ablation, the others that may have to be read with it."""
    action, node, view = decided.action, bench.state.nodes[node_id(decided.k)], seen_by(bench, decided)
    assert isinstance(action, Expand)
    parent = view.nodes[action.parent] if action.parent else None
    others = view.good if view.stage == "ablation" else ()
    return FeedbackInputs(
        idea=bench.idea,
        data_plan=bench.plan,
        facts=bench.facts,
        stage=node.stage,
        kind=node.kind,
        plan=node.plan,
        item=action.item if node.stage == "agenda" else "",
        varies=node.varies,
        code=code_of(read_source(bench.folder.source(node.id))),
        measurements=node.measurements,
        before=code_of(read_source(bench.folder.source(parent.id))) if parent and _sound(parent) else {},
        parent_measurements=parent.measurements if parent else (),
        stdout_tail=node.attempts[-1].stdout_tail,
        ablation=ablation_of(bench.state, action.item) if node.stage == "ablation" else None,
        duty=duty_of(view),
        figures=node.reviews,
        tables=tables_of([node], bench.plan),
        ran=node.attempts,
        settings=settings_of(bench.state, parent if parent is not None and node.stage == "ablation" else node, decided),
        beside=tuple(
            NodeLine(id=one.id, kind=one.kind, varies=one.varies, outcome=means(one, view.plan, WHOLE))
            for one in others
            if one.id != node.id
        ),
    )


def _sound(node: Node) -> bool:
    """Whether a judge read the code of a node and found it sound, and nobody doubts that."""
    return node.status == "good" and not node.suspect and node.verdict is not None and node.verdict.sound


def seen_by(bench: Bench, decided: Decided) -> View:
    """The tree as a decision may see it, now as on any later day."""
    assert isinstance(decided.action, Expand | Compare)
    return view_of(bench.state, decided.action.stage, decided.seen, before=decided.k, settings=bench.search)


def summaries(bench: Bench, view: View) -> tuple[StageSummary, ...]:
    """The reports on earlier stages that a decision may see: each is written beside the search of the next stage."""
    before = STAGES[: STAGES.index(view.stage)]
    return tuple(view.written[name] for name in before if name in view.written)


def unreported(bench: Bench, view: View) -> tuple[Unreported, ...]:
    """The stages before this one whose report may not be seen yet: it waits for replicates, and the search does not.

    Their nodes that worked, with what was said of them.
    """
    written = {summary.stage for summary in summaries(bench, view)}
    return tuple(
        Unreported(
            stage=stage,
            best=best.id if best is not None else "",
            nodes=tuple(
                node_line(node, view.plan)
                for node in view.nodes.values()
                if node.stage == stage and node.kind in SEARCH_KINDS and node.status == "good"
            ),
        )
        for stage, best in view.settled.items()
        if stage not in written
    )


def settings_of(state: RunState, node: Node, decided: Decided) -> tuple[Chosen, ...]:
    """The setting that each arm has in a node of cells, and how much it was tuned, as far as a decision may see it."""
    if node.id not in state.owed:
        return ()
    return tuple(chosen(state, node.id, results(state, decided.seen, before=decided.k)).values())


def node_brief(
    folder: RunFolder, node: Node, replicates: Sequence[Node] = (), settings: tuple[Chosen, ...] = ()
) -> NodeBrief:
    """A node as a child's prompt shows it, with the plots that were accepted last; without code where none was made."""
    files = read_source(folder.source(node.id)) if node.source_sha256 else {}
    drawn = folder.plots(node.id, node.plots) / PLOTS
    if node.plots and drawn.is_file():
        files[PLOTS] = drawn.read_text()
    last = node.attempts[-1] if node.attempts else None
    return NodeBrief(
        id=node.id,
        kind=node.kind,
        plan=node.plan,
        varies=node.varies,
        files=files,
        measurements=node.measurements,
        ran=node.attempts,
        advice=advice(node.reviews),
        analysis=node.verdict.analysis if node.verdict else "",
        checks=node.verdict.checks if node.verdict else (),
        next_step=node.verdict.next_step if node.verdict else "",
        failure=node.failure,
        stdout_tail=last.stdout_tail if last else "",
        seedless=same_values(replicates),
        settings=settings,
        findings=tuple(str(one) for one in node.findings),
        artifacts=tuple(sorted({file.partition("/")[0] for file in last.artifacts})) if last else (),
    )


def duty_of(view: View) -> Duty:
    """What a node of this stage measures: the main dataset first, then two, then all; ablations what they ablate."""
    plan = view.plan
    levels = tuple(level.name for level in plan.levels)
    if view.stage == "ablation":
        measured = {one.dataset for one in view.root.measurements} if view.root else set[str]()
        names = datasets_of(view.stage, plan)
        return Duty(datasets=tuple(name for name in names if name in measured) or names, levels=levels)
    return Duty(datasets=datasets_of(view.stage, plan), levels=levels, arms=main_arms(plan))


def node_line(node: Node, plan: DataPlan) -> NodeLine:
    """A node in a stage's table, with what its verdict says if it worked."""
    analysis = node.verdict.analysis if node.verdict and node.status == "good" else ""
    return NodeLine(
        id=node.id,
        kind=node.kind,
        varies=node.varies,
        status=node.status,
        outcome=outcome(node, plan),
        analysis=analysis,
        checks=tuple(one for one in (node.verdict.checks if node.verdict else ()) if one.outcome != "passed"),
    )


def plotting_reference(bench: Bench) -> str:
    """The part of `lab`'s documentation that a script which only plots needs."""
    return bench.lab_reference[bench.lab_reference.index("## plots.py") :]


def statistic(claim: Claim) -> Statistic:
    """A claim as prompts and figure scripts see it."""
    return Statistic(
        key=claim.key,
        name=claim.name,
        dataset=claim.dataset,
        condition=claim.condition,
        mean=claim.mean,
        sd=claim.sd,
        n=claim.n,
        low=claim.low,
        high=claim.high,
    )
