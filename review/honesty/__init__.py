"""Whether the code of a node is honest: static data flow on its syntax tree, and a probe of winners.

`check` reads sources and what a run of them recorded; `review.honesty.label_probe` judges a winner that was run again.
What is found, what is not, and how it is measured: docs/honesty.md.
"""

from labwright.review.honesty.findings import check_program

__all__ = ["check_program"]
