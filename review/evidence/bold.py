"""Bold values: a value may stand in bold only as the winner of its place, called against every other arm there.

Checked in the sources of a paper, tables included. What it does not guarantee: anything about the fonts of the PDF; a
template whose class makes other things bold is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.record.ladder import RUNGS
from labwright.record.nouns.data import arm_of, level_of
from labwright.record.typeset import ClaimKey, uses, without_form
from labwright.review.evidence.violations import Evidence, Violation, shows_difference

_BOLD = re.compile(r"\\(?:textbf|mathbf|boldsymbol|pmb)\s*\{|\\bfseries\b|\\bf\b")
_TABLE = re.compile(r"\\begin\{tabular\}.*?\\end\{tabular\}", re.DOTALL)


def claims_in(text: str) -> frozenset[str]:
    """The claims that a text prints: its keys of `\\result`, without the forms."""
    return frozenset(key.claim for key in _keys(text))


def _keys(text: str) -> Iterator[ClaimKey]:
    for use in uses(text):
        if use.macro == "result" and (key := ClaimKey.parse(use.key)) is not None:
            yield key


def bold_wrong(text: str, evidence: Evidence, where: str) -> Iterator[Violation]:
    """Bold values of a text that are not winners of their place."""
    for match in _BOLD.finditer(text):
        table = next((one[0] for one in _TABLE.finditer(text) if one.start() <= match.start() < one.end()), "")
        for key in _keys(_group(text, match.end() if match[0].endswith("{") else match.start())):
            if why := _not_the_winner(key, claims_in(table), evidence):
                yield Violation(
                    kind="claim",
                    where=where,
                    excerpt=rf"\result{{{key.key}}}",
                    fix=f"printed in bold, but {why}: take the bold away",
                )


def _group(text: str, at: int) -> str:
    """What stands from a place to the end of its group or cell.

    By its own rule: pylatexenc builds the tree of a whole text, of an appendix in seconds, and knows no cells.
    """
    depth = 1
    for k in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0) if text[k - 1 : k] != "\\" else 0
        if depth == 0 or (depth == 1 and (text[k] == "&" or text.startswith("\\\\", k))):
            return text[at:k]
    return text[at:]


def _not_the_winner(key: ClaimKey, shown: frozenset[str], evidence: Evidence) -> str:
    """Why a claim is not the winner of its place; empty where it is, and for keys that the ledger does not hold."""
    ledger = {without_form(text) for text in evidence.results}
    if key.claim not in ledger:
        return ""
    if key.other:
        found = next((one for one in evidence.comparisons if one.key == key.claim), None)
        return "" if found is None or shows_difference(found) else f"the ledger says {found.verdict!r} of it"
    wins = {
        one.worse
        for one in evidence.comparisons
        if (one.dataset, one.metric, one.better) == key[1:4] and shows_difference(one)
    }
    others = [one for text in shown or ledger if (one := ClaimKey.parse(text)) is not None]
    rivals = {
        one.condition
        for one in others
        if one[:3] == key[:3]
        and not one.other
        and level_of(one.condition) == level_of(key.condition)
        and one.condition != key.condition
        and one.condition not in RUNGS
    }
    if not shown and evidence.plan is not None:  # in running text ablations are no rivals
        compared = {arm.name for arm in evidence.plan.arms if arm.role != "ablation"}
        rivals = {one for one in rivals if arm_of(one) in compared}
    if left := sorted(rivals - wins):
        return f"it is not called better than {left[0]} there"
    return "" if rivals else "the ledger compares it with nothing there"
