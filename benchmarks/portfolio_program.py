"""Twelve studies of known truth, and a program that a campaign calls as `scientist` to run one of them.

The program records a study by the real scheduler in virtual time (`benchmarks.study_world`), then waits until that time
has passed, so that the campaign's clock and the record agree. Two arms are compared; a fresh seed takes a quarter of a
second, which stands for a quarter of an hour.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.study_world import SETTINGS, Study, StudyWorld, build_plan
from labwright.agent.settings import compose_settings, override_settings, settings_from_assignments
from labwright.record.event_log import EventLog, read_events
from labwright.record.events.run_events import ProcessEnded, RunResumed, RunStarted
from labwright.record.events.search_events import PlanPrepared
from labwright.record.run_folder import RunFolder
from labwright.record.schema.idea import read_idea
from labwright.record.schema.nodes import STAGES, Cell
from labwright.search.hours import TimeLimits
from labwright.search.policy import FollowUpPolicy
from labwright.search.scheduler import Scheduler
from labwright.search.settings import STAGE_TIME_SHARE
from labwright.search.tuning import FINALIST_SEED_OFFSET
from tests.search import virtual_time
from tests.search.scripted_search import run_search

SEED_SECONDS = 0.25
NOISY_SD = 12.0
"""Spread in smallest effects of interest with which a claim needs more than the allowed number of seeds."""


def build_study(number: int, effect: float, sd: float) -> Study:
    """Build a study that claims an effect of at least one smallest effect of interest."""
    return Study(
        number=number,
        stratum="portfolio",
        claim="at least",
        effect=effect,
        sd=sd,
        examples=0.0,
        arms=2,
        slots=1,
        hours=1.0,
        gap=0.0,
        failing=0.0,
        is_open=False,
        objective="measure",
    )


STUDIES = {
    **{f"true-{k}": build_study(7000 + k, 2.0, sd) for k, sd in enumerate((1.0, 1.5, 2.5, 3.5), 1)},
    **{f"null-{k}": build_study(7010 + k, 0.0, sd) for k, sd in enumerate((1.0, 2.0, 2.5, 3.0), 1)},
    **{f"noisy-{k}": build_study(7020 + k, effect, NOISY_SD) for k, effect in enumerate((0.0, 0.0, 2.0, 2.0), 1)},
}
"""Name -> study: the claim is true, false, or undecidable within the allowed seeds."""


class TimedStudyWorld(StudyWorld):
    """A study whose time limit is that of its run."""

    seed_seconds = SEED_SECONDS

    def __init__(self, log: EventLog, study: Study, seconds: float) -> None:
        super().__init__(log, study, is_biased=True)
        self.run_seconds = seconds
        for node, known in log.state.required_cells.items():
            self.code[node] = name = known.code["method"].removesuffix("'s")
            self.measured |= {(name, cell) for cell in known.cells}

    def compute_cell_value(self, cell: Cell) -> float:
        """Return the validation value of a cell; those of pilots include the effect, as test values do."""
        includes = cell.arm == "method" and cell.seed >= FINALIST_SEED_OFFSET and not self.is_trial
        return super().compute_cell_value(cell) + self.study.effect * includes


def main(words: list[str]) -> int:
    command, given = words[0], dict(zip(words[1::2], words[2::2], strict=False))
    changes = settings_from_assignments(after for before, after in itertools.pairwise(words) if before == "--set")
    if command == "run":
        name, folder = given["--name"], Path(given["--runs"]) / given["--name"]
        RunFolder(folder).create_folders()
    else:
        folder = Path(words[1])
        name = folder.name
    began = time.monotonic()
    seconds = virtual_time.run(record_study(name, folder, given if command == "run" else {}, changes))
    try:
        time.sleep(max(0.0, began + seconds - time.monotonic()))
    except KeyboardInterrupt:
        return 130
    return 130 if changes.get("until") else 0


async def record_study(name: str, folder: Path, given: dict[str, str], changes: dict[str, Any]) -> float:
    """Record a study, or its pilot, and return the virtual seconds that it took. `given`: options of a new run."""
    loop, path = asyncio.get_running_loop(), folder / "events.jsonl"
    base = max(time.time(), 0.0 if given else read_events(path)[-1][1])
    log = EventLog(path, clock=lambda: base + loop.time(), monotonic_clock=loop.time)
    study = STUDIES[name]
    if given:
        settings = compose_settings(config=Path(given["--config"]), environment={})
        search = SETTINGS.model_copy(update={"num_workers": study.slots, "family": settings.search.family})
        settings = settings.model_copy(update={"search": search})
        log.append(
            RunStarted(
                idea=read_idea(Path(given["--idea"])),
                settings=override_settings(settings.model_dump(mode="json"), changes).model_dump(mode="json"),
                seed=0,
                version="0",
                model="scripted",
            )
        )
        log.append(PlanPrepared(data_plan=build_plan(study), datasets=()))
    else:
        log.append(RunResumed(settings=changes, model="scripted"))
    assert log.state.started is not None
    settings = override_settings(log.state.started.settings, log.state.overrides)
    world = TimedStudyWorld(log, study, settings.time_limit)
    world.settings = settings.search
    limits = TimeLimits(seconds=STAGE_TIME_SHARE * settings.time_limit, run_seconds=settings.time_limit)
    stages = STAGES if settings.until is None else STAGES[:1]
    await run_search(log, world, settings.search, stages, limits=limits)
    if settings.until is not None:
        scheduler = Scheduler(
            recorder=log, policy=FollowUpPolicy(settings.search), perform=world.perform, settings=settings.search
        )
        await scheduler.run_until_end("tuning")
    log.append(ProcessEnded(exit_code=130 if settings.until else 0, reason="the pilot is done" * bool(settings.until)))
    log.close()
    return loop.time()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
