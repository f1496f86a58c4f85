"""Check that every number in a paper is bound to the record.

`check_draft` checks the LaTeX by a writer, `check_pdf` the text of the compiled paper. docs/evidence.md lists the
guarantees and limits.
"""

from __future__ import annotations

from labwright.review.evidence.latex_scanner import scan
from labwright.review.evidence.pdf_check import check_pdf, find_printed_claims
from labwright.review.evidence.source_check import (
    check_caption,
    check_draft,
    collect_used_keys,
    compile_use,
    find_sentence_spans,
)
from labwright.review.evidence.violations import ALLOWED_LITERALS, Evidence, Kind, Violation

__all__ = [
    "ALLOWED_LITERALS",
    "Evidence",
    "Kind",
    "Violation",
    "check_caption",
    "check_draft",
    "check_pdf",
    "collect_used_keys",
    "compile_use",
    "find_printed_claims",
    "find_sentence_spans",
    "scan",
]
