"""Length of the prompts in a run, in characters: in total, and without prefixes shared with earlier calls.

python -m benchmarks.prompt_sharing RUN [--out FILE]

Reads the prompts that the run stored (`record.llm_calls`). The prefix of a call that any earlier call of the
same model had counts as shared, since providers cache such prefixes. Calls made for a search node (its code, plots,
reviews, verdict) are also counted by node. `differing` names the roles whose `system` part was not the same in all
calls.

Not measured: tokens, images, the schema of the answer, and how long a provider caches a prefix.
"""

from __future__ import annotations

import bisect
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import make_parser, print_report
from labwright.record.event_log import read_events, read_state
from labwright.record.events.run_events import CallAnswered
from labwright.record.llm_calls import PromptRecord, find_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.schema.decisions import ExpandTree
from labwright.record.schema.nodes import SEARCH_KINDS
from labwright.record.zips import open_run_folder


@dataclass(frozen=True)
class RecordedCall:
    """A call whose prompt was stored."""

    answered: CallAnswered
    asked: PromptRecord

    @property
    def sent_text(self) -> str:
        return f"{self.asked.system}\n{self.asked.user}"

    @property
    def answer_length(self) -> int:
        return len(json.dumps(self.answered.answer, ensure_ascii=False))


def read_calls(run: Path) -> tuple[list[RecordedCall], int]:
    """Return the calls of a run in the order of their answers, and how many prompts were not stored."""
    answered = [
        event for event, _ in read_events(RunFolder(run).root / "events.jsonl") if isinstance(event, CallAnswered)
    ]
    kept = [(one, find_prompt(run, one)) for one in answered]
    found = [RecordedCall(one, kept.asked) for one, kept in kept if kept is not None and kept.asked is not None]
    return found, len(answered) - len(found)


def common_prefix_length(a: str, b: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        half = (low + high + 1) // 2
        low, high = (half, high) if a[:half] == b[:half] else (low, half - 1)
    return low


def shared_prefix_lengths(calls: Iterable[RecordedCall]) -> list[int]:
    """Return for each call the length of its longest prefix shared with an earlier call of its model."""
    before: dict[str, list[str]] = defaultdict(list)
    found: list[int] = []
    for call in calls:
        texts = before[call.answered.model]
        place = bisect.bisect(
            texts, call.sent_text
        )  # the text with the longest common prefix is a neighbour in sort order
        found.append(
            max((common_prefix_length(call.sent_text, one) for one in texts[max(0, place - 1) : place + 1]), default=0)
        )
        texts.insert(place, call.sent_text)
    return found


def measure_run(run: Path) -> dict[str, object]:
    """Return the measurements of a run, as JSON."""
    calls, lost = read_calls(run)
    begun = shared_prefix_lengths(calls)
    state = read_state(run)
    nodes = {k for k in state.decisions if _is_search(state, k)}
    of_nodes = [k for k, call in enumerate(calls) if call.answered.key.decision in nodes]
    roles = {
        role: [k for k, call in enumerate(calls) if call.asked.role == role]
        for role in {call.asked.role for call in calls}
    }
    return {
        "calls": len(calls),
        "not_kept": lost,
        "whole_run": _sum_calls(calls, begun, range(len(calls)), 1),
        "search_nodes": len(nodes),
        "a_search_node": _sum_calls(calls, begun, of_nodes, len(nodes) or 1),
        "roles": {
            role: _sum_calls(calls, begun, own, len(own)) | {"calls": len(own)} for role, own in sorted(roles.items())
        },
        "differing": sorted(role for role, own in roles.items() if len({calls[k].asked.system for k in own}) > 1),
    }


def _is_search(state: RunState, k: int) -> bool:
    action = state.decisions[k].action
    return isinstance(action, ExpandTree) and action.kind in SEARCH_KINDS


def _sum_calls(calls: list[RecordedCall], begun: list[int], chosen: Iterable[int], by: int) -> dict[str, int]:
    places = list(chosen)
    sent = sum(len(calls[k].sent_text) for k in places)
    return {
        "sent": round(sent / by),
        "sent_not_shared": round((sent - sum(begun[k] for k in places)) / by),
        "answered": round(sum(calls[k].answer_length for k in places) / by),
    }


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("run", type=Path)
    given = parser.parse_args()
    print_report(measure_run(open_run_folder(given.run)), given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
