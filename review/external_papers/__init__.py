"""Audit papers by others: are their numbers in their result files, and does their arithmetic hold?

`audit_paper` runs the audit, `collect_audit_facts` returns its results as facts for a judge. docs/audit.md describes
what the audit looks up, and how reliably.
"""
