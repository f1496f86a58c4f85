"""EXP-Bench (2025): research questions on real repositories, scored step by step.

"Anchor" is the original harness. Where it is unclear or wrong, this implementation differs, and both results are
reported.
"""
