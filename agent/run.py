"""Start or resume a run: create the folder, hold the lock, and hand over to `agent.run_process`."""

from __future__ import annotations

import asyncio
import errno
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from labwright.agent.alerts import Alerts
from labwright.agent.data import pin_data
from labwright.agent.environment import describe_machine, measure_machine_rate
from labwright.agent.forecast import check_budget, check_prices_known
from labwright.agent.repository_setup import check_code, import_repository
from labwright.agent.run_process import RunProcess, find_ending, record_end
from labwright.agent.settings import Settings, adapt, check_author, list_differences
from labwright.models.errors import CatalogueError, ModelConfigError
from labwright.models.replay import ReplayModel
from labwright.models.retry import open_backend
from labwright.record import control_files
from labwright.record.campaign import is_campaign
from labwright.record.errors import UsageError
from labwright.record.event_log import EventListener, EventLog, RecordError, is_run, read_state
from labwright.record.events import Event
from labwright.record.events.paper_events import RewriteStarted
from labwright.record.events.run_events import RunResumed, RunStarted
from labwright.record.events.search_events import ProtocolReviewed
from labwright.record.lock import LOCK_FILE, acquire_lock, is_unused
from labwright.record.reducers.run_state import RunState
from labwright.record.retention import list_recorded_files
from labwright.record.run_folder import RunFolder, hash_file, write_file
from labwright.record.schema.data_plan import DataPlan
from labwright.record.schema.idea import Idea
from labwright.record.schema.nodes import StudyKind
from labwright.record.schema.paper import ReviewFile
from labwright.record.untrusted_files import remove_tree
from labwright.sandbox.isolation.bubblewrap import describe_isolation
from labwright.sandbox.isolation.interpreter import format_environment
from labwright.sandbox.isolation.processes import kill_orphans
from labwright.sandbox.repository.environment import StudyRepository
from labwright.stages.paper import template
from labwright.stages.user_documents import copy_documents

SET_BY_THE_PROGRAM = ("code.commit", "code.tree", "code.packages")
LATER_OPTIONS = ("ablation.reproduce_only", "ablation.accept_baseline", "ablation.budget_runs", "question.minutes")
"""Options of a request that may change when its folder is continued."""


NAMES_OF_A_START = frozenset(
    "cache code config.yaml context control data environment.txt events.jsonl idea.json library.bib nodes review "
    "templates".split()
)
"""What the folder of a study may have when its first event is recorded."""


def start_study(
    idea: Idea,
    settings: Settings,
    *,
    kind: StudyKind = "paper",
    runs: Path,
    name: str,
    listener: EventListener,
    plan: DataPlan | None = None,
    review: ProtocolReviewed | None = None,
) -> int:
    """Create a study and execute it to its end. Returns the exit code.

    `plan`, `review`: the plan, if the user gave one, and the review of exactly that plan, if a dry run made it.

    Invalid settings raise an error before anything is created, so nothing is left behind.
    """
    open_backend(settings.models)  # refuses an impossible model before anything is created
    check_author(settings)
    (check_budget if kind == "paper" else check_prices_known)(settings)
    check_campaign(settings)
    isolation = describe_isolation(settings.sandbox)
    settings = pin_data(settings)
    chosen = template.load_template(settings.paper.template) if kind == "paper" else None
    check_code(settings, kind)
    root = runs / name
    check_unstarted(root)
    root.mkdir(parents=True, exist_ok=True)
    with acquire_lock(root):  # of two identical commands, one starts the study
        check_unstarted(root)
        for path in root.iterdir():  # a copy of the repository may be incomplete
            if path.name != LOCK_FILE:
                remove_tree(path)
        folder = RunFolder(root)
        folder.create_folders()
        try:
            settings, repository = import_repository(settings, folder)
            write_file(root / "idea.json", idea.model_dump_json(by_alias=True, indent=1))
            write_file(root / "config.yaml", settings_to_yaml(settings))
            python = settings.sandbox.python
            environment = repository.environment.text if repository is not None else format_environment(python)
            write_file(folder.environment, environment)
            if settings.context is not None:
                copy_documents(settings.context, folder.context)
            if settings.paper.bib is not None:
                write_file(folder.library, settings.paper.bib.read_bytes())
            rate = None
            if chosen is not None:
                rate = measure_machine_rate(settings.sandbox, at_once=settings.search.num_workers)
            started = RunStarted(
                kind=kind,
                idea=idea,
                settings=settings.model_dump(mode="json"),
                seed=settings.seed,
                version=version("labwright"),
                model=settings.models.model_names,
                isolation=isolation,
                machine=describe_machine(settings.sandbox),
                template="" if chosen is None else template.copy_template(chosen, folder.templates),
                plan=plan,
                review=review,
                rate=rate,
            )
        except BaseException:  # nothing was started
            shutil.rmtree(root)
            raise
        try:
            return _run_process(folder, settings, listener, first=started, repository=repository)
        except (ModelConfigError, CatalogueError):
            if not is_lasting(read_state(root)):
                shutil.rmtree(root)
            raise


def is_lasting(state: RunState) -> bool:
    """Return whether a run has something to keep, a plan or an experiment, if it is refused."""
    return state.search.data_plan is not None or bool(state.nodes)


def check_unstarted(root: Path) -> None:
    """Refuse a folder that exists, unless it is empty or has only what a killed start left. Raises `UsageError`,
    `RecordError`."""
    if root.exists() and not _is_unstarted(root):
        raise UsageError(f"{root} already exists: choose another --name, or continue it: scientist resume {root}")


def _is_unstarted(folder: Path) -> bool:
    """Return whether a folder has only what a start creates before it records anything, e.g. before a kill."""
    return is_unused(folder, NAMES_OF_A_START) and (not is_run(folder) or read_state(folder).started is None)


def start_or_resume(idea: Idea, settings: Settings, kind: StudyKind, folder: Path, *, listener: EventListener) -> int:
    """Start a study of a repository, or continue the one of the same request in its folder with these settings.

    Returns the exit code. Raises what `start_study` and `resume_run` raise.
    """
    for given, option, name in ((settings.gates, "--gate", "gates"), (settings.memory, "--memory", "a memory")):
        if given:
            raise UsageError(
                f"{option}: only a study with a paper has {name}: leave it out, or run an idea (scientist run --idea)"
            )
    if not folder.exists() or _is_unstarted(folder):
        return start_study(idea, settings, kind=kind, runs=folder.parent, name=folder.name, listener=listener)
    changes = find_changes(folder, settings, kind)
    if changes is None:
        raise UsageError(f"{folder} is not empty and has no study of this request: choose another folder")
    return resume_run(folder, changes, listener=listener)


def find_changes(folder: Path, settings: Settings, kind: StudyKind) -> dict[str, Any] | None:
    """Return the settings in which a request differs from the study in a folder; None if that is another study.

    Raises `RecordError`.
    """
    state = read_state(folder) if is_run(folder) else RunState()
    if state.started is None or state.kind != kind:
        return None
    known, _ = adapt(state, {}, RunFolder(folder))
    changes = list_differences(known, settings)
    changes = {key: value for key, value in changes.items() if not key.startswith(SET_BY_THE_PROGRAM)}
    requested = [key for key in changes if key.startswith(("code.", "ablation.", "question.", "seed"))]
    return changes if set(requested) <= set(LATER_OPTIONS) else None


def resume_run(run: Path, overrides: dict[str, Any], *, listener: EventListener) -> int:
    """Resume a run where it stopped. Returns the exit code.

    Raises: `RecordError`, `RunLockedError`, `UsageError`.
    """
    state = read_state(run)
    if state.started is None:
        raise RecordError(f"{run} was interrupted before it started; start it again with 'scientist run'")
    if state.process_end is not None and not _can_continue(state, overrides):
        return find_ending(state)[0]  # nothing is left to do, so nothing is written
    settings, _ = adapt(state, overrides, RunFolder(run))
    check_prices_known(settings)
    check_campaign(settings)
    first = _describe_resumption(state, settings).model_copy(
        update={"settings": overrides, "template": _copy_paper_files(RunFolder(run), settings, overrides)}
    )
    with acquire_lock(run):
        return _run_process(RunFolder(run), settings, listener, first=first)


def _describe_resumption(state: RunState, settings: Settings) -> RunResumed:
    return RunResumed(
        model=settings.models.model_names,
        isolation=describe_isolation(settings.sandbox),
        machine=describe_machine(settings.sandbox),
        rate=measure_machine_rate(settings.sandbox, at_once=settings.search.num_workers, known=state.rate),
    )


def _can_continue(state: RunState, overrides: Mapping[str, Any]) -> bool:
    """Return whether something is left to do. A repository study that a limit ended goes on, and so does one with other
    settings.
    """
    return state.phase != "done" or (state.kind != "paper" and bool(overrides or state.limit_reason))


def rewrite_paper(
    run: Path, overrides: dict[str, Any], *, listener: EventListener, reviews: Sequence[ReviewText] = ()
) -> int:
    """Write the paper of a finished run again, keeping the existing version. Returns the exit code.

    Without reviews, no experiment is run, and only the program's own figures are drawn anew. With them, the new version
    answers them, and what they ask for may be measured; limits among the overrides are those of this work alone. Raises
    what `resume_run` raises.
    """
    state = read_state(run)
    if state.kind != "paper":
        raise UsageError(f"{run} has no paper, so it cannot be written again")
    if state.started is None or state.phase != "done":
        raise RecordError(f"{run} is not finished: finish it first with scientist resume {run}")
    folder, version = RunFolder(run), state.paper.version + 1
    if reviews:
        check_reviewed(state, folder)
        overrides = overrides | compute_revision_limits(state, adapt(state, overrides, folder)[0], overrides)
    settings, _ = adapt(state, overrides, folder)
    open_backend(settings.models)
    _check_rewritable(state, folder, has_new_template="paper.template" in overrides)
    first = RewriteStarted(
        version=version,
        settings=overrides,
        model=settings.models.model_names,
        template=_copy_paper_files(folder, settings, overrides),
    )
    with acquire_lock(run):
        kept = tuple(_keep_review(folder, version, at, one) for at, one in enumerate(reviews, 1))
        first = first.model_copy(update={"reviews": kept})
        return _run_process(folder, settings, listener, first=first)


@dataclass(frozen=True)
class ReviewText:
    """A review as read from a file."""

    name: str
    text: str


def _keep_review(folder: RunFolder, version: int, number: int, one: ReviewText) -> ReviewFile:
    path = folder.root / "reviews" / f"v{version}" / f"{number}.txt"
    write_file(path, one.text)
    return ReviewFile(name=one.name, stored=str(path.relative_to(folder.root)), sha256=hash_file(path))


def check_reviewed(state: RunState, folder: RunFolder) -> None:
    """Check that a run has a paper that reviewers can have read, and the files on which its experiments build.

    Raises `UsageError`.
    """
    current = state.paper.current
    if current is None or current.version != state.paper.version or state.paper.find_released_draft() is None:
        raise UsageError(
            f"the latest version of the paper of {folder.root} was not released, so no reviewer has read it: write it "
            f"again with scientist write {folder.root}"
        )
    files = (path for path, _ in list_recorded_files(state, folder))
    _check_complete(folder, files, "recorded files", "revise the paper in the whole run")


def compute_revision_limits(state: RunState, settings: Settings, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a run that is revised: what it took so far, and the given limits of the revision on top. The
    time limit of a revision is by default that of the run; a cap that is not given stays as it is.
    """
    assert state.started is not None
    spent = state.calls.spent_cost
    time_limit = settings.time_limit if "time_limit" in given else float(state.started.settings["time_limit"])
    limits = {"time_limit": state.active_seconds + time_limit}
    for name, amount in {"usd": spent.usd, "tokens": spent.tokens, "gpu_hours": spent.gpu_seconds / 3600}.items():
        if f"budget.{name}" in given:
            limits[f"budget.{name}"] = amount + (getattr(settings.budget, name) or 0)
    return limits


def _check_rewritable(state: RunState, folder: RunFolder, *, has_new_template: bool) -> None:
    """Check that a run has the files that a new version of its paper needs, which a reading copy lacks.

    Raises `TemplateError`, `UsageError`.
    """
    if state.paper.template_sha256 and not has_new_template:
        template.load_copy(folder.templates, state.paper.template_sha256)
    drawn = state.paper.figures
    source = folder.get_figures_path(drawn.version) / "source" if drawn is not None else folder.root
    files = [source / f"{one.name}.py" for one in (drawn.placed if drawn is not None else ())]
    _check_complete(folder, files, "files of its figures", "write the paper again from the whole run")


def _check_complete(folder: RunFolder, files: Iterable[Path], what: str, fix: str) -> None:
    """Refuse a run that lacks files, as a reading copy does. Raises `UsageError`."""
    if missing := [path for path in files if not path.exists()]:
        raise UsageError(
            f"{folder.root} is a reading copy: {len(missing)} {what} are missing, the first "
            f"{missing[0].relative_to(folder.root)}; {fix}"
        )


def _copy_paper_files(folder: RunFolder, settings: Settings, overrides: dict[str, Any]) -> str:
    """Copy a newly given bibliography and template into the run; return the template's hash, empty if none is new."""
    if "paper.bib" in overrides and settings.paper.bib is not None:
        write_file(folder.library, settings.paper.bib.read_bytes())
    if "paper.template" not in overrides:
        return ""
    return template.copy_template(template.load_template(settings.paper.template), folder.templates)


def _run_process(
    folder: RunFolder,
    settings: Settings,
    listener: EventListener,
    *,
    first: RunStarted | RunResumed | RewriteStarted,
    repository: StudyRepository | None = None,
) -> int:
    """Execute a study whose lock this process has, from its state; `first` is recorded first. Returns the exit code."""
    left = control_files.list_pending_files(folder.root)
    alerts = Alerts(settings.alerts, folder.root)

    def notify(event: Event, state: RunState) -> None:
        listener(event, state)
        alerts(event, state)

    with closing(EventLog(folder.events, listener=notify)) as log:
        try:
            if isinstance(first, RewriteStarted) and log.state.phase != "done":  # another process started one first
                raise RecordError(f"{folder.root} is already being rewritten: scientist resume {folder.root}")
            if isinstance(first, RunResumed):
                if not _can_continue(log.state, first.settings):  # it may have been killed before its end was recorded
                    code, reason = find_ending(log.state)
                    if log.state.process_end is None:
                        record_end(folder, settings, log, code, reason)
                    return code
                first = first.model_copy(update={"reaped": len(kill_orphans(folder.cache))})
                folder.delete_live_output()
            log.append(first)
            if isinstance(first, RewriteStarted) and first.reviews:  # experiments run again
                log.append(_describe_resumption(log.state, settings))
            backend = open_backend(settings.models)
            if isinstance(backend, ReplayModel):
                backend.resume_after(key.role for key in log.state.calls.answers)
            folder = replace(folder, paper_version=log.state.paper.version)
            process = RunProcess(folder, settings, log, left, backend, repository)
            return asyncio.run(process.run())
        except OSError as error:
            alerts.send("failure", str(error), log.state)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
                raise RecordError(
                    f"cannot write to {folder.root}: {error.strerror}; free disk space (or repair "
                    "the mount), then resume"
                ) from error
            raise
        except Exception as error:
            alerts.send("failure", f"{type(error).__name__}: {error}", log.state)
            raise
        finally:
            alerts.close()


def check_campaign(settings: Settings) -> None:
    """Refuse a run whose campaign is missing. Raises `UsageError`."""
    if settings.campaign is not None and not is_campaign(settings.campaign):
        raise UsageError(
            f"the run belongs to a campaign, but there is none at {settings.campaign}: restore it, or "
            "continue without it: --set campaign=null"
        )


def settings_to_yaml(settings: Settings) -> str:
    """Format settings as the run's configuration file."""
    return yaml.safe_dump(json.loads(settings.model_dump_json()), sort_keys=False)
