"""A small invented set for AblationBench: papers of three parts each, their gold, and reviews."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from labwright.evals.ablationbench.roles import (
    AblationMatch,
    AblationMatchInputs,
    AblationPair,
    PaperAblations,
    PaperAblationsInputs,
    RequestedEntry,
    RequestMatch,
    RequestMatchInputs,
    ReviewQuote,
    ReviewRequest,
    ReviewRequests,
    ReviewRequestsInputs,
    WantedAblation,
)
from labwright.models.backend import ModelRequest
from labwright.models.replay import ScriptedModel

PARTS = {
    "gate": ("mixing gate", "memory bank", "spread penalty"),
    "fold": ("token fold", "position prior", "head swap"),
    "sieve": ("edge sieve", "edge revival", "noise schedule"),
    "route": ("word router", "balance loss", "adapters"),
}
WORDS = " ".join(["It reads the recent past with a light cell and mixes in what it has seen before."] * 6)


def gold_lines(parts: tuple[str, ...]) -> str:
    return json.dumps(
        [
            {"name": f"Ablation {n}", "ablated_part": part, "action": "REMOVE", "metrics": ["MAE"]}
            for n, part in enumerate(parts, 1)
        ]
    )


def write_set(folder: Path) -> Path:
    """The set in a folder, as the benchmark's own layout."""
    rows: dict[str, list[dict[str, Any]]] = {"author": [], "reviewer": []}
    for id, parts in PARTS.items():
        method = "\n\n".join(f"**{part.capitalize()}.** {WORDS} Seen-{id}." for part in parts)
        text = (
            f"# The {id} paper\n\n## Abstract\n\n{WORDS}\n\n## 1 Introduction\n\n{WORDS}\n\n## 2 Method\n\n{method}"
            f"\n\n## 3 Experiments\n\n{WORDS} Hidden-{id}.\n\n## 4 Ablations\n\nWithout the {parts[0]} the error "
            f"is 9.6. Hidden-{id}.\n"
        )
        (folder / "papers" / id).mkdir(parents=True)
        (folder / "papers" / id / "paper.md").write_text(text)
        common = {"id": id, "paper_title": f"The {id} paper", "paper_abstract": WORDS, "paper_path": f"papers/{id}"}
        rows["author"].append({**common, "ablations_in_paper": gold_lines(parts[:2])})
        rows["reviewer"].append(
            {
                **common,
                "num_ablation_suggestions": 2,
                "review_text": json.dumps(
                    [f"Well written. Please ablate the {parts[1]}.", f"I miss an ablation of the {parts[2]}. Rating: 5"]
                ),
            }
        )
    for task, found in rows.items():
        (folder / task).mkdir()
        (folder / task / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in found))
    return folder


# Scripted planners and judges of ablations, which the controls must distinguish from a real reader.

JudgeBehaviour = Literal["reads", "all", "nothing", "by place"]
_BOLD = re.compile(r"\*\*([^*\n]+?)\.?\*\*")
_EMPTY = frozenset("the a an of is in on and please ablate ablation i miss we want to see without".split())


def make_scripted_model(
    leaning: JudgeBehaviour = "reads", *, on_question: Callable[[], None] = lambda: None
) -> ScriptedModel:
    """Make a model that plans from bold words, and judges by the words of parts, or by a bias without reading."""

    def matches(inputs: AblationMatchInputs) -> AblationMatch:
        return _answer_matches(inputs, leaning)

    def asked_for(inputs: RequestMatchInputs) -> RequestMatch:
        return _answer_requested(inputs, leaning)

    answers = {
        "paper_ablations": _answer_plan,
        "review_requests": _answer_requests,
        "ablation_match": matches,
        "request_match": asked_for,
    }

    def answer(request: ModelRequest) -> BaseModel:
        on_question()
        return answers[request.role.name](request.inputs)  # pyrefly: ignore  of the type that its role asks for

    return ScriptedModel(answer)


def _answer_plan(inputs: PaperAblationsInputs) -> PaperAblations:
    names = _BOLD.findall(inputs.paper.text)[: inputs.most]
    return PaperAblations(
        reasoning="words in bold",
        ablations=tuple(
            WantedAblation(
                name=f"No {name}", ablated_part=name, action="REMOVE", claim="it helps", quote=name, probability=0.9
            )
            for name in names
        ),
    )


def _answer_requests(inputs: ReviewRequestsInputs) -> ReviewRequests:
    found = [
        (number, sentence.strip())
        for number, review in enumerate(inputs.reviews, 1)
        for sentence in re.split(r"(?<=[.?!])\s", review)
        if "ablat" in sentence.lower()
    ]
    return ReviewRequests(
        requests=tuple(
            ReviewRequest(part=sentence[:600], asked=(ReviewQuote(review=number, quote=sentence[:600]),))
            for number, sentence in found
        )
    )


def _answer_matches(inputs: AblationMatchInputs, leaning: JudgeBehaviour) -> AblationMatch:
    places = {(a.id, b.id) for a, b in zip(inputs.a, inputs.b, strict=False)}
    pairs = [
        AblationPair(a=a.id, b=b.id, why="a script", quote_a=a.ablated_part, quote_b=b.ablated_part)
        for a, b in itertools.product(inputs.a, inputs.b)
        if _is_match(leaning, (a.id, b.id) in places, _is_same_part(a.ablated_part, b.ablated_part))
    ]
    paired = {one for pair in pairs for one in (pair.a, pair.b)}
    return AblationMatch(
        pairs=tuple(pairs), unmatched=tuple(one.id for one in (*inputs.a, *inputs.b) if one.id not in paired)
    )


def _answer_requested(inputs: RequestMatchInputs, leaning: JudgeBehaviour) -> RequestMatch:
    return RequestMatch(
        answers=tuple(
            RequestedEntry(
                entry=entry.id,
                why="a script",
                requests=tuple(
                    request.id
                    for at, request in enumerate(inputs.requests)
                    if _is_match(leaning, at == place, _is_same_part(entry.ablated_part, request.part))
                ),
            )
            for place, entry in enumerate(inputs.entries)
        )
    )


def _is_match(leaning: JudgeBehaviour, same_place: bool, same_part: bool) -> bool:
    return {"reads": same_part, "all": True, "nothing": False, "by place": same_place}[leaning]


def _is_same_part(one: str, other: str) -> bool:
    """Return whether all words of the shorter text are in the other."""
    words = sorted((_split_words(one), _split_words(other)), key=len)
    return bool(words[0]) and words[0] <= words[1]


def _split_words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - _EMPTY
