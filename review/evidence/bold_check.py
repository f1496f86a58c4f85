"""Check that no value is bold, since bold means "best" and no unregistered comparison has a verdict.

The sources of a paper, including tables, are checked. Limits: the fonts of the PDF are not read, so bold text set by
the document class is missed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from labwright.record.result_macros import ClaimKey, find_macro_uses, strip_form
from labwright.review.evidence.violations import Evidence, Violation

_BOLD = re.compile(r"\\(?:textbf|mathbf|boldsymbol|pmb)\s*\{|\\bfseries\b|\\bf\b")


def find_printed_claims(text: str) -> frozenset[str]:
    r"""Return the keys of the claims printed with `\result` in LaTeX source, without their forms."""
    return frozenset(key.key_without_form for key in _iter_result_keys(text))


def _iter_result_keys(text: str) -> Iterator[ClaimKey]:
    for use in find_macro_uses(text):
        if use.macro == "result" and (key := ClaimKey.parse_key(use.key)) is not None:
            yield key


def check_bold(text: str, evidence: Evidence, where: str) -> Iterator[Violation]:
    """Return the values of the record that a text prints in bold."""
    known = {strip_form(key) for key in evidence.results}
    for match in _BOLD.finditer(text):
        for key in _iter_result_keys(_rest_of_group(text, match.end() if match[0].endswith("{") else match.start())):
            if key.key_without_form in known:
                yield Violation(
                    kind="claim",
                    where=where,
                    excerpt=rf"\result{{{key.key}}}",
                    fix="printed in bold, but no verdict ranks single values: remove the bold",
                )


def _rest_of_group(text: str, at: int) -> str:
    """Return the text from a position to the end of its group or cell.

    pylatexenc is not used: it takes seconds to parse an appendix and does not recognise table cells.
    """
    depth = 1
    for k in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[k], 0) if text[k - 1 : k] != "\\" else 0
        if depth == 0 or (depth == 1 and (text[k] == "&" or text.startswith("\\\\", k))):
            return text[at:k]
    return text[at:]
