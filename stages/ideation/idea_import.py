"""With a model, extract the idea from a document, such as a hand-edited proposal, and store it next to the document.

`proposal.md` gets `proposal.idea.json`, which contains the hash of the text; an unchanged text is not converted again.
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
"""Maximum number of characters of a document that the model sees."""
HASH_FIELD = "Text SHA256"
"""The key of the text's hash in the idea file next to it."""


def is_text_path(path: Path) -> bool:
    """Return whether a path is a prose text rather than an idea file with fields."""
    return path.suffix.lower() in TEXT_SUFFIXES


def find_idea_path(path: Path) -> Path:
    """Return the path of the idea file that belongs to a document."""
    return path.with_name(f"{path.stem}.idea.json")


def read_kept_idea(path: Path) -> Idea | None:
    """Return the idea extracted from this exact text before, or None."""
    place = find_idea_path(path)
    try:
        data: Any = json.loads(place.read_text(encoding="utf-8"))
        return read_idea(place) if data[HASH_FIELD] == hash_file(path) else None
    except (OSError, ValueError, KeyError, TypeError, IdeaError):
        return None


def read_text(path: Path) -> str:
    """Read a text file. Raises `IdeaError` if it is missing, too large, too short or not UTF-8."""
    try:
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise IdeaError(f"{path} is larger than {MAX_TEXT_BYTES // 1000} kB: give a proposal, or an idea as JSON")
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise IdeaError(f"there is no file {path}: give --idea a JSON file or a proposal (.md)") from None
    except OSError as error:
        raise IdeaError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise IdeaError(f"{path} is not UTF-8 text (byte {error.start})") from None
    if len(text.split()) < 20:
        raise IdeaError(f"{path} has fewer than 20 words: no idea can be extracted from it")
    return text


async def convert_text(path: Path, client: ModelClient) -> Idea:
    """Extract the idea of a document and store it next to the document if possible. Raises `IdeaError`,
    `ModelError`.
    """
    text, known = read_text(path), None
    with suppress(IdeaError):  # the folder has no idea.json
        known = read_idea(path.with_name("idea.json"))
    answer = await client.ask(IDEA_OF, IdeaFromTextInputs(text=text[:MAX_SHOWN_CHARS], file=path.name, known=known))
    if answer.idea is None:
        why = answer.missing or "no idea was found"
        raise IdeaError(
            f"{path} contains no idea to run: {' '.join(why.split())[:300]}; to find ideas for a topic, use: "
            f"scientist ideate --topic {path}"
        )
    idea = answer.idea.idea.model_copy(update={"anchors": known.anchors if known else ()})  # models never set anchors
    data = idea.model_dump(mode="json", by_alias=True, exclude_none=True) | {HASH_FIELD: hash_file(path)}
    with suppress(OSError):  # read-only folder: the run stores the idea itself
        write_file(find_idea_path(path), json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return idea
