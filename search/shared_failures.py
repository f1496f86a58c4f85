"""Failures shared by several children of one node: fixed once, in the node itself, instead of in each child.

All functions are pure. Two children that failed with the same signature hit a problem that comes from their parent;
every further child would hit it too. A wrong match costs only one node. The signature keeps names, and omits only parts
that differ between occurrences of one error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from labwright.record.schema.nodes import ErrorClass, Failure, Node

FailureSignature = tuple[ErrorClass, str]
"""Class of a failure, and the last line of its message without parts that vary between runs."""
NodeGroup = tuple[Node, ...]
"""Nodes with the same failure, in decision order."""
UNSHARED_ERROR_CLASSES: frozenset[ErrorClass] = frozenset({"no answer", "suspect", "figure"})
"""Failures unrelated to the parent: no program was written, typed-in numbers, a poor figure."""
MIN_GROUP_SIZE = 2

_QUOTES = re.compile(r"[\"`‘’“”]")
_PATHS = re.compile(r"(?:[A-Za-z]:)?(?:[\w.~+-]*[/\\])+[\w.~+-]*")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


def compute_signature(failure: Failure) -> FailureSignature:
    """Return the signature of a failure: quotation marks are unified, paths and numbers replaced by placeholders."""
    last = next((line for line in reversed(failure.message.splitlines()) if line.strip()), "")
    last = _NUMBERS.sub("#", _PATHS.sub("PATH", _QUOTES.sub("'", last)))
    return failure.kind, " ".join(last.split())


def has_same_failure(node: Node, others: NodeGroup) -> bool:
    """Return whether a node has the same failure as one of the others."""
    return node.failure is not None and compute_signature(node.failure) in {
        compute_signature(one.failure) for one in others if one.failure is not None
    }


@dataclass(frozen=True)
class SharedFailures:
    """Failures shared by children of one node, in one stage, and their repairs."""

    searched_nodes: tuple[Node, ...] = ()
    """The stage's search nodes, in decision order."""
    working_nodes: frozenset[str] = frozenset()
    """The working nodes of any stage on which others may build; failures shared by their children can be fixed in
    them."""
    item_by_node: Mapping[str, str] = field(default_factory=dict[str, str])
    """Node -> the agenda item on which it works, if any."""

    @cached_property
    def groups(self) -> tuple[NodeGroup, ...]:
        """Groups of siblings with the same failure, in the order in which the groups became complete.

        Excludes failures of the child alone, nodes that the user closed or marked, and repairs themselves.
        """
        found: dict[tuple[str | None, FailureSignature], list[Node]] = {}
        for node in self.searched_nodes:
            if (
                node.parent in self.working_nodes
                and node.status == "buggy"
                and node.failure is not None
                and node.source_sha256
                and node.failure.kind not in UNSHARED_ERROR_CLASSES
                and not (node.closed or node.marked or node.repairs_children)
            ):
                found.setdefault((node.parent, compute_signature(node.failure)), []).append(node)
        complete = [tuple(group) for group in found.values() if len(group) >= MIN_GROUP_SIZE]
        return tuple(sorted(complete, key=lambda group: group[MIN_GROUP_SIZE - 1].decision))

    @cached_property
    def group_node_by_node(self) -> dict[str, str]:
        """Maps a node of a group, or a node that debugged it, to that node of the group. These are not debugged
        further.
        """
        found = {node.id: node.id for group in self.groups for node in group}
        for node in self.searched_nodes:
            if node.kind == "debug" and node.parent in found:
                found[node.id] = found[node.parent]
        return found

    @cached_property
    def unrepaired_groups(self) -> tuple[NodeGroup, ...]:
        """The groups not yet repaired."""
        return tuple(group for group in self.groups if not self._is_repair_of_group(set(self._repair_by_node), group))

    @cached_property
    def repaired_node_by_repair(self) -> dict[str, str]:
        """Working repair -> the node that it replaces."""
        return {
            name: origin.parent or "" for name, origin in self._repair_by_node.items() if name in self.working_nodes
        }

    @cached_property
    def nodes_under_repair(self) -> frozenset[str]:
        """The nodes under repair: further children of them would fail in the same way."""
        unfinished = {node.id for node in self.searched_nodes if not node.is_finished}
        return frozenset(origin.parent or "" for name, origin in self._repair_by_node.items() if name in unfinished)

    @cached_property
    def superseded_nodes(self) -> tuple[Node, ...]:
        """The nodes of groups fixed by a working repair: other nodes work on their items.

        Excludes nodes that debugging had already fixed.
        """
        alone = {member for name, member in self.group_node_by_node.items() if name in self.working_nodes}
        return tuple(
            node
            for group in self.groups
            if self._is_repair_of_group(set(self.repaired_node_by_repair), group)
            for node in group
            if node.id not in alone
        )

    @cached_property
    def reopened_items(self) -> tuple[str, ...]:
        """The items of superseded nodes on which no other node has worked since."""
        items = self.item_by_node
        named = [node for node in self.searched_nodes if node.id in items]
        since = {items[node.id]: node.decision for node in named if node.id not in self.group_node_by_node}
        lost = {items[node.id]: node.decision for node in self.superseded_nodes if node.id in items}
        return tuple(item for item, k in lost.items() if since.get(item, 0) < k)

    @cached_property
    def _repair_by_node(self) -> dict[str, Node]:
        """Maps each repair, and each node that debugged a failed repair, to the repair."""
        found: dict[str, Node] = {}
        for node in self.searched_nodes:
            if node.repairs_children:
                found[node.id] = node
            elif node.kind == "debug" and node.parent in found and node.parent not in self.working_nodes:
                found[node.id] = found[node.parent]
        return found

    def _is_repair_of_group(self, repairs: set[str], group: NodeGroup) -> bool:
        """Return whether one of these repairs is for the group."""
        ids = {node.id for node in group}
        return any(ids.intersection(self._repair_by_node[name].repairs_children) for name in repairs)
