"""What the program itself stumbles over in a node's leavings: the node's failure, until three nodes meet the same."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from benchmarks.scripted_study import draw_plots
from labwright.models.errors import ModelUnavailable
from labwright.record.event_log import RecordError, read_state
from labwright.record.events.run_events import RunResumed
from labwright.record.events.search_events import NodeJudged
from labwright.record.schema.nodes import Failure
from labwright.sandbox.job import GpuError, Job, JobOutcome
from labwright.stages.run_context import RepeatedFaultError
from labwright.stages.stage_runner import StageRunner
from tests.stages.test_nodes import Script, agenda, search


def lost_figure(*nodes: str) -> Script:
    """Plots of these nodes name a figure that is not there: nothing that this program expects."""

    def script(job: Job) -> JobOutcome | None:
        if job.kind != "plot" or job.name.partition("/")[0] not in nodes:
            return None
        outcome = draw_plots(job)
        (job.folder / "figures" / "loss.png").unlink()
        return outcome

    return script


async def test_what_nobody_expected_is_the_nodes_failure_with_our_traceback(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, lost_figure("n0004"), nodes=3)
    first, *others = await agenda(bench)
    assert first.status == "buggy" and first.failure is not None
    assert "the program could not process the experiment's output (FileNotFoundError:" in first.failure.message
    assert "stages/nodes/node_plots.py" in first.failure.traceback and str(Path.cwd()) not in first.failure.traceback
    assert first.failure.ours.startswith("FileNotFoundError < stages/nodes/node_plots.py:")
    assert all(one.status == "good" for one in others)
    assert read_state(tmp_path).nodes["n0004"].failure == first.failure


async def test_the_same_fault_in_three_nodes_ends_the_run(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, lost_figure("n0004", "n0005", "n0006", "n0007", "n0008"), nodes=5)
    with pytest.raises(
        RepeatedFaultError, match=r"on nodes n000\d, n000\d, n000\d: FileNotFoundError < stages/.*resumed"
    ):
        await StageRunner(bench).run_stage("agenda")
    ((fault, nodes),) = read_state(tmp_path).internal_faults.items()
    assert len(nodes) >= 3 and "node_plots.py" in fault


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EIO, "Input/output error"),
        RecordError("cannot write"),
        GpuError("gone"),
        ModelUnavailable("down"),
    ],
)
async def test_a_failure_of_disk_device_or_model_is_never_a_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    # nothing that code leaves brings these about: the machine is what would have to fail
    monkeypatch.setattr("labwright.stages.nodes.node_runner.find_impossible_scores", fails)
    bench, _ = search(tmp_path, lambda job: None)
    with pytest.raises(type(error)):
        await StageRunner(bench).run_stage("agenda")
    assert not any(one.is_finished for one in bench.state.list_stage_nodes("agenda"))


async def test_the_count_survives_a_resume_and_begins_anew_once_it_ended_the_run(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, lost_figure("n0004", "n0005"), nodes=2)
    await agenda(bench)
    bench.recorder.append(RunResumed())
    (nodes,) = bench.state.internal_faults.values()
    assert sorted(nodes) == ["n0004", "n0005"], "a kill in between is no mend"
    fault = next(iter(bench.state.internal_faults))
    bench.recorder.append(
        NodeJudged(node="n0005", status="buggy", failure=Failure(kind="other", message="", ours=fault))
    )
    assert len(bench.state.internal_faults[fault]) == 3
    bench.recorder.append(RunResumed())
    assert bench.state.internal_faults == {}, "taken up again after its end, it does not end at once"
