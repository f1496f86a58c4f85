"""What prompts are told of the tree: typed, of bounded size, and only what a decision may see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.roles import ArrayBrief, CodeInputs, NodeLine, ParentBrief, Sibling, Statistic
from record.claims import Claim
from record.events import Decided
from record.folder import RunFolder, read_source
from record.nouns import STAGES, DataPlan, Expand, Node, StageName
from search.score import cells
from search.tree import View, view_of
from stages.bench import Bench

SIBLINGS = 12
"""Lines of memory in a prompt, the latest ones."""

GOALS: dict[StageName, str] = {
    "preliminary": "a working prototype: the baseline and the method, measured on the main dataset at every level",
    "tuning": "good hyperparameters with the architecture kept, equally good for baseline and method, and a second "
              "dataset where the plan has one",
    "agenda": "carry out the experiments that the idea lists, on all datasets of the plan, baselines tuned as well as "
              "the method",
    "ablation": "find out which parts carry the claim: take out or replace one part, leave all else as it is",
}
"""Source: AI-Scientist-v2, section 3.2.1."""


def code_inputs(bench: Bench, decided: Decided) -> CodeInputs:
    """What role `code` gets for an expansion."""
    action = decided.action
    assert isinstance(action, Expand)
    view = seen_by(bench, decided)
    before = STAGES[: STAGES.index(action.stage)]
    return CodeInputs(
        idea=bench.idea, data_plan=bench.plan, facts=bench.state.datasets, stage=action.stage, kind=action.kind,
        goal=GOALS[action.stage], item=action.item, ordinal=action.ordinal,
        parent=parent_brief(bench.folder, view.nodes[action.parent]) if action.parent else None,
        siblings=siblings(view, action), notes=bench.state.notes_for(decided.k), node_seconds=bench.node_seconds,
        earlier=tuple(s for name in before if (s := bench.state.stages[name].summary) is not None),
        lab_reference=bench.lab_reference, packages=bench.packages)


def seen_by(bench: Bench, decided: Decided) -> View:
    """The tree as a decision may see it, now as on any later day."""
    assert isinstance(decided.action, Expand)
    return view_of(bench.state, decided.action.stage, decided.seen, before=decided.k)


def parent_brief(folder: RunFolder, node: Node) -> ParentBrief:
    """A node as a child's prompt shows it, with the plots that were accepted last."""
    source = read_source(folder.source(node.id))
    plots = folder.plots(node.id, node.plots) / "plots.py"
    last = node.attempts[-1] if node.attempts else None
    return ParentBrief(
        id=node.id, kind=node.kind, plan=node.plan, experiment=source.get("experiment.py", ""),
        plots=plots.read_text() if node.plots and plots.is_file() else source.get("plots.py", ""),
        measurements=node.measurements, analysis=node.verdict.analysis if node.verdict else "",
        failure=node.failure, stdout_tail=last.stdout_tail if last else "")


def siblings(view: View, action: Expand) -> tuple[Sibling, ...]:
    """The stage's search nodes in one line each, the latest ones."""
    return tuple(Sibling(id=node.id, kind=node.kind, varies=node.varies, outcome=outcome(node, view.plan))
                 for node in view.searched[-SIBLINGS:] if node.id != action.parent)


def outcome(node: Node, plan: DataPlan) -> str:
    """What came of a node in a few words: its primary metric by cell, or its error."""
    if not node.finished:
        return "running"
    if node.failure is not None:
        return f"{node.failure.kind}: {node.failure.message[:120]}"
    found = cells(node, plan)
    shown = ", ".join(f"{dataset} {condition} {value:.4g}" for (dataset, condition), value in list(found.items())[:6])
    return f"{plan.primary.name}: {shown}" if shown else node.status


def node_line(node: Node, plan: DataPlan) -> NodeLine:
    """A node in a stage's table."""
    return NodeLine(id=node.id, kind=node.kind, varies=node.varies, status=node.status, outcome=outcome(node, plan))


def statistic(claim: Claim) -> Statistic:
    """A claim as prompts and figure scripts see it."""
    return Statistic(key=claim.key, name=claim.name, dataset=claim.dataset, condition=claim.condition,
                     mean=claim.mean, sd=claim.sd, n=claim.n, low=claim.low, high=claim.high)


def array_briefs(folder: Path, names: Sequence[str], *, prefix: str = "arrays") -> tuple[ArrayBrief, ...]:
    """Shapes and types of recorded arrays, read from their headers alone. Arrays that are none are left out."""
    import numpy as np

    briefs: list[ArrayBrief] = []
    for name in sorted(names):
        try:
            array = np.load(folder / name, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            continue
        briefs.append(ArrayBrief(path=f"{prefix}/{name}", shape=tuple(array.shape), dtype=str(array.dtype)))
    return tuple(briefs)
