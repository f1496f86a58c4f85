"""`scientist ablate`: reproduce a repository's result, then measure which of its components matter for it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import cast

from rich.text import Text

from labwright.agent.ablation import AblationRequest, ablate_repository
from labwright.agent.cli.commands import Ablate
from labwright.agent.cli.errors import DONE, FINDINGS, INTERRUPTED, print_to_stderr, saving_traceback
from labwright.agent.cli.execute import parse_timeout
from labwright.agent.cli.output import format_line, print_lines
from labwright.agent.cli.preflight import removing_new_folder_on_refusal
from labwright.agent.settings import compose_settings
from labwright.inspector.event_text import describe_event
from labwright.record.errors import UsageError
from labwright.record.line_store import EVENTS_FILE
from labwright.record.log_reader import RecordError, read_events
from labwright.record.reducers.event_fold import fold_events
from labwright.record.reducers.state_fields import RepositoryState
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.repository.metric import PREDICTIONS_KIND
from labwright.sandbox.repository.settings import parse_pairs, resolve_paths
from labwright.stages.repository.ablation_report import REPORT_FILE, to_json
from labwright.stages.repository.ablation_stats import UNRANKED_GATES


def ablate(args: Ablate) -> int:
    order = build_request(args)
    settings = compose_settings(config=args.config, flags=args.flags)
    folder = args.out or choose_folder(args.runs, order)
    if not args.json:
        print_lines([format_line(f"{order.repository}, in {folder}")])
    try:
        with removing_new_folder_on_refusal(folder.parent), saving_traceback(folder):
            state = ablate_repository(
                order,
                settings,
                folder,
                listener=lambda event, state: (
                    None if args.json else print_lines(map(format_line, filter(None, [describe_event(event, state)])))
                ),
            )
    except KeyboardInterrupt:
        print_to_stderr(f"interrupted; continue with the same command (--out {folder})")
        return INTERRUPTED
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    code = state.repository_state
    if args.json:
        print(json.dumps({"folder": str(folder), **to_json(code)}, indent=1))
    else:
        print_lines([*_format_code_state(code), format_line(f"report: {folder / REPORT_FILE}")])
    if code.ablation_results is not None:
        return DONE if code.ablation_results.results else FINDINGS
    return DONE if code.baseline is not None and code.baseline.verdict in ("reproduced", "unchecked") else FINDINGS


def _format_code_state(code: RepositoryState) -> Iterator[Text]:
    check = code.baseline
    if check is not None:
        yield format_line(
            f"baseline {check.verdict}"
            + (f": mean {check.mean:.6g}" if check.mean is not None else "")
            + (f"; {check.why}" if check.why else ""),
            "bold",
        )
        if check.verdict == "differs" and code.ablation_results is None:
            yield format_line("no ablations were run; to run them anyway: --accept-baseline")
    if code.ablation_results is not None:
        if not code.ablation_results.results:
            yield format_line(f"nothing was ablated: {code.ablation_results.stopped or 'no part was found'}", "bold")
        for one in code.ablation_results.results:
            if one.part in code.ablation_results.top or one.called in ("harmful", "critical", "helps", *UNRANKED_GATES):
                yield format_line(
                    f"{one.part}: {one.called}"
                    + (f", effect {one.mean:+.4g}" if one.mean is not None else "")
                    + (f" ({one.flag})" if one.flag else "")
                )


def build_request(args: Ablate) -> AblationRequest:
    """Build the request from the command line. Raises `UsageError`."""
    if args.top < 1 or (args.budget_runs is not None and args.budget_runs < 8):
        raise UsageError(
            "--top must be at least 1, and --budget-runs at least 8: the baseline and its check take five runs"
        )
    scored = args.predictions, args.truth is not None
    if any(scored) and not (all(scored) and args.metric in METRICS):
        raise UsageError(
            f"--predictions FILE requires --truth TABLE and a --metric for predictions: {', '.join(METRICS)}"
        )
    metric = f"{PREDICTIONS_KIND}:{args.predictions}@{args.metric}" if args.predictions else args.metric
    return AblationRequest(
        repository=str(args.repository.absolute()),
        command=_split_words(args.command, "--command"),
        metric=metric,
        truth=str(args.truth.absolute()) if args.truth is not None else "",
        direction=args.direction,
        scale=args.metric_scale,
        expect=args.expect,
        top=args.top,
        budget=args.budget_runs,
        timeout=parse_timeout(args.timeout),
        python=args.python,
        mounts=tuple(resolve_paths(_parse_pairs(args.mount, "--mount")).items()),
        env=tuple(_parse_pairs(args.env, "--env").items()),
        resume=_split_words(args.resume_command, "--resume-command"),
        proxy=_split_words(args.proxy, "--proxy"),
        dirty=args.dirty,
        reproduce_only=args.reproduce_only,
        accept_baseline=args.accept_baseline,
    )


def _split_words(text: str, flag: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{flag} {text!r} is not a valid command line ({error})") from None


def _parse_pairs(given: list[str] | None, flag: str) -> dict[str, str]:
    try:
        return cast("dict[str, str]", parse_pairs(given or []))
    except ValueError as error:
        raise UsageError(f"{flag} {error}") from None


def choose_folder(runs: Path, order: AblationRequest) -> Path:
    """Return the newest folder in which this request is unfinished, or a new folder named by time and repository."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(order.repository).name).strip("-.")[:60] or "repository"
    for folder in sorted(runs.glob(f"*_ablate_{slug}"), reverse=True):
        if _is_unfinished(folder, order):
            return folder
    time = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    names = (time, *(f"{time}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not (place := runs / f"{name}_ablate_{slug}").exists())


def _is_unfinished(folder: Path, order: AblationRequest) -> bool:
    try:
        code = fold_events(read_events(folder / EVENTS_FILE)).repository_state
    except RecordError:
        return False
    ended = code.ablation_results is not None or (
        code.baseline is not None and (order.reproduce_only or code.baseline.verdict in ("failed", "differs"))
    )
    return code.imported is not None and code.imported.settings == order.recorded_terms and not ended
