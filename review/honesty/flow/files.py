"""Files: who wrote what is read."""

from __future__ import annotations

import ast

from review.honesty.flow.walk import Given, Walk
from review.honesty.values import NOTHING, UNKNOWN, Mark, Tag, Tags, Value, of


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
