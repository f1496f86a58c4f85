"""Model calls and checks on the page."""

from __future__ import annotations

import hashlib
import json
import re
import time
from pathlib import Path

import httpx
import pytest

from labwright.inspector.archive import pack_run
from labwright.inspector.logs import describe_small_step
from labwright.inspector.render import format_status
from labwright.inspector.web.fragments import list_checks
from labwright.inspector.web.node_panel import CALLS_PER_PAGE, list_calls
from labwright.inspector.web.page_renderer import NODE_VERBS, PageRenderer
from labwright.inspector.web.run_cache import MIN_REFRESH_SECONDS
from labwright.record.events.paper_events import DraftAssessed, PaperReleased
from labwright.record.events.run_events import CallAnswered, CommandReceived
from labwright.record.events.search_events import DecisionMade, NodeProbed
from labwright.record.llm_calls import store_prompt
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.decisions import CallKey, RunTask, TokenUsage
from labwright.record.schema.paper import PaperDraft, PaperFinding, Section
from labwright.record.zips import open_run_folder
from labwright.stages.paper.disclosure import format_disclosure
from tests.inspector.sample_run import BEGAN, EventStory, make_ended, make_sample, read_status
from tests.inspector.web_server import HOSTILE_CALL, PNG, append_events, record_story, running_server

pytestmark = pytest.mark.slow

PROMPT = json.dumps(
    {
        "asked": "m at 0",
        "role": "write",
        "system": "Be exact.",
        "user": "Write it down.",
        "images": [hashlib.sha256(PNG).hexdigest(), "1" * 64],
        "schema": {"title": "Text"},
    }
)


def answered(story: EventStory, role: str, *, prompt: str = "0") -> CallKey:
    """A call for a step outside the search."""
    story.k += 1
    key = CallKey(decision=story.k, attempt=0, role=role, ordinal=0)
    story.add(
        DecisionMade(k=story.k, action=RunTask(task="write")),
        CallAnswered(
            key=key,
            request_sha256=prompt,
            model="m",
            answer={"text": "a\nb"},
            seconds=1.5,
            usage=TokenUsage(input_tokens=1200, output_tokens=30, usd=0.0123),
        ),
    )
    return key


def test_what_came_out_of_a_cache_is_told_with_its_price(tmp_path: Path) -> None:
    story = make_sample()
    key = CallKey(decision=1, attempt=0, role="summary", ordinal=0)
    used = TokenUsage(
        input_tokens=12_000, output_tokens=30, cached_tokens=8100, cache_write_tokens=100, cached_usd=0.02, usd=0.05
    )
    event = CallAnswered(
        key=key, request_sha256="0", model="m", answer={}, seconds=1.5, usage=used, left_out=("temperature",)
    )
    story.add(event)
    found = read_status("runs/calm", story.events, None, now=BEGAN)
    for one in (found.cost, found.roles["summary"]):
        assert (one.cached_tokens, one.cache_write_tokens, one.cached_usd) == (8100, 100, 0.02)
    page = "\n".join(line.plain for line in format_status(found))
    assert "summary: 1 call, 12.0k in (8.1k cached, $0.02), 30 out" in page
    line = describe_small_step(event, RunState())
    assert (
        line is not None
        and "12.0k tokens in (8.1k cached, $0.02)" in line
        and "without the parameters temperature" in line
    )
    told_in_paper = json.loads(format_disclosure(story.state, isolation="", text_round=0))["cost"]["summary"]
    assert told_in_paper["cached_tokens"] == 8100 and told_in_paper["cached_usd"] == 0.02
    record_story(tmp_path / "calm", story)
    with running_server(tmp_path) as web:
        text = web.get("/runs/calm/cost").text
        assert "8.1k, $0.02" in text and "12.0k (8.1k cached, $0.02)" in text
        assert "12.0k in (8.1k cached, $0.02)" in web.get(f"/runs/calm/calls/{key}").text


def test_calls_of_no_node_are_listed_and_found_by_role(tmp_path: Path) -> None:
    story = make_sample()
    answered(story, "write")
    record_story(tmp_path / "calm", story)
    with running_server(tmp_path) as web:
        rows = {
            name: web.get(f"/runs/calm/calls{name}").text.count("<tr><td>")
            for name in ("", "?role=code", "?role=write", "?role=-", "?role=other", "?first=999", "?first=-3")
        }
        assert rows == {
            "": 7,
            "?role=code": 6,
            "?role=write": 1,
            "?role=-": 1,
            "?role=other": 0,
            "?first=999": 7,
            "?first=-3": 7,
        }
        assert "0.0123" in web.get("/runs/calm/calls?role=write").text


def test_many_calls_are_shown_in_parts() -> None:
    story = make_sample()
    for _ in range(CALLS_PER_PAGE + 5):
        answered(story, "write")
    state = story.state
    assert [len(list_calls(state, "write", first).shown) for first in (0, CALLS_PER_PAGE, 10**9)] == [
        CALLS_PER_PAGE,
        5,
        5,
    ]


def test_a_call_shows_the_prompt_that_was_sent(tmp_path: Path) -> None:
    story = make_sample()
    sha = hashlib.sha256(PROMPT.encode()).hexdigest()
    key, other = answered(story, "write", prompt=sha), answered(story, "write", prompt="2" * 64)
    run = record_story(tmp_path / "calm", story)
    store_prompt(run, PROMPT)
    with running_server(tmp_path) as web:
        text = web.get(f"/runs/calm/calls/{key}").text
        assert "Write it down." in text and "Be exact." in text and "text:\na\nb" in text and sha in text
        assert "is not in the run's folder" in text and "1.2k in, 30 out" in text
        assert "was not saved" in web.get(f"/runs/calm/calls/{other}?part=1").text
        file = run / "prompts" / f"{sha}.json.gz"
        file.write_bytes(file.read_bytes()[:-9])
        assert "changed since" in web.get(f"/runs/calm/calls/{key}").text
        for name in ("1.1.code", "1.1.code.0.0", "x.1.code.0", "²3.1.code.0", "9" * 5000 + ".1.code.0", "99.1.code.0"):
            assert web.get(f"/runs/calm/calls/{name}").status_code == 404, name[:20]


def test_checks_tell_what_was_found() -> None:
    story = make_ended()
    draft = PaperDraft(title="t", abstract="a", sections=(Section(title="s", body="b"),))
    story.add(
        DraftAssessed(round=1, draft=draft, violations=("0.3",), findings=(PaperFinding(text="wide"),)),
        NodeProbed(node="n0005", probe="labels", outcome="still", why="the same"),
        NodeProbed(node="n0005", probe="seed", outcome="moved", why="all differ"),
        CommandReceived(verb="mark", target="n0003", text="leaks", by="ana"),
        CommandReceived(verb="note", text="smaller", by="ana"),
        PaperReleased(released=True, pdf=None, companion_files={"review/disclosure.json": "0"}),
    )
    found = list(list_checks(story.state, ("n0004",)))
    assert [(one.name, one.good) for one in found] == [
        ("Binding", False),
        ("Typesetting", False),
        ("Probe", False),
        ("Probe", True),
        ("Suspect", False),
        ("Seeds", False),
    ]
    assert found[4].nodes == ("n0003",)
    text = PageRenderer({}).render_piece("asked", "asked", "calm", story.state.user_commands, NODE_VERBS)
    assert "<b>note for agenda</b>" in text and "<b>mark as suspect</b>" in text and text.count("by ana") == 2
    assert text.count('class="tonode" href="/runs/calm/nodes/n0003"') == 1 and "leaks" in text


def test_the_checks_are_of_the_draft_that_the_paper_prints(tmp_path: Path) -> None:
    story = make_sample()
    draft = PaperDraft(title="t", abstract="a", sections=(Section(title="s", body="b"),))
    wide = PaperFinding(text="a line of the last draft sticks out")
    story.add(
        DraftAssessed(round=1, draft=draft), DraftAssessed(round=2, draft=draft, violations=("0.3",), findings=(wide,))
    )
    run = record_story(tmp_path / "calm", story)
    with running_server(tmp_path) as web:
        before = web.get("/runs/calm/checks").text
        assert "round 2 (latest): 1 unbound passage in the text" in before and wide.text in before
        append_events(run, PaperReleased(released=True, pdf=None, round=1))
        time.sleep(2 * MIN_REFRESH_SECONDS)  # a log is not read more often
        after = web.get("/runs/calm/checks").text
        assert "round 1 (released): all numbers, figures and citations are bound" in after
        assert wide.text not in after


def test_the_page_of_a_zip_names_the_zip_in_its_commands(tmp_path: Path) -> None:
    record_story(tmp_path / "calm", make_sample())
    packed = tmp_path / "calm.zip"
    with packed.open("xb") as target:
        pack_run(tmp_path / "calm", target)
    with running_server(open_run_folder(packed), read_only=True) as web:
        assert f"scientist audit {packed}" in web.get("/runs/calm/checks").text


def test_bars_of_time_are_shares_of_the_whole(tmp_path: Path) -> None:
    story = make_sample()
    answered(story, "write")
    record_story(tmp_path / "calm", story)
    usage = story.state.calls.usage_by_role
    whole = sum(one.seconds for one in usage.values())
    with running_server(tmp_path) as web:
        cost = web.get("/runs/calm/cost").text.partition('id="cost"')[2].partition("</section>")[0]
    widths = [float(width) for width in re.findall(r'class="part" width="([\d.]+)"', cost)]
    assert len(widths) > 1 and sum(widths) == pytest.approx(120, abs=0.5), "together they are the whole"
    assert max(widths) == pytest.approx(120 * max(one.seconds for one in usage.values()) / whole, abs=0.1)
    assert f"{round(100 * max(one.seconds for one in usage.values()) / whole)} %" in cost


def test_the_run_page_names_the_road_the_checks_and_who_asked(web: httpx.Client) -> None:
    text = web.get("/runs/whole/tree").text
    road = text[text.index('id="road"') : text.index('id="legend"')]
    assert [road.index(node) for node in ("n0001", "n0003", "n0005")] == sorted(
        road.index(node) for node in ("n0001", "n0003", "n0005")
    ) and "★" in road
    assert "no suspect nodes" in web.get("/runs/whole/checks").text
    assert "User actions" not in web.get("/runs/whole/events").text
    hostile = web.get("/runs/hostile/events").text
    assert "User actions" in hostile and hostile.count("&lt;script&gt;alert(2)&lt;/script&gt;red") > 5
    assert "alert(2)" in web.get(f"/runs/hostile/calls/{HOSTILE_CALL}").text
