"""Prior work as data: items used by the closest papers, each with a quote, and items that several of them share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from labwright.record.schema import FrozenModel

UseKind = Literal["task", "dataset", "metric", "baseline", "value", "budget"]


class PriorUse(FrozenModel):
    """An item that a paper used, or a value that it reports."""

    what: UseKind
    name: str = Field(
        min_length=1, max_length=200, description="one thing, as the paper names it; also what a value measures"
    )
    quote: str = Field(min_length=1, max_length=400, description="up to thirty words that state this, copied")


class PriorPaper(FrozenModel):
    """A paper whose full text was read, and the items that it used. The quotes of `uses` were verified to occur in
    the text.
    """

    title: str
    file: str = Field(description="file name given by the user, or name in a catalogue")
    stored: str = Field(description="path of the run's own copy, relative to its folder")
    sha256: str
    uses: tuple[PriorUse, ...] = ()
    dropped: int = Field(default=0, description="entries whose quote is not in the text or does not mention them")


class SharedPriorUse(FrozenModel):
    """A dataset or baseline used by at least two papers."""

    what: UseKind
    name: str
    papers: tuple[str, ...] = Field(min_length=2, description="titles")


class OmittedPriorWork(FrozenModel):
    """An item that the closest papers use but the study does not."""

    name: str = Field(min_length=1, description="a dataset or baseline that two of the papers use")
    reason: str = Field(min_length=1, description="reason, in one short phrase for the readers of the paper")

    def __str__(self) -> str:
        return f"{self.name}, which the closest papers use ({self.reason})"


_STOP_WORDS = frozenset(
    "a an the of on for with and dataset datasets data set corpus benchmark task baseline method model "
    "algorithm optimizer optimiser classifier training standard vanilla plain".split()
)


def _split_words(text: str) -> list[str]:
    words = re.findall(r"[^\W_]+", text.casefold())
    return [word for word in words if word not in _STOP_WORDS] or words


def _build_keys(name: str) -> tuple[set[str], set[str]]:
    """Return the normalised forms of a name, including text in brackets and the initials of three or more words."""
    parts = [_split_words(part) for part in (re.sub(r"\([^()]*\)", " ", name), *re.findall(r"\(([^()]*)\)", name))]
    return (
        {"".join(words) for words in parts if words},
        {"".join(word[0] for word in words) for words in parts if len(words) > 2},
    )


def is_same_name(first: str, second: str) -> bool:
    """Return whether two names denote the same item, ignoring case, punctuation, stop words and brackets, and
    accepting initials.
    """
    (a, a_initials), (b, b_initials) = _build_keys(first), _build_keys(second)
    return bool(a & b or a_initials & b or a & b_initials)


def is_named_in_quote(use: PriorUse) -> bool:
    """Return whether a quote contains every number of a use's name and, for named things, a word of it or its
    initials."""
    words, numbers = use.quote.split(), re.compile(r"\d+(?:[.,]\d+)*")
    if not set(numbers.findall(use.name)) <= set(numbers.findall(use.quote)):
        return False
    if use.what in ("task", "budget") or {*_split_words(use.name), *_build_keys(use.name)[1]} & {
        *_split_words(use.quote)
    }:
        return True
    phrases = (" ".join(words[at : at + size]) for size in (2, 3, 4, 5) for at in range(len(words)))
    return any(is_same_name(use.name, phrase) for phrase in phrases)


def collect_shared_uses(papers: Sequence[PriorPaper]) -> tuple[SharedPriorUse, ...]:
    """Return the datasets and baselines used by at least two papers, in order of appearance."""
    found: list[tuple[PriorUse, dict[str, None]]] = []
    for title, use in ((one.title, use) for one in papers for use in one.uses if use.what in ("dataset", "baseline")):
        alike = (by for known, by in found if known.what == use.what and is_same_name(known.name, use.name))
        titles = next(alike, None)
        if titles is None:
            found.append((use, titles := {}))
        titles[title] = None
    return tuple(SharedPriorUse(what=use.what, name=use.name, papers=tuple(by)) for use, by in found if len(by) > 1)
