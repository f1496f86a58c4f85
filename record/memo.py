"""What was worked out of values that never change, kept as long as these are the very same objects.

A view of a run looks at every node anew, and nearly all of them are as they were at the decision before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import is_
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_ENTRIES = 20_000
"""Values that one memo keeps, those made last."""


class Memo(Generic[T]):
    """One value for each key. It holds what a value was made of, so that no other object can take its place."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[object, ...], T]] = {}

    def get_or_compute(self, key: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """The value that was made of these objects, or what `make` gives now."""
        known = self._kept.get(key)
        if known is not None and len(known[0]) == len(inputs) and all(map(is_, known[0], inputs)):
            return known[1]
        value = compute()
        self._kept.pop(key, None)
        self._kept[key] = inputs, value
        if len(self._kept) > MAX_ENTRIES:
            self._kept.pop(next(iter(self._kept)), None)
        return value
