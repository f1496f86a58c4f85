"""Answer a research question with one experiment on a repository: design it, run it, conclude from its results.

The design is recorded before any file changes. The experiment is a node: a script that the author adds measures every
arm, metric and seed, and the program reads them from its file of results. The author works with tools in one session;
what it hands in is run in a node of its own and read by the reader of code, and a failure or a doubt goes back to it, a
limited number of times. What passed is run again on fresh seeds, in another node, if the time allows. The unmodified
repository is another node. A resumed study repeats neither a run nor an answered call.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from statistics import fmean

from labwright.models.author import WorkStopped
from labwright.models.client import ModelClient
from labwright.models.roles.experiment_code import CoderFact
from labwright.models.roles.node_assessment import CodeReaderInputs
from labwright.models.roles.repository import (
    QUESTION_CONCLUSION,
    QUESTION_DESIGN,
    ConclusionAnswer,
    ExperimentInputs,
    ExperimentScript,
    ListedValue,
    QuestionConclusionInputs,
    QuestionInputs,
)
from labwright.record.claims.question_results import (
    EXPERIMENT_ARM,
    KEY_PATTERN,
    UNMODIFIED_ARM,
    QuestionResults,
    find_deciding_node,
    find_question_results,
    list_experiment_nodes,
    plan_fresh_seeds,
    repeats_values,
)
from labwright.record.events.repository_events import QuestionAnswered, QuestionDesigned
from labwright.record.reducers.run_state import RunState
from labwright.record.result_macros import strip_form, to_plain_text
from labwright.record.run_folder import RunFolder, read_source
from labwright.record.schema.data_plan import Arm, MetricSpec
from labwright.record.schema.decisions import RunTask
from labwright.record.schema.idea import ExperimentDesign, ResearchQuestion
from labwright.record.schema.nodes import CodeDoubt, Node
from labwright.record.schema.repository import RepositoryCommand, format_command_line
from labwright.record.source_tree import OUTPUT_FOLDER, ScriptResults, parse_arm_code, parse_program
from labwright.review.evidence.number_words import CountedThings, find_number_words, find_ratio_words
from labwright.review.honesty.code_reading import number_lines, read_code, strip_comments
from labwright.sandbox.repository.git_mirror import open_mirror
from labwright.stages.evidence.scoring import build_reading
from labwright.stages.nodes.repository_program import BaselineError
from labwright.stages.repository.ablation_report import load_templates
from labwright.stages.repository.arm_runs import ArmRuns, CommandSetup, RepositoryArm
from labwright.stages.repository.authors import format_machine, let_author_work
from labwright.stages.repository.patch_scope import index_code
from labwright.stages.repository.program_facts import list_files_fact, order_by_distance, read_requested, show_code
from labwright.stages.run_context import RunContext, ask_until_sound, decision_number, wait_to_start

# Check the conclusion of a question: a model writes it, and the program prints every number in it by its key. A digit
# that the model types must occur in the question or in a name of the design. A direction is stated as the interval of
# the difference shows it, as in a paper (`review.claims.rules`); with one run of each arm, as the two values do.

_LEVEL = re.compile(r"95\s*%(?=\s+(?:confidence\s+)?intervals?\b)")
_NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?\s*%?")


def find_conclusion_faults(
    answer: ConclusionAnswer, results: QuestionResults, question: ResearchQuestion
) -> Iterator[str]:
    """Yield the statements of a conclusion that the record does not support."""
    text, design = answer.conclusion, results.design
    keys = dict.fromkeys(map(str.strip, KEY_PATTERN.findall(text)))
    yield from (f"{{{one}}} is not a listed key" for one in keys if one not in results.printed)
    bare = _LEVEL.sub(" ", KEY_PATTERN.sub(" ", text))
    for name in sorted((one.name for one in (*design.arms, *design.metrics)), key=len, reverse=True):
        bare = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w])", " ", bare)
    asked = {
        _strip(one)
        for part in (question.question, question.method, question.instructions)
        for one in _NUMBER.findall(part)
    }
    for number in dict.fromkeys(_NUMBER.findall(bare)):
        if _strip(number) not in asked:
            yield f"{number.strip()} is typed, and the question does not have it: print a listed value by its key"
    counts = CountedThings(re.compile("[a-z]+"), frozenset((results.seeds, len(design.arms), len(design.metrics))))
    for one in (*find_ratio_words(bare), *find_number_words(bare, (counts,))):
        yield f"{one.words!r} is a number in words: print a listed value by its key"
    known = {(one.difference.name, one.difference.condition, one.difference.other): one for one in results.comparisons}
    listed = {(one.metric, frozenset((one.arm, one.against))) for one in answer.directions}
    if results.pairs and not answer.directions and not any(key.startswith("diff/") for key in keys):
        yield "`directions` is empty: list what the conclusion says about the arms that the question compares"
    for one in results.pairs:
        found, used = one.difference, any(strip_form(key) == one.difference.key for key in keys)
        if used and (found.name, frozenset((found.condition, found.other))) not in listed:
            yield f"`directions` lacks the difference that it prints: {one}"
    for stated in answer.directions:
        found = known.get((stated.metric, stated.arm, stated.against))
        if found is None:
            what = f"{stated.metric} of {stated.arm} against {stated.against}"
            yield f"{what} was not compared: use the names of the design"
        elif found.shows != stated.is_:
            yield f"the results do not show {stated.is_!r}, but: {found}"


def summarize_results(results: QuestionResults) -> str:
    """Return a conclusion by the program, with keys: the difference of every two arms on every metric."""
    lines = [
        f"{one}; the difference is {{{one.difference.key}.mean}}"
        + (f", 95 % interval {{{one.difference.key}.ci}}" if one.difference.sd is not None else "")
        for one in results.pairs
    ]
    return "Measured: " + "; ".join(lines) + "."


def _strip(number: str) -> str:
    return re.sub(r"[\s,+]", "", number.replace("−", "-"))


REPORT_FILE, ANSWER_FILE, PATCH_FILE = "report.md", "answer.json", "change.patch"
RESULTS_FILE = f"{OUTPUT_FOLDER}/results.json"
SCRIPT_FILE = "reproduce.sh"
FIRST_SEED, SEEDS = "FIRST_SEED", "SEEDS"
"""Environment variables of the script: its first seed, and the number of seeds."""
MAX_READ_FILES, MAX_READ_CHARS = 8, 20_000
"""Maximum numbers of files that the reader of code sees, and of characters of one."""
FRESH_SHARE = 0.8
"""Share of the time left that is planned for fresh seeds."""
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
        assert context.question is not None
        self.context, self.question, self.mirror = context, context.question, context.studied.mirror
        self.texts = self.mirror.read_texts(context.studied.settings.tree)

    @property
    def state(self) -> RunState:
        return self.context.state

    async def answer(self) -> None:
        as_it_is = await self._measure_unmodified()
        if self.state.limit_reason is not None:
            return
        design, why = await self._design(as_it_is), "no usable design"
        if design is not None:
            node, why = await self._carry_out(design, as_it_is), "no usable code change"
            if self.state.limit_reason is None and node is not None and node.status == "good":
                await self._conclude(QuestionResults(self.state, node, design))
                return
            why = (find_failure(self.state, node) if node is not None else "") or why
        if self.state.limit_reason is None:
            self.context.recorder.append(QuestionAnswered(conclusion="", why=why))

    # --- runs ---------------------------------------------------------------------------------------------------------

    def _build_setup(
        self, argv: Sequence[str], metric: str = "", variables: Mapping[str, str] | None = None
    ) -> CommandSetup:
        command = RepositoryCommand(
            argv=tuple(argv), env=dict(variables or {}), metric=metric, direction=self.question.better
        )
        return CommandSetup(self.context.studied.settings.tree, command, self.context.studied.environment)

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

        setup = self._build_setup(self.question.run or ("bash", SCRIPT_FILE))
        code = index_code(self.texts)
        facts = (
            CoderFact(title="The question", text=self._describe_question(as_it_is)),
            CoderFact(title="The design", text="\n".join(design.statements)),
            list_files_fact(code, setup.command),
        )
        limits = (
            f"All runs of the script and all your commands may take {self.question.minutes:g} minutes together. "
            + format_machine(self.context.sandbox, setup.environment, code)
        )
        await let_author_work(
            self.context,
            "code",
            setup,
            ExperimentInputs(known=facts, surroundings=limits),
            ExperimentScript,
            check,
            protected=self.question.protect,
        )
        tries = list_experiment_nodes(self.state)
        return find_deciding_node(self.state) or (tries[-1] if tries else None)

    async def _try(self, files: Mapping[str, str], design: ExperimentDesign) -> str:
        """Run an experiment, let its code be read, and run it on fresh seeds. Return why it is refused; empty if it is
        accepted."""
        failure, first = await self._run_experiment(design, files)
        if failure:
            return failure
        doubts = await self._read_experiment(first, files, design)
        if doubts and len(list_experiment_nodes(self.state)) < MAX_TRIES:
            listed = "\n".join(map(str, doubts))
            return f"two readings of your code call these lines untrue; correct them, and hand in again:\n{listed}"
        begun = any(one.parent == first.id and one.kind == "replicate" for one in self.state.nodes.values())
        if not begun and len(list_experiment_nodes(self.state)) >= MAX_TRIES:
            return ""
        seconds = first.attempts[-1].seconds / design.seeds
        left = FRESH_SHARE * self._compute_seconds_left(until=first.id)
        seeds = plan_fresh_seeds(QuestionResults(self.state, first, design), seconds, left)
        if not seeds:
            return ""
        failure, fresh = await self._run_experiment(design, files, first, seeds)
        if not failure and repeats_values(first, fresh):
            return f"with {FIRST_SEED}={design.seeds} the script gives the values of {FIRST_SEED}=0: let it follow it"
        return failure

    async def _run_experiment(
        self, design: ExperimentDesign, files: Mapping[str, str], first: Node | None = None, seeds: int = 0
    ) -> tuple[str, Node]:
        """Run an experiment, after its `first` run on fresh `seeds`. Return why it failed, empty if it measured
        everything, and its node."""
        tries, runs = list_experiment_nodes(self.state), ArmRuns(self.context)
        arm = self._build_experiment(design, files, first, seeds or design.seeds)
        known = runs.list_nodes(arm)
        seconds = self._compute_seconds_left(before=known[0].id if known else "")
        if not known and (len(tries) >= MAX_TRIES or seconds < MIN_TRY_SECONDS):
            raise WorkStopped(f"{len(tries)} runs failed, and {max(0.0, seconds):.0f} s are left for another")
        ran = await ArmRuns(replace(self.context, node_seconds=max(MIN_TRY_SECONDS, seconds))).run(arm, 0)
        if ran is None:
            raise WorkStopped(self.state.limit_reason or "the study stops")
        why = "" if ran.failure is None else f"{ran.failure.message}\n{ran.stdout_tail[-4000:]}"
        return why, self.state.nodes[runs.find_node(arm)]

    def _compute_seconds_left(self, until: str = "", *, before: str = "") -> float:
        """Return the seconds left for experiments, after the author's commands and after the experiments up to one node
        or before another."""
        used = sum(one.seconds for one in self.state.calls.tool_uses.values())
        for one in list_experiment_nodes(self.state):
            if before and one.id == before:
                break
            used += one.attempts[-1].seconds if one.attempts else 0.0
            if one.id == until:
                break
        return self.question.minutes * 60 - used

    async def _read_experiment(
        self, node: Node, files: Mapping[str, str], design: ExperimentDesign
    ) -> tuple[CodeDoubt, ...]:
        """Return the doubts about an experiment's code on which two readings agree; it is read once."""
        client = await self._make_client(f"reading of {node.id}")
        known = {**self.texts, **files}
        code = index_code(known)
        order = dict.fromkeys(
            (*files, *(one for one in order_by_distance(code, self.question.run) if one in code.trees))
        )
        stripped = {path: strip_comments(known[path]) for path in order}
        fitting = [path for path, text in stripped.items() if text.strip() and len(text) <= MAX_READ_CHARS]
        shown = {path: stripped[path] for path in fitting[:MAX_READ_FILES]}
        inputs = CodeReaderInputs(
            task=self.question.question,
            arms=tuple(
                Arm(name=f"arm_{one.name}", title=one.name, role="method", description=one.what) for one in design.arms
            ),
            metrics=tuple(MetricSpec(name=one.name, higher_is_better=one.higher_is_better) for one in design.metrics),
            datasets=(),
            kind=node.kind,
            files={path: number_lines(text) for path, text in shown.items()},
        )
        found = await read_code(client, inputs, shown)
        if not any(one.node == node.id for one in self.state.search.code_readings):
            self.context.recorder.append(build_reading(node, client, found, found.confirmed))
        return found.confirmed

    def _describe_question(self, as_it_is: str) -> str:
        asked = self.question
        lines = [asked.question, asked.method, asked.instructions]
        lines += [f"Command: {format_command_line(asked.run)}; its result: {asked.measure}."] * bool(asked.run)
        lines += [f"The unmodified repository gave {as_it_is}."] * bool(as_it_is)
        lines += [f"Only these files may change or be added: {', '.join(asked.may_edit)}."] * bool(asked.may_edit)
        return "\n\n".join(filter(None, lines))

    def _build_experiment(
        self, design: ExperimentDesign, files: Mapping[str, str], first: Node | None, seeds: int
    ) -> RepositoryArm:
        first_seed = 0 if first is None else design.seeds
        setup = self._build_setup(("bash", SCRIPT_FILE), "", {FIRST_SEED: str(first_seed), SEEDS: str(seeds)})
        before = first or next(reversed(list_experiment_nodes(self.state)), None)
        return ArmRuns(self.context).build_arm(
            EXPERIMENT_ARM,
            "the experiment" + (" on fresh seeds" if first else ", repaired" if before else ""),
            setup,
            tree=self.mirror.replace_files(setup.tree, files),
            stage="preliminary",
            kind="replicate" if first else "debug" if before else "draft",
            parent=None if before is None else before.id,
            results=ScriptResults(
                file=RESULTS_FILE,
                metrics=tuple(one.name for one in design.metrics),
                arms=tuple(one.name for one in design.arms),
                seeds=seeds,
                first_seed=first_seed,
            ),
        )

    # --- design and code ----------------------------------------------------------------------------------------------

    async def _make_client(self, task: str) -> ModelClient:
        await wait_to_start(self.context)
        return self.context.models.make_client(decision_number(self.context.recorder, RunTask(task=task)), 0)

    async def _design(self, as_it_is: str) -> ExperimentDesign | None:
        """Return the recorded design, or ask for one; files that the model wants to see first are shown."""
        if (known := self.state.question.design) is not None:
            return known.design
        client = await self._make_client("design")
        inputs = QuestionInputs(
            **dict(show_code(self.texts, self.question.run)),
            asked=self.question,
            packages=self.context.packages,
            as_it_is=as_it_is,
            requests_left=MAX_REQUESTS,
        )
        for _ in range(MAX_TURNS + MAX_REQUESTS):
            found = await client.ask_or_none(QUESTION_DESIGN, inputs, instead="the study goes on without it")
            if found is None:
                return None
            if found.design is not None:
                self.context.recorder.append(QuestionDesigned(design=found.design))
                return found.design
            shown, missed = read_requested(found.wants, self.texts)
            left = max(0, inputs.requests_left - 1)
            update = {"requested": (*inputs.requested, *shown), "requests_left": left, "complaints": missed}
            inputs = inputs.model_copy(update=update)
        return None

    # --- the conclusion -----------------------------------------------------------------------------------------------

    async def _conclude(self, results: QuestionResults) -> None:
        client = await self._make_client("conclusion")
        values = ((key, to_plain_text(value), what) for key, (value, what) in results.printed.items())
        inputs = QuestionConclusionInputs(
            asked=self.question,
            design=results.design,
            values=tuple(ListedValue(key=key, text=text, what=what) for key, text, what in values)[:MAX_LISTED_VALUES],
            compared=tuple(map(str, results.comparisons)),
            doubts=tuple(list_doubts(self.state)),
        )
        source, why = summarize_results(results), "the model gave no conclusion that the measurements support"
        found, faults = await ask_until_sound(
            client,
            QUESTION_CONCLUSION,
            inputs,
            lambda answer: find_conclusion_faults(answer, results, self.question),
            MAX_TURNS,
        )
        if found is not None and not faults:
            source, why = found.conclusion, ""
        self.context.recorder.append(QuestionAnswered(conclusion=results.print_text(source), source=source, why=why))


def find_failure(state: RunState, node: Node) -> str:
    """Return why the command of a node failed; empty if it did not."""
    runs = state.cells.list_node_runs(node.id)
    failure = runs[-1].failure if runs else node.failure
    return failure.message if failure is not None else ""


def list_doubts(state: RunState) -> list[str]:
    """Return the doubts about the code of the experiment that is used."""
    first = next((one for one in reversed(list_experiment_nodes(state)) if one.kind != "replicate"), None)
    return [
        str(doubt)
        for one in state.search.code_readings
        if first is not None and one.node == first.id
        for doubt in one.doubts
    ]


# --- validation -------------------------------------------------------------------------------------------------------


def find_change_faults(files: Mapping[str, str], question: ResearchQuestion) -> Iterator[str]:
    """Yield the reasons to refuse a change."""
    for path in files:
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
    files = {PATCH_FILE: mirror.build_diff(tree, patched), REPORT_FILE: _render_report(state)}
    if SCRIPT_FILE in changed:
        deciding = find_deciding_node(state) or list_experiment_nodes(state)[-1]
        program = parse_program(read_source(folder.get_source_path(deciding.id)))
        wanted = program.results if program is not None else None
        seeds = f"export {FIRST_SEED}={wanted.first_seed} {SEEDS}={wanted.seeds}\n" if wanted is not None else ""
        files[SCRIPT_FILE] = seeds + changed[SCRIPT_FILE]
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


def _render_report(state: RunState) -> str:
    """Render the report as Markdown; a model wrote only the design and the conclusion."""
    designed, done, results = state.question.design, state.question.answer, find_question_results(state)
    printed = results.printed.items() if results is not None else ()
    nodes = [node for node in state.nodes.values() if node.source_sha256]  # a kill may leave one without source
    template = load_templates().get_template("question_report.md.jinja")
    return template.render(
        question=state.read_setting("question")["question"],
        imported=state.repository.imported,
        done=done,
        why=done.why if done is not None else state.limit_reason or "",
        results=results,
        values=[(to_plain_text(value), what, key) for key, (value, what) in printed],
        doubts=list_doubts(state),
        design=designed.design if designed is not None else None,
        runs=[(node, find_failure(state, node)) for node in nodes],
        patch_file=PATCH_FILE,
        script_file=SCRIPT_FILE,
    )
