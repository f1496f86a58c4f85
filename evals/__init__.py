"""What measures scientists and judges: whole benches of tasks, runs beside each other, judges against people.

    bench         `scientist bench mlr`: tasks from idea to judged paper (docs/benchmarks.md)
    comparison    `scientist compare`: runs beside each other, papers judged in pairs (docs/benchmarks.md)
    agreement     `scientist judge-agreement`: a judge's scores against people's (docs/judge.md)
    judge_bias    `python -m evals.judge_bias`: what moves a judge's scores (docs/judge.md)
    ablatecell    `python -m evals.ablatecell.golden`: worked cases of reproduce-then-ablate (docs/repositories.md)
    ablationbench `scientist missing-ablations`, `bench ablation`, `bench ablation-judge` (docs/benchmarks.md)
    injection     `python -m evals.injection`: papers that give their judge orders, made by `hostile` (docs/judge.md)

The command line finds the commands of this package by name (`agent.cli.paper_commands`); nothing else imports it.
"""
