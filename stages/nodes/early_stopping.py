"""Decide whether to prune a node while its code runs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path

from labwright.record.events.search_events import DecisionMade
from labwright.record.result_folders import list_result_folders
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import SEARCH_KINDS
from labwright.sandbox.job import ExecutionProgress
from labwright.sandbox.monitor import MAX_POINTS
from labwright.search.pruning import (
    MIN_PEERS,
    CurveSample,
    collect_peer_values,
    explain_hopeless,
    explain_silence,
    is_loss,
)
from labwright.stages.measuring import ProgressWatch
from labwright.stages.prompt_inputs import build_decision_view
from labwright.stages.run_context import RunContext


def build_watch(context: RunContext, decided: DecisionMade) -> ProgressWatch | None:
    """Build the watch that stops the code of a decision's node once it is hopeless; None if it may not be stopped.

    Its peers are the good nodes of the stage with the same item of the main experiments, if there are enough of them.
    Ablations have no peers: a worse result without a component is a finding, not a failure.

    Replicates are never pruned, because results without the bad seeds would be biased. In `ticket` order time decides
    nothing: silence is ignored, and code that finished is treated like code that was stopped in time. In `arrival`
    order finished code is kept, because pruning it would save nothing.
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
    logs = [
        [one.path / "measurements.jsonl" for one in list_result_folders(context.state, context.folder, peer)]
        for peer in peers
    ]
    curves = cache(lambda: collect_peer_values([_read_losses(paths) for paths in logs]))

    def watch(progress: ExecutionProgress) -> str | None:
        if timed and progress.ended:
            return None
        reason = explain_hopeless(progress.points, curves())
        return reason or (explain_silence(progress.quiet_seconds, quiet) if quiet is not None else None)

    return watch


def _read_losses(logs: Iterable[Path]) -> list[CurveSample]:
    """Return the losses by step that the code of a node logged, from its sealed files; missing files have none."""
    measurements = (
        Measurement.model_validate_json(line)
        for path in logs
        if path.is_file()
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    points = (
        ((one.dataset, one.condition, one.name, one.split), one.step, one.value)
        for one in measurements
        if one.step is not None and one.grade == "logged"
    )
    return list(islice((point for point in points if is_loss(point[0])), MAX_POINTS))
