"""`scientist ablate`: reproduce a repository's result, then find out by experiment which of its parts carry it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import cast

from rich.text import Text

from labwright.agent.ablation import LOG, Order
from labwright.agent.ablation import ablate as work
from labwright.agent.cli.checks import runs_folder_removed_if_refused
from labwright.agent.cli.commands import Ablate
from labwright.agent.cli.edge import DONE, FINDINGS, INTERRUPTED, say, traceback_saved
from labwright.agent.cli.execute import wall_clock
from labwright.agent.cli.shown import line, show
from labwright.agent.settings import compose
from labwright.inspector.describe import describe
from labwright.record.errors import WrongUse
from labwright.record.fold.apply import fold
from labwright.record.fold.facts import CodeState
from labwright.record.reading import RecordError, read_events
from labwright.sandbox.metrics import METRICS
from labwright.sandbox.repository.metric import PREDICTIONS
from labwright.sandbox.repository.settings import pairs, places
from labwright.stages.repository.effects import UNRANKED
from labwright.stages.repository.reporting import REPORT, as_json


def ablate(asked: Ablate) -> int:
    order = order_of(asked)
    settings = compose(config=asked.config, flags=asked.flags)
    folder = asked.out or folder_for(asked.runs, order)
    if not asked.json:
        show([line(f"{order.repository}, in {folder}")])
    try:
        with runs_folder_removed_if_refused(folder.parent), traceback_saved(folder):
            state = work(
                order,
                settings,
                folder,
                listener=lambda event, state: (
                    None if asked.json else show(map(line, filter(None, [describe(event, state)])))
                ),
            )
    except KeyboardInterrupt:
        say(f"interrupted; continue with the same command (--out {folder})")
        return INTERRUPTED
    finally:
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    code = state.code
    if asked.json:
        print(json.dumps({"folder": str(folder), **as_json(code)}, indent=1))
    else:
        show([*_lines(code), line(f"report: {folder / REPORT}")])
    if code.settled is not None:
        return DONE if code.settled.results else FINDINGS
    return DONE if code.baseline is not None and code.baseline.verdict in ("reproduced", "unchecked") else FINDINGS


def _lines(code: CodeState) -> Iterator[Text]:
    check = code.baseline
    if check is not None:
        yield line(
            f"baseline {check.verdict}"
            + (f": mean {check.mean:.6g}" if check.mean is not None else "")
            + (f"; {check.why}" if check.why else ""),
            "bold",
        )
        if check.verdict == "differs" and code.settled is None:
            yield line("it is not ablated; to go on from it all the same: --accept-baseline")
    if code.settled is not None:
        if not code.settled.results:
            yield line(f"nothing was ablated: {code.settled.stopped or 'no part was found'}", "bold")
        for one in code.settled.results:
            if one.part in code.settled.top or one.called in ("harmful", "critical", "helps", *UNRANKED):
                yield line(
                    f"{one.part}: {one.called}"
                    + (f", effect {one.mean:+.4g}" if one.mean is not None else "")
                    + (f" ({one.flag})" if one.flag else "")
                )


def order_of(asked: Ablate) -> Order:
    """The order behind a command line. Raises `WrongUse`."""
    if asked.top < 1 or (asked.budget_runs is not None and asked.budget_runs < 8):
        raise WrongUse("--top must be at least 1, and --budget-runs at least 8: baseline and its check take five")
    scored = asked.predictions, asked.truth is not None
    if any(scored) and not (all(scored) and asked.metric in METRICS):
        raise WrongUse(
            f"--predictions FILE and --truth TABLE go together, with a --metric of predictions: {', '.join(METRICS)}"
        )
    metric = f"{PREDICTIONS}:{asked.predictions}@{asked.metric}" if asked.predictions else asked.metric
    return Order(
        repository=str(asked.repository.absolute()),
        command=_split(asked.command, "--command"),
        metric=metric,
        truth=str(asked.truth.absolute()) if asked.truth is not None else "",
        direction=asked.direction,
        scale=asked.metric_scale,
        expect=asked.expect,
        top=asked.top,
        budget=asked.budget_runs,
        timeout=wall_clock(asked.timeout),
        python=asked.python,
        mounts=tuple(places(_pairs(asked.mount, "--mount")).items()),
        env=tuple(_pairs(asked.env, "--env").items()),
        resume=_split(asked.resume_command, "--resume-command"),
        proxy=_split(asked.proxy, "--proxy"),
        dirty=asked.dirty,
        reproduce_only=asked.reproduce_only,
        accept_baseline=asked.accept_baseline,
    )


def _split(text: str, flag: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise WrongUse(f"{flag} {text!r} is no command line ({error})") from None


def _pairs(given: list[str] | None, flag: str) -> dict[str, str]:
    try:
        return cast("dict[str, str]", pairs(given or []))
    except ValueError as error:
        raise WrongUse(f"{flag} {error}") from None


def folder_for(runs: Path, order: Order) -> Path:
    """The newest folder in which this order was left unfinished, or a new one by time and repository."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(order.repository).name).strip("-.")[:60] or "repository"
    for folder in sorted(runs.glob(f"*_ablate_{slug}"), reverse=True):
        if _unfinished(folder, order):
            return folder
    time = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    names = (time, *(f"{time}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not (place := runs / f"{name}_ablate_{slug}").exists())


def _unfinished(folder: Path, order: Order) -> bool:
    try:
        code = fold(read_events(folder / LOG)).code
    except RecordError:
        return False
    ended = code.settled is not None or (
        code.baseline is not None and (order.reproduce_only or code.baseline.verdict in ("failed", "differs"))
    )
    return code.taken is not None and code.taken.settings == order.terms and not ended
