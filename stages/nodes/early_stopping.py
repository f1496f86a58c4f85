"""What the search looks for while a node's code runs: whether to prune it."""

from __future__ import annotations

from functools import cache
from itertools import islice
from pathlib import Path

from labwright.record.events.search_events import DecisionMade
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import SEARCH_KINDS
from labwright.sandbox.job import ExecutionProgress, ProgressWatch
from labwright.sandbox.monitor import MAX_POINTS
from labwright.search.pruning import (
    MIN_PEERS,
    CurveSample,
    collect_peer_values,
    explain_hopeless,
    explain_silence,
    is_loss,
)
from labwright.stages.prompt_inputs import build_decision_view
from labwright.stages.run_context import RunContext


def build_watch(context: RunContext, decided: DecisionMade) -> ProgressWatch | None:
    """What ends the code of a decision's node once it is hopeless; None where nothing may end it.

    Its peers are the good nodes of the stage whose agenda item was the same, if there are enough. Ablations have none:
    that a part is missed is a finding, not a failure.

    Replicates are never pruned: results without the bad seeds would be biased. In `ticket` order time decides nothing:
    silence does not count, and the answer on code that has ended is the same as on code that is caught in time. In
    `arrival` order what has ended is kept: pruning it would save nothing.
    """
    action = decided.action
    if not context.search.prune or not isinstance(action, ExpandTree) or action.kind not in SEARCH_KINDS:
        return None
    timed, quiet = context.search.order == "arrival", context.quiet_seconds
    view = build_decision_view(context, decided)

    def item(decision: int) -> str:
        other = context.state.decisions[decision].action
        return other.item if isinstance(other, ExpandTree) else ""

    peers = [node for node in view.good_nodes if view.stage != "ablation" and item(node.decision) == action.item]
    if len(peers) < MIN_PEERS:
        peers = []
    if not timed and not peers:
        return None
    logs = [context.folder.get_attempt_path(one.id, len(one.attempts)) / "measurements.jsonl" for one in peers]
    curves = cache(lambda: collect_peer_values([_read_losses(path) for path in logs]))

    def watch(glance: ExecutionProgress) -> str | None:
        if timed and glance.ended:
            return None
        found = explain_hopeless(glance.points, curves())
        return found or (explain_silence(glance.quiet_seconds, quiet) if quiet is not None else None)

    return watch


def _read_losses(measurements: Path) -> list[CurveSample]:
    """The losses by step that the code of a sealed attempt logged; none where it has no such file."""
    if not measurements.is_file():
        return []
    with open(measurements, encoding="utf-8") as lines:
        found = (Measurement.model_validate_json(line) for line in lines)
        points = (
            ((one.dataset, one.condition, one.name, one.split), one.step, one.value)
            for one in found
            if one.step is not None and one.grade == "logged"
        )
        return list(islice((point for point in points if is_loss(point[0])), MAX_POINTS))
