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
from labwright.agent.cli.campaign import write_portfolio
from labwright.agent.settings import compose_settings
from labwright.record.campaign import (
    MAX_RUN_RETRIES,
    CampaignLog,
    CampaignResumed,
    CampaignStarted,
    CampaignState,
    CampaignTerms,
    DecisionForecast,
    EntryQueued,
    IdeasFound,
    PilotTimedOut,
    RunEnded,
    RunLaunched,
    read_campaign,
    select_studies,
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
    terms = read_campaign(folder).terms
    return CampaignRunner(
        folder,
        CampaignRuns(folder, program, kept=(terms is not None and terms.keep) or 0),
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
    state = CampaignState([(0.0, CampaignStarted(terms=terms, version="0"))])
    for number in range(rng.randint(1, 8)):
        state.apply(EntryQueued(name=f"i{number}", ideas=rng.choice([0, 0, 0, 2])), 0.0)
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
            if one.ideas:
                state.apply(
                    IdeasFound(name=one.name, ideas=((f"{one.name}-1", ""), (f"{one.name}-2", "")), spent=spent),
                    float(step),
                )
            else:
                code = rng.choice([0, 0, 3, 4, 1, 130, None])
                state.apply(RunEnded(name=one.name, code=code, spent=spent, asked=rng.random() < 0.2), float(step))
        for what, most in cap.items():
            real[what] = sum(one.spent.get(what, 0.0) for one in state.entries.values())
            assert real[what] <= state.count_committed(what) <= most * (1 + 1e-9)
    assert launched and real["usd"] > 0


QUICK = DecisionForecast(name="quick", wanted={"h": 10}, hypotheses=1, seeds=20, seconds=60)
SLOW = DecisionForecast(name="slow", wanted={"h": 8}, hypotheses=1, seeds=20, seconds=600)
HALF = DecisionForecast(name="half", wanted={"h": 10, "g": 80}, hypotheses=2, seeds=20, seconds=60)
NEVER = DecisionForecast(name="never", wanted={"h": 400}, hypotheses=1, seeds=20, seconds=1)
BLIND = DecisionForecast(name="blind", hypotheses=1, seeds=20, seconds=1, why="no replicate of a prototype ran")


def test_the_studies_that_continue_decide_most_per_hour_and_no_value_counts() -> None:
    found = select_studies([BLIND, NEVER, HALF, SLOW, QUICK], 2)
    assert [one.name for one in found.order] == ["quick", "half", "slow", "never", "blind"]
    assert found.names == ("quick", "half")
    assert found.reasons == {
        "slow": "rank 3 of 5 by expected decided claims per hour; 2 may continue",
        "never": "no claim can be decided: h needs 400 seeds, at most 20 are allowed",
        "blind": "no replicate of a prototype ran",
    }
    assert QUICK.decided_per_hour == pytest.approx(0.8 * 6), "power times claims: ten seeds of a minute"
    changed = [one.model_copy(update={"surprises": ("it is refuted",)}) for one in (SLOW, QUICK)]
    assert select_studies(changed, 1).names == ("quick",), "what a pilot's values show plays no part"


def test_a_pilot_is_planned_for_its_study_and_stopped_at_its_limit() -> None:
    terms = CampaignTerms(parallel=2, slots=2, seconds=1000.0, keep=2, pilot_seconds=100.0)
    state = CampaignState([(0.0, CampaignStarted(terms=terms, version="0"))])
    for name in "abcd":
        state.apply(EntryQueued(name=name), 0.0)
    share = state.compute_allowance("a", 0.0)
    assert (share.seconds, share.pilot_seconds) == (900.0, 100.0), "two rounds of pilots, then one of studies"
    state.apply(RunLaunched(name="a", share=share), 0.0)
    state.apply(RunEnded(name="a", code=130, asked=True, seconds=40.0), 40.0)
    assert state.entries["a"].status == "interrupted"
    assert state.compute_allowance("a", 40.0).pilot_seconds == 60.0, "a stop costs nothing of the pilot"
    for name in "abcd":
        state.apply(RunLaunched(name=name, share=state.compute_allowance(name, 50.0)), 50.0)
    state.apply(PilotTimedOut(name="a"), 110.0)
    assert state.entries["a"].pilot_over and state.entries["a"].status == "running"
    for name in "abcd":
        state.apply(RunEnded(name=name, code=130, prospect=DecisionForecast(name=name), seconds=100.0), 120.0)
    state.apply(select_studies([QUICK.model_copy(update={"name": name}) for name in "abcd"], 2), 120.0)
    assert [one.name for one in state.waiting_entries] == ["a", "b"] and state.places_left == 0
    share = state.compute_allowance("a", 120.0)
    assert (share.seconds, share.pilot_seconds) == (880.0, None)
    assert not state.entries["a"].pilot_over
    state.apply(RunLaunched(name="a", share=share), 130.0)
    state.apply(RunEnded(name="a"), 140.0)
    assert state.entries["a"].tries == 1, "a study that dies is no pilot that was stopped"
    assert state.entries["c"].status_reason == "rank 3 of 4 by expected decided claims per hour; 2 may continue"


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


# --- portfolios -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_portfolio_that_is_killed_twice_confirms_its_best_study_and_keeps_the_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("true-1", "null-3", "noisy-1")
    folder = campaign_of(tmp_path, {name: name for name in names}, usd=None, keep=1, pilot_seconds=60.0)
    call = f"worked(Path({str(folder)!r}), (sys.executable, '-m', 'benchmarks.portfolio_program'))"
    program = f"import sys\nfrom pathlib import Path\nfrom tests.agent.test_campaign import worked\n{call}"

    def is_due(state: CampaignState, is_chosen: bool) -> bool:
        return bool(state.running_entries) and (state.chosen is not None) == is_chosen

    for is_chosen in (False, True):
        process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
        until = time.monotonic() + 300
        while time.monotonic() < until and not is_due(read_campaign(folder), is_chosen):
            time.sleep(0.05)
        process.kill()
        process.wait()
        for lock in (folder / "locks").iterdir():
            if (pid := lock.read_text()).isdigit() and Path(f"/proc/{pid}").exists():
                os.kill(int(pid), signal.SIGKILL)
    state = worked(folder, (sys.executable, "-m", "benchmarks.portfolio_program"))
    assert {name: one.status for name, one in state.entries.items()} == {
        "true-1": "done",
        "null-3": "set aside",
        "noisy-1": "set aside",
    }
    assert state.entries["null-3"].set_aside.startswith("rank 2 of 3 by expected decided claims per hour")
    assert state.entries["noisy-1"].set_aside.startswith("no claim can be decided: h needs")
    assert sum("chosen" in line for line in (folder / "campaign.jsonl").read_text().splitlines()) == 1
    pilots, run = read_state(folder / "runs" / "noisy-1"), read_state(folder / "runs" / "true-1")
    assert not pilots.search.test_measurements, "no test data are scored for what is set aside"
    assert run.search.current_lock is not None and run.search.looks
    used = {node.seed for node in run.nodes.values() if node.stage == "preliminary"}
    assert len(used) == 4 and not used.intersection(run.search.looks[-1].seeds), "seeds of a pilot confirm nothing"
    write_portfolio(folder)
    assert main(["status", str(folder)]) == 0
    shown, table = capsys.readouterr().out, (folder / "portfolio.md").read_text()
    assert "continued" in shown and "set aside" in shown
    row = next(line for line in table.splitlines() if line.startswith("| true-1"))
    assert "| continued | 1 of 1 |" in row and "h supported |" in row
    assert (
        state.entries["noisy-1"].set_aside in table
        and state.entries["noisy-1"].set_aside in (folder / "portfolio.csv").read_text()
    )


@pytest.mark.slow
def test_a_pilot_that_reaches_its_limit_is_stopped_and_compared(tmp_path: Path) -> None:
    folder = campaign_of(tmp_path, {"a": "busy run", "b": "busy run"}, keep=1, pilot_seconds=5.0)
    state = worked(folder)
    assert (folder / "campaign.jsonl").read_text().count('"pilot_over"') == 2
    reasons = {"there is no plan", "its pilot has no readable record"}
    assert {one.set_aside for one in state.entries.values()} <= reasons, "nothing is decided"
    assert state.ended is not None and not state.ended.why and state.places_left == 1


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
    assert "nothing to run: give idea files or --topic" in refused(capsys, "campaign", "--out", "c")
    assert "--pilot 'soon' is not a time" in refused(capsys, "campaign", "one.json", "--out", "c", "--pilot", "soon")
    assert "take the whole time limit" in refused(
        capsys, "campaign", "one.json", "two.json", "--out", "c", "--pilot", "1h", "--time-limit", "1h"
    )
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
    (run / "events.jsonl").write_bytes(b"no database")  # what nobody can read may have taken its whole share
    log.append(RunLaunched(name="a", share=log.state.compute_allowance("a", 0.0)))
    entry = log.state.entries["a"]
    assert entry.share is not None and entry.share.caps["subject_usd"] > 3.94
    log.append(CampaignRuns(folder).read_end(entry, -9))
    assert log.state.entries["a"].spent["subject_usd"] == entry.share.caps["subject_usd"]
    log.append(RunLaunched(name="a", share=log.state.compute_allowance("a", 0.0)))
    log.append(RunEnded(name="a", why="its folder is gone"))
    assert log.state.entries["a"].spent["subject_usd"] == entry.share.caps["subject_usd"], "what is spent stays so"
