"""What the search looks for while a node's code runs: whether to prune it."""

from __future__ import annotations

from functools import cache
from itertools import islice
from pathlib import Path

from labwright.record.events.searching import Decided
from labwright.record.nouns.data import Measurement
from labwright.record.nouns.decisions import Expand
from labwright.record.nouns.nodes import SEARCH_KINDS
from labwright.sandbox.job import Progress, Watch
from labwright.sandbox.monitor import POINTS
from labwright.search.pruning import FEWEST, Point, is_loss, peers_of, silence, verdict
from labwright.stages.bench import Bench
from labwright.stages.briefs import seen_by


def watcher(bench: Bench, decided: Decided) -> Watch | None:
    """What ends the code of a decision's node once it is hopeless; None where nothing may end it.

    Its peers are the good nodes of the stage whose agenda item was the same, if there are enough. Ablations have none:
    that a part is missed is a finding, not a failure.

    Replicates are never pruned: results without the bad seeds would be biased. In `ticket` order time decides nothing:
    silence does not count, and the answer on code that has ended is the same as on code that is caught in time. In
    `arrival` order what has ended is kept: pruning it would save nothing.
    """
    action = decided.action
    if not bench.search.prune or not isinstance(action, Expand) or action.kind not in SEARCH_KINDS:
        return None
    timed, quiet = bench.search.order == "arrival", bench.quiet_seconds
    view = seen_by(bench, decided)

    def item(decision: int) -> str:
        other = bench.state.decisions[decision].action
        return other.item if isinstance(other, Expand) else ""

    peers = [node for node in view.good if view.stage != "ablation" and item(node.decision) == action.item]
    if len(peers) < FEWEST:
        peers = []
    if not timed and not peers:
        return None
    logs = [bench.folder.attempt(one.id, len(one.attempts)) / "measurements.jsonl" for one in peers]
    curves = cache(lambda: peers_of([_logged(path) for path in logs]))

    def watch(glance: Progress) -> str | None:
        if timed and glance.ended:
            return None
        found = verdict(glance.lines, curves())
        return found or (silence(glance.quiet, quiet) if quiet is not None else None)

    return watch


def _logged(measurements: Path) -> list[Point]:
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
        return list(islice((point for point in points if is_loss(point[0])), POINTS))
