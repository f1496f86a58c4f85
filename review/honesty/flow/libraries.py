"""Functions of libraries by their dotted names."""

from __future__ import annotations

import ast

from review.honesty import library as lib
from review.honesty.flow.builtin_calls import builtin, of_lab, read, system, write
from review.honesty.flow.marks import means_here, no_rate, shuffled
from review.honesty.flow.modules import imported
from review.honesty.flow.walk import Given, Walk
from review.honesty.values import HELD_OUT as HELD
from review.honesty.values import NOTHING, UNKNOWN, Made, Means, Tag, Tags, Value, of


def seeded(walk: Walk, node: ast.Call, path: str, given: Given) -> Value | None:
    """Note what a call is seeded with."""
    path = path.removeprefix("builtins.")
    if lib.SEEDERS.match(path):
        walk.sink(node, "seed", given.get(0, "seed"), which=path)
        return Value()
    for name in ("random_state", "seed"):
        if name in given.named and not path.startswith("lab."):
            walk.sink(node, "generator", given.named[name])
    return None


def from_library(walk: Walk, node: ast.Call, path: str, given: Given) -> Value:
    """What a function of a library makes of its arguments."""
    root, _, name = path.partition(".")
    if root == "builtins":
        return builtin(walk, node, name, given)
    if root == "lab":
        return of_lab(walk, node, name, given)
    if path == "importlib.import_module":
        return imported(walk, node, given)
    last = path.rsplit(".", 1)[-1]
    tags = given.tags
    if lib.GENERATORS.match(path) or path == "torch.Generator":
        if given.args or given.named:
            walk.sink(node, "generator", given.get(0, "seed"))
        return Value(frozenset({Tag.RANDOM}) | (tags & {Tag.SEED}), path="generator")
    if path.endswith(("full_like", "numpy.full", "torch.full")):
        return Value(given.get(1, "fill_value").deep())
    if lib.LIKE_DRAWS.search(path):
        return of(Tag.RANDOM)
    if lib.LIKE.search(path) or lib.FORMS.search(path):
        return Value()
    if lib.DRAWS.match(path) and not (lib.PERMUTES.search(path) and shuffled(given.get(0, "x"))):
        return Value(tags | {Tag.RANDOM})
    if lib.MADE_UP.search(path):
        return of(Tag.RANDOM)
    if lib.LOADERS.search(path):
        walk.sink(node, "labels", Value(), which=path, dataset=given.get(0, "path").constant)
        return of(Tag.DATA)
    if path == "sklearn.model_selection.train_test_split":
        return _cut(given)
    if root in ("os", "glob", "pathlib", "shutil", "time", "sys", "datetime", "gc", "warnings", "logging", "argparse"):
        return system(walk, node, path, given)
    if lib.READS.match(path) and not path.startswith(("json", "pickle", "yaml", "csv")):
        return read(walk, node, given.get(0, "file"), given)
    if lib.WRITES.match(path):
        return write(walk, node, path, given)
    if last in lib.STATISTICS and Tag.JOINED in tags:
        walk.sink(node, "statistic", Value(tags))
    if lib.PERMUTES.search(path) and shuffled(given.get(0, "x")):
        if last == "shuffle":
            given.get(0, "x").taint([Tag.SHUFFLED])
        return Value(tags | {Tag.RANDOM, Tag.SHUFFLED})
    if lib.FLOORS.search(path) and Tag.SCORE in tags and _held_up(given):
        return Value(tags | {Tag.BOOSTED})
    if lib.RELATED.search(path) and Tag.JOINED in tags:
        walk.sink(node, "statistic", Value(tags))
    if path == "torch.autograd.grad":
        walk.training.lose(given.get(0, "outputs").deep(), means_here(walk))
    if path.startswith(lib.SCHEDULES):
        if last in lib.RATING:
            walk.training.rate(tags)
        return Value(tags - {one for one in tags if isinstance(one, Made)})
    return Value(_passed(path, given) | _made(walk, node, path, given))


def _held_up(given: Given) -> bool:
    """Whether a typed number is so high that no probability is kept from 0 by it."""
    values = [*given.args[1:], *given.named.values()]
    return any(isinstance(one.constant, float) and 0.3 <= one.constant < 1 for one in values[:1])


def _made(walk: Walk, node: ast.Call, path: str, given: Given) -> Tags:
    """Tags of a network or an estimator that is made here; optimisers are looked at, functions that fit are noted."""
    name = path.rsplit(".", 1)[-1]
    if not path.startswith(lib.MODELS) or path.startswith((lib.SCHEDULES, *lib.FUNCTIONAL)):
        return NOTHING
    _rate(walk, node, path, given)
    loaded = given.tags & {Tag.DATA} or given.named.keys() & {"weights", "pretrained"} or name == "Trainer"
    if loaded or path.startswith("sklearn.model_selection"):
        walk.training.fit(given.tags)
    if loaded or not name[:1].isupper() or path.startswith(lib.TRANSFORMS):
        return NOTHING
    steps = {Means("steps", float(value.constant)) for key, value in given.named.items()
             if lib.STEPS.search(key) and isinstance(value.constant, int | float)}
    return frozenset({walk.training.make(), *steps})


def _rate(walk: Walk, node: ast.Call, path: str, given: Given) -> None:
    """Note the learning rate that an optimiser or an estimator is given."""
    rate = next((value.constant for key, value in given.named.items() if lib.GIVEN_RATES.search(key)), UNKNOWN)
    if path.startswith("torch.optim."):
        rate = given.get(1, "lr").constant
    if no_rate(rate):
        walk.sink(node, "inert", Value(given.tags), why="the learning rate is 0")
    if isinstance(rate, int | float):
        walk.training.note(given.tags, [Means(f"rate of {path.rsplit('.', 1)[-1]}", float(rate))])


def _passed(path: str, given: Given) -> Tags:
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
