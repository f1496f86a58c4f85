"""Steering from the page: who may, what is written, and where there is nothing to steer."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from labwright.record.control_files import read_pending_commands, read_user_name
from labwright.record.events.run_events import CommandReceived, GateReached, RunResumed
from labwright.record.events.search_events import NodeJudged
from labwright.record.lock import acquire_lock
from tests.inspector.sample_run import make_ended, make_sample
from tests.inspector.web_server import EVIL, ParsedPage, append_events, record_story, running_server

pytestmark = pytest.mark.slow

RUN = "/runs/calm"


@contextmanager
def steered(folder: Path) -> Generator[tuple[httpx.Client, Path]]:
    """A page of a run that a process works on."""
    run = record_story(folder / "calm", make_sample())
    with acquire_lock(run), running_server(folder) as web:
        yield web, run


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[httpx.Client, Path]]:
    with steered(tmp_path_factory.mktemp("steered")) as found:
        yield found


def form_of(web: httpx.Client, page: str = RUN) -> str:
    return re.findall(r'name="form" value="([^"]+)"', web.get(page).text)[0]


def ask(web: httpx.Client, fields: dict[str, str], headers: dict[str, str] | None = None) -> httpx.Response:
    """A form as the page would send it."""
    ours = {"origin": str(web.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    return web.post(f"{RUN}/steer", data={"form": form_of(web)} | fields, headers=ours | (headers or {}))


def waiting(run: Path) -> list[CommandReceived | str]:
    found = read_pending_commands(run).commands
    for path, _ in found:
        path.unlink()
    return [one for _, one in found]


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"verb": "pause"}, CommandReceived(verb="pause", text="why\nnot")),
        ({"verb": "stop"}, CommandReceived(verb="stop", text="why\nnot")),
        ({"verb": "note", "target": "tuning"}, CommandReceived(verb="note", target="tuning", text="why\nnot")),
        ({"verb": "kill", "target": "n0006"}, CommandReceived(verb="kill", target="n0006", text="why\nnot")),
        (
            {"verb": "mark", "target": "n0005", "mark": "closed"},
            CommandReceived(verb="mark", target="n0005", mark="closed", text="why\nnot"),
        ),
    ],
)
def test_a_form_writes_one_command_with_its_reason(
    wheel: tuple[httpx.Client, Path], fields: dict[str, str], command: CommandReceived
) -> None:
    web, run = wheel
    answer = ask(web, {"text": " why\r\nnot\x1b[31m "} | fields)
    assert answer.status_code == 200
    assert f"Sent: {command.verb}" in answer.text and "takes effect within a second" in answer.text
    back = f"{RUN}/nodes/{command.target}" if command.verb in ("kill", "mark") else RUN
    assert f'<a href="{back}">Back</a>' in answer.text
    [written] = waiting(run)
    assert isinstance(written, CommandReceived)
    assert written.model_copy(update={"file": ""}) == command.model_copy(update={"by": read_user_name()})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"verb": "pause", "text": " \n"}, "give a reason"),
        ({"verb": "note", "text": ""}, "the note is empty"),
        ({"verb": "resume", "text": "a"}, "is not paused"),
        ({"verb": "kill", "target": "n0005", "text": "a"}, "is finished"),
        ({"verb": "kill", "target": "n9999", "text": "a"}, "no node"),
        ({"verb": "stop", "text": "a" * 1001}, "1000"),
        ({"verb": "note", "target": EVIL, "text": "a"}, "no stage"),
    ],
)
def test_what_would_have_no_effect_is_one_line(
    wheel: tuple[httpx.Client, Path], fields: dict[str, str], said: str
) -> None:
    web, run = wheel
    answer = ask(web, {"part": "1"} | fields)
    assert answer.status_code == 409 and said in answer.text and ParsedPage(answer.text).tags == ["p"]
    assert not waiting(run)


@pytest.mark.parametrize(
    ("headers", "fields", "status"),
    [
        ({"origin": "http://evil.example"}, {}, 403),
        ({"origin": "null"}, {}, 403),
        ({"origin": ""}, {}, 403),
        ({"sec-fetch-site": "cross-site"}, {}, 403),
        ({"sec-fetch-site": "same-site"}, {}, 403),
        ({"sec-fetch-site": "none"}, {}, 403),
        ({"content-type": "text/plain"}, {}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, {}, 415),
        ({"host": "evil.example"}, {}, 421),
        ({"cookie": "a=b"}, {}, 403),
        ({}, {"form": ""}, 403),
        ({}, {"form": "wrong"}, 403),
        ({}, {"form": "é"}, 403),
        ({}, {"text": "a" * 20_000}, 413),
        ({}, {"verb": "delete"}, 400),
        ({}, {"verb": "mark", "mark": "x"}, 400),
        ({}, {f"f{n}": "" for n in range(20)}, 400),
    ],
)
def test_what_our_form_cannot_have_sent_is_refused(
    wheel: tuple[httpx.Client, Path], headers: dict[str, str], fields: dict[str, str], status: int
) -> None:
    web, run = wheel
    answer = ask(web, {"verb": "pause", "text": "a"} | fields, headers)
    assert answer.status_code == status and not waiting(run)


def test_a_form_without_origin_or_length_is_refused(wheel: tuple[httpx.Client, Path]) -> None:
    web, run = wheel
    fields = {"form": form_of(web), "verb": "pause", "text": "a"}
    assert web.post(f"{RUN}/steer", data=fields).status_code == 403
    headers = {"origin": str(web.base_url).rstrip("/"), "content-type": "application/x-www-form-urlencoded"}
    assert web.post(f"{RUN}/steer", content=iter([b"verb=pause"]), headers=headers).status_code == 411
    assert web.post(f"{RUN}/steer", content=b"\xff\xfe", headers=headers).status_code == 400
    token = web.headers["x-test-token"]
    assert web.post("/runs/nothing/steer", data=fields, headers=headers).status_code == 404
    with httpx.Client(base_url=web.base_url, trust_env=False) as bare:
        assert bare.post(f"{RUN}/steer?token={token}", data=fields, headers=headers).status_code == 403
    assert not waiting(run)


def test_nothing_else_can_be_sent(wheel: tuple[httpx.Client, Path]) -> None:
    web, _ = wheel
    assert {web.request(method, f"{RUN}/steer").status_code for method in ("PUT", "DELETE", "OPTIONS")} == {405}
    assert web.head(RUN).status_code == 200


def test_buttons_stand_where_they_have_an_effect(wheel: tuple[httpx.Client, Path]) -> None:
    web, _ = wheel
    assert set(re.findall(r'id="act-(\w+)-run"', web.get(RUN).text)) == {"pause", "note", "stop"}
    assert set(re.findall(r'id="act-(\w+)-n0006"', web.get(f"{RUN}/nodes/n0006").text)) == {"kill", "mark"}
    assert set(re.findall(r'id="act-(\w+)-n0005"', web.get(f"{RUN}/nodes/n0005").text)) == {"mark"}


def test_what_was_taken_is_shown_with_who_and_why(tmp_path: Path) -> None:
    with steered(tmp_path) as (web, run):
        append_events(
            run,
            CommandReceived(verb="pause", text="look first " + EVIL, by="ana"),
            CommandReceived(verb="mark", target="n0005", mark="closed", text="a dead end", by="ana"),
            NodeJudged(node="n0006", status="cancelled"),
        )
        text = web.get(RUN).text
        assert "Paused</b>" in text and "look first" in text and "ana" in text and 'id="act-resume-run"' in text
        assert ParsedPage(text).tags.count("script") == 1
        assert "a dead end" in web.get(f"{RUN}/nodes/n0005").text


def test_a_run_that_is_over_and_one_that_nobody_works_on_say_why(tmp_path: Path) -> None:
    record_story(tmp_path / "calm", make_ended())
    record_story(tmp_path / "alone", make_sample())
    with running_server(tmp_path) as web:
        over = web.get(RUN).text
        assert "the run has finished" in over and 'id="act-' not in over
        assert set(re.findall(r'id="act-(\w+)-run"', web.get("/runs/alone").text)) == {"note"}


def test_a_server_that_only_shows_takes_nothing(tmp_path: Path) -> None:
    run = record_story(tmp_path / "calm", make_sample())
    with acquire_lock(run), running_server(tmp_path, read_only=True) as web:
        text = web.get(RUN).text + web.get(f"{RUN}/nodes/n0006").text
        assert "Read-only" in text and '<form class="steer"' not in text
        fields, headers = {"form": "", "verb": "stop", "text": "a"}, {"origin": str(web.base_url).rstrip("/")}
        assert web.post(f"{RUN}/steer", data=fields, headers=headers).status_code == 405
    assert not waiting(run)


def test_a_run_at_a_gate_is_approved_from_the_page(tmp_path: Path) -> None:
    with steered(tmp_path) as (web, run):
        assert 'id="act-approve-run"' not in web.get(RUN).text
        append_events(
            run,
            RunResumed(settings={"gates": "lock"}),
            GateReached(gate="lock", comes_next="the plan is locked", cost="about 9 calls to the end"),
        )
        page = web.get(RUN).text
        assert "at the gate lock, next: the plan is locked; cost: about 9 calls to the end" in page
        assert 'id="act-approve-run"' in page and 'id="act-pause-run"' not in page and 'id="act-stop-run"' in page
        refused = ask(web, {"verb": "resume", "text": "on", "part": "1"})
        assert refused.status_code == 409 and "waits at the gate lock" in refused.text
        assert ask(web, {"verb": "approve", "text": "as planned"}).status_code == 200
        [written] = waiting(run)
        assert isinstance(written, CommandReceived) and (written.verb, written.text) == ("approve", "as planned")
