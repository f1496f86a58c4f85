"""Audit papers by others: do their result files support their numbers, and is each paper internally consistent?

`audit_paper` runs the audit, `collect_audit_facts` returns its results as facts for a judge. docs/audit.md describes
what the audit can detect, and how reliably.
"""

from labwright.review.external_papers.audit import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.audit_facts import collect_audit_facts
from labwright.review.external_papers.result_files import ResultsError

__all__ = ["ExternalPaperAudit", "ResultsError", "audit_paper", "collect_audit_facts"]
