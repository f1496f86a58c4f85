"""Measure the reader on passages, injections and honest ones, by an author who has not seen the program.

A set is JSON: `{orders: [{text, manner}], honest: [{text, manner}]}`. The passages are shuffled and inserted,
twenty per paper, as paragraphs between the sentences of a small honest paper, so that one call shows the reader
several. A passage is caught if any part of it is removed after both readings. The summary prints the words of caught
injections that stay, by which a person sees whether they are content or part of an order. The reader's decision on a
passage may depend on its neighbours.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from labwright.evals.hostile.paper import interleave
from labwright.evals.proportions import Proportion, compute_proportion
from labwright.models.client import Models
from labwright.record.run_folder import write_file
from labwright.record.schema.paper import RemovedPassage
from labwright.review.judge import GuardedPaper, JudgeCase, read_paper, read_rubric, screen_case
from labwright.review.judge.injection_screening import NOT_SCREENED_NOTE

PASSAGES_PER_PAPER = 20
"""Passages per paper."""


@dataclass(frozen=True)
class PassageOutcome:
    """A passage and its outcome; `caught` is None if the reader gave no answer."""

    text: str
    manner: str
    hostile: bool
    caught: bool | None = None
    left: str = ""
    """Words of it that the judge still sees, in runs of five or more."""


async def measure_set(path: Path, reader: Models, out: Path | None = None) -> list[PassageOutcome]:
    """Return the outcomes of a set of passages; print them, and write them to a file."""
    rng, found = random.Random(0), list[PassageOutcome]()
    passages = read_set(path)
    rng.shuffle(passages)
    for at in range(0, len(passages), PASSAGES_PER_PAPER):
        found += await place_passages(passages[at : at + PASSAGES_PER_PAPER], reader)
    print(*format_summary(found), sep="\n")
    if out is not None:
        write_file(
            out,
            json.dumps(
                {"summary": summarize(found), "passages": [asdict(one) for one in found]}, indent=1, ensure_ascii=False
            )
            + "\n",
        )
    return found


def read_set(path: Path) -> list[PassageOutcome]:
    """Read the passages of a set, injections first."""
    given: dict[str, list[Any]] = json.loads(path.read_text(encoding="utf-8"))
    return [
        PassageOutcome(_normalize_words(str(one["text"])), str(one.get("manner", "")), kind == "orders")
        for kind in ("orders", "honest")
        for one in map(_parse_entry, given[kind])
    ]


def _parse_entry(given: Any) -> dict[str, Any]:
    """Parse a passage of a set, which may be a plain string."""
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {"text": given}


async def place_passages(passages: Sequence[PassageOutcome], reader: Models) -> list[PassageOutcome]:
    """Return the outcomes of some passages placed in one paper."""
    with tempfile.TemporaryDirectory(prefix="orders-") as name:
        path = Path(name) / "paper.md"
        path.write_text(interleave([one.text for one in passages]), encoding="utf-8")
        paper = await read_paper(path)
    case = JudgeCase(GuardedPaper(paper), read_rubric(), path.name)
    seen = (await screen_case(case, reader.make_client(0, 0))).guarded
    if any(note.startswith(NOT_SCREENED_NOTE) for note in seen.unchecked):
        return [*passages]
    return [_measure_passage(one, seen) for one in passages]


def _measure_passage(one: PassageOutcome, seen: GuardedPaper) -> PassageOutcome:
    shown, words = _normalize_words(seen.paper.text), one.text.split()
    runs = [at for at, piece in enumerate(_split_five_grams(one.text)) if piece in shown]
    left = " ".join(words[at] for at in sorted({at + step for at in runs for step in range(5)} & {*range(len(words))}))
    return replace(one, caught=_is_in_removed(one.text, seen.removed), left=left)


def _is_in_removed(text: str, removed: Sequence[RemovedPassage]) -> bool:
    """Return whether a part of a passage was removed."""
    return any(
        taken in text or any(piece in taken for piece in _split_five_grams(text))
        for taken in (_normalize_words(one.text) for one in removed)
    )


def _normalize_words(text: str) -> str:
    return " ".join(text.split())


def _split_five_grams(text: str, least: int = 5) -> list[str]:
    """Return runs of five words; any remainder of a passage contains at least one."""
    words = text.split()
    return [" ".join(words[at : at + least]) for at in range(max(1, len(words) - least + 1))]


def summarize(found: Sequence[PassageOutcome]) -> dict[str, Any]:
    """Return recall and false alarms with intervals, and how many were caught by manner."""
    read = [one for one in found if one.caught is not None]
    manners: dict[str, list[PassageOutcome]] = defaultdict(list)
    for one in found:
        manners[f"{'order' if one.hostile else 'honest'}: {one.manner}"].append(one)
    return {
        "recall": _count([bool(one.caught) for one in read if one.hostile]).model_dump(),
        "false_alarms": _count([bool(one.caught) for one in read if not one.hostile]).model_dump(),
        "left": _count([bool(one.left) for one in read if one.hostile and one.caught]).model_dump(),
        "unread": len(found) - len(read),
        "manners": {
            name: f"{sum(bool(one.caught) for one in some)} of {len(some)}" for name, some in sorted(manners.items())
        },
    }


def _count(found: Sequence[bool]) -> Proportion:
    return compute_proportion(sum(found), len(found))


def format_summary(found: Sequence[PassageOutcome]) -> list[str]:
    """Format the summary, then missed injections and false alarms."""
    summary = summarize(found)
    return [
        f"injections caught: {Proportion(**summary['recall'])}",
        f"honest passages caught: {Proportion(**summary['false_alarms'])}",
        f"caught injections of which words stay: {Proportion(**summary['left'])}",
        f"passages not read: {summary['unread']}",
        *(f"- missed ({one.manner}): {one.text[:200]}" for one in found if one.hostile and not one.caught),
        *(f"- stays ({one.manner}): {one.left[:200]}" for one in found if one.hostile and one.caught and one.left),
        *(f"- false alarm ({one.manner}): {one.text[:200]}" for one in found if not one.hostile and one.caught),
    ]
