"""Papers that are not ours: which of their numbers their result files support, and whether they agree with themselves.

`audit_paper` audits, `audit_facts` gives the same as facts for a judge. What the audit can and cannot see, and how
well: docs/audit.md.
"""

from labwright.review.foreign.audit import ForeignAudit, audit_paper
from labwright.review.foreign.facts import audit_facts
from labwright.review.foreign.results import ResultsError

__all__ = ["ForeignAudit", "ResultsError", "audit_facts", "audit_paper"]
