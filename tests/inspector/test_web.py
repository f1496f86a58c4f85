"""The web page, over HTTP on the loopback address: what it shows, how it follows a run."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import time
import weakref
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from labwright.inspector.web.page_renderer import TABS
from labwright.inspector.web.run_cache import MIN_REFRESH_SECONDS, CachedRun
from labwright.inspector.web.server import bind_socket
from labwright.record.errors import UsageError
from labwright.record.event_log import EventLog
from labwright.record.events.run_events import RunBranched
from labwright.record.events.search_events import AttemptExecuted, CellsRequired, NodeJudged
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.nodes import Attempt, Cell, NodeVerdict, SoundnessCheck
from tests.inspector.sample_run import EventStory, make_ended, make_sample
from tests.inspector.web_server import HOSTILE_CALL, ParsedPage, append_events, get_raw, record_story, running_server

pytestmark = pytest.mark.slow

# --- what is shown --------------------------------------------------------------------------------------------------


def test_the_list_has_every_run_with_state_and_best_value(web: httpx.Client) -> None:
    text = web.get("/").text
    assert sorted(re.findall(r'<tr class="run" id="run-(.+?)"', text)) == ["begun", "hostile", "whole"]
    whole = text[text.index('id="run-whole"') :]
    assert ">done<" in whole and "<b>0.2</b>" in whole


def test_the_list_says_which_run_is_a_branch_and_of_what(tmp_path: Path) -> None:
    story = make_sample()
    record_story(tmp_path / "trunk", story)
    story.add(RunBranched(parent="trunk", point="n0003", events=len(story.events), sha256="0", seed=7))
    record_story(tmp_path / "shoot", story)
    with running_server(tmp_path) as web:
        text = web.get("/").text
    assert text.count("branch of") == 1 and "branch of trunk at n0003" in text[text.index('id="run-shoot"') :]


def test_the_tree_has_every_node_by_stage_and_marks_the_best_path(web: httpx.Client) -> None:
    text = web.get("/runs/whole/tree").text
    assert re.findall(r'<g id="g-(n\d+)"', text) == ["n0001", "n0003", "n0004", "n0002", "n0005", "n0006"]
    path = re.findall(r'<g id="g-(n\d+)" class="node [^"]* path', text)
    assert path == ["n0001", "n0003", "n0005"]
    assert 'class="node s-good k-tune best path"' in text and "from n0003" in text


def test_a_node_shows_its_code_against_its_parents(web: httpx.Client) -> None:
    text = web.get("/runs/hostile/nodes/n0002").text
    assert '<span class="add">+y = 3' in text and '<span class="removed">-y = 2' in text
    assert web.get("/runs/hostile/nodes/n0002?part=1").text.lstrip().startswith("<article")


def test_a_node_shows_the_checks_of_its_verdict_and_what_its_code_said_of_dev(tmp_path: Path) -> None:
    story = make_sample()
    rate = Measurement(
        name="chosen_rate", value=0.003, condition="adam", dataset="digits", split="dev", seed=1, grade="logged"
    )
    check = SoundnessCheck(name="arms <agree>", outcome="failed", seen="0.859 against 0.874")
    attempt = Attempt(number=2, seconds=1.0, self_reported=(rate,))
    story.add(
        AttemptExecuted(node="n0003", attempt=attempt),
        NodeJudged(
            node="n0003", status="good", verdict=NodeVerdict(sound=True, analysis="As planned.", checks=(check,))
        ),
    )
    record_story(tmp_path / "checked", story)
    with running_server(tmp_path) as web:
        text = web.get("/runs/checked/nodes/n0003").text
    assert '<span class="pill c-failed">failed</span> <b>arms &lt;agree&gt;</b>: 0.859 against 0.874' in text
    assert 'id="said"' in text and "chosen_rate" in text


def test_a_node_shows_output_traceback_curves_figures_and_calls(web: httpx.Client) -> None:
    text = web.get("/runs/hostile/nodes/n0001").text
    assert "Traceback\n" in text and 'class="curve v0 d0" data-label="' in text and "attempt1/stdout.txt" in text
    assert "not readable" in text and 'loading="lazy" src="/runs/hostile/files/nodes/n0001/plots1/figures/' in text
    assert "<b>code</b>" in text and "900 in, 400 out" in text


def test_hostile_text_appears_as_text(web: httpx.Client) -> None:
    base = "/runs/hostile"
    for address in (
        "/",
        base,
        *(f"{base}/{view}" for view in TABS if view != "overview"),
        f"{base}/nodes/n0001",
        f"{base}/nodes/n0002",
        f"{base}/trace?number=<script>x",
        f"{base}/trace?key=<script>x",
        f"{base}/calls?role=<script>",
        f"{base}/calls/{HOSTILE_CALL}",
    ):
        text = web.get(address).text
        seen = ParsedPage(text)
        assert seen.tags.count("script") == 1, address
        assert not [name for name, _ in seen.attributes if name.startswith("on") or name == "style"]
        assert not [
            value for name, value in seen.attributes if name in ("href", "src") and not value.startswith(("/", "#"))
        ]
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), address
    node = web.get("/runs/hostile/nodes/n0001").text
    assert node.count("&lt;script&gt;alert(2)&lt;/script&gt;red") > 5 and "{{ 7*7 }}" in node
    assert "b" not in ParsedPage(re.findall(r"<figcaption>.*?</b>", node)[0].replace("<b>", "", 1)).tags


def test_a_thousand_nodes_are_one_table_and_pages_of_a_hundred(tmp_path: Path) -> None:
    story = EventStory()
    story.add_start()
    for k in range(1000):
        node = story.add_node("preliminary", "draft")
        cell = Cell(dataset="digits", arm="plain", seed=k)
        story.add(CellsRequired(node=node, cells=(cell,), keys=(str(k),)))
        story.add(NodeJudged(node=node, status="pruned" if k % 10 else "good"))
    record_story(tmp_path / "long", story)
    with running_server(tmp_path) as web:
        table = web.get("/runs/long/table?sort=node&down=1").text
        assert re.findall(r'<tr data-node="(n\d+)"', table) == [f"n{k:04}" for k in range(1000, 0, -1)]
        assert "100 of 1000 nodes" in web.get("/runs/long/table?status=good&q=LOSS").text
        answer = web.get("/runs/long/table?status=good&csv=1")
        assert len(answer.text.splitlines()) == 101 and "nodes.csv" in answer.headers["content-disposition"]
        for first, (begin, end) in {
            "0": ("n1000", "n0901"),
            "950": ("n0100", "n0001"),
            "9999": ("n0100", "n0001"),
        }.items():
            text = web.get(f"/runs/long/cells?first={first}").text
            nodes = re.findall(r'<tr data-node="(n\d+)"', text)
            assert (nodes[0], nodes[-1], len(nodes)) == (begin, end, 100)
            assert len(re.findall(r"/cells\?first=\d+", text)) == 10


def test_what_is_not_there_is_told(web: httpx.Client) -> None:
    for address in (
        "/runs/nothing",
        "/runs/no%20run",
        "/runs/..",
        "/runs/%2e%2e",
        "/runs/whole/nodes/n9999",
        "/docs",
        "/static/x/other.js",
        "/runs/whole/nodes/%3Cscript%3E",
        "/runs/whole/no%20view",
    ):
        assert get_raw(web, address)[0] == 404, address
    assert web.get("/runs/begun").status_code == 200
    assert "not a number" in web.get("/runs/whole/trace?number=abc").text
    assert "not in the paper" in web.get("/runs/whole/trace?number=77.123").text


# --- how it follows a run -------------------------------------------------------------------------------------------


class Stream:
    """Updates as a browser would get them."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.iter_lines()

    def next(self) -> dict[str, Any]:
        return next(json.loads(line.removeprefix("data: ")) for line in self._lines if line.startswith("data: "))


def version_of(page: str) -> str:
    [found] = re.findall(r'data-live="([^"]+)"', page)
    return unescape(found)


def test_a_new_event_reaches_an_open_page_and_only_what_changed(tmp_path: Path) -> None:
    run = record_story(tmp_path / "calm", make_sample())
    with running_server(tmp_path) as web, web.stream("GET", version_of(web.get("/runs/calm/tree").text)) as answer:
        stream, log = Stream(answer), EventLog(run / "events.jsonl")
        log.append(NodeJudged(node="n0006", status="pruned"))
        update = stream.next()
        log.close()
        names = [piece[0] for piece in update["pieces"]]
        assert {"g-n0006", "row-n0006"} <= set(names) and not {"g-n0001", "row-n0005", "report-tuning"} & set(names)
        assert any("s-pruned" in html for name, _, html, _ in update["pieces"] if name == "g-n0006")
        assert web.get("/").text.count('class="run"') == 1


def log_some(run: Path) -> None:
    append_events(run, *(NodeJudged(node="n0006", status="pruned") for _ in range(60)))


def test_a_page_of_another_version_is_sent_everything(tmp_path: Path) -> None:
    record_story(tmp_path / "calm", make_sample())
    with running_server(tmp_path) as web, web.stream("GET", "/runs/calm/live?view=tree&v=-1") as answer:
        names = {piece[0] for piece in Stream(answer).next()["pieces"]}
        assert {"state", "road", "svg-tuning", "g-n0001"} <= names


def test_a_run_that_vanishes_stays_as_it_was_with_a_word_about_it(tmp_path: Path) -> None:
    run = record_story(tmp_path / "calm", make_sample())
    with running_server(tmp_path) as web:
        address = version_of(web.get("/runs/calm").text)
        with web.stream("GET", address) as answer:
            run.rename(tmp_path / ".gone")  # at once: while files are deleted one by one, a look may come between
            [summary] = [piece[2] for piece in Stream(answer).next()["pieces"] if piece[0] == "summary"]
        assert "the folder of this run is missing" in summary
        assert web.get("/runs/calm").status_code == 200 and web.get("/runs/calm/nodes/n0001").status_code == 200


def test_a_log_put_in_the_place_of_another_is_read_from_its_beginning(tmp_path: Path) -> None:
    run = record_story(tmp_path / "calm", make_ended())
    with running_server(tmp_path) as web:
        assert "g-n0006" in web.get("/runs/calm/tree").text
        shutil.rmtree(run)
        begun = EventStory()
        begun.add_start()
        record_story(run, begun)
        time.sleep(0.1)
        assert "g-n0001" not in web.get("/runs/calm/tree").text


def test_a_collection_visits_nothing_that_was_read_of_a_run(tmp_path: Path) -> None:
    """Otherwise a page waits for each full collection; what is dropped is freed all the same."""
    folder = record_story(tmp_path / "calm", make_sample())
    run = CachedRun(folder, "calm")
    assert run.refresh() and not is_collected(run.state.nodes["n0001"])
    log_some(folder)  # more than a quarter of what there was
    time.sleep(2 * MIN_REFRESH_SECONDS)
    assert run.refresh() and run.state.nodes["n0006"].status == "pruned"
    assert not is_collected(run.state.nodes["n0006"])
    state = weakref.ref(run.state)
    del run
    assert state() is None


def is_collected(value: object) -> bool:
    return any(one is value for one in gc.get_objects())


def test_a_damaged_record_and_an_empty_folder_are_no_failures(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "events.jsonl").write_bytes(b"no log" * 100)
    with running_server(tmp_path) as web:
        assert "cannot read the record" in web.get("/").text
        assert "cannot read the record" in web.get("/runs/broken").text
    (tmp_path / "none").mkdir()
    with running_server(tmp_path / "none") as web:
        assert "No runs here yet" in web.get("/").text


def test_a_folder_whose_name_is_no_utf_8_is_a_run_like_others(tmp_path: Path) -> None:
    for name in (b"good", b"caf\xe9"):
        os.rename(record_story(tmp_path / "made", make_sample()), os.fsencode(tmp_path) + b"/" + name)
    with running_server(tmp_path) as web:
        page = web.get("/")
        assert page.status_code == 200 and "good" in page.text and "caf\\xe9" in page.text
        assert web.get("/runs/good").status_code == 200
        assert "g-n0001" in web.get(f"/runs/{quote('caf' + chr(92) + 'xe9')}/tree").text


def test_a_run_alone_is_shown_at_once(tmp_path: Path) -> None:
    with running_server(record_story(tmp_path / "odd name & more", make_sample())) as web:
        answer = web.get("/")
        assert answer.url.path == "/runs/odd name & more" and "<b>0.3</b>" in answer.text


def test_looking_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    run = record_story(tmp_path / "calm", make_sample())
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with running_server(tmp_path) as web:
        web.get("/runs/calm")
        web.get("/runs/calm/nodes/n0001")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_port_that_is_taken_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from labwright.agent.cli import main

    with bind_socket(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError):
            bind_socket(port)
        assert main(["view", str(tmp_path), "--port", str(port)]) == 2
    assert main(["view", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "choose another --port" in said[0]


def test_a_file_that_no_address_can_name_takes_no_page_away(tmp_path: Path) -> None:
    run = record_story(tmp_path / "odd", make_sample())
    (run / "nodes" / "n0001" / "attempt1").mkdir(parents=True, exist_ok=True)
    for name in ("caf\udce9.txt", "plain.txt"):
        (run / "nodes" / "n0001" / "attempt1" / name).touch()
    with running_server(tmp_path) as web:
        answer = web.get("/runs/odd/nodes/n0001")
    assert answer.status_code == 200 and "plain.txt" in answer.text
