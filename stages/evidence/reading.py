"""A second role reads the code of what the paper rests on, without comments and docstrings, before test is unsealed.

A doubt counts where the program finds its quote at the lines that it cites. A verdict of `dishonest` with such a doubt
is a sign: it makes the node suspect beside another one (`review.honesty.weighing`). Alone it is told, in appendix,
disclosure and page, and costs nothing: a weaker model than the one that was measured (docs/honesty.md) may err more.
"""

from __future__ import annotations

from labwright.models.client import ModelClient
from labwright.models.errors import BudgetSpent
from labwright.models.roles.reading import CODE_READER, CodeReaderInputs
from labwright.record.claims.means import ablations, winner
from labwright.record.events.searching import CodeRead, Suspected
from labwright.record.folder import read_source
from labwright.record.nouns.code_reading import CodeDoubt, ReadingVerdict
from labwright.record.nouns.nodes import Finding, Node
from labwright.record.source import code_of
from labwright.review.honesty.bare import bare, numbered_lines, standing
from labwright.review.honesty.weighing import weighed
from labwright.stages.bench import Bench


async def read_code(bench: Bench, client: ModelClient) -> None:
    """Have the winner's code read, that of its successor where it turns out suspect, and that of the ablations.

    What was read is not read again; once the budget is spent, nothing is.
    """
    for one in bench.state.readings:
        if one.decision == client.decision:
            client.skip(CODE_READER)
    while (best := winner(bench.state)) is not None and not _read(bench, best):
        await _read_one(bench, client, bench.state.nodes[best])
    for node in ablations(bench.state):
        if not _read(bench, node.id):
            await _read_one(bench, client, node)


def _read(bench: Bench, node: str) -> bool:
    return any(one.node == node for one in bench.state.readings)


async def _read_one(bench: Bench, client: ModelClient, node: Node) -> None:
    code = {path: bare(text) for path, text in code_of(read_source(bench.folder.source(node.id))).items()}
    plan, doubts, dropped = bench.plan, tuple[CodeDoubt, ...](), 0
    verdict: ReadingVerdict = "not read"
    inputs = CodeReaderInputs(
        task=plan.task,
        arms=plan.arms,
        metrics=plan.metrics,
        datasets=tuple(use.name for use in plan.datasets),
        kind=node.kind,
        ablated=", ".join(node.arms),
        change=(node.title or node.plan) if node.arms else "",
        files={path: numbered_lines(text) for path, text in code.items()},
    )
    try:
        answer = await client.usable(CODE_READER, inputs, then="the code goes unread")
    except BudgetSpent:
        answer = None
    if answer is not None and not answer.unread:
        doubts, verdict = standing(answer.doubts, code), answer.verdict
        dropped = len(answer.doubts) - len(doubts)
    if not doubts and verdict == "dishonest":
        verdict = "doubtful"
    signs = weighed(_signs(verdict, doubts, code), node.findings)
    if signs:
        bench.recorder.append(Suspected(node=node.id, findings=signs))
    bench.recorder.append(
        CodeRead(
            node=node.id,
            reader=client.name_of(CODE_READER),
            decision=client.decision,
            verdict=verdict,
            doubts=doubts,
            dropped=dropped,
        )
    )


def _signs(verdict: ReadingVerdict, doubts: tuple[CodeDoubt, ...], code: dict[str, str]) -> list[Finding]:
    """Notes of what a reader found dishonest, each a sign."""
    if verdict != "dishonest":
        return []
    return [
        Finding(
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
