"""Papers that are not ours: which of their numbers their result files support, and whether they agree with themselves.

`audit_paper` is the door. What it can and cannot see, and how well: docs/audit.md.
"""

from review.foreign.audit import ForeignAudit, audit_paper
from review.foreign.results import ResultsError

__all__ = ["ForeignAudit", "ResultsError", "audit_paper"]
