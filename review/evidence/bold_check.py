"""Check bold values: only the winner of a table row or sentence, according to the ledger, may be bold.

The sources of a paper are checked, tables included. Limits: the fonts of the PDF are not read, so bold set by the
document class is missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.record.reference_baselines import REFERENCE_ARM_TITLES
from labwright.record.result_macros import ClaimKey, find_macro_uses, strip_form
from labwright.record.schema.data_plan import parse_arm, parse_level
from labwright.review.evidence.violations import Evidence, Violation, is_called_different

_BOLD = re.compile(r"\\(?:textbf|mathbf|boldsymbol|pmb)\s*\{|\\bfseries\b|\\bf\b")
_TABLE = re.compile(r"\\begin\{tabular\}.*?\\end\{tabular\}", re.DOTALL)


def find_printed_claims(text: str) -> frozenset[str]:
    r"""Return the keys of the claims that a text prints with `\result`, without their forms."""
    return frozenset(key.key_without_form for key in _iter_result_keys(text))


def _iter_result_keys(text: str) -> Iterator[ClaimKey]:
    for use in find_macro_uses(text):
        if use.macro == "result" and (key := ClaimKey.parse_key(use.key)) is not None:
            yield key


def check_bold(text: str, evidence: Evidence, where: str) -> Iterator[Violation]:
    """Return the bold values of a text that are not winners among the values around them."""
    for match in _BOLD.finditer(text):
        table = next((one[0] for one in _TABLE.finditer(text) if one.start() <= match.start() < one.end()), "")
        for key in _iter_result_keys(_rest_of_group(text, match.end() if match[0].endswith("{") else match.start())):
            if why := _winner_objection(key, find_printed_claims(table), evidence):
                yield Violation(
                    kind="claim",
                    where=where,
                    excerpt=rf"\result{{{key.key}}}",
                    fix=f"printed in bold, but {why}: remove the bold",
                )


def _rest_of_group(text: str, at: int) -> str:
    """Return the text from a position to the end of its group or cell.

    Not done with pylatexenc, which takes seconds to parse an appendix and has no notion of table cells.
    """
    depth = 1
    for k in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0) if text[k - 1 : k] != "\\" else 0
        if depth == 0 or (depth == 1 and (text[k] == "&" or text.startswith("\\\\", k))):
            return text[at:k]
    return text[at:]


def _winner_objection(key: ClaimKey, shown: frozenset[str], evidence: Evidence) -> str:
    """Explain why a claim is not the winner; return "" if it is, and for keys that are not in the ledger."""
    ledger = {strip_form(text) for text in evidence.results}
    if key.key_without_form not in ledger:
        return ""
    if key.other:
        found = next((one for one in evidence.comparisons if one.key == key.key_without_form), None)
        return "" if found is None or is_called_different(found) else f"its verdict in the ledger is {found.verdict!r}"
    wins = {
        one.worse
        for one in evidence.comparisons
        if (one.dataset, one.metric, one.better) == key[1:4] and is_called_different(one)
    }
    others = [one for text in shown or ledger if (one := ClaimKey.parse_key(text)) is not None]
    rivals = {
        one.condition
        for one in others
        if one[:3] == key[:3]
        and not one.other
        and parse_level(one.condition) == parse_level(key.condition)
        and one.condition != key.condition
        and one.condition not in REFERENCE_ARM_TITLES
    }
    if not shown and evidence.plan is not None:  # ablations do not compete in running text
        compared = {arm.name for arm in evidence.plan.arms if arm.role != "ablation"}
        rivals = {one for one in rivals if parse_arm(one) in compared}
    if left := sorted(rivals - wins):
        return f"no verdict says that it is better than {left[0]}, which is printed next to it"
    return "" if rivals else "the ledger compares it with nothing that is printed next to it"
