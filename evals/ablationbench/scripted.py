"""Planners and judges of ablations that are scripts: what controls have to tell from one that reads."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel

from labwright.models.backend import ModelRequest
from labwright.models.roles.ablations import (
    AblationMatch,
    AblationMatchInputs,
    AskedFor,
    Pair,
    PaperAblations,
    PaperAblationsInputs,
    RequestMatch,
    RequestMatchInputs,
    ReviewQuote,
    ReviewRequest,
    ReviewRequests,
    ReviewRequestsInputs,
    WantedAblation,
)
from labwright.models.scripted import ScriptedModel

Leaning = Literal["reads", "all", "nothing", "by place"]
_BOLD = re.compile(r"\*\*([^*\n]+?)\.?\*\*")
_EMPTY = frozenset("the a an of is in on and please ablate ablation i miss we want to see without".split())


def scripted(leaning: Leaning = "reads", *, on_question: Callable[[], None] = lambda: None) -> ScriptedModel:
    """A model that plans by words in bold, and judges by the words of parts, or by a leaning without reading."""

    def matches(inputs: AblationMatchInputs) -> AblationMatch:
        return _matches(inputs, leaning)

    def asked_for(inputs: RequestMatchInputs) -> RequestMatch:
        return _asked_for(inputs, leaning)

    answers = {
        "paper_ablations": _plan,
        "review_requests": _requests,
        "ablation_match": matches,
        "request_match": asked_for,
    }

    def answer(request: ModelRequest) -> BaseModel:
        on_question()
        return answers[request.role.name](request.inputs)  # pyright: ignore  of the type that its role asks for

    return ScriptedModel(answer)


def _plan(inputs: PaperAblationsInputs) -> PaperAblations:
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


def _requests(inputs: ReviewRequestsInputs) -> ReviewRequests:
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


def _matches(inputs: AblationMatchInputs, leaning: Leaning) -> AblationMatch:
    places = {(a.id, b.id) for a, b in zip(inputs.a, inputs.b, strict=False)}
    pairs = [
        Pair(a=a.id, b=b.id, why="a script", quote_a=a.ablated_part, quote_b=b.ablated_part)
        for a, b in itertools.product(inputs.a, inputs.b)
        if _holds(leaning, (a.id, b.id) in places, _same(a.ablated_part, b.ablated_part))
    ]
    paired = {one for pair in pairs for one in (pair.a, pair.b)}
    return AblationMatch(
        pairs=tuple(pairs), unmatched=tuple(one.id for one in (*inputs.a, *inputs.b) if one.id not in paired)
    )


def _asked_for(inputs: RequestMatchInputs, leaning: Leaning) -> RequestMatch:
    return RequestMatch(
        answers=tuple(
            AskedFor(
                entry=entry.id,
                why="a script",
                requests=tuple(
                    request.id
                    for at, request in enumerate(inputs.requests)
                    if _holds(leaning, at == place, _same(entry.ablated_part, request.part))
                ),
            )
            for place, entry in enumerate(inputs.entries)
        )
    )


def _holds(leaning: Leaning, same_place: bool, same_part: bool) -> bool:
    return {"reads": same_part, "all": True, "nothing": False, "by place": same_place}[leaning]


def _same(one: str, other: str) -> bool:
    """Whether the words of the shorter text all stand in the other."""
    words = sorted((_words(one), _words(other)), key=len)
    return bool(words[0]) and words[0] <= words[1]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower())) - _EMPTY
