"""AblationBench: which ablations a paper reports (author), and which ones its reviewers miss (reviewer).

Plans, judges of plans, and scores of planners; docs/benchmarks.md explains how to interpret them. Source:
AblationBench (arXiv 2507.08038) and its code. Where the two differ, `rows` and `scores` document the choice.
"""
