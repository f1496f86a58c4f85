"""What a paper has to report: every outcome of the comparisons, good or bad, and what a reader must learn of the run.

The outline is refused while one of these has no place (`stages.paper.outline`), and the reflector learns of a draft
that prints no value of an outcome that speaks against the method.

What it does not guarantee: that the sentences say it well, or that an abstract says it at all; `review.evidence` holds
the words of a sentence to its verdict, where it finds one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from models.roles.writing import Comparison, Telling, WriteInputs
from record.claims import Called
from record.nouns.data import DataPlan, arm_of, level_of
from record.nouns.papers import Draft
from record.typeset import ClaimKey, Use, uses

_ORDER: tuple[Called, ...] = ("improved", "worsened", "no measurable difference", "unknown")
_AGAINST: tuple[Called, ...] = ("worsened", "no measurable difference")


def to_report(plan: DataPlan, comparisons: Sequence[Comparison], disclosures: Iterable[str],
              results: Collection[str]) -> tuple[Telling, ...]:
    """What has to be reported, the primary comparison first. `results` are the keys that print."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for one in comparisons:
        groups.setdefault((one.metric, arm_of(one.subject), arm_of(one.partner)), []).append(one)
    primary: list[Telling] = []
    others: list[Telling] = []
    for (metric, arm, other), found in groups.items():
        if metric == plan.primary.name and _is_method(plan, arm):
            primary += [_item(plan, [one for one in found if one.dataset == name], results, f"primary-{name}",
                              abstract=True) for name in dict.fromkeys(one.dataset for one in found)]
        elif _is_method(plan, arm):
            others.append(_item(plan, found, results, f"metric-{metric}-{other}"))
        elif metric == plan.primary.name:
            others.append(_item(plan, found, results, f"ablation-{arm}"))
    disclosed = [Telling(id=f"told-{number}", text=text) for number, text in enumerate(disclosures, 1) if text]
    outcomes = {one.verdict for one in comparisons
                if one.metric == plan.primary.name and _is_method(plan, arm_of(one.subject))}
    text = "The primary metric improved nowhere: that the method is better was not borne out"
    if not outcomes:
        text = "The record holds no paired comparison of the primary metric, so no effect may be claimed"
    elif outcomes == {"unknown"}:
        text = "The replicates leave the primary metric open everywhere: nothing is shown for or against the hypothesis"
    hypothesis = [] if "improved" in outcomes else [Telling(id="hypothesis", text=text, abstract=True)]
    return (*primary, *hypothesis, *others, *disclosed)


def is_disclosure(one: Telling) -> bool:
    """Whether it is about the run, and not an outcome."""
    return not one.keys and not one.abstract


def unreported(draft: Draft, inputs: WriteInputs) -> Iterator[str]:
    """Complaints on primary outcomes against the method of which no section prints a value."""
    printed = {use for section in draft.sections for use in uses(section.body)}
    claims = {key.claim for use in printed if (key := ClaimKey.parse(use.key)) is not None}
    verdicts = {one.key: one.verdict for one in inputs.comparisons}
    results = {line.key for line in inputs.results}
    for item in inputs.tellings:
        against = [key for key in item.keys if item.abstract and verdicts.get(key) in _AGAINST]
        sizes = [Use("result", f"{key}.mde") for key in against
                 if verdicts[key] == "no measurable difference" and f"{key}.mde" in results]
        if against and claims.isdisjoint(against):
            yield (f"no section prints a value of {item.id}, {item.text}: tell it in the results, with its difference, "
                   f"as \\result{{{against[0]}.ci}}")
        elif sizes and printed.isdisjoint(sizes):
            yield (f"{item.id} has no measurable difference, and no section prints how large a one could have gone "
                   f"unseen, as {sizes[0]}")


def _item(plan: DataPlan, found: Sequence[Comparison], results: Collection[str], name: str, *,
          abstract: bool = False) -> Telling:
    several = len({one.dataset for one in found}) > 1
    places: dict[Called, list[str]] = {verdict: [] for verdict in _ORDER}
    for one in found:
        smallest = f"{one.key}.mde"
        undetected = abstract and one.verdict == "no measurable difference" and smallest in results
        parts = (one.dataset if several else "", level_of(one.subject),
                 f"(a difference below \\result{{{smallest}}} would have gone unseen)" if undetected else "")
        places[one.verdict].append(" ".join(part for part in parts if part))
    verdicts = [f"{verdict} {', '.join(of)}".strip() for verdict, of in places.items() if of]
    metric = next((one.title or one.name for one in plan.metrics if one.name == found[0].metric), found[0].metric)
    return Telling(id=name, abstract=abstract, keys=tuple(one.key for one in found), text=(
        f"{metric}{'' if several else f' on {found[0].dataset}'}, {arm_of(found[0].subject)} against "
        f"{arm_of(found[0].partner)}: {'; '.join(verdicts)}"))


def _is_method(plan: DataPlan, arm: str) -> bool:
    return any(one.name == arm and one.role == "method" for one in plan.arms)
