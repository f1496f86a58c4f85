"""Evaluate agents and judges: benchmarks, comparisons of runs, and agreement of judges with humans.

bench         `scientist bench mlr`: tasks from idea to judged paper (docs/benchmarks.md)
paper_pairs   `scientist compare`: runs side by side, papers judged in pairs (docs/benchmarks.md)
agreement     `scientist judge-agreement`: a judge's scores against human scores (docs/judge.md)
ablationbench `scientist missing-ablations`, `bench ablation`, `bench ablation-judge` (docs/benchmarks.md)
injection     `python -m labwright.evals.injection`: papers with prompt injection, made by `hostile` (docs/judge.md)
item_loop     what the benchmarks share: items in processes of their own, options, results

`commands` declares the commands of this package; the command line loads it by name, and nothing else imports it.
"""
