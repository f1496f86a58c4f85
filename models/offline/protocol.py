"""Roles `prior_search`, `prior_work`, `protocol_review`: no search, what patterns find in a text, a mild doubt."""

from __future__ import annotations

import re

from models.roles.protocol import (
    PriorSearch,
    PriorSearchInputs,
    PriorWork,
    PriorWorkInputs,
    ProtocolReview,
    ProtocolReviewInputs,
)
from record.nouns.prior import PriorUse, UseKind
from record.nouns.protocol import ProtocolFinding

PATTERNS: tuple[tuple[UseKind, str], ...] = (
    ("dataset", r"\b(?:data ?sets?|corpus|benchmarks?):?\s+((?:[A-Z][\w-]+ ?){1,3})"),
    ("baseline", r"\b(?:baselines?|compared? with):?\s+((?:[A-Z][\w-]+ ?){1,3})"))


def prior_search(inputs: PriorSearchInputs) -> PriorSearch:
    """Nothing: the study needs no network."""
    return PriorSearch()


def prior_work(inputs: PriorWorkInputs) -> PriorWork:
    """What follows 'dataset' or 'baseline' with a capital letter, quoted with the words around it."""
    text = " ".join(" ".join(page.text for page in inputs.pages).split())
    uses = [PriorUse(what=what, name=match[1].strip(), quote=text[max(0, match.start() - 20):match.end() + 20])
            for what, pattern in PATTERNS for match in re.finditer(pattern, text)]
    return PriorWork(title=" ".join(text.split()[:12]) if uses else "", uses=tuple(uses[:40]))


def protocol_review(inputs: ProtocolReviewInputs) -> ProtocolReview:
    """A doubt about scope where there is one dataset and nothing says so; nothing is held."""
    plan = inputs.data_plan
    if len(plan.datasets) > 1 or plan.untested or inputs.answered:
        return ProtocolReview()
    return ProtocolReview(findings=(ProtocolFinding(
        kind="scope", severity="could", where="datasets", what=(
            "The plan has one dataset, and tells its readers of no limit to what follows from it."),
        mend="Say in `untested` that no other data are looked at."),))
