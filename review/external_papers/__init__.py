"""Audit papers by others: are their numbers in their result files, and does their arithmetic hold?

`audit_paper` runs the audit, `collect_audit_facts` returns its results as facts for a judge. docs/audit.md describes
what the audit looks up, and how reliably.
"""

from labwright.review.external_papers.result_files import ResultsError
from labwright.review.external_papers.verdicts import ExternalPaperAudit, audit_paper, collect_audit_facts

__all__ = ["ExternalPaperAudit", "ResultsError", "audit_paper", "collect_audit_facts"]
