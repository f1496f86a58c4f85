"""Calls of Python's builtins, of `lab` (which of them submit something), and of files: who wrote what is read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from review.honesty.flow.objects import copied
from review.honesty.flow.operators import judges, marked, ranked
from review.honesty.flow.walk import LONGEST, Given, Walk
from review.honesty.values import NOTHING, UNKNOWN, Constant, Mark, Ranked, Tag, Tags, Value, either, of, union


def system(walk: Walk, node: ast.Call, path: str, given: Given) -> Value:
    if path in ("os.path.join", "pathlib.Path", "os.fspath", "os.path.abspath"):
        texts = [one.constant for one in given.args if isinstance(one.constant, str)]
        return Value(given.tags, texts[-1] if texts else UNKNOWN)
    if path.startswith("glob.") or path in ("os.listdir", "os.walk", "os.scandir"):
        _outside(walk, node, given.get(0, "path"))
        if given.tags & {Tag.DATA, Tag.OPAQUE}:
            return Value(given.tags)
        return of(Tag.OPAQUE if texts_of(walk, node) & walk.written else Tag.FILE)
    return Value(given.tags)


def texts_of(walk: Walk, node: ast.AST) -> set[str]:
    """Texts and names in a call, with the constants that names stand for: what tells files apart."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and len(one.value) > 2:
            found.add(one.value)
        elif isinstance(one, ast.Name):
            found.add(one.id)
            held = walk.scope.find(one.id)
            if held is not None and isinstance(held.constant, str):
                found.add(held.constant)
    return found - _COMMON


_COMMON = {"np", "numpy", "open", "torch", "os", "Path", "json", "pickle", "pd", "joblib", "lab", "load", "name"}
"""Names that stand in calls on any file."""


def _outside(walk: Walk, node: ast.Call, path: Value) -> None:
    if isinstance(path.constant, str) and path.constant.startswith(("/", "~", "..")):
        walk.sink(node, "outside", path, path=path.constant)


def read(walk: Walk, node: ast.Call, path: Value, given: Given) -> Value:
    """What is read from a file, by who wrote it."""
    mode = given.get(1, "mode").constant
    if isinstance(mode, str) and set(mode) & set("wax"):
        walk.written |= texts_of(walk, node)
        return Value()
    _outside(walk, node, path)
    tags = path.deep()
    if tags & {Tag.DATA, Tag.MODEL, Tag.OPAQUE, Tag.FILE, Tag.EARLIER}:
        return Value(tags)
    texts = texts_of(walk, node)
    if texts & walk.written or (isinstance(path.constant, str) and path.constant in walk.written):
        return of(Tag.OPAQUE)
    if texts & walk.writable or (isinstance(path.constant, str) and path.constant in walk.writable):
        return of(Tag.EARLIER)
    return of(Tag.OPAQUE if path.constant is UNKNOWN and not any("." in text for text in texts) else Tag.FILE)


def write(walk: Walk, node: ast.Call, path: str, given: Given) -> Value:
    walk.written |= texts_of(walk, node)
    keep(walk, node, given.tags)
    name = given.get(0, "file").constant
    if path == "numpy.save" and isinstance(name, str) and "experiment_data" in name:
        walk.sink(node, "result", given.get(1, "arr"), metric="score")
    return Value()


def keep(walk: Walk, node: ast.Call, tags: Tags) -> None:
    """Note what a call wrote, under the texts and names in it."""
    for text in texts_of(walk, node):
        walk.contents[text] = walk.contents.get(text, NOTHING) | tags


def contents(walk: Walk, node: ast.Call, content: Value) -> Value:
    """What is handed in: an array as it is, of a path what was written there; opaque where that is not known."""
    place = node.args[3] if len(node.args) > 3 else next((k.value for k in node.keywords if k.arg == "content"), node)
    if not _is_path(content, place):
        return content
    texts = {content.constant} if isinstance(content.constant, str) else texts_of(walk, place)
    written = [walk.contents[text] for text in texts if text in walk.contents]
    return Value(frozenset[Mark]().union(*written)) if written else of(Tag.OPAQUE)


def _is_path(content: Value, place: ast.AST) -> bool:
    texts = any(isinstance(one.constant, str) for one in (content, *content.others))
    return texts or content.path.startswith("pathlib") or isinstance(place, ast.JoinedStr)


def of_lab(walk: Walk, node: ast.Call, name: str, given: Given) -> Value:
    if name == "data":
        return Value(frozenset({Tag.DATA}), path="dataset", items={"name": given.get(0, "name")})
    if walk.arm is not None and name in ("submit", "submit_artifact", "result", "log") and len(given.args) < 3:
        given.named.setdefault("condition", Value(constant=walk.arm))  # that of the cell, where it is left out
    if name == "submit":
        kinds = ("probabilities", "logits", "predictions")
        value = next((given.named[key] for key in kinds if key in given.named), None)
        where = {key: given.get(i, key).constant for i, key in enumerate(("dataset", "split", "condition"))}
        if value is not None:
            walk.sink(node, "submit", value, **where, **_picked(given, value))
            value.taint([Tag.PREDICTED])
    elif name == "submit_artifact":
        where = {key: given.get(i, key).constant for i, key in enumerate(("dataset", "split", "condition"))}
        content = contents(walk, node, given.get(3, "content"))
        walk.sink(node, "artifact", content, **where, **_picked(given, content))
    elif name == "checkpoint":
        walk.contents["lab.checkpoint"] = given.get(0, "state").deep()
    elif name in ("result", "log"):
        default: Constant = "validation" if name == "result" else "train"
        known = {key: given.named[key].constant for key in ("dataset", "split", "condition") if key in given.named}
        walk.sink(node, name, given.get(1, "value"),
                  **({"split": default} | known | {"metric": given.get(0, "name").constant}))
    elif name == "measure":
        _measured(walk, node, given)
    elif name in _MAKES:
        return _MAKES[name](walk, node, given)
    return Value()


def _picked(given: Given, value: Value) -> dict[str, Constant]:
    """Whether the name of the arm was picked by a score: alone, or together with what is handed in for it."""
    names, values = _choices(given.get(2, "condition")), _choices(value)
    if not names:
        return {}
    return {"together": True} if names == values else {"picked": True}


def _choices(value: Value) -> set[int]:
    return {tag.choice for tag in value.deep() if isinstance(tag, Ranked)}


def _measured(walk: Walk, node: ast.Call, given: Given) -> None:
    """The function of a cell is followed for each arm; dataset and level may be any."""
    for arm in walk.arms or (None,):
        walk.arm = arm
        told = Value() if arm is None else Value(constant=arm)
        cell = Value(items={"arm": told, "condition": told, "dataset": Value(), "level": Value(), "trial": Value(),
                            "seed": of(Tag.SEED), "name": Value()})
        walk.apply(given.get(0, "function"), Given([cell], {}), node)
    walk.arm = None


def _launched(walk: Walk, node: ast.Call, given: Given) -> Value:
    return walk.apply(given.get(0, "function"), Given([], {}), node)


def _cached(walk: Walk, node: ast.Call, given: Given) -> Value:
    """What was built when the key was first asked for."""
    key = given.get(0, "key").constant
    if key is UNKNOWN:
        return walk.apply(given.get(1, "build"), Given([], {}), node)
    if key not in walk.cached:
        walk.cached[key] = walk.apply(given.get(1, "build"), Given([], {}), node)
    return walk.cached[key]


def _known(*tags: Tag) -> Callable[[Walk, ast.Call, Given], Value]:
    return lambda walk, node, given: of(*tags)


def _seeds(walk: Walk, node: ast.Call, given: Given) -> Value:
    walk.sink(node, "seed", of(Tag.SEED))
    return Value()


_MAKES: Mapping[str, Callable[[Walk, ast.Call, Given], Value]] = {
    "launch": _launched, "shared": _cached, "restore": _known(Tag.DATA, Tag.MODEL, Tag.OPAQUE),
    "artifact": _known(Tag.DATA), "pretrained": _known(Tag.DATA, Tag.MODEL), "seed_everything": _seeds}


def builtin(walk: Walk, node: ast.Call, name: str, given: Given) -> Value:
    first = given.args[0] if given.args else Value()
    match name:
        case "len" | "isinstance" | "print" | "hasattr" | "id" | "super" | "exit" | "callable":
            return Value()
        case "range":
            return _range(given.args)
        case "zip" | "enumerate":
            return _paired(walk, name, given.args)
        case "getattr":
            key = given.get(1, "name").constant
            if isinstance(key, str):
                return walk.attribute(first, key)
            if first.path == "dataset":
                return Value(first.tags | {Tag.OPAQUE}, path="split")
            return Value(first.deep())
        case "list" | "tuple" | "sorted" | "reversed" | "set" | "iter":
            turns = walk.turns(first)
            mark = ranked(walk, first, _keyed(walk, node, first, given)) if name == "sorted" else None
            if mark is not None:
                return marked(Value(first.tags, elements=list(turns)) if turns else walk.element(first), mark)
            return Value(first.tags, elements=list(turns)) if turns is not None and not first.others else copied(first)
        case "dict":
            return Value(first.deep()) if first.elements else Value(first.tags, items=first.items | given.named)
        case "map" | "filter" if len(given.args) > 1:
            return Value(walk.apply(first, Given([walk.element(given.args[1])], {}), node).deep()
                         | (given.args[1].deep() if name == "filter" else NOTHING))
        case "open":
            return read(walk, node, first, given)
        case "max" | "min":
            return _extreme(walk, node, given)
        case "float" | "int" | "round" | "abs" | "str" | "sum" | "bool" | "divmod" | "pow":
            typed = first.constant if name in ("float", "str", "int", "round") else UNKNOWN
            more = {Tag.SCORE} if name in ("float", "round") and Tag.DATA in given.tags else frozenset[Tag]()
            return Value(given.tags | more, typed)
        case "next" | "any" | "all" | "bytes" | "hash" | "frozenset" | "repr" | "slice" | "ord" | "chr" | "format":
            return walk.element(first) if name == "next" else Value(given.tags)
        case _:
            return Value(given.tags | {Tag.OPAQUE})


def _range(args: Sequence[Value]) -> Value:
    bounds = [one.constant for one in args]
    if all(isinstance(one, int) for one in bounds) and 1 <= len(bounds) <= 3:
        numbers = range(*bounds)  # type: ignore[arg-type]
        if len(numbers) <= LONGEST:
            return Value(elements=[Value(constant=i) for i in numbers], turns=len(numbers))
        return Value(turns=len(numbers))
    return Value(union(args) - {Tag.DATA})


def _paired(walk: Walk, name: str, args: Sequence[Value]) -> Value:
    if name == "enumerate":
        args = [Value(), *args[:1]]
    turns = [walk.turns(one) for one in args]
    known = [one for one in turns if one is not None]
    if known and (name == "enumerate" or len(known) == len(args)):
        shortest = min(len(one) for one in known)
        rows = [[Value(constant=i) if one is None else one[i] for one in turns] for i in range(shortest)]
        return Value(elements=[Value(elements=row) for row in rows])
    row = Value(elements=[walk.element(one) for one in args])
    return Value(elements=[row] * (LONGEST + 1))


def _extreme(walk: Walk, node: ast.Call, given: Given) -> Value:
    tags = given.tags
    typed = any(isinstance(one.constant, float) and 0.01 < one.constant < 1 for one in given.args)
    if typed and len(given.args) > 1 and Tag.SCORE in tags:
        tags |= {Tag.BOOSTED}
    if len(given.args) == 1 and {Tag.SCORE, Tag.TEST} <= tags:
        tags |= {Tag.CHOSEN}
    one = Value(elements=list(given.args)) if len(given.args) > 1 else given.get(0, "iterable")
    judge = _keyed(walk, node, one, given)
    same = hash(frozenset(id(arg) for arg in given.args)) if len(given.args) > 1 else None
    mark = ranked(walk, one, judge, same)
    if mark is None and len(given.args) > 1 and all(judges(arg.deep()) for arg in given.args):
        walk.kept += given.args
        return Value(tags | {Ranked(same or 0)})
    if mark is not None:
        return marked(_any_of(walk, one), mark)
    if "key" in given.named and len(given.args) == 1:
        return walk.element(one)
    return Value(tags - {Tag.JOINED})


def _keyed(walk: Walk, node: ast.Call, held: Value, given: Given) -> Tags:
    """Tags of what a key function makes of the elements."""
    key = given.named.get("key")
    if key is None:
        return NOTHING
    names = [Value(constant=one) for one in held.items]
    element = either(names[0], Value()) if names else walk.element(held)
    return walk.apply(key, Given([element], {}), node).deep() | key.deep()


def _any_of(walk: Walk, held: Value) -> Value:
    """One of the elements, or of the keys of a dict; as what it may be."""
    keys = [Value(constant=key) for key in held.items] if held.made_by is None else []
    ways = keys or list(held.elements or ())
    found = ways[0] if ways else walk.element(held)
    for way in ways[1:8]:
        found = either(found, way)
    return found
