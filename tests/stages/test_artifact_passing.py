"""What attempts of a node, and nodes of a run, are given of each other: checkpoints and artifacts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labwright.record.run_folder import partial_path
from labwright.sandbox.job import CHECKPOINTS, ArtifactFile, Job, JobOutcome
from labwright.sandbox.settings import SandboxSettings
from labwright.sandbox.workspace import rescue_checkpoints
from labwright.stages.prompt_inputs import build_code_inputs, build_node_brief
from labwright.stages.run_context import RunContext
from tests.stages.test_nodes import agenda, make_measurements, search


def earlier_folder(job: Job) -> Path | None:
    """The folder whose checkpoints a script is given."""
    (task,) = job.cells.values()
    return task.folder


GOOD = JobOutcome(seconds=1, measurements=make_measurements(0.5))


@pytest.mark.parametrize("order", ["arrival", "ticket"])
async def test_what_a_kill_cut_goes_on_unless_the_tree_must_be_the_same(tmp_path: Path, order: str) -> None:
    bench, jobs = search(tmp_path, lambda job: None, nodes=1)
    bench = replace(bench, search=bench.search.model_copy(update={"order": order}))
    draft = left_by_a_kill(bench, "n0004")
    await agenda(bench)
    given = next(earlier_folder(job) for job in jobs if job.name == "n0004/1")
    assert (given is not None) == (order == "arrival")
    assert rescue_checkpoints(draft) is None, "what was put aside is removed once the attempt is recorded"


def left_by_a_kill(bench: RunContext, node: str) -> Path:
    draft = partial_path(bench.folder.get_attempt_path(node, 1))
    place = draft / "cells" / "script" / CHECKPOINTS
    place.mkdir(parents=True)
    (place / "state").write_text("half way")
    return draft


async def test_later_nodes_are_given_what_earlier_ones_left_and_it_is_recorded(tmp_path: Path) -> None:
    def leaves(job: Job) -> JobOutcome | None:
        if job.kind == "plot":
            return None
        left = {"artifacts": {"net/x": "0" * 64}, "peak_host_bytes": 5, "peak_gpu_bytes": 6, "resumed": True}
        return GOOD.model_copy(update=left)

    bench, jobs = search(tmp_path, leaves, nodes=8)
    first, *_ = await agenda(bench)
    (attempt,) = first.attempts
    assert (attempt.artifacts, attempt.peak_host_bytes, attempt.peak_gpu_bytes, attempt.resumed) == (
        {"net/x": "0" * 64},
        5,
        6,
        True,
    )
    ran = [job for job in jobs if job.kind == "experiment"]
    assert ran[0].artifacts == {}
    expected = {"net/x": ArtifactFile(bench.folder.get_attempt_path(first.id, 1), "0" * 64)}
    assert ran[-1].artifacts[first.id] == expected


async def test_a_prompt_names_what_its_parent_left_and_the_models_of_the_run(tmp_path: Path) -> None:
    def leaves(job: Job) -> JobOutcome | None:
        left = {"artifacts": {"net/x": "0" * 64, "net/y": "0" * 64}}
        return GOOD.model_copy(update=left) if job.kind == "experiment" else None

    bench, _ = search(tmp_path, leaves, nodes=1)
    bench = replace(bench, sandbox=SandboxSettings(pretrained=("a/b@1",)))
    nodes = await agenda(bench)
    assert build_code_inputs(bench, bench.state.decisions[nodes[0].decision]).pretrained == ("a/b@1",)
    assert build_node_brief(bench.folder, nodes[0]).artifacts == ("net",)
