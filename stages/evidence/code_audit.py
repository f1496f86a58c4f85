"""Let a model read the code behind the paper, without comments and docstrings, before the test set is unsealed."""

from __future__ import annotations

from labwright.models.client import ModelClient
from labwright.models.roles.code_audit import CODE_READER, CodeReaderInputs
from labwright.record.ablation_results import find_ablation
from labwright.record.claims.estimates import find_ablation_nodes, find_winner
from labwright.record.events.search_events import CodeRead, NodeSuspected
from labwright.record.run_folder import read_source
from labwright.record.schema.code_reading import CodeDoubt
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import HonestyFinding, Node
from labwright.record.source_tree import select_code
from labwright.review.honesty.code_reading import ReadCode, number_lines, read_code, strip_comments
from labwright.stages.run_context import RunContext


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
    code = {
        path: strip_comments(text)
        for path, text in select_code(read_source(context.folder.get_source_path(node.id))).items()
    }
    plan = context.plan
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
