"""What a person's mark says, and of which nodes."""

from __future__ import annotations

from record.events.running import Commanded
from record.fold.state import RunState

MARKED = "marked by a person: "
"""How a reason to suspect a node begins that a person gave."""


def marks_of(state: RunState, mark: Commanded) -> dict[str, str]:
    """The nodes that a mark is for, and what it says of each: what was ablated from a suspect node is suspect too."""
    if mark.mark == "closed":
        return {mark.target: mark.text}
    found = {mark.target: MARKED + mark.text}
    for node in state.nodes.values():  # parents come before their children
        if node.stage == "ablation" and node.parent in found:
            found[node.id] = f"{MARKED}as {mark.target}, which it rests on: {mark.text}"
    return found
