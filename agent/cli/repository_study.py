"""`scientist ablate` and `scientist run --code --task`: studies of a repository without a paper.

The same command continues an unfinished folder of the same request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rich.text import Text

from labwright.agent.campaign import to_slug
from labwright.agent.cli.commands import Ablate, Run
from labwright.agent.cli.errors import format_line, print_lines, print_to_stderr, saving_traceback
from labwright.agent.cli.preflight import (
    check_disk_space,
    check_isolation,
    check_local_servers,
    check_name,
    check_writable,
    choose_folder,
    removing_new_folder_on_refusal,
)
from labwright.agent.cli.run_view import run_with_view
from labwright.agent.environment import choose_reviewer
from labwright.agent.plan_files import read_question
from labwright.agent.run import find_changes, start_or_resume
from labwright.agent.settings import Settings, compose_settings, override_settings
from labwright.record.claims.part_effects import compute_baseline_claim, format_report_texts
from labwright.record.errors import UsageError
from labwright.record.event_log import EventListener, is_run, read_state
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.idea import Idea, ResearchQuestion
from labwright.record.schema.nodes import StudyKind
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.repository.metric import PREDICTIONS_KIND
from labwright.stages.repository.ablation_report import UNRANKED_GATES, to_json


def ablate(args: Ablate) -> int:
    repository = args.repository.absolute()
    settings = choose_reviewer(compose_settings(config=args.config, flags=args.flags))
    code = settings.code
    if bool(code.predictions) != (code.truth is not None) or (code.predictions and code.metric not in METRICS):
        raise UsageError(
            f"--predictions FILE requires --truth TABLE and a --metric for predictions: {', '.join(METRICS)}"
        )
    metric = f"{PREDICTIONS_KIND}:{code.predictions}@{code.metric}" if code.predictions else code.metric
    settings = override_settings(
        settings.model_dump(mode="json"),
        {"code.repository": str(repository), "code.metric": metric, "code.predictions": ""},
    )
    idea = Idea.model_validate(
        {
            "Name": f"ablate-{to_slug(repository.name)}",
            "Title": f"Which parts of {repository.name} matter",
            "Short Hypothesis": f"Some parts of {repository.name} matter for its result, others do not.",
            "Experiments": "Reproduce the result, then measure it without each part.",
        }
    )
    folder = args.out or choose_study_folder(args.runs, f"ablate_{to_slug(repository.name)}", settings, "ablation")
    code = _run_study(idea, settings, "ablation", folder, is_quiet=args.json)
    if not is_run(folder):  # interrupted before anything was recorded
        return code
    state = read_state(folder)
    if args.json:
        print(json.dumps({"folder": str(folder), **to_json(state)}, indent=1))
    else:
        print_lines(_format_findings(state))
    return code


def run_question(args: Run, settings: Settings) -> int:
    assert args.task is not None
    repository = settings.code.repository
    if repository is None:
        raise UsageError("--task asks a question about a repository: give --code")
    for name, given in (("--idea", args.idea), ("--plan", args.plan), ("--space", args.space)):
        if given is not None:
            raise UsageError(f"{name} cannot be combined with --task")
    question = read_question(args.task)
    idea = build_question_idea(question, to_slug(args.task.stem))
    settings = settings.model_copy(update={"question": question})
    slug = f"task_{to_slug(args.task.stem)}"
    folder = (
        args.runs / check_name(args.name) if args.name else choose_study_folder(args.runs, slug, settings, "question")
    )
    code = _run_study(idea, settings, "question", folder)
    answer = read_state(folder).question.answer if is_run(folder) else None
    if answer is not None:
        print_lines([format_line(answer.conclusion or f"no answer: {answer.why}", "bold")])
    return code


def build_question_idea(question: ResearchQuestion, name: str) -> Idea:
    """Convert a question to the idea of a study."""
    steps = [text for text in (question.method, question.instructions) if text] or [question.question]
    return Idea.model_validate(
        {
            "Name": name,
            "Title": question.question.splitlines()[0][:300],
            "Experiments": steps,
            "Short Hypothesis": question.question,
        }
    )


# --- folders --------------------------------------------------------------------------------------------------------


def _run_study(idea: Idea, settings: Settings, kind: StudyKind, folder: Path, *, is_quiet: bool = False) -> int:
    """Start a study in its folder, or continue it there. Returns the exit code; raises `UsageError`."""
    check_writable(folder.parent)
    check_disk_space(settings, folder.parent)
    check_isolation(settings.sandbox)
    if not is_run(folder):
        check_local_servers(settings.models)

    def work(listener: EventListener) -> int:
        return start_or_resume(idea, settings, kind, folder, listener=listener)

    with removing_new_folder_on_refusal(folder.parent):
        if not is_quiet:
            return run_with_view(work, folder)
        with saving_traceback(folder):
            code = work(lambda event, state: None)
        if (ended := read_state(folder).process_end) is not None and ended.reason:
            print_to_stderr(ended.reason)
        return code


def choose_study_folder(runs: Path, suffix: str, settings: Settings, kind: StudyKind) -> Path:
    """Return the newest folder in which this study is unfinished, or a new one."""
    return choose_folder(
        runs, suffix, lambda one: read_state(one).phase != "done" and find_changes(one, settings, kind) is not None
    )


def _format_findings(state: RunState) -> Iterator[Text]:
    check, found = state.repository.baseline, state.ablation.results
    texts, claim = format_report_texts(state), compute_baseline_claim(state)
    if check is not None:
        mean = f": mean {texts[f'{claim.key}.mean']}" if claim is not None else ""
        yield format_line(f"baseline {check.verdict}{mean}{f'; {check.why}' if check.why else ''}", "bold")
        if check.verdict == "differs" and found is None:
            yield format_line("no ablations were run; to run them anyway: --accept-baseline")
    if found is None:
        return
    if not found.results:
        yield format_line(f"nothing was ablated: {found.stopped or 'no part was found'}", "bold")
    for one in found.results:
        if one.part in found.top or one.called in ("harmful", "critical", "helps", *UNRANKED_GATES):
            effect = f", effect {texts[f'{one.key}.mean']}" if one.mean is not None else ""
            yield format_line(f"{one.part}: {one.called}{effect}{f' ({one.flag})' if one.flag else ''}")
    if found.results and found.stopped:
        yield format_line(found.stopped)
