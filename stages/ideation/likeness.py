"""Which two ideas are the same: names, titles and hypotheses compared as sets of word stems.

Not guaranteed: two ideas that say the same in other words pass; the model's own check may see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from models.ideation import EarlierIdea, IdeaText

TITLES = 0.6
"""Shared stems over all stems of two titles, from which on they are one."""
HYPOTHESES = 0.55
"""The same for hypotheses."""
BOTH = 0.9
"""The same for the sum of the two: neither is a copy, together they are."""
_STOP = frozenset("""a an and are as at be by can could do does for from has have how if in into is it its may more no
not of on or our over than that the their them then there these they this to under up use using via was we what when
where which while with without would method model models approach study learning neural network networks
deep data""".split())


def twin_of(idea: IdeaText, earlier: Iterable[EarlierIdea]) -> str | None:
    """The name of an earlier idea that this one repeats, or None."""
    return next((one.name for one in earlier if are_alike(idea, one)), None)


def are_alike(one: IdeaText | EarlierIdea, other: IdeaText | EarlierIdea) -> bool:
    """Whether two ideas are the same by their words."""
    if squeezed(one.name) == squeezed(other.name) or squeezed(one.title) == squeezed(other.title):
        return True
    titles, hypotheses = shared(one.title, other.title), shared(one.short_hypothesis, other.short_hypothesis)
    return titles >= TITLES or hypotheses >= HYPOTHESES or titles + hypotheses >= BOTH


def shared(one: str, other: str) -> float:
    """Stems that two texts share, over all stems of both; 0 where one has none."""
    a, b = _stems(one), _stems(other)
    return len(a & b) / len(a | b) if a and b else 0.0


def squeezed(text: str) -> str:
    """Letters and digits alone."""
    return "".join(char for char in text.casefold() if char.isalnum())


def _stems(text: str) -> set[str]:
    words = re.findall(r"[^\W_]+", text.casefold())
    return {_stem(word) for word in words if word not in _STOP}


def _stem(word: str) -> str:
    """A word without its commonest endings: 'calibrated', 'calibrates' and 'calibration' are one."""
    for ending in ("ational", "ations", "ation", "ating", "ated", "ates", "ings", "ing", "ies", "ed", "es", "ate", "s",
                   "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word
