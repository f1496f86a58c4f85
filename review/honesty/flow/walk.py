"""What every part of the walk shares: where it has got to, what it has noted, and how it asks for a value.

Functions and methods of the source are followed; loops over short known sequences are unrolled, so that arms named in
the source are told apart; of other branches both are taken. Loops are assumed to run. It errs on the side of "may
depend on data": what it cannot follow is opaque, and opaque values are never found wanting.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from review.honesty.flow.training import Training
from review.honesty.library import WRITE_METHODS, WRITES
from review.honesty.values import NOTHING, Body, Constant, Scope, Tag, Tags, Value, either, union

MOST_STEPS = 400_000
"""Expressions that are followed; of a source that needs more nothing is said."""
UNROLLED_STEPS = 120_000
"""After so many no further loop is unrolled."""
LONGEST = 12
"""Elements of a sequence that is unrolled."""
DEEPEST = 14
"""Calls within calls that are followed."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
PASSES = 2
"""How often the body of a loop that is not unrolled is followed: once more, for what one turn hands to the next."""


class TooLongError(Exception):
    """The source takes too many steps to follow."""


@dataclass
class Sink:
    """A value that the source hands in, and how: the last state of it that the flow came to."""

    call: ast.AST
    name: str
    """'submit', 'artifact', 'result', 'log', 'fit', 'backward', 'seed', 'generator', 'statistic', 'outside', 'labels',
    'inert'."""
    value: Value
    tags: Tags
    ways: tuple[Tags, ...]
    """Tags on each way through the source on which the value may be another."""
    named: dict[str, Constant] = field(default_factory=dict[str, Constant])
    """Constant arguments that tell what it is: dataset, split, condition, metric."""
    inside: str = ""
    """The function of the source that it stands in."""


@dataclass
class Frame:
    """Where a call of a function of the source has got to."""

    returned: Value | None = None
    stopped: bool = False


@dataclass
class Given:
    """The arguments of a call."""

    args: list[Value]
    named: dict[str, Value]

    @property
    def tags(self) -> Tags:
        return union([*self.args, *self.named.values()])

    def get(self, i: int, name: str) -> Value:
        if name in self.named:
            return self.named[name]
        return self.args[i] if i < len(self.args) else Value(constant=None)


class Walk(ABC):
    """One walk through a program. `sinks` is filled on the way."""

    def __init__(self, entry: ast.Module, modules: Mapping[str, ast.Module], arms: Sequence[str] = ()) -> None:
        """`modules` lie beside the entry, by the names under which they are imported; `arms` are those that a function
        of cells is followed for (`lab.measure`)."""
        self.entry = entry
        self.tree = ast.Module([*entry.body, *(one for tree in modules.values() for one in tree.body)], [])
        """All code together, the entry first."""
        self.modules = modules
        self.loaded: dict[str, Scope] = {}
        """By name, those that were imported."""
        self.arms = arms
        self.arm: str | None = None
        """Of the cell that is being followed, where it is known."""
        self.module = Scope()
        self.scope = self.module
        self.frames = [Frame()]
        self.where: tuple[int, ...] = ()
        self.stack: list[ast.AST] = []
        self.classes: list[str] = []
        self.steps = 0
        self.sinks: dict[tuple[object, ...], Sink] = {}
        self.control: list[Tags] = []
        """Tags of the tests of the branches that are being followed."""
        self.selections: list[tuple[ast.expr, Tags]] = []
        """Tests by which the best of several is kept."""
        self.written: set[str] = set()
        self.contents: dict[str, Tags] = {}
        """By a text or name in the call that wrote a file: what was written."""
        self.writable = written_names(self.tree)
        self.training = Training(self.tree)
        self.cached: dict[Constant, Value] = {}
        """By key: what `lab.shared` was given first."""
        self.passed: dict[tuple[ast.AST, str], list[tuple[Constant, frozenset[Constant]]]] = {}
        """By function and parameter: switches that it was given, with the texts that were given beside them."""
        self.places: dict[int, frozenset[str]] = {}
        """By the identity of an expression: the names and attributes in it."""
        self.generators = {id(node) for node in ast.walk(self.tree) if isinstance(node, FUNCTIONS) and any(
            isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))}
        """Identities of the functions that yield."""
        self.handled: set[int] = set()
        """Nodes that stand where an exception is handled."""
        self.kept: list[Value] = []
        """Values whose identity numbers a choice: they must not be freed."""

    @abstractmethod
    def value(self, node: ast.expr) -> Value: ...
    @abstractmethod
    def block(self, body: Sequence[ast.stmt]) -> None: ...
    @abstractmethod
    def attribute(self, owner: Value, name: str) -> Value: ...
    @abstractmethod
    def apply(self, function: Value, given: Given, node: ast.AST) -> Value:
        """What a function, class, network or library makes of its arguments."""
    @abstractmethod
    def follow(self, function: Value, given: Given, node: ast.AST) -> Value:
        """Run through a function of the source."""

    def sink(self, call: ast.AST, name: str, value: Value, **named: Constant) -> None:
        key = (id(call), name, self.where, *named.values())
        ways = tuple(way.deep() for way in value.others) or (value.deep(),)
        inside = next((n.name for n in reversed(self.stack) if isinstance(n, ast.FunctionDef)), "")
        self.sinks[key] = Sink(call, name, value, value.deep(), ways, dict(named), inside)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, owner: Value | None = None) -> Value:
        return Value(body=Body(node, self.scope, owner))

    def turns(self, iterable: Value) -> list[Value] | None:
        """The elements of a sequence that is unrolled; None where it is too long or not known."""
        if iterable.others or self.steps > UNROLLED_STEPS:
            return None
        if iterable.elements is not None:
            return iterable.elements if 0 < len(iterable.elements) <= LONGEST else None
        if iterable.items and iterable.made_by is None and len(iterable.items) <= LONGEST:
            return [Value(constant=key) for key in iterable.items]
        return None

    def element(self, iterable: Value) -> Value:
        """Any element of a sequence."""
        parts = iterable.elements or list(iterable.items.values())
        if iterable.path == "pairs" and parts:  # of zip and enumerate
            return Value(elements=[self.element(part) for part in parts])
        found: Value | None = None
        for part in parts[:40]:
            found = part if found is None else either(found, part)
        if found is None:
            return Value(iterable.deep() | ({Tag.PART} if Tag.DATA in iterable.tags else NOTHING))
        return found if iterable.tags <= found.deep() else Value(
            found.deep() | iterable.tags, path=found.path, items=found.items, elements=found.elements,
            made_by=found.made_by, body=found.body)


SAVES = frozenset({"save", "savez", "savez_compressed", "savetxt", "dump"})
"""Last names of functions that write a file."""
def written_names(tree: ast.AST) -> set[str]:
    """Last parts of file names that stand as text in calls that write; what is read from them was written here."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        opened = name.endswith("open") and any(
            isinstance(one, ast.Constant) and isinstance(one.value, str) and set(one.value) & set("wax")
            and len(one.value) <= 3 for one in (*node.args[:2], *(k.value for k in node.keywords)))
        last = name.rsplit(".", 1)[-1]
        if opened or last in WRITE_METHODS or last in SAVES or WRITES.match(name):
            found |= {one.value for part in ast.walk(node) if isinstance(one := part, ast.Constant)
                      and isinstance(one.value, str)}
            found |= {one.id for part in ast.walk(node) if isinstance(one := part, ast.Name)}
    return found
