"""The idea in a text, as a proposal that was edited by hand: read out by a model, kept beside the text.

`proposal.md` gets `proposal.idea.json`, with the hash of the text; an unchanged text is not asked for again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from labwright.models.client import ModelClient
from labwright.models.roles.ideation import IDEA_OF, IdeaFromTextInputs
from labwright.record.run_folder import hash_file, write_file
from labwright.record.schema.idea import Idea, IdeaError, read_idea

TEXT_SUFFIXES = (".md", ".markdown", ".txt")
MAX_TEXT_BYTES = 400_000
MAX_SHOWN_CHARS = 40_000
"""Characters of a text that are shown to the model."""
HASH_FIELD = "Text SHA256"
"""The key under which the file beside a text keeps the text's hash."""


def is_text_path(path: Path) -> bool:
    """Whether a path is that of a text, which has no fields of an idea."""
    return path.suffix.lower() in TEXT_SUFFIXES


def find_idea_path(path: Path) -> Path:
    """Where the idea of a text is kept."""
    return path.with_name(f"{path.stem}.idea.json")


def read_kept_idea(path: Path) -> Idea | None:
    """The idea that was read out of this very text before, or None."""
    place = find_idea_path(path)
    try:
        data: Any = json.loads(place.read_text(encoding="utf-8"))
        return read_idea(place) if data[HASH_FIELD] == hash_file(path) else None
    except (OSError, ValueError, KeyError, TypeError, IdeaError):
        return None


def read_text(path: Path) -> str:
    """The text of a file. Raises `IdeaError` for what is none."""
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise IdeaError(f"{path} is larger than {MAX_TEXT_BYTES // 1000} kB: give a proposal, or an idea as JSON")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise IdeaError(f"there is no {path}: give --idea a JSON file, or a proposal (.md)") from None
    except OSError as error:
        raise IdeaError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise IdeaError(f"{path} is not UTF-8 text (byte {error.start})") from None
    if len(text.split()) < 20:
        raise IdeaError(f"{path} holds fewer than 20 words: no idea can be read out of it")
    return text


async def convert_text(path: Path, client: ModelClient) -> Idea:
    """The idea of a text, written beside it where that can be. Raises `IdeaError`, `ModelError`."""
    text, known = read_text(path), None
    with suppress(IdeaError):  # where the folder has no idea.json
        known = read_idea(path.with_name("idea.json"))
    answer = await client.ask(IDEA_OF, IdeaFromTextInputs(text=text[:MAX_SHOWN_CHARS], file=path.name, known=known))
    if answer.idea is None:
        why = answer.missing or "no idea was found"
        raise IdeaError(
            f"{path} is not a text to run from: {' '.join(why.split())[:300]}; find ideas for a topic with"
            f": scientist ideate --topic {path}"
        )
    idea = answer.idea.idea.model_copy(update={"anchors": known.anchors if known else ()})  # no model gives one
    data = idea.model_dump(mode="json", by_alias=True, exclude_none=True) | {HASH_FIELD: hash_file(path)}
    with suppress(OSError):  # a folder that cannot be written to: the run keeps the idea itself
        write_file(find_idea_path(path), json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return idea
