"""Work that an author with tools does in a study of a repository, and the rules by which it is accepted.

An author finds and repairs the command (`baseline_reproduction`) and names the parts to take out (`propose_parts`),
shown the facts of `program_facts`. What it hands in is checked without its help: the command is run, files that compute
the metric may not change, edits must apply. Text of the repository is material, not instructions. Without a language
model, the offline model names the parts (`models.offline.repository_author`), through the same tools.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import PurePosixPath
from typing import TypeVar

from packaging.utils import canonicalize_name

from labwright.models.author import Author, AuthorLimits, AuthorWork
from labwright.models.client import ModelClient
from labwright.models.roles.experiment_code import CoderFact, CoderInputs, HandIn
from labwright.models.roles.repository import PartsInputs, ProposedParts
from labwright.record.events.repository_events import PartsFound
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.repository import PartWay, ProposedPart, RepositoryCommand, RepositoryPart, UnexaminedPart
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.isolation.interpreter import inspect_interpreter, list_distributions
from labwright.sandbox.job import RepositoryError
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.environment import RepositoryEnvironment
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.sandbox.repository.scratch_tree import MAX_COMMAND_SECONDS, open_scratch_tree
from labwright.sandbox.repository.trace import CallTrace
from labwright.sandbox.settings import SandboxSettings
from labwright.stages.document_summaries import format_statements, read_context
from labwright.stages.measuring import TooLate
from labwright.stages.repository.arm_runs import CommandSetup
from labwright.stages.repository.patch_scope import (
    CodeIndex,
    find_tampering,
    index_code,
    list_changed_symbols,
    list_imported_modules,
)
from labwright.stages.repository.program_facts import (
    find_key_line,
    find_metric_places,
    list_functions,
    list_method_facts,
    list_switches,
)
from labwright.stages.run_context import RunContext, decision_number, wait_to_start

H = TypeVar("H", bound=HandIn)
MAX_COMPLAINTS = 8
"""Maximum number of reasons that an author is shown at once."""


async def let_author_work(
    context: RunContext,
    work: str | ModelClient,
    setup: CommandSetup,
    inputs: CoderInputs,
    result: type[H],
    check: Callable[[H, str], Awaitable[str]],
    find_environment: Callable[[], RepositoryEnvironment] | None = None,
    *,
    protected: Sequence[str] = (),
) -> AuthorWork[H]:
    """Let an author work on a scratch copy of the setup's tree, and return what it made.

    `work` is the client of a node, or the name of a task outside the search, which ends at a limit of the study.
    `find_environment` returns the environment of its commands, if that is not the setup's. `protected` are patterns of
    files that may not change, besides those of the settings.

    Raises `ModelError`, `ExecutorError`, `RepositoryError`.
    """
    executor, repository = context.executor, context.studied
    frozen = (*protected, *repository.settings.frozen)
    assert isinstance(executor, LocalExecutor) and executor.repository is not None
    if isinstance(work, str):
        await wait_to_start(context)
        client = context.models.make_client(decision_number(context.recorder, RunTask(task=work)), 0)
    else:
        client = work

    async def run_command(job: CommandJob) -> CommandOutcome:
        if find_environment is not None:
            job = replace(job, environment=(await asyncio.to_thread(find_environment)).command_environment)
        return await executor.run_command(replace(job, timeout=max(1.0, min(job.timeout, context.seconds_left()))))

    async with open_scratch_tree(
        repository.mirror,
        setup.tree,
        setup.environment.command_environment,
        run_command,
        name=f"author-{client.decision}",
        frozen=frozen,
        env=setup.command.env,
        redact=executor.repository.redactor.redact,
    ) as tools:
        inputs = inputs.model_copy(update={"steps": AuthorLimits().steps, "frozen": frozen})
        author = Author(client, tools, result, check)
        if isinstance(work, str):
            author.find_limit = lambda: context.state.limit_reason
        return await author.work(inputs)


# --- facts ------------------------------------------------------------------------------------------------------------


async def list_document_facts(context: RunContext) -> list[CoderFact]:
    """Return what the user's documents say, such as the paper of the repository. Source: AblateCell, section 3.5.
    Raises `ModelError`."""
    await read_context(context)
    lines = format_statements(context.state.paper.context)
    return [CoderFact(title="What the user's documents say, by page", text="\n".join(lines))] if lines else []


def format_limits(context: RunContext) -> str:
    """Describe how long one run may take, and one command of the author."""
    left = context.seconds_left()
    return (
        f"One run may take {min(context.node_seconds, left):.0f} s, a command of yours {MAX_COMMAND_SECONDS:.0f} s"
        + (f"; {left:.0f} s are left for the whole study." if isfinite(left) else ".")
    )


def format_machine(sandbox: SandboxSettings, environment: RepositoryEnvironment, code: CodeIndex) -> str:
    """Describe the device, Python, the packages that the repository imports, and what it requires but does not get."""
    command, facts = environment.command_environment, environment.facts
    runs = inspect_interpreter(command.python)
    modules = list_distributions(command.python, *filter(None, [command.packages and str(command.packages)]))
    packages, missing = find_imported({**runs.packages, **facts.packages}, modules, code)
    lacking = [f"{one.wanted}: {one.found or 'not available'}" for one in facts.deviations]
    return (
        f"Device: {sandbox.device}. Python {runs.version}. Packages that the repository imports: "
        + (", ".join(f"{name} {version}" for name, version in sorted(packages.items())) or "none")
        + (f"\nModules that it imports and that are not installed: {', '.join(missing)}" if missing else "")
        + ("\nRequired but different here: " + "; ".join(lacking) if lacking else "")
    )


def find_imported(
    packages: Mapping[str, str], modules: Mapping[str, Sequence[str]], code: CodeIndex
) -> tuple[dict[str, str], list[str]]:
    """Return the distributions, with their versions, that Python files of a repository import, and the modules that
    neither a distribution, nor Python, nor the repository has. `modules` maps modules to their distributions; others
    have the name of theirs.
    """
    known = {canonicalize_name(name): name for name in packages}
    own = {PurePosixPath(part).stem for path in code.trees for part in path.split("/")}
    found, missing = dict[str, str](), list[str]()
    for module in sorted(list_imported_modules(code) - own - sys.stdlib_module_names):
        names = [known[one] for name in modules.get(module, (module,)) if (one := canonicalize_name(name)) in known]
        found |= {name: packages[name] for name in names}
        missing += [module] * (not names)
    return found, missing


# --- the command ------------------------------------------------------------------------------------------------------


def find_preparation_faults(
    before: RepositoryCommand | None, after: RepositoryCommand, texts: Mapping[str, str], changed: Mapping[str, str]
) -> Iterator[str]:
    """Yield the reasons to refuse a command with its changes of files. `before` is the command that is kept, if any."""
    if before is not None:
        known, now = _parse_values(before.argv), _parse_values(after.argv)
        for name, value in now.items():
            if name in known and value not in (known[name], "{seed}"):
                yield f"{name} has a different value, {value!r}: only what the program rejects may change"
    for path, text in changed.items():
        why = find_tampering(path, texts.get(path, ""), text)
        if why and not why.endswith("the syntax tree is unchanged"):
            yield why


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


async def propose_parts(context: RunContext, setup: CommandSetup, trace: CallTrace, surroundings: str) -> PartsFound:
    """Return the parts that an author names, what it left out, and why there are no parts; without a budget of runs.
    Raises `TooLate` if a limit of the study came first."""
    code = index_code(context.studied.mirror.read_texts(setup.tree))
    inputs = PartsInputs(
        known=(*await list_document_facts(context), *list_method_facts(code, setup.command)),
        functions=list_functions(code, trace),
        switches=list_switches(code, setup.command),
        metric_places=find_metric_places(code, setup.command),
        surroundings=f"{surroundings}\n{format_machine(context.sandbox, setup.environment, code)}",
    )

    async def check(answer: ProposedParts, tree: str) -> str:
        wrong = await asyncio.to_thread(lambda: list(find_part_faults(answer, setup.command, code)))
        more = f"; and {len(wrong) - MAX_COMPLAINTS} more" if len(wrong) > MAX_COMPLAINTS else ""
        return "\n".join(wrong[:MAX_COMPLAINTS]) + more

    made = await let_author_work(context, "parts", setup, inputs, ProposedParts, check)
    if made.result is None:
        if context.state.limit_reason is not None:
            raise TooLate
        return PartsFound(parts=(), budget=0, why=f"the author named no parts: {made.ended}")
    left = [one.partition(":") for one in made.result.left_out]
    rest = {
        name.strip(): UnexaminedPart(name=name.strip(), kind="author", why=why.strip() or "no part of the method")
        for name, _, why in left
    }
    parts = tuple(build_part(one, code) for one in made.result.parts)
    return PartsFound(
        budget=0,
        parts=parts,
        rest=tuple(one for name, one in rest.items() if name not in {part.name for part in parts}),
        whole=made.result.whole,
        why=made.result.reasons,
    )


def find_part_faults(answer: ProposedParts, command: RepositoryCommand, code: CodeIndex) -> Iterator[str]:
    """Yield the reasons to refuse proposed parts: edits that do not apply or touch what makes data, targets or the
    metric."""
    names = [one.name for one in answer.parts]
    for name in {name for name in names if names.count(name) > 1}:
        yield f"{name}: two parts have this name"
    for place in (*answer.data, *answer.targets, *answer.metric):
        if why := _explain_unknown_place(place, code):
            yield f"{place}: {why}"
    fixed = {*answer.data, *answer.targets, *answer.metric}
    ways = [(f"{part.name}, way {number}", way) for part in answer.parts for number, way in enumerate(part.ways, 1)]
    for name, way in (*ways, *([("whole", answer.whole)] if answer.whole is not None else [])):
        if why := _find_way_fault(way, command, code, fixed):
            yield f"{name}: {why}"
    for part in answer.parts:
        if part.path not in code.texts:
            yield f"{part.name}: there is no text file {part.path}"


def _find_way_fault(way: PartWay, command: RepositoryCommand, code: CodeIndex, fixed: set[str]) -> str:
    if not way.edits and not way.words:
        return "it changes nothing: give words or edits"
    after: dict[str, str] = {}
    try:
        for edit in way.edits:
            after[edit.path] = apply_edit(after.get(edit.path, code.texts.get(edit.path)), edit)
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
    return ""


def _explain_unknown_place(place: str, code: CodeIndex) -> str:
    path, _, symbol = place.partition(":")
    if path not in code.texts:
        return "" if "/" in path or "." in path else "write path:symbol, or path for a whole file"
    known = {"<module>"} | {one.symbol for one in code.definitions if one.path == path}
    known |= {one.owner.name for one in code.definitions if one.path == path and one.owner is not None}
    return f"{path} has no function or class {symbol}" if symbol and symbol not in known else ""


def build_part(one: ProposedPart, code: CodeIndex) -> RepositoryPart:
    """Return a part as it is recorded, with the line of its symbol."""
    lines = [each.node.lineno for each in code.definitions if (each.path, each.symbol) == (one.path, one.symbol)]
    line = lines[0] if lines else find_key_line(code.texts.get(one.path, ""), one.symbol)
    return RepositoryPart(**dict(one), line=line)
