"""`scientist branch`: check everything that can be refused before anything is created.

Also `scientist revise`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from labwright.agent.branch import BranchChanges, create_branch, read_origin
from labwright.agent.cli.commands import Branch, Revise
from labwright.agent.cli.errors import print_to_stderr
from labwright.agent.cli.preflight import (
    check_components,
    check_isolation,
    check_name,
    check_resumed,
    check_slots,
    check_writable,
    make_run_name,
    removing_new_folder_on_refusal,
    settings_here,
)
from labwright.agent.cli.run import check_experiments, run_with_view
from labwright.agent.cli.status import read_run_events, read_run_state
from labwright.agent.forecast import check_prices_known
from labwright.agent.run import ReviewText, check_reviewed, resume_run, rewrite_paper
from labwright.models.retry import open_backend
from labwright.models.roles.paper_revision import MAX_REVIEWS
from labwright.record import control_files
from labwright.record.branching import BranchPointError
from labwright.record.errors import UsageError
from labwright.record.event_log import RecordError
from labwright.record.events.run_events import CommandReceived
from labwright.record.run_folder import RunFolder
from labwright.record.table import format_quantity
from labwright.review.judge.paper_reader import decode_text, read_bounded, read_pdf_text
from labwright.stages.nodes.repository_program import read_user_program

FIXED_SETTINGS = {
    "data": "the data of a run is fixed when it starts: start a new run with 'scientist run'",
    "context": "the documents of a run are read when it starts: start a new run with 'scientist run'",
    "sandbox.packages": "the packages of a run are fixed with its data plan: start a new run with 'scientist run'",
    "seed": "experiments keep the seed of the original run, for comparison; --seed sets that of decisions",
}
MAX_AUTHOR_LENGTH = 64
"""Maximum length of an author's name."""


def branch(args: Branch) -> int:
    run, point, note, flags = args.run, args.point, args.note, args.flags
    read_run_events(run)  # raises if this is not a run
    try:
        origin = read_origin(run, point)
    except BranchPointError as error:
        raise UsageError(f"cannot branch {run} from {point[:40]!r}: {error}") from None
    state, by = origin.cut.state, control_files.read_user_name()
    assert state.started is not None
    if args.code is None and args.author is not None:
        raise UsageError("--author requires --code")
    if note:
        why = control_files.find_refusal(state, CommandReceived(verb="note", text=note), is_running=False)
        if why is not None:
            raise UsageError(f"--note: {why}")
    author = _check_author(args.author or by) if args.code is not None else ""
    written = read_user_program(args.code, author=author, note=note) if args.code is not None else None
    settings = settings_here(state, flags, RunFolder(run))
    if written is not None and settings.code.repository is not None:
        raise UsageError(
            "--code gives an experiment.py, but this run studies a repository: edit it and start a new run"
        )
    point_in_name = re.sub("[^A-Za-z0-9]", "", point)[:12]
    runs = args.runs or (run.resolve().parent if run.is_absolute() else Path(os.path.relpath(run.resolve().parent)))
    made = f"{make_run_name(state.started.idea)[:60]}_from-{point_in_name}"
    root = runs / (made if args.name is None else check_name(args.name))
    if root.exists():
        raise UsageError(f"{root} already exists: choose another --name")
    _check_fixed(flags)
    check_writable(root.parent)
    check_resumed(settings, flags, root)
    open_backend(settings.models)
    check_prices_known(settings)
    check_slots(settings)
    check_isolation(settings.sandbox)
    with removing_new_folder_on_refusal(root.parent):
        try:
            create_branch(origin, BranchChanges(settings, flags, args.seed, note, written, by), root)
        except (RecordError, OSError) as error:
            raise UsageError(f"no branch was created: {error}") from None
    print_to_stderr(f"branch of {run.resolve().name} at {point}: {format_quantity(len(state.nodes), 'node')} reused")
    return run_with_view(lambda listener: resume_run(root, {}, listener=listener), root)


def _check_fixed(flags: Mapping[str, Any]) -> None:
    """Refuse settings that cannot change. Raises `UsageError`."""
    for key in flags:
        if (why := FIXED_SETTINGS.get(key.split(".")[0], FIXED_SETTINGS.get(key))) is not None:
            raise UsageError(f"--set {key}: {why}")


def _check_author(name: str) -> str:
    flat = " ".join(name.split())
    if not flat or len(flat) > MAX_AUTHOR_LENGTH or not flat.isprintable():
        raise UsageError(
            f"--author {name[:MAX_AUTHOR_LENGTH]!r} is not a valid name: give at most "
            f"{MAX_AUTHOR_LENGTH} printable characters"
        )
    return flat


# `scientist revise`: read the reviews, check everything that can be refused, and hand over to `agent.run`.

MAX_REVIEW_BYTES = 20 * 10**6
MIN_REVIEW_WORDS = 10
"""Minimum number of words of a review."""
MAX_REVIEW_CHARACTERS = 16_000
"""Maximum number of characters of a review, as the prompt shows it."""


def revise(args: Revise) -> int:
    run, flags = args.run, args.flags
    state = read_run_state(run)
    if state.kind != "paper":
        raise UsageError(f"{run} has no paper, so it cannot be revised")
    if state.started is None or state.phase != "done":
        raise UsageError(f"{run} is not finished: finish it first with scientist resume {run}")
    reviews = [review for path in (*args.reviews, *(args.more or ())) for review in read_reviews(path)]
    if len(reviews) > MAX_REVIEWS:
        raise UsageError(f"{len(reviews)} reviews are given, at most {MAX_REVIEWS} can be answered at once")
    _check_fixed(flags)
    check_reviewed(state, RunFolder(run))
    settings = settings_here(state, flags, RunFolder(run))
    check_components(settings, template="paper.template" in flags or not state.paper.template_sha256)
    check_resumed(settings, flags, run)
    check_experiments(state, settings, RunFolder(run))
    return run_with_view(lambda listener: rewrite_paper(run, flags, listener=listener, reviews=reviews), run)


def read_reviews(path: Path) -> list[ReviewText]:
    """Return the reviews in a file: one, or in JSON one for each element of a list. Raises `UsageError`."""
    if not path.is_file():
        raise UsageError(f"--reviews {path} does not exist: give a text, Markdown, PDF or JSON file")
    data = read_bounded(path, MAX_REVIEW_BYTES, "give a smaller file with only the review")
    if data.startswith(b"%PDF-"):
        texts = [asyncio.run(read_pdf_text(path, data))]
    else:
        text = decode_text(data, f"--reviews {path} is not a text file")
        texts = [text]
        if path.suffix.lower() == ".json":
            try:
                given = json.loads(text)
            except ValueError as error:
                raise UsageError(f"--reviews {path} is not valid JSON ({error}): correct it, or give text") from None
            every = cast("list[Any]", given) if isinstance(given, list) else [given]
            texts = ["\n".join(_list_lines(one)) for one in every]
    for text in texts:
        if len(text.split()) < MIN_REVIEW_WORDS:
            raise UsageError(
                f"--reviews {path} has a review of fewer than {MIN_REVIEW_WORDS} words: give its whole text"
            )
        if len(text) > MAX_REVIEW_CHARACTERS:
            raise UsageError(
                f"--reviews {path} has a review of {len(text)} characters, at most {MAX_REVIEW_CHARACTERS} are read: "
                "leave out what asks for nothing"
            )
    return [ReviewText(path.name if len(texts) == 1 else f"{path.name}, {at}", one) for at, one in enumerate(texts, 1)]


def _list_lines(value: Any, name: str = "") -> list[str]:
    """Return the texts of a JSON value with the names of their fields, one a line; `{value: X}` is X (OpenReview)."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if set(fields) == {"value"}:
            return _list_lines(fields["value"], name)
        return [line for key, one in fields.items() for line in _list_lines(one, key)]
    if isinstance(value, list):
        return [line for one in cast("list[Any]", value) for line in _list_lines(one, name)]
    return [f"{name}: {value}" if name else str(value)] if isinstance(value, str) and value.strip() else []
