"""What a paper has to tell: every outcome of the comparisons, good or bad, and what a reader must be told.

The outline is refused while one of these has no place (`stages.paper.outline`), and the reflector is told of a draft
that prints nothing of an outcome that speaks against the method.

What it does not guarantee: that the sentences say it well, or that an abstract says it at all; `review.evidence` holds
the words of a sentence to its verdict, where it finds one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from models.roles.writing import Comparison, Telling
from record.nouns.data import DataPlan, arm_of, level_of
from record.nouns.papers import Draft

Outcome = str
IMPROVED: Outcome = "improved"
WORSENED: Outcome = "worsened"
NONE: Outcome = "no measurable difference"
ORDER: tuple[Outcome, ...] = (IMPROVED, WORSENED, NONE, "unknown")


def tellings(plan: DataPlan, comparisons: Sequence[Comparison], disclosures: Iterable[str],
             results: Collection[str]) -> tuple[Telling, ...]:
    """What has to be told, the primary comparison first. `results` are the keys that print."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for one in comparisons:
        first, second = sides(one)
        groups.setdefault((one.metric, arm_of(first), arm_of(second)), []).append(one)
    primary: list[Telling] = []
    others: list[Telling] = []
    for (metric, arm, other), found in groups.items():
        if metric == plan.primary.name and _role(plan, arm) == "method":
            primary += [_telling(plan, [one for one in found if one.dataset == name], results, f"primary-{name}",
                                 abstract=True) for name in dict.fromkeys(one.dataset for one in found)]
        elif _role(plan, arm) == "method":
            others.append(_telling(plan, found, results, f"metric-{metric}-{other}"))
        elif metric == plan.primary.name:
            others.append(_telling(plan, found, results, f"ablation-{arm}"))
    told = [Telling(id=f"told-{number}", text=text) for number, text in enumerate(disclosures, 1) if text]
    return (*primary, *_hypothesis(plan, comparisons), *others, *told)


def sides(one: Comparison) -> tuple[str, str]:
    """The condition that is looked at, and the one that it is compared with."""
    named = one.key.rpartition("/")[2].split("~")
    return (named[0], named[1]) if len(named) == 2 else (one.better, one.worse)


def outcome(one: Comparison) -> Outcome:
    """What is called of the condition that is looked at."""
    if one.verdict in (NONE, "unknown"):
        return one.verdict
    return IMPROVED if one.better == sides(one)[0] else WORSENED


def untold(draft: Draft, told: Iterable[Telling], comparisons: Iterable[Comparison],
           results: Collection[str]) -> tuple[str, ...]:
    """Complaints on primary outcomes against the method of which no section prints a value."""
    text = "\n".join(section.body for section in draft.sections)
    verdicts = {one.key: outcome(one) for one in comparisons}
    found: list[str] = []
    for telling in told:
        keys = [key for key in telling.keys if telling.abstract and verdicts.get(key) in (NONE, WORSENED)]
        sizes = [f"{key}.mde" for key in keys if verdicts[key] == NONE and f"{key}.mde" in results]
        if keys and not any(f"{{{key}." in text for key in keys):
            found.append(f"no section prints a value of {telling.id}, {telling.text}: tell it in the results, with "
                         f"its difference, as \\result{{{keys[0]}.ci}}")
        elif sizes and not any(f"{{{size}}}" in text for size in sizes):
            found.append(f"{telling.id} has no measurable difference, and no section prints how large a one could have "
                         f"gone unseen, as \\result{{{sizes[0]}}}")
    return tuple(found)


# --- one --------------------------------------------------------------------------------------------------------------


def _telling(plan: DataPlan, found: Sequence[Comparison], results: Collection[str], name: str, *,
             abstract: bool = False) -> Telling:
    arm, other = (arm_of(side) for side in sides(found[0]))
    several = len({one.dataset for one in found}) > 1
    shown = results if abstract else ()
    parts = [f"{said} {', '.join(_place(one, shown, several) for one in of)}".strip() for said in ORDER
             if (of := [one for one in found if outcome(one) == said])]
    where = "" if several else f" on {found[0].dataset}"
    return Telling(id=name, abstract=abstract, keys=tuple(one.key for one in found), text=(
        f"{_metric(plan, found[0].metric)}{where}, {arm} against {other}: {'; '.join(parts)}"))


def _place(one: Comparison, results: Collection[str], several: bool) -> str:
    parts = (one.dataset if several else "", level_of(sides(one)[0]), _mde(one, results))
    return " ".join(part for part in parts if part)


def _mde(one: Comparison, results: Collection[str]) -> str:
    """What could have been detected, where nothing was."""
    if outcome(one) != NONE or f"{one.key}.mde" not in results:
        return ""
    return f"(a difference below \\result{{{one.key}.mde}} would have gone unseen)"


def _hypothesis(plan: DataPlan, comparisons: Sequence[Comparison]) -> list[Telling]:
    """That the hypothesis failed, or is open, where no primary comparison improved."""
    primary = [one for one in comparisons
               if one.metric == plan.primary.name and _role(plan, arm_of(sides(one)[0])) == "method"]
    outcomes = {outcome(one) for one in primary}
    if IMPROVED in outcomes:
        return []
    if not primary:
        text = "The record holds no paired comparison of the primary metric, so no effect may be claimed"
    elif outcomes == {"unknown"}:
        text = "The replicates leave the primary metric open everywhere: nothing is shown for or against the hypothesis"
    else:
        text = "The primary metric improved nowhere: that the method is better was not borne out"
    return [Telling(id="hypothesis", text=text, abstract=True)]


def _role(plan: DataPlan, arm: str) -> str:
    return next((one.role for one in plan.arms if one.name == arm), "ablation")


def _metric(plan: DataPlan, name: str) -> str:
    return next((one.title or one.name for one in plan.metrics if one.name == name), name)
