"""Ablations of a finished paper or a draft by any author: planning the ablations it needs, and judging plans.

`paper_ablations` plans as the authors would, or as a reviewer who finds some missing. `ablation_match` matches planned
with reported ablations without knowing which list is which. `review_requests` lists what reviews ask for, and
`request_match` which planned ablations they ask for. Each item to match has an id and is answered exactly once. Source:
AblationBench (arXiv 2507.08038), appendix A, for the matching rules; the prompts are not copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from labwright.models.roles.judge import ShownPaper
from labwright.models.roles.role import Role
from labwright.record.schema import FrozenModel

PROMPTS = Path(__file__).parent
Words = Annotated[str, Field(min_length=1, max_length=600)]
Quote = Annotated[str, Field(max_length=600, description="copied word for word; a program looks it up")]
Action = Literal["REMOVE", "REPLACE", "ADD"]
MAX_LISTED, MAX_REVIEWS = 40, 12
"""Maximum number of items to match in one question, and of reviews of a paper."""


def check_each_once(wanted: Iterable[object], given: Iterable[object], field: str) -> None:
    """Raise `ValueError` unless `given` is a permutation of `wanted`."""
    wanted, counts = set(wanted), Counter(given)
    wrong = [f"{one} is missing" for one in wanted - counts.keys()]
    wrong += [f"{one} does not belong there" for one in counts.keys() - wanted]
    wrong += [f"{one} is given {count} times" for one, count in counts.items() if count > 1]
    if wrong:
        raise ValueError(f"{field}: {'; '.join(sorted(wrong)[:8])}")


class ListedAblation(FrozenModel):
    """An ablation with its id in one question."""

    id: str
    name: str
    ablated_part: str
    action: Action
    replacement: tuple[str, ...] = ()


# --- planning -------------------------------------------------------------------------------------------------------


class PaperAblationsInputs(FrozenModel):
    view: Literal["author", "reviewer"] = Field(
        description="author: the paper is shown only up to the end of its method"
    )
    title: str
    abstract: str
    paper: ShownPaper
    most: int = Field(description="maximum number of ablations to ask for")
    contents: tuple[str, ...] = Field(default=(), description="titles of sections, for a planner that asks for them")
    requests_left: int = Field(default=0, description="number of times that it may still ask for sections")
    plan: tuple[ListedAblation, ...] = Field(
        default=(),
        max_length=MAX_LISTED,
        description=("ablations planned by somebody else, to be compared with the paper"),
    )


class AblatedPart(FrozenModel):
    """A part of the method, and whether the paper ablates it."""

    part: Words
    claim: Words = Field(description="effect that the paper ascribes to this part; 'none' if it says nothing")
    quote: Quote
    ablated: bool = Field(description="whether the paper reports an ablation of this part")
    where: str = Field(default="", max_length=600, description="for an ablated part: a passage that reports it, copied")


class WantedAblation(FrozenModel):
    """A requested ablation."""

    name: str = Field(min_length=1, max_length=120, description="a short name that no other entry has")
    ablated_part: Words = Field(description="the changed part, in the paper's own words")
    action: Action
    replacement: tuple[Words, ...] = Field(
        default=(), max_length=6, description=("for REPLACE and ADD: each alternative to try; empty for REMOVE")
    )
    metrics: tuple[Words, ...] = Field(
        default=(), max_length=8, description="metrics of the paper that would show its effect"
    )
    claim: Words = Field(description="the claim it tests")
    quote: Quote
    probability: float = Field(ge=0, le=1, description="as your task defines it")


class Remark(FrozenModel):
    """The relation of the paper to an ablation that somebody else planned."""

    entry: str = Field(description="its id")
    standing: Literal["missing", "there already", "no such part"] = Field(
        description=(
            "missing: it would add something; there already: the paper reports it; no such part: the method does not "
            "have the part"
        )
    )
    why: Words
    quote: Quote = Field(default="", max_length=600)


class PaperAblations(FrozenModel):
    """The parts of a method, the parts that carry a claim but are not ablated, and the ablations to request, best
    first.
    """

    wants: tuple[Words, ...] = Field(
        default=(),
        max_length=8,
        description="only if your task offers it: titles or words to look up; nothing else then",
    )
    reasoning: str = Field(default="", max_length=4000)
    parts: tuple[AblatedPart, ...] = Field(default=(), max_length=30)
    ablations: tuple[WantedAblation, ...] = Field(default=(), max_length=30)
    remarks: tuple[Remark, ...] = Field(
        default=(), max_length=MAX_LISTED, description=("only if a plan is given: each of its entries exactly once")
    )


def _check_paper_ablations(inputs: PaperAblationsInputs, answer: PaperAblations) -> None:
    if answer.wants and not answer.ablations and inputs.requests_left:
        return
    if not answer.reasoning:
        raise ValueError("reasoning: say which parts carry the claims")
    check_each_once([one.id for one in inputs.plan], [one.entry for one in answer.remarks], "remarks")
    bare = [one.name for one in answer.ablations if one.action != "REMOVE" and not one.replacement]
    if bare:
        raise ValueError(
            f"ablations: {', '.join(bare)} need a replacement: say what replaces the part, or what is added"
        )
    if len(answer.ablations) > inputs.most:
        raise ValueError(
            f"ablations: {len(answer.ablations)} given, at most {inputs.most} allowed: keep the first ones"
        )


PAPER_ABLATIONS = Role(
    "paper_ablations",
    PaperAblationsInputs,
    PaperAblations,
    temperature=0.0,
    check=_check_paper_ablations,
    folder=PROMPTS,
)


# --- judging a plan against the paper's own ablations -----------------------------------------------------------------


class AblationMatchInputs(FrozenModel):
    title: str
    abstract: str
    a: tuple[ListedAblation, ...] = Field(max_length=MAX_LISTED)
    b: tuple[ListedAblation, ...] = Field(max_length=MAX_LISTED)


class AblationPair(FrozenModel):
    """Two ablations that are the same."""

    a: str = Field(description="id from list A")
    b: str = Field(description="id from list B")
    why: Words = Field(description="the part, the action and the replacement that they share")
    quote_a: Quote
    quote_b: Quote


class AblationMatch(FrozenModel):
    """Pairs of matching ablations; each id of either list is in pairs or in `unmatched`, never in both."""

    pairs: tuple[AblationPair, ...] = Field(default=(), max_length=400)
    unmatched: tuple[str, ...] = Field(default=(), max_length=200, description="ids of either list without a match")


def _check_ablation_match(inputs: AblationMatchInputs, answer: AblationMatch) -> None:
    sides = ({one.id for one in inputs.a}, {one.id for one in inputs.b})
    for pair in answer.pairs:
        if pair.a not in sides[0] or pair.b not in sides[1]:
            raise ValueError(f"pairs: {pair.a!r} must be an id of list A, and {pair.b!r} of list B")
    check_each_once(
        [*{(pair.a, pair.b): 0 for pair in answer.pairs}], [(pair.a, pair.b) for pair in answer.pairs], "pairs"
    )
    paired = {one for pair in answer.pairs for one in (pair.a, pair.b)}
    check_each_once(sorted((sides[0] | sides[1]) - paired), answer.unmatched, "unmatched")


ABLATION_MATCH = Role(
    "ablation_match", AblationMatchInputs, AblationMatch, temperature=0.0, check=_check_ablation_match, folder=PROMPTS
)


# --- judging a plan against reviews -----------------------------------------------------------------------------------


class ReviewRequestsInputs(FrozenModel):
    title: str
    abstract: str
    reviews: tuple[str, ...] = Field(max_length=MAX_REVIEWS)


class ReviewQuote(FrozenModel):
    review: int = Field(ge=1, description="number of the review")
    quote: Quote


class ReviewRequest(FrozenModel):
    """A new ablation that reviews ask for; equal requests of several reviews are one."""

    part: Words = Field(description="the part to change")
    change: str = Field(
        default="",
        max_length=600,
        description="the action and the replacement, if a review names them; otherwise empty",
    )
    asked: tuple[ReviewQuote, ...] = Field(min_length=1, max_length=20, description="a passage of each review")


class ReviewRequests(FrozenModel):
    """The ablations that reviews of a paper request."""

    requests: tuple[ReviewRequest, ...] = Field(default=(), max_length=40)


def _check_review_requests(inputs: ReviewRequestsInputs, answer: ReviewRequests) -> None:
    strange = sorted(
        {one.review for request in answer.requests for one in request.asked if one.review > len(inputs.reviews)}
    )
    if strange:
        raise ValueError(f"requests: there is no review {strange[0]}, only 1 to {len(inputs.reviews)}")


REVIEW_REQUESTS = Role(
    "review_requests",
    ReviewRequestsInputs,
    ReviewRequests,
    temperature=0.0,
    check=_check_review_requests,
    folder=PROMPTS,
)


class ListedRequest(FrozenModel):
    id: str
    part: str
    change: str = ""
    quotes: tuple[str, ...] = ()


class RequestMatchInputs(FrozenModel):
    title: str
    abstract: str
    paper: ShownPaper
    requests: tuple[ListedRequest, ...] = Field(max_length=MAX_LISTED)
    entries: tuple[ListedAblation, ...] = Field(max_length=MAX_LISTED)


class RequestedEntry(FrozenModel):
    """Whether an entry of a plan was requested, and by which requests."""

    entry: str = Field(description="its id")
    why: Words
    requests: tuple[str, ...] = Field(default=(), max_length=40, description="ids of the requests; empty: none")


class RequestMatch(FrozenModel):
    """The requests that match each entry."""

    answers: tuple[RequestedEntry, ...] = Field(max_length=100, description="each entry exactly once")


def _check_request_match(inputs: RequestMatchInputs, answer: RequestMatch) -> None:
    check_each_once([one.id for one in inputs.entries], [one.entry for one in answer.answers], "answers")
    known = {one.id for one in inputs.requests}
    strange = sorted({one for each in answer.answers for one in each.requests} - known)
    if strange:
        raise ValueError(f"answers: there is no request {strange[0]!r}, only {', '.join(sorted(known)) or 'none'}")


REQUEST_MATCH = Role(
    "request_match", RequestMatchInputs, RequestMatch, temperature=0.0, check=_check_request_match, folder=PROMPTS
)
