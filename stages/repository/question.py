"""A research question answered by an experiment on a repository: designed, carried out, concluded from measurements.

The design is recorded before any file is changed. A try that fails is mended, a few times. What was measured is read by
the program after the script has exited; numbers and directions of the conclusion are held against it. Everything that
was asked or run is in the log, so that a process which is killed repeats neither.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from fnmatch import fnmatch
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from labwright.models.client import Models
from labwright.models.roles.questions import (
    QUESTION_CODE,
    QUESTION_CONCLUSION,
    QUESTION_DESIGN,
    CodeInputs,
    ConclusionAnswer,
    ConclusionInputs,
    QuestionInputs,
    StatedNumber,
)
from labwright.models.roles.repository import Shown
from labwright.record.edits import applied
from labwright.record.errors import WrongUse
from labwright.record.events.repository import QuestionAnswered, QuestionDesigned, QuestionRan
from labwright.record.folder import sha256
from labwright.record.log import EventLog
from labwright.record.nouns.decisions import Work
from labwright.record.nouns.question import Design, Question, QuestionRun
from labwright.record.repository_source import OUT
from labwright.record.source import SourceError
from labwright.review.evidence.spelled import Counted, numbers_in_words, ratios
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.file_clock import next_time
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.environment import Environment
from labwright.sandbox.repository.left_files import cleared_away
from labwright.sandbox.repository.metric import make_ready, parse_metric, read_metric
from labwright.sandbox.repository.mirror import Mirror
from labwright.sandbox.untrusted import BadFile, remove, write_whole
from labwright.stages.bench import numbered
from labwright.stages.repository.context import Context, context_of, requested
from labwright.stages.repository.results import comparisons_of, counts_of, numbers_of, read_result, result_files
from labwright.stages.repository.stated import Claim, held, is_of, numbers_in, stated_results

RESULTS = f"{OUT}/results.json"
SCRIPT = "reproduce.sh"
TRIES, TURNS, REQUESTS = 5, 3, 3
"""Tries of the experiment; answers to one question of ours; times that an author may ask to see more."""
LEAST_SECONDS = 5.0
"""Less than this is left for no further try."""


@dataclass
class Answering:
    """Works on one question; `run` executes a command in a folder."""

    question: Question
    log: EventLog
    models: Models
    mirror: Mirror
    tree: str
    environment: Environment
    work: Path
    run: Callable[[CommandJob], Awaitable[CommandOutcome]]
    packages: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    async def answer(self) -> dict[str, str]:
        """Bring it to its conclusion, or to why there is none; the files of the last try, the script among them.

        Raises `ModelError`, `ExecutorError`.
        """
        self.texts = self.mirror.texts(self.tree)
        as_it_is = await self._as_it_is()
        design = await self._design(as_it_is)
        files = await self._carry_out(design, as_it_is) if design is not None else {}
        if self.log.state.code.answered is not None:
            return files
        tries = self.log.state.code.tries
        last = tries[max(tries)] if tries else None
        if design is None or last is None or last.why or not files:
            why = (
                "no design could be used"
                if design is None
                else (last.why if last is not None else "") or ("no change could be used")
            )
            self.log.append(QuestionAnswered(conclusion="", why=why))
        else:
            await self._conclude(design, last.results)
        return files

    # --- the repository as it is --------------------------------------------------------------------------------------

    async def _as_it_is(self) -> str:
        """What the command gives over its seeds, where the person gave one. Raises `NoMeasurement`."""
        if not self.question.run:
            return ""
        known = self.log.state.code.tries.get(0)
        if known is None:
            known = await self._baseline()
            self.log.append(QuestionRan(number=0, run=known))
        if known.why:
            raise NoMeasurement(
                f"the repository as it is gives no number: {known.why}; mend run or measure of the question"
            )
        values = known.results["measure"]["as_it_is"]
        return f"{fmean(values):.6g} over {len(values)} seeds, in {known.seconds:.0f} s"

    async def _baseline(self) -> QuestionRun:
        metric, values, seconds = parse_metric(self.question.measure), list[float](), 0.0
        for seed in range(self.question.seeds):
            folder, kept = self._checkout(f"as_it_is-{seed}")
            (stale,) = make_ready(folder, [metric], OUT)
            began = await asyncio.to_thread(next_time, folder)
            outcome = await self.run(
                CommandJob(
                    name=f"as it is, seed {seed}",
                    folder=folder,
                    ground=self.environment.ground,
                    timeout=max(LEAST_SECONDS, self._left(0) - seconds),
                    readable=(kept,),
                    argv=tuple(word.replace("{seed}", str(seed)) for word in self.question.run),
                )
            )
            seconds += outcome.seconds
            reading = read_metric(metric, folder, outcome.stdout, stale=stale, since=began)
            why = outcome.failure or reading.failure
            if why is not None or reading.value is None:
                return QuestionRun(seconds=seconds, why=why.message if why else "no number", tail=outcome.tail)
            values.append(reading.value)
        return QuestionRun(seconds=seconds, exit=0, results={"measure": {"as_it_is": values}})

    # --- design and code ----------------------------------------------------------------------------------------------

    def _inputs(self, as_it_is: str) -> dict[str, Any]:
        context: Context = context_of(self.texts, self.question.run)
        return {
            "asked": self.question,
            "map": context.map,
            "shown": context.shown,
            "left_out": context.left_out,
            "packages": tuple(self.packages),
            "as_it_is": as_it_is,
        }

    async def _design(self, as_it_is: str) -> Design | None:
        known = self.log.state.code.designed
        if known is not None:
            return known.design
        ask = self.models.at(numbered(self.log, Work(task="design")), 0)
        inputs, left, turns = QuestionInputs(**self._inputs(as_it_is), requests_left=REQUESTS), REQUESTS, TURNS
        while turns:
            found = await ask.usable(QUESTION_DESIGN, inputs, then="there is no answer")
            if found is None:
                return None
            if found.design is not None:
                wrong = wrong_design(found.design)
                if not wrong:
                    self.log.append(QuestionDesigned(question=self.question, design=found.design))
                    return found.design
                inputs, turns = inputs.model_copy(update={"complaints": tuple(wrong)}), turns - 1
                continue
            left -= 1
            inputs = self._seen(inputs, found.wants, left)
        return None

    def _seen(self, inputs: Any, wants: Sequence[str], left: int) -> Any:
        shown, missed = requested(wants, self.texts)
        return inputs.model_copy(
            update={"requested": (*inputs.requested, *shown), "requests_left": max(0, left), "complaints": missed}
        )

    async def _carry_out(self, design: Design, as_it_is: str) -> dict[str, str]:
        """The files of the try that measured everything; where none did, those of the last; none: none was made."""
        files, before = dict[str, str](), QuestionRun(seconds=0.0)
        for number in range(1, TRIES + 1):
            if self._left(number) < LEAST_SECONDS and number not in self.log.state.code.tries:
                return files
            made = await self._code(number, design, as_it_is, files, before)
            if made is None:
                return files
            files = made
            known = self.log.state.code.tries.get(number)
            if known is None:
                known = await self._try(number, design, files)
                self.log.append(QuestionRan(number=number, run=known))
            if not known.why:
                return files
            before = known
        return files

    async def _code(
        self, number: int, design: Design, as_it_is: str, files: Mapping[str, str], before: QuestionRun
    ) -> dict[str, str] | None:
        """The changed files with the script, by an author who sees the try before."""
        ask = self.models.at(numbered(self.log, Work(task=f"code {number}")), 0)
        inputs = CodeInputs(
            **self._inputs(as_it_is),
            design=design,
            seconds=self._left(number),
            requests_left=REQUESTS,
            failed=before.why,
            output=before.tail,
            written=tuple(Shown(path=path, text=text) for path, text in files.items()) if before.why else (),
        )
        left, turns = REQUESTS, TURNS
        while turns:
            found = await ask.usable(QUESTION_CODE, inputs, then="there is no answer")
            if found is None:
                return None
            if found.wants and not found.script:
                left -= 1
                inputs = self._seen(inputs, found.wants, left)
                continue
            now = {**self.texts, **files}
            touched = {*files, *(one.path for one in found.edits)}
            try:
                whole = applied(
                    {path: now[path] for path in touched if path in now and path != SCRIPT},
                    files=found.files,
                    edits=found.edits,
                )
            except SourceError as error:
                wrong = [str(error)]
            else:
                made = {path: text for path, text in whole.items() if self.texts.get(path) != text}
                made[SCRIPT] = found.script if found.script.endswith("\n") else f"{found.script}\n"
                wrong = list(wrong_change(made, self.question))
                if not wrong:
                    return made
            inputs, turns = inputs.model_copy(update={"complaints": tuple(wrong)}), turns - 1
        return None

    # --- running ------------------------------------------------------------------------------------------------------

    def _left(self, number: int) -> float:
        """Seconds for a try: what those before it left, whenever that is asked."""
        spent = (one.seconds for at, one in self.log.state.code.tries.items() if at < number)
        return self.question.minutes * 60 - sum(spent)

    def _checkout(self, name: str) -> tuple[Path, Path]:
        """A checkout, and where its large files lie."""
        folder = self.work / name
        cleared_away(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder, self.mirror.checkout(self.tree, folder)

    async def _try(self, number: int, design: Design, files: Mapping[str, str]) -> QuestionRun:
        folder, kept = self._checkout(f"try-{number}")
        try:
            for path, text in files.items():
                write_whole(folder, path, text)
            make_ready(folder, [], OUT)
            remove(folder, RESULTS)
            before = hashes(folder)
            outcome = await self.run(
                CommandJob(
                    name=f"try {number}",
                    folder=folder,
                    argv=("bash", SCRIPT),
                    ground=self.environment.ground,
                    timeout=self._left(number),
                    readable=(kept,),
                )
            )
        except (ExecutorError, BadFile) as error:
            return QuestionRun(seconds=0.0, why=str(error))
        failure, results = outcome.failure, left(folder)
        why = failure.message if failure is not None else wrong_results(results, design)
        now = hashes(folder)
        return QuestionRun(
            seconds=outcome.seconds,
            exit=0 if failure is None else None if failure.kind == "timeout" else 1,
            why=why,
            tail=outcome.tail[-6000:],
            results=results if not why else {},
            files={name: now[name] for name in result_files(before, now)},
        )

    # --- the conclusion -----------------------------------------------------------------------------------------------

    async def _conclude(self, design: Design, results: Mapping[str, Any]) -> None:
        comparisons = comparisons_of([results])
        inputs = ConclusionInputs(
            asked=self.question,
            design=design,
            measured=tuple(measured_lines(results)),
            compared=tuple(compared_lines(comparisons)),
        )
        ask = self.models.at(numbered(self.log, Work(task="conclusion")), 0)
        for _ in range(TURNS):
            found = await ask.usable(QUESTION_CONCLUSION, inputs, then="the comparisons stand as the conclusion")
            if found is None:
                break
            wrong = list(unbound(found, told_of(self.question), results, comparisons))
            if not wrong:
                self.log.append(QuestionAnswered(conclusion=found.conclusion, bound=True))
                return
            inputs = inputs.model_copy(update={"complaints": tuple(wrong)})
        told = "; ".join(compared_lines(comparisons)) or "; ".join(measured_lines(results))
        self.log.append(
            QuestionAnswered(
                conclusion=f"Measured: {told}.",
                bound=True,
                why="no conclusion of the model's keeps to what was measured",
            )
        )


class NoMeasurement(WrongUse):
    """The repository as it is gives no number: command or measure of the question are wrong."""


def left(folder: Path) -> Any:
    """The results that a script left, as a plain file below its folder; None of anything else."""
    return read_result(folder, RESULTS)


# --- what is refused --------------------------------------------------------------------------------------------------


def wrong_design(design: Design) -> list[str]:
    wrong = [
        f"two {what} are called {name}"
        for what, names in (
            ("arms", [one.name for one in design.arms]),
            ("metrics", [one.name for one in design.metrics]),
        )
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    return wrong + (["one arm alone compares nothing: give what it is held against"] if len(design.arms) < 2 else [])


def wrong_change(files: Mapping[str, str], question: Question) -> Iterator[str]:
    """Why a change may not be made."""
    for path in files:
        if any(fnmatch(path, one) for one in question.protect):
            yield f"{path} may not change"
        if path != SCRIPT and question.may_edit and not any(fnmatch(path, one) for one in question.may_edit):
            yield f"{path} may not change: only {', '.join(question.may_edit)}"
        if path == RESULTS:
            yield f"{RESULTS} is what the script measures, and may not be handed in"


def wrong_results(results: Any, design: Design) -> str:
    """Why results cannot be used; empty where every arm has all of its values."""
    if not isinstance(results, dict):
        return f"the script left no {RESULTS} in the form that was asked for"
    lacking = [
        f"{metric.name} of {arm.name}"
        for metric in design.metrics
        for arm in design.arms
        if len(numbers_of(_at(results, metric.name, arm.name)) or ()) < design.seeds
    ]
    return f"{RESULTS} lacks values of {', '.join(lacking[:6])}: {design.seeds} of each" if lacking else ""


def _at(results: Any, metric: str, arm: str) -> Any:
    arms = results.get(metric)
    return arms.get(arm) if isinstance(arms, dict) else None  # pyright: ignore


def told_of(question: Question) -> str:
    """All that an asker says, whose numbers are settings."""
    return "\n".join((question.question, question.method, question.instructions))


def unbound(
    found: ConclusionAnswer, told: str, results: Mapping[str, Mapping[str, Any]], comparisons: Sequence[Claim]
) -> Iterator[str]:
    """What of a conclusion does not follow from what was measured; `told`: what the asker said, whose numbers stand."""
    counts = counts_of([results])
    spelled = Counted(re.compile("[a-z]+"), frozenset(counts))
    yield from (
        f"{one.words!r}: print numbers as digits"
        for one in (*ratios(found.conclusion), *numbers_in_words(found.conclusion, (spelled,)))
    )
    for sentence in re.split(r"(?<=[.!?])\s+", found.conclusion):
        for text in stated_results(sentence, told, counts):
            meant = [one for one in found.numbers if numbers_in(one.text) == [text]]
            if not any(_is_measured(one, text, results) for one in meant):
                yield (
                    f"{text} is not what `numbers` says that it is of"
                    if meant
                    else f"{text} is neither listed in `numbers` nor stands in the question"
                )
            elif not any(_is_measured(one, text, results) and _is_named(one, sentence) for one in meant):
                yield f"the sentence that prints {text} does not name the arm that it is of, as the results do"
    for one in found.directions:
        claim = Claim(one.metric, one.first, one.second, one.second_is)  # pyright: ignore
        how = held(claim, comparisons)
        if how == "contradicted" or (how == "untested" and claim.second_is != "unclear"):
            yield (
                f"{one.second} is not {one.second_is} than {one.first} on {one.metric} by the comparisons"
                if how == "contradicted"
                else f"{one.second} against {one.first} on {one.metric} is open, or has other names in the results"
            )


def _is_measured(one: StatedNumber, text: str, results: Mapping[str, Mapping[str, Any]]) -> bool:
    values, against = (numbers_of(_at(results, one.metric, arm)) or () for arm in (one.arm, one.against))
    return is_of(text, one.what, values, against)


def _is_named(one: StatedNumber, sentence: str) -> bool:
    return all(_words(arm) in _words(sentence) for arm in (one.arm, one.against))


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


# --- in words ---------------------------------------------------------------------------------------------------------


def measured_lines(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for metric, arms in results.items():
        for arm, given in arms.items():
            values = numbers_of(given) or ()
            spread = f", sd {stdev(values):.4g}" if len(values) > 1 else ""
            yield f"{metric} of {arm}: mean {fmean(values):.6g}{spread}, n {len(values)}"


def compared_lines(comparisons: Sequence[Claim]) -> Iterator[str]:
    for one in comparisons:
        yield f"{one.metric}: {one.second} is {one.second_is} against {one.first}" + (
            " (the interval holds zero)" if one.second_is == "unclear" else ""
        )


def change_of(files: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Changed files against what was there, as a unified diff."""
    parts: list[str] = []
    for path, text in sorted(files.items()):
        before = texts.get(path, "")
        parts += unified_diff(
            before.splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"a/{path}" if path in texts else "/dev/null",
            f"b/{path}",
        )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)


def hashes(folder: Path) -> dict[str, str]:
    """Every plain file below a folder with the sha256 of its content."""
    return {
        path.relative_to(folder).as_posix(): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
