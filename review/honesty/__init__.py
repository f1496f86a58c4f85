"""Check whether a node's code is honest: static analysis of its syntax tree, and probes of winners.

`check_program` reads sources and the measurements of their run; `review.honesty.label_probe` judges a winner that
was run again. docs/honesty.md lists what is detected, what is not, and how this was measured.
"""

from labwright.review.honesty.findings import check_program

__all__ = ["check_program"]
