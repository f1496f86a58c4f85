"""Papers that are not ours: which of their numbers their result files support, and whether they agree with themselves.

`audit_paper` audits, `audit_facts` gives the same as facts for a judge. What the audit can and cannot see, and how
well: docs/audit.md.
"""

from labwright.review.external_papers.audit import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.audit_facts import collect_audit_facts
from labwright.review.external_papers.result_files import ResultsError

__all__ = ["ExternalPaperAudit", "ResultsError", "audit_paper", "collect_audit_facts"]
