"""Where a run stands, in one value and on a page."""

from __future__ import annotations

import json

import pytest

from inspector.render import status_lines
from inspector.status import Status, condition_of, status_of
from record.events import Ended, Resumed
from record.fold import fold
from tests.inspector.story import BEGAN, Story, ended, told


def status(story: Story, process: str | None = None) -> Status:
    return status_of("runs/calm", story.events, process, now=BEGAN + 1000)


def test_a_running_run() -> None:
    found = status(told(), "process 7 on here")
    assert (found.condition, found.phase) == ("running", "tuning")
    assert found.next == "search the tuning stage"
    assert found.elapsed == 1000.0
    preliminary, tuning = found.stages[:2]
    assert (preliminary.searched, preliminary.ceiling, preliminary.replicates) == (3, 5, 1)
    assert preliminary.nodes == {"buggy": 1, "good": 3}
    assert tuning.nodes == {"good": 1, "running": 1}


def test_costs_are_summed() -> None:
    cost = status(told()).cost
    assert (cost.calls, cost.input_tokens, cost.output_tokens, cost.unpriced) == (6, 5400, 2400, 6)
    assert cost.code_seconds == pytest.approx(17.0) and cost.model_seconds == pytest.approx(3.0)


def test_a_run_that_nobody_works_on_says_how_to_go_on() -> None:
    found = status(told())
    assert found.condition == "interrupted" and found.exit_code is None
    assert found.next.endswith("scientist resume runs/calm")
    assert found.elapsed == len(told().events) - 1


@pytest.mark.parametrize(("code", "condition"), [
    (0, "done"), (3, "stopped"), (4, "draft only"), (130, "interrupted"), (1, "failed")])
def test_exit_codes_become_words(code: int, condition: str) -> None:
    assert condition_of(fold([(Ended(exit_code=code, reason=""), 0.0)]), None) == condition


def test_a_resumed_run_is_not_over() -> None:
    story = ended(130)
    story.tell(Resumed())
    assert status(story, "process 7 on here").exit_code is None


def test_json_holds_what_the_page_says_and_can_be_read_back() -> None:
    found = status(ended())
    again = Status.model_validate(json.loads(found.model_dump_json()))
    assert again == found
    page = "\n".join(line.plain for line in status_lines(found))
    for words in ("done (exit code 0)", "preliminary 3/5 nodes", "6 to offline", "paper/paper.pdf", "5.4k tokens in"):
        assert words in page


def test_nothing_hostile_is_on_the_page_or_in_the_events() -> None:
    found = status(ended(4))
    page = "\n".join(line.plain for line in status_lines(found)) + "".join(one.text for one in found.last_events)
    assert not {c for c in page if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u202e\u202c"}
    assert "paper NOT released" in page
