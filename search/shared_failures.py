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

from labwright.record.schema.nodes import ErrorClass, Failure, Node

FailureSignature = tuple[ErrorClass, str]
"""Class of a failure, and the last line of its message without what differs from run to run."""
NodeGroup = tuple[Node, ...]
"""Nodes that failed alike, in the order of their decisions."""
UNSHARED_ERROR_CLASSES: frozenset[ErrorClass] = frozenset({"no answer", "suspect", "figure"})
"""Failures that say nothing of the parent: a program that nobody wrote, numbers that were typed, a poor drawing."""
MIN_GROUP_SIZE = 2
"""Children that must have failed alike."""

_QUOTES = re.compile(r"[\"`‘’“”]")
_PATHS = re.compile(r"(?:[A-Za-z]:)?(?:[\w.~+-]*[/\\])+[\w.~+-]*")
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")


def compute_signature(failure: Failure) -> FailureSignature:
    """What a failure is recognised by: quotation marks are made alike, paths and numbers replaced by one sign."""
    last = next((line for line in reversed(failure.message.splitlines()) if line.strip()), "")
    last = _NUMBERS.sub("#", _PATHS.sub("PATH", _QUOTES.sub("'", last)))
    return failure.kind, " ".join(last.split())


def has_same_failure(node: Node, others: NodeGroup) -> bool:
    """Whether a node failed as one of these did."""
    return node.failure is not None and compute_signature(node.failure) in {
        compute_signature(one.failure) for one in others if one.failure is not None
    }


@dataclass(frozen=True)
class SharedFailures:
    """What children of one node failed of alike, in one stage, and what became of it."""

    searched_nodes: tuple[Node, ...] = ()
    """The stage's search nodes, in the order of their decisions."""
    working_nodes: frozenset[str] = frozenset()
    """The nodes, of any stage, that work and may be built on; what their children failed of can be mended in them."""
    item_by_node: Mapping[str, str] = field(default_factory=dict[str, str])
    """Node -> the item that it took up, of those that took one up."""

    @cached_property
    def groups(self) -> tuple[NodeGroup, ...]:
        """Nodes of one parent that failed alike, the group that was complete first coming first.

        Failures that are a child's own, what a person closed or marked, and repairs themselves are in none.
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
        """The nodes of all groups, and what debugged one of them -> that one. No line is debugged any further."""
        found = {node.id: node.id for group in self.groups for node in group}
        for node in self.searched_nodes:
            if node.kind == "debug" and node.parent in found:
                found[node.id] = found[node.parent]
        return found

    @cached_property
    def unrepaired_groups(self) -> tuple[NodeGroup, ...]:
        """The groups whose failure was not taken up yet."""
        return tuple(group for group in self.groups if not self._is_repair_of_group(set(self._repair_by_node), group))

    @cached_property
    def repaired_node_by_repair(self) -> dict[str, str]:
        """Repair that works -> the node that it stands for."""
        return {
            name: origin.parent or "" for name, origin in self._repair_by_node.items() if name in self.working_nodes
        }

    @cached_property
    def nodes_under_repair(self) -> frozenset[str]:
        """The nodes whose repair is being made: further children of theirs would fail alike."""
        unfinished = {node.id for node in self.searched_nodes if not node.is_finished}
        return frozenset(origin.parent or "" for name, origin in self._repair_by_node.items() if name in unfinished)

    @cached_property
    def superseded_nodes(self) -> tuple[Node, ...]:
        """The nodes of the groups that a repair that works mends: others take their items up.

        Without those that debugging had made work before.
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
        """The items of dropped nodes that no other node took up since."""
        since = {
            self.item_by_node[node.id]: node.decision
            for node in self.searched_nodes
            if node.id in self.item_by_node and node.id not in self.group_node_by_node
        }
        items = {
            self.item_by_node[node.id]: node.decision for node in self.superseded_nodes if node.id in self.item_by_node
        }
        return tuple(item for item, k in items.items() if since.get(item, 0) < k)

    @cached_property
    def _repair_by_node(self) -> dict[str, Node]:
        """Each repair, and what debugged one that failed -> the repair."""
        found: dict[str, Node] = {}
        for node in self.searched_nodes:
            if node.repairs_children:
                found[node.id] = node
            elif node.kind == "debug" and node.parent in found and node.parent not in self.working_nodes:
                found[node.id] = found[node.parent]
        return found

    def _is_repair_of_group(self, repairs: set[str], group: NodeGroup) -> bool:
        """Whether one of these repairs is of the group."""
        ids = {node.id for node in group}
        return any(ids.intersection(self._repair_by_node[name].repairs_children) for name in repairs)
