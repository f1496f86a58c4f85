"""Automatic checks of an idea: whether it fits this machine, repeats an earlier idea, or claims novelty.

Limits: the resource estimate is a model's guess; novelty claims with other wording are missed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from labwright.literature.works import build_title_key
from labwright.models.client import ModelClient
from labwright.models.roles.ideation import IDEA_OF, IdeaFromTextInputs, IdeaText
from labwright.record.ideation import (
    AvailableResources,
    ClosestWork,
    Feasibility,
    FoundPaper,
    LiteratureSearch,
    NoveltyLevel,
    RequiredDataset,
    ResourceEstimate,
)
from labwright.record.run_folder import hash_file, write_file
from labwright.record.schema.idea import Idea, IdeaError, read_idea
from labwright.sandbox.packages import parse_requirements

_HUB_NAME = re.compile(r"^(?:hf:)?[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?(?:@[\w.-]+)?$")


def check_fit(estimate: ResourceEstimate, means: AvailableResources) -> Feasibility:
    """Return whether an estimate fits the available resources, with one sentence per obstacle."""
    hours, longest, memory = estimate.hours, estimate.node_hours, estimate.gpu_memory_gb
    have = {_normalise_package(one.split()[0]) for one in means.packages if one.strip()}
    have |= {*map(_normalise_package, parse_requirements(means.installable)), *_STANDARD_MODULES}
    models = {one.split("@")[0] for one in means.pretrained}
    obstacles = [
        (hours > means.hours, f"it is estimated to take {hours:g} h, but the run may take {means.hours:g} h"),
        (
            longest > means.node_hours,
            f"its longest experiment takes {longest:g} h, but the limit is {means.node_hours:g} h",
        ),
        (longest > hours, f"one experiment of {longest:g} h does not fit into a study of {hours:g} h"),
        (memory and not means.gpus, f"it needs a GPU with {memory:g} GB, but the run has none"),
        (
            means.gpus and 0 < means.gpu_memory_gb < memory,
            f"it needs {memory:g} GB of GPU memory, but only {means.gpu_memory_gb:g} GB are available",
        ),
        *((_normalise_package(one) not in have, f"the package {one!r} is not installed") for one in estimate.packages),
        (estimate.network and not means.network, "its experiments need network access, which is disabled"),
        *(
            (
                one.split("@")[0] not in models and not means.fetching,
                f"the pretrained model {one!r} is not on this machine, and the hub is unreachable",
            )
            for one in estimate.pretrained
        ),
    ]
    why = [text for is_obstacle, text in obstacles if is_obstacle]
    why += [fault for need in estimate.data if (fault := _find_data_obstacle(need, means))]
    return Feasibility(fits=not why, why=tuple(why))


def _find_data_obstacle(need: RequiredDataset, means: AvailableResources) -> str:
    have = means.own if need.source == "own" else means.datasets
    if need.source in ("catalogue", "own") and need.name not in have:
        return f"there is no dataset {need.name!r} here; available: {', '.join(have) or 'none'}"
    if need.source == "hub" and not _HUB_NAME.match(need.name):
        return f"{need.name!r} is not a valid hub dataset name: use OWNER/SET"
    if need.source == "hub" and not means.fetching:
        return f"the dataset {need.name!r} is on the hub, which is unreachable"
    if need.source == "other":
        return f"the dataset {need.name!r} is not available: it is neither here nor on the hub"
    return ""


_STANDARD_MODULES = frozenset(
    ("python", "json", "math", "random", "itertools", "collections", "statistics", "csv", "re")
)


def _normalise_package(name: str) -> str:
    name = re.split(r"[\[=<>~!; ]", name.strip(), maxsplit=1)[0].lower().replace("_", "-")
    return {"sklearn": "scikit-learn", "pil": "pillow", "cv2": "opencv-python"}.get(name, name)


def are_alike(first: IdeaText | Idea, second: IdeaText | Idea) -> bool:
    """Return whether two ideas have the same name or title; whether they ask the same question is read by a model."""
    return any(
        build_title_key(getattr(first, name)) == build_title_key(getattr(second, name)) for name in ("name", "title")
    )


_NOVELTY_CLAIM = re.compile(
    r"\b(?:novel(?:ty)?|unprecedented|(?:the|our|a) first (?:study|work|paper|method|approach|to|systematic|time)|"
    r"first[- ]ever|for the first time|never (?:been|before)|no (?:prior|previous|existing|earlier|one|published) \w+|"
    r"nobody has|has not (?:yet )?been (?:studied|explored|tried|tested|done|examined|investigated)|unexplored|"
    r"under-?explored|unlike (?:all )?(?:prior|previous|existing) \w+|state of the art|new state)\b",
    re.IGNORECASE,
)
_NOVELTY_ADJECTIVE = re.compile(r"\b[Nn]ovel\s+(?=\w)|\b[Uu]nprecedented\s+(?=\w)")
_NAMED_WORK = re.compile(
    r"([^\W\d_][\w'’-]+)(?:\s+(?:and|&)\s+[^\W\d_][\w'’-]+)?\s*(?:et al\.?|,?\s*\(?(?:19|20)\d\d[a-z]?\)?)"
)
_WORK_IDENTIFIER = re.compile(r"(?:arXiv[:\s]*)?\b\d{4}\.\d{4,5}\b|\b10\.\d{4,9}/\S+", re.IGNORECASE)
_SENTENCE_BREAK = re.compile(r"(?<=[.!?])\s+")
MAX_REASON_CHARS = 300
"""Maximum number of characters of the reason why no source answered the first search."""
PROSE_FIELDS = ("related_work", "abstract", "short_hypothesis")
_NON_NAME_WORDS = frozenset(
    """in since by from of until after before and the year around to neurips iclr icml acl cvpr january february march
april may june july august september october november december""".split()
)


def build_novelty(searches: Sequence[LiteratureSearch], works: Sequence[FoundPaper]) -> NoveltyLevel:
    """Return the status of novelty: unchecked, compared, or nothing found."""
    if not any(one.answered for one in searches):
        return "unchecked"
    return "compared" if works else "nothing_found"


def format_novelty(
    searches: Sequence[LiteratureSearch], works: Sequence[FoundPaper], closest: Sequence[ClosestWork]
) -> str:
    """Describe the novelty check for the idea's file."""
    searches_text = f"{len(searches)} search{'es' if len(searches) != 1 else ''}"
    state = build_novelty(searches, works)
    if state == "unchecked":
        why = "; ".join(searches[0].silent if searches else ()) or "none was reachable"
        why = why if len(why) <= MAX_REASON_CHARS else f"{why[: MAX_REASON_CHARS - 4]} ..."
        return f"Novelty is unchecked: {searches_text}, but no source answered ({why})."
    sources = ", ".join(dict.fromkeys(name for one in searches for name in one.answered))
    if state == "nothing_found":
        return (
            f"{searches_text} answered by {sources} returned no paper. This is not evidence of novelty: the search "
            "terms may have been wrong."
        )
    without_abstract = sum(not one.work.abstract for one in closest)
    note = f" ({without_abstract} without an abstract)" if without_abstract else ""
    return (
        f"Compared with {len(closest)} of the {len(works)} papers{note} that {sources} returned to {searches_text}, by "
        "their abstracts alone; nothing else was read."
    )


def join_prose(idea: IdeaText) -> str:
    """Return the title and the prose of an idea."""
    return "\n".join((idea.title, *(getattr(idea, name) for name in PROSE_FIELDS)))


def find_text_faults(text: str, works: Sequence[FoundPaper], context: Sequence[str]) -> tuple[str, ...]:
    """Return the novelty claims of a text, and the works that it names although no search returned them."""
    return (
        *(
            f"{phrase!r} claims novelty, which no search can show: say what is done instead"
            for phrase in find_claims_in_text(text)
        ),
        *(
            f"{name!r} names a work that no search returned: remove it"
            for name in find_unknown_works(text, works, context)
        ),
    )


def find_claims_in_text(text: str) -> tuple[str, ...]:
    """Return the phrases in a text that claim novelty, each once."""
    return tuple(dict.fromkeys(match[0] for match in _NOVELTY_CLAIM.finditer(text)))


def find_unknown_works(text: str, works: Iterable[FoundPaper], context: Iterable[str]) -> tuple[str, ...]:
    """Return works that are cited in the text but that no search returned: `Smith et al.`, `(Smith, 2020)`,
    identifiers.
    """
    works = list(works)
    families = {
        _normalise_text(name.split(",")[0] if "," in name else name.split()[-1])
        for one in works
        for name in one.authors
        if name.strip()
    }
    known = _normalise_text(" ".join((*context, *(one.identifier for one in works))))
    named = [
        match[0]
        for match in _NAMED_WORK.finditer(text)
        if match[1][0].isupper()
        and (plain := _normalise_text(match[1])) not in families
        and plain not in _NON_NAME_WORDS
        and plain not in known
    ]
    named += [
        match[0]
        for match in _WORK_IDENTIFIER.finditer(text)
        if _normalise_text(match[0]).removeprefix("arxiv") not in known
    ]
    return tuple(dict.fromkeys(one.strip(" (,") for one in named))


def _normalise_text(text: str) -> str:
    text = unicodedata.normalize("NFKD", text).casefold()
    return "".join(char for char in text if char.isalnum() or char in "./ ").strip()


def remove_claims(idea: IdeaText) -> tuple[IdeaText, tuple[str, ...]]:
    """Return the idea without sentences that claim novelty, and the removed text.

    A field that would become empty gets a sentence that says so; in the title only the claiming word is removed.
    """
    changed: dict[str, str] = {}
    struck: list[str] = []
    for name in PROSE_FIELDS:
        kept, gone = remove_claim_sentences(getattr(idea, name))
        if gone:
            changed[name] = kept if len(kept) >= 50 else EMPTIED_FIELD_TEXT
            struck += gone
    title = _NOVELTY_ADJECTIVE.sub("", idea.title)
    if title != idea.title:
        changed["title"] = title
        struck.append(idea.title)
    return idea.model_copy(update=changed), tuple(struck)


EMPTIED_FIELD_TEXT = "The text claimed novelty without evidence and was removed; see the experiments."


def remove_claim_sentences(text: str) -> tuple[str, list[str]]:
    """Return the text without the sentences that claim novelty, and those sentences."""
    sentences = _SENTENCE_BREAK.split(text)
    gone = [one for one in sentences if _NOVELTY_CLAIM.search(one)]
    return " ".join(one for one in sentences if one not in gone), gone


# With a model, extract the idea from a document, such as a hand-edited proposal, and store it next to the document.
# `proposal.md` gets `proposal.idea.json`, which contains the hash of the text; an unchanged text is not converted
# again.

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
