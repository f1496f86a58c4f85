"""A real server of the page on a free port, runs to show, and answers as a browser takes them apart."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import httpx

from labwright.inspector.web.server import bind_socket, create_server
from labwright.record.event_log import EventLog
from labwright.record.events import Event
from labwright.record.events.run_events import CallAnswered, CommandReceived
from labwright.record.events.search_events import AttemptExecuted, NodeJudged, NodePlotted, NodeProposed, PlotsReviewed
from labwright.record.llm_calls import store_prompt
from labwright.record.schema.data_plan import Measurement
from labwright.record.schema.decisions import CallKey, TokenUsage
from labwright.record.schema.nodes import Attempt, Failure
from labwright.record.schema.paper import Figure, FigureFacts, FigureReview
from tests.inspector.sample_run import EventStory, make_ended

EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>\x1b[31mred\x1b[0m \u202ereversed {{ 7*7 }} \'"'
PNG = b"\x89PNG\r\n\x1a\n"
PROMPT = json.dumps(
    {"asked": EVIL, "role": "judge", "system": EVIL, "user": EVIL, "images": ["0" * 64], "schema": {"title": EVIL}}
)
HOSTILE_CALL = CallKey(decision=90, attempt=0, role="judge", ordinal=0)


class ParsedPage(HTMLParser):
    """Elements and attributes as a browser would make them of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.attributes if key == name]


def record_story(folder: Path, story: EventStory) -> Path:
    append_events(folder, *(event for event, _ in story.events))
    return folder


def append_events(folder: Path, *events: Event) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    log = EventLog(folder / "events.jsonl")
    for event in events:
        log.append(event)
    log.close()


@contextmanager
def running_server(place: Path, *, read_only: bool = False) -> Generator[httpx.Client]:
    """A client with the cookie of a real server on a free port."""
    with bind_socket(0) as listening:
        server, address = create_server(place, listening, read_only=read_only)
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


def get_raw(web: httpx.Client, target: str) -> tuple[int, dict[str, str], bytes]:
    """The answer to a path as it is: httpx tidies paths up."""
    connection = http.client.HTTPConnection("127.0.0.1", web.base_url.port or 0, timeout=10)
    try:
        cookies = "; ".join(f"{name}={value}" for name, value in web.cookies.items())
        connection.request("GET", target, headers={"cookie": cookies})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def make_runs(top: Path) -> Path:
    """Two runs and one that is only begun: one whole, one full of hostile text."""
    record_story(top / "whole", make_ended())
    run = record_story(top / "hostile", make_hostile())
    node = run / "nodes" / "n0001"
    for path, text in {
        "source/experiment.py": f"x = 1  # {EVIL}\ny = 2\n",
        "attempt1/stdout.txt": f"{EVIL}\n",
        "attempt1/measurements.jsonl": "".join(
            json.dumps(
                {
                    "name": "loss" + EVIL,
                    "value": 1 / (n + 1),
                    "condition": EVIL,
                    "dataset": "digits",
                    "split": "validation",
                    "seed": 1,
                    "step": n,
                    "grade": "logged",
                }
            )
            + "\n"
            for n in range(5)
        )
        + "[",
    }.items():
        (node / path).parent.mkdir(parents=True, exist_ok=True)
        (node / path).write_text(text)
    figures = node / "plots1" / "figures"
    figures.mkdir(parents=True)
    (figures / "<b>x.png").write_bytes(PNG)
    store_prompt(run, PROMPT)
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
    append_events(top / "begun")
    (top / "no run").mkdir()
    return top


def make_hostile() -> EventStory:
    story = EventStory()
    story.add_start()
    first = story.add_node("preliminary", "draft", varies=EVIL)
    failure = Failure(kind="shape", message=EVIL, traceback=f"Traceback\n{EVIL}")
    review = FigureReview(name="<b>x.png", readable=False, issues=(EVIL,), description=EVIL)
    value = Measurement(
        name="log_loss", value=0.5, condition=EVIL, dataset="digits", split="validation", seed=1, grade="logged"
    )
    story.add(
        NodeProposed(node=first, decision=1, title=EVIL, plan=EVIL, varies=EVIL, source_sha256="0"),
        AttemptExecuted(
            node=first, attempt=Attempt(number=1, seconds=1, failure=failure, curves_sha256="0", measurements=(value,))
        ),
        NodePlotted(node=first, n=1, figures=(Figure(name="<b>x.png", sha256="0", facts=FigureFacts()),)),
        PlotsReviewed(node=first, n=1, reviews=(review,)),
        NodeJudged(node=first, status="buggy", failure=failure),
    )
    second = story.add_node("preliminary", "debug", first)
    story.add(
        CallAnswered(
            key=HOSTILE_CALL,
            request_sha256=hashlib.sha256(PROMPT.encode()).hexdigest(),
            model=EVIL,
            answer={EVIL: EVIL},
            usage=TokenUsage(input_tokens=1, output_tokens=1),
            seconds=0.5,
        ),
        CommandReceived(verb="note", text=EVIL, by=EVIL),
        CommandReceived(verb="pause", text=EVIL, by=EVIL),
        CommandReceived(verb="mark", target=second, mark="closed", text=EVIL, by=EVIL),
    )
    return story
