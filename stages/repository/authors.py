"""Work that an author with tools does in a study of a repository, and the rules by which it is accepted.

An author finds and repairs the command (`Preparation`) and names the parts to take out (`propose_parts`). What this
program found by rules is shown to it as facts. What it hands in is checked without its help: the command is run, files
that compute the metric may not change, edits must apply. Text of the repository is material, not instructions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import TypeVar

from packaging.utils import canonicalize_name

from labwright.models.author import Author, AuthorLimits, AuthorWork
from labwright.models.client import ModelClient
from labwright.models.roles.coder import CoderFact, CoderInputs, HandIn
from labwright.models.roles.repository import PartsInputs, ProposedPart, ProposedParts
from labwright.record.baseline_check import ExpectedError, parse_expected
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.repository import (
    RepositoryCommand,
    RepositoryEdit,
    RepositoryMutation,
    RepositoryPart,
    UnexaminedPart,
    format_command_line,
)
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.sandbox.repository.metric import METRIC_FORMS
from labwright.sandbox.repository.scratch_tree import open_scratch_tree
from labwright.sandbox.repository.trace import CallTrace
from labwright.stages.repository.arm_runs import CommandSetup
from labwright.stages.repository.code_index import CodeIndex, build_edit, index_code
from labwright.stages.repository.command_discovery import list_candidates, list_imports
from labwright.stages.repository.component_discovery import ComponentInventory
from labwright.stages.repository.config_options import find_options
from labwright.stages.repository.known_fixes import DISTRIBUTION_NAMES
from labwright.stages.repository.patch_scope import find_tampering, list_changed_symbols
from labwright.stages.repository.repository_context import find_documents, format_map, order_by_distance
from labwright.stages.run_context import RunContext, decision_number, wait_to_start

H = TypeVar("H", bound=HandIn)
NO_CANDIDATES = "none (the rules know neural-network modules only); start from the functions that ran"
MAX_COMPLAINTS = 8
"""Maximum number of reasons that an author is shown at once."""


async def let_author_work(
    context: RunContext,
    work: str | ModelClient,
    setup: CommandSetup,
    inputs: CoderInputs,
    result: type[H],
    check: Callable[[H, str], Awaitable[str]],
    limits: AuthorLimits | None = None,
) -> AuthorWork[H]:
    """Let an author work on a scratch copy of the setup's tree, and return what it made.

    `work` is the client of a node, or the name of a task outside the search.

    Raises `ModelError`, `ExecutorError`, `RepositoryError`.
    """
    executor, repository = context.executor, context.repository
    assert isinstance(executor, LocalExecutor) and executor.repository is not None and repository is not None
    if isinstance(work, str):
        await wait_to_start(context)
        client = context.models.make_client(decision_number(context.recorder, RunTask(task=work)), 0)
    else:
        client = work
    limits = limits or AuthorLimits()
    async with open_scratch_tree(
        repository.mirror,
        setup.tree,
        setup.environment.command_environment,
        executor.run_command,
        name=f"author-{client.decision}",
        frozen=repository.frozen_patterns,
        env=setup.command.env,
        redact=executor.repository.redactor.redact,
    ) as tools:
        inputs = inputs.model_copy(update={"steps": limits.steps, "frozen": repository.frozen_patterns})
        return await Author(client, tools, result, check, limits).work(inputs)


# --- facts ------------------------------------------------------------------------------------------------------------


def list_command_facts(code: CodeIndex, setup: CommandSetup) -> Iterator[CoderFact]:
    """Yield what the program knows about the commands of a repository."""
    yield from list_documents(code.texts)
    yield list_files_fact(code, setup.command)
    found = [
        f"{format_command_line(one.argv)}  ({one.location}{': ' + one.wrong if one.wrong else ''})"
        for one in list_candidates(code.texts)[:12]
    ]
    yield CoderFact(title="Commands found by rules, in documents and code", text="\n".join(found) or "none")
    options = [str(one) for one in find_options(code)[:80]]
    yield CoderFact(title="Options of its parsers", text="\n".join(options) or "none were found")
    yield CoderFact(title="Forms of a metric", text=METRIC_FORMS)


def format_machine(context: RunContext, setup: CommandSetup, code: CodeIndex) -> str:
    """Describe the device, Python, the packages that the repository imports, and what it requires but does not get."""
    runs = inspect_interpreter(setup.environment.command_environment.python)
    packages = {**find_imported(runs.packages, code), **setup.environment.packages}
    lacking = [f"{one.wanted}: {one.found or 'not available'}" for one in setup.environment.deviations]
    return (
        f"Device: {context.sandbox.device}. Python {runs.version}. Packages that the repository imports: "
        + (", ".join(f"{name} {version}" for name, version in sorted(packages.items())) or "none")
        + ("\nRequired but different here: " + "; ".join(lacking) if lacking else "")
    )


def find_imported(packages: Mapping[str, str], code: CodeIndex) -> dict[str, str]:
    """Return the distributions, with their versions, that Python files of a repository import.

    A distribution is known by the name of its module or by `DISTRIBUTION_NAMES`.
    """
    modules = {name.partition(".")[0] for tree in code.trees.values() for name in list_imports(tree)}
    wanted = {
        canonicalize_name(name) for module in modules for name in (module, DISTRIBUTION_NAMES.get(module, module))
    }
    return {name: version for name, version in packages.items() if canonicalize_name(name) in wanted}


def list_documents(texts: Mapping[str, str]) -> Iterator[CoderFact]:
    """Yield the README and nearby documents, the first ones of the repository."""
    for path in find_documents(texts)[:2]:
        yield CoderFact(title=path, text=texts[path])


def list_files_fact(code: CodeIndex, command: RepositoryCommand) -> CoderFact:
    """Return the map of a repository: files, what they define, and who calls it."""
    return CoderFact(
        title="Files, what they define, and after <- the callers",
        text=format_map(code, order_by_distance(code, command.argv)),
    )


# --- the command ------------------------------------------------------------------------------------------------------


def find_preparation_faults(
    before: RepositoryCommand | None,
    after: RepositoryCommand,
    expected: str,
    texts: Mapping[str, str],
    changed: Mapping[str, str],
) -> Iterator[str]:
    """Yield the reasons to refuse a command with its changes of files. `before` is the command that is kept, if any."""
    if before is not None:
        known, now = _parse_values(before.argv), _parse_values(after.argv)
        for name, value in now.items():
            if name in known and value not in (known[name], "{seed}"):
                yield f"{name} has a different value, {value!r}: only what the program rejects may change"
    try:
        if expected:
            parse_expected(expected)
    except ExpectedError as error:
        yield f"expected: {error}"
    yield from find_file_faults(texts, changed)


def find_file_faults(texts: Mapping[str, str], changed: Mapping[str, str]) -> Iterator[str]:
    """Yield the reasons to refuse changes of files: of code that computes a metric, or that hide an error."""
    for path, text in changed.items():
        why = find_tampering(path, texts.get(path, ""), text)
        if why and not why.endswith("the syntax tree is unchanged"):
            yield why


def build_edits(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[RepositoryEdit, ...]:
    """Return the edits that turn the text files of one tree into those of another. Raises `RepositoryError`."""
    if lost := sorted(before.keys() - after.keys()):
        raise RepositoryError(f"{lost[0]} was removed: change files, but remove none")
    return tuple(
        build_edit(path, before[path], text) if path in before else RepositoryEdit(path=path, new=text)
        for path, text in after.items()
        if before.get(path) != text
    )


def _parse_values(argv: Sequence[str]) -> dict[str, str]:
    """Map each option or key to its value."""
    found: dict[str, str] = {}
    for word, after in zip(argv, (*argv[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif word.startswith("--") and not after.startswith("-"):
            found[word] = after
    return found


# --- parts ------------------------------------------------------------------------------------------------------------


async def propose_parts(
    context: RunContext, setup: CommandSetup, found: ComponentInventory, trace: CallTrace
) -> tuple[ComponentInventory, str]:
    """Return the parts that an author names, with the candidates of the rules as facts, and why there are none."""
    assert context.repository is not None
    texts = context.repository.mirror.read_texts(setup.tree)
    code = index_code(texts)
    rules = "\n".join(
        f"{one.name} ({one.path}:{one.line}): {'; '.join(way.what for way in one.mutations)}" for one in found.parts
    )
    others = "\n".join(f"{one.name}: {one.why}" for one in found.rest)
    ran = "\n".join(sorted({f"{one.path}:{one.symbol}" for one in code.definitions if one.key in trace.functions}))
    inputs = PartsInputs(
        known=(
            *list_documents(texts),
            CoderFact(title="The command", text=format_command_line(setup.command.argv)),
            CoderFact(title="Its metric", text=f"{setup.command.metric} ({setup.command.direction} is better)"),
            list_files_fact(code, setup.command),
            CoderFact(title="Functions that ran", text=ran or "unknown"),
            CoderFact(title="Candidates found by rules", text=rules or NO_CANDIDATES),
            CoderFact(title="Candidates that rules excluded", text=others or "none"),
        )
    )

    async def check(answer: ProposedParts, tree: str) -> str:
        wrong = await asyncio.to_thread(lambda: list(find_part_faults(answer, setup.command, code, trace)))
        more = f"; and {len(wrong) - MAX_COMPLAINTS} more" if len(wrong) > MAX_COMPLAINTS else ""
        return "\n".join(wrong[:MAX_COMPLAINTS]) + more

    made = await let_author_work(context, "parts", setup, inputs, ProposedParts, check)
    if made.result is None:
        return ComponentInventory((), found.rest, found.floors), f"the author named no parts: {made.ended}"
    parts = tuple(build_part(one, code) for one in made.result.parts)
    names = {one.name for one in parts}
    left = [one.partition(":") for one in made.result.left_out]
    rest = [
        *found.rest,
        *(
            UnexaminedPart(name=name.strip(), kind="author", why=why.strip() or "no part of the method")
            for name, _, why in left
        ),
        *(
            UnexaminedPart(name=one.name, kind="author", why="found by rules, not named by the author")
            for one in found.parts
        ),
    ]
    unique = {one.name: one for one in reversed(rest) if one.name not in names}
    return ComponentInventory(parts, tuple(unique.values())[::-1], found.floors), ""


def find_part_faults(
    answer: ProposedParts, command: RepositoryCommand, code: CodeIndex, trace: CallTrace
) -> Iterator[str]:
    """Yield the reasons to refuse proposed parts: edits that do not apply or touch what makes data, targets or the
    metric."""
    names = [one.name for one in answer.parts]
    for name in {name for name in names if names.count(name) > 1}:
        yield f"{name}: two parts have this name"
    for place in (*answer.data, *answer.targets, *answer.metric):
        if why := _explain_unknown_place(place, code):
            yield f"{place}: {why}"
    fixed = {*answer.data, *answer.targets, *answer.metric}
    makers = {
        made: f"{place}, which you named in `{'data' if place in answer.data else 'targets'}`"
        for made, place in _list_made_by((*answer.data, *answer.targets), code, trace).items()
    }
    for part in answer.parts:
        if part.path not in code.texts:
            yield f"{part.name}: there is no text file {part.path}"
        for number, way in enumerate(part.ways, 1):
            why = _find_way_fault(way.edits, way.words, command, code, fixed, makers)
            if why:
                yield f"{part.name}, way {number}: {why}"


def _find_way_fault(
    edits: Sequence[RepositoryEdit],
    words: Sequence[str],
    command: RepositoryCommand,
    code: CodeIndex,
    fixed: set[str],
    makers: Mapping[str, str],
) -> str:
    if not edits and not words:
        return "it changes nothing: give words or edits"
    try:
        after = apply_edits(edits, code.texts)
    except RepositoryError as error:
        return str(error)
    for path, text in after.items():
        before = code.texts.get(path, "")
        if why := find_tampering(path, before, text):
            return why
        if path in fixed or path == command.metric.partition(":")[0]:
            return f"{path} makes data, targets or the metric and may not change"
        for symbol in list_changed_symbols(before, text) if path.endswith(".py") else ():
            place = f"{path}:{symbol}"
            owner = place.rpartition(".")[0] if "." in symbol else place
            if place in fixed or owner in fixed:
                return f"{place} makes data, targets or the metric and may not change"
            if place in makers:
                return (
                    f"{place} is reached from {makers[place]}; everything that only named places call, directly or "
                    "through others, is protected. If that place also runs the method, name only the functions "
                    "that make data or targets"
                )
    return ""


def _explain_unknown_place(place: str, code: CodeIndex) -> str:
    path, _, symbol = place.partition(":")
    if path not in code.texts:
        return "" if "/" in path or "." in path else "write path:symbol, or path for a whole file"
    known = {one.symbol for one in code.definitions if one.path == path}
    known |= {one.owner.name for one in code.definitions if one.path == path and one.owner is not None}
    return f"{path} has no function or class {symbol}" if symbol and symbol not in known else ""


def _list_made_by(places: Sequence[str], code: CodeIndex, trace: CallTrace) -> dict[str, str]:
    """Map the functions that only places of data or targets called, directly or indirectly, to such a place."""
    symbols = {one.key: f"{one.path}:{one.symbol}" for one in code.definitions}
    keys = {key: place for key, place in symbols.items() if place in places or place.rpartition(".")[0] in places}
    reached = {callee: place for key, place in keys.items() for callee in trace.find_callees(key)}
    inside = {*keys, *reached}
    return {
        symbols[key]: place
        for key, place in reached.items()
        if key in symbols and key in trace.functions and set(trace.functions[key].callers) <= inside
    }


def build_part(one: ProposedPart, code: CodeIndex) -> RepositoryPart:
    """Return a part as it is recorded; its line is the first that it edits, otherwise that of its symbol."""
    lines = [each.node.lineno for each in code.definitions if (each.path, each.symbol) == (one.path, one.symbol)]
    edits = [edit for way in one.ways for edit in way.edits if edit.path == one.path and edit.old]
    if edits and one.path in code.texts:
        lines = [_find_edited_line(code.texts[one.path], edits[0])]
    return RepositoryPart(
        name=one.name,
        kind="optional" if one.ways[0].words else "one of several",
        path=one.path,
        symbol=one.symbol,
        line=lines[0] if lines else 1,
        why=one.why,
        prior=one.prior,
        mutations=tuple(
            RepositoryMutation(
                kind="replace" if way.edits else "option", what=way.what, words=way.words, edits=way.edits
            )
            for way in one.ways
        ),
    )


def _find_edited_line(text: str, edit: RepositoryEdit) -> int:
    """Return the number of the first line that an edit changes; `old` may begin with lines that it keeps."""
    start = text[: max(0, text.find(edit.old))].count("\n") + 1
    pairs = zip(edit.old.split("\n"), edit.new.split("\n"), strict=False)
    kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return start + min(kept, edit.old.rstrip("\n").count("\n"))


def apply_edits(edits: Sequence[RepositoryEdit], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the files that edits change, with their new text. Raises `RepositoryError`."""
    after: dict[str, str] = {}
    for edit in edits:
        after[edit.path] = apply_edit(after.get(edit.path, texts.get(edit.path)), edit)
    return after
