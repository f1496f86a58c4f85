"""Answer a research question with one experiment on a repository: design it, run it, conclude from its results.

The design is recorded before any file changes. The experiment is a node: a script that the author adds measures every
arm, metric and seed, and the program reads them from its file of results. A failed attempt is repaired a limited number
of times, each time in a node of its own. The unmodified repository is another node. A resumed study repeats neither a
run nor an answered call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from statistics import fmean
from typing import Any, TypeVar

from pydantic import BaseModel

from labwright.models.roles.questions import (
    QUESTION_CODE,
    QUESTION_CONCLUSION,
    QUESTION_DESIGN,
    AuthorAnswer,
    CodeAnswer,
    ConclusionAnswer,
    ListedValue,
    QuestionCodeInputs,
    QuestionConclusionInputs,
    QuestionInputs,
)
from labwright.models.roles.repository import ShownFile
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
from labwright.record.schema.repository import RepositoryCommand
from labwright.record.schema.research_question import ExperimentDesign, ResearchQuestion
from labwright.record.source_edits import apply_edits
from labwright.record.source_tree import SourceTreeError
from labwright.sandbox.repository.git_mirror import open_mirror
from labwright.stages.nodes.repository_program import BaselineError
from labwright.stages.repository.arm_runs import ArmRuns, CommandSetup, RepositoryArm
from labwright.stages.repository.question_conclusion import find_conclusion_faults, summarize_results
from labwright.stages.repository.repository_context import build_context, read_requested
from labwright.stages.run_context import RunContext, decision_number, wait_to_start

A = TypeVar("A", bound=BaseModel)
T = TypeVar("T")
REPORT_FILE, ANSWER_FILE, PATCH_FILE = "report.md", "answer.json", "change.patch"
RESULTS_FILE = f"{OUTPUT_FOLDER}/results.json"
SCRIPT_FILE = "reproduce.sh"
MAX_TRIES, MAX_TURNS, MAX_REQUESTS = 5, 3, 3
"""Maximum numbers of attempts at the experiment, answers per question, and requests of the author for more files."""
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

    def _compute_seconds_left(self, number: int) -> float:
        """Return the seconds that the attempts before this one have left; independent of when it is called."""
        spent = [one.attempts[-1].seconds for one in list_experiment_nodes(self.state)[: number - 1] if one.attempts]
        return self.question.minutes * 60 - sum(spent)

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
        """Return the node of the attempt that measured everything, otherwise of the last one; None without one."""
        node, files = None, dict[str, str]()
        for number in range(1, MAX_TRIES + 1):
            if self.state.limit_reason is not None:
                return node
            if self._compute_seconds_left(number) < MIN_TRY_SECONDS and number > len(list_experiment_nodes(self.state)):
                return node
            made = await self._write_code(number, design, as_it_is, files, node)
            if made is None:
                return node
            files = made
            runs = ArmRuns(replace(self.context, node_seconds=self._compute_seconds_left(number)))
            ran = await runs.run(self._build_experiment(design, files, node), 0)
            if ran is None:
                return node
            node = list_experiment_nodes(self.state)[number - 1]
            if node.status == "good":
                return node
        return node

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

    async def _write_code(
        self, number: int, design: ExperimentDesign, as_it_is: str, files: Mapping[str, str], before: Node | None
    ) -> dict[str, str] | None:
        """Ask the author for the changed files and the script; the author sees the previous attempt."""

        def use(found: CodeAnswer) -> tuple[dict[str, str] | None, Sequence[str]]:
            if not found.script:
                return None, ()
            now = {path: text for path, text in {**self.texts, **files}.items() if path != SCRIPT_FILE}
            touched = {*files, *(one.path for one in found.edits)}
            try:
                whole = apply_edits(
                    {path: now[path] for path in touched if path in now}, files=found.files, edits=found.edits
                )
            except SourceTreeError as error:
                return None, (str(error),)
            made = {path: text for path, text in whole.items() if self.texts.get(path) != text}
            made[SCRIPT_FILE] = found.script.rstrip("\n") + "\n"
            wrong = list(find_change_faults(made, self.question))
            return (None, wrong) if wrong else (made, ())

        inputs = QuestionCodeInputs(
            **self._build_inputs(as_it_is),
            design=design,
            seconds=self._compute_seconds_left(number),
            failed="" if before is None else find_failure(self.state, before),
            output=before.attempts[-1].stdout_tail[-6000:] if before is not None and before.attempts else "",
            written=tuple(ShownFile(path=path, text=text) for path, text in files.items()),
        )
        return await self._ask(f"code {number}", QUESTION_CODE, inputs, use)

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
