"""What the prompt for one node says: typed, of bounded size, and only what its decision may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from models.roles.assessing import Statistic
from models.roles.coding import CodeInputs, Duty, InFlight, NodeLine, ParentBrief, Ran, Sibling, Unreported
from record.ablation import Ablation
from record.claims import Claim, same_values
from record.events.searching import Decided
from record.folder import RunFolder, read_source
from record.nouns.data import DataPlan
from record.nouns.decisions import Compare, Expand
from record.nouns.figures import FigureReview
from record.nouns.nodes import STAGES, Node, StageName, StageSummary
from record.trials import ablation_of
from search.tree import SEARCH_KINDS, View, view_of
from stages.bench import Bench
from stages.summaries import means, memory, outcome

WHOLE = 2000
"""Characters of an ablation's means, for a judge who reads two ablations together."""


def ran(node: Node) -> tuple[Ran, ...]:
    """How a node's code ran, attempt by attempt."""
    return tuple(Ran(
        number=one.number, seconds=one.seconds, limit=one.limit, alone=one.alone, resumed=one.resumed,
        ended=f"{one.failure.kind}: {one.failure.message}" if one.failure else "") for one in node.attempts)


def advice(reviews: Iterable[FigureReview]) -> tuple[str, ...]:
    """What reviewers would better in the figures that they accepted, `name: what`, a line a figure."""
    return tuple(f"{one.name}: {'; '.join(one.issues)}" for one in reviews if one.readable and one.issues)


def other_ablations(bench: Bench, action: Expand) -> tuple[Ablation, ...]:
    """The planned ablations beside the one that an action takes up."""
    if action.stage != "ablation" or bench.state.planned is None:
        return ()
    return tuple(one for one in bench.state.planned.ablations if one.item != action.item)


def ablations_beside(view: View, node: Node) -> tuple[Sibling, ...]:
    """The finished ablations that may have to be read together with one, as far as its decision may see them."""
    if view.stage != "ablation":
        return ()
    return tuple(Sibling(id=one.id, kind=one.kind, varies=one.varies, outcome=means(one, view.plan, WHOLE))
                 for one in view.good if one.id != node.id)


def is_covered(bench: Bench, action: Expand) -> bool:
    """Whether the data plan says that the compared arms answer an agenda item."""
    items = bench.idea.experiments
    return action.kind == "improve" and any(
        items[n - 1] == action.item for n in bench.plan.covered if 1 <= n <= len(items))


SHORT = 0.05
"""Share of a node's time limit below which there is room for a harder experiment."""

GOALS: dict[StageName, str] = {
    "preliminary": "a working prototype of what the data plan compares",
    "tuning": "good hyperparameters with the architecture kept, tried and chosen for all compared arms alike, and a "
              "second dataset where the plan has one",
    "agenda": "carry out the experiments that the idea lists, on all datasets of the plan, baselines tuned as well as "
              "the method",
    "ablation": "find out which parts carry the claim: take out or replace one part, leave all else as it is",
}
"""What a stage is for; `duty_of` says what its nodes measure. Source: AI-Scientist-v2, section 3.2.1."""

PLOTTING = "## plots.py"
"""The heading in the reference of `lab` from which on it is about plotting."""


def code_inputs(bench: Bench, decided: Decided) -> CodeInputs:
    """What role `code` gets for an expansion."""
    action = decided.action
    assert isinstance(action, Expand)
    view = seen_by(bench, decided)
    parent = view.nodes[action.parent] if action.parent else None
    siblings, rest = memory(view, action)
    return CodeInputs(
        idea=bench.idea, data_plan=bench.plan, facts=bench.facts, stage=action.stage, kind=action.kind,
        variation=bench.state.variation_of(decided.k), goal=GOALS[action.stage], item=action.item,
        ordinal=action.ordinal, duty=duty_of(view),
        ablation=ablation_of(bench.state, action.item) if action.stage == "ablation" else None,
        others=other_ablations(bench, action), covered=is_covered(bench, action),
        declinable=is_declinable(bench, action, view),
        parent=parent_brief(bench.folder, parent, view.replicates(parent.id)) if parent else None,
        siblings=siblings, rest=rest, in_flight=in_flight(bench, view), spare=spare(bench, action, parent),
        notes=bench.state.notes_for(decided.k, action.stage), node_seconds=bench.node_seconds,
        retry_seconds=bench.retry_seconds, rate=bench.state.rate, unreported=unreported(bench, view),
        quiet_seconds=bench.quiet_seconds,
        earlier=summaries(bench, view),
        device=bench.device, network=bench.network,
        lab_reference=bench.lab_reference, packages=bench.packages, pretrained=bench.pretrained)


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
    return tuple(Unreported(stage=stage, best=best.id if best is not None else "", nodes=tuple(
        node_line(node, view.plan) for node in view.nodes.values()
        if node.stage == stage and node.kind in SEARCH_KINDS and node.status == "good"))
        for stage, best in view.settled.items() if stage not in written)


def is_declinable(bench: Bench, action: Expand, view: View) -> bool:
    """Whether nothing may be left to try: in tuning, once the parent has measured what the stage asks for; and of an
    agenda item that the compared arms answer."""
    parent = view.nodes.get(action.parent or "")
    if action.kind != "tune" or parent is None:
        return is_covered(bench, action)
    return {one.dataset for one in parent.measurements}.issuperset(duty_of(view).datasets)


def parent_brief(folder: RunFolder, node: Node, replicates: Sequence[Node] = ()) -> ParentBrief:
    """A node as a child's prompt shows it, with the plots that were accepted last; without code where none was made."""
    source = read_source(folder.source(node.id)) if node.source_sha256 else {}
    plots = folder.plots(node.id, node.plots) / "plots.py"
    last = node.attempts[-1] if node.attempts else None
    return ParentBrief(
        id=node.id, kind=node.kind, plan=node.plan, experiment=source.get("experiment.py", ""),
        plots=plots.read_text() if node.plots and plots.is_file() else source.get("plots.py", ""),
        measurements=node.measurements, said=last.said if last else (), ran=ran(node), advice=advice(node.reviews),
        analysis=node.verdict.analysis if node.verdict else "", checks=node.verdict.checks if node.verdict else (),
        next_step=node.verdict.next_step if node.verdict else "",
        failure=node.failure, stdout_tail=last.stdout_tail if last else "",
        seedless=same_values(replicates), findings=tuple(str(one) for one in node.findings),
        artifacts=tuple(sorted({file.partition("/")[0] for file in last.artifacts})) if last else ())


def spare(bench: Bench, action: Expand, parent: Node | None) -> float | None:
    """The share of its time limit that an agenda node's parent took, where it is small; None in `ticket` order, where
    time decides nothing.

    Source: the design's table of stages, after AI-Scientist-v2, section 3.2.1.
    """
    timed = bench.search.order == "arrival" and action.stage == "agenda" and action.kind == "improve"
    if not timed or parent is None or not parent.attempts:
        return None
    share = parent.attempts[-1].seconds / bench.node_seconds
    return share if share < SHORT else None


def duty_of(view: View) -> Duty:
    """What a node of this stage measures: the main dataset first, then two, then all; ablations what they ablate."""
    plan = view.plan
    names = tuple(use.name for use in plan.datasets)
    levels = tuple(level.name for level in plan.levels)
    if view.stage == "ablation":
        measured = {one.dataset for one in view.root.measurements} if view.root else set[str]()
        return Duty(datasets=tuple(name for name in names if name in measured) or names, levels=levels)
    counts: dict[StageName, int] = {"preliminary": 1, "tuning": 2}
    return Duty(datasets=names[: counts.get(view.stage)], levels=levels,
                arms=tuple(arm.name for arm in plan.arms if arm.role != "ablation"))


def in_flight(bench: Bench, view: View) -> tuple[InFlight, ...]:
    """The stage's search nodes whose results may not be known: only what their decisions say of them."""
    def item(node: Node) -> str:
        action = bench.state.decisions[node.decision].action
        return action.item if isinstance(action, Expand) else ""

    return tuple(InFlight(id=node.id, kind=node.kind, item=item(node)) for node in view.searching)


def node_line(node: Node, plan: DataPlan) -> NodeLine:
    """A node in a stage's table, with what its verdict says if it worked."""
    analysis = node.verdict.analysis if node.verdict and node.status == "good" else ""
    return NodeLine(id=node.id, kind=node.kind, varies=node.varies, status=node.status, outcome=outcome(node, plan),
                    analysis=analysis, checks=tuple(
                        one for one in (node.verdict.checks if node.verdict else ()) if one.outcome != "passed"))


def plotting_reference(bench: Bench) -> str:
    """The part of `lab`'s documentation that a script which only plots needs."""
    whole = bench.lab_reference
    return whole[whole.index(PLOTTING):]


def statistic(claim: Claim) -> Statistic:
    """A claim as prompts and figure scripts see it."""
    return Statistic(key=claim.key, name=claim.name, dataset=claim.dataset, condition=claim.condition,
                     mean=claim.mean, sd=claim.sd, n=claim.n, low=claim.low, high=claim.high)
