"""Find signs that results were not measured as claimed, in code, logs, result files, tables and claims.

docs/audit.md lists the signs and how often they are wrong.
"""

from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, FINDING, Sign, score

__all__ = ["CIRCUMSTANTIAL", "FINDING", "Sign", "score"]
