"""The experiment and the paper of a bench, by a whole run on a small study: real kernels, real record, real TeX."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent import run
from labwright.agent.cli.edge import INTERRUPTED
from labwright.evals.bench import makers as makers_of
from labwright.evals.bench.makers import Makers
from labwright.evals.bench.tasks import Task
from labwright.evals.bench.work import Interrupted
from labwright.models.scripted import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.nouns.idea import read_idea
from labwright.record.reading import read_state
from tests.stages.small_study import IDEA, small_model
from tests.stages.test_whole_run import small_settings

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kept")]
TASK = Task("small", "a small study of the mean")


def scripted(_: ModelSettings) -> ScriptedModel:
    return small_model()


def forbidden(*_: object, **__: object) -> int:
    pytest.fail("the run is there already")


@pytest.mark.bench  # a whole run; tests/evals/test_bench.py has the steps
def test_a_run_is_made_once_and_gives_a_report_and_a_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "small"
    (home / "ideas").mkdir(parents=True)
    (home / "ideas" / "ideas.json").write_text(json.dumps([IDEA.model_dump(mode="json", by_alias=True)]))
    assert read_idea(home / "ideas" / "ideas.json", 0) == IDEA
    monkeypatch.setattr(run, "open_backend", scripted)
    makers = Makers(small_settings(paper__judge=False, search__num_drafts=1, search__preliminary__nodes=2))
    experiment = makers.experiment(TASK, home)
    assert (experiment.state, experiment.document) == ("done", "experiment/report.md")
    assert (home / experiment.code / "experiment.py").is_file() and experiment.took.calls > 5
    report = (home / experiment.document).read_text()
    assert f"# Experiments: {IDEA.title}" in report and "## Measured values" in report and "; n = " in report
    monkeypatch.setattr(makers_of, "start", forbidden)
    paper = makers.paper(TASK, home)
    assert paper.state == "done" and (home / paper.document).is_file() and paper.took.calls >= 2
    state = read_state(home / "run")
    assert state.assessed is not None and state.assessed.judgement is None, "the bench's judge comes after the run"
    assert experiment.took.calls + paper.took.calls == state.total.calls
    assert makers.experiment(TASK, home) == experiment


def test_a_run_that_was_interrupted_ends_the_bench_until_it_is_called_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "small"
    (home / "ideas").mkdir(parents=True)
    (home / "ideas" / "ideas.json").write_text(json.dumps([IDEA.model_dump(mode="json", by_alias=True)]))

    def interrupted(*_: object, runs: Path, name: str, **__: object) -> int:
        from labwright.record.folder import RunFolder
        from labwright.record.log import EventLog

        RunFolder(runs / name).create()
        EventLog(runs / name / "run.db").close()
        return INTERRUPTED

    monkeypatch.setattr(makers_of, "start", interrupted)
    with pytest.raises(Interrupted):
        Makers(small_settings()).experiment(TASK, home)
