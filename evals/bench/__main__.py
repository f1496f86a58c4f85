"""`python -m labwright.evals.bench OUT TASK STEPS [--set KEY=VALUE]...`: run one task in its own process."""

from __future__ import annotations

import sys
from pathlib import Path

from labwright.agent.campaign import CONFIG_FILE
from labwright.agent.settings import compose_settings, settings_from_assignments
from labwright.evals.bench.step_makers import ModelStepJudge, StepMakers
from labwright.evals.bench.tasks import STEPS, BenchTask, MlrBench, run_task
from labwright.evals.item_loop import parse_names, run_item


def main(words: list[str]) -> int:
    out, name, steps = Path(words[0]), words[1], parse_names("STEPS", words[2], STEPS)
    limits = settings_from_assignments(word for word in words[3:] if word != "--set")
    settings = compose_settings(config=out / CONFIG_FILE, flags=limits | {"campaign": str(out)})
    task = BenchTask(name, (out / name / "task.md").read_text(encoding="utf-8"))
    bench = MlrBench(out, steps, StepMakers(settings).by_step, ModelStepJudge(settings.models))
    return run_item(lambda: run_task(bench, task), out / name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
