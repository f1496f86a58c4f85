"""Signs that results were not measured as a paper says: in its code, logs, result files, tables and claims.

Each has its file, line and words, and a weight; docs/audit.md says which there are, and how often they are wrong.
"""

from labwright.review.external_papers.signs.sign import CIRCUMSTANTIAL, FINDING, Sign, score

__all__ = ["CIRCUMSTANTIAL", "FINDING", "Sign", "score"]
