"""A long paper read stretch by stretch, so that its judge knows of what there is no room to show.

What `sections.fitted` leaves out is read in stretches of at most `STRETCH` characters, one model call each, at most
`MOST_CALLS`; the notes and their quotes go to the judge. What nobody read is counted and said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from models.errors import ModelError
from models.exhibits import PartInputs, PartNotes, ReadPart
from review.judge.quotes import stands_in
from review.judge.sections import Part, shares

STRETCH = 24_000
NEAR = 200
"""Characters by which a piece may be longer, for it to end with a line."""
MOST_CALLS = 12
"""For one judgement. With the settings' limits of time and tokens for an answer this bounds what reading may cost."""

Ask = Callable[[PartInputs], Awaitable[PartNotes]]


@dataclass(frozen=True)
class Stretch:
    """A piece of a section. `unseen` of its characters are not shown to the judge."""

    where: str
    text: str
    unseen: int


@dataclass(frozen=True)
class Reading:
    """What was read beside what is shown. `failed` says why a stretch was not."""

    parts: tuple[ReadPart, ...] = ()
    unseen: int = 0
    unread: int = 0
    failed: tuple[str, ...] = ()


def stretches(parts: Sequence[Part], limit: int) -> list[Stretch]:
    """Every section that does not fit as a whole, in pieces, the main text first."""
    found: list[tuple[bool, Stretch]] = []
    for part, share in zip(parts, shares(parts, limit), strict=True):
        if share < len(part.text):
            pieces = _pieces(part.text)
            missing = len(part.text) - share
            for number, text in enumerate(pieces, 1):
                unseen = round(missing * len(text) / len(part.text))
                where = f"{part.title or 'before the first heading'}, part {number} of {len(pieces)}"
                found.append((part.back, Stretch(where, text, unseen)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _pieces(text: str) -> list[str]:
    """A text in as few pieces as `STRETCH` allows, about equally long, each cut after the end of a line if one is near:
    no call is spent on a last scrap of some words.
    """
    count = max(1, -(-len(text) // STRETCH))
    found: list[str] = []
    begin = 0
    for left in range(count, 1, -1):
        end = begin + -(-(len(text) - begin) // left)
        line = text.find("\n", end - 1, end + NEAR) + 1
        found.append(text[begin:line or end])
        begin = line or end
    return [*found, text[begin:]]


async def read(parts: Sequence[Part], limit: int, subject: str, ask: Ask) -> Reading:
    """Notes on what does not fit into `limit` characters. One call after the other; a failed one is told."""
    todo = stretches(parts, limit)
    done, failed, unread = list[ReadPart](), list[str](), sum(one.unseen for one in todo[MOST_CALLS:])
    for one in todo[:MOST_CALLS]:
        try:
            notes = (await ask(PartInputs(subject=subject, where=one.where, text=one.text))).notes
        except ModelError as error:
            failed.append(f"{one.where} was not read: {error}")
            unread += one.unseen
            continue
        done.append(ReadPart(where=one.where, characters=len(one.text), notes=notes,
                             quoted=tuple(stands_in(note.quote, one.text) for note in notes)))
    return Reading(tuple(done), sum(one.unseen for one in todo), unread, tuple(failed))
