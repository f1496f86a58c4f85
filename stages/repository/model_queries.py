"""Ask a model about a repository, and check its answers.

Rules come first. A model is asked for the command if none is found, for a repair if no known one helps, for priors and
missing parts, and for a patch if no rule could remove a part. Repairs and patches are refused if they change the
metric, exceed their scope or swallow exceptions. Text from the repository is treated as data, not as instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff

from labwright.models.client import Models
from labwright.models.roles.repository import (
    COMMAND,
    PARTS,
    PATCH,
    PATCH_CHECK,
    REPAIR,
    AddedPart,
    CommandChoice,
    CommandInputs,
    CommandLine,
    FoundPart,
    PartsInputs,
    PatchCheckInputs,
    PatchInputs,
    RepairInputs,
    ShownFile,
    TriedRepair,
)
from labwright.record.baseline_check import ExpectedError, parse_expected
from labwright.record.event_log import Recorder
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import CellRun
from labwright.record.schema.repository import (
    RepositoryCommand,
    RepositoryEdit,
    RepositoryMutation,
    RepositoryPart,
    RepositoryRepair,
    UnexaminedPart,
)
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.isolation.interpreter import inspect_interpreter
from labwright.sandbox.repository.environment import find_requirements
from labwright.sandbox.repository.git_mirror import apply_edit
from labwright.sandbox.repository.metric import PREDICTIONS_KIND
from labwright.sandbox.repository.trace import CallTrace
from labwright.stages.repository.arm_runs import CommandSetup
from labwright.stages.repository.code_index import CodeIndex, FunctionDefinition, index_code
from labwright.stages.repository.command_discovery import (
    find_script,
    find_unknown_options,
    insert_seed,
    list_candidates,
)
from labwright.stages.repository.component_discovery import ComponentInventory
from labwright.stages.repository.config_options import find_options
from labwright.stages.repository.patch_scope import check_patch_scope, find_tampering
from labwright.stages.repository.repository_context import excerpt_around, list_configuration_files
from labwright.stages.run_context import decision_number

MAX_PATCH_FILES, MAX_PATCH_LINES = 4, 40
"""Maximum files and lines of a patch."""
MAX_TURNS = 2
"""Maximum number of attempts per question: the second one states the errors of the first."""


@dataclass
class ModelQueries:
    """Asks models about one repository. Questions are numbered, so a resumed run does not repeat any."""

    models: Models
    recorder: Recorder

    async def choose_command(
        self, texts: Mapping[str, str], given_command: RepositoryCommand | None, metric: str
    ) -> CommandChoice | None:
        """Return a command and metric that the code supports. Raises `ModelError`."""
        code, complaints = index_code(texts), tuple[str, ...]()
        ask = self.models.make_client(decision_number(self.recorder, RunTask(task="command")), 0)
        found = list_candidates(texts)
        for _ in range(MAX_TURNS):
            choice = await ask.ask_or_none(
                COMMAND,
                CommandInputs(
                    documents=read_documents(texts),
                    files=tuple(sorted(texts)),
                    metric=metric,
                    complaints=complaints,
                    candidates=tuple(
                        CommandLine(words=one.argv, where=one.location, wrong=one.wrong) for one in found[:8]
                    ),
                    options=tuple(str(one) for one in find_options(code)[:60]),
                    command=given_command.argv if given_command is not None else (),
                ),
                instead="the user is asked for the command",
            )
            if choice is None:
                return None
            choice = choice.model_copy(update={"words": insert_seed(choice.words, code)})
            wrong = find_unknown_options(choice.words, code) or (
                ""
                if find_script(choice.words, texts) or given_command is not None
                else f"there is no {choice.words[1]}"
            )
            unread = explain_unreadable(choice.expected)
            if not wrong and not unread:
                return choice
            complaints = (*([f"{' '.join(choice.words)}: {wrong}"] if wrong else []), *([unread] if unread else []))
        return None

    async def propose_repair(
        self, run: CellRun, setup: CommandSetup, texts: Mapping[str, str]
    ) -> RepositoryRepair | None:
        """Return an allowed repair of a failed run; None if there is none. Raises `ModelError`."""
        tried = self.recorder.state.repository.repairs
        ask = self.models.make_client(decision_number(self.recorder, RunTask(task=f"repair {len(tried) + 1}")), 0)
        have = inspect_interpreter(setup.environment.command_environment.python)
        packages = {**have.packages, **setup.environment.packages}
        complaints = tuple[str, ...]()
        for _ in range(MAX_TURNS):
            answer = await ask.ask_or_none(
                REPAIR,
                RepairInputs(
                    words=setup.command.argv,
                    metric=setup.command.metric,
                    stopped=run.failure.message if run.failure is not None else "",
                    output=run.stdout_tail,
                    python=have.version,
                    files=tuple(sorted(texts)),
                    complaints=complaints,
                    packages=tuple(
                        f"{one.name} {packages.get(one.name, 'is not there')}" for one in find_requirements(texts)
                    ),
                    shown=(*find_named_places(run.stdout_tail, texts), *_read_configuration(setup.command, texts)),
                    tried=tuple(TriedRepair(reason=one.repair.reason, kept=one.kept, then=one.then) for one in tried),
                ),
                instead="the baseline is given up",
            )
            if answer is None or answer.repair is None:
                return None
            why = check_repair(answer.repair, setup.command, texts)
            if not why:
                return answer.repair
            complaints = (why,)
        return None

    async def assess_parts(
        self, inventory: ComponentInventory, command: RepositoryCommand, trace: CallTrace, texts: Mapping[str, str]
    ) -> ComponentInventory:
        """Return the inventory with priors and with parts added by a model; parts whose code did not run are listed
        as not examined.
        """
        if not inventory.parts:
            return inventory
        code = index_code(texts)
        known = {f"{one.path}:{one.symbol}": one for one in code.definitions if one.key in trace.functions}
        answer = await self.models.make_client(decision_number(self.recorder, RunTask(task="parts")), 0).ask_or_none(
            PARTS,
            PartsInputs(
                documents=read_documents(texts),
                words=command.argv,
                metric=command.metric,
                symbols=tuple(known),
                parts=tuple(
                    FoundPart(
                        name=part.name,
                        kind=part.kind,
                        where=f"{part.path}:{part.line}",
                        ways=tuple(way.what for way in part.mutations),
                        excerpt=_read_excerpt(part, texts),
                    )
                    for part in inventory.parts
                ),
                others=tuple(f"{one.name}: {one.why}" for one in inventory.rest),
            ),
            instead="all parts count as equally likely",
        )
        if answer is None:
            return inventory
        notes = {one.name: one for one in answer.parts}
        kept = tuple(
            part.model_copy(update={"prior": notes[part.name].prior})
            for part in inventory.parts
            if not notes[part.name].drop
        )
        dropped = tuple(
            UnexaminedPart(name=one.name, kind="decoy", why=f"excluded by a model: {one.why or 'not a part'}")
            for one in answer.parts
            if one.drop
        )
        added = [
            (one, known.get(f"{one.path}:{one.symbol}"))
            for one in answer.added
            if one.name not in notes
            and not any((part.path, part.symbol) == (one.path, one.symbol) for part in inventory.parts)
        ]
        nowhere = tuple(
            UnexaminedPart(
                name=one.name, kind="budget", why=f"proposed by a model, but no {one.symbol} ran in {one.path}"
            )
            for one, place in added
            if place is None
        )
        return replace(
            inventory,
            parts=(*kept, *(_build_added_part(one, place) for one, place in added if place is not None)),
            rest=(*inventory.rest, *dropped, *nowhere),
        )

    async def write_patch(
        self, part: RepositoryPart, tried: Sequence[str], command: RepositoryCommand, texts: Mapping[str, str]
    ) -> tuple[RepositoryMutation | None, str]:
        """Return edits that remove a part and pass all checks, or None with the reason."""
        ask = self.models.make_client(decision_number(self.recorder, RunTask(task=f"patch {part.name}")), 0)
        code, complaints = index_code(texts), tuple[str, ...]()
        for _ in range(MAX_TURNS):
            answer = await ask.ask_or_none(
                PATCH,
                PatchInputs(
                    part=part.name,
                    where=f"{part.path}:{part.line}",
                    why=part.why,
                    tried=tuple(tried),
                    complaints=complaints,
                    shown=(excerpt_around(part.path, part.line, texts),),
                    callers=_find_callers(part, code),
                ),
                instead="the part is not measured",
            )
            if answer is None or not answer.edits:
                return None, "no change" if answer is None else answer.what
            mutation = RepositoryMutation(kind="replace", what=answer.what, edits=answer.edits)
            why = check_scope(mutation, part, command, texts)
            if why:
                complaints = (why,)
                continue
            check = await ask.ask_or_none(
                PATCH_CHECK,
                PatchCheckInputs(
                    part=part.name,
                    where=f"{part.path}:{part.line}",
                    what=answer.what,
                    difference=_format_difference(answer.edits, texts),
                ),
                instead="the patch stays unverified",
            )
            if check is not None and check.agrees:
                return mutation, ""
            complaints = (check.why if check is not None else "the patch could not be checked",)
        return None, complaints[0]


def explain_unreadable(expected: str) -> str:
    """Return the reason why an expected result is invalid; empty if it is valid or missing."""
    try:
        if expected:
            parse_expected(expected)
    except ExpectedError as error:
        return f"expected: {error}"
    return ""


def read_documents(texts: Mapping[str, str]) -> tuple[ShownFile, ...]:
    """Return the README and nearby documents, truncated to what is shown."""
    names = sorted(
        (path for path in texts if re.search(r"(^|/)README|^docs?/.*\.(md|rst)$|^Makefile$", path)),
        key=lambda path: (path.count("/"), path),
    )
    return tuple(
        ShownFile(path=path, text=texts[path][:12_000], whole=len(texts[path]) <= 12_000) for path in names[:3]
    )


def find_named_places(output: str, texts: Mapping[str, str]) -> tuple[ShownFile, ...]:
    """Return the places of the repository in a traceback, last first, and the files named by its error."""
    found = [(one[1], int(one[2])) for one in re.finditer(r'File "(?:/experiment/)?([^"]+)", line (\d+)', output)]
    places = dict(pair for pair in found if pair[0] in texts)
    named = (one[1] for one in re.finditer(r"[('\"](?:/experiment/)?([\w./-]+\.\w+)[)'\"]", output))
    others = dict.fromkeys(name for name in named if name in texts and name not in places)
    return (
        *(excerpt_around(path, line, texts) for path, line in list(places.items())[::-1][:4]),
        *(
            ShownFile(path=path, text=texts[path][:12_000], whole=len(texts[path]) <= 12_000)
            for path in list(others)[:2]
        ),
    )


# --- limits -----------------------------------------------------------------------------------------------------------


def check_repair(repair: RepositoryRepair, command: RepositoryCommand, texts: Mapping[str, str]) -> str:
    """Return the reason why a repair is not allowed; empty if it is allowed."""
    if repair.kind == "pythonpath":
        return "" if repair.env.get("PYTHONPATH") else "env must set PYTHONPATH"
    if repair.kind == "argv":
        before, after = _parse_values(command.argv), _parse_values(repair.argv)
        other = next((name for name, value in after.items() if name in before and before[name] != value), "")
        return (
            f"{other} has a different value: only what the program rejects may change"
            if other
            else ("" if repair.argv else "argv is empty")
        )
    if repair.kind != "patch":
        return "" if repair.pins or repair.env else f"{repair.kind} is empty"
    try:
        after = _apply_edits(repair.edits, texts)
    except RepositoryError as error:
        return str(error)
    return next((why for path, text in after.items() if (why := find_tampering(path, texts.get(path, ""), text))), "")


def check_scope(
    mutation: RepositoryMutation, part: RepositoryPart, command: RepositoryCommand, texts: Mapping[str, str]
) -> str:
    """Return how a patch does more than remove a part; empty if the patch may be tried."""
    try:
        after = _apply_edits(mutation.edits, texts)
    except RepositoryError as error:
        return str(error)
    lines = sum(len(edit.new.splitlines()) for edit in mutation.edits)
    if len(after) > MAX_PATCH_FILES or lines > MAX_PATCH_LINES:
        return (
            f"it changes {len(after)} files and {lines} lines; the limits are {MAX_PATCH_FILES} and {MAX_PATCH_LINES}"
        )
    if command.metric.removeprefix(f"{PREDICTIONS_KIND}:").partition(":")[0].partition("@")[0] in after:
        return "it changes the file that the metric is read from"
    for path, text in after.items():
        if why := find_tampering(path, texts.get(path, ""), text):
            return why
        if path.endswith(".py"):
            target = part.symbol if path == part.path else part.symbol.rpartition(".")[2]
            scope = check_patch_scope(texts.get(path, ""), text, target)
            if scope.verdict not in ("in scope", "decoy"):
                return f"{path}: {scope.why}"
    return ""


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


def _apply_edits(edits: Sequence[RepositoryEdit], texts: Mapping[str, str]) -> dict[str, str]:
    after: dict[str, str] = {}
    for edit in edits:
        after[edit.path] = apply_edit(after.get(edit.path, texts.get(edit.path)), edit)
    return after


# --- excerpts ---------------------------------------------------------------------------------------------------------


def _find_callers(part: RepositoryPart, code: CodeIndex) -> tuple[ShownFile, ...]:
    """Return the places outside a part's own file that use its name."""
    name = re.compile(rf"\b{re.escape(part.symbol.rpartition('.')[2] if '.' not in part.symbol else part.name)}\b")
    found = [
        (path, at)
        for path, text in code.texts.items()
        if path.endswith(".py") and path != part.path
        for at, line in enumerate(text.splitlines(), 1)
        if name.search(line) and not line.startswith(("from ", "import "))
    ]
    return tuple(excerpt_around(path, at, code.texts) for path, at in list(dict(found).items())[:3])


def _read_excerpt(part: RepositoryPart, texts: Mapping[str, str]) -> str:
    """Return the first lines of a part, up to the next statement at its indentation."""
    lines = texts.get(part.path, "").splitlines(keepends=True)[part.line - 1 : part.line + 15]
    depth = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    ends = next(
        (
            at
            for at, line in enumerate(lines)
            if at
            and line.strip()
            and len(line) - len(line.lstrip()) <= depth
            and not line.lstrip().startswith((")", "]"))
        ),
        len(lines),
    )
    return "".join(lines[:ends]).rstrip() + "\n"


def _read_configuration(command: RepositoryCommand, texts: Mapping[str, str]) -> tuple[ShownFile, ...]:
    return tuple(
        ShownFile(path=path, text=texts[path][:4000], whole=len(texts[path]) <= 4000)
        for path in list_configuration_files(command.argv, texts, index_code(texts))[:2]
    )


def _build_added_part(one: AddedPart, place: FunctionDefinition) -> RepositoryPart:
    """Build a part without a rule-based mutation, for which a patch is requested."""
    return RepositoryPart(
        name=one.name,
        kind="one of several",
        path=place.path,
        symbol=place.symbol,
        line=place.node.lineno,
        why=one.why,
        prior=one.prior,
        mutations=(),
    )


def _format_difference(edits: Sequence[RepositoryEdit], texts: Mapping[str, str]) -> str:
    after = _apply_edits(edits, texts)
    return "".join(
        line
        for path, text in after.items()
        for line in unified_diff(
            texts.get(path, "").splitlines(keepends=True), text.splitlines(keepends=True), path, path, n=6
        )
    )
