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

from labwright.record.schema.repository import (
    PartKind,
    RepositoryCommand,
    RepositoryMutation,
    RepositoryPart,
    UnexaminedPart,
)
from labwright.sandbox.repository.trace import CallTrace
from labwright.stages.repository.code_index import (
    CALL_METHODS,
    CodeIndex,
    FunctionDefinition,
    build_edit,
    index_code,
    read_last_name,
    remove_statement,
    replace_node,
    return_argument,
    return_zeros,
    walk_within,
)
from labwright.stages.repository.config_options import (
    ConfigKey,
    find_hydra_config,
    find_keys,
    find_optional_groups,
    find_options,
    find_targets,
)

_STRENGTH_NAME = re.compile(
    r"decay|smooth|dropout|drop_?(out|path|rate)|mixup|cutmix|(^|_)aux|lambda|penalty|regulari|"
    r"(^|_)ema|noise|augment|jitter|warmup|(^|_)l[12]$|momentum|clip|_(p|prob|drop)$",
    re.IGNORECASE,
)
"""Numbers with such names set how strongly something acts: at 0 it does not."""
_AUXILIARY_NAME = re.compile(
    r"log|verbose|save|plot|debug|progress|wandb|tensorboard|checkpoint|ckpt|determinis|shuffle|"
    r"pin_?mem|(^|_)amp$|resume|profil|timer|timing|report|console|banner|print|histogram|callback|"
    r"monitor|cache|download|visuali|tracker|summary|(^|_)meter|stopwatch|dump",
    re.IGNORECASE,
)
"""What is named so tells of a run, and takes no part in it."""
_LOADING_CALLS = {"open", "load", "loadtxt", "genfromtxt", "read_csv", "read_parquet", "load_dataset", "safe_load"}
_WRITING_CALLS = {
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
_OPTIMIZER_ARGUMENT = re.compile(r"^(grads?|gradients?)$", re.IGNORECASE)
_METRIC_NAME = re.compile(r"metric|accurac|rmse|evaluat|(^|_)(mse|mae|auc|f1|r2)$", re.IGNORECASE)
_COUNTER_NAME = re.compile(r"(cur(rent)?_?)?(steps?|epochs?|iter(ation)?s?|i|n|t|idx|index|count|progress|num_\w+)")
"""Numbers that only count: a function of one is no change of it."""
_JOINING_CALLS = {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "column_stack"}
MAX_IDENTITIES, MAX_FLOORS = 3, 3
LOSS_TERM = "a term of a sum of numbers, as a loss is"
SKIP_SUFFIX = " skip"
"""What the name of a skip connection ends in, after that of what it leads around."""


@dataclass(frozen=True)
class ComponentInventory:
    """What can be taken out, what cannot and why, and edits that leave nothing of the model, the likeliest first."""

    parts: tuple[RepositoryPart, ...]
    rest: tuple[UnexaminedPart, ...]
    floors: tuple[RepositoryMutation, ...] = ()


@dataclass
class _ComponentCandidate:
    name: str
    kind: PartKind
    path: str
    symbol: str
    line: int
    mutations: list[RepositoryMutation]
    definition: FunctionDefinition | None = None
    why: str = ""


def discover_components(texts: Mapping[str, str], command: RepositoryCommand, trace: CallTrace) -> ComponentInventory:
    """The parts of the code that a command runs."""
    return _ComponentFinder(index_code(texts), command, trace).find()


class _ComponentFinder:
    def __init__(self, code: CodeIndex, command: RepositoryCommand, trace: CallTrace) -> None:
        self._code, self._command, self._trace = code, command, trace
        self._by_key = {one.key: one for one in code.definitions}
        self._ran = [one for key, one in self._by_key.items() if key in trace.functions]
        self._rest: dict[str, UnexaminedPart] = {}
        self._held = _index_attributes(code)

    def find(self) -> ComponentInventory:
        aside = self._find_decoys()
        code = [*self._find_alternatives(aside), *self._find_shape_preserving(aside), *self._find_skips(aside)]
        merged = self._merge_candidates([*self._find_options(), *self._find_keys()], code)
        parts = tuple(
            RepositoryPart(
                name=name,
                kind=one.kind,
                path=one.path,
                symbol=one.symbol,
                line=one.line,
                mutations=tuple(one.mutations),
                why=one.why,
            )
            for name, one in zip(_make_unique(merged), merged, strict=True)
            if one.mutations
        )
        floors = self._find_floors([one.definition for one in merged if one.definition is not None])
        return ComponentInventory(parts, tuple(self._rest.values()), tuple(floors))

    # --- from outside -------------------------------------------------------------------------------------------------

    def _find_options(self) -> Iterator[_ComponentCandidate]:
        for one in find_options(self._code):
            if one.path not in self._trace.lines or (one.command and one.command not in self._command.argv):
                continue
            if any(flag in self._command.argv for flag in one.flags):
                continue  # the command sets it: what it stands for is chosen
            words = one.off_args or ((one.flag, "0") if _is_strength_value(one.dest, one.value) else ())
            if words and not self._is_auxiliary(one.dest, one.path):
                yield _ComponentCandidate(
                    _strip_affixes(one.dest),
                    "optional",
                    one.path,
                    one.dest,
                    one.line,
                    [RepositoryMutation(kind="option", what=" ".join(words), words=words)],
                )

    def _find_keys(self) -> Iterator[_ComponentCandidate]:
        keys = find_keys(self._code.texts, self._command.argv, self._code)
        of_key = {key.name: found for key in keys if (found := self._check_key(key)) is not None}
        targets = find_targets(self._code.texts, self._code)
        classes = {key.name.removesuffix("._target_"): str(key.value).rpartition(".")[2] for key in keys}
        for group, _, empty, path in find_optional_groups(self._code.texts, self._code):
            own = {name for name in of_key if name.startswith(f"{group}.")}
            strengths = {name for name in own if is_strength(of_key[name].mutations[0])}
            kept = strengths if len(strengths) > 1 else set[str]()  # what a group holds tells more than the group
            of_key = {name: one for name, one in of_key.items() if name not in own - kept}
            if not kept and not self._is_auxiliary(group, path):
                yield _ComponentCandidate(
                    group.replace("/", "_"),
                    "optional",
                    path,
                    group,
                    1,
                    [RepositoryMutation(kind="override", what=f"{group}={empty}", words=(f"{group}={empty}",))],
                )
        yield from (one for name, one in of_key.items() if not any(name.startswith(f"{held}.") for held, *_ in targets))
        for name, path, line in targets:
            last = name.rpartition(".")[2]
            if not self._is_auxiliary(last, path) and not self._only_writes(classes.get(name, ""), last, path):
                yield _ComponentCandidate(
                    _strip_affixes(last),
                    "optional",
                    path,
                    name,
                    line,
                    [RepositoryMutation(kind="override", what=f"without {name}", words=(f"~{name}",))],
                )

    def _check_key(self, key: ConfigKey) -> _ComponentCandidate | None:
        """A key that can be turned off, and that the command does not set."""
        last = key.name.rpartition(".")[2]
        off = self._find_off_value(key, last)
        if (
            not off
            or self._is_auxiliary(last, key.path)
            or any(word.startswith(f"{key.name}=") for word in self._command.argv)
        ):
            return None
        mutation = self._build_override(key, off)
        return (
            None
            if mutation is None
            else _ComponentCandidate(_strip_affixes(last), "optional", key.path, key.name, key.line, [mutation])
        )

    def _only_writes(self, name: str, called: str, path: str) -> bool:
        """Whether a class changes nothing that others see, and writes files."""
        own = [one for one in self._ran if one.owner is not None and one.owner.name == name]
        writes = any(
            read_last_name(node.func) in _WRITING_CALLS
            for one in own
            for node in one.walk_own()
            if isinstance(node, ast.Call)
        )
        if not writes or any(_mutates(one, {*one.parameters}) for one in own):
            return False
        self._rest.setdefault(
            called, UnexaminedPart(name=called, kind="decoy", why=f"{name} only writes files ({path})")
        )
        return True

    def _find_off_value(self, key: ConfigKey, last: str) -> str:
        """The value that turns a key off; empty where none does. Strengths of the data are no part of a method."""
        if key.value is True:
            return "false"
        if _is_strength_value(last, key.value):
            return "0" if not re.match(r"data", key.name) else ""
        if not isinstance(key.value, str) or key.value == "none":
            return ""
        beside = re.compile(rf"\b{re.escape(last)}\b[^\n]{{0,40}}[\"']none[\"']")
        said = re.search(r"#.*\bnone\b", self._code.texts[key.path].splitlines()[key.line - 1])
        return "none" if said or any(beside.search(self._code.texts[path]) for path in self._code.trees) else ""

    def _build_override(self, key: ConfigKey, value: str) -> RepositoryMutation | None:
        """Setting a key by a word of the command, where it takes such words, else in its file."""
        what = f"{key.name}={value}"
        if find_hydra_config(self._code) is not None or any(
            re.fullmatch(r"[A-Za-z_][\w.]*=.*", word) for word in self._command.argv
        ):
            return RepositoryMutation(kind="override", what=what, words=(what,))
        text, last = self._code.texts[key.path], key.name.rpartition(".")[2]
        pattern = re.compile(rf'^(\s*"?{re.escape(last)}"?\s*:\s*)([^,\s#]+)', re.MULTILINE)
        if len(pattern.findall(text)) != 1:
            return None
        after = pattern.sub(lambda one: one[1] + value, text)
        return RepositoryMutation(kind="override", what=what, edits=(build_edit(key.path, text, after),))

    def _is_auxiliary(self, name: str, path: str) -> bool:
        if not _AUXILIARY_NAME.search(name):
            return False
        self._rest.setdefault(name, UnexaminedPart(name=name, kind="decoy", why=f"by its name ({path}) it only tells"))
        return True

    # --- of the code --------------------------------------------------------------------------------------------------

    def _find_alternatives(self, aside: set[str]) -> Iterator[_ComponentCandidate]:
        """Functions and classes that stand beside others of their kind."""
        for name, place in self._list_members().items():
            for one in self._code.find_definitions(name):
                if one.key not in self._trace.functions or one.key in aside or self._is_plumbing(one):
                    continue
                if ways := [
                    *self._build_zero_mutations(one),
                    *([self._build_drop_mutation(*place)] if place is not None else []),
                ]:
                    yield _ComponentCandidate(
                        one.name,
                        "one of several",
                        one.path,
                        one.symbol,
                        one.node.lineno,
                        ways,
                        one,
                        LOSS_TERM if self._is_scalar(name) else "",
                    )

    def _list_members(self) -> dict[str, tuple[str, ast.stmt] | None]:
        """What is joined with others, by name; with the statement that could go, and its file, where it is one."""
        found: dict[str, tuple[str, ast.stmt] | None] = {}
        known = {one.name for one in self._ran}
        for path, nodes in self._walk_bodies():
            added: dict[str, list[tuple[str, ast.stmt]]] = {}
            body = list(nodes)
            made = {
                target.id: self._list_calls(node.value) & known
                for node in body
                if isinstance(node, ast.Assign)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in body:
                if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                    for name in self._list_calls(node.value) & known:
                        added.setdefault(ast.unparse(node.target), []).append((name, node))
                elif isinstance(node, ast.List | ast.Tuple):
                    found |= {name: None for name in self._list_items(node, known) if name not in found}
                elif isinstance(node, ast.Call) and read_last_name(node.func) in _JOINING_CALLS and node.args:
                    found |= {name: None for name in self._list_joined(node.args[0], made) if name not in found}
                elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                    named = {
                        name for one in ast.walk(node) if isinstance(one, ast.Name) for name in made.get(one.id, ())
                    }
                    found |= {
                        name: None
                        for name in (self._list_calls(node) & known) | named
                        if name not in found and self._is_scalar(name)
                    }
            found |= {
                name: (path, statement) for members in added.values() if len(members) > 1 for name, statement in members
            }
        for path in self._code.trees:
            found |= {name: None for name in self._list_registered(path) & known if name not in found}
        return found

    def _walk_bodies(self) -> Iterator[tuple[str, Iterator[ast.AST]]]:
        """The code that ran: of functions, and of files outside of all functions."""
        for one in self._ran:
            yield one.path, one.walk_own()
        for path, tree in self._code.trees.items():
            if path in self._trace.lines:
                yield path, walk_within(tree.body)

    def _list_joined(self, node: ast.expr, made: Mapping[str, set[str]]) -> list[str]:
        """What the arrays that are joined came of, by name."""
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        names = [made.get(one.id, set[str]()) for one in items if isinstance(one, ast.Name)]
        return [name for every in names for name in every] if len(names) > 1 else []

    def _list_calls(self, node: ast.expr) -> set[str]:
        """Names of what is called, of an instance its class."""
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        return {
            name for one in calls for name in (read_last_name(one.func), *self._held.get(read_last_name(one.func), ()))
        }

    def _list_items(self, node: ast.List | ast.Tuple, known: set[str]) -> list[str]:
        names = [
            name for item in node.elts if isinstance(item, ast.Call) and (name := read_last_name(item.func)) in known
        ]
        return names if len(names) > 1 else []

    def _list_registered(self, path: str) -> set[str]:
        """Functions or classes of a file whose decorator enters them under a name, beside others."""
        groups: dict[str, list[str]] = {}
        for one in self._code.trees[path].body:
            for decorator in getattr(one, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
                    groups.setdefault(read_last_name(decorator.func), []).append(getattr(one, "name", ""))
        everywhere = Counter(
            read_last_name(decorator.func)
            for tree in self._code.trees.values()
            for one in tree.body
            for decorator in getattr(one, "decorator_list", ())
            if isinstance(decorator, ast.Call) and decorator.args
        )
        return {name for group, names in groups.items() if everywhere[group] > 1 for name in names}

    def _is_scalar(self, name: str) -> bool:
        """Whether what a function gives back is one number: a term of a loss."""
        return any(
            seen.return_kind == ["number"]
            for one in self._code.find_definitions(name)
            if one.key in self._trace.functions
            for seen in self._trace.functions[one.key].recorded_calls
        )

    def _find_shape_preserving(self, aside: set[str]) -> Iterator[_ComponentCandidate]:
        """Functions whose result is shaped like one of their arguments."""
        for one in self._ran:
            hidden = one.node.name.startswith("__") and one.node.name not in CALL_METHODS
            if one.key in aside or hidden or self._is_plumbing(one):
                continue
            alike = self._list_alike_arguments(one)
            text = self._code.texts[one.path]
            if not alike or not one.returns:
                continue
            ways = [
                RepositoryMutation(
                    kind="identity",
                    what=f"gives back its argument {name}",
                    edits=(build_edit(one.path, text, return_argument(one, text, name)),),
                )
                for name in alike[:MAX_IDENTITIES]
            ]
            zero = (
                self._build_zero_mutations(one)
                if self._trace.functions[one.key].recorded_calls[0].return_kind[0] in ("array", "number")
                else []
            )
            yield _ComponentCandidate(
                one.name,
                "shape-preserving",
                one.path,
                one.symbol,
                one.node.lineno,
                [*zero, *ways] if self._is_added(one) else [*ways, *zero],
                one,
            )

    def _find_skips(self, aside: set[str]) -> Iterator[_ComponentCandidate]:
        """Sums of a function's argument and what was made of it, where what comes back is shaped like the argument."""
        for one in self._ran:
            if one.key in aside or (names := self._list_alike_arguments(one)) == [] or self._is_plumbing(one):
                continue
            text = self._code.texts[one.path]
            for node in one.walk_own():
                if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
                    continue
                given = [side for side in (node.left, node.right) if isinstance(side, ast.Name) and side.id in names]
                other = node.right if given == [node.left] else node.left
                if len(given) == 1 and self._count_layers(other, one) > 1:
                    after = replace_node(text, node, ast.unparse(other))
                    yield _ComponentCandidate(
                        f"{one.name}{SKIP_SUFFIX}",
                        "one of several",
                        one.path,
                        f"{one.symbol}:{node.lineno}",
                        node.lineno,
                        [
                            RepositoryMutation(
                                kind="drop",
                                what=f"{given[0].id} is not added to `{ast.unparse(other)[:60]}`",
                                edits=(build_edit(one.path, text, after),),
                            )
                        ],
                        one,
                    )

    def _count_layers(self, value: ast.expr, one: FunctionDefinition) -> int:
        """How many calls of what an object holds lead to a value within one of its methods."""
        names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} - set(one.parameters)
        made = [
            node.value
            for node in one.walk_own()
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

    def _is_added(self, one: FunctionDefinition) -> bool:
        """Whether what it gives back is added to something: then it is gone as zero, and doubles as its argument."""
        return any(
            one.name in self._list_outermost(term)
            for tree in self._code.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
            for term in (node.left, node.right)
        )

    def _list_outermost(self, term: ast.expr) -> set[str]:
        """Names of the repository's own functions whose value a term is: not of those that these are called with."""
        if not isinstance(term, ast.Call):
            return set[str]().union(
                *(self._list_outermost(one) for one in ast.iter_child_nodes(term) if isinstance(one, ast.expr))
            )
        called = read_last_name(term.func)
        names = {called, *self._held.get(called, ())}
        of_self = isinstance(term.func, ast.Attribute) and ast.unparse(term.func.value) == "self"
        own = any(one.name in names for one in self._ran) or (of_self and called not in self._held)
        return (
            names
            if own
            else set[str]().union(
                *(self._list_outermost(one) for one in (*term.args, *(word.value for word in term.keywords)))
            )
        )

    def _list_alike_arguments(self, one: FunctionDefinition) -> list[str]:
        """The arguments that what comes back is shaped like, in every call that was looked at."""
        called = self._trace.functions[one.key]
        names = [
            name
            for name in one.parameters
            if called.recorded_calls
            and all(
                seen.argument_kinds.get(name) == seen.return_kind
                and (seen.return_kind == ["number"] or _has_arrays(seen.return_kind))
                for seen in called.recorded_calls
            )
        ]
        if called.recorded_calls and called.recorded_calls[0].return_kind == ["number"]:
            # what makes a number of a count is a schedule, and the count no value of it
            return [
                name
                for name in names[:1]
                if name in one.parameters[:1]
                and not _COUNTER_NAME.fullmatch(name)
                and not any(
                    name in seen.whole_numbers and "return" not in seen.whole_numbers for seen in called.recorded_calls
                )
            ]
        return names

    def _build_zero_mutations(self, one: FunctionDefinition) -> list[RepositoryMutation]:
        text = self._code.texts[one.path]
        after = return_zeros(one, text)
        return (
            []
            if after is None
            else [
                RepositoryMutation(
                    kind="zero", what=f"{one.symbol} gives back zeros", edits=(build_edit(one.path, text, after),)
                )
            ]
        )

    def _build_drop_mutation(self, path: str, statement: ast.stmt) -> RepositoryMutation:
        text = self._code.texts[path]
        return RepositoryMutation(
            kind="drop",
            what=f"without `{ast.unparse(statement)[:80]}`",
            edits=(build_edit(path, text, remove_statement(text, statement)),),
        )

    # --- what is no part ----------------------------------------------------------------------------------------------

    def _is_plumbing(self, one: FunctionDefinition) -> bool:
        why = self._explain_plumbing(one)
        if why:
            name = one.owner.name if one.owner is not None else one.name
            self._rest.setdefault(name, UnexaminedPart(name=name, kind="plumbing", why=f"{why} ({one.path})"))
        return bool(why)

    def _explain_plumbing(self, one: FunctionDefinition) -> str:
        if _is_optimizer_step(one):
            return "it makes the steps of the training"
        if _METRIC_NAME.search(one.node.name):
            return "it measures"
        calls = {read_last_name(node.func) for node in one.walk_own() if isinstance(node, ast.Call)}
        return "it loads the data" if calls & _LOADING_CALLS else ""

    def _find_decoys(self) -> set[str]:
        """Keys of functions that reach neither predictions nor loss: nothing uses what they give back, and they change
        nothing that others see; or they are named for telling of a run."""
        used = self._list_used_names()
        found: dict[str, str] = {}
        for one in self._ran:
            called = self._trace.functions[one.key]
            silent = all(
                seen.return_kind == ["NoneType"] or seen.return_kind == ["None"] for seen in called.recorded_calls
            )
            module = one.path.rpartition("/")[2].removesuffix(".py")
            if one.node.name == "__init__" or one.node.name == "main":
                continue
            if one.node.name not in used and silent and not _mutates(one) and not self._calls_mutating(one):
                found[one.key] = "nothing uses what it gives back, and it changes nothing that others see"
            elif _AUXILIARY_NAME.search(one.name) or _AUXILIARY_NAME.search(module):
                found[one.key] = "by its name it only tells"
        for one in self._ran:
            if one.key in found:
                name = one.owner.name if one.owner is not None else one.name
                self._rest.setdefault(
                    name, UnexaminedPart(name=name, kind="decoy", why=f"{found[one.key]} ({one.path})")
                )
        return set(found)

    def _list_used_names(self) -> set[str]:
        """Names of what is called where its result is used."""
        found: set[str] = set()
        for tree in self._code.trees.values():
            bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            found |= {
                read_last_name(node.func)
                for node in ast.walk(tree)
                if isinstance(node, ast.Call) and id(node) not in bare
            }
        return found

    def _calls_mutating(self, one: FunctionDefinition) -> bool:
        names = {read_last_name(node.func) for node in one.walk_own() if isinstance(node, ast.Call)}
        return any(_mutates(other) for other in self._ran if other.node.name in names and other is not one)

    # --- the floor ----------------------------------------------------------------------------------------------------

    def _find_floors(self, parts: Sequence[FunctionDefinition]) -> Iterator[RepositoryMutation]:
        """What all of the model passes through turned to zero: functions below which most parts ran; then steps of the
        training that change nothing."""
        keys = {one.key for one in parts}
        ranked: list[tuple[int, int, str]] = []
        for one in self._ran:
            seen = self._trace.functions[one.key].recorded_calls
            if seen and _has_arrays(seen[0].return_kind) and one.key not in keys and not _is_optimizer_step(one):
                below = self._trace.find_callees(one.key)
                ranked.append((len(below & keys), -len(below), one.key))
        for rank in sorted(ranked, reverse=True)[:MAX_FLOORS]:
            if rank[0]:
                yield from self._build_zero_mutations(self._by_key[rank[2]])
        for one in self._ran:
            if _is_optimizer_step(one) and (names := self._list_alike_arguments(one)):
                text = self._code.texts[one.path]
                yield RepositoryMutation(
                    kind="identity",
                    what=f"{one.symbol} changes nothing",
                    edits=(build_edit(one.path, text, return_argument(one, text, names[0])),),
                )

    # --- the same thing found twice -----------------------------------------------------------------------------------

    def _merge_candidates(
        self, outside: Sequence[_ComponentCandidate], code: Sequence[_ComponentCandidate]
    ) -> list[_ComponentCandidate]:
        """One entry a thing: what can be set goes with the code that its name means, and comes first there."""
        parts: list[_ComponentCandidate] = []
        for one in code:
            known = next((part for part in parts if (part.path, part.symbol) == (one.path, one.symbol)), None)
            if known is None:
                parts.append(one)
            else:  # chained where it could be joined: as its argument first
                known.mutations = [*one.mutations, *(way for way in known.mutations if way not in one.mutations)]
        for one in outside:
            known = self._find_meant(one, parts)
            if known is None:
                parts.append(one)
            else:
                first = [way for way in known.mutations if way.kind in ("option", "override")]
                known.mutations = [*first, *one.mutations, *known.mutations[len(first) :]]
                known.kind = "optional"
        return parts

    def _find_meant(
        self, setting: _ComponentCandidate, parts: Sequence[_ComponentCandidate]
    ) -> _ComponentCandidate | None:
        """The part that a setting's name means: the setting of that name, or the one piece of code that it may mean."""
        same = next((part for part in parts if part.definition is None and part.name == setting.name), None)
        if same is not None:
            return same
        meant = [
            part
            for part in parts
            if part.definition is not None
            and not part.name.endswith(SKIP_SUFFIX)
            and _names_match(setting.name, part.name)
        ]
        exact = [part for part in meant if len(_split_words(part.name)) == len(_split_words(setting.name))]
        known = {one.definition.owner or one.definition.node for one in meant if one.definition is not None}
        others = [
            one for one in self._ran if _names_match(setting.name, one.name) and (one.owner or one.node) not in known
        ]
        return exact[0] if exact else meant[0] if len(meant) == 1 and not others else None


def _is_optimizer_step(one: FunctionDefinition) -> bool:
    return any(_OPTIMIZER_ARGUMENT.match(name) for name in one.parameters)


def is_strength(mutation: RepositoryMutation) -> bool:
    """Whether a way sets a number to zero."""
    return mutation.kind in ("option", "override") and bool(re.search(r"[= ]0$", mutation.what))


def _index_attributes(code: CodeIndex) -> dict[str, set[str]]:
    """What attributes and loop variables stand for, by the names of what is called to make them."""
    held: dict[str, set[str]] = {}
    for tree in code.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                held.setdefault(node.targets[0].attr, set()).update(
                    read_last_name(one.func) for one in ast.walk(node.value) if isinstance(one, ast.Call)
                )
    for tree in code.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                names = {one.attr for one in ast.walk(node.iter) if isinstance(one, ast.Attribute)}
                held.setdefault(node.target.id, set()).update(*(held.get(name, set[str]()) for name in names))
    return held


def _has_arrays(kind: Sequence[Any]) -> bool:
    return kind[0] == "array" or (kind[0] in ("list", "dict") and len(kind) > 2 and any(map(_has_arrays, kind[2])))


def _mutates(one: FunctionDefinition, given: set[str] | None = None) -> bool:
    """Whether it writes to something that is not its own: an attribute or item of what it was given, a global."""
    given = {"self", *one.parameters} if given is None else given
    for node in one.walk_own():
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
            if read_last_name(node.func.value) in given - {"self"} and method in (
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


def _is_strength_value(name: str, value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value > 0
        and bool(_STRENGTH_NAME.search(name))
    )


_AFFIX = re.compile(
    r"^(use|with|enable|no|without|disable|do|apply|add|is|has)_|"
    r"_(enabled|on|rate|prob|p|weight|coef)$"
)


def _strip_affixes(name: str) -> str:
    return _AFFIX.sub("", name.replace("-", "_")) or name


def _names_match(setting: str, symbol: str) -> bool:
    """Whether what is set by one name is likely the code of another: all its words begin words of the symbol."""
    words, within = _split_words(setting), _split_words(symbol)
    return bool(words) and all(any(_is_prefix(word, one) for one in within) for word in words)


def _split_words(name: str) -> list[str]:
    """The words of a name, however it is written."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _is_prefix(word: str, other: str) -> bool:
    """Whether one of two words begins the other."""
    return len(word) > 2 and (other.startswith(word[:6]) or (len(other) > 4 and word.startswith(other[:6])))


def _make_unique(found: Sequence[_ComponentCandidate]) -> list[str]:
    """Names that tell them apart: with the file where two are alike."""
    count = Counter(one.name for one in found)
    return [one.name if count[one.name] == 1 else f"{one.path}:{one.symbol}" for one in found]
