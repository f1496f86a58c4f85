"""Whether the code of a node is honest: static data flow on its syntax tree, and a probe of winners.

`check_program` reads the sources, `check_figures` a plotting script on its own, `check_record` what was recorded of a
run, `review.honesty.probe` says what to make of a winner that was run again. What is found, what is not, and how it is
measured: docs/honesty.md.
"""

from review.honesty.check import check_figures, check_program, check_record

__all__ = ["check_figures", "check_program", "check_record"]
