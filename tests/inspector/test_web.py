"""The web page, over HTTP on the loopback address: what it shows, whom it refuses, how it follows a run."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from inspector.web.serve import PortTakenError, bound, server_of
from record.events import Event, Executed, Judged, Plotted, Proposed, Reviewed
from record.log import EventLog
from record.nouns import Attempt, Failure, Figure, FigureFacts, FigureReview, Measurement
from record.tail import Tail
from tests.inspector.story import Story, ended, told

EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31mred\x1b[0m \u202ereversed {{ 7*7 }} \'"'
PNG = b"\x89PNG\r\n\x1a\n"


class Seen(HTMLParser):
    """Elements and attributes as a browser would make them of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def recorded(folder: Path, story: Story) -> Path:
    folder.mkdir(parents=True)
    add(folder, *(event for event, _ in story.events))
    return folder


def add(folder: Path, *events: Event) -> None:
    log = EventLog(folder / "run.db")
    for event in events:
        log.append(event)
    log.close()


@contextmanager
def serving(place: Path) -> Generator[httpx.Client]:
    """A client with the cookie of a real server on a free port."""
    with bound(0) as listening:
        server, address = server_of(place, listening)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        host, _, token = address.partition("/?token=")
        try:
            with httpx.Client(base_url=host, timeout=10, follow_redirects=True, trust_env=False) as client:
                assert client.get("/", params={"token": token}).status_code == 200
                client.headers["x-test-token"] = token  # kept for tests that begin without a cookie
                yield client
        finally:
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive()


def raw(web: httpx.Client, target: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to a path as it is: httpx tidies paths up."""
    connection = http.client.HTTPConnection("127.0.0.1", web.base_url.port or 0, timeout=10)
    try:
        cookies = "; ".join(f"{name}={value}" for name, value in web.cookies.items())
        connection.request("GET", target, headers={"cookie": cookies})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs and one that is only begun: one whole, one full of hostile text."""
    top = tmp_path_factory.mktemp("runs")
    recorded(top / "whole", ended())
    run = recorded(top / "hostile", hostile())
    node = run / "nodes" / "n0001"
    for path, text in {
        "source/experiment.py": f"x = 1  # {EVIL}\ny = 2\n", "attempt1/stdout.txt": f"{EVIL}\n",
        "attempt1/measurements.jsonl": "".join(
            json.dumps({"name": "loss" + EVIL, "value": 1 / (n + 1), "condition": EVIL, "dataset": "digits",
                        "split": "validation", "seed": 1, "step": n, "grade": "logged"}) + "\n"
            for n in range(5)) + "[",
    }.items():
        (node / path).parent.mkdir(parents=True, exist_ok=True)
        (node / path).write_text(text)
    figures = node / "plots1" / "figures"
    figures.mkdir(parents=True)
    (figures / "<b>x.png").write_bytes(PNG)
    (figures / "page.html").write_text("<script>alert(1)</script>")
    child = run / "nodes" / "n0002" / "source"
    child.mkdir(parents=True)
    (child / "experiment.py").write_text("x = 1\ny = 3\n")
    (top / "secret.txt").write_text("secret")
    (run / "data" / "labels").mkdir(parents=True)
    (run / "data" / "labels" / "y.txt").write_text("secret")
    (node / "link.txt").symlink_to(top / "secret.txt")
    (node / "away").symlink_to(top)
    os.mkfifo(node / "pipe")
    (top / "begun").mkdir()
    add(top / "begun")
    (top / "no run").mkdir()
    return top


def hostile() -> Story:
    story = Story()
    story.begin()
    first = story.expand("preliminary", "draft", varies=EVIL)
    failure = Failure(kind="shape", message=EVIL, traceback=f"Traceback\n{EVIL}")
    review = FigureReview(name="<b>x.png", readable=False, issues=(EVIL,), description=EVIL)
    value = Measurement(name="log_loss", value=.5, condition=EVIL, dataset="digits", split="validation", seed=1,
                        grade="logged")
    story.tell(Proposed(node=first, decision=1, title=EVIL, plan=EVIL, varies=EVIL, source_sha256="0"),
               Executed(node=first, attempt=Attempt(number=1, seconds=1, failure=failure, curves_sha256="0",
                                                    measurements=(value,))),
               Plotted(node=first, n=1, figures=(Figure(name="<b>x.png", sha256="0", facts=FigureFacts()),)),
               Reviewed(node=first, n=1, reviews=(review,)), Judged(node=first, status="buggy", failure=failure))
    story.expand("preliminary", "debug", first)
    return story


@pytest.fixture(scope="module")
def web(place: Path) -> Generator[httpx.Client]:
    with serving(place) as client:
        yield client


# --- what is shown --------------------------------------------------------------------------------------------------


def test_the_list_has_every_run_with_state_and_best_value(web: httpx.Client) -> None:
    text = web.get("/").text
    assert sorted(re.findall(r'<li class="card run" id="run-(.+?)"', text)) == ["begun", "hostile", "whole"]
    whole = text[text.index('id="run-whole"'):]
    assert ">done<" in whole and "<b>0.2</b>" in whole


def test_the_tree_has_every_node_by_stage_and_marks_the_best_path(web: httpx.Client) -> None:
    text = web.get("/runs/whole").text
    assert re.findall(r'<g id="g-(n\d+)"', text) == ["n0001", "n0003", "n0004", "n0002", "n0005", "n0006"]
    path = re.findall(r'<g id="g-(n\d+)" class="node [^"]* path', text)
    assert path == ["n0001", "n0003", "n0005"]
    assert 'class="node s-good k-tune best path"' in text and "from n0003" in text


def test_a_node_shows_its_code_against_its_parents(web: httpx.Client) -> None:
    text = web.get("/runs/hostile/nodes/n0002").text
    assert '<span class="add">+y = 3' in text and '<span class="cut">-y = 2' in text
    assert web.get("/runs/hostile/nodes/n0002?part=1").text.lstrip().startswith("<article")


def test_a_node_shows_output_traceback_curves_figures_and_calls(web: httpx.Client) -> None:
    text = web.get("/runs/hostile/nodes/n0001").text
    assert "Traceback\n" in text and 'class="curve v0" points="0.0,0.0' in text and "attempt1/stdout.txt" in text
    assert "not readable" in text and 'loading="lazy" src="/runs/hostile/files/nodes/n0001/plots1/figures/' in text
    assert "<b>code</b>" in text and "900 in, 400 out" in text


def test_hostile_text_appears_as_text(web: httpx.Client) -> None:
    for address in ("/", "/runs/hostile", "/runs/hostile/nodes/n0001", "/runs/hostile/trace?number=<script>x"):
        text = web.get(address).text
        seen = Seen(text)
        assert seen.tags.count("script") == 1, address
        assert not [name for name, _ in seen.attributes if name.startswith("on") or name == "style"]
        assert not [value for name, value in seen.attributes if name in ("href", "src") and not value.startswith(
            ("/", "#"))]
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), address
    node = web.get("/runs/hostile/nodes/n0001").text
    assert node.count("&lt;script&gt;alert(2)&lt;/script&gt;red") > 5 and "{{ 7*7 }}" in node
    assert "b" not in Seen(re.findall(r"<figcaption>.*?</b>", node)[0].replace("<b>", "", 1)).tags


def test_what_is_not_there_is_told(web: httpx.Client) -> None:
    for address in ("/runs/nothing", "/runs/no%20run", "/runs/..", "/runs/%2e%2e", "/runs/whole/nodes/n9999", "/docs",
                    "/static/x/other.js", "/runs/whole/nodes/%3Cscript%3E"):
        assert raw(web, address)[0] == 404, address
    assert web.get("/runs/begun").status_code == 200
    assert "no number" in web.get("/runs/whole/trace?number=abc").text
    assert "Nothing in this paper" in web.get("/runs/whole/trace?number=77.123").text


# --- who is refused -------------------------------------------------------------------------------------------------


def test_the_token_is_needed_once_then_the_cookie(web: httpx.Client) -> None:
    token = web.headers["x-test-token"]
    with httpx.Client(base_url=web.base_url, trust_env=False) as bare:
        for address in ("/", "/runs/whole", "/live", "/static/x/inspector.js", "/?token=", "/?token=wrong"):
            assert bare.get(address).status_code == 403, address
        answer = bare.get("/runs/whole", params={"token": token, "a": "b"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/runs/whole?a=b")
        cookie = answer.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert bare.get("/runs/whole").status_code == 200
        bare.cookies.clear()
        assert bare.get("/", headers={"cookie": "a=;b;scientist-=x"}).status_code == 403
        assert raw(web, f"//evil.example/?token={token}")[1]["location"] == "/evil.example/"


@pytest.mark.parametrize(("headers", "status"), [
    ({"host": "evil.example"}, 421), ({"host": "127.0.0.1"}, 421), ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403), ({"sec-fetch-site": "cross-site"}, 403), ({"sec-fetch-site": "same-site"}, 403),
    ({"sec-fetch-site": "same-origin"}, 200)])
def test_other_pages_and_other_names_are_refused(web: httpx.Client, headers: dict[str, str], status: int) -> None:
    assert web.get("/", headers=headers).status_code == status


def test_nothing_can_be_sent(web: httpx.Client) -> None:
    assert {web.request(method, "/runs/whole").status_code for method in ("POST", "PUT", "DELETE", "OPTIONS")} == {405}
    assert web.head("/runs/whole").status_code == 200


def test_every_answer_forbids_what_is_not_ours(web: httpx.Client) -> None:
    for address in ("/", "/runs/whole", "/nothing", "/runs/hostile/files/nodes/n0001/source/experiment.py"):
        headers = web.get(address).headers
        assert headers["content-security-policy"].startswith("default-src 'none'"), address
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY" and "server" not in headers


@pytest.mark.parametrize("path", [
    "../secret.txt", "nodes/../../secret.txt", "%2e%2e/secret.txt", "nodes/..%2f..%2fsecret.txt", "/etc/passwd",
    "nodes/n0001/link.txt", "nodes/n0001/away/secret.txt", "nodes/n0001/pipe", "nodes/n0001", "nodes//n0001",
    "data/labels/y.txt", "run.db", "control/x.json", "nodes/n0001/%00", "nodes/n0001/source/.hidden", ""])
def test_no_path_leads_out_of_what_is_shown(web: httpx.Client, path: str) -> None:
    status, _, body = raw(web, f"/runs/hostile/files/{path}")
    assert status == 404 and b"secret" not in body


def test_files_cannot_act_as_pages(web: httpx.Client) -> None:
    base = "/runs/hostile/files/nodes/n0001"
    page = web.get(f"{base}/plots1/figures/page.html")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"].startswith("attachment")
    assert web.get(f"{base}/source/experiment.py").headers["content-type"].startswith("text/plain")
    picture = web.get(f"{base}/plots1/figures/%3Cb%3Ex.png")
    assert (picture.headers["content-type"], picture.content) == ("image/png", PNG)
    assert "link.txt" not in web.get("/runs/hostile/nodes/n0001").text


# --- how it follows a run -------------------------------------------------------------------------------------------


class Stream:
    """Updates as a browser would get them."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.iter_lines()

    def next(self) -> dict[str, Any]:
        return next(json.loads(line.removeprefix("data: ")) for line in self._lines if line.startswith("data: "))


def version_of(page: str) -> str:
    [found] = re.findall(r'data-live="([^"]+)"', page)
    return found


def test_a_new_event_reaches_an_open_page_and_only_what_changed(tmp_path: Path) -> None:
    run = recorded(tmp_path / "calm", told())
    with serving(tmp_path) as web, web.stream("GET", version_of(web.get("/runs/calm").text)) as answer:
        stream, log = Stream(answer), EventLog(run / "run.db")
        log.append(Judged(node="n0006", status="pruned"))
        began = time.monotonic()
        update = stream.next()
        log.close()
        assert time.monotonic() - began < 2
        names = [piece[0] for piece in update["pieces"]]
        assert {"g-n0006", "row-n0006"} <= set(names) and not {"g-n0001", "row-n0005", "report-tuning"} & set(names)
        assert any("s-pruned" in html for name, _, html, _ in update["pieces"] if name == "g-n0006")
        assert web.get("/").text.count("card run") == 1


def test_no_event_of_many_is_missed(tmp_path: Path) -> None:
    """SQLite shows a commit a moment after its file has changed."""
    run = recorded(tmp_path / "calm", told())
    tail = Tail(run)
    found = len(tail.read())
    writer = threading.Thread(target=log_some, args=(run,))
    writer.start()
    until = time.monotonic() + 5
    while found < len(told().events) + 60 and time.monotonic() < until:
        found += len(tail.read())
    writer.join()
    assert found == len(told().events) + 60


def log_some(run: Path) -> None:
    add(run, *(Judged(node="n0006", status="pruned") for _ in range(60)))


def test_a_page_of_another_version_is_sent_everything(tmp_path: Path) -> None:
    recorded(tmp_path / "calm", told())
    with serving(tmp_path) as web, web.stream("GET", "/runs/calm/live?v=-1") as answer:
        names = {piece[0] for piece in Stream(answer).next()["pieces"]}
        assert {"summary", "svg-tuning", "g-n0001", "cost", "happened", "judgement"} <= names


def test_a_run_that_vanishes_stays_as_it_was_with_a_word_about_it(tmp_path: Path) -> None:
    run = recorded(tmp_path / "calm", told())
    with serving(tmp_path) as web:
        address = version_of(web.get("/runs/calm").text)
        with web.stream("GET", address) as answer:
            shutil.rmtree(run)
            [summary] = [piece[2] for piece in Stream(answer).next()["pieces"] if piece[0] == "summary"]
        assert "the folder of this run is gone" in summary
        assert web.get("/runs/calm").status_code == 200 and web.get("/runs/calm/nodes/n0001").status_code == 200


def test_a_log_put_in_the_place_of_another_is_read_from_its_beginning(tmp_path: Path) -> None:
    run = recorded(tmp_path / "calm", ended())
    with serving(tmp_path) as web:
        assert "g-n0006" in web.get("/runs/calm").text
        shutil.rmtree(run)
        begun = Story()
        begun.begin()
        recorded(run, begun)
        time.sleep(0.1)
        assert "g-n0001" not in web.get("/runs/calm").text


def test_a_damaged_record_and_an_empty_folder_are_no_failures(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"no database" * 100)
    with serving(tmp_path) as web:
        assert "cannot read the record" in web.get("/").text
        assert "cannot read the record" in web.get("/runs/broken").text
    (tmp_path / "none").mkdir()
    with serving(tmp_path / "none") as web:
        assert "There is no run here yet" in web.get("/").text


def test_a_run_alone_is_shown_at_once(tmp_path: Path) -> None:
    with serving(recorded(tmp_path / "odd name & more", told())) as web:
        answer = web.get("/")
        assert answer.url.path == "/runs/odd name & more" and "g-n0001" in answer.text


def test_looking_changes_nothing_in_the_folder(tmp_path: Path) -> None:
    run = recorded(tmp_path / "calm", told())
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with serving(tmp_path) as web:
        web.get("/runs/calm")
        web.get("/runs/calm/nodes/n0001")
    after = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name[-4:] not in (
        "-shm", "-wal")}  # which SQLite keeps for readers of a log in WAL mode
    assert after == before


def test_a_port_that_is_taken_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from agent.cli import main

    with bound(0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError):
            bound(port)
        assert main(["view", str(tmp_path), "--port", str(port)]) == 2
    assert main(["view", str(tmp_path / "none")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and "give another port" in said[0]
