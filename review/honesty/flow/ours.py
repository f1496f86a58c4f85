"""What the calls of `lab` give, and which of them hand something in."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from review.honesty.flow.files import contents
from review.honesty.flow.walk import Given, Walk
from review.honesty.values import UNKNOWN, Constant, Ranked, Tag, Value, of


def of_lab(walk: Walk, node: ast.Call, name: str, given: Given) -> Value:
    if name == "data":
        return Value(frozenset({Tag.DATA}), path="dataset", items={"name": given.get(0, "name")})
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
    "launch": _launched, "cache": _cached, "restore": _known(Tag.DATA, Tag.MODEL, Tag.OPAQUE),
    "artifact": _known(Tag.DATA), "pretrained": _known(Tag.DATA, Tag.MODEL), "seed_everything": _seeds}
