"""A second role reads the code of what the paper rests on, without comments and docstrings, before test is unsealed.

A doubt counts where the program finds its quote at the lines that it cites. A verdict of `dishonest` with such a doubt
is a sign: it makes the node suspect beside another one (`review.honesty.verdict`). Alone it is told, in appendix,
disclosure and page, and costs nothing: a weaker model than the one that was measured (docs/honesty.md) may err more.
"""

from __future__ import annotations

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles.code_audit import CODE_READER, CodeReaderInputs
from labwright.record.claims.estimates import find_ablation_nodes, find_winner
from labwright.record.events.search_events import CodeRead, NodeSuspected
from labwright.record.run_folder import read_source
from labwright.record.schema.code_reading import CodeDoubt, CodeReadingVerdict
from labwright.record.schema.nodes import HonestyFinding, Node
from labwright.record.source_tree import select_code
from labwright.review.honesty.strip_comments import keep_verified_doubts, number_lines, strip_comments
from labwright.review.honesty.verdict import apply_corroboration
from labwright.stages.run_context import RunContext


async def audit_code(context: RunContext, client: ModelClient) -> None:
    """Have the winner's code read, that of its successor where it turns out suspect, and that of the ablations.

    What was read is not read again; once the budget is spent, nothing is.
    """
    for one in context.state.code_readings:
        if one.decision == client.decision:
            client.skip(CODE_READER)
    while (best := find_winner(context.state)) is not None and not _is_audited(context, best):
        await _audit_node(context, client, context.state.nodes[best])
    for node in find_ablation_nodes(context.state):
        if not _is_audited(context, node.id):
            await _audit_node(context, client, node)


def _is_audited(context: RunContext, node: str) -> bool:
    return any(one.node == node for one in context.state.code_readings)


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
        change=(node.title or node.plan) if node.arms else "",
        files={path: number_lines(text) for path, text in code.items()},
    )
    try:
        answer = await client.ask_or_none(CODE_READER, inputs, instead="the code goes unread")
    except BudgetSpent:
        answer = None
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
    """Notes of what a reader found dishonest, each a sign."""
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
