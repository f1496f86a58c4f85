"""Cache of values derived from immutable objects; a value is valid as long as its inputs are the identical objects.

A snapshot of a run visits every node again, and nearly all are unchanged since the previous decision.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import is_
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_ENTRIES = 20_000
"""Maximum number of cached values; the oldest are dropped."""


class Memo(Generic[T]):
    """A cache with one value per key. It keeps references to the inputs, so no other object can get their identity."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[tuple[object, ...], T]] = {}

    def get_or_compute(self, key: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the cached value for these input objects, or compute it now."""
        known = self._kept.get(key)
        if known is not None and len(known[0]) == len(inputs) and all(map(is_, known[0], inputs)):
            return known[1]
        value = compute()
        self._kept.pop(key, None)
        self._kept[key] = inputs, value
        if len(self._kept) > MAX_ENTRIES:
            self._kept.pop(next(iter(self._kept)), None)
        return value
