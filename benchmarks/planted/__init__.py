"""Planted programs to tune the checks of honesty with: every kind of dishonest code beside an honest twin.

Written with sight of the checks, so what they score here is no measure; `benchmarks.planted_blind` holds the kinds that
were not. Programs are real, against `lab`; names, constants and structure vary with the seed.
"""

from benchmarks.planted.cases import KINDS, Case, cases

__all__ = ["KINDS", "Case", "cases"]
