"""Executions of one node in words: what a second one was given that the first did not have."""

from __future__ import annotations

from collections.abc import Iterator

from record.nouns.nodes import Attempt, Node


def retries(node: Node) -> Iterator[tuple[Attempt, Attempt]]:
    """Each failed attempt with the one that followed it."""
    for first, second in zip(node.attempts, node.attempts[1:], strict=False):
        if first.failure is not None:
            yield first, second


def changed(first: Attempt, second: Attempt) -> str:
    """The limits of an attempt as against the one before it."""
    given: list[str] = []
    if second.limit is not None and first.limit is not None and second.limit > first.limit:
        given.append(f"with a limit of {second.limit:.0f} s instead of {first.limit:.0f} s")
    if second.alone and not first.alone:
        given.append("alone on the machine")
    return " and ".join(given) or "with the same limits"
