"""Where datasets come from: the protocol that every source of data fulfils."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Examples:
    """All examples of a dataset: x (n, features) float64; y (n,) int64 from 0, or float32 for regression."""

    x: NDArray[Any]
    y: NDArray[Any]


class DatasetSource(Protocol):
    """A dataset that can be had. The facts are known without loading it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def source(self) -> str:
        """Where it comes from, for the record: 'sklearn:load_digits'."""
        ...
    @property
    def examples(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def classes(self) -> int:
        """0 for regression."""
        ...
    def load(self) -> Examples:
        """All examples, always in the same order. May take long, may use the network."""
        ...
