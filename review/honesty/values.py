"""What static data flow knows of a value: where it may come from (tags), and its constant, parts or body if known."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto


class Tag(Enum):
    """Something that a value may come from, or that was done to it."""

    DATA = auto()
    """Contents of a dataset, an artifact or a checkpoint of this run; sizes and names of a dataset are not."""
    TRAIN = auto()
    DEV = auto()
    VALIDATION = auto()
    TEST = auto()
    LABEL = auto()
    PART = auto()
    """Rows picked out of a split: a part of train may be somebody's own validation part."""
    RANDOM = auto()
    SEED = auto()
    """`lab.seed`."""
    MODEL = auto()
    """A network or an estimator."""
    OPAQUE = auto()
    """Code that is not followed; it may have seen anything."""
    FILE = auto()
    """A file that nothing in this source writes, and that belongs to no dataset."""
    EARLIER = auto()
    """A file that this source writes, but only after it was read."""
    PREDICTED = auto()
    """What a model or a softmax gave."""
    NOISED = auto()
    """A prediction with random numbers added to it."""
    SCORE = auto()
    """One number made of many."""
    BOOSTED = auto()
    """A score to which a typed number was added."""
    JOINED = auto()
    """Training rows and rows to be predicted, one after the other."""
    MATCHED = auto()
    """Rows to be predicted found again, exactly, among training rows."""
    LOOKED_UP = auto()
    """Labels of such rows."""
    CHOSEN = auto()
    """The best of several test scores."""
    ROWS = auto()
    """Rows of a split, as against its labels."""
    REUSED = auto()
    """Rows of train that were put through what was fitted on all of train."""
    SHUFFLED = auto()
    """Labels in an order that their rows are not in, or drawn in their place."""
    TYPED = auto()
    """A long list of whole numbers in the source, as answers would stand there."""
    LEARNT = auto()
    """Changed step by step in a loop, as what is searched or trained without labels is."""


@dataclass(frozen=True)
class Made:
    """A network or an estimator, told apart from others; its number."""

    number: int


@dataclass(frozen=True)
class Ranked:
    """One of several predictions or names, picked by a score."""

    choice: int
    """Its number; what is left over has the same."""
    names: frozenset[str] = frozenset()
    """The names, where it is one of them."""


@dataclass(frozen=True)
class Means:
    """What an arm is trained with: the turns of its loops, its rows, a setting by name."""

    name: str
    value: float


Mark = Tag | Made | Ranked | Means
Tags = frozenset[Mark]
NOTHING: Tags = frozenset[Mark]()
LABELS: Tags = frozenset({Tag.SHUFFLED})
"""What is told of the labels that an arm is trained with."""
HELD_OUT: Tags = frozenset({Tag.VALIDATION, Tag.TEST})
SPLITS: Tags = frozenset({Tag.TRAIN, Tag.DEV}) | HELD_OUT




class Unknown(Enum):
    """There is no constant."""

    UNKNOWN = auto()


UNKNOWN = Unknown.UNKNOWN
Constant = str | int | float | bool | bytes | None | Unknown


@dataclass
class Scope:
    """Names of one function call (or the module), and the scope that it was defined in."""

    names: dict[str, Value] = field(default_factory=dict[str, "Value"])
    outer: Scope | None = None
    foreign: set[str] = field(default_factory=set[str])
    """Names declared global or nonlocal."""

    def find(self, name: str) -> Value | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and name not in scope.foreign:
                return scope.names[name]
            scope = scope.outer
        return None

    def bind(self, name: str, value: Value) -> None:
        scope = self
        while name in scope.foreign and scope.outer is not None:
            scope = scope.outer
            if name in scope.names:
                break
        scope.names[name] = value


@dataclass
class Body:
    """A function of the source, with the scope that it closes over and the object that it is bound to."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    owner: Value | None = None


@dataclass(eq=False)
class Value:
    """A value by identity: what is done to it in place is seen wherever it is known."""

    tags: Tags = NOTHING
    constant: Constant = UNKNOWN
    path: str = ""
    """Dotted name of what was imported, e.g. 'numpy.random'; or 'dataset', 'split' for what `lab.data` gave."""
    items: dict[Constant, Value] = field(default_factory=dict["Constant", "Value"])
    """By key of a dict, or by attribute of an object."""
    elements: list[Value] | None = None
    """Of a list or tuple whose length is known."""
    body: Body | None = None
    template: tuple[ast.ClassDef, Scope] | None = None
    """The class, of a class."""
    made_by: tuple[ast.ClassDef, Scope] | None = None
    """The class, of an object."""
    others: list[Value] = field(default_factory=list["Value"])
    """What the value may be instead, on other ways through the source."""
    turns: int | None = None
    """Numbers in a range, where they are known."""
    rate: float | None = None
    """Of a product with a number that is named like a learning rate: the number."""

    def taint(self, tags: Iterable[Mark]) -> None:
        self.tags = self.tags | frozenset(tags)

    def deep(self, seen: set[int] | None = None) -> Tags:
        """Tags of the value and of all its parts."""
        seen = set() if seen is None else seen
        if id(self) in seen:
            return NOTHING
        seen.add(id(self))
        found = self.tags
        for part in (*self.items.values(), *(self.elements or ()), *self.others):
            found |= part.deep(seen)
        return found


def constant(value: Constant) -> Value:
    return Value(constant=value)


def of(*tags: Mark) -> Value:
    return Value(frozenset[Mark](tags))


def union(values: Iterable[Value]) -> Tags:
    found = NOTHING
    for value in values:
        found |= value.deep()
    return found


MOST_OTHERS = 6


def either(a: Value, b: Value) -> Value:
    """What may be the one or the other."""
    if a is b:
        return a
    if (a.constant is not UNKNOWN and a.constant == b.constant and type(a.constant) is type(b.constant)
            and not a.items and not b.items):
        return Value(a.tags | b.tags, a.constant)
    ways = [way for one in (a, b) for way in (one.others or [one])]
    ways = list({id(way): way for way in ways}.values())
    first = ways[0]
    merged = Value(a.deep() | b.deep(), path=a.path if a.path == b.path else "",
                   body=a.body or b.body, template=a.template or b.template, made_by=a.made_by or b.made_by,
                   others=ways if len(ways) <= MOST_OTHERS else [])
    merged.items = dict(first.items)
    for way in ways[1:]:
        for key, part in way.items.items():
            merged.items[key] = either(merged.items[key], part) if key in merged.items else part
    return merged
