"""`scientist revise`: read the reviews, check everything that can be refused, and hand over to `agent.run`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

from labwright.agent.cli.branch import FIXED_SETTINGS
from labwright.agent.cli.commands import Revise
from labwright.agent.cli.preflight import check_components, check_resumed, settings_here
from labwright.agent.cli.run import check_experiments
from labwright.agent.cli.run_view import run_with_view
from labwright.agent.cli.status import read_run_state
from labwright.agent.run import ReviewText, check_reviewed, rewrite_paper
from labwright.models.roles.revision import MAX_REVIEWS
from labwright.record.errors import UsageError
from labwright.record.run_folder import RunFolder
from labwright.review.judge.paper_reader import decode_text, read_bounded, read_pdf_text

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
    for key in flags:
        if (why := FIXED_SETTINGS.get(key.split(".")[0], FIXED_SETTINGS.get(key))) is not None:
            raise UsageError(f"--set {key}: {why}")
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
            texts = [
                "\n".join(_list_lines(one))
                for one in (cast("list[Any]", given) if isinstance(given, list) else [given])
            ]
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
