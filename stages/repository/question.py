"""Answer a research question with one experiment on a repository: design it, run it, conclude from its results.

The design is recorded before any file changes. The experiment is a node: a script that the author adds measures every
arm, metric and seed, and the program reads them from its file of results. The author works with tools in one session;
what it hands in is run in a node of its own, and a failure goes back to it, a limited number of times. The unmodified
repository is another node. A resumed study repeats neither a run nor an answered call.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel

from labwright.models.author import WorkStopped
from labwright.models.roles.coder import CoderFact
from labwright.models.roles.questions import (
    QUESTION_CONCLUSION,
    QUESTION_DESIGN,
    AuthorAnswer,
    ConclusionAnswer,
    ExperimentInputs,
    ExperimentScript,
    ListedValue,
    QuestionConclusionInputs,
    QuestionInputs,
)
from labwright.models.roles.role import Role
from labwright.record.claims.question_results import (
    EXPERIMENT_ARM,
    UNMODIFIED_ARM,
    QuestionResults,
    find_question_results,
    list_experiment_nodes,
)
from labwright.record.events.repository_events import QuestionAnswered, QuestionDesigned
from labwright.record.reducers.run_state import RunState
from labwright.record.repository_source import (
    OUTPUT_FOLDER,
    ArmCode,
    RepositoryProgram,
    ScriptResults,
    build_program,
    parse_arm_code,
)
from labwright.record.result_macros import to_plain_text
from labwright.record.run_folder import RunFolder, hash_texts, read_source
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.nodes import Node
from labwright.record.schema.repository import RepositoryCommand, format_command_line
from labwright.record.schema.research_question import ExperimentDesign, ResearchQuestion
from labwright.sandbox.repository.git_mirror import open_mirror
from labwright.stages.nodes.repository_program import BaselineError
from labwright.stages.repository.arm_runs import ArmRuns, CommandSetup, RepositoryArm
from labwright.stages.repository.authors import format_machine, let_author_work, list_files_fact
from labwright.stages.repository.code_index import index_code
from labwright.stages.repository.question_conclusion import find_conclusion_faults, summarize_results
from labwright.stages.repository.repository_context import build_context, read_requested
from labwright.stages.run_context import RunContext, decision_number, wait_to_start

A = TypeVar("A", bound=BaseModel)
T = TypeVar("T")
REPORT_FILE, ANSWER_FILE, PATCH_FILE = "report.md", "answer.json", "change.patch"
RESULTS_FILE = f"{OUTPUT_FOLDER}/results.json"
SCRIPT_FILE = "reproduce.sh"
MAX_TRIES, MAX_TURNS, MAX_REQUESTS = 5, 3, 3
"""Maximum numbers of runs of the experiment, answers per question, and requests for more files in the design."""
MAX_LISTED_VALUES = 400
"""Maximum number of values that a conclusion may print; the means of all arms come first."""
MIN_TRY_SECONDS = 5.0
"""Minimum time left, in seconds, for another attempt."""


async def answer(context: RunContext) -> None:
    """Continue until there is a conclusion, or a reason why there is none; a limit of the study ends it without one.

    Raises `ModelError`, `ExecutorError`, `BaselineError`.
    """
    if context.state.question.answer is None:
        await QuestionStudy(context).answer()


class QuestionStudy:
    """The study of one question."""

    def __init__(self, context: RunContext) -> None:
        assert context.question is not None and context.repository is not None
        self.context, self.question, self.mirror = context, context.question, context.repository.mirror
        self.texts = self.mirror.read_texts(context.code.tree)

    @property
    def state(self) -> RunState:
        return self.context.state

    async def answer(self) -> None:
        as_it_is = await self._measure_unmodified()
        if self.state.limit_reason is not None:
            return
        design = await self._design(as_it_is)
        node = None if design is None else await self._carry_out(design, as_it_is)
        if self.state.limit_reason is not None:
            return
        if design is not None and node is not None and node.status == "good":
            await self._conclude(QuestionResults(self.state, node, design))
            return
        why = "no usable design" if design is None else "no usable code change"
        failure = why if node is None else find_failure(self.state, node) or why
        self.context.recorder.append(QuestionAnswered(conclusion="", why=failure))

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _build_setup(self, argv: Sequence[str], metric: str) -> CommandSetup:
        assert self.context.repository is not None and self.context.repository.environment is not None
        command = RepositoryCommand(
            argv=tuple(argv), metric=metric, direction="min" if self.question.better == "min" else "max"
        )
        return CommandSetup(self.context.code.tree, command, self.context.repository.environment)

    async def _measure_unmodified(self) -> str:
        """Run the question's command for every seed and summarize the results; empty without a command. Raises
        `BaselineError`."""
        if not self.question.run:
            return ""
        runs = ArmRuns(replace(self.context, node_seconds=self.question.minutes * 60))
        setup = self._build_setup(self.question.run, self.question.measure)
        arm = runs.build_arm(UNMODIFIED_ARM, "the unmodified repository", setup, stage="preliminary", kind="draft")
        values, seconds = list[float](), 0.0
        for seed in range(self.question.seeds):
            ran = await runs.run(arm, seed)
            if ran is None:
                return ""
            if ran.failure is not None or not ran.measurements:
                why = ran.failure.message if ran.failure is not None else "no metric value"
                raise BaselineError(
                    f"the unmodified repository produced no metric value: {why}; correct `run` or `measure` of the "
                    "question"
                )
            values.append(ran.measurements[0].value)
            seconds += ran.seconds
        return f"{fmean(values):.6g} over {len(values)} seeds, in {seconds:.0f} s"

    async def _carry_out(self, design: ExperimentDesign, as_it_is: str) -> Node | None:
        """Let an author write the experiment, and return the node that measured everything, otherwise the last one;
        None without one.

        The program runs what the author hands in; the author sees the failure and may hand in again.
        """
        if not self.context.models.has_author or self.state.limit_reason is not None:
            return None

        async def check(answer: ExperimentScript, tree: str) -> str:
            after = await asyncio.to_thread(self.mirror.read_texts, tree)
            made = {path: text for path, text in after.items() if self.texts.get(path) != text}
            made[SCRIPT_FILE] = answer.script.rstrip("\n") + "\n"
            if wrong := list(find_change_faults(made, self.question)):
                return "\n".join(wrong)
            return await self._try(made, design)

        setup = self._build_setup(self.question.run or ("bash", SCRIPT_FILE), "")
        code = index_code(self.texts)
        facts = (
            CoderFact(title="The question", text=self._describe_question(as_it_is)),
            CoderFact(title="The design", text="\n".join(design.statements)),
            list_files_fact(code, setup.command),
        )
        limits = f"The script may take {self.question.minutes:g} minutes. {format_machine(self.context, setup, code)}"
        await let_author_work(
            self.context, "code", setup, ExperimentInputs(known=facts, surroundings=limits), ExperimentScript, check
        )
        tries = list_experiment_nodes(self.state)
        return next((one for one in tries if one.status == "good"), tries[-1] if tries else None)

    async def _try(self, files: Mapping[str, str], design: ExperimentDesign) -> str:
        """Run an experiment and return why it failed; empty if it measured everything."""
        tries = list_experiment_nodes(self.state)
        arm = self._build_experiment(design, files, tries[-1] if tries else None)
        before = [one for one in tries if one.source_sha256 != arm.sha256]
        seconds = self.question.minutes * 60 - sum(one.attempts[-1].seconds for one in before if one.attempts)
        if len(before) == len(tries) and (len(tries) >= MAX_TRIES or seconds < MIN_TRY_SECONDS):
            raise WorkStopped(f"{len(tries)} runs failed, and {max(0.0, seconds):.0f} s are left for another")
        ran = await ArmRuns(replace(self.context, node_seconds=max(MIN_TRY_SECONDS, seconds))).run(arm, 0)
        if ran is None:
            raise WorkStopped(self.state.limit_reason or "the study stops")
        return "" if ran.failure is None else f"{ran.failure.message}\n{ran.stdout_tail[-4000:]}"

    def _describe_question(self, as_it_is: str) -> str:
        asked = self.question
        lines = [asked.question, asked.method, asked.instructions]
        lines += [f"Command: {format_command_line(asked.run)}; its result: {asked.measure}."] * bool(asked.run)
        lines += [f"The unmodified repository gave {as_it_is}."] * bool(as_it_is)
        lines += [f"Only these files may change or be added: {', '.join(asked.may_edit)}."] * bool(asked.may_edit)
        lines += [f"Files that may not change: {', '.join(asked.protect)}."] * bool(asked.protect)
        return "\n\n".join(filter(None, lines))

    def _build_experiment(
        self, design: ExperimentDesign, files: Mapping[str, str], before: Node | None
    ) -> RepositoryArm:
        setup = self._build_setup(("bash", SCRIPT_FILE), "")
        program = RepositoryProgram(
            commit=self.context.code.commit,
            tree=setup.tree,
            command=setup.command,
            name="",
            environment=setup.environment.digest,
            results=ScriptResults(
                file=RESULTS_FILE,
                metrics=tuple(one.name for one in design.metrics),
                arms=tuple(one.name for one in design.arms),
                seeds=design.seeds,
            ),
        )
        patch = self.mirror.build_diff(setup.tree, self.mirror.replace_files(setup.tree, files))
        source = build_program((), program, {EXPERIMENT_ARM: ArmCode(patch=patch)})
        return RepositoryArm(
            EXPERIMENT_ARM,
            "the experiment" if before is None else "the experiment, repaired",
            source,
            hash_texts(source),
            setup.environment,
            metric="",
            stage="preliminary",
            kind="draft" if before is None else "debug",
            parent=None if before is None else before.id,
        )

    # --- design and code ----------------------------------------------------------------------------------------------

    def _build_inputs(self, as_it_is: str) -> dict[str, Any]:
        found = build_context(self.texts, self.question.run)
        return {
            "asked": self.question,
            "map": found.map,
            "shown": found.shown,
            "left_out": found.left_out,
            "packages": self.context.packages,
            "as_it_is": as_it_is,
            "requests_left": MAX_REQUESTS,
        }

    async def _ask(
        self, task: str, role: Role[Any, A], inputs: Any, use: Callable[[A], tuple[T | None, Any]]
    ) -> T | None:
        """Return what `use` makes of an answer, or None without a usable one.

        `use` returns a result or complaints, with which the question is asked again; files that the model wants to see
        first are shown.
        """
        await wait_to_start(self.context)
        ask = self.context.models.make_client(decision_number(self.context.recorder, RunTask(task=task)), 0)
        for _ in range(MAX_TURNS + MAX_REQUESTS):
            found = await ask.ask_or_none(role, inputs, instead="the study goes on without it")
            if found is None:
                return None
            made, wrong = use(found)
            if made is not None:
                return made
            update: dict[str, Any] = {"complaints": tuple(wrong)}
            if isinstance(found, AuthorAnswer) and not wrong:
                shown, missed = read_requested(found.wants, self.texts)
                left = max(0, inputs.requests_left - 1)
                update = {"requested": (*inputs.requested, *shown), "requests_left": left, "complaints": missed}
            inputs = inputs.model_copy(update=update)
        return None

    async def _design(self, as_it_is: str) -> ExperimentDesign | None:
        if (known := self.state.question.design) is not None:
            return known.design
        inputs = QuestionInputs(**self._build_inputs(as_it_is))
        design = await self._ask("design", QUESTION_DESIGN, inputs, lambda found: (found.design, ()))
        if design is not None:
            self.context.recorder.append(QuestionDesigned(design=design))
        return design

    # --- the conclusion -----------------------------------------------------------------------------------------------

    async def _conclude(self, results: QuestionResults) -> None:
        def use(found: ConclusionAnswer) -> tuple[str | None, list[str]]:
            wrong = list(find_conclusion_faults(found, results, self.question))
            return (None, wrong) if wrong else (found.conclusion, [])

        values = ((key, to_plain_text(value), what) for key, (value, what) in results.printed.items())
        inputs = QuestionConclusionInputs(
            asked=self.question,
            design=results.design,
            values=tuple(ListedValue(key=key, text=text, what=what) for key, text, what in values)[:MAX_LISTED_VALUES],
            compared=tuple(map(str, results.comparisons)),
        )
        source = await self._ask("conclusion", QUESTION_CONCLUSION, inputs, use)
        why = "the model gave no conclusion that the measurements support" if source is None else ""
        source = source or summarize_results(results)
        self.context.recorder.append(QuestionAnswered(conclusion=results.print_text(source), source=source, why=why))


def find_failure(state: RunState, node: Node) -> str:
    """Return why the command of a node failed; empty if it did not."""
    runs = state.cells.list_node_runs(node.id)
    failure = runs[-1].failure if runs else node.failure
    return failure.message if failure is not None else ""


# --- validation -------------------------------------------------------------------------------------------------------


def find_change_faults(files: Mapping[str, str], question: ResearchQuestion) -> Iterator[str]:
    """Yield the reasons to refuse a change."""
    for path in files:
        if any(fnmatch(path, one) for one in question.protect):
            yield f"{path} is protected and may not change"
        if path != SCRIPT_FILE and question.may_edit and not any(fnmatch(path, one) for one in question.may_edit):
            yield f"{path} may not change: only {', '.join(question.may_edit)} may"
        if path == RESULTS_FILE:
            yield f"{RESULTS_FILE} must be written by the script, not supplied"


# --- output ---------------------------------------------------------------------------------------------------------


def build_answer_files(state: RunState, folder: RunFolder) -> dict[str, str]:
    """Return the content of every file of the answer by name: the report, the answer, the patch of the repository, and
    the script."""
    changed, mirror = read_changed_files(state, folder), open_mirror(folder)
    tree, done = state.read_setting("code.tree"), state.question.answer
    patched = mirror.replace_files(tree, {path: text for path, text in changed.items() if path != SCRIPT_FILE})
    files = {PATCH_FILE: mirror.build_diff(tree, patched), REPORT_FILE: "\n".join(_render_report(state)) + "\n"}
    if SCRIPT_FILE in changed:
        files[SCRIPT_FILE] = changed[SCRIPT_FILE]
    if state.question.design is not None and done is not None and done.conclusion:
        answer = {"design": list(state.question.design.design.statements), "conclusion": done.conclusion}
        files[ANSWER_FILE] = json.dumps(answer, indent=1, ensure_ascii=False) + "\n"
    return files


def read_changed_files(state: RunState, folder: RunFolder) -> dict[str, str]:
    """Return the files that the last attempt changed or added, with their content, the script included."""
    tries = list_experiment_nodes(state)
    if not tries:
        return {}
    mirror, tree = open_mirror(folder), state.read_setting("code.tree")
    patch = parse_arm_code(read_source(folder.get_source_path(tries[-1].id)), EXPERIMENT_ARM).patch
    before = mirror.read_texts(tree)
    return {
        path: text
        for path, text in mirror.read_texts(mirror.apply_patch(tree, patch)).items()
        if before.get(path) != text
    }


def _render_report(state: RunState) -> Iterator[str]:
    """Render the report as Markdown; a model wrote only the design and the conclusion."""
    code = state.repository
    taken, designed, done, results = (
        code.imported,
        state.question.design,
        state.question.answer,
        find_question_results(state),
    )
    assert taken is not None and state.started is not None
    why = done.why if done is not None else state.limit_reason or ""
    yield f"# A question about a repository\n\n{state.read_setting('question')['question']}\n\n## Answer\n"
    yield done.conclusion if done is not None and done.conclusion else f"None: {why}."
    if done is not None and done.conclusion and why:
        yield f"\n({why}.)"
    if results is not None:
        yield "\n## Measurements\n\n| value | of | |\n|---|---|---|"
        yield from (f"| {to_plain_text(value)} | {what} | `{key}` |" for key, (value, what) in results.printed.items())
        yield (
            "\nArms are paired by seed; intervals are Student's 95 % intervals of the paired differences. An arm is "
            "higher or lower if the interval excludes zero; otherwise the comparison is open.\n"
        )
        yield from (f"- {one}" for one in results.pairs)
    if designed is not None:
        yield "\n## Design (recorded before any file was changed)\n"
        yield from (f"- {line}" for line in designed.design.statements)
    yield "\n## Runs\n"
    for node in filter(lambda one: one.source_sha256, state.nodes.values()):  # a kill may leave one without source
        failure = find_failure(state, node) or ("measured" if node.is_finished else "not finished")
        seconds = f" ({node.attempts[-1].seconds:.1f} s)" if node.attempts else ""
        yield f"- {node.id}, {node.title}, seed {node.seed}: {failure}{seconds}"
    yield (
        f"\nCommit {taken.commit}{', with uncommitted changes' * taken.snapshot}; `{PATCH_FILE}` is the change, "
        f"`{SCRIPT_FILE}` runs everything from the repository's root. Values were read by this program from the file "
        "that the script wrote."
    )
