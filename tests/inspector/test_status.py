"""Where a run stands, in one value and on a page."""

from __future__ import annotations

import json

import pytest

from labwright.inspector.render import format_status
from labwright.inspector.status import RunStatus, find_condition
from labwright.inspector.summary import format_ending
from labwright.record.claims.hypothesis_tests import decide_from_runs
from labwright.record.event_log import drop_unreleased_rewrite
from labwright.record.events.paper_events import PaperReleased, RewriteStarted
from labwright.record.events.run_events import CommandReceived, ProcessEnded, RunResumed
from labwright.record.events.search_events import ConfirmationLocked, StageSummarised, StageWinnerChosen
from labwright.record.reducers.event_fold import fold_events
from labwright.record.schema.nodes import StageSummary
from tests.inspector.sample_run import BEGAN, EventStory, make_ended, make_eventful, make_sample, read_status
from tests.record.test_decisions import DIFFERENCE, runs_of
from tests.record.test_estimands import hypothesis, plan


def status(story: EventStory, process: str | None = None) -> RunStatus:
    return read_status("runs/calm", story.events, process, now=BEGAN + 1000)


def test_a_running_run() -> None:
    found = status(make_sample(), "process 7 on here")
    assert (found.condition, found.phase) == ("running", "tuning")
    assert found.next == "search the tuning stage"
    assert found.elapsed == 1000.0
    preliminary, tuning = found.stages[:2]
    assert (preliminary.searched, preliminary.node_limit, preliminary.replicates) == (3, 5, 1)
    assert preliminary.nodes == {"buggy": 1, "good": 3}
    assert tuning.nodes == {"good": 1, "running": 1}


def test_costs_are_summed() -> None:
    found = status(make_sample())
    cost = found.cost
    assert (cost.calls, cost.input_tokens, cost.output_tokens, cost.unpriced) == (6, 5400, 2400, 6)
    assert found.code_seconds == pytest.approx(17.0) and cost.seconds == pytest.approx(3.0)


def test_a_run_that_nobody_works_on_says_how_to_go_on() -> None:
    found = status(make_sample())
    assert found.condition == "interrupted" and found.exit_code is None
    assert found.next.endswith("scientist resume runs/calm")
    assert found.elapsed == len(make_sample().events) - 1


def test_a_limit_that_was_changed_on_the_way_is_the_one_shown() -> None:
    story = make_sample()
    story.add(RunResumed(settings={"search.tuning.nodes": 9}))
    assert [one.node_limit for one in status(story).stages[:2]] == [5, 9]


def test_the_page_shows_the_latest_requests() -> None:
    story = make_sample()
    story.add(*(CommandReceived(verb="note", text=f"note {n} " + "x" * 500) for n in range(7)))
    shown = [line.plain for line in format_status(status(story)) if "note for tuning" in line.plain]
    assert [line.count(f"note {n}") for n, line in enumerate(shown, 2)] == [1] * 5 and max(map(len, shown)) < 160


def test_a_released_paper_stays_the_released_one_when_a_later_draft_is_not() -> None:
    story = make_ended(0)
    story.add(
        PaperReleased(released=True, pdf="paper/paper.pdf"),
        ProcessEnded(exit_code=0, reason=""),
        RewriteStarted(version=2),
    )
    assert status(story, "process 7").paper == "paper/paper.pdf"
    story.add(
        PaperReleased(released=False, pdf="paper/v2/paper.pdf", reasons=("it is too long",)),
        ProcessEnded(exit_code=4, reason="it is too long"),
    )
    found, state = status(story), fold_events(story.events)
    assert (found.condition, found.exit_code, found.paper) == ("done", 0, "paper/paper.pdf")
    assert found.reason == "version 2 is a DRAFT (paper/v2/paper.pdf), not released: it is too long"
    assert found.next == f"scientist write {found.run} writes the later draft again"
    last = [one.plain for one in format_ending(found, ())]
    assert "paper/v2/paper.pdf" in last[1] and last[-1].endswith(found.next)
    assert state.paper.current is not None and (state.paper.version, state.paper.current.version) == (2, 1)
    assert fold_events(drop_unreleased_rewrite(story.events)).paper.version == 1 and drop_unreleased_rewrite(
        make_ended(0).events
    )
    story.add(
        RewriteStarted(version=3),
        PaperReleased(released=True, pdf="paper/v3/paper.pdf"),
        ProcessEnded(exit_code=0, reason=""),
    )
    assert status(story).paper == "paper/v3/paper.pdf" and drop_unreleased_rewrite(story.events) == story.events


@pytest.mark.parametrize(
    ("code", "condition"), [(0, "done"), (3, "stopped"), (4, "draft only"), (130, "interrupted"), (1, "failed")]
)
def test_exit_codes_become_words(code: int, condition: str) -> None:
    assert find_condition(fold_events([(ProcessEnded(exit_code=code, reason=""), 0.0)]), None) == condition


def test_an_interrupted_run_says_so_once_and_gives_no_verdict_before_fresh_seeds() -> None:
    story, asked = make_sample(), plan(hypothesis(DIFFERENCE))
    story.add(ProcessEnded(exit_code=130, reason="stopped by Ctrl-C"))
    close = runs_of([(0.88, 0.83), (0.86, 0.80), (0.90, 0.82), (0.87, 0.83), (0.89, 0.83)])
    preview = decide_from_runs(asked, close, confirmed=False)
    found = status(story).model_copy(update={"decisions": preview})
    assert preview[0].verdict == "supported"
    ended = "\n".join(one.plain for one in format_ending(found, ()))
    assert "verdicts  not decided yet: " in ended and ended.count("interrupted") == 1
    assert "not decided yet; " in page_of(found) and "supported" not in ended + page_of(found)


def test_locked_seeds_name_the_registered_looks() -> None:
    story, lock = (
        make_sample(),
        ConfirmationLocked(plan="", amendments=0, winner="n0002", source="", n=6, seeds=(1000,)),
    )
    story.add(lock)
    assert "locked with 6 fresh seeds\n" in page_of(status(story))
    story.add(lock.model_copy(update={"looks": (6, 19, 57)}))
    assert "locked with 6 fresh seeds, up to 57 at registered looks\n" in page_of(status(story))


def test_a_resumed_run_is_not_over() -> None:
    story = make_ended(130)
    story.add(RunResumed())
    assert status(story, "process 7 on here").exit_code is None


def test_json_holds_what_the_page_says_and_can_be_read_back() -> None:
    found = status(make_ended())
    again = RunStatus.model_validate(json.loads(found.model_dump_json()))
    assert again == found
    page = "\n".join(line.plain for line in format_status(found))
    for words in ("done (exit code 0)", "preliminary 3/5 nodes", "6 to offline", "paper/paper.pdf", "5.4k tokens in"):
        assert words in page


def test_nothing_hostile_is_on_the_page_or_in_the_events() -> None:
    for story in (make_ended(4), make_eventful()):
        harmless(status(story))
    assert "paper NOT released" in page_of(status(make_ended(4)))


def page_of(found: RunStatus) -> str:
    return "\n".join(line.plain for line in format_status(found))


def harmless(found: RunStatus) -> None:
    page = page_of(found) + "".join(one.text for one in found.last_events)
    assert not {c for c in page if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u202c"}


def test_the_stage_that_is_searched_and_what_the_one_before_still_has_to_do() -> None:
    found = status(make_eventful(), "process 7 on here")
    assert (found.phase, found.next) == ("tuning", "search the tuning stage")
    preliminary, tuning = found.stages[:2]
    assert preliminary.pending == ("1 replicate running", "its report") and preliminary.seedless == ("n0001",)
    assert tuning.pending == () and tuning.nodes == {"good": 1, "pruned": 1} and tuning.limited is not None
    page = page_of(found)
    assert "pending: 1 replicate running" in page and "identical values for every seed: n0001" in page
    words = [one.text for one in found.last_events]
    assert any(text.startswith("n0005 ran 1m20s again, with a limit of 90 s instead of 60 s") for text in words)
    assert any(text.startswith("n0006 tune pruned: far below its peers") for text in words)
    assert any(text.startswith("n0001 and n0005 compared: n0005 is sounder: it is simpler") for text in words)
    assert words[-1].startswith("limit of tuning reached: limit of 9 model calls")


def test_when_only_the_last_report_is_missing_it_is_next() -> None:
    story = make_sample()
    story.add(
        *(StageWinnerChosen(stage=stage, best="n0003", ended="limit") for stage in ("tuning", "agenda", "ablation")),
        *(
            StageSummarised(k=0, summary=StageSummary(stage=stage, tried="", found=""))
            for stage in ("tuning", "agenda")
        ),
    )
    assert status(story, "process 7 on here").next == "report on the ablation stage"
