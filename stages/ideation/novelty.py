"""What may be said of an idea's novelty: what was looked at, and never that nothing like it exists.

Not guaranteed: words that claim novelty in a way that is not listed here pass.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from models.ideation import IdeaText
from record.ideation import ClosestWork, FoundWork, LiteratureSearch, Novelty

_CLAIM = re.compile(
    r"\b(?:novel(?:ty)?|unprecedented|(?:the|our|a) first (?:study|work|paper|method|approach|to|systematic|time)|"
    r"first[- ]ever|for the first time|never (?:been|before)|no (?:prior|previous|existing|earlier|one|published) \w+|"
    r"nobody has|has not (?:yet )?been (?:studied|explored|tried|tested|done|examined|investigated)|unexplored|"
    r"under-?explored|unlike (?:all )?(?:prior|previous|existing) \w+|state of the art|new state)\b", re.IGNORECASE)
_NOVEL = re.compile(r"\b[Nn]ovel\s+(?=\w)|\b[Uu]nprecedented\s+(?=\w)")
_NAMED = re.compile(
    r"([^\W\d_][\w'’-]+)(?:\s+(?:and|&)\s+[^\W\d_][\w'’-]+)?\s*(?:et al\.?|,?\s*\(?(?:19|20)\d\d[a-z]?\)?)")
_IDENTIFIED = re.compile(r"(?:arXiv[:\s]*)?\b\d{4}\.\d{4,5}\b|\b10\.\d{4,9}/\S+", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
REASONS = 300
"""Characters of why no source answered, as the first search has it."""
PROSE = ("related_work", "abstract", "short_hypothesis")
_NO_NAMES = frozenset(("in", "since", "by", "from", "of", "until", "after", "before", "and", "the", "year", "neurips",
                       "iclr", "icml", "acl", "cvpr", "may", "january", "february", "march", "april", "june", "july",
                       "august", "september", "october", "november", "december", "around", "to"))


def state_of(searches: Sequence[LiteratureSearch], works: Sequence[FoundWork]) -> Novelty:
    """What was looked at."""
    if not any(one.answered for one in searches):
        return "unchecked"
    return "compared" if works else "nothing_found"


def said_of(
    searches: Sequence[LiteratureSearch], works: Sequence[FoundWork], closest: Sequence[ClosestWork],
) -> str:
    """The same in words, for the idea's file."""
    made = f"{len(searches)} search{'es' if len(searches) != 1 else ''}"
    state = state_of(searches, works)
    if state == "unchecked":
        why = "; ".join(searches[0].silent if searches else ()) or "none is reachable"
        why = why if len(why) <= REASONS else f"{why[: REASONS - 4]} ..."
        return f"Novelty is unchecked: {made} made, and no source answered ({why})."
    sources = ", ".join(dict.fromkeys(name for one in searches for name in one.answered))
    if state == "nothing_found":
        return (f"{made} answered by {sources} returned no paper. That is no evidence that the idea is new: the words "
                "may have been the wrong ones.")
    bare = sum(not one.work.abstract for one in closest)
    note = f" ({bare} without an abstract)" if bare else ""
    return (f"Held against {len(closest)} of the {len(works)} papers{note} that {sources} returned to {made}, by their "
            "abstracts alone; nothing else was looked at.")


def claims_of(idea: IdeaText) -> tuple[str, ...]:
    """The phrases in an idea that say that it is new, each once."""
    return claims_in("\n".join((idea.title, *(getattr(idea, name) for name in PROSE))))


def named_in(idea: IdeaText) -> str:
    """The part of an idea in which works may be named."""
    return f"{idea.related_work}\n{idea.abstract}"


def claims_in(text: str) -> tuple[str, ...]:
    """The phrases in a text that claim novelty, each once."""
    return tuple(dict.fromkeys(match[0] for match in _CLAIM.finditer(text)))


def unknown_names(text: str, works: Iterable[FoundWork], context: Iterable[str]) -> tuple[str, ...]:
    """Works that a text names and that no search returned: `Smith et al.`, `(Smith, 2020)`, identifiers."""
    known = list(works)
    families = {_plain(name.split(",")[0] if "," in name else name.split()[-1])
                for one in known for name in one.authors if name.strip()}
    told = _plain(" ".join((*context, *(one.identifier for one in known))))
    named = [match[0] for match in _NAMED.finditer(text) if not _is_known(match[1], families, told)]
    named += [match[0] for match in _IDENTIFIED.finditer(text) if _plain(match[0]).removeprefix("arxiv") not in told]
    return tuple(dict.fromkeys(one.strip(" (,") for one in named))


def _is_known(name: str, families: set[str], told: str) -> bool:
    plain = _plain(name)
    return plain in families or plain in _NO_NAMES or not name[0].isupper() or plain in told


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKD", text).casefold()
    return "".join(char for char in text if char.isalnum() or char in "./ ").strip()


def without_claims(idea: IdeaText) -> tuple[IdeaText, tuple[str, ...]]:
    """The idea without sentences that claim novelty, and what was struck out.

    A field that would be empty says so instead; in the title only the word goes.
    """
    changed: dict[str, str] = {}
    struck: list[str] = []
    for name in PROSE:
        kept, gone = struck_out(getattr(idea, name))
        if gone:
            changed[name] = kept if len(kept) >= 50 else EMPTIED[name]
            struck += gone
    title = _NOVEL.sub("", idea.title)
    if title != idea.title:
        changed["title"] = title
        struck.append(idea.title)
    return idea.model_copy(update=changed), tuple(struck)


EMPTIED = {
    "related_work": "No related work is described: what stood here claimed a novelty that was not shown.",
    "abstract": "The abstract claimed a novelty that was not shown; see the hypothesis and the experiments instead.",
    "short_hypothesis": "The hypothesis was worded as a claim of novelty; see the experiments for what is measured.",
}


def struck_out(text: str) -> tuple[str, list[str]]:
    """A text without its sentences that claim novelty, and those sentences."""
    sentences = _SENTENCE.split(text)
    gone = [one for one in sentences if _CLAIM.search(one)]
    return " ".join(one for one in sentences if one not in gone), gone
