"""A suspect node through the real stage: flagged, mended by its child, out of the claims; and the probe of a winner."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from models.backend import Request
from models.roles import CodeInputs, Program
from record.claims import paper_claims, trusted_replicates, winner
from record.events import Commanded, Probed
from review.honesty.probe import ENTRY, program
from sandbox.chance import chance_of
from sandbox.datasets import materialise
from sandbox.executor import LocalExecutor
from sandbox.job import Job, Outcome
from sandbox.settings import SandboxSettings
from stages.paper.incidents import incidents
from stages.probing import probe_winners
from stages.score import frozen
from tests.stages.small_study import experiment
from tests.stages.test_nodes import agenda, program_or_plots, search

TYPED = 'import lab\nlab.result("accuracy", 0.97, condition="method", dataset="digits")\n'


async def test_a_suspect_node_is_debugged_and_disclosed(tmp_path: Path) -> None:
    told: list[CodeInputs] = []

    def model(request: Request) -> BaseModel:
        if isinstance(request.inputs, CodeInputs):
            told.append(request.inputs)
            if request.inputs.kind != "debug":
                return Program(title="typed", plan="typed", varies=f"a{request.inputs.ordinal}", experiment=TYPED,
                               plots="# plots")
        return program_or_plots(request)

    bench, _ = search(tmp_path, lambda job: None, nodes=3, model=model)
    first, *others = await agenda(bench)
    assert first.status == "buggy" and first.failure is not None and first.failure.kind == "suspect"
    assert [(one.kind, one.line) for one in first.findings] == [("constant", 2)] and len(first.suspect) == 1
    mending = [node for node in others if node.kind == "debug"]
    assert mending and mending[0].parent == first.id
    parent = next(one.parent for one in told if one.kind == "debug")
    assert parent is not None and "line 2" in parent.findings[0]
    assert "made of numbers in the source" in incidents(bench.state)


def outcome(job: Job) -> Outcome | None:
    return None


async def test_the_winner_is_probed_once_and_what_does_not_move_is_out(tmp_path: Path) -> None:
    bench, jobs = search(tmp_path, outcome)
    await agenda(bench)
    await probe_winners(bench)
    await probe_winners(bench)
    probes = [(one.probe, one.outcome) for one in bench.state.probes]
    assert probes == [("seed", "unclear"), ("labels", "unclear")] and not [j for j in jobs if j.entry == ENTRY]
    assert "reads no labels" in incidents(bench.state)


async def test_a_suspect_winner_gives_way_to_the_one_before(tmp_path: Path) -> None:
    bench, _ = search(tmp_path, outcome)
    await agenda(bench)
    best = winner(bench.state)
    assert best is not None
    bench.recorder.append(Commanded(verb="mark", target=best, text="typed numbers"))
    after = winner(bench.state)
    assert trusted_replicates(bench.state, best) == [] and best not in [node.id for node in frozen(bench.state)]
    assert after != best or paper_claims(bench.state) == []


@pytest.mark.slow
async def test_code_that_learns_loses_its_advantage_with_permuted_labels(tmp_path: Path) -> None:
    from review.honesty.probe import labels_probe
    from tests.stages.small_study import PLAN

    views, labels = tmp_path / "views", tmp_path / "labels"
    materialise("iris", views=views, labels=labels, seed=1)
    executor = LocalExecutor(2, views, labels=labels, settings=SandboxSettings(isolation="auto"), cache=tmp_path / "c")
    source = {"experiment.py": experiment()}
    try:
        plain = await executor.run(Job(name="plain", folder=tmp_path / "a", source=source, datasets=("iris",)))
        permuted = await executor.run(Job(name="permuted", folder=tmp_path / "b", source=source | {ENTRY: program()},
                                          entry=ENTRY, datasets=("iris",)))
    finally:
        await executor.close()
    assert plain.failure is None and permuted.failure is None, (plain.failure, permuted.failure)
    found = labels_probe(plain.measurements, permuted.measurements, metric=PLAN.primary,
                         chance=chance_of(labels, PLAN.primary.name))
    assert found.outcome == "moved", found


def test_a_probe_is_an_event_that_reads_back() -> None:
    from record.events import EVENT

    one = Probed(node="n0001", probe="seed", outcome="still", why="the same")
    assert EVENT.validate_json(one.model_dump_json()) == one
