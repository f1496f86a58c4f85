"""What a program says of an idea: whether it fits this machine, repeats an earlier one, or claims a novelty.

Not guaranteed: that the estimate is right, which is a model's guess; two ideas that say the same in other words pass,
and so do words that claim novelty in a way that is not listed here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from labwright.models.roles.ideation import IdeaText
from labwright.record.ideation import ClosestWork, DataNeed, Estimate, Fit, FoundWork, LiteratureSearch, Means, Novelty
from labwright.record.nouns.idea import Idea
from labwright.sandbox.packages.wanted import wanted_of

_HUB = re.compile(r"^(?:hf:)?[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?(?:@[\w.-]+)?$")


def fit_of(estimate: Estimate, means: Means) -> Fit:
    """Whether an estimate fits, and what does not, one sentence each."""
    why: list[str] = []
    if estimate.hours > means.hours:
        why.append(f"it takes {estimate.hours:g} h by its estimate, and the run may take {means.hours:g} h")
    if estimate.node_hours > means.node_hours:
        why.append(f"its longest experiment takes {estimate.node_hours:g} h, and one may take {means.node_hours:g} h")
    if estimate.node_hours > estimate.hours:
        why.append(f"one experiment of {estimate.node_hours:g} h does not fit into a study of {estimate.hours:g} h")
    memory = estimate.gpu_memory_gb
    if memory and not means.gpus:
        why.append(f"it needs a GPU with {memory:g} GB, and the run has none")
    elif memory and means.gpu_memory_gb and memory > means.gpu_memory_gb:
        why.append(f"it wants {memory:g} GB of GPU memory, and there are {means.gpu_memory_gb:g} GB")
    have = {_package(one.split()[0]) for one in means.packages if one.strip()}
    have |= {_package(one.name) for one in wanted_of(means.installable)}
    why += [
        f"the package {name!r} is not installed"
        for name in estimate.packages
        if _package(name) not in have and _package(name) not in _STANDARD
    ]
    if estimate.network and not means.network:
        why.append("its experiments need a network, and have none")
    models = {one.split("@")[0] for one in means.pretrained}
    why += [
        f"the pretrained model {name!r} is not on this machine, and the hub cannot be reached"
        for name in estimate.pretrained
        if name.split("@")[0] not in models and not means.fetching
    ]
    why += [fault for need in estimate.data if (fault := _data(need, means))]
    return Fit(fits=not why, why=tuple(why))


def _data(need: DataNeed, means: Means) -> str | None:
    if need.source in ("catalogue", "own"):
        have = means.own if need.source == "own" else means.datasets
        return (
            None
            if need.name in have
            else (f"there is no dataset {need.name!r} here; there are {', '.join(have) or 'none'}")
        )
    if need.source == "hub":
        if not _HUB.match(need.name):
            return f"{need.name!r} is not a dataset of the hub: name it OWNER/SET"
        return None if means.fetching else f"the dataset {need.name!r} is on the hub, which cannot be reached from here"
    if need.source == "other":
        return f"the dataset {need.name!r} is not available: it is neither here nor on the hub"
    return None


_STANDARD = frozenset(("python", "json", "math", "random", "itertools", "collections", "statistics", "csv", "re"))


def _package(name: str) -> str:
    name = re.split(r"[\[=<>~!; ]", name.strip(), maxsplit=1)[0].lower().replace("_", "-")
    return {"sklearn": "scikit-learn", "pil": "pillow", "cv2": "opencv-python"}.get(name, name)


TITLES = 0.6
"""Shared stems over all stems of two titles, from which on they are one."""
HYPOTHESES = 0.55
"""The same for hypotheses."""
BOTH = 0.9
"""The same for the sum of the two: neither is a copy, together they are."""
_STOP = frozenset(
    """a an and are as at be by can could do does for from has have how if in into is it its may more no
not of on or our over than that the their them then there these they this to under up use using via was we what when
where which while with without would method model models approach study learning neural network networks
deep data""".split()
)


def are_alike(one: IdeaText | Idea, other: IdeaText | Idea) -> bool:
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
    return set(_stemmer().stemWords([word for word in words if word not in _STOP]))


@cache
def _stemmer() -> Any:
    import snowballstemmer  # brings the stemmers of thirty languages, which the start of the command line need not load

    return snowballstemmer.stemmer("english")  # pyright: ignore[reportUnknownMemberType]


_CLAIM = re.compile(
    r"\b(?:novel(?:ty)?|unprecedented|(?:the|our|a) first (?:study|work|paper|method|approach|to|systematic|time)|"
    r"first[- ]ever|for the first time|never (?:been|before)|no (?:prior|previous|existing|earlier|one|published) \w+|"
    r"nobody has|has not (?:yet )?been (?:studied|explored|tried|tested|done|examined|investigated)|unexplored|"
    r"under-?explored|unlike (?:all )?(?:prior|previous|existing) \w+|state of the art|new state)\b",
    re.IGNORECASE,
)
_NOVEL = re.compile(r"\b[Nn]ovel\s+(?=\w)|\b[Uu]nprecedented\s+(?=\w)")
_NAMED = re.compile(
    r"([^\W\d_][\w'’-]+)(?:\s+(?:and|&)\s+[^\W\d_][\w'’-]+)?\s*(?:et al\.?|,?\s*\(?(?:19|20)\d\d[a-z]?\)?)"
)
_IDENTIFIED = re.compile(r"(?:arXiv[:\s]*)?\b\d{4}\.\d{4,5}\b|\b10\.\d{4,9}/\S+", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
REASONS = 300
"""Characters of why no source answered, as the first search has it."""
PROSE = ("related_work", "abstract", "short_hypothesis")
_NO_NAMES = frozenset(
    (
        "in",
        "since",
        "by",
        "from",
        "of",
        "until",
        "after",
        "before",
        "and",
        "the",
        "year",
        "neurips",
        "iclr",
        "icml",
        "acl",
        "cvpr",
        "may",
        "january",
        "february",
        "march",
        "april",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "around",
        "to",
    )
)


def novelty_of(searches: Sequence[LiteratureSearch], works: Sequence[FoundWork]) -> Novelty:
    """What was looked at."""
    if not any(one.answered for one in searches):
        return "unchecked"
    return "compared" if works else "nothing_found"


def novelty_text(
    searches: Sequence[LiteratureSearch], works: Sequence[FoundWork], closest: Sequence[ClosestWork]
) -> str:
    """The same in words, for the idea's file."""
    made = f"{len(searches)} search{'es' if len(searches) != 1 else ''}"
    state = novelty_of(searches, works)
    if state == "unchecked":
        why = "; ".join(searches[0].silent if searches else ()) or "none is reachable"
        why = why if len(why) <= REASONS else f"{why[: REASONS - 4]} ..."
        return f"Novelty is unchecked: {made} made, and no source answered ({why})."
    sources = ", ".join(dict.fromkeys(name for one in searches for name in one.answered))
    if state == "nothing_found":
        return (
            f"{made} answered by {sources} returned no paper. That is no evidence of novelty: the words "
            "may have been the wrong ones."
        )
    bare = sum(not one.work.abstract for one in closest)
    note = f" ({bare} without an abstract)" if bare else ""
    return (
        f"Compared with {len(closest)} of the {len(works)} papers{note} that {sources} returned to {made}, by "
        "their abstracts alone; nothing else was looked at."
    )


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
    works = list(works)
    families = {
        _plain(name.split(",")[0] if "," in name else name.split()[-1])
        for one in works
        for name in one.authors
        if name.strip()
    }
    known = _plain(" ".join((*context, *(one.identifier for one in works))))
    named = [
        match[0]
        for match in _NAMED.finditer(text)
        if match[1][0].isupper()
        and (plain := _plain(match[1])) not in families
        and plain not in _NO_NAMES
        and plain not in known
    ]
    named += [match[0] for match in _IDENTIFIED.finditer(text) if _plain(match[0]).removeprefix("arxiv") not in known]
    return tuple(dict.fromkeys(one.strip(" (,") for one in named))


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
