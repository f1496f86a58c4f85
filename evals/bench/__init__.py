"""A folder of tasks, each taken from idea to paper, every step judged: stepwise or end to end, resumable.

docs/benchmarks.md says what the table is worth.
"""
