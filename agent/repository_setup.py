"""Prepare a user's repository for a run: check it before anything is created, copy it, and open it for its cells."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath

from labwright.agent.data import dataset_name
from labwright.agent.settings import Settings
from labwright.inspector.provenance import SourceLocation
from labwright.models.roles.experiment_code import CODER
from labwright.models.roles.study_plan import REPOSITORY_PLAN
from labwright.record.baseline_check import parse_expected
from labwright.record.claims.estimates import find_winner
from labwright.record.claims.question_results import EXPERIMENT_ARM
from labwright.record.errors import UsageError
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder, read_source
from labwright.record.schema.data_plan import DataPlan, parse_arm
from labwright.record.schema.nodes import StudyKind
from labwright.record.source_tree import OVERRIDES_PLACEHOLDER, format_arm_path, parse_arm_code, parse_program
from labwright.sandbox.isolation.bubblewrap import KernelConfig, determine_isolation
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.repository.command import OutputRedactor, check_command_environment
from labwright.sandbox.repository.environment import CodeSettings, StudyRepository, build_environment
from labwright.sandbox.repository.git_mirror import GitMirror, open_mirror
from labwright.sandbox.repository.metric import parse_metric
from labwright.sandbox.repository.predictions import check_truth
from labwright.stages.repository import ablation_report
from labwright.stages.repository.paper_study import find_repository_faults
from labwright.stages.repository.patch_scope import index_code
from labwright.stages.repository.program_facts import find_lines, find_metric_lines, find_missing_script
from labwright.stages.repository.question import build_answer_files

MAX_LOCATIONS = 4
"""Maximum lines of a repository that are shown for one number."""


def check_code(settings: Settings, kind: StudyKind = "paper") -> None:
    """Refuse settings with which the repository cannot be run. Raises `UsageError`."""
    code = settings.code
    if code.repository is None:
        if code.command or code.metric or code.predictions or code.truth:
            raise UsageError("--command, --metric, --predictions and --truth require --code")
        return
    _check_predictions(settings, kind)
    if kind == "paper" and not (code.command and (code.metric or code.predictions)):
        lacking = "--metric" if code.command else "--command"
        where = "the command, with {seed} in place of the seed, and where its result is"
        raise UsageError(f"--code needs {lacking}: {where}")
    _check_hidden_output(code)
    _check_command(code)
    if metric := code.command_record.metric:
        parse_metric(metric)
    if code.expect:
        parse_expected(code.expect)


def check_repository_plan(plan: DataPlan, settings: Settings) -> None:
    """Refuse a plan that does not fit the repository. Raises `UsageError`."""
    code = settings.code
    if code.repository is None:
        if any(arm.words for arm in plan.arms):
            raise UsageError("the plan has command-line words for a repository: give --code")
        return
    read = index_code(GitMirror.read_working_texts(code.repository, dirty=code.dirty))
    for fault in find_repository_faults(plan, dataset_name(code.repository), code.command_record, read):
        raise UsageError(fault)
    plain = [arm.name for arm in plan.arms if arm.role != "baseline" and not arm.words]
    if plain and settings.models.list_candidates(CODER)[0].name == "offline":
        raise UsageError(
            f"arm {plain[0]!r} has no `words`, so it would equal the unmodified repository: give its command-line "
            "arguments in `words`, or a --model that writes a patch"
        )


def check_planner(settings: Settings) -> None:
    """Refuse the offline model as planner of a repository study. Raises `UsageError`."""
    if settings.models.list_candidates(REPOSITORY_PLAN)[0].name == "offline":
        raise UsageError(
            "the offline model cannot plan a study of a repository: give --model, or a --plan whose arms have `words`"
        )


def _check_hidden_output(code: CodeSettings) -> None:
    """Refuse expressions of hidden output that are not valid. Raises `UsageError`."""
    try:
        OutputRedactor.from_metric(code.test_metric, code.hide)
    except re.error as error:
        raise UsageError(f"--hide: invalid regular expression {error.pattern!r}: {error}") from None


def _check_command(code: CodeSettings) -> None:
    """Refuse a command that is no command line, or whose script the repository lacks."""
    try:
        words = shlex.split(code.command)
    except ValueError as error:
        raise UsageError(f"--command {code.command!r} is not a valid command line ({error})") from None
    if any(OVERRIDES_PLACEHOLDER in word and word != OVERRIDES_PLACEHOLDER for word in words):
        raise UsageError(f"{OVERRIDES_PLACEHOLDER} must be a separate argument in --command")
    assert code.repository is not None
    texts = GitMirror.read_working_texts(code.repository, dirty=code.dirty)
    if words and (lacking := find_missing_script(words, texts)):
        there = ", ".join(sorted(path for path in texts if path.endswith(".py"))[:8]) or "no Python file"
        raise UsageError(f"--command {code.command!r}: there is no {lacking} in the repository; it contains {there}")


def _check_predictions(settings: Settings, kind: StudyKind) -> None:
    """Refuse predictions and labels that cannot be scored. Raises `UsageError`, `RepositoryError`."""
    code = settings.code
    if bool(code.predictions) != (code.truth is not None):
        raise UsageError(
            "--predictions FILE (written by the command) and --truth FILE (labels to score it against) "
            "must be given together"
        )
    if code.truth is None or code.repository is None:
        return
    if kind == "paper" and (code.metric or code.test_metric):
        raise UsageError("--predictions are scored by the plan's metrics: omit --metric and --test-metric")
    if kind == "ablation" and code.metric not in METRICS:
        raise UsageError(f"--predictions FILE requires a --metric for predictions: {', '.join(METRICS)}")
    if settings.sandbox.network == "on":
        raise UsageError("--truth must stay hidden, but sandbox.network=on could expose it: turn it off")
    check_truth(code.truth, code.repository, list(code.mounts.values()))


def copy_repository(settings: Settings, folder: RunFolder) -> Settings:
    """Copy the repository into the run and return the settings with its commit. Raises `RepositoryError`."""
    code = settings.code
    if code.repository is None:
        return settings
    found = open_mirror(folder).import_head(code.repository, dirty=code.dirty)
    known = {"repository": code.repository.absolute(), "commit": found.commit, "tree": found.tree}
    return settings.model_copy(update={"code": code.model_copy(update=known)})


def import_repository(settings: Settings, folder: RunFolder) -> tuple[Settings, StudyRepository | None]:
    """Copy the repository and open it with its environment. Raises `RepositoryError`, `ExecutorError`."""
    settings = copy_repository(settings, folder)
    if settings.code.repository is None:
        return settings, None
    opened = open_repository(settings, folder)
    update = {"packages": opened.environment.facts.packages}
    return settings.model_copy(update={"code": settings.code.model_copy(update=update)}), opened


def open_repository(settings: Settings, folder: RunFolder, state: RunState | None = None) -> StudyRepository:
    """Open the repository for running its cells. Raises `UsageError`, `RepositoryError`, `ExecutorError`."""
    code, mirror = settings.code, open_mirror(folder)
    built = state.repository.environment if state is not None else None  # earlier versions only recorded packages there
    _check_hidden_output(code)
    environment = build_environment(
        mirror.read_texts(code.tree),
        settings.sandbox,
        python=code.python,
        mounts={name: Path(path) for name, path in code.mounts.items()},
        installed_before=code.packages or (built.packages if built is not None else None),
    )
    check_command_environment(
        environment.command_environment,
        KernelConfig(settings.sandbox, determine_isolation(settings.sandbox), folder.cache),
    )
    return StudyRepository(code, mirror, environment)


def build_report_files(state: RunState, folder: RunFolder) -> dict[str, str]:
    """Return the files of the report of an ablation or a question, by name."""
    if state.kind == "ablation":
        return ablation_report.build_report_files(state)
    return build_answer_files(state, folder)


def find_writing_lines(run: Path, state: RunState, key: str) -> tuple[SourceLocation, ...]:
    """Find the lines where the repository, as changed by the arm of a claim, writes a number; the arm's patch precedes
    them. Empty if nothing is found.

    The lines are those of the tree that ran (`stages.repository.program_facts.find_metric_lines`).
    """
    split, _, rest = key.partition("/")
    conditions = rest.split("/")[2].partition(".")[0].split("~") if rest.count("/") >= 2 else [""]
    conditions = [EXPERIMENT_ARM] if state.kind == "question" else conditions
    arm, node, source = "", None, dict[str, str]()
    for arm in map(parse_arm, conditions):  # of a difference, the arm that a patch changes
        good = (one.id for one in reversed(state.nodes.values()) if arm in one.arms and one.status == "good")
        node = next(good, find_winner(state))
        source = read_source(RunFolder(run).get_source_path(node)) if node is not None else {}
        if parse_arm_code(source, arm).patch:
            break
    if node is None or (code := parse_program(source)) is None:
        return ()
    mirror, made = open_mirror(RunFolder(run)), parse_arm_code(source, arm)
    texts = mirror.read_texts(mirror.apply_patch(code.tree, made.patch))
    files = re.findall(r"^\+\+\+ b/(.+)$", made.patch, re.MULTILINE)
    path = f"nodes/{node}/source/{format_arm_path(arm, '.diff')}"
    patch = SourceLocation(file=path, line=1, text=f"changes {', '.join(files)}")
    if code.results is not None:
        found = find_lines(texts, [rest.split("/")[1], PurePosixPath(code.results.file).name], quoted=True)
    else:
        is_test = split == "test" and code.test_metric
        found = find_metric_lines(texts, code.test_metric if is_test else code.command.metric)
    lines = (
        SourceLocation(file=f"{code.commit[:12]}:{path}", line=number, text=line)
        for path, number, line in found[:MAX_LOCATIONS]
    )
    return (*([patch] if made.patch else ()), *lines)
