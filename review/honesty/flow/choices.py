"""Choices by score: what is picked of several predictions or names by how well they do, and scores that are held up."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from review.honesty.flow.walk import Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import Mark, Ranked, Tag, Tags, Value, either, union


def judges(tags: Tags) -> bool:
    """Whether something tells how good predictions are."""
    return {Tag.LABEL, Tag.SCORE} <= tags


def options(values: Iterable[Value]) -> frozenset[str] | None:
    """The names among several options, empty where they are predictions; None where they are neither."""
    names: set[str] = set()
    found = False
    for one in values:
        tags = one.deep()
        texts = {way.constant for way in (one, *one.others) if isinstance(way.constant, str)}
        names |= texts
        found = found or bool(texts) or bool(Tag.PREDICTED in tags and tags & HELD)
    return frozenset(names) if found else None


def marked(value: Value, mark: Mark, depth: int = 3) -> Value:
    """The value and its parts with a mark; what it was made from stays as it was."""
    if depth == 0 or value.body is not None or value.made_by is not None:
        return value
    return Value(
        value.tags | {mark}, value.constant, value.path, {key: marked(one, mark, depth - 1)
                                                          for key, one in value.items.items()},
        [marked(one, mark, depth - 1) for one in value.elements] if value.elements is not None else None,
        others=[marked(one, mark, depth - 1) for one in value.others])


def ranked(walk: Walk, held: Value, judge: Tags, choice: int | None = None) -> Ranked | None:
    """The mark of what `sorted`, `max`, `min` or an index picks out of predictions or names by their scores."""
    parts = [*(held.elements or ()), *held.items.values(), *(Value(constant=key) for key in held.items)]
    inner = [one for part in parts for one in (part, *(part.elements or ()))]
    if len(parts) < 2 or not judges(judge | union(inner)):
        return None
    names = options(inner)
    if names is None and not all(judges(part.deep()) for part in parts):
        return None
    walk.kept.append(held)
    names = names or frozenset[str]()
    return Ranked(id(held) if choice is None else choice, names)


def by_score(walk: Walk, tested: Value, found: Value) -> Value:
    """`a if score_a > score_b else b`, of two predictions or two names."""
    parts = [one for way in (found.others or [found]) for one in (way, *(way.elements or ()))]
    names = options(parts) if judges(tested.deep()) else None
    if names is None:
        return found
    walk.kept.append(tested)
    return marked(found, Ranked(id(tested), names))


def rank(walk: Walk, tested: Value, before: dict[str, Value]) -> None:
    """Mark the predictions and names that a branch on scores bound."""
    if not judges(tested.deep()):
        return
    bound = {name: value for name, value in walk.scope.names.items() if value is not before.get(name)}
    names = options(bound.values())
    if names is None:
        return
    walk.kept.append(tested)
    for name, value in bound.items():
        if options([value]) is not None:
            walk.scope.names[name] = marked(value, Ranked(id(tested), names))


# --- scores that are held up ----------------------------------------------------------------------------------------


def typed_share(value: Value) -> bool:
    return isinstance(value.constant, float) and 0.01 < value.constant < 1


def floored(node: ast.IfExp, body: Value, orelse: Value) -> Value:
    """Either; where it is `score if score > 0.8 else 0.8`, a score that is held up."""
    found = either(body, orelse)
    for one, other in ((body, orelse), (orelse, body)):
        if Tag.SCORE in one.deep() and typed_share(other) and isinstance(node.test, ast.Compare):
            return Value(found.deep() | {Tag.BOOSTED})
    return found


def floor(walk: Walk, test: ast.Compare, body: Sequence[ast.stmt]) -> None:
    """`if score < 0.8: score = 0.8`."""
    sides = {ast.unparse(side) for side in (test.left, *test.comparators)}
    for one in body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name) and one.targets[0].id in sides:
            held = walk.scope.find(one.targets[0].id)
            if held is not None and Tag.SCORE in held.deep() and typed_share(walk.value(one.value)):
                walk.scope.bind(one.targets[0].id, Value(held.deep() | {Tag.BOOSTED}))
