"""Static data flow: the source is followed statement by statement over origins (`values.Value`) in place of values.

Calls of functions and methods of the source are followed; loops over short known sequences are unrolled, so that arms
named in the source are told apart; of other branches both are taken. Loops are assumed to run. It errs on the side of
"may depend on data": what it cannot follow is opaque, and opaque values are never found wanting.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import NOTHING, SPLITS, UNKNOWN, Body, Constant, Scope, Tag, Tags, Value, either, of, union

MOST_STEPS = 400_000
"""Expressions that are followed; of a source that needs more nothing is said."""
UNROLLED_STEPS = 120_000
"""After so many no further loop is unrolled."""
LONGEST = 12
"""Elements of a sequence that is unrolled."""
DEEPEST = 14
"""Calls within calls that are followed."""
PASSES = 2
"""How often the body of a loop that is not unrolled is followed: once more, for what one turn hands to the next."""


class TooLongError(Exception):
    """The source takes too many steps to follow."""


@dataclass
class Sink:
    """A value that the source hands in, and how: the last state of it that the flow came to."""

    call: ast.Call
    name: str
    """'submit', 'result', 'log', 'fit', 'backward', 'seed', 'generator', 'statistic', 'read', 'labels', 'plot'."""
    value: Value
    tags: frozenset[Tag]
    ways: tuple[frozenset[Tag], ...]
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


class Flow:
    """One walk through a module. `sinks` is filled on the way; see `review.honesty.calls` for what calls do."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
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
        self.writable = written_names(self.tree)

    def run(self) -> None:
        """Raises: `TooLongError`, `RecursionError`."""
        self.block(self.tree.body)

    def sink(self, call: ast.Call, name: str, value: Value, **named: Constant) -> None:
        key = (id(call), name, self.where, *named.values())
        ways = tuple(way.deep() for way in value.others) or (value.deep(),)
        inside = next((n.name for n in reversed(self.stack) if isinstance(n, ast.FunctionDef)), "")
        self.sinks[key] = Sink(call, name, value, value.deep(), ways, dict(named), inside)

    # --- statements -------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if self.frames[-1].stopped:
                return
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=value):
                self.value(value)
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                for target in targets:
                    self.assign(target, found)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.assign(target, self.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                found = self.binary(op, self.value(target), self.value(value))
                found.taint(tag for tags in self.control for tag in tags & {Tag.DATA, Tag.OPAQUE} | tags & SPLITS)
                self.assign(target, found)
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(test, body, orelse)
            case ast.For(target=target, iter=iterable, body=body, orelse=orelse) | ast.AsyncFor(
                    target=target, iter=iterable, body=body, orelse=orelse):
                self.loop(target, self.value(iterable), body)
                self.block(orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                for _ in range(PASSES):
                    self.control.append(self.value(test).deep())
                    self.block(body)
                    self.control.pop()
                    self.frames[-1].stopped = False
                self.block(orelse)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last) | ast.TryStar(
                    body=body, handlers=handlers, orelse=orelse, finalbody=last):
                self.attempt(body, handlers, orelse, last)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    found = self.value(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, found)
                self.block(body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
                    self.value(default)
                self.scope.bind(node.name, self.function(node))
            case ast.ClassDef():
                self.scope.bind(node.name, Value(template=(node, self.scope)))
            case ast.Return(value=value):
                found = self.value(value) if value is not None else Value(constant=None)
                frame = self.frames[-1]
                frame.returned = found if frame.returned is None else either(frame.returned, found)
                frame.stopped = True
            case ast.Raise(exc=exc):
                if exc is not None:
                    self.value(exc)
                self.frames[-1].stopped = True
            case ast.Import(names=names):
                for name in names:
                    bound = name.asname or name.name.partition(".")[0]
                    self.scope.bind(bound, Value(path=name.name if name.asname else bound))
            case ast.ImportFrom(module=module, names=names):
                for name in names:
                    self.scope.bind(name.asname or name.name, Value(path=f"{module or ''}.{name.name}"))
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                self.scope.foreign |= set(names) if self.scope is not self.module else set()
            case ast.Assert(test=test):
                self.value(test)
            case ast.Match(subject=subject, cases=cases):
                self.value(subject)
                self.ways([case.body for case in cases])
            case _:
                pass

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, owner: Value | None = None) -> Value:
        return Value(body=Body(node, self.scope, owner))

    def branch(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        tested = self.value(test)
        known = self.truth(test)
        if known is not None:
            self.block(body if known else orelse)
            return
        self.control.append(tested.deep())
        self.ways([body, orelse])
        self.control.pop()
        self.chosen(test, tested, body)

    def ways(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Follow each from the same state; names then hold what they may come to on any that goes on."""
        before, frame, ends = dict(self.scope.names), self.frames[-1], list[dict[str, Value]]()
        for body in bodies:
            self.scope.names = dict(before)
            self.block(body)
            if not frame.stopped:
                ends.append(self.scope.names)
            frame.stopped = False
        frame.stopped = not ends
        self.scope.names = merged(ends) if ends else before

    def attempt(
        self, body: Sequence[ast.stmt], handlers: Sequence[ast.ExceptHandler], orelse: Sequence[ast.stmt],
        last: Sequence[ast.stmt],
    ) -> None:
        for handler in handlers:
            if handler.name:
                self.scope.bind(handler.name, Value())
        self.ways([[*body, *orelse], *(handler.body for handler in handlers)])
        stopped, self.frames[-1].stopped = self.frames[-1].stopped, False
        self.block(last)
        self.frames[-1].stopped = self.frames[-1].stopped or stopped

    def chosen(self, test: ast.expr, tested: Value, body: Sequence[ast.stmt]) -> None:
        """`if score > best: best = score`: the name holds the best of several scores."""
        if not isinstance(test, ast.Compare):
            return
        sides = {ast.unparse(side) for side in (test.left, *test.comparators)}
        for one in body:
            if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and (
                    one.targets[0].id in sides and ast.unparse(one.value) in sides):
                self.selections.append((test, tested.deep()))
                held = self.scope.find(one.targets[0].id)
                if held is not None and Tag.TEST in held.deep():
                    held.taint([Tag.CHOSEN])

    def loop(self, target: ast.expr, iterable: Value, body: Sequence[ast.stmt]) -> None:
        turns = self.turns(iterable)
        where = self.where
        for i, element in enumerate(turns if turns is not None else [self.element(iterable)] * PASSES):
            self.where = (*where, i) if turns is not None else where
            self.assign(target, element)
            before = self.frames[-1].returned
            self.block(body)
            if self.frames[-1].returned is not before and self.frames[-1].stopped and turns is None:
                self.frames[-1].stopped = False
                break
            self.frames[-1].stopped = False
        self.where = where

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

    # --- assignment -------------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                self.scope.bind(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                starred = any(isinstance(part, ast.Starred) for part in parts)
                same = value.elements is not None and len(value.elements) == len(parts) and not starred
                for i, part in enumerate(parts):
                    part = part.value if isinstance(part, ast.Starred) else part
                    self.assign(part, value.elements[i] if same and value.elements else self.element(value))
            case ast.Attribute(value=owner, attr=name):
                held = self.value(owner)
                held.items[name] = value
            case ast.Subscript(value=owner, slice=index):
                self.put(self.value(owner), self.value(index), value)
            case _:
                pass

    def put(self, held: Value, index: Value, value: Value) -> None:
        """`held[index] = value`."""
        tags = value.deep() | index.deep()
        if isinstance(index.constant, str) or (held.items and index.constant is not UNKNOWN):
            held.items[index.constant] = value
        elif held.items:
            for part in held.items.values():
                part.taint(tags)
        drawn = Tag.RANDOM in tags and Tag.DATA not in value.deep()
        if drawn and Tag.PREDICTED in held.tags and held.tags & HELD and not self.classes:
            held.taint([Tag.NOISED])
        if not isinstance(index.constant, str):
            held.taint(tags)
            if held.elements is not None and index.constant is UNKNOWN:
                held.elements = None

    # --- expressions ------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLongError
        match node:
            case ast.Constant(value=value):
                return Value(constant=value if isinstance(value, str | int | float | bool | bytes | None) else UNKNOWN)
            case ast.Name(id=name):
                return self.scope.find(name) or Value(path=f"builtins.{name}")
            case ast.Attribute(value=owner, attr=name):
                return self.attribute(self.value(owner), name)
            case ast.Call():
                from review.honesty.calls import call

                return call(self, node)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand):
                found = self.value(operand)
                return Value(found.deep(), _negated(op, found.constant))
            case ast.BoolOp(values=values):
                found = [self.value(one) for one in values]
                return either(found[0], found[1]) if len(found) == 2 else Value(union(found))
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                return self.compare(ops, [self.value(left), *(self.value(one) for one in comparators)])
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return self.sequence(parts)
            case ast.Dict(keys=keys, values=values):
                return self.mapping(keys, values)
            case ast.Subscript(value=owner, slice=index):
                return self.subscript(self.value(owner), self.value(index))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.value(test)
                known = self.truth(test)
                if known is not None:
                    return self.value(body if known else orelse)
                return either(self.value(body), self.value(orelse))
            case ast.Lambda():
                return self.function(node)
            case ast.ListComp(elt=elt, generators=generators) | ast.GeneratorExp(
                    elt=elt, generators=generators) | ast.SetComp(elt=elt, generators=generators):
                return self.comprehension(None, elt, generators)
            case ast.DictComp(key=key, value=value, generators=generators):
                return self.comprehension(key, value, generators)
            case ast.JoinedStr(values=values):
                return self.text(values)
            case ast.FormattedValue(value=value):
                return self.value(value)
            case ast.NamedExpr(target=target, value=value):
                found = self.value(value)
                self.assign(target, found)
                return found
            case ast.Starred(value=value) | ast.Await(value=value):
                return self.value(value)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return Value(union(self.value(one) for one in (lower, upper, step) if one is not None))
            case ast.Yield(value=value) | ast.YieldFrom(value=value):
                found = self.value(value) if value is not None else Value()
                frame = self.frames[-1]
                frame.returned = found if frame.returned is None else either(frame.returned, found)
                return Value()
            case _:
                return of(Tag.OPAQUE)

    def text(self, parts: Iterable[ast.expr]) -> Value:
        found = [self.value(part) for part in parts]
        known = all(part.constant is not UNKNOWN for part in found)
        return Value(union(found), "".join(str(part.constant) for part in found) if known else UNKNOWN)

    def sequence(self, parts: Sequence[ast.expr]) -> Value:
        elements: list[Value] = []
        for part in parts:
            found = self.value(part)
            if isinstance(part, ast.Starred):
                if found.elements is None:
                    return Value(union([*elements, *(self.value(one) for one in parts)]))
                elements += found.elements
            else:
                elements.append(found)
        return Value(elements=elements)

    def mapping(self, keys: Sequence[ast.expr | None], values: Sequence[ast.expr]) -> Value:
        held = Value()
        for key, value in zip(keys, values, strict=True):
            found = self.value(value)
            if key is None:
                held.items |= found.items
                held.taint(found.tags)
                continue
            name = self.value(key)
            if name.constant is UNKNOWN:
                held.taint(name.deep() | found.deep())
            else:
                held.items[name.constant] = found
        return held

    def comprehension(self, key: ast.expr | None, elt: ast.expr, generators: Sequence[ast.comprehension]) -> Value:
        outer, where = self.scope, self.where
        self.scope = Scope(outer=outer)
        held = Value(elements=[] if key is None else None)
        try:
            self.generate(key, elt, generators, held)
        finally:
            self.scope, self.where = outer, where
        return held

    def generate(
        self, key: ast.expr | None, elt: ast.expr, generators: Sequence[ast.comprehension], held: Value,
    ) -> None:
        if not generators:
            found = self.value(elt)
            if key is not None:
                name = self.value(key)
                if name.constant is not UNKNOWN:
                    held.items[name.constant] = found
                else:
                    held.taint(found.deep() | name.deep())
            elif held.elements is not None:
                held.elements.append(found)
            return
        first, rest = generators[0], generators[1:]
        iterable = self.value(first.iter)
        turns = self.turns(iterable)
        where = self.where
        for i, element in enumerate(turns if turns is not None else [self.element(iterable)]):
            self.where = (*where, i) if turns is not None else where
            self.assign(first.target, element)
            tests = [self.value(test) for test in first.ifs]
            if any(self.truth(test) is False for test in first.ifs):
                continue
            held.taint(tag for test in tests for tag in test.deep() & {Tag.LABEL, Tag.DATA})
            self.generate(key, elt, rest, held)
        if turns is None and held.elements is not None:
            held.taint(union(held.elements))
            parts, held.elements = held.elements, None
            if len(parts) == 1 and (parts[0].elements or parts[0].items or parts[0].body):
                held.elements = [parts[0]] * (LONGEST + 1)  # too long to unroll, and each like the one that is known
        self.where = where

    def compare(self, ops: Sequence[ast.cmpop], sides: Sequence[Value]) -> Value:
        found = Value(union(sides))
        tags = [side.deep() for side in sides[:2]]
        if isinstance(ops[0], ast.Eq | ast.In) and Tag.LABEL not in tags[0] | tags[1]:
            for one, other in (tags, tags[::-1]):
                if Tag.TRAIN in one and not one & HELD and other & HELD and Tag.PREDICTED not in one | other:
                    found.taint([Tag.MATCHED])
        near = sides[1].constant
        if isinstance(near, int | float) and abs(near) <= NEAR and isinstance(ops[0], ast.Eq | ast.Lt | ast.LtE) and (
                Tag.TRAIN in tags[0] and tags[0] & HELD and not tags[0] & {Tag.PREDICTED, Tag.MODEL, Tag.LABEL}):
            found.taint([Tag.MATCHED])
        return found

    def binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        a, b = left.deep(), right.deep()
        known = _computed(op, left.constant, right.constant)
        if known is not UNKNOWN:
            return Value(a | b, known)
        if left.items and right.items and isinstance(op, ast.BitOr):
            return Value(left.tags | right.tags, items=left.items | right.items)
        if isinstance(op, ast.Add) and left.elements is not None and right.elements is not None:
            return Value(left.tags | right.tags, elements=left.elements + right.elements)
        if isinstance(op, ast.Div) and isinstance(right.constant, str):  # a path
            return Value(a | b, right.constant, path=left.path)
        tags = (a | b) - {Tag.JOINED}
        if isinstance(op, ast.MatMult):
            tags -= {Tag.PREDICTED}
        if isinstance(op, ast.Add | ast.Sub | ast.Mult | ast.Div) and not self.classes:
            for one, other in ((a, b), (b, a)):
                drawn = Tag.RANDOM in other and not other & {Tag.DATA, Tag.OPAQUE, Tag.MODEL}
                if drawn and Tag.PREDICTED in one and one & HELD:
                    tags |= {Tag.NOISED}
        for one, other in ((left, right), (right, left)):
            typed = isinstance(other.constant, float) and 0.001 <= abs(other.constant) < 1 and other.constant != 0.5
            if isinstance(op, ast.Add) and Tag.SCORE in one.deep() and typed:
                tags |= {Tag.BOOSTED}
        return Value(tags)

    def subscript(self, held: Value, index: Value) -> Value:
        if index.constant is not UNKNOWN and index.constant in held.items:
            return held.items[index.constant]
        if held.elements is not None and isinstance(index.constant, int) and (
                -len(held.elements) <= index.constant < len(held.elements)):
            return held.elements[index.constant]
        if held.path == "dataset":
            return of(Tag.DATA)
        if (held.elements and index.constant is UNKNOWN) or (held.items and held.path not in ("split",)):
            parts = [*(held.elements or ()), *held.items.values()]
            found = parts[0]
            for part in parts[1:40]:
                found = either(found, part)
            return found
        tags, chosen = held.deep(), index.deep()
        keyed = chosen & HELD and not chosen & {Tag.TRAIN, Tag.MODEL, Tag.PREDICTED, Tag.OPAQUE}
        matched = Tag.MATCHED in chosen or any(Tag.MATCHED in test for test in self.control)
        if {Tag.LABEL, Tag.TRAIN} <= tags and (matched or keyed):
            tags |= {Tag.LOOKED_UP}
        if Tag.TRAIN in tags and tags & HELD and Tag.LOOKED_UP not in tags and not chosen & HELD:
            tags = (tags - HELD - {Tag.JOINED}) | {Tag.OPAQUE}  # rows of one of several parts, nobody knows which
        if Tag.DATA in tags and chosen:
            tags |= {Tag.PART}
        return Value(tags | (chosen - {Tag.MATCHED}))

    def attribute(self, owner: Value, name: str) -> Value:
        from review.honesty.calls import attribute

        return attribute(self, owner, name)

    def truth(self, test: ast.expr) -> bool | None:
        """What a test comes to, if it is made of known constants."""
        match test:
            case ast.BoolOp(op=op, values=values):
                known = [self.truth(one) for one in values]
                if isinstance(op, ast.And):
                    return False if False in known else True if all(known) else None
                return True if True in known else False if all(one is False for one in known) else None
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                known = self.truth(operand)
                return None if known is None else not known
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.holds(op, self.value(left), self.value(right))
            case ast.Call():
                return None
            case _:
                found = self.value(test).constant
                return None if found is UNKNOWN else bool(found)

    def holds(self, op: ast.cmpop, left: Value, right: Value) -> bool | None:
        if isinstance(op, ast.In | ast.NotIn):
            options = [one.constant for one in right.elements or ()] or list(right.items)
            if left.constant is UNKNOWN or UNKNOWN in options or not options:
                return None
            return (left.constant in options) == isinstance(op, ast.In)
        a, b = left.constant, right.constant
        if a is UNKNOWN or b is UNKNOWN:
            return None
        try:
            match op:
                case ast.Eq() | ast.Is():
                    return a == b
                case ast.NotEq() | ast.IsNot():
                    return a != b
                case ast.Lt():
                    return bool(a < b)  # type: ignore[operator]
                case ast.Gt():
                    return bool(a > b)  # type: ignore[operator]
                case ast.LtE():
                    return bool(a <= b)  # type: ignore[operator]
                case ast.GtE():
                    return bool(a >= b)  # type: ignore[operator]
                case _:
                    return None
        except TypeError:
            return None


def merged(ends: Sequence[dict[str, Value]]) -> dict[str, Value]:
    """Names after several ways through the source."""
    found = dict(ends[0])
    for end in ends[1:]:
        for name, value in end.items():
            found[name] = either(found[name], value) if name in found else value
    return found


NEAR = 1e-3
"""Distance up to which a row counts as found again."""

SAVES = frozenset({"save", "savez", "savez_compressed", "savetxt", "dump"})
"""Last names of functions that write a file."""


def written_names(tree: ast.AST) -> set[str]:
    """Last parts of file names that stand as text in calls that write; what is read from them was written here."""
    from review.honesty.library import WRITE_METHODS, WRITES

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


def _negated(op: ast.unaryop, value: Constant) -> Constant:
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(op, ast.Not):
        return not value
    return -value if isinstance(op, ast.USub) and isinstance(value, int | float) else UNKNOWN


def _computed(op: ast.operator, a: Constant, b: Constant) -> Constant:
    """Arithmetic of known numbers, and texts put together."""
    if isinstance(a, str) and isinstance(b, str) and isinstance(op, ast.Add):
        return a + b
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return UNKNOWN
    try:
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.Div():
                return a / b
            case _:
                return UNKNOWN
    except (ZeroDivisionError, OverflowError):
        return UNKNOWN
