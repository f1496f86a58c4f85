"""The parts of a repository that its result can be made without, found by reading its code and one traced run of it.

A part is *optional* (an option, a configuration key), *one of several* (terms of a sum or of `+=`, items of a list that
are called, functions of a registry), or *shape-preserving* (what comes out is shaped like one argument). The same thing
found twice is one part, with the ways to take it out in the order option, override, then those of its kind: of what is
joined, zero before dropping it, since others count on its width; of a function whose result is shaped like its argument
that argument before zero, which would leave nothing, unless it is added to something.

What everything passes through is plumbing, and what reaches neither predictions nor loss is a decoy: both are listed
with reasons and never run. No model is needed; names decide only what no use of a value can.

Not kept: parts of compiled code, of generators, of other processes than the traced ones; and meaning. A function that
the rules take for a part may be one that nobody would ablate.

Source: AblateCell, its inventory of components, which a model makes there.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labwright.record.nouns.repository import Command, Mutation, NotExamined, Part, PartKind
from labwright.sandbox.repository.trace import Trace
from labwright.stages.repository.code import (
    CALLED,
    Code,
    Definition,
    code_in,
    edit_between,
    identity,
    last_name,
    replaced,
    within,
    without,
    zeroed,
)
from labwright.stages.repository.options import Key, groups_off, hydra_of, keys_in, options_in, targets_in

_STRENGTH = re.compile(
    r"decay|smooth|dropout|drop_?(out|path|rate)|mixup|cutmix|(^|_)aux|lambda|penalty|regulari|"
    r"(^|_)ema|noise|augment|jitter|warmup|(^|_)l[12]$|momentum|clip|_(p|prob|drop)$",
    re.IGNORECASE,
)
"""Numbers with such names set how strongly something acts: at 0 it does not."""
_ASIDE = re.compile(
    r"log|verbose|save|plot|debug|progress|wandb|tensorboard|checkpoint|ckpt|determinis|shuffle|"
    r"pin_?mem|(^|_)amp$|resume|profil|timer|timing|report|console|banner|print|histogram|callback|"
    r"monitor|cache|download|visuali|tracker|summary|(^|_)meter|stopwatch|dump",
    re.IGNORECASE,
)
"""What is named so tells of a run, and takes no part in it."""
_LOADS = {"open", "load", "loadtxt", "genfromtxt", "read_csv", "read_parquet", "load_dataset", "safe_load"}
_WRITES = {
    "open",
    "savefig",
    "writer",
    "DictWriter",
    "writerow",
    "write_text",
    "write_bytes",
    "write",
    "dump",
    "save",
    "savez",
    "to_csv",
}
_OPTIMIZER = re.compile(r"^(grads?|gradients?)$", re.IGNORECASE)
_MEASURES = re.compile(r"metric|accurac|rmse|evaluat|(^|_)(mse|mae|auc|f1|r2)$", re.IGNORECASE)
_COUNTER = re.compile(r"(cur(rent)?_?)?(steps?|epochs?|iter(ation)?s?|i|n|t|idx|index|count|progress|num_\w+)")
"""Numbers that only count: a function of one is no change of it."""
_JOINS = {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "column_stack"}
MOST_IDENTITIES, FLOORS = 3, 3
LOSS_TERM = "a term of a sum of numbers, as a loss is"
SKIP = " skip"
"""What the name of a skip connection ends in, after that of what it leads around."""


@dataclass(frozen=True)
class Inventory:
    """What can be taken out, what cannot and why, and edits that leave nothing of the model, the likeliest first."""

    parts: tuple[Part, ...]
    rest: tuple[NotExamined, ...]
    floors: tuple[Mutation, ...] = ()


@dataclass
class _Found:
    name: str
    kind: PartKind
    path: str
    symbol: str
    line: int
    mutations: list[Mutation]
    definition: Definition | None = None
    why: str = ""


def inventory(texts: Mapping[str, str], command: Command, trace: Trace) -> Inventory:
    """The parts of the code that a command runs."""
    return _Reader(code_in(texts), command, trace).read()


class _Reader:
    def __init__(self, code: Code, command: Command, trace: Trace) -> None:
        self._code, self._command, self._trace = code, command, trace
        self._by_key = {one.key: one for one in code.definitions}
        self._ran = [one for key, one in self._by_key.items() if key in trace.functions]
        self._rest: dict[str, NotExamined] = {}
        self._held = _held_in(code)

    def read(self) -> Inventory:
        aside = self._decoys()
        code = [*self._several(aside), *self._preserving(aside), *self._skips(aside)]
        merged = self._merged([*self._options(), *self._keys()], code)
        parts = tuple(
            Part(
                name=name,
                kind=one.kind,
                path=one.path,
                symbol=one.symbol,
                line=one.line,
                mutations=tuple(one.mutations),
                why=one.why,
            )
            for name, one in zip(_unique(merged), merged, strict=True)
            if one.mutations
        )
        floors = self._floors([one.definition for one in merged if one.definition is not None])
        return Inventory(parts, tuple(self._rest.values()), tuple(floors))

    # --- from outside -------------------------------------------------------------------------------------------------

    def _options(self) -> Iterator[_Found]:
        for one in options_in(self._code):
            if one.path not in self._trace.lines or (one.command and one.command not in self._command.argv):
                continue
            if any(flag in self._command.argv for flag in one.flags):
                continue  # the command sets it: what it stands for is chosen
            words = one.off or ((one.flag, "0") if _strength(one.dest, one.value) else ())
            if words and not self._is_aside(one.dest, one.path):
                yield _Found(
                    _plain_name(one.dest),
                    "optional",
                    one.path,
                    one.dest,
                    one.line,
                    [Mutation(kind="option", what=" ".join(words), words=words)],
                )

    def _keys(self) -> Iterator[_Found]:
        keys = keys_in(self._code.texts, self._command.argv, self._code)
        of_key = {key.name: found for key in keys if (found := self._key(key)) is not None}
        targets = targets_in(self._code.texts, self._code)
        classes = {key.name.removesuffix("._target_"): str(key.value).rpartition(".")[2] for key in keys}
        for group, _, empty, path in groups_off(self._code.texts, self._code):
            own = {name for name in of_key if name.startswith(f"{group}.")}
            strengths = {name for name in own if is_strength(of_key[name].mutations[0])}
            kept = strengths if len(strengths) > 1 else set[str]()  # what a group holds tells more than the group
            of_key = {name: one for name, one in of_key.items() if name not in own - kept}
            if not kept and not self._is_aside(group, path):
                yield _Found(
                    group.replace("/", "_"),
                    "optional",
                    path,
                    group,
                    1,
                    [Mutation(kind="override", what=f"{group}={empty}", words=(f"{group}={empty}",))],
                )
        yield from (one for name, one in of_key.items() if not any(name.startswith(f"{held}.") for held, *_ in targets))
        for name, path, line in targets:
            last = name.rpartition(".")[2]
            if not self._is_aside(last, path) and not self._only_writes(classes.get(name, ""), last, path):
                yield _Found(
                    _plain_name(last),
                    "optional",
                    path,
                    name,
                    line,
                    [Mutation(kind="override", what=f"without {name}", words=(f"~{name}",))],
                )

    def _key(self, key: Key) -> _Found | None:
        """A key that can be turned off, and that the command does not set."""
        last = key.name.rpartition(".")[2]
        off = self._off(key, last)
        if (
            not off
            or self._is_aside(last, key.path)
            or any(word.startswith(f"{key.name}=") for word in self._command.argv)
        ):
            return None
        mutation = self._override(key, off)
        return (
            None
            if mutation is None
            else _Found(_plain_name(last), "optional", key.path, key.name, key.line, [mutation])
        )

    def _only_writes(self, name: str, called: str, path: str) -> bool:
        """Whether a class changes nothing that others see, and writes files."""
        own = [one for one in self._ran if one.owner is not None and one.owner.name == name]
        writes = any(last_name(node.func) in _WRITES for one in own for node in one.own() if isinstance(node, ast.Call))
        if not writes or any(_changes(one, {*one.parameters}) for one in own):
            return False
        self._rest.setdefault(called, NotExamined(name=called, kind="decoy", why=f"{name} only writes files ({path})"))
        return True

    def _off(self, key: Key, last: str) -> str:
        """The value that turns a key off; empty where none does. Strengths of the data are no part of a method."""
        if key.value is True:
            return "false"
        if _strength(last, key.value):
            return "0" if not re.match(r"data", key.name) else ""
        if not isinstance(key.value, str) or key.value == "none":
            return ""
        beside = re.compile(rf"\b{re.escape(last)}\b[^\n]{{0,40}}[\"']none[\"']")
        said = re.search(r"#.*\bnone\b", self._code.texts[key.path].splitlines()[key.line - 1])
        return "none" if said or any(beside.search(self._code.texts[path]) for path in self._code.trees) else ""

    def _override(self, key: Key, value: str) -> Mutation | None:
        """Setting a key by a word of the command, where it takes such words, else in its file."""
        what = f"{key.name}={value}"
        if hydra_of(self._code) is not None or any(
            re.fullmatch(r"[A-Za-z_][\w.]*=.*", word) for word in self._command.argv
        ):
            return Mutation(kind="override", what=what, words=(what,))
        text, last = self._code.texts[key.path], key.name.rpartition(".")[2]
        pattern = re.compile(rf'^(\s*"?{re.escape(last)}"?\s*:\s*)([^,\s#]+)', re.MULTILINE)
        if len(pattern.findall(text)) != 1:
            return None
        after = pattern.sub(lambda one: one[1] + value, text)
        return Mutation(kind="override", what=what, edits=(edit_between(key.path, text, after),))

    def _is_aside(self, name: str, path: str) -> bool:
        if not _ASIDE.search(name):
            return False
        self._rest.setdefault(name, NotExamined(name=name, kind="decoy", why=f"by its name ({path}) it only tells"))
        return True

    # --- of the code --------------------------------------------------------------------------------------------------

    def _several(self, aside: set[str]) -> Iterator[_Found]:
        """Functions and classes that stand beside others of their kind."""
        for name, place in self._members().items():
            for one in self._code.named(name):
                if one.key not in self._trace.functions or one.key in aside or self._is_plumbing(one):
                    continue
                if ways := [*self._zero(one), *([self._drop(*place)] if place is not None else [])]:
                    yield _Found(
                        one.name,
                        "one of several",
                        one.path,
                        one.symbol,
                        one.node.lineno,
                        ways,
                        one,
                        LOSS_TERM if self._is_scalar(name) else "",
                    )

    def _members(self) -> dict[str, tuple[str, ast.stmt] | None]:
        """What is joined with others, by name; with the statement that could go, and its file, where it is one."""
        found: dict[str, tuple[str, ast.stmt] | None] = {}
        known = {one.name for one in self._ran}
        for path, nodes in self._bodies():
            added: dict[str, list[tuple[str, ast.stmt]]] = {}
            body = list(nodes)
            made = {
                target.id: self._calls(node.value) & known
                for node in body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in body:
                if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                    for name in self._calls(node.value) & known:
                        added.setdefault(ast.unparse(node.target), []).append((name, node))
                elif isinstance(node, ast.List | ast.Tuple):
                    found |= {name: None for name in self._items(node, known) if name not in found}
                elif isinstance(node, ast.Call) and last_name(node.func) in _JOINS and node.args:
                    found |= {name: None for name in self._joined(node.args[0], made) if name not in found}
                elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                    named = {
                        name for one in ast.walk(node) if isinstance(one, ast.Name) for name in made.get(one.id, ())
                    }
                    found |= {
                        name: None
                        for name in (self._calls(node) & known) | named
                        if name not in found and self._is_scalar(name)
                    }
            found |= {
                name: (path, statement) for members in added.values() if len(members) > 1 for name, statement in members
            }
        for path in self._code.trees:
            found |= {name: None for name in self._registered(path) & known if name not in found}
        return found

    def _bodies(self) -> Iterator[tuple[str, Iterator[ast.AST]]]:
        """The code that ran: of functions, and of files outside of all functions."""
        for one in self._ran:
            yield one.path, one.own()
        for path, tree in self._code.trees.items():
            if path in self._trace.lines:
                yield path, within(tree.body)

    def _joined(self, node: ast.expr, made: Mapping[str, set[str]]) -> list[str]:
        """What the arrays that are joined came of, by name."""
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        names = [made.get(one.id, set[str]()) for one in items if isinstance(one, ast.Name)]
        return [name for every in names for name in every] if len(names) > 1 else []

    def _calls(self, node: ast.expr) -> set[str]:
        """Names of what is called, of an instance its class."""
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        return {name for one in calls for name in (last_name(one.func), *self._held.get(last_name(one.func), ()))}

    def _items(self, node: ast.List | ast.Tuple, known: set[str]) -> list[str]:
        names = [name for item in node.elts if isinstance(item, ast.Call) and (name := last_name(item.func)) in known]
        return names if len(names) > 1 else []

    def _registered(self, path: str) -> set[str]:
        """Functions or classes of a file whose decorator enters them under a name, beside others."""
        groups: dict[str, list[str]] = {}
        for one in self._code.trees[path].body:
            for decorator in getattr(one, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
                    groups.setdefault(last_name(decorator.func), []).append(getattr(one, "name", ""))
        everywhere = Counter(
            last_name(decorator.func)
            for tree in self._code.trees.values()
            for one in tree.body
            for decorator in getattr(one, "decorator_list", ())
            if isinstance(decorator, ast.Call) and decorator.args
        )
        return {name for group, names in groups.items() if everywhere[group] > 1 for name in names}

    def _is_scalar(self, name: str) -> bool:
        """Whether what a function gives back is one number: a term of a loss."""
        return any(
            seen.returned == ["number"]
            for one in self._code.named(name)
            if one.key in self._trace.functions
            for seen in self._trace.functions[one.key].seen
        )

    def _preserving(self, aside: set[str]) -> Iterator[_Found]:
        """Functions whose result is shaped like one of their arguments."""
        for one in self._ran:
            hidden = one.node.name.startswith("__") and one.node.name not in CALLED
            if one.key in aside or hidden or self._is_plumbing(one):
                continue
            alike = self._alike(one)
            text = self._code.texts[one.path]
            if not alike or not one.returns:
                continue
            ways = [
                Mutation(
                    kind="identity",
                    what=f"gives back its argument {name}",
                    edits=(edit_between(one.path, text, identity(one, text, name)),),
                )
                for name in alike[:MOST_IDENTITIES]
            ]
            zero = self._zero(one) if self._trace.functions[one.key].seen[0].returned[0] in ("array", "number") else []
            yield _Found(
                one.name,
                "shape-preserving",
                one.path,
                one.symbol,
                one.node.lineno,
                [*zero, *ways] if self._is_added(one) else [*ways, *zero],
                one,
            )

    def _skips(self, aside: set[str]) -> Iterator[_Found]:
        """Sums of a function's argument and what was made of it, where what comes back is shaped like the argument."""
        for one in self._ran:
            if one.key in aside or (names := self._alike(one)) == [] or self._is_plumbing(one):
                continue
            text = self._code.texts[one.path]
            for node in one.own():
                if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
                    continue
                given = [side for side in (node.left, node.right) if isinstance(side, ast.Name) and side.id in names]
                other = node.right if given == [node.left] else node.left
                if len(given) == 1 and self._layers(other, one) > 1:
                    after = replaced(text, node, ast.unparse(other))
                    yield _Found(
                        f"{one.name}{SKIP}",
                        "one of several",
                        one.path,
                        f"{one.symbol}:{node.lineno}",
                        node.lineno,
                        [
                            Mutation(
                                kind="drop",
                                what=f"{given[0].id} is not added to `{ast.unparse(other)[:60]}`",
                                edits=(edit_between(one.path, text, after),),
                            )
                        ],
                        one,
                    )

    def _layers(self, value: ast.expr, one: Definition) -> int:
        """How many calls of what an object holds lead to a value within one of its methods."""
        names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - set(one.parameters)
        made = [
            node.value
            for node in one.own()
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
        ]
        return sum(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "self"
            for tree in (value, *made)
            for node in ast.walk(tree)
        )

    def _is_added(self, one: Definition) -> bool:
        """Whether what it gives back is added to something: then it is gone as zero, and doubles as its argument."""
        return any(
            one.name in self._outermost(term)
            for tree in self._code.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
            for term in (node.left, node.right)
        )

    def _outermost(self, term: ast.expr) -> set[str]:
        """Names of the repository's own functions whose value a term is: not of those that these are called with."""
        if not isinstance(term, ast.Call):
            return set[str]().union(
                *(self._outermost(one) for one in ast.iter_child_nodes(term) if isinstance(one, ast.expr))
            )
        called = last_name(term.func)
        names = {called, *self._held.get(called, ())}
        of_self = isinstance(term.func, ast.Attribute) and ast.unparse(term.func.value) == "self"
        own = any(one.name in names for one in self._ran) or (of_self and called not in self._held)
        return (
            names
            if own
            else set[str]().union(
                *(self._outermost(one) for one in (*term.args, *(word.value for word in term.keywords)))
            )
        )

    def _alike(self, one: Definition) -> list[str]:
        """The arguments that what comes back is shaped like, in every call that was looked at."""
        called = self._trace.functions[one.key]
        names = [
            name
            for name in one.parameters
            if called.seen
            and all(
                seen.given.get(name) == seen.returned and (seen.returned == ["number"] or _has_arrays(seen.returned))
                for seen in called.seen
            )
        ]
        if called.seen and called.seen[0].returned == ["number"]:
            # what makes a number of a count is a schedule, and the count no value of it
            return [
                name
                for name in names[:1]
                if name in one.parameters[:1]
                and not _COUNTER.fullmatch(name)
                and not any(name in seen.whole and "return" not in seen.whole for seen in called.seen)
            ]
        return names

    def _zero(self, one: Definition) -> list[Mutation]:
        text = self._code.texts[one.path]
        after = zeroed(one, text)
        return (
            []
            if after is None
            else [
                Mutation(
                    kind="zero", what=f"{one.symbol} gives back zeros", edits=(edit_between(one.path, text, after),)
                )
            ]
        )

    def _drop(self, path: str, statement: ast.stmt) -> Mutation:
        text = self._code.texts[path]
        return Mutation(
            kind="drop",
            what=f"without `{ast.unparse(statement)[:80]}`",
            edits=(edit_between(path, text, without(text, statement)),),
        )

    # --- what is no part ----------------------------------------------------------------------------------------------

    def _is_plumbing(self, one: Definition) -> bool:
        why = self._plumbing(one)
        if why:
            name = one.owner.name if one.owner is not None else one.name
            self._rest.setdefault(name, NotExamined(name=name, kind="plumbing", why=f"{why} ({one.path})"))
        return bool(why)

    def _plumbing(self, one: Definition) -> str:
        if _steps(one):
            return "it makes the steps of the training"
        if _MEASURES.search(one.node.name):
            return "it measures"
        calls = {last_name(node.func) for node in one.own() if isinstance(node, ast.Call)}
        return "it loads the data" if calls & _LOADS else ""

    def _decoys(self) -> set[str]:
        """Keys of functions that reach neither predictions nor loss: nothing uses what they give back, and they change
        nothing that others see; or they are named for telling of a run."""
        used = self._used_names()
        found: dict[str, str] = {}
        for one in self._ran:
            called = self._trace.functions[one.key]
            silent = all(seen.returned == ["NoneType"] or seen.returned == ["None"] for seen in called.seen)
            module = one.path.rpartition("/")[2].removesuffix(".py")
            if one.node.name == "__init__" or one.node.name == "main":
                continue
            if one.node.name not in used and silent and not _changes(one) and not self._calls_changing(one):
                found[one.key] = "nothing uses what it gives back, and it changes nothing that others see"
            elif _ASIDE.search(one.name) or _ASIDE.search(module):
                found[one.key] = "by its name it only tells"
        for one in self._ran:
            if one.key in found:
                name = one.owner.name if one.owner is not None else one.name
                self._rest.setdefault(name, NotExamined(name=name, kind="decoy", why=f"{found[one.key]} ({one.path})"))
        return set(found)

    def _used_names(self) -> set[str]:
        """Names of what is called where its result is used."""
        found: set[str] = set()
        for tree in self._code.trees.values():
            bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            found |= {
                last_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and id(node) not in bare
            }
        return found

    def _calls_changing(self, one: Definition) -> bool:
        names = {last_name(node.func) for node in one.own() if isinstance(node, ast.Call)}
        return any(_changes(other) for other in self._ran if other.node.name in names and other is not one)

    # --- the floor ----------------------------------------------------------------------------------------------------

    def _floors(self, parts: Sequence[Definition]) -> Iterator[Mutation]:
        """What all of the model passes through turned to zero: functions below which most parts ran; then steps of the
        training that change nothing."""
        keys = {one.key for one in parts}
        ranked: list[tuple[int, int, str]] = []
        for one in self._ran:
            seen = self._trace.functions[one.key].seen
            if seen and _has_arrays(seen[0].returned) and one.key not in keys and not _steps(one):
                below = self._trace.below(one.key)
                ranked.append((len(below & keys), -len(below), one.key))
        for rank in sorted(ranked, reverse=True)[:FLOORS]:
            if rank[0]:
                yield from self._zero(self._by_key[rank[2]])
        for one in self._ran:
            if _steps(one) and (names := self._alike(one)):
                text = self._code.texts[one.path]
                yield Mutation(
                    kind="identity",
                    what=f"{one.symbol} changes nothing",
                    edits=(edit_between(one.path, text, identity(one, text, names[0])),),
                )

    # --- the same thing found twice -----------------------------------------------------------------------------------

    def _merged(self, outside: Sequence[_Found], code: Sequence[_Found]) -> list[_Found]:
        """One entry a thing: what can be set goes with the code that its name means, and comes first there."""
        parts: list[_Found] = []
        for one in code:
            known = next((part for part in parts if (part.path, part.symbol) == (one.path, one.symbol)), None)
            if known is None:
                parts.append(one)
            else:  # chained where it could be joined: as its argument first
                known.mutations = [*one.mutations, *(way for way in known.mutations if way not in one.mutations)]
        for one in outside:
            known = self._meant(one, parts)
            if known is None:
                parts.append(one)
            else:
                first = [way for way in known.mutations if way.kind in ("option", "override")]
                known.mutations = [*first, *one.mutations, *known.mutations[len(first) :]]
                known.kind = "optional"
        return parts

    def _meant(self, setting: _Found, parts: Sequence[_Found]) -> _Found | None:
        """The part that a setting's name means: the setting of that name, or the one piece of code that it may mean."""
        same = next((part for part in parts if part.definition is None and part.name == setting.name), None)
        if same is not None:
            return same
        meant = [
            part
            for part in parts
            if part.definition is not None and not part.name.endswith(SKIP) and _same(setting.name, part.name)
        ]
        exact = [part for part in meant if len(_words(part.name)) == len(_words(setting.name))]
        known = {one.definition.owner or one.definition.node for one in meant if one.definition is not None}
        others = [one for one in self._ran if _same(setting.name, one.name) and (one.owner or one.node) not in known]
        return exact[0] if exact else meant[0] if len(meant) == 1 and not others else None


def _steps(one: Definition) -> bool:
    return any(_OPTIMIZER.match(name) for name in one.parameters)


def is_strength(mutation: Mutation) -> bool:
    """Whether a way sets a number to zero."""
    return mutation.kind in ("option", "override") and bool(re.search(r"[= ]0$", mutation.what))


def _held_in(code: Code) -> dict[str, set[str]]:
    """What attributes and loop variables stand for, by the names of what is called to make them."""
    held: dict[str, set[str]] = {}
    for tree in code.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                held.setdefault(node.targets[0].attr, set()).update(
                    last_name(one.func) for one in ast.walk(node.value) if isinstance(one, ast.Call)
                )
    for tree in code.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                names = {one.attr for one in ast.walk(node.iter) if isinstance(one, ast.Attribute)}
                held.setdefault(node.target.id, set()).update(*(held.get(name, set[str]()) for name in names))
    return held


def _has_arrays(kind: Sequence[Any]) -> bool:
    return kind[0] == "array" or (kind[0] in ("list", "dict") and len(kind) > 2 and any(map(_has_arrays, kind[2])))


def _changes(one: Definition, given: set[str] | None = None) -> bool:
    """Whether it writes to something that is not its own: an attribute or item of what it was given, a global."""
    given = {"self", *one.parameters} if given is None else given
    for node in one.own():
        if isinstance(node, ast.Global | ast.Nonlocal):
            return True
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            holder: ast.expr = node
            while isinstance(holder, ast.Attribute | ast.Subscript):
                holder = holder.value
            if isinstance(holder, ast.Name) and holder.id in given:
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if re.fullmatch(r"[a-z]\w*[a-z]_", method) or method == "load_state_dict":  # of tensors, in place
                return True
            if last_name(node.func.value) in given - {"self"} and method in (
                "append",
                "extend",
                "add",
                "update",
                "pop",
                "step",
                "backward",
                "fit",
                "insert",
                "clear",
            ):
                return True
    return False


def _strength(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and bool(_STRENGTH.search(name))


_AFFIX = re.compile(
    r"^(use|with|enable|no|without|disable|do|apply|add|is|has)_|"
    r"_(enabled|on|rate|prob|p|weight|coef)$"
)


def _plain_name(name: str) -> str:
    return _AFFIX.sub("", name.replace("-", "_")) or name


def _same(setting: str, symbol: str) -> bool:
    """Whether what is set by one name is likely the code of another: all its words begin words of the symbol."""
    words, within = _words(setting), _words(symbol)
    return bool(words) and all(any(_begins(word, one) for one in within) for word in words)


def _words(name: str) -> list[str]:
    """The words of a name, however it is written."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _begins(word: str, other: str) -> bool:
    """Whether one of two words begins the other."""
    return len(word) > 2 and (other.startswith(word[:6]) or (len(other) > 4 and word.startswith(other[:6])))


def _unique(found: Sequence[_Found]) -> list[str]:
    """Names that tell them apart: with the file where two are alike."""
    count = Counter(one.name for one in found)
    return [one.name if count[one.name] == 1 else f"{one.path}:{one.symbol}" for one in found]
