"""Bold values: a value may stand in bold only as the winner of its place, called against every other arm there.

Checked in the sources of a paper, tables included. What it does not guarantee: anything about the fonts of the PDF; a
template whose class makes other things bold is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from record.nouns.data import arm_of, level_of
from review.evidence.violations import Evidence, Violation
from review.evidence.words.verdicts import called

_BOLD = re.compile(r"\\(?:textbf|mathbf|boldsymbol|pmb)\s*\{|\\bfseries\b|\\bf\b")
_RESULT = re.compile(r"\\result\s*\{([^{}]*)\}")
_TABLE = re.compile(r"\\begin\{tabular\}.*?\\end\{tabular\}", re.DOTALL)
_FORM = re.compile(r"\.[a-z_]+$")


def families_in(text: str) -> frozenset[str]:
    """The claims that a text prints: its keys of `\\result`, without the forms."""
    return frozenset(_FORM.sub("", match[1].strip()) for match in _RESULT.finditer(text))


def bold_wrong(text: str, evidence: Evidence, where: str) -> Iterator[Violation]:
    """Bold values of a text that are not winners of their place."""
    for match in _BOLD.finditer(text):
        shown = next((one[0] for one in _TABLE.finditer(text) if one.start() <= match.start() < one.end()), "")
        for key in _RESULT.finditer(_group(text, match.end() if match[0].endswith("{") else match.start())):
            if why := _not_the_winner(_FORM.sub("", key[1].strip()), families_in(shown), evidence):
                yield Violation(kind="claim", where=where, excerpt=key[0], mend=f"printed in bold, but {why}: take the "
                                                                                "bold away")


def _group(text: str, at: int) -> str:
    """What stands from a place to the end of its group or cell."""
    depth = 1
    for k in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0) if text[k - 1:k] != "\\" else 0
        if depth == 0 or (depth == 1 and (text[k] == "&" or text.startswith("\\\\", k))):
            return text[at:k]
    return text[at:]


def _not_the_winner(family: str, shown: frozenset[str], evidence: Evidence) -> str:
    """Why a claim is not the winner of its place; empty where it is, and for keys that are no means of an arm."""
    parts = family.split("/")
    if len(parts) != 4 or family not in evidence.values:
        return ""
    if parts[0] == "diff":
        found = next((one for one in evidence.comparisons if one.key == family), None)
        return "" if found is None or called(found) else f"the ledger says {found.verdict!r} of it"
    _, dataset, metric, condition = parts
    wins = {one.worse for one in evidence.comparisons
            if (one.dataset, one.metric, one.better) == (dataset, metric, condition) and called(one)}
    rivals = _rivals(family, shown or frozenset(evidence.values), evidence, table=bool(shown))
    if left := sorted(rivals - wins):
        return f"it is not called better than {left[0]} there"
    return "" if rivals else "the ledger compares it with nothing there"


def _rivals(family: str, shown: frozenset[str], evidence: Evidence, *, table: bool) -> set[str]:
    """The other conditions at the place of a claim; in running text those of ablations do not count."""
    place, _, own = family.rpartition("/")
    ablations = {one.name for one in evidence.plan.arms if one.role == "ablation"} if evidence.plan else set[str]()
    planned = {one.name for one in evidence.plan.arms} if evidence.plan else set[str]()
    found = {condition for one in shown if (split := one.rpartition("/"))[0] == place
             and level_of(condition := split[2]) == level_of(own) and condition != own}
    return found if table else {one for one in found if arm_of(one) not in ablations
                                and (not planned or arm_of(one) in planned)}
