"""Evaluate agents and judges: benchmarks, comparisons of runs, and agreement of judges with humans.

bench         `scientist bench mlr`: tasks from idea to judged paper (docs/benchmarks.md)
comparison    `scientist compare`: runs side by side, papers judged in pairs (docs/benchmarks.md)
agreement     `scientist judge-agreement`: a judge's scores against human scores (docs/judge.md)
ablationbench `scientist missing-ablations`, `bench ablation`, `bench ablation-judge` (docs/benchmarks.md)
injection     `python -m labwright.evals.injection`: papers with prompt injection, made by `hostile` (docs/judge.md)

The command line loads this package's commands by name (`agent.cli.commands`); nothing else imports it.
"""
