"""A close call between two nodes, decided by reading them: values within the noise cannot say which is sounder."""

from __future__ import annotations

from difflib import unified_diff

from models.errors import BudgetSpent, ModelOutputInvalid, ModelRefused
from models.roles import CompareInputs, Contender, Preference
from record.events.searching import Compared, Decided
from record.folder import read_source
from record.nouns.decisions import Compare
from record.nouns.nodes import Node
from stages.bench import Bench
from stages.memory.briefs import seen_by


async def compare(bench: Bench, decided: Decided) -> None:
    """Record which node of a comparison is the sounder one; neither, where the model gave no usable answer."""
    action = decided.action
    assert isinstance(action, Compare)
    try:
        said = await bench.models.at(decided.k, 0).ask("compare", compare_inputs(bench, decided), Preference)
    except (ModelOutputInvalid, ModelRefused, BudgetSpent) as error:
        said = Preference(better="neither", reasons=f"the model gave no usable answer: {error}")
    bench.recorder.append(Compared(
        k=decided.k, a=action.a, b=action.b, better={"a": action.a, "b": action.b}.get(said.better),
        reasons=said.reasons))


def compare_inputs(bench: Bench, decided: Decided) -> CompareInputs:
    """What role `compare` gets: both nodes as the decision may see them, and the noise that hides their difference."""
    action = decided.action
    assert isinstance(action, Compare)
    view = seen_by(bench, decided)
    a, b = (_contender(bench, view.nodes[node]) for node in (action.a, action.b))
    differing = unified_diff(a.experiment.splitlines(), b.experiment.splitlines(), "A", "B", lineterm="", n=2)
    return CompareInputs(idea=bench.idea, data_plan=bench.plan, facts=bench.facts, stage=action.stage, a=a, b=b,
                         difference="\n".join(differing), noise=view.noise)


def _contender(bench: Bench, node: Node) -> Contender:
    timed = bench.search.order == "arrival" and node.attempts
    return Contender(
        id=node.id, plan=node.plan, varies=node.varies, measurements=node.measurements,
        experiment=read_source(bench.folder.source(node.id)).get("experiment.py", ""),
        seconds=node.attempts[-1].seconds if timed else None, analysis=node.verdict.analysis if node.verdict else "")
