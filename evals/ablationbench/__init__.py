"""AblationBench: which ablations a paper reports (author), and which ones its reviewers miss (reviewer).

Plans, judges of plans, and the scores of planners; docs/benchmarks.md says what they are worth.
Source: AblationBench (arXiv 2507.08038) and its code. Where the two part, `rows` and `scores` say what is done here.
"""
