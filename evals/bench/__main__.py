"""`python -m evals.bench OUT TASK STEPS [--set KEY=VALUE]...`: the work on one task, as a process of its bench."""

from __future__ import annotations

import sys
from pathlib import Path

from labwright.agent.campaign import CONFIG
from labwright.agent.cli.edge import INTERRUPTED, exit_code_of, say, traceback_saved
from labwright.agent.settings import compose, from_assignments
from labwright.evals.bench.command import steps_in
from labwright.evals.bench.makers import Makers, StepJudge
from labwright.evals.bench.tasks import Task
from labwright.evals.bench.work import Bench, Interrupted, work
from labwright.record.errors import ExpectedFailure


def main(words: list[str]) -> int:
    out, name, steps = Path(words[0]), words[1], steps_in(words[2])
    limits = from_assignments(word for word in words[3:] if word != "--set")
    settings = compose(config=out / CONFIG, flags=limits | {"campaign": str(out)})
    task = Task(name, (out / name / "task.md").read_text(encoding="utf-8"))
    try:
        with traceback_saved(out / name):
            work(Bench(out, steps, Makers(settings).all, StepJudge(settings.models)), task)
    except (KeyboardInterrupt, Interrupted) as stopped:
        say(f"interrupted: {stopped or 'asked to stop'}")
        return INTERRUPTED
    except ExpectedFailure as error:
        say(str(error))
        return exit_code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
