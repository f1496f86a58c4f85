"""The experiment and the paper of a bench, by a whole run on a small study: real kernels, real record, real TeX."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from labwright.agent import run
from labwright.agent.cli.errors import INTERRUPTED
from labwright.agent.settings import Settings
from labwright.evals.bench import step_makers
from labwright.evals.bench.step_makers import StepMakers
from labwright.evals.bench.tasks import BenchTask
from labwright.evals.item_loop import ItemInterrupted
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.event_log import read_state
from labwright.record.schema.idea import read_idea
from tests.stages.small_study import IDEA, make_small_model
from tests.stages.test_whole_run import small_settings

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("reusing_executions")]
TASK = BenchTask("small", "a small study of the mean")


def scripted(_: ModelSettings) -> ScriptedModel:
    return make_small_model()


def forbidden(*_: object, **__: object) -> int:
    pytest.fail("the run is there already")


@pytest.mark.bench  # a whole run; tests/evals/test_bench.py has the steps
def test_a_run_is_made_once_and_gives_a_report_and_a_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "small"
    (home / "ideas").mkdir(parents=True)
    (home / "ideas" / "ideas.json").write_text(json.dumps([IDEA.model_dump(mode="json", by_alias=True)]))
    assert read_idea(home / "ideas" / "ideas.json", 0) == IDEA
    monkeypatch.setattr(run, "open_backend", scripted)
    makers = StepMakers(small_settings(paper__judge=False, search__num_drafts=1, search__preliminary__nodes=2))
    experiment = makers.make_experiment(TASK, home)
    assert (experiment.state, experiment.document) == ("done", "experiment/report.md")
    assert (home / experiment.code / "experiment.py").is_file() and experiment.took.calls > 5
    report = (home / experiment.document).read_text()
    assert f"# Experiments: {IDEA.title}" in report and "## Measured values" in report and "; n = " in report
    monkeypatch.setattr(step_makers, "start_study", forbidden)
    paper = makers.make_paper(TASK, home)
    assert paper.state == "done" and (home / paper.document).is_file() and paper.took.calls >= 2
    state = read_state(home / "run")
    assert state.paper.judged is not None and state.paper.judged.judgement is None, (
        "the bench's judge comes after the run"
    )
    assert experiment.took.calls + paper.took.calls == state.calls.total_usage.calls
    assert makers.make_experiment(TASK, home) == experiment
    written = makers.make_writing(TASK, home)
    assert written.document == paper.document and written.took.calls == 0
    (home / "task.md").write_text(TASK.text)
    case = asyncio.run(step_makers.build_step_case("writing", home, written))
    assert case.rubric.name == "writing" and case.facts is not None
    assert [one.exhibit.kind for one in case.exhibits] == ["task", "report", "code"], "no idea and proposal were made"


def test_a_run_that_was_interrupted_ends_the_bench_until_it_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "small"
    (home / "ideas").mkdir(parents=True)
    (home / "ideas" / "ideas.json").write_text(json.dumps([IDEA.model_dump(mode="json", by_alias=True)]))

    (home / "proposal").mkdir()
    (home / "proposal" / "proposal.md").write_text("# The proposal\n")
    read = list[Path | None]()

    def interrupted(_: object, settings: Settings, *, runs: Path, name: str, **__: object) -> int:
        read.append(settings.context)
        from labwright.record.event_log import EventLog
        from labwright.record.run_folder import RunFolder

        RunFolder(runs / name).create_folders()
        EventLog(runs / name / "events.jsonl").close()
        return INTERRUPTED

    monkeypatch.setattr(step_makers, "start_study", interrupted)
    with pytest.raises(ItemInterrupted):
        StepMakers(small_settings()).make_experiment(TASK, home)
    assert read == [home / "proposal"], "the run is shown the proposal that it carries out"
