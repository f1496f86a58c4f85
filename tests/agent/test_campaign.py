"""Campaigns: shares that never pass the budget, runs that die or are away, kills of the whole, and the table."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.campaign import CampaignRunner, CampaignRuns, create_campaign, read_campaign_ideas
from labwright.agent.cli import main
from labwright.agent.settings import compose_settings
from labwright.record.campaign import (
    MAX_RUN_RETRIES,
    CampaignLog,
    CampaignResumed,
    CampaignStarted,
    CampaignState,
    CampaignTerms,
    EntryQueued,
    RunEnded,
    RunLaunched,
    read_campaign,
)
from labwright.record.errors import UsageError
from labwright.record.event_log import EventLog, read_state
from labwright.record.events.run_events import RunStarted
from labwright.record.llm_calls import LLMCallStore
from labwright.record.schema.decisions import Cost, LLMExchange, LLMQuestion
from tests.agent.test_cli_bad_input import refused
from tests.models.examples import IDEA

PROGRAM = (sys.executable, "-m", "tests.agent.fake_scientist")
ROOT = Path(__file__).parents[2]


def idea(name: str, title: str) -> dict[str, Any]:
    return {"Name": name, "Title": title, "Experiments": ["one"]}


def campaign_of(place: Path, titles: dict[str, str], *, usd: float | None = 6.0, **terms: Any) -> Path:
    """A campaign that has begun, with an idea for each name."""
    (place / "ideas.json").write_text(json.dumps([idea(name, title) for name, title in titles.items()]))
    folder = place / "campaign"
    create_campaign(
        list(read_campaign_ideas([place / "ideas.json"])),
        compose_settings(environment={}),
        CampaignTerms(parallel=terms.pop("parallel", 2), slots=2, caps={} if usd is None else {"usd": usd}, **terms),
        folder,
    )
    return folder


def worked(folder: Path, program: tuple[str, ...] = PROGRAM, **more: Any) -> CampaignState:
    return CampaignRunner(
        folder,
        CampaignRuns(folder, program),
        poll_seconds=0.02,
        backoff_seconds=0.02,
        environment=os.environ | {"PYTHONPATH": str(ROOT)},
        **more,
    ).run()


def told(folder: Path, what: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "told.jsonl").read_text().splitlines()]
    return [one for one in lines if one["what"] == what]


# --- shares -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_no_schedule_passes_the_budget(seed: int) -> None:
    """Whatever ends, dies, comes late, or is killed with the whole, and in whatever order."""
    rng = random.Random(seed)
    cap = {"usd": rng.uniform(1, 50), "tokens": float(rng.randint(1000, 10**6))}
    terms = CampaignTerms(parallel=rng.randint(1, 4), slots=2, caps=cap)
    state = CampaignState()
    state.apply(CampaignStarted(terms=terms, version="0"), 0.0)
    for number in range(rng.randint(1, 8)):
        state.apply(EntryQueued(name=f"i{number}"), 0.0)
    real = dict.fromkeys(cap, 0.0)
    launched = 0
    for step in range(200):
        event = rng.random()
        if event < 0.05:
            state.apply(CampaignResumed(), float(step))
        elif event < 0.1:
            state.apply(EntryQueued(name=f"late{step}"), float(step))
        elif event < 0.5 and state.waiting_entries and len(state.running_entries) < terms.parallel:
            one = rng.choice(state.waiting_entries)
            state.apply(RunLaunched(name=one.name, share=state.compute_allowance(one.name, float(step))), float(step))
            launched += 1
        elif state.running_entries:
            one = rng.choice(state.running_entries)
            assert one.share is not None
            spent = {what: rng.uniform(one.spent.get(what, 0.0), most) for what, most in one.share.caps.items()}
            code = rng.choice([0, 0, 3, 4, 1, 130, None])
            state.apply(RunEnded(name=one.name, code=code, spent=spent, asked=rng.random() < 0.2), float(step))
        for what, most in cap.items():
            real[what] = sum(one.spent.get(what, 0.0) for one in state.entries.values())
            assert real[what] <= state.count_committed(what) <= most * (1 + 1e-9)
    assert launched and real["usd"] > 0


# --- runs that do what runs do ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_dies_is_resumed_and_what_is_away_is_given_up(tmp_path: Path) -> None:
    folder = campaign_of(tmp_path, {"a": "done well", "b": "dies twice", "c": "away always", "d": "done well"})
    state = worked(folder)
    assert {name: one.status for name, one in state.entries.items()} == {
        "a": "done",
        "b": "done",
        "c": "failed",
        "d": "done",
    }
    assert len(told(folder, "resume")) == 2 + MAX_RUN_RETRIES and state.entries["c"].status_reason == "model is away"
    asked = Counter((one["run"], one["number"]) for one in told(folder, "asked"))
    assert asked["b", 1] == asked["b", 3] == 2, "what was in flight when it died"
    assert all(times == 1 for key, times in asked.items() if key not in {("b", 1), ("b", 3)}), "nothing else again"
    assert state.count_committed("usd") <= 6.0
    again = worked(folder)
    assert again.entries["a"].status == "done" and len(told(folder, "run")) == 4, "nothing is run again"
    assert len(told(folder, "resume")) == 2 * MAX_RUN_RETRIES + 3, "what failed is tried again, since a person asked"


@pytest.mark.slow
def test_killed_twice_and_resumed_it_asks_nothing_again_that_was_committed(tmp_path: Path) -> None:
    folder = campaign_of(tmp_path, dict.fromkeys("abcd", "slow one"), parallel=2)
    program = f"from pathlib import Path\nfrom tests.agent.test_campaign import worked\nworked(Path({str(folder)!r}))"
    rng = random.Random(7)
    for kill in range(2):
        process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
        until = time.monotonic() + 120
        while time.monotonic() < until and not (folder / "told.jsonl").exists():
            time.sleep(0.02)
        time.sleep(rng.uniform(0.2, 0.8))
        process.kill()
        process.wait()
        if kill == 1:  # runs die with it
            for lock in (folder / "locks").iterdir():
                if (pid := lock.read_text()).isdigit() and Path(f"/proc/{pid}").exists():
                    os.kill(int(pid), signal.SIGKILL)
    state = worked(folder)
    assert {one.status for one in state.entries.values()} == {"done"}
    asked = Counter((one["run"], one["number"]) for one in told(folder, "asked"))
    assert len(asked) == 24 and sum(asked.values()) <= 24 + 2, "two were in flight when their runs were killed"
    assert Counter(one["run"] for one in told(folder, "run")) == dict.fromkeys("abcd", 1), "no run was begun twice"
    spent = sum(read_state(folder / "runs" / name).calls.spent_cost.usd for name in "abcd")
    assert spent <= 6.0


@pytest.mark.slow
def test_a_share_that_is_used_up_ends_one_run_and_not_the_others(tmp_path: Path) -> None:
    folder = campaign_of(tmp_path, {"a": "dies twice", "b": "done well"}, usd=2.0)
    state = worked(folder)
    ends = {name: one.end.code for name, one in state.entries.items() if one.end is not None}
    assert ends["b"] == 0 and ends["a"] in (0, 3) and state.count_committed("usd") <= 2.0


@pytest.mark.slow
def test_stop_and_queue_while_it_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = campaign_of(tmp_path, {"a": "slow one", "b": "done well"}, parallel=1)
    program = f"from pathlib import Path\nfrom tests.agent.test_campaign import worked\nworked(Path({str(folder)!r}))"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and not (folder / "told.jsonl").exists():
            time.sleep(0.05)
        (tmp_path / "late.json").write_text(json.dumps(idea("late", "done well")))
        assert main(["queue", "add", str(folder), str(tmp_path / "late.json")]) == 0
        assert "will start them" in capsys.readouterr().out
        while time.monotonic() < until and "late" not in read_campaign(folder).entries:
            time.sleep(0.05)
        assert main(["stop", str(folder)]) == 0
        assert process.wait(timeout=600) == 0
    finally:
        process.kill()
    state = read_campaign(folder)
    assert state.ended is not None and "stopped" in state.ended.why and state.entries["late"].status == "waiting"
    assert state.entries["a"].tries == 0, "to be stopped is no failure"
    assert main(["queue", "list", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "late" in out and "waiting" in out
    assert {one.status for one in worked(folder).entries.values()} == {"done"}
    assert main(["status", str(folder), "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["lines"]
    assert {one["name"]: one["state"] for one in lines} == dict.fromkeys(("a", "b", "late"), "released")


# --- the record -------------------------------------------------------------------------------------------------------


def test_a_line_that_a_kill_cut_short_is_as_if_not_written(tmp_path: Path) -> None:
    folder = campaign_of(tmp_path, {"a": "done well", "b": "done well"})
    log = folder / "campaign.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole[:-20])
    assert list(read_campaign(folder).entries) == ["a"]
    CampaignLog(folder).append(EntryQueued(name="c"))
    assert list(read_campaign(folder).entries) == ["a", "c"]
    log.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(UsageError, match="line 1 is damaged"):
        read_campaign(folder)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps(idea(name, "Calm networks")))
    return tmp_path


def test_a_name_twice(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "three.json").write_text(json.dumps(idea("one", "again")))
    assert "two ideas are named one" in refused(capsys, "campaign", ".", "--out", "c")


@pytest.mark.slow
def test_a_budget_that_cannot_hold_a_paper_for_each(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    said = refused(
        capsys,
        "campaign",
        ".",
        "--out",
        "c",
        "--budget-usd",
        "1",
        "--model",
        "openai-chat:m",
        "--set",
        'models.prices={"openai-chat:m": {input: 3.0, output: 15.0}}',
    )
    assert "with the budget divided by 2: the budget of $0.50 cannot hold a report" in said


def test_nothing_to_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "empty").mkdir()
    assert "empty has no *.json with ideas" in refused(capsys, "campaign", "empty", "--out", "c")
    assert "none.json does not exist" in refused(capsys, "campaign", "none.json", "--out", "c")
    assert "nothing to run: give idea files" in refused(capsys, "campaign", "--out", "c")
    (place / "empty" / "broken.json").write_text("{")
    assert "none of the 1 ideas can be run" in refused(capsys, "campaign", "empty", "--out", "c")


async def test_what_a_run_paid_for_subjects_is_no_share_of_another_however_it_died(tmp_path: Path) -> None:
    (tmp_path / "ideas.json").write_text(json.dumps([idea("a", "a"), idea("b", "b")]))
    folder = tmp_path / "campaign"
    create_campaign(
        list(read_campaign_ideas([tmp_path / "ideas.json"])),
        compose_settings(environment={}),
        CampaignTerms(parallel=1, slots=1, caps={"subject_usd": 10.0}),
        folder,
    )
    log, run = CampaignLog(folder), folder / "runs" / "a"
    log.append(RunLaunched(name="a", share=log.state.compute_allowance("a", 0.0)))
    run.mkdir(parents=True)
    events = EventLog(run / "events.jsonl")
    events.append(RunStarted(idea=IDEA, settings={}, seed=0, version="0", model="scripted"))
    events.close()
    exchanges, question = (
        LLMCallStore(run / "exchanges.jsonl"),
        LLMQuestion.model_validate({"subject": "small", "messages": [{"role": "user", "content": "hi"}]}),
    )
    most = Cost(usd=1.0, tokens=10)
    for number in range(4):  # three were answered, one was under way when it died
        call = await exchanges.reserve("cell", f"{question.digest}-{number}", question, most)
        if number < 3:
            answer = LLMExchange(id=f"{question.digest}-{number}", subject="small", text="x", model="m")
            await exchanges.settle(call, most, answer, tokens=(5, 5), usd=0.98, seconds=0.1)
    await exchanges.close()
    ended = CampaignRuns(folder).read_end(log.state.entries["a"], -9)
    assert isinstance(ended, RunEnded) and ended.code is None and ended.spent["subject_usd"] == pytest.approx(3.94)
    for _ in range(MAX_RUN_RETRIES + 1):
        log.append(ended)
    assert log.state.entries["a"].status == "failed"
    assert log.state.compute_allowance("b", 0.0).caps["subject_usd"] == pytest.approx(10 - 3.94)
    (run / "events.jsonl").write_bytes(b"no log")  # what nobody can read may have taken its whole share
    log.append(RunLaunched(name="a", share=log.state.compute_allowance("a", 0.0)))
    entry = log.state.entries["a"]
    assert entry.share is not None and entry.share.caps["subject_usd"] > 3.94
    log.append(CampaignRuns(folder).read_end(entry, -9))
    assert log.state.entries["a"].spent["subject_usd"] == entry.share.caps["subject_usd"]
    log.append(RunLaunched(name="a", share=log.state.compute_allowance("a", 0.0)))
    log.append(RunEnded(name="a", why="its folder is gone"))
    assert log.state.entries["a"].spent["subject_usd"] == entry.share.caps["subject_usd"], "what is spent stays so"
