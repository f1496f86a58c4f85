"""Find the components of a repository that can be ablated, using its code and one traced run.

A component is *optional* (an option, a configuration key), *one of several* (terms of a sum or of `+=`, called items of
a list, functions of a registry) or *shape-preserving* (the result has the shape of one argument). If the same component
is found twice, the candidates are merged. Its mutations are ordered: option, override, then mutations of its kind.
Joined values are zeroed before they are dropped, since other code depends on their width. A function whose result has
the shape of its argument returns that argument before it returns zeros, which would leave nothing of the model, unless
the result is added to something.

Functions that all data pass through are plumbing; functions that do not affect predictions or the loss are decoys.
Both are listed with reasons and never ablated. No model is needed; names decide only if the use of a value does not.
Limits: compiled code, generators and processes other than the traced ones are not covered. Meaning is not covered
either: the rules may select a function that nobody would ablate. Source: AblateCell, component inventory (built
by a model there).
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
"""Names of numbers that set the strength of a component; 0 turns it off."""
_AUXILIARY_NAME = re.compile(
    r"log|verbose|save|plot|debug|progress|wandb|tensorboard|checkpoint|ckpt|determinis|shuffle|"
    r"pin_?mem|(^|_)amp$|resume|profil|timer|timing|report|console|banner|print|histogram|callback|"
    r"monitor|cache|download|visuali|tracker|summary|(^|_)meter|stopwatch|dump",
    re.IGNORECASE,
)
"""Names of logging and I/O code, which is never ablated."""
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
"""Names of counters: a function of a counter does not transform it."""
_JOINING_CALLS = {"cat", "concat", "concatenate", "stack", "hstack", "vstack", "column_stack"}
MAX_IDENTITIES, MAX_FLOORS = 3, 3
LOSS_TERM = "a scalar term of a sum, such as a loss"
SKIP_SUFFIX = " skip"
"""Suffix of the name of a skip connection, after the name of the function it skips."""


@dataclass(frozen=True)
class ComponentInventory:
    """The components that can be ablated, the rest with reasons, and mutations that disable the whole model, likeliest
    first."""

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
    """Return the components of the code that a command runs."""
    return _ComponentFinder(index_code(texts), command, trace).find()


class _ComponentFinder:
    def __init__(self, code: CodeIndex, command: RepositoryCommand, trace: CallTrace) -> None:
        self._code, self._command, self._trace = code, command, trace
        self._by_key = {one.key: one for one in code.definitions}
        self._ran = [one for key, one in self._by_key.items() if key in trace.functions]
        self._rest: dict[str, UnexaminedPart] = {}
        self._calls_by_attribute = _index_attributes(code)

    def find(self) -> ComponentInventory:
        decoys = self._find_decoys()
        code = [*self._find_alternatives(decoys), *self._find_shape_preserving(decoys), *self._find_skips(decoys)]
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

    # --- settings -----------------------------------------------------------------------------------------------------

    def _find_options(self) -> Iterator[_ComponentCandidate]:
        for option in find_options(self._code):
            if option.path not in self._trace.lines or (option.command and option.command not in self._command.argv):
                continue
            if any(flag in self._command.argv for flag in option.flags):
                continue  # the command sets this option deliberately
            words = option.off_args or ((option.flag, "0") if _is_strength_value(option.dest, option.value) else ())
            if words and not self._is_auxiliary(option.dest, option.path):
                yield _ComponentCandidate(
                    _strip_affixes(option.dest),
                    "optional",
                    option.path,
                    option.dest,
                    option.line,
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
            # the settings of a group are more specific than the group itself
            kept = strengths if len(strengths) > 1 else set[str]()
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
        yield from (
            one for name, one in of_key.items() if not any(name.startswith(f"{target}.") for target, *_ in targets)
        )
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
        """Return a candidate if the key can be turned off and the command does not set it."""
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
        """Return whether a class writes files and changes no state of other objects."""
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
        """Return the value that turns a key off; empty if there is none, or if the key sets a strength of the data,
        which is not part of the method."""
        if key.value is True:
            return "false"
        if _is_strength_value(last, key.value):
            return "0" if not re.match(r"data", key.name) else ""
        if not isinstance(key.value, str) or key.value == "none":
            return ""
        none_option = re.compile(rf"\b{re.escape(last)}\b[^\n]{{0,40}}[\"']none[\"']")
        none_comment = re.search(r"#.*\bnone\b", self._code.texts[key.path].splitlines()[key.line - 1])
        return (
            "none"
            if none_comment or any(none_option.search(self._code.texts[path]) for path in self._code.trees)
            else ""
        )

    def _build_override(self, key: ConfigKey, value: str) -> RepositoryMutation | None:
        """Set a key with a command-line override if the command accepts overrides, otherwise in its file."""
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
        self._rest.setdefault(
            name, UnexaminedPart(name=name, kind="decoy", why=f"its name indicates logging only ({path})")
        )
        return True

    # --- code ---------------------------------------------------------------------------------------------------------

    def _find_alternatives(self, decoys: set[str]) -> Iterator[_ComponentCandidate]:
        """Yield functions and classes that have alternatives of the same kind."""
        for name, place in self._list_members().items():
            for function in self._code.find_definitions(name):
                if function.key not in self._trace.functions or function.key in decoys or self._is_plumbing(function):
                    continue
                if ways := [
                    *self._build_zero_mutations(function),
                    *([self._build_drop_mutation(*place)] if place is not None else []),
                ]:
                    yield _ComponentCandidate(
                        function.name,
                        "one of several",
                        function.path,
                        function.symbol,
                        function.node.lineno,
                        ways,
                        function,
                        LOSS_TERM if self._is_scalar(name) else "",
                    )

    def _list_members(self) -> dict[str, tuple[str, ast.stmt] | None]:
        """Return the names of joined functions and classes, each with its file and the statement that can be removed,
        if there is one."""
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
        """Yield the executed code: bodies of functions, and module-level code of files."""
        for function in self._ran:
            yield function.path, function.walk_own()
        for path, tree in self._code.trees.items():
            if path in self._trace.lines:
                yield path, walk_within(tree.body)

    def _list_joined(self, node: ast.expr, made: Mapping[str, set[str]]) -> list[str]:
        """Return the names of the calls that produced the arrays being joined."""
        items = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        names = [made.get(one.id, set[str]()) for one in items if isinstance(one, ast.Name)]
        return [name for every in names for name in every] if len(names) > 1 else []

    def _list_calls(self, node: ast.expr) -> set[str]:
        """Return the names of called functions; for an instance, include those of its class."""
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        return {
            name
            for one in calls
            for name in (read_last_name(one.func), *self._calls_by_attribute.get(read_last_name(one.func), ()))
        }

    def _list_items(self, node: ast.List | ast.Tuple, known: set[str]) -> list[str]:
        names = [
            name for item in node.elts if isinstance(item, ast.Call) and (name := read_last_name(item.func)) in known
        ]
        return names if len(names) > 1 else []

    def _list_registered(self, path: str) -> set[str]:
        """Return the functions or classes of a file that a decorator registers under a name together with others."""
        groups: dict[str, list[str]] = {}
        for definition in self._code.trees[path].body:
            for decorator in getattr(definition, "decorator_list", ()):
                if isinstance(decorator, ast.Call) and decorator.args and isinstance(decorator.args[0], ast.Constant):
                    groups.setdefault(read_last_name(decorator.func), []).append(getattr(definition, "name", ""))
        everywhere = Counter(
            read_last_name(decorator.func)
            for tree in self._code.trees.values()
            for one in tree.body
            for decorator in getattr(one, "decorator_list", ())
            if isinstance(decorator, ast.Call) and decorator.args
        )
        return {name for group, names in groups.items() if everywhere[group] > 1 for name in names}

    def _is_scalar(self, name: str) -> bool:
        """Return whether a function returns a single number, like a term of a loss."""
        return any(
            seen.return_kind == ["number"]
            for one in self._code.find_definitions(name)
            if one.key in self._trace.functions
            for seen in self._trace.functions[one.key].recorded_calls
        )

    def _find_shape_preserving(self, decoys: set[str]) -> Iterator[_ComponentCandidate]:
        """Yield functions whose result has the shape of one of their arguments."""
        for function in self._ran:
            hidden = function.node.name.startswith("__") and function.node.name not in CALL_METHODS
            if function.key in decoys or hidden or self._is_plumbing(function):
                continue
            alike = self._list_alike_arguments(function)
            text = self._code.texts[function.path]
            if not alike or not function.returns:
                continue
            ways = [
                RepositoryMutation(
                    kind="identity",
                    what=f"returns its argument {name} unchanged",
                    edits=(build_edit(function.path, text, return_argument(function, text, name)),),
                )
                for name in alike[:MAX_IDENTITIES]
            ]
            zero = (
                self._build_zero_mutations(function)
                if self._trace.functions[function.key].recorded_calls[0].return_kind[0] in ("array", "number")
                else []
            )
            yield _ComponentCandidate(
                function.name,
                "shape-preserving",
                function.path,
                function.symbol,
                function.node.lineno,
                [*zero, *ways] if self._is_added(function) else [*ways, *zero],
                function,
            )

    def _find_skips(self, decoys: set[str]) -> Iterator[_ComponentCandidate]:
        """Yield sums of a function's argument and a value computed from it, with the shape of the argument."""
        for function in self._ran:
            if (
                function.key in decoys
                or (names := self._list_alike_arguments(function)) == []
                or self._is_plumbing(function)
            ):
                continue
            text = self._code.texts[function.path]
            for node in function.walk_own():
                if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
                    continue
                given = [side for side in (node.left, node.right) if isinstance(side, ast.Name) and side.id in names]
                other = node.right if given == [node.left] else node.left
                if len(given) == 1 and self._count_layers(other, function) > 1:
                    after = replace_node(text, node, ast.unparse(other))
                    yield _ComponentCandidate(
                        f"{function.name}{SKIP_SUFFIX}",
                        "one of several",
                        function.path,
                        f"{function.symbol}:{node.lineno}",
                        node.lineno,
                        [
                            RepositoryMutation(
                                kind="drop",
                                what=f"{given[0].id} is not added to `{ast.unparse(other)[:60]}`",
                                edits=(build_edit(function.path, text, after),),
                            )
                        ],
                        function,
                    )

    def _count_layers(self, value: ast.expr, one: FunctionDefinition) -> int:
        """Count the calls of an object's own attributes through which one of its methods computes a value."""
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
        """Return whether the result is added to another value: returning zeros then removes it, and returning the
        argument doubles it.
        """
        return any(
            one.name in self._list_outermost(term)
            for tree in self._code.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
            for term in (node.left, node.right)
        )

    def _list_outermost(self, term: ast.expr) -> set[str]:
        """Return the names of the repository's functions whose value a term is, without functions that only compute
        their arguments.
        """
        if not isinstance(term, ast.Call):
            return set[str]().union(
                *(self._list_outermost(one) for one in ast.iter_child_nodes(term) if isinstance(one, ast.expr))
            )
        called = read_last_name(term.func)
        names = {called, *self._calls_by_attribute.get(called, ())}
        of_self = isinstance(term.func, ast.Attribute) and ast.unparse(term.func.value) == "self"
        own = any(one.name in names for one in self._ran) or (of_self and called not in self._calls_by_attribute)
        return (
            names
            if own
            else set[str]().union(
                *(self._list_outermost(one) for one in (*term.args, *(word.value for word in term.keywords)))
            )
        )

    def _list_alike_arguments(self, one: FunctionDefinition) -> list[str]:
        """Return the arguments that have the shape of the result in every recorded call."""
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
            # a function that maps a count to a number is a schedule, and does not transform the count
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
                    kind="zero", what=f"{one.symbol} returns zeros", edits=(build_edit(one.path, text, after),)
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

    # --- what is not a component --------------------------------------------------------------------------------------

    def _is_plumbing(self, one: FunctionDefinition) -> bool:
        why = self._explain_plumbing(one)
        if why:
            name = one.owner.name if one.owner is not None else one.name
            self._rest.setdefault(name, UnexaminedPart(name=name, kind="plumbing", why=f"{why} ({one.path})"))
        return bool(why)

    def _explain_plumbing(self, one: FunctionDefinition) -> str:
        if _is_optimizer_step(one):
            return "performs the training steps"
        if _METRIC_NAME.search(one.node.name):
            return "computes a metric"
        calls = {read_last_name(node.func) for node in one.walk_own() if isinstance(node, ast.Call)}
        return "loads the data" if calls & _LOADING_CALLS else ""

    def _find_decoys(self) -> set[str]:
        """Return the keys of functions that do not affect predictions or the loss: their results are unused and
        they change no outside state, or their names indicate logging.
        """
        used = self._list_used_names()
        found: dict[str, str] = {}
        for function in self._ran:
            called = self._trace.functions[function.key]
            silent = all(
                seen.return_kind == ["NoneType"] or seen.return_kind == ["None"] for seen in called.recorded_calls
            )
            module = function.path.rpartition("/")[2].removesuffix(".py")
            if function.node.name == "__init__" or function.node.name == "main":
                continue
            if (
                function.node.name not in used
                and silent
                and not _mutates(function)
                and not self._calls_mutating(function)
            ):
                found[function.key] = "its result is unused and it changes no outside state"
            elif _AUXILIARY_NAME.search(function.name) or _AUXILIARY_NAME.search(module):
                found[function.key] = "its name indicates logging only"
        for function in self._ran:
            if function.key in found:
                name = function.owner.name if function.owner is not None else function.name
                self._rest.setdefault(
                    name, UnexaminedPart(name=name, kind="decoy", why=f"{found[function.key]} ({function.path})")
                )
        return set(found)

    def _list_used_names(self) -> set[str]:
        """Return the names of functions whose result is used in some call."""
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
        """Yield mutations that zero the outermost functions of the model (with the most components below them in the
        call tree), then training steps that change nothing.
        """
        keys = {one.key for one in parts}
        ranked: list[tuple[int, int, str]] = []
        for function in self._ran:
            seen = self._trace.functions[function.key].recorded_calls
            if (
                seen
                and _has_arrays(seen[0].return_kind)
                and function.key not in keys
                and not _is_optimizer_step(function)
            ):
                below = self._trace.find_callees(function.key)
                ranked.append((len(below & keys), -len(below), function.key))
        for rank in sorted(ranked, reverse=True)[:MAX_FLOORS]:
            if rank[0]:
                yield from self._build_zero_mutations(self._by_key[rank[2]])
        for function in self._ran:
            if _is_optimizer_step(function) and (names := self._list_alike_arguments(function)):
                text = self._code.texts[function.path]
                yield RepositoryMutation(
                    kind="identity",
                    what=f"{function.symbol} changes nothing",
                    edits=(build_edit(function.path, text, return_argument(function, text, names[0])),),
                )

    # --- merging ------------------------------------------------------------------------------------------------------

    def _merge_candidates(
        self, outside: Sequence[_ComponentCandidate], code: Sequence[_ComponentCandidate]
    ) -> list[_ComponentCandidate]:
        """Merge candidates for the same component: a setting is merged with the code to which its name refers, and
        its mutations come first.
        """
        parts: list[_ComponentCandidate] = []
        for candidate in code:
            known = next(
                (part for part in parts if (part.path, part.symbol) == (candidate.path, candidate.symbol)), None
            )
            if known is None:
                parts.append(candidate)
            else:  # chained where it could also be joined: first replaced by its argument
                known.mutations = [
                    *candidate.mutations,
                    *(way for way in known.mutations if way not in candidate.mutations),
                ]
        for candidate in outside:
            known = self._find_meant(candidate, parts)
            if known is None:
                parts.append(candidate)
            else:
                first = [way for way in known.mutations if way.kind in ("option", "override")]
                known.mutations = [*first, *candidate.mutations, *known.mutations[len(first) :]]
                known.kind = "optional"
        return parts

    def _find_meant(
        self, setting: _ComponentCandidate, parts: Sequence[_ComponentCandidate]
    ) -> _ComponentCandidate | None:
        """Return the candidate to which a setting's name refers: the setting of that name, or the only code that
        matches it.
        """
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
    """Return whether a mutation sets a number to zero."""
    return mutation.kind in ("option", "override") and bool(re.search(r"[= ]0$", mutation.what))


def _index_attributes(code: CodeIndex) -> dict[str, set[str]]:
    """Map attributes and loop variables to the names of the calls that create their values."""
    calls: dict[str, set[str]] = {}
    for tree in code.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                calls.setdefault(node.targets[0].attr, set()).update(
                    read_last_name(one.func) for one in ast.walk(node.value) if isinstance(one, ast.Call)
                )
    for tree in code.trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                names = {one.attr for one in ast.walk(node.iter) if isinstance(one, ast.Attribute)}
                calls.setdefault(node.target.id, set()).update(*(calls.get(name, set[str]()) for name in names))
    return calls


def _has_arrays(kind: Sequence[Any]) -> bool:
    return kind[0] == "array" or (kind[0] in ("list", "dict") and len(kind) > 2 and any(map(_has_arrays, kind[2])))


def _mutates(one: FunctionDefinition, given: set[str] | None = None) -> bool:
    """Return whether a function writes to outside state: an attribute or item of an argument, or a global."""
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
            if (
                re.fullmatch(r"[a-z]\w*[a-z]_", method) or method == "load_state_dict"
            ):  # tensor methods that work in place
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
    """Return whether a setting likely controls a symbol: every word of the setting matches a word of the symbol by
    prefix."""
    words, within = _split_words(setting), _split_words(symbol)
    return bool(words) and all(any(_is_prefix(word, one) for one in within) for word in words)


def _split_words(name: str) -> list[str]:
    """Split a name in snake case or camel case into lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _is_prefix(word: str, other: str) -> bool:
    """Return whether one of two words is a prefix of the other."""
    return len(word) > 2 and (other.startswith(word[:6]) or (len(other) > 4 and word.startswith(other[:6])))


def _make_unique(found: Sequence[_ComponentCandidate]) -> list[str]:
    """Return unique names; equal names get the file added."""
    count = Counter(one.name for one in found)
    return [one.name if count[one.name] == 1 else f"{one.path}:{one.symbol}" for one in found]
