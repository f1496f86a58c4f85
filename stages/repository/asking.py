"""What a model is asked about a repository, and which of its answers are taken.

A program decides what rules can: a model is asked for the command where none is found, for a repair where no known one
helps, for priors and what the inventory lacks, and for a patch where no rule took a part out. Its repairs and patches
are refused where they change the metric, more than they may, or swallow exceptions. What a repository says is data.
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
    Shown,
    TriedRepair,
)
from labwright.record.expected import ExpectedError, parse_expected
from labwright.record.log import EventLog
from labwright.record.nouns.decisions import Work
from labwright.record.nouns.repository import Command, CommandRun, Edit, Mutation, NotExamined, Part, Repair
from labwright.sandbox.errors import RepositoryError
from labwright.sandbox.isolation.interpreter import interpreter
from labwright.sandbox.repository.environment import wanted_in
from labwright.sandbox.repository.metric import PREDICTIONS
from labwright.sandbox.repository.mirror import changed
from labwright.sandbox.repository.trace import Trace
from labwright.stages.bench import numbered
from labwright.stages.repository.code import Code, Definition, code_in
from labwright.stages.repository.commands import candidates, script_of, with_seed, wrong_options
from labwright.stages.repository.context import around, configured
from labwright.stages.repository.inventory import Inventory
from labwright.stages.repository.options import options_in
from labwright.stages.repository.runs import Setup
from labwright.stages.repository.scope import patch_scope, tampers

MOST_FILES, MOST_LINES = 4, 40
"""What a patch may change."""
TURNS = 2
"""Times that a model is asked for one thing: once more with what is wrong."""


@dataclass
class Asking:
    """Asks models about one repository; each question has a number of its own, so a resume asks nothing again."""

    models: Models
    recorder: EventLog

    async def command(self, texts: Mapping[str, str], given: Command | None, metric: str) -> CommandChoice | None:
        """Command and metric, where the code bears them out. Raises `ModelError`."""
        code, complaints = code_in(texts), tuple[str, ...]()
        ask = self.models.at(numbered(self.recorder, Work(task="command")), 0)
        found = candidates(texts)
        for _ in range(TURNS):
            choice = await ask.usable(
                COMMAND,
                CommandInputs(
                    documents=documents(texts),
                    files=tuple(sorted(texts)),
                    metric=metric,
                    complaints=complaints,
                    candidates=tuple(
                        CommandLine(words=one.argv, where=one.where, wrong=one.wrong) for one in found[:8]
                    ),
                    options=tuple(
                        f"{one.path}: {', '.join(one.flags)} (default {one.value!r})" for one in options_in(code)
                    )[:60],
                    command=given.argv if given is not None else (),
                ),
                then="the person is asked for the command",
            )
            if choice is None:
                return None
            choice = choice.model_copy(update={"words": with_seed(choice.words, code)})
            wrong = wrong_options(choice.words, code) or (
                "" if script_of(choice.words, texts) or given is not None else f"there is no {choice.words[1]}"
            )
            unread = _unread(choice.expected)
            if not wrong and not unread:
                return choice
            complaints = (*([f"{' '.join(choice.words)}: {wrong}"] if wrong else []), *([unread] if unread else []))
        return None

    async def repair(self, signature: str, run: CommandRun, setup: Setup, texts: Mapping[str, str]) -> Repair | None:
        """A repair of what stopped a run; None where there is none that may be made. Raises `ModelError`."""
        tried = self.recorder.state.code.repairs
        ask = self.models.at(numbered(self.recorder, Work(task=f"repair {len(tried) + 1}")), 0)
        have = interpreter(setup.environment.ground.python)
        packages = {**have.packages, **setup.environment.packages}
        complaints = tuple[str, ...]()
        for _ in range(TURNS):
            answer = await ask.usable(
                REPAIR,
                RepairInputs(
                    words=setup.command.argv,
                    metric=setup.command.metric,
                    signature=signature,
                    output=run.stdout_tail,
                    python=have.version,
                    files=tuple(sorted(texts)),
                    complaints=complaints,
                    packages=tuple(f"{one.name} {packages.get(one.name, 'is not there')}" for one in wanted_in(texts)),
                    shown=(*named_in(run.stdout_tail, texts), *_configuration(setup.command, texts)),
                    tried=tuple(TriedRepair(reason=one.repair.reason, kept=one.kept, then=one.then) for one in tried),
                ),
                then="the baseline is given up",
            )
            if answer is None or answer.repair is None:
                return None
            why = refused(answer.repair, setup.command, texts)
            if not why:
                return answer.repair
            complaints = (why,)
        return None

    async def parts(self, found: Inventory, command: Command, trace: Trace, texts: Mapping[str, str]) -> Inventory:
        """The inventory with priors, and with parts that a reader adds; what points nowhere is dropped and told."""
        if not found.parts:
            return found
        code = code_in(texts)
        known = {f"{one.path}:{one.symbol}": one for one in code.definitions if one.key in trace.functions}
        answer = await self.models.at(numbered(self.recorder, Work(task="parts")), 0).usable(
            PARTS,
            PartsInputs(
                documents=documents(texts),
                words=command.argv,
                metric=command.metric,
                symbols=tuple(known),
                parts=tuple(
                    FoundPart(
                        name=part.name,
                        kind=part.kind,
                        where=f"{part.path}:{part.line}",
                        ways=tuple(way.what for way in part.mutations),
                        excerpt=_excerpt(part, texts),
                    )
                    for part in found.parts
                ),
                others=tuple(f"{one.name}: {one.why}" for one in found.rest),
            ),
            then="all parts count as equally likely",
        )
        if answer is None:
            return found
        notes = {one.name: one for one in answer.parts}
        kept = tuple(
            part.model_copy(update={"prior": notes[part.name].prior})
            for part in found.parts
            if not notes[part.name].drop
        )
        dropped = tuple(
            NotExamined(name=one.name, kind="decoy", why=f"by a reader: {one.why or 'no part'}")
            for one in answer.parts
            if one.drop
        )
        added = [
            (one, known.get(f"{one.path}:{one.symbol}"))
            for one in answer.added
            if one.name not in notes
            and not any((part.path, part.symbol) == (one.path, one.symbol) for part in found.parts)
        ]
        nowhere = tuple(
            NotExamined(
                name=one.name, kind="budget", why=f"a reader's, but there is no {one.symbol} in {one.path} that ran"
            )
            for one, place in added
            if place is None
        )
        return replace(
            found,
            parts=(*kept, *(_added(one, place) for one, place in added if place is not None)),
            rest=(*found.rest, *dropped, *nowhere),
        )

    async def patch(
        self, part: Part, tried: Sequence[str], command: Command, texts: Mapping[str, str]
    ) -> tuple[Mutation | None, str]:
        """Edits that take a part out, where they pass the gates; else why not."""
        ask = self.models.at(numbered(self.recorder, Work(task=f"patch {part.name}")), 0)
        code, complaints = code_in(texts), tuple[str, ...]()
        for _ in range(TURNS):
            answer = await ask.usable(
                PATCH,
                PatchInputs(
                    part=part.name,
                    where=f"{part.path}:{part.line}",
                    why=part.why,
                    tried=tuple(tried),
                    complaints=complaints,
                    shown=(around(part.path, part.line, texts),),
                    callers=_callers(part, code),
                ),
                then="the part is not measured",
            )
            if answer is None or not answer.edits:
                return None, "no change" if answer is None else answer.what
            mutation = Mutation(kind="replace", what=answer.what, edits=answer.edits)
            why = out_of_scope(mutation, part, command, texts)
            if why:
                complaints = (why,)
                continue
            check = await ask.usable(
                PATCH_CHECK,
                PatchCheckInputs(
                    part=part.name,
                    where=f"{part.path}:{part.line}",
                    what=answer.what,
                    difference=_difference(answer.edits, texts),
                ),
                then="the patch stays unverified",
            )
            if check is not None and check.agrees:
                return mutation, ""
            complaints = (check.why if check is not None else "nobody could check it",)
        return None, complaints[0]


def _unread(expected: str) -> str:
    """Why an expected result cannot be read; empty where it can, or there is none."""
    try:
        if expected:
            parse_expected(expected)
    except ExpectedError as error:
        return f"expected: {error}"
    return ""


def documents(texts: Mapping[str, str]) -> tuple[Shown, ...]:
    """The README and what lies beside it, as far as it is shown."""
    names = sorted(
        (path for path in texts if re.search(r"(^|/)README|^docs?/.*\.(md|rst)$|^Makefile$", path)),
        key=lambda path: (path.count("/"), path),
    )
    return tuple(Shown(path=path, text=texts[path][:12_000], whole=len(texts[path]) <= 12_000) for path in names[:3])


def named_in(output: str, texts: Mapping[str, str]) -> tuple[Shown, ...]:
    """The places of the repository that a traceback names, the last first, and the files that its error names."""
    found = [(one[1], int(one[2])) for one in re.finditer(r'File "(?:/experiment/)?([^"]+)", line (\d+)', output)]
    places = dict(pair for pair in found if pair[0] in texts)
    named = (one[1] for one in re.finditer(r"[('\"](?:/experiment/)?([\w./-]+\.\w+)[)'\"]", output))
    others = dict.fromkeys(name for name in named if name in texts and name not in places)
    return (
        *(around(path, line, texts) for path, line in list(places.items())[::-1][:4]),
        *(Shown(path=path, text=texts[path][:12_000], whole=len(texts[path]) <= 12_000) for path in list(others)[:2]),
    )


# --- what may not be --------------------------------------------------------------------------------------------------


def refused(repair: Repair, command: Command, texts: Mapping[str, str]) -> str:
    """Why a repair may not be made; empty where it may."""
    if repair.kind == "pythonpath":
        return "" if repair.env.get("PYTHONPATH") else "env must name PYTHONPATH"
    if repair.kind == "argv":
        before, after = _values(command.argv), _values(repair.argv)
        other = next((name for name, value in after.items() if name in before and before[name] != value), "")
        return (
            f"{other} has another value: only what the program does not know may change"
            if other
            else ("" if repair.argv else "argv is empty")
        )
    if repair.kind != "patch":
        return "" if repair.pins or repair.env else f"{repair.kind} is empty"
    try:
        after = _applied(repair.edits, texts)
    except RepositoryError as error:
        return str(error)
    return next((why for path, text in after.items() if (why := tampers(path, texts.get(path, ""), text))), "")


def out_of_scope(mutation: Mutation, part: Part, command: Command, texts: Mapping[str, str]) -> str:
    """Why a patch does not take out a part, and nothing else, by what it changes; empty where it may be tried."""
    try:
        after = _applied(mutation.edits, texts)
    except RepositoryError as error:
        return str(error)
    lines = sum(len(edit.new.splitlines()) for edit in mutation.edits)
    if len(after) > MOST_FILES or lines > MOST_LINES:
        return f"it changes {len(after)} files and {lines} lines: at most {MOST_FILES} and {MOST_LINES}"
    if command.metric.removeprefix(f"{PREDICTIONS}:").partition(":")[0].partition("@")[0] in after:
        return "it changes the file that the metric is read from"
    for path, text in after.items():
        if why := tampers(path, texts.get(path, ""), text):
            return why
        if path.endswith(".py"):
            target = part.symbol if path == part.path else part.symbol.rpartition(".")[2]
            scope = patch_scope(texts.get(path, ""), text, target)
            if scope.verdict not in ("in scope", "decoy"):
                return f"{path}: {scope.why}"
    return ""


def _values(argv: Sequence[str]) -> dict[str, str]:
    """Option or key -> its value."""
    found: dict[str, str] = {}
    for word, after in zip(argv, (*argv[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif word.startswith("--") and not after.startswith("-"):
            found[word] = after
    return found


def _applied(edits: Sequence[Edit], texts: Mapping[str, str]) -> dict[str, str]:
    after: dict[str, str] = {}
    for edit in edits:
        after[edit.path] = changed(after.get(edit.path, texts.get(edit.path)), edit)
    return after


# --- what is shown ----------------------------------------------------------------------------------------------------


def _callers(part: Part, code: Code) -> tuple[Shown, ...]:
    """Places outside of its own file where its name is used."""
    name = re.compile(rf"\b{re.escape(part.symbol.rpartition('.')[2] if '.' not in part.symbol else part.name)}\b")
    found = [
        (path, at)
        for path, text in code.texts.items()
        if path.endswith(".py") and path != part.path
        for at, line in enumerate(text.splitlines(), 1)
        if name.search(line) and not line.startswith(("from ", "import "))
    ]
    return tuple(around(path, at, code.texts) for path, at in list(dict(found).items())[:3])


def _excerpt(part: Part, texts: Mapping[str, str]) -> str:
    """Its first lines, to where the next thing of its depth begins."""
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


def _configuration(command: Command, texts: Mapping[str, str]) -> tuple[Shown, ...]:
    return tuple(
        Shown(path=path, text=texts[path][:4000], whole=len(texts[path]) <= 4000)
        for path in configured(command.argv, texts, code_in(texts))[:2]
    )


def _added(one: AddedPart, place: Definition) -> Part:
    """A part without a way by rule: a patch is asked for."""
    return Part(
        name=one.name,
        kind="one of several",
        path=place.path,
        symbol=place.symbol,
        line=place.node.lineno,
        why=one.why,
        prior=one.prior,
        mutations=(),
    )


def _difference(edits: Sequence[Edit], texts: Mapping[str, str]) -> str:
    after = _applied(edits, texts)
    return "".join(
        line
        for path, text in after.items()
        for line in unified_diff(
            texts.get(path, "").splitlines(keepends=True), text.splitlines(keepends=True), path, path, n=6
        )
    )
