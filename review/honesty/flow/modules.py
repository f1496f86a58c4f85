"""The modules of a program: each is followed when it is first imported, in a scope of its own.

What an import gives whose name is put together while the code runs is opaque, unless one module alone fits it.
"""

from __future__ import annotations

import ast

from review.honesty.flow.walk import Frame, Given, Walk
from review.honesty.values import Constant, Scope, Tag, Value, of


def dotted(path: str) -> str:
    """How a file is imported: `arms.method` for arms/method.py, `arms` for arms/__init__.py."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def is_own(walk: Walk, name: str) -> bool:
    """Whether a module of that name, or of a package of that name, lies in the program."""
    return any(one == name or one.startswith(f"{name}.") for one in walk.modules)


def load(walk: Walk, name: str) -> Value:
    """A module or package of the program's own, followed once."""
    if name in walk.modules and name not in walk.loaded:
        scope = walk.loaded[name] = Scope()
        outer, walk.scope = walk.scope, scope
        walk.frames.append(Frame())
        try:
            walk.block(walk.modules[name].body)
        finally:
            walk.scope = outer
            walk.frames.pop()
    items: dict[Constant, Value] = {}
    items |= walk.loaded[name].names if name in walk.loaded else {}
    for one in list(walk.loaded):
        parent, _, last = one.rpartition(".")
        if parent == name:
            items[last] = load(walk, one)
    return Value(items=items)


def bind_import(walk: Walk, name: str, bound: str | None) -> None:
    """`import name`, or `import name as bound`."""
    top = name.partition(".")[0]
    if not is_own(walk, top):
        walk.scope.bind(bound or top, Value(path=name if bound else top))
        return
    found = load(walk, name)
    walk.scope.bind(bound or top, found if bound else load(walk, top))


def bind_from(walk: Walk, node: ast.ImportFrom) -> None:
    """`from module import name, ...`; relative ones by whichever package holds such a module."""
    module = node.module or ""
    if node.level:
        packages = sorted({one.rpartition(".")[0] for one in walk.modules})
        names = [".".join(filter(None, (package, module))) for package in packages]
        module = next((one for one in names if one and is_own(walk, one)), module)
    if not is_own(walk, module):
        for one in node.names:
            walk.scope.bind(one.asname or one.name,
                            of(Tag.OPAQUE) if node.level else Value(path=f"{module}.{one.name}"))
        return
    found = load(walk, module)
    for one in node.names:
        if one.name == "*":
            for name, value in found.items.items():
                walk.scope.bind(str(name), value)
        else:
            inner = f"{module}.{one.name}"
            given = found.items.get(one.name) or (load(walk, inner) if is_own(walk, inner) else of(Tag.OPAQUE))
            walk.scope.bind(one.asname or one.name, given)


def imported(walk: Walk, node: ast.Call, given: Given) -> Value:
    """`importlib.import_module(name)`: of names that are put together, what fits the arm that is followed."""
    name = given.get(0, "name").constant
    if not isinstance(name, str):
        first = next((one for one in ast.walk(node) if isinstance(one, ast.JoinedStr)), None)
        head = first.values[0] if first is not None and first.values else None
        start = head.value if isinstance(head, ast.Constant) and isinstance(head.value, str) else ""
        fit = [one for one in walk.modules if start and one.startswith(start)]
        fit = [one for one in fit if one.rpartition(".")[2] == (walk.arm or "").replace("-", "_")] or fit
        name = fit[0] if len(fit) == 1 else ""
    return load(walk, name) if name and is_own(walk, name) else of(Tag.OPAQUE)
