"""Let a second role read the code that the paper rests on, without comments and docstrings, before the test set is
unsealed.
"""

from __future__ import annotations

from labwright.models.client import ModelClient
from labwright.models.roles.code_audit import CODE_READER, CodeReaderInputs
from labwright.record.ablation_results import find_ablation
from labwright.record.claims.estimates import find_ablation_nodes, find_winner
from labwright.record.events.search_events import CodeRead, NodeSuspected
from labwright.record.run_folder import read_source
from labwright.record.schema.code_reading import CodeDoubt, CodeReadingVerdict
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import HonestyFinding, Node
from labwright.record.source_tree import select_code
from labwright.review.honesty.strip_comments import keep_verified_doubts, number_lines, strip_comments
from labwright.review.honesty.verdict import apply_corroboration
from labwright.stages.run_context import RunContext


async def audit_code(context: RunContext, client: ModelClient) -> None:
    """Let the role read the code of the winner and of the ablations, and that of the next winner if one turns out
    suspect.

    Code is read only once, and never after the budget is spent.
    """
    for reading in context.state.code_readings:
        if reading.decision == client.decision:
            client.skip(CODE_READER)
    while (best := find_winner(context.state)) is not None and not _is_audited(context, best):
        await _audit_node(context, client, context.state.nodes[best])
    for node in find_ablation_nodes(context.state):
        if not _is_audited(context, node.id):
            await _audit_node(context, client, node)


def _is_audited(context: RunContext, node: str) -> bool:
    return any(one.node == node for one in context.state.code_readings)


def _describe_change(context: RunContext, node: Node) -> str:
    """Return the change that an ablation makes, as planned or else by the title of its node; empty for other nodes."""
    action = context.state.decisions[node.decision].action
    planned = find_ablation(context.state, action.item) if isinstance(action, ExpandTree) else None
    if planned is not None:
        return planned.change_text
    return (node.title or node.plan) if node.arms else ""


async def _audit_node(context: RunContext, client: ModelClient, node: Node) -> None:
    code = {
        path: strip_comments(text)
        for path, text in select_code(read_source(context.folder.get_source_path(node.id))).items()
    }
    plan, doubts, dropped = context.plan, tuple[CodeDoubt, ...](), 0
    verdict: CodeReadingVerdict = "not read"
    inputs = CodeReaderInputs(
        task=plan.task,
        arms=plan.arms,
        metrics=plan.metrics,
        datasets=tuple(use.name for use in plan.datasets),
        kind=node.kind,
        ablated=", ".join(node.arms),
        change=_describe_change(context, node),
        files={path: number_lines(text) for path, text in code.items() if text.strip()},
    )
    answer = None
    if inputs.files:  # empty if a repository is measured without a patch
        answer = await client.ask_or_none(CODE_READER, inputs, instead="the code is not read")
    if answer is not None and not answer.unread:
        doubts, verdict = keep_verified_doubts(answer.doubts, code), answer.verdict
        dropped = len(answer.doubts) - len(doubts)
    if not doubts and verdict == "dishonest":
        verdict = "doubtful"
    signs = apply_corroboration(_find_signs(verdict, doubts, code), node.findings)
    if signs:
        context.recorder.append(NodeSuspected(node=node.id, findings=signs))
    context.recorder.append(
        CodeRead(
            node=node.id,
            reader=client.get_model_name(CODE_READER),
            decision=client.decision,
            verdict=verdict,
            doubts=doubts,
            dropped=dropped,
        )
    )


def _find_signs(
    verdict: CodeReadingVerdict, doubts: tuple[CodeDoubt, ...], code: dict[str, str]
) -> list[HonestyFinding]:
    """Return a finding for each doubt of a reader whose verdict is `dishonest`; each counts as a sign."""
    if verdict != "dishonest":
        return []
    return [
        HonestyFinding(
            kind=f"read: {one.kind}",
            why=one.what,
            suspect=False,
            sign="reader",
            file=one.file,
            line=one.first,
            text=code[one.file].splitlines()[one.first - 1].strip()[:160],
        )
        for one in doubts
    ]
