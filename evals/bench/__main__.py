"""`python -m labwright.evals.bench OUT TASK STEPS [--set KEY=VALUE]...`: run one task in its own process."""

from __future__ import annotations

import sys
from pathlib import Path

from labwright.agent.campaign import CONFIG_FILE
from labwright.agent.cli.errors import INTERRUPTED, print_to_stderr, report_error, saving_traceback
from labwright.agent.settings import compose_settings, settings_from_assignments
from labwright.evals.bench.command import parse_steps
from labwright.evals.bench.step_makers import ModelStepJudge, StepMakers
from labwright.evals.bench.tasks import BenchInterrupted, BenchTask, MlrBench, run_task
from labwright.record.errors import UserError


def main(words: list[str]) -> int:
    out, name, steps = Path(words[0]), words[1], parse_steps(words[2])
    limits = settings_from_assignments(word for word in words[3:] if word != "--set")
    settings = compose_settings(config=out / CONFIG_FILE, flags=limits | {"campaign": str(out)})
    task = BenchTask(name, (out / name / "task.md").read_text(encoding="utf-8"))
    try:
        with saving_traceback(out / name):
            run_task(MlrBench(out, steps, StepMakers(settings).by_step, ModelStepJudge(settings.models)), task)
    except (KeyboardInterrupt, BenchInterrupted) as stopped:
        print_to_stderr(f"interrupted: {stopped or 'stop requested'}")
        return INTERRUPTED
    except UserError as error:
        print_to_stderr(str(error))
        return report_error(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
