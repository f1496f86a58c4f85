"""Bound: what a paper says is tied to the record, or refused.

`check_draft` reads the LaTeX of a writer, `check_pdf` the text of the compiled paper. docs/evidence.md
says what they promise and what not.
"""

from __future__ import annotations

from labwright.review.evidence.binder import check_draft, used_keys
from labwright.review.evidence.bold import claims_in
from labwright.review.evidence.compared import sentences, unbound
from labwright.review.evidence.pdf import check_pdf
from labwright.review.evidence.scan import scan
from labwright.review.evidence.violations import LITERALS, Evidence, Kind, Violation

__all__ = [
    "LITERALS",
    "Evidence",
    "Kind",
    "Violation",
    "check_draft",
    "check_pdf",
    "claims_in",
    "scan",
    "sentences",
    "unbound",
    "used_keys",
]
