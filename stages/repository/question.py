"""Answer a research question with an experiment on a repository: design it, run it and conclude from its results.

The design is recorded before any file changes. A failed attempt is repaired a limited number of times. The program
reads the results after the script has exited, and checks the numbers and directions of the conclusion against them.
Every model call and every run is logged, so a killed process repeats neither when it resumes.
"""

from __future__ import annotations

import asyncio
import json
import re
import stat
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
    ConclusionAnswer,
    QuestionCodeInputs,
    QuestionConclusionInputs,
    QuestionInputs,
    StatedNumber,
)
from labwright.models.roles.repository import ShownFile
from labwright.record.errors import UsageError
from labwright.record.event_log import Recorder
from labwright.record.events.repository_events import QuestionAnswered, QuestionDesigned, QuestionRunEnded
from labwright.record.reducers.run_state import RunState
from labwright.record.repository_source import OUTPUT_FOLDER
from labwright.record.run_folder import write_file as write_file_whole
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.research_question import ExperimentDesign, QuestionRun, ResearchQuestion
from labwright.record.source_edits import apply_edits
from labwright.record.source_tree import SourceTreeError
from labwright.record.untrusted_files import (
    BadFile,
    hash_regular,
    iterate_entries,
    remove_path,
    remove_tree,
    write_file,
)
from labwright.review.evidence.number_words import CountedThings, find_number_words, find_ratio_words
from labwright.sandbox.errors import ExecutorError
from labwright.sandbox.executor import LocalExecutor
from labwright.sandbox.file_clock import wait_for_next_time
from labwright.sandbox.repository.command import CommandJob, CommandOutcome
from labwright.sandbox.repository.environment import RepositoryEnvironment
from labwright.sandbox.repository.git_mirror import GitMirror
from labwright.sandbox.repository.metric import parse_metric, prepare_checkout, read_metric
from labwright.search.run_control import RunControl
from labwright.stages.repository.claim_support import (
    ArmComparison,
    direction_support,
    find_numbers,
    list_stated_results,
    matches_statistic,
)
from labwright.stages.repository.repository_context import RepositoryContext, build_context, read_requested
from labwright.stages.repository.result_files import (
    MAX_SAME_SHARE,
    build_comparisons,
    list_counts,
    list_result_files,
    read_result,
    to_numbers,
)
from labwright.stages.run_context import RunContext, decision_number

REPORT_FILE, ANSWER_FILE, PATCH_FILE, RECORD_FILE = ("report.md", "answer.json", "change.patch", "record.json")
RESULTS_FILE = f"{OUTPUT_FOLDER}/results.json"
SCRIPT_FILE = "reproduce.sh"
MAX_TRIES, MAX_TURNS, MAX_REQUESTS = 5, 3, 3
"""Maximum numbers of attempts at the experiment, answers per question, and requests of the author for more files."""
MIN_TRY_SECONDS = 5.0
"""Minimum time left, in seconds, for another attempt."""


async def answer(context: RunContext) -> None:
    """Answer the question of the study, and write the change that did it."""
    repository, executor = context.repository, context.executor
    assert context.question is not None and repository is not None and repository.environment is not None
    assert isinstance(executor, LocalExecutor)
    working = QuestionStudy(
        context.question,
        context.recorder,
        context.models,
        repository.mirror,
        context.code.tree,
        repository.environment,
        context.folder.root / "work",
        executor.run_command,
        context.packages,
        signals=context.signals,
    )
    files = await working.answer()
    write_files(context.state, files, repository.mirror.read_texts(context.code.tree), context.folder.root)


def write_answer(state: RunState, folder: Path) -> None:
    """Write the report."""
    if state.repository_state.question_answer is not None:
        write_file_whole(folder / REPORT_FILE, format_report(state))


@dataclass
class QuestionStudy:
    """The study of one question; `run` executes a command in a folder."""

    question: ResearchQuestion
    log: Recorder
    models: Models
    mirror: GitMirror
    tree: str
    environment: RepositoryEnvironment
    work: Path
    run: Callable[[CommandJob], Awaitable[CommandOutcome]]
    packages: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    signals: RunControl = field(default_factory=RunControl)

    async def answer(self) -> dict[str, str]:
        """Continue until there is a conclusion, or a reason why there is none, and log it. Return the files of the last
        attempt, the script included.

        Raises `ModelError`, `ExecutorError`."""
        self.texts = self.mirror.read_texts(self.tree)
        as_it_is = await self._measure_unmodified()
        design = await self._design(as_it_is)
        files = await self._carry_out(design, as_it_is) if design is not None else {}
        if self.log.state.repository_state.question_answer is not None:
            return files
        tries = self.log.state.repository_state.question_runs
        last = tries[max(tries)] if tries else None
        if design is None or last is None or last.why or not files:
            why = (
                "no usable design"
                if design is None
                else (last.why if last is not None else "") or ("no usable code change")
            )
            self.log.append(QuestionAnswered(conclusion="", why=why))
        else:
            await self._conclude(design, last.results)
        return files

    # --- the unmodified repository ------------------------------------------------------------------------------------

    async def _measure_unmodified(self) -> str:
        """Run the question's command for every seed and summarize the results; empty without a command. Raises
        `NoMeasurementError`."""
        if not self.question.run:
            return ""
        known = self.log.state.repository_state.question_runs.get(0)
        if known is None:
            known = await self._run_baseline()
            self.log.append(QuestionRunEnded(number=0, run=known))
        if known.why:
            raise NoMeasurementError(
                f"the unmodified repository produced no metric value: {known.why}; "
                "correct `run` or `measure` of the question"
            )
        values = known.results["measure"]["as_it_is"]
        return f"{fmean(values):.6g} over {len(values)} seeds, in {known.seconds:.0f} s"

    async def _run_baseline(self) -> QuestionRun:
        metric, values, seconds = parse_metric(self.question.measure), list[float](), 0.0
        for seed in range(self.question.seeds):
            folder, kept = self._checkout(f"as_it_is-{seed}")
            (stale,) = prepare_checkout(folder, [metric], OUTPUT_FOLDER)
            began = await asyncio.to_thread(wait_for_next_time, folder)
            outcome = await self.run(
                CommandJob(
                    name=f"unmodified, seed {seed}",
                    folder=folder,
                    environment=self.environment.command_environment,
                    timeout=max(MIN_TRY_SECONDS, self._compute_seconds_left(0) - seconds),
                    readable=(kept,),
                    argv=tuple(word.replace("{seed}", str(seed)) for word in self.question.run),
                )
            )
            seconds += outcome.seconds
            reading = read_metric(metric, folder, outcome.stdout, stale=stale, since=began)
            why = outcome.failure or reading.failure
            if why is not None or reading.value is None:
                return QuestionRun(seconds=seconds, why=why.message if why else "no metric value", tail=outcome.tail)
            values.append(reading.value)
        return QuestionRun(seconds=seconds, exit=0, results={"measure": {"as_it_is": values}})

    # --- design and code ----------------------------------------------------------------------------------------------

    def _build_inputs(self, as_it_is: str) -> dict[str, Any]:
        context: RepositoryContext = build_context(self.texts, self.question.run)
        return {
            "asked": self.question,
            "map": context.map,
            "shown": context.shown,
            "left_out": context.left_out,
            "packages": tuple(self.packages),
            "as_it_is": as_it_is,
        }

    async def _design(self, as_it_is: str) -> ExperimentDesign | None:
        known = self.log.state.repository_state.question_design
        if known is not None:
            return known.design
        ask = self.models.make_client(decision_number(self.log, RunTask(task="design")), 0)
        inputs, left, turns = (
            QuestionInputs(**self._build_inputs(as_it_is), requests_left=MAX_REQUESTS),
            MAX_REQUESTS,
            MAX_TURNS,
        )
        while turns:
            found = await ask.ask_or_none(QUESTION_DESIGN, inputs, instead="the question gets no answer")
            if found is None:
                return None
            if found.design is not None:
                wrong = find_design_faults(found.design)
                if not wrong:
                    self.log.append(QuestionDesigned(question=self.question, design=found.design))
                    return found.design
                inputs, turns = inputs.model_copy(update={"complaints": tuple(wrong)}), turns - 1
                continue
            left -= 1
            inputs = self._show_requested(inputs, found.wants, left)
        return None

    def _show_requested(self, inputs: Any, wants: Sequence[str], left: int) -> Any:
        shown, missed = read_requested(wants, self.texts)
        return inputs.model_copy(
            update={"requested": (*inputs.requested, *shown), "requests_left": max(0, left), "complaints": missed}
        )

    async def _carry_out(self, design: ExperimentDesign, as_it_is: str) -> dict[str, str]:
        """Return the files of the attempt that measured everything, otherwise of the last attempt; empty if there
        was no attempt.
        """
        files, before = dict[str, str](), QuestionRun(seconds=0.0)
        for number in range(1, MAX_TRIES + 1):
            if (
                self._compute_seconds_left(number) < MIN_TRY_SECONDS
                and number not in self.log.state.repository_state.question_runs
            ):
                return files
            made = await self._write_code(number, design, as_it_is, files, before)
            if made is None:
                return files
            files = made
            known = self.log.state.repository_state.question_runs.get(number)
            if known is None:
                known = await self._run_try(number, design, files)
                self.log.append(QuestionRunEnded(number=number, run=known))
            if not known.why:
                return files
            before = known
        return files

    async def _write_code(
        self, number: int, design: ExperimentDesign, as_it_is: str, files: Mapping[str, str], before: QuestionRun
    ) -> dict[str, str] | None:
        """Ask the author for the changed files and the script; the author sees the previous attempt."""
        ask = self.models.make_client(decision_number(self.log, RunTask(task=f"code {number}")), 0)
        inputs = QuestionCodeInputs(
            **self._build_inputs(as_it_is),
            design=design,
            seconds=self._compute_seconds_left(number),
            requests_left=MAX_REQUESTS,
            failed=before.why,
            output=before.tail,
            written=tuple(ShownFile(path=path, text=text) for path, text in files.items()) if before.why else (),
        )
        left, turns = MAX_REQUESTS, MAX_TURNS
        while turns:
            found = await ask.ask_or_none(QUESTION_CODE, inputs, instead="the question gets no answer")
            if found is None:
                return None
            if found.wants and not found.script:
                left -= 1
                inputs = self._show_requested(inputs, found.wants, left)
                continue
            now = {**self.texts, **files}
            touched = {*files, *(one.path for one in found.edits)}
            try:
                whole = apply_edits(
                    {path: now[path] for path in touched if path in now and path != SCRIPT_FILE},
                    files=found.files,
                    edits=found.edits,
                )
            except SourceTreeError as error:
                wrong = [str(error)]
            else:
                made = {path: text for path, text in whole.items() if self.texts.get(path) != text}
                made[SCRIPT_FILE] = found.script if found.script.endswith("\n") else f"{found.script}\n"
                wrong = list(find_change_faults(made, self.question))
                if not wrong:
                    return made
            inputs, turns = inputs.model_copy(update={"complaints": tuple(wrong)}), turns - 1
        return None

    # --- running ------------------------------------------------------------------------------------------------------

    def _compute_seconds_left(self, number: int) -> float:
        """Return the seconds that earlier attempts have left for an attempt. The result does not depend on when it
        is called.
        """
        spent = (one.seconds for at, one in self.log.state.repository_state.question_runs.items() if at < number)
        return self.question.minutes * 60 - sum(spent)

    def _checkout(self, name: str) -> tuple[Path, Path]:
        """Check out the tree; return its folder and the folder of its large files."""
        folder = self.work / name
        remove_tree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder, self.mirror.checkout(self.tree, folder)

    async def _run_try(self, number: int, design: ExperimentDesign, files: Mapping[str, str]) -> QuestionRun:
        folder, kept = self._checkout(f"try-{number}")
        try:
            for path, text in files.items():
                write_file(folder, path, text)
            prepare_checkout(folder, [], OUTPUT_FOLDER)
            remove_path(folder, RESULTS_FILE)
            before = hash_files(folder)
            outcome = await self.run(
                CommandJob(
                    name=f"try {number}",
                    folder=folder,
                    argv=("bash", SCRIPT_FILE),
                    environment=self.environment.command_environment,
                    timeout=self._compute_seconds_left(number),
                    readable=(kept,),
                )
            )
        except (ExecutorError, BadFile) as error:
            return QuestionRun(seconds=0.0, why=str(error))
        failure, results = outcome.failure, read_script_results(folder)
        why = failure.message if failure is not None else find_result_fault(results, design)
        now = hash_files(folder)
        return QuestionRun(
            seconds=outcome.seconds,
            exit=0 if failure is None else None if failure.kind == "timeout" else 1,
            why=why,
            tail=outcome.tail[-6000:],
            results=results if not why else {},
            files={name: now[name] for name in list_result_files(before, now)},
        )

    # --- the conclusion -----------------------------------------------------------------------------------------------

    async def _conclude(self, design: ExperimentDesign, results: Mapping[str, Any]) -> None:
        comparisons = build_comparisons([results])
        inputs = QuestionConclusionInputs(
            asked=self.question,
            design=design,
            measured=tuple(format_measured(results)),
            compared=tuple(format_comparisons(comparisons)),
        )
        ask = self.models.make_client(decision_number(self.log, RunTask(task="conclusion")), 0)
        for _ in range(MAX_TURNS):
            found = await ask.ask_or_none(
                QUESTION_CONCLUSION, inputs, instead="the comparisons serve as the conclusion"
            )
            if found is None:
                break
            wrong = list(find_unsupported(found, format_question(self.question), results, comparisons))
            if not wrong:
                self.log.append(QuestionAnswered(conclusion=found.conclusion, bound=True))
                return
            inputs = inputs.model_copy(update={"complaints": tuple(wrong)})
        summary = "; ".join(format_comparisons(comparisons)) or "; ".join(format_measured(results))
        self.log.append(
            QuestionAnswered(
                conclusion=f"Measured: {summary}.",
                bound=True,
                why="the model gave no conclusion that the measurements support",
            )
        )


class NoMeasurementError(UsageError):
    """Raised when the unmodified repository gives no number because the command or measure of the question is wrong."""


def read_script_results(folder: Path) -> Any:
    """Return the results that a script wrote to a plain file in its folder; None if there is no such file."""
    return read_result(folder, RESULTS_FILE)


# --- validation -------------------------------------------------------------------------------------------------------


def find_design_faults(design: ExperimentDesign) -> list[str]:
    wrong = [
        f"two {what} are called {name}"
        for what, names in (
            ("arms", [one.name for one in design.arms]),
            ("metrics", [one.name for one in design.metrics]),
        )
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    return wrong + (["a single arm has nothing to be compared with: add a second arm"] if len(design.arms) < 2 else [])


def find_change_faults(files: Mapping[str, str], question: ResearchQuestion) -> Iterator[str]:
    """Yield the reasons to refuse a change."""
    for path in files:
        if any(fnmatch(path, one) for one in question.protect):
            yield f"{path} is protected and may not change"
        if path != SCRIPT_FILE and question.may_edit and not any(fnmatch(path, one) for one in question.may_edit):
            yield f"{path} may not change: only {', '.join(question.may_edit)} may"
        if path == RESULTS_FILE:
            yield f"{RESULTS_FILE} must be written by the script, not supplied"


def find_result_fault(results: Any, design: ExperimentDesign) -> str:
    """Return the reason why results cannot be used; empty if every arm has all its values."""
    if not isinstance(results, dict):
        return f"the script left no {RESULTS_FILE} in the required format"
    lacking = [
        f"{metric.name} of {arm.name}"
        for metric in design.metrics
        for arm in design.arms
        if len(to_numbers(_read_value(results, metric.name, arm.name)) or ()) < design.seeds
    ]
    return (
        f"{RESULTS_FILE} lacks values for {', '.join(lacking[:6])}: {design.seeds} are needed of each"
        if lacking
        else ""
    )


def _read_value(results: Any, metric: str, arm: str) -> Any:
    arms = results.get(metric)
    return arms.get(arm) if isinstance(arms, dict) else None  # pyright: ignore


def format_question(question: ResearchQuestion) -> str:
    """Return all strings that the user wrote; numbers in them count as settings."""
    return "\n".join((question.question, question.method, question.instructions))


def find_unsupported(
    conclusion: ConclusionAnswer,
    question_text: str,
    results: Mapping[str, Mapping[str, Any]],
    comparisons: Sequence[ArmComparison],
) -> Iterator[str]:
    """Yield the statements of a conclusion that the measurements do not support.

    Numbers in `question_text`, which the user wrote, are allowed."""
    counts = list_counts([results])
    spelled = CountedThings(re.compile("[a-z]+"), frozenset(counts))
    yield from (
        f"{one.words!r}: print numbers as digits"
        for one in (*find_ratio_words(conclusion.conclusion), *find_number_words(conclusion.conclusion, (spelled,)))
    )
    for sentence in re.split(r"(?<=[.!?])\s+", conclusion.conclusion):
        for text in list_stated_results(sentence, question_text, counts):
            meant = [one for one in conclusion.numbers if find_numbers(one.text) == [text]]
            if not any(_is_measured(one, text, results) for one in meant):
                yield (
                    f"{text} is not the number that its entry in `numbers` describes"
                    if meant
                    else f"{text} is neither listed in `numbers` nor part of the question"
                )
            elif not any(_is_measured(one, text, results) and _is_named(one, sentence) for one in meant):
                yield f"the sentence with {text} does not name its arm as the results do"
    for direction in conclusion.directions:
        claim = ArmComparison(direction.metric, direction.first, direction.second, direction.second_is)  # pyright: ignore
        how = direction_support(claim, comparisons)
        if how == "contradicted" or (how == "untested" and claim.second_is != "unclear"):
            yield (
                f"the comparisons contradict {str(claim)!r}"
                if how == "contradicted"
                else f"{str(claim)!r} is undecided, or the names differ from those of the results"
            )


def _is_measured(one: StatedNumber, text: str, results: Mapping[str, Mapping[str, Any]]) -> bool:
    values, against = (to_numbers(_read_value(results, one.metric, arm)) or () for arm in (one.arm, one.against))
    return matches_statistic(text, one.what, values, against)


def _is_named(one: StatedNumber, sentence: str) -> bool:
    return all(_normalise_words(arm) in _normalise_words(sentence) for arm in (one.arm, one.against))


def _normalise_words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.lower()))


# --- formatting -------------------------------------------------------------------------------------------------------


def format_measured(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for metric, arms in results.items():
        for arm, given in arms.items():
            values = to_numbers(given) or ()
            spread = f", sd {stdev(values):.4g}" if len(values) > 1 else ""
            yield f"{metric} of {arm}: mean {fmean(values):.6g}{spread}, n {len(values)}"


def format_comparisons(comparisons: Sequence[ArmComparison]) -> Iterator[str]:
    for comparison in comparisons:
        yield f"{comparison}{' (unclear: the interval contains zero)' if comparison.second_is == 'unclear' else ''}"


def format_change(files: Mapping[str, str], texts: Mapping[str, str]) -> str:
    """Return a unified diff of the changed files against the originals."""
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


def hash_files(folder: Path) -> dict[str, str]:
    """Return the sha256 of every plain file in a folder, by relative path."""
    return {
        name: hash_regular(folder, name) for name, status in iterate_entries(folder) if stat.S_ISREG(status.st_mode)
    }


# --- output ---


def write_files(state: RunState, files: dict[str, str], texts: dict[str, str], folder: Path) -> None:
    """Write the answer, the patch of the repository, the script, the record of the work and the report."""
    code = state.repository_state
    done = code.question_answer
    assert done is not None
    if code.question_design is not None and done.conclusion:
        answer = {"design": list(code.question_design.design.statements), "conclusion": done.conclusion}
        write_file_whole(folder / ANSWER_FILE, json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
    write_file_whole(
        folder / PATCH_FILE, format_change({path: text for path, text in files.items() if path != SCRIPT_FILE}, texts)
    )
    if SCRIPT_FILE in files:
        write_file_whole(folder / SCRIPT_FILE, files[SCRIPT_FILE])
    write_file_whole(folder / RECORD_FILE, json.dumps(build_work_record(state), indent=1) + "\n")
    write_file_whole(folder / REPORT_FILE, format_report(state))


def build_work_record(state: RunState) -> dict[str, Any]:
    """Build the record of executions and output files, in the format of EXP-Bench's monitor."""
    tries = sorted((number, run) for number, run in state.repository_state.question_runs.items() if number)
    last = tries[-1][1] if tries else None
    return {
        "commands": [{"argv": ["bash", SCRIPT_FILE], "exit": run.exit} for _, run in tries],
        "reads": [],
        "result_files": [
            {"path": path, "sha256": digest, "written_by_run": True, "same_as_base": False}
            for path, digest in (last.files.items() if last is not None and not last.why else ())
        ],
    }


def format_report(state: RunState) -> str:
    """Format the report as Markdown; a model wrote only the design and the conclusion."""
    code, lines = state.repository_state, list[str]()
    taken, designed, done = code.imported, code.question_design, code.question_answer
    assert taken is not None and done is not None
    question = ResearchQuestion.model_validate(state.read_setting("question"))
    lines += [
        "# A question about a repository",
        "",
        question.question,
        "",
        "## Answer",
        "",
        done.conclusion or f"None: {done.why}.",
    ]
    if done.conclusion and done.why:
        lines += ["", f"({done.why}.)"]
    tries = sorted((number, run) for number, run in code.question_runs.items() if number)
    good = next((run for _, run in tries if not run.why), None)
    if good is not None:
        lines += [
            "",
            "## Measurements",
            "",
            *(f"- {line}" for line in format_measured(good.results)),
            "",
            "Arms are paired by seed. An arm is lower or higher if the 95 % interval of the differences excludes zero, "
            f"otherwise the same if the means differ by at most {MAX_SAME_SHARE:.0%}.",
            "",
            *(f"- {line}" for line in format_comparisons(build_comparisons([good.results]))),
        ]
    if designed is not None:
        lines += [
            "",
            "## Design (recorded before any file was changed)",
            "",
            *(f"- {line}" for line in designed.design.statements),
        ]
    lines += [
        "",
        "## Runs",
        "",
        *(
            f"- {'the unmodified repository' if not number else f'attempt {number}'}: {run.why or 'measured'} "
            f"({run.seconds:.1f} s)"
            for number, run in sorted(code.question_runs.items())
        ),
        "",
        f"Commit {taken.commit}" + (", with uncommitted changes" if taken.snapshot else "") + "; "
        f"`{PATCH_FILE}` is the change, `{SCRIPT_FILE}` runs everything from the repository's root. Values were "
        "read by this program from the files that the script wrote.",
    ]
    return "\n".join(lines) + "\n"
