"""What attributes and calls do in the flow: functions of the source are followed, libraries go by `library`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from review.honesty import library as lib
from review.honesty.flow import DEEPEST, LONGEST, Flow, Frame
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import NOTHING, UNKNOWN, Body, Constant, Scope, Tag, Value, either, of, union

SPLIT_TAGS = {"train": Tag.TRAIN, "dev": Tag.DEV, "validation": Tag.VALIDATION, "test": Tag.TEST}
OURS = ("dataset", "split", "generator", "pairs")
SAME = frozenset({"to", "cpu", "cuda", "eval", "train", "float", "double", "half", "bfloat16", "requires_grad_",
                  "compile", "share_memory", "manual_seed", "__enter__"})
"""Methods that give their own object back, as far as its origin goes."""


@dataclass
class Given:
    """The arguments of a call."""

    args: list[Value]
    named: dict[str, Value]

    @property
    def tags(self) -> frozenset[Tag]:
        return union([*self.args, *self.named.values()])

    def get(self, i: int, name: str) -> Value:
        if name in self.named:
            return self.named[name]
        return self.args[i] if i < len(self.args) else Value(constant=None)


# --- attributes -----------------------------------------------------------------------------------------------------


def attribute(flow: Flow, owner: Value, name: str) -> Value:
    """`owner.name`."""
    if owner.path == "dataset":
        return _of_dataset(owner, name)
    if owner.path == "split":
        return Value(owner.tags | ({Tag.LABEL} if name == "y" else NOTHING))
    if owner.path == "lab" and name in ("seed", "device"):
        return of(Tag.SEED) if name == "seed" else Value()
    if owner.path and owner.path not in OURS:
        return Value(owner.tags, path=f"{owner.path}.{name}")
    if name in owner.items:
        return owner.items[name]
    if owner.made_by is not None:
        found = _member(flow, owner, name)
        if found is not None:
            return found
    if name in lib.SIZES:
        return Value()
    return Value(owner.deep())


def _of_dataset(owner: Value, name: str) -> Value:
    if name in SPLIT_TAGS:
        return Value(frozenset({Tag.DATA, SPLIT_TAGS[name]}), path="split")
    if name == "name":
        return owner.items.get("name", Value())
    return of(Tag.DATA) if name == "path" else Value()


def _member(flow: Flow, owner: Value, name: str) -> Value | None:
    """A method or constant of an object's class, or of the classes of the source that it builds on."""
    assert owner.made_by is not None
    for node, scope in _lineage(owner.made_by):
        for one in node.body:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name:
                static = any("staticmethod" in ast.unparse(d) for d in one.decorator_list)
                bound = Value(body=Body(one, scope, None if static else owner))
                if any("property" in ast.unparse(d) for d in one.decorator_list):
                    return follow(flow, bound, Given([], {}), one)
                return bound
            if isinstance(one, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in one.targets):
                return flow.value(one.value)
    return None


def _lineage(template: tuple[ast.ClassDef, Scope]) -> list[tuple[ast.ClassDef, Scope]]:
    found, node, scope = [template], *template
    for base in node.bases:
        known = scope.find(base.id) if isinstance(base, ast.Name) else None
        if known is not None and known.template is not None and known.template[0] is not node:
            found += _lineage(known.template)
    return found


# --- calls ----------------------------------------------------------------------------------------------------------


def call(flow: Flow, node: ast.Call) -> Value:
    """The value of a call."""
    if isinstance(node.func, ast.Attribute):
        owner = flow.value(node.func.value)
        if not (owner.path and owner.path not in OURS) and node.func.attr not in owner.items:
            found = _member(flow, owner, node.func.attr) if owner.made_by is not None else None
            if found is None and owner.path != "dataset":
                return method(flow, node, owner, node.func.attr, given_of(flow, node))
            function = found or attribute(flow, owner, node.func.attr)
        else:
            function = attribute(flow, owner, node.func.attr)
    else:
        function = flow.value(node.func)
    return apply(flow, function, given_of(flow, node), node)


def given_of(flow: Flow, node: ast.Call) -> Given:
    args: list[Value] = []
    for one in node.args:
        found = flow.value(one)
        args += found.elements if isinstance(one, ast.Starred) and found.elements is not None else [found]
    named: dict[str, Value] = {}
    for keyword in node.keywords:
        found = flow.value(keyword.value)
        if keyword.arg is not None:
            named[keyword.arg] = found
        else:
            named |= {str(key): part for key, part in found.items.items()}
            if not found.items:
                named["**"] = found
    return Given(args, named)


def apply(flow: Flow, function: Value, given: Given, node: ast.AST) -> Value:
    """What a function, class, network or library makes of its arguments."""
    if len(function.others) > 1 and any(way.body or way.template for way in function.others):
        results = [apply(flow, way, given, node) for way in function.others]
        found = results[0]
        for one in results[1:]:
            found = either(found, one)
        return found
    if function.body is not None:
        made = follow(flow, function, given, node)
        name = getattr(function.body.node, "name", "")
        return _answered(made) if lib.ANSWERS.search(name) else made
    if function.template is not None:
        return instance(flow, function, given, node)
    if function.path and function.path not in OURS and isinstance(node, ast.Call):
        return _seeded(flow, node, function.path, given) or from_library(flow, node, function.path, given)
    if function.made_by is not None:
        for name in ("__call__", "forward"):
            found = _member(flow, function, name)
            if found is not None:
                made = follow(flow, found, given, node)
                return _predicted(made) if Tag.MODEL in function.tags else made
    if Tag.MODEL in function.deep():
        return Value((function.deep() | given.tags | {Tag.MODEL, Tag.PREDICTED}) - {Tag.NOISED, Tag.SCORE})
    return Value(function.deep() | given.tags | {Tag.OPAQUE})


def _predicted(made: Value) -> Value:
    if made.elements is not None:
        return Value(made.tags | {Tag.PREDICTED, Tag.MODEL}, elements=[_predicted(one) for one in made.elements])
    return Value(made.deep() | {Tag.PREDICTED, Tag.MODEL})


def _answered(made: Value) -> Value:
    """A prediction by its function's name."""
    if made.elements is None and not made.items and not made.made_by and Tag.DATA in made.deep():
        made.taint([Tag.PREDICTED])
    return made


def follow(flow: Flow, function: Value, given: Given, node: ast.AST) -> Value:
    """Run through a function of the source."""
    body = function.body
    assert body is not None
    if len(flow.stack) >= DEEPEST or body.node in flow.stack:
        return Value(given.tags | (body.owner.deep() if body.owner else NOTHING) | {Tag.OPAQUE})
    scope = Scope(outer=body.scope)
    _bind(flow, body, scope, given)
    outer, where, frame = flow.scope, flow.where, Frame()
    flow.scope, flow.where = scope, (*where, id(node))
    flow.stack.append(body.node)
    flow.frames.append(frame)
    if body.owner is not None:
        flow.classes.append("")
    try:
        if isinstance(body.node, ast.Lambda):
            return flow.value(body.node.body)
        flow.block(body.node.body)
    finally:
        flow.scope, flow.where = outer, where
        flow.stack.pop()
        flow.frames.pop()
        if body.owner is not None:
            flow.classes.pop()
    found = frame.returned or Value(constant=None)
    yields = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(body.node))
    return Value(elements=[found] * (LONGEST + 1)) if yields else found


def _bind(flow: Flow, body: Body, scope: Scope, given: Given) -> None:
    spec = body.node.args
    names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
    values = [*([body.owner] if body.owner is not None else []), *given.args]
    outer, flow.scope = flow.scope, body.scope
    for name, default in zip(names[len(names) - len(spec.defaults):], spec.defaults, strict=True):
        scope.names[name] = flow.value(default)
    for one, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        scope.names[one.arg] = flow.value(default) if default is not None else of(Tag.OPAQUE)
    flow.scope = outer
    scope.names |= dict(zip(names, values, strict=False))
    if spec.vararg is not None:
        scope.names[spec.vararg.arg] = Value(elements=values[len(names):])
    known = {*names, *(one.arg for one in spec.kwonlyargs)}
    scope.names |= {name: value for name, value in given.named.items() if name in known}
    if spec.kwarg is not None:
        scope.names[spec.kwarg.arg] = Value(items={k: v for k, v in given.named.items() if k not in known})
    rest = given.named.get("**")
    for name in names:
        if name not in scope.names:
            scope.names[name] = Value((rest.deep() if rest else NOTHING) | {Tag.OPAQUE})


def instance(flow: Flow, function: Value, given: Given, node: ast.AST) -> Value:
    """An object of a class of the source."""
    assert function.template is not None
    made = Value(made_by=function.template)
    bases = [flow.value(base).path for one, _ in _lineage(function.template) for base in one.bases
             if isinstance(base, ast.Name | ast.Attribute)]
    if any(base.startswith(lib.MODELS) and not base.startswith(lib.FUNCTIONAL) for base in bases):
        made.taint([Tag.MODEL])
    start = _member(flow, made, "__init__")
    if start is not None:
        follow(flow, start, given, node)
        return made
    fields = [one.target.id for one in function.template[0].body
              if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)]
    made.items |= dict(zip(fields, given.args, strict=False))
    made.items |= dict(given.named)
    return made


# --- methods of values that no source of ours defines ---------------------------------------------------------------


def method(flow: Flow, node: ast.Call, owner: Value, name: str, given: Given) -> Value:
    """`owner.name(...)`."""
    tags = owner.deep() | given.tags
    if len(owner.others) > 1 and any(way.made_by for way in owner.others):
        results = [apply(flow, found, given, node) if (found := _member(flow, way, name)) else Value(tags)
                   for way in owner.others if way.made_by]
        return results[0] if len(results) == 1 else either(results[0], results[1])
    _sinks_of(flow, node, owner, name, given)
    if owner.path == "generator":
        return owner if name == "manual_seed" else Value(given.tags | {Tag.RANDOM} | (owner.tags & {Tag.SEED}))
    held = _container(flow, owner, name, given)
    if held is not None:
        return held
    if name in lib.SIZES:
        return Value()
    if name in SAME:
        return owner if owner.made_by or Tag.MODEL in owner.tags else _copy(owner)
    if name in lib.READ_METHODS or (name == "open" and not owner.deep() & {Tag.OPAQUE}):
        return _read(flow, node, owner, given)
    if name in lib.WRITE_METHODS:
        flow.written |= _texts(flow, node)
    if name in ("glob", "rglob", "iterdir") and not tags & {Tag.DATA, Tag.OPAQUE}:
        return of(Tag.FILE)
    if name in lib.MUTATORS:
        owner.taint(given.tags)
        tags = owner.deep()
    if name in lib.PREDICTS and owner.deep() & {Tag.MODEL, Tag.OPAQUE}:
        tags = (tags | {Tag.PREDICTED}) - {Tag.NOISED}
    if lib.SOFTMAX.search(name) and Tag.DATA in tags:
        tags |= {Tag.PREDICTED}
    if lib.SCORES.search(name):
        tags |= {Tag.SCORE}
    if name in ("detach", "clone", "copy", "numpy", "tolist", "items", "values"):
        return _copy(owner)
    return Value(tags, path="generator" if name == "spawn" else "")


def _copy(owner: Value) -> Value:
    return Value(owner.tags, owner.constant, owner.path, dict(owner.items),
                 list(owner.elements) if owner.elements is not None else None, owner.body, owner.template,
                 owner.made_by, list(owner.others))


def _sinks_of(flow: Flow, node: ast.Call, owner: Value, name: str, given: Given) -> None:
    if name == "backward":
        flow.sink(node, "backward", owner)
    elif name in lib.FITS and not owner.elements and not owner.items:
        learnt = [*given.args, *(v for k, v in given.named.items() if k in ("X", "x", "y"))]
        flow.sink(node, "fit", Value(union(learnt)))
    elif name == "manual_seed" and owner.path == "generator":
        flow.sink(node, "generator", given.get(0, "seed"))
        owner.taint(given.tags & {Tag.SEED})
    elif name in lib.STATISTICS and Tag.JOINED in owner.deep():
        flow.sink(node, "statistic", owner)
    _seeded(flow, node, name, given)


def _container(flow: Flow, owner: Value, name: str, given: Given) -> Value | None:
    """Methods of lists, dicts and texts whose parts are known."""
    first = given.args[0] if given.args else Value()
    if name == "append" and owner.elements is not None and given.args:
        if len(owner.elements) < 40:
            owner.elements.append(first)
        return Value(constant=None)
    if name == "split" and isinstance(owner.constant, str) and not given.args:
        return Value(elements=[Value(constant=part) for part in owner.constant.split()])
    if owner.made_by is None and owner.items:
        if name == "items":
            return Value(elements=[Value(elements=[Value(constant=k), v]) for k, v in owner.items.items()])
        if name == "values":
            return Value(owner.tags, elements=list(owner.items.values()))
        if name == "keys":
            return Value(elements=[Value(constant=key) for key in owner.items])
    if name in ("get", "pop", "setdefault") and (owner.items or Tag.DATA in owner.deep()):
        if first.constant is not UNKNOWN and first.constant in owner.items:
            return owner.items[first.constant]
        tags = owner.deep() | given.tags
        looked_up = Tag.LABEL in owner.deep() and Tag.TRAIN in owner.deep() and first.deep() & HELD
        return Value(tags | ({Tag.LOOKED_UP} if looked_up and Tag.PREDICTED not in tags else NOTHING))
    if name == "update" and first.items:
        owner.items |= first.items
        return Value(constant=None)
    if name == "items":
        return Value(elements=[Value(elements=[Value(), Value(owner.deep())])] * (LONGEST + 1))
    return None


# --- libraries ------------------------------------------------------------------------------------------------------


def _seeded(flow: Flow, node: ast.Call, path: str, given: Given) -> Value | None:
    """Note what a call is seeded with."""
    path = path.removeprefix("builtins.")
    if lib.SEEDERS.match(path):
        flow.sink(node, "seed", given.get(0, "seed"), which=path)
        return Value()
    for name in ("random_state", "seed"):
        if name in given.named and not path.startswith("lab."):
            flow.sink(node, "generator", given.named[name])
    return None


def from_library(flow: Flow, node: ast.Call, path: str, given: Given) -> Value:
    """What a function of a library makes of its arguments."""
    root, _, name = path.partition(".")
    if root == "builtins":
        return _builtin(flow, node, name, given)
    if root == "lab":
        return _lab(flow, node, name, given)
    last = path.rsplit(".", 1)[-1]
    tags = given.tags
    if lib.GENERATORS.match(path) or path == "torch.Generator":
        if given.args or given.named:
            flow.sink(node, "generator", given.get(0, "seed"))
        return Value(frozenset({Tag.RANDOM}) | (tags & {Tag.SEED}), path="generator")
    if path.endswith(("full_like", "numpy.full", "torch.full")):
        return Value(given.get(1, "fill_value").deep())
    if lib.LIKE_DRAWS.search(path):
        return of(Tag.RANDOM)
    if lib.LIKE.search(path) or lib.FORMS.search(path):
        return Value()
    if lib.DRAWS.match(path):
        return Value(tags | {Tag.RANDOM})
    if lib.MADE_UP.search(path):
        return of(Tag.RANDOM)
    if lib.LOADERS.search(path):
        flow.sink(node, "labels", Value(), which=path, dataset=given.get(0, "path").constant)
        return of(Tag.DATA)
    if path == "sklearn.model_selection.train_test_split":
        return _cut(given)
    if root in ("os", "glob", "pathlib", "shutil", "time", "sys", "datetime", "gc", "warnings", "logging", "argparse"):
        return _system(flow, node, path, given)
    if lib.READS.match(path) and not path.startswith(("json", "pickle", "yaml", "csv")):
        return _read(flow, node, given.get(0, "file"), given)
    if lib.WRITES.match(path):
        return _write(flow, node, path, given)
    if last in lib.STATISTICS and Tag.JOINED in tags:
        flow.sink(node, "statistic", Value(tags))
    return Value(_passed(path, given))


def _passed(path: str, given: Given) -> frozenset[Tag]:
    """Tags of what a function that draws nothing and reads nothing gives."""
    tags = given.tags
    if lib.JOINS.search(path):
        parts = [part.deep() for one in given.args[:1] for part in (one.elements or [])]
        rows = any(Tag.TRAIN in one and not one & HELD for one in parts) and any(one & HELD for one in parts)
        return tags | ({Tag.JOINED} if rows else NOTHING)
    if path.endswith(".where") and given.args and Tag.PREDICTED in tags:
        test = given.args[0].deep()
        if Tag.RANDOM in test and Tag.DATA not in test:
            tags |= {Tag.NOISED}
    if path.endswith(".where") and len(given.args) > 1 and Tag.MATCHED in given.args[0].deep():
        tags |= {Tag.LOOKED_UP} if Tag.LABEL in tags else NOTHING
    if lib.SOFTMAX.search(path) and Tag.DATA in tags:
        tags |= {Tag.PREDICTED}
    if lib.SCORES.search(path) or path.startswith("sklearn.metrics"):
        tags |= {Tag.SCORE}
    if path.startswith("sklearn.model_selection"):
        return tags | {Tag.MODEL, Tag.PART}
    if path.startswith(lib.FUNCTIONAL):
        return tags
    if path.startswith(lib.MODELS):
        return tags | {Tag.MODEL}
    known = path.startswith(lib.ELEMENTWISE) or path.partition(".")[0] in ("json", "pickle", "yaml", "csv")
    return tags if known else tags | {Tag.OPAQUE}


def _cut(given: Given) -> Value:
    parts: list[Value] = []
    for one in given.args:
        tags = one.deep() | {Tag.PART}
        own = not tags & (HELD | {Tag.TRAIN, Tag.DEV})
        parts += [Value(tags | ({Tag.TRAIN} if own else NOTHING)),
                  Value(tags | ({Tag.TEST} if own else NOTHING))]
    return Value(elements=parts)


def _system(flow: Flow, node: ast.Call, path: str, given: Given) -> Value:
    if path in ("os.path.join", "pathlib.Path", "os.fspath", "os.path.abspath"):
        texts = [one.constant for one in given.args if isinstance(one.constant, str)]
        return Value(given.tags, texts[-1] if texts else UNKNOWN)
    if path.startswith("glob.") or path in ("os.listdir", "os.walk", "os.scandir"):
        _outside(flow, node, given.get(0, "path"))
        if given.tags & {Tag.DATA, Tag.OPAQUE}:
            return Value(given.tags)
        return of(Tag.OPAQUE if _texts(flow, node) & flow.written else Tag.FILE)
    return Value(given.tags)


def _texts(flow: Flow, node: ast.AST) -> set[str]:
    """Texts and names in a call, with the constants that names stand for: what tells files apart."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and len(one.value) > 2:
            found.add(one.value)
        elif isinstance(one, ast.Name):
            found.add(one.id)
            held = flow.scope.find(one.id)
            if held is not None and isinstance(held.constant, str):
                found.add(held.constant)
    return found - _COMMON


_COMMON = {"np", "numpy", "open", "torch", "os", "Path", "json", "pickle", "pd", "joblib", "lab", "load", "name"}
"""Names that stand in calls on any file."""


def _outside(flow: Flow, node: ast.Call, path: Value) -> None:
    if isinstance(path.constant, str) and path.constant.startswith(("/", "~", "..")):
        flow.sink(node, "outside", path, path=path.constant)


def _read(flow: Flow, node: ast.Call, path: Value, given: Given) -> Value:
    """What is read from a file, by who wrote it."""
    mode = given.get(1, "mode").constant
    if isinstance(mode, str) and set(mode) & set("wax"):
        flow.written |= _texts(flow, node)
        return Value()
    _outside(flow, node, path)
    tags = path.deep()
    if tags & {Tag.DATA, Tag.MODEL, Tag.OPAQUE, Tag.FILE, Tag.EARLIER}:
        return Value(tags)
    texts = _texts(flow, node)
    if texts & flow.written or (isinstance(path.constant, str) and path.constant in flow.written):
        return of(Tag.OPAQUE)
    if texts & flow.writable or (isinstance(path.constant, str) and path.constant in flow.writable):
        return of(Tag.EARLIER)
    return of(Tag.OPAQUE if path.constant is UNKNOWN and not any("." in text for text in texts) else Tag.FILE)


def _write(flow: Flow, node: ast.Call, path: str, given: Given) -> Value:
    flow.written |= _texts(flow, node)
    name = given.get(0, "file").constant
    if path == "numpy.save" and isinstance(name, str) and "experiment_data" in name:
        flow.sink(node, "result", given.get(1, "arr"), metric="score")
    return Value()


# --- lab ------------------------------------------------------------------------------------------------------------


def _lab(flow: Flow, node: ast.Call, name: str, given: Given) -> Value:
    if name == "data":
        return Value(frozenset({Tag.DATA}), path="dataset", items={"name": given.get(0, "name")})
    if name == "submit":
        kinds = ("probabilities", "logits", "predictions")
        value = next((given.named[key] for key in kinds if key in given.named), None)
        where = {key: given.get(i, key).constant for i, key in enumerate(("dataset", "split", "condition"))}
        if value is not None:
            flow.sink(node, "submit", value, **where)
            value.taint([Tag.PREDICTED])
    elif name in ("result", "log"):
        default: Constant = "validation" if name == "result" else "train"
        known = {key: given.named[key].constant for key in ("dataset", "split", "condition") if key in given.named}
        flow.sink(node, name, given.get(1, "value"),
                  **({"split": default} | known | {"metric": given.get(0, "name").constant}))
    elif name in _MAKES:
        return _MAKES[name](flow, node, given)
    return Value()


def _launched(flow: Flow, node: ast.Call, given: Given) -> Value:
    return apply(flow, given.get(0, "function"), Given([], {}), node)


def _cached(flow: Flow, node: ast.Call, given: Given) -> Value:
    return apply(flow, given.get(1, "build"), Given([], {}), node)


def _known(*tags: Tag) -> Callable[[Flow, ast.Call, Given], Value]:
    return lambda flow, node, given: of(*tags)


def _seeds(flow: Flow, node: ast.Call, given: Given) -> Value:
    flow.sink(node, "seed", of(Tag.SEED))
    return Value()


_MAKES: Mapping[str, Callable[[Flow, ast.Call, Given], Value]] = {
    "launch": _launched, "cache": _cached, "restore": _known(Tag.DATA, Tag.MODEL, Tag.OPAQUE),
    "artifact": _known(Tag.DATA), "pretrained": _known(Tag.DATA, Tag.MODEL), "seed_everything": _seeds}


# --- builtins -------------------------------------------------------------------------------------------------------


def _builtin(flow: Flow, node: ast.Call, name: str, given: Given) -> Value:
    first = given.args[0] if given.args else Value()
    match name:
        case "len" | "isinstance" | "print" | "hasattr" | "id" | "super" | "exit" | "callable":
            return Value()
        case "range":
            return _range(given.args)
        case "zip" | "enumerate":
            return _paired(flow, name, given.args)
        case "getattr":
            key = given.get(1, "name").constant
            if isinstance(key, str):
                return attribute(flow, first, key)
            if first.path == "dataset":
                return Value(first.tags | {Tag.OPAQUE}, path="split")
            return Value(first.deep())
        case "list" | "tuple" | "sorted" | "reversed" | "set" | "iter":
            turns = flow.turns(first)
            return Value(first.tags, elements=list(turns)) if turns is not None and not first.others else _copy(first)
        case "dict":
            return Value(first.deep()) if first.elements else Value(first.tags, items=first.items | given.named)
        case "map" | "filter" if len(given.args) > 1:
            return Value(apply(flow, first, Given([flow.element(given.args[1])], {}), node).deep()
                         | (given.args[1].deep() if name == "filter" else NOTHING))
        case "open":
            return _read(flow, node, first, given)
        case "max" | "min":
            return _extreme(flow, node, given)
        case "float" | "int" | "round" | "abs" | "str" | "sum" | "bool" | "divmod" | "pow":
            typed = first.constant if name in ("float", "str", "int", "round") else UNKNOWN
            more = {Tag.SCORE} if name in ("float", "round") and Tag.DATA in given.tags else frozenset[Tag]()
            return Value(given.tags | more, typed)
        case "next" | "any" | "all" | "bytes" | "hash" | "frozenset" | "repr" | "slice" | "ord" | "chr" | "format":
            return flow.element(first) if name == "next" else Value(given.tags)
        case _:
            return Value(given.tags | {Tag.OPAQUE})


def _range(args: Sequence[Value]) -> Value:
    bounds = [one.constant for one in args]
    if all(isinstance(one, int) for one in bounds) and 1 <= len(bounds) <= 3:
        numbers = range(*bounds)  # type: ignore[arg-type]
        if len(numbers) <= LONGEST:
            return Value(elements=[Value(constant=i) for i in numbers])
    return Value(union(args) - {Tag.DATA})


def _paired(flow: Flow, name: str, args: Sequence[Value]) -> Value:
    if name == "enumerate":
        args = [Value(), *args[:1]]
    turns = [flow.turns(one) for one in args]
    known = [one for one in turns if one is not None]
    if known and (name == "enumerate" or len(known) == len(args)):
        shortest = min(len(one) for one in known)
        rows = [[Value(constant=i) if one is None else one[i] for one in turns] for i in range(shortest)]
        return Value(elements=[Value(elements=row) for row in rows])
    row = Value(elements=[flow.element(one) for one in args])
    return Value(elements=[row] * (LONGEST + 1))


def _extreme(flow: Flow, node: ast.Call, given: Given) -> Value:
    tags = given.tags
    typed = any(isinstance(one.constant, float) and 0.01 < one.constant < 1 for one in given.args)
    if typed and len(given.args) > 1 and Tag.SCORE in tags:
        tags |= {Tag.BOOSTED}
    if len(given.args) == 1 and {Tag.SCORE, Tag.TEST} <= tags:
        tags |= {Tag.CHOSEN}
    if "key" in given.named and given.args:
        apply(flow, given.named["key"], Given([flow.element(given.args[0])], {}), node)
        if len(given.args) == 1:
            return flow.element(given.args[0])
    return Value(tags - {Tag.JOINED})
