"""The appendix's table of paired differences: both intervals, the corrected p, what could have been seen, the verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from record.claims import FAMILIES, LEVEL, MINIMUM_REPLICATES, POWER, Difference, Family
from stages.paper.characters import recorded
from stages.paper.longtable import longtable

WHICH: dict[Family, str] = {
    "confirmatory": "Confirmatory: the primary metric, method against baseline",
    "exploratory": "Exploratory: other metrics, and ablations",
}
_VERDICTS = {"no measurable difference": "none seen"}


def comparisons(found: Sequence[Difference]) -> str:
    """The table of all differences that the paper may print, by family and dataset; empty where there are none."""
    if not found:
        return ""
    examples = any(one.over_examples is not None for one in found)
    columns = f"@{{}}L{{0.55in}}L{{1.1in}}ll{'l' * examples}llrl@{{}}"
    head = (r"Metric & Comparison & Difference & Over seeds &" + " Over examples &" * examples
            + r" $p$ & MDE & $n$ & Verdict")
    table = longtable(columns, head, list(_rows(found, examples=examples)), _caption(examples=examples), "comparisons")
    return "\n\n".join([table, *_missing(found)])


def _rows(found: Sequence[Difference], *, examples: bool) -> Iterator[str]:
    for family in FAMILIES:
        chosen = [one for one in found if one.family == family]
        for dataset in dict.fromkeys(one.dataset for one in chosen):
            here = [one for one in chosen if one.dataset == dataset]
            size = f"{here[0].compared} comparison{'s' * (here[0].compared != 1)} in all"
            yield (rf"\multicolumn{{{8 + examples}}}{{@{{}}l}}{{\textit{{{WHICH[family]} ({recorded(size)}); "
                   rf"{recorded(dataset)}}}}} \\*")
            yield from (_row(one, examples=examples) for one in here)


def _row(one: Difference, *, examples: bool) -> str:
    forms = ["mean", "ci", *["ci_examples"] * examples, "p_adjusted", "mde", "n"]
    return " & ".join([
        recorded(one.name.replace("_", " ")), recorded(f"{one.condition} minus {one.other}"),
        *(rf"\result{{{one.key}.{form}}}" for form in forms), _VERDICTS.get(one.called, one.called)]) + r" \\"


def _caption(*, examples: bool) -> str:
    over = (f"Over examples: {recorded('95%')} interval of a paired bootstrap over test examples, the replicates being "
            "as they are; what other test examples would change. ") if examples else ""
    both = " and an interval over examples that excludes zero" if examples else ""
    return (
        f"Paired differences over seeds. Over seeds: {recorded('95%')} Student $t$ interval of the mean; what training "
        f"again would change. {over}Intervals are not corrected for several comparisons; $p$ is of the paired $t$ test "
        "and corrected within its family (Holm). MDE: the smallest true difference that would have been found with a "
        f"power of {recorded(f'{POWER:.0%}')} at the family's strictest level, with this deviation and $n$. Verdict: "
        "of the first condition, on the second. It needs at least "
        f"{recorded(MINIMUM_REPLICATES)} pairs that are not all the same, a corrected $p$ of at most "
        f"{recorded(f'{LEVEL:.0%}')}{both}.")


def _missing(found: Sequence[Difference]) -> Iterator[str]:
    """Why there is no interval over examples, a paragraph each reason."""
    reasons = dict.fromkeys(over.reason for one in found if (over := one.over_examples) is not None and over.reason)
    for reason in reasons:
        of = dict.fromkeys(f"{one.name.replace('_', ' ')} on {one.dataset}" for one in found
                           if one.over_examples is not None and one.over_examples.reason == reason)
        yield recorded(f"No interval over examples for {', '.join(of)}: {reason}.")
