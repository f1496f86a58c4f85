"""A run that stops after a stage with all that the stage owes, and goes on as if it had not stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from labwright.record.campaign import (
    RUNS_FOLDER,
    CampaignLog,
    CampaignStarted,
    CampaignTerms,
    EntryQueued,
    count_campaign_peers,
)
from labwright.record.claims.formatting import format_setups
from labwright.record.event_log import read_state
from tests.agent.scripted_runs import FLAGS, RunWorld
from tests.stages.small_study import IDEA

pytestmark = pytest.mark.slow


def test_it_stops_after_the_stage_with_its_replicates_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = RunWorld(tmp_path, monkeypatch)
    assert world.run(until="preliminary", search__preliminary__num_seeds=3) == 130
    state = world.state
    assert state.phase == "tuning" and "stopped after the preliminary stage" in (
        state.process_end.reason if state.process_end else ""
    )
    replicates = [one for one in state.nodes.values() if one.kind == "replicate"]
    assert len(replicates) == 3 and all(one.is_finished for one in replicates)
    assert state.search.stages["preliminary"].summary is not None
    assert not [one for one in state.nodes.values() if one.stage == "tuning"]
    ran = list(world.ran)
    assert world.resume("--set", "until=null") == 0
    assert not set(ran) & set(world.ran[len(ran) :]), "nothing runs again"


def test_a_paper_says_one_of_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = tmp_path / "campaign"
    campaign.mkdir()
    log = CampaignLog(campaign)
    log.append(CampaignStarted(terms=CampaignTerms(parallel=1, slots=1), version="0"))
    for name in ("first", "run", "never"):
        log.append(EntryQueued(name=name))
    world = RunWorld(tmp_path, monkeypatch)
    (tmp_path / "idea.json").write_text(IDEA.model_dump_json(by_alias=True))
    for name in ("first", "run"):
        assert (
            world.main(
                "run",
                "--idea",
                str(tmp_path / "idea.json"),
                "--runs",
                str(campaign / RUNS_FOLDER),
                "--name",
                name,
                "--set",
                f"campaign={campaign}",
                *(word for key, value in FLAGS.items() for word in ("--set", f"{key}={value}")),
            )
            == 0
        )
    first, second = (read_state(campaign / RUNS_FOLDER / name).campaign for name in ("first", "run"))
    assert first is not None and (first.ideas, first.tests) == (3, {})
    assert second is not None and (second.ideas, second.tests) == (3, {"iris": 1}), "the same split, scored before"
    assert (place := count_campaign_peers(campaign, campaign / RUNS_FOLDER / "first")) is not None and place.tests == {
        "iris": 1
    }
    told = [str(request.inputs) for request in world.model.requests if request.role.name == "outline"][-1]
    assert "{campaign.ideas} that were run together" in told
    assert "Other studies among them" in told and "{campaign.tests.iris}" in told
    assert format_setups(read_state(campaign / RUNS_FOLDER / "run"))["campaign.ideas"].tex == "3"
