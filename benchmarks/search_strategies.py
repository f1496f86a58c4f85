"""Does the tree help? One plan searched in three ways with equal budgets, by a language model of your choice.

python -m benchmarks.search_strategies RUNS --model NAME [--base-url URL] [--only TASK-WAY]... [--report] [--out
FILE]

Two tasks of MLR-Bench (`benchmarks/tree`: idea, plan and settings), each as a best-first tree (three drafts, four
improvements), as a chain (one draft, six improvements, each of the latest node) and as one draft with one
improvement, whose remaining budget goes into seeds: ten instead of five. Existing RUNS/TASK-WAY are resumed if
unfinished; `--report` starts nothing. Prints one JSON object: for each run its cost, the test results of its method
at each level, and its effect with interval. Papers are compared by `scientist compare RUNS/... --model NAME`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.report import list_settings, list_words, make_parser, print_report
from labwright.record.claims.estimates import compute_paper_claims, find_winner
from labwright.record.claims.hypothesis_tests import decide_hypotheses
from labwright.record.event_log import read_state
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import SEARCH_KINDS

HERE = Path(__file__).parent / "tree"
TASKS = ("trustml", "dg")
STRATEGIES: Mapping[str, Mapping[str, object]] = {
    "tree": {"search.num_drafts": 3},
    "chain": {"search.policy": "chain", "search.agenda.nodes": 6},
    "draft": {
        "search.agenda.nodes": 1,
        "search.agenda.num_seeds": 10,
        "search.max_seeds": 10,
        "search.ablation.num_seeds": 5,
    },
}
"""Changes to `settings.yaml` for each strategy."""


def build_command(task: str, strategy: str, runs: Path, model: str, address: str) -> list[str]:
    """Return the command that starts or resumes a run."""
    there = runs / f"{task}-{strategy}"
    served = {"--base-url": address} if address else {}
    program = [sys.executable, "-m", "labwright"]
    if (there / "events.jsonl").exists():
        return [*program, "resume", str(there), *list_words(served)]
    options = {
        "--idea": HERE / f"{task}.json",
        "--config": HERE / "settings.yaml",
        "--plan": HERE / f"plan_{task}.yaml",
        "--runs": runs,
        "--name": there.name,
        "--model": model,
    }
    return [*program, "run", *list_words({**options, **served}), *list_settings(STRATEGIES[strategy])]


def summarize(state: RunState) -> dict[str, Any]:
    """Return the cost and the results of a run."""
    plan, best = state.search.data_plan, find_winner(state)
    assert plan is not None
    methods = {arm.name for arm in plan.arms if arm.role == "method"}
    used = state.calls.usage_by_role.values()
    return {
        "search_nodes": sum(node.kind in SEARCH_KINDS for node in state.nodes.values()),
        "executions": sum(len(node.attempts) for node in state.nodes.values()),
        "calls": sum(one.calls for one in used),
        "tokens_in": sum(one.input_tokens for one in used),
        "tokens_out": sum(one.output_tokens for one in used),
        "minutes": round(state.active_seconds / 60, 1),
        "reported": [state.nodes[best].kind, best] if best else None,
        "released": state.paper.released.released if state.paper.released else False,
        "method_on_test": {
            f"{one.dataset} {one.level}": round(one.mean, 4)
            for one in compute_paper_claims(state)
            if one.name == plan.primary_metric.name and one.split == "test" and one.arm in methods
        },
        "effects": {
            one.hypothesis.id: {
                "mean": _round(part.mean),
                "low": _round(part.low),
                "high": _round(part.high),
                "n": len(part.values),
                "verdict": one.verdict,
            }
            for one in decide_hypotheses(state)
            for part in one.parts
        },
    }


def _read_state(run: Path) -> RunState | None:
    return read_state(run) if (run / "events.jsonl").exists() else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def main(arguments: list[str] | None = None) -> int:
    parser = make_parser(__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--model", default="")
    parser.add_argument("--base-url", default="")
    parser.add_argument("--only", action="append", default=[], metavar="TASK-WAY")
    parser.add_argument("--report", action="store_true", help="start nothing")
    given = parser.parse_args(arguments)
    if not (given.report or given.model):
        parser.error("--model is required, except with --report")
    found: dict[str, Any] = {}
    for name in given.only or [f"{task}-{way}" for task in TASKS for way in STRATEGIES]:
        task, _, way = name.partition("-")
        if task not in TASKS or way not in STRATEGIES:
            parser.error(f"{name!r} is not a TASK-WAY: tasks are {', '.join(TASKS)}, ways {', '.join(STRATEGIES)}")
        run = given.runs / name
        state = _read_state(run)
        if not given.report and (state is None or state.process_end is None):
            subprocess.run(build_command(task, way, given.runs, given.model, given.base_url), check=False)
            state = _read_state(run)
        if state is not None and state.search.data_plan is not None:
            found[name] = summarize(state)
    print_report(found, given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
