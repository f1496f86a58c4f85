"""Failures that children of one node have in common: mended once, in the node itself, instead of in each child.

Pure. Two children that failed with one signature met something that their parent does not get along with; every further
child would meet it too. What looks alike and is not costs one node: the signature keeps names, and drops only what
differs between runs of one mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from labwright.record.nouns.nodes import ErrorClass, Failure, Node

Signature = tuple[ErrorClass, str]
"""Class of a failure, and the last line of its message without what differs from run to run."""
Group = tuple[Node, ...]
"""Nodes that failed alike, in the order of their decisions."""
OWN: frozenset[ErrorClass] = frozenset({"no answer", "suspect", "figure"})
"""Failures that say nothing of the parent: a program that nobody wrote, numbers that were typed, a poor drawing."""
FEWEST = 2
"""Children that must have failed alike."""

_QUOTES = re.compile(r"[\"`‘’“”]")
_PATHS = re.compile(r"(?:[A-Za-z]:)?(?:[\w.~+-]*[/\\])+[\w.~+-]*")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


def signature(failure: Failure) -> Signature:
    """What a failure is recognised by: quotation marks are made alike, paths and numbers replaced by one sign."""
    last = next((line for line in reversed(failure.message.splitlines()) if line.strip()), "")
    last = _NUMBERS.sub("#", _PATHS.sub("PATH", _QUOTES.sub("'", last)))
    return failure.kind, " ".join(last.split())


def failed_alike(node: Node, others: Group) -> bool:
    """Whether a node failed as one of these did."""
    return node.failure is not None and signature(node.failure) in {
        signature(one.failure) for one in others if one.failure is not None
    }


@dataclass(frozen=True)
class Together:
    """What children of one node failed of alike, in one stage, and what became of it."""

    searched: tuple[Node, ...] = ()
    """The stage's search nodes, in the order of their decisions."""
    working: frozenset[str] = frozenset()
    """The nodes, of any stage, that work and may be built on; what their children failed of can be mended in them."""
    taken: Mapping[str, str] = field(default_factory=dict[str, str])
    """Node -> the item that it took up, of those that took one up."""

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Nodes of one parent that failed alike, the group that was complete first coming first.

        Failures that are a child's own, what a person closed or marked, and repairs themselves are in none.
        """
        found: dict[tuple[str | None, Signature], list[Node]] = {}
        for node in self.searched:
            if (
                node.parent in self.working
                and node.status == "buggy"
                and node.failure is not None
                and node.source_sha256
                and node.failure.kind not in OWN
                and not (node.closed or node.marked or node.mends)
            ):
                found.setdefault((node.parent, signature(node.failure)), []).append(node)
        complete = [tuple(group) for group in found.values() if len(group) >= FEWEST]
        return tuple(sorted(complete, key=lambda group: group[FEWEST - 1].decision))

    @cached_property
    def lines(self) -> dict[str, str]:
        """The nodes of all groups, and what debugged one of them -> that one. No line is debugged any further."""
        found = {node.id: node.id for group in self.groups for node in group}
        for node in self.searched:
            if node.kind == "debug" and node.parent in found:
                found[node.id] = found[node.parent]
        return found

    @cached_property
    def unmended(self) -> tuple[Group, ...]:
        """The groups whose failure was not taken up yet."""
        return tuple(group for group in self.groups if not self._in(set(self._origins), group))

    @cached_property
    def stands_for(self) -> dict[str, str]:
        """Repair that works -> the node that it stands for."""
        return {name: origin.parent or "" for name, origin in self._origins.items() if name in self.working}

    @cached_property
    def pending(self) -> frozenset[str]:
        """The nodes whose repair is being made: further children of theirs would fail alike."""
        unfinished = {node.id for node in self.searched if not node.finished}
        return frozenset(origin.parent or "" for name, origin in self._origins.items() if name in unfinished)

    @cached_property
    def dropped(self) -> tuple[Node, ...]:
        """The nodes of the groups that a repair that works mends: others take their items up.

        Without those that debugging had made work before.
        """
        alone = {member for name, member in self.lines.items() if name in self.working}
        return tuple(
            node
            for group in self.groups
            if self._in(set(self.stands_for), group)
            for node in group
            if node.id not in alone
        )

    @cached_property
    def again(self) -> tuple[str, ...]:
        """The items of dropped nodes that no other node took up since."""
        since = {
            self.taken[node.id]: node.decision
            for node in self.searched
            if node.id in self.taken and node.id not in self.lines
        }
        items = {self.taken[node.id]: node.decision for node in self.dropped if node.id in self.taken}
        return tuple(item for item, k in items.items() if since.get(item, 0) < k)

    @cached_property
    def _origins(self) -> dict[str, Node]:
        """Each repair, and what debugged one that failed -> the repair."""
        found: dict[str, Node] = {}
        for node in self.searched:
            if node.mends:
                found[node.id] = node
            elif node.kind == "debug" and node.parent in found and node.parent not in self.working:
                found[node.id] = found[node.parent]
        return found

    def _in(self, repairs: set[str], group: Group) -> bool:
        """Whether one of these repairs is of the group."""
        ids = {node.id for node in group}
        return any(ids.intersection(self._origins[name].mends) for name in repairs)
