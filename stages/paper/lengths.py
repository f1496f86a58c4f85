"""How long the parts of a draft are, and whether it keeps to its pages. By an estimate, scaled to what was counted."""

from __future__ import annotations

import re

from models.roles import SectionLength
from record.nouns.drafts import Draft

WORDS_A_PAGE = 550
FLOAT = 0.25
"""Pages of a figure or table."""
FEWEST = 0.6
"""Share of the limit below which a paper is too thin."""

_FLOAT = re.compile(r"\\paper(?:figure|table)\{[^}]*\}")
_MACRO = re.compile(r"\\(?:result|setup|ref|cite\w*)\{[^}]*\}")


def lengths(draft: Draft, pages: float | None) -> tuple[SectionLength, ...]:
    """Abstract and sections in order. `pages` of main text in all, where they were counted."""
    texts = {"abstract": draft.abstract, **{section.title: section.body for section in draft.sections}}
    found = [(title, _words(text), len(_FLOAT.findall(text))) for title, text in texts.items()]
    total = sum(_pages(words, floats) for _, words, floats in found)
    scale = pages / total if pages and total else 1.0
    return tuple(SectionLength(title=title, words=words, floats=floats, pages=round(scale * _pages(words, floats), 2))
                 for title, words, floats in found)


def too_thin(pages: float | None, limit: int) -> tuple[str, ...]:
    """A complaint on a paper that leaves much of its space unused."""
    if pages is None or pages >= FEWEST * limit:
        return ()
    return (f"the main text fills {pages:.1f} of {limit} pages: say more of method, settings, results and failures "
            "that the record holds",)


def _words(text: str) -> int:
    return len(_MACRO.sub("x", _FLOAT.sub("", text)).split())


def _pages(words: int, floats: int) -> float:
    return words / WORDS_A_PAGE + FLOAT * floats
