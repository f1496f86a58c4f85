"""`scientist ideate`: from a topic's file to files that a run starts from; killed and gone on with; bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import override_allow_model_requests

from labwright.agent.cli import main
from labwright.models.roles.ideation import IdeaText
from labwright.record.schema.idea import read_idea
from tests.context.papers import ONE, write_pdf
from tests.ideation.ideas_of_the_study import add_ideas
from tests.ideation.scripted_ideation import make_draft, make_idea_text
from tests.models.openai_server import OpenAIServer, Step, answer_by_tool, answer_error, stall

pytestmark = pytest.mark.slow
TOPIC = "# Small data\n\nLabel noise and calibration in small networks: what do wrong labels do to confidence?\n"
ALONE = ("--set", "literature.sources=[]")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    add_ideas(monkeypatch)
    (tmp_path / "topic.md").write_text(TOPIC)
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    found = main(["ideate", "--topic", "topic.md", *ALONE, *arguments])
    out, err = capsys.readouterr()
    assert found == code, err
    return out


def test_an_idea_of_the_offline_study_can_be_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "--out", "found")
    assert "Novelty is unchecked" in out and "fits this machine" in out
    assert read_idea(Path("found/ideas.json")).name == "label_noise_calibration"
    assert main(["run", "--idea", "found/ideas.json", "--dry-run"]) == 0


def test_steps_write_files_and_an_edited_proposal_is_a_start(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "--out", "found", "--steps", "proposal")
    home = Path("found/idea-1")
    assert {one.name for one in home.iterdir()} == {"task.md", "idea.json", "idea.md", "related_work.md", "proposal.md"}
    assert read_idea(home / "idea.json").name == "label_noise_calibration"
    assert "Novelty is unchecked" in (home / "related_work.md").read_text()
    edited = (home / "proposal.md").read_text() + "\nAll of it over seven seeds.\n"
    (home / "proposal.md").write_text(edited)
    (home / "idea.md").write_text("Mine.")
    told(capsys, "--out", "found", "--steps", "proposal")
    assert (home / "proposal.md").read_text() == edited, "what a person changed stays"
    assert (home / "idea.md").read_text() == "Mine."
    assert main(["run", "--idea", str(home / "proposal.md"), "--dry-run"]) == 0
    assert "extracting the idea of" in capsys.readouterr().err
    assert read_idea(home / "proposal.idea.json").name == "label_noise_calibration"
    assert main(["run", "--idea", str(home / "proposal.md"), "--dry-run"]) == 0
    assert "extracted earlier and saved in" in capsys.readouterr().err
    (home / "proposal.md").write_text(edited + "Changed.\n")
    assert main(["run", "--idea", str(home / "proposal.md"), "--dry-run"]) == 0
    assert "extracting the idea of" in capsys.readouterr().err


def test_the_same_command_goes_on_in_the_folder_that_it_left(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads(told(capsys, "--json"))
    assert Path(first["folder"]).name.endswith("_ideate_topic") and len(first["ideas"]) == 1
    more = json.loads(told(capsys, "-n", "2", "--json", code=3))
    assert more["folder"] == first["folder"] and "repeat" in more["missing"][0]
    anew = json.loads(told(capsys, "--json"))
    assert anew["folder"] != first["folder"] and len(anew["ideas"]) == 1


def test_documents_are_read_first_in_ideation_and_in_a_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "papers").mkdir()
    write_pdf(place / "papers" / "margins.pdf", *ONE)
    (place / "papers" / "bad.pdf").write_text("no")
    out = told(capsys, "--out", "found", "--context", "papers")
    assert "documents read: margins.pdf (" in out and "not read: bad.pdf: it is not a PDF" in out
    assert list(Path("found/context").glob("*_margins.pdf"))
    assert main(["run", "--idea", "found/ideas.json", "--context", "papers", "--dry-run"]) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "fewer than three words"),
        (b" \n\t", "fewer than three words"),
        (b"x" * 5_000_000, "larger than 200 kB"),
        (b"\x7fELF\x00\x01\x02 a b c", "not text"),
        ("caf\xe9 a b c".encode("latin-1"), "not UTF-8"),
    ],
)
def test_hostile_topics(place: Path, capsys: pytest.CaptureFixture[str], content: bytes, words: str) -> None:
    Path("topic.md").write_bytes(content)
    assert words in refused(capsys)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("-n", "0"), "greater than or equal to 1"),
        (("-n", "51"), "less than or equal to 50"),
        (("--rounds", "0"), "greater than or equal to 1"),
        (("--steps", "paper"), "give one or more of idea"),
        (("--context", "none"), "is not a folder"),
        (("--out", "."), "is not empty"),
    ],
)
def test_bad_orders(place: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], words: str) -> None:
    assert words in refused(capsys, *more)


def test_a_topic_that_the_model_refuses_leaves_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("topic.md").write_text("A study of the migration of birds over the sea.")
    assert "no idea for this topic" in refused(capsys)


def refused(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """The one line that was said; nothing was created."""
    before = set(Path().rglob("*"))
    code = main(["ideate", "--topic", "topic.md", *ALONE, *more])
    err = capsys.readouterr().err
    assert code == 2 and err.count("\n") == 1 and "Traceback" not in err, err
    assert set(Path().rglob("*")) == before
    return err


# --- killed ---------------------------------------------------------------------------------------------------------


def drafting(idea: IdeaText) -> Step:
    return answer_by_tool(make_draft(idea).model_dump(mode="json"))


def reflecting(idea: IdeaText) -> Step:
    draft = make_draft(idea).model_dump(mode="json")
    answer: dict[str, Any] = {
        "thoughts": "As it was.",
        "closest": [],
        "alike": "",
        "idea": draft["idea"],
        "estimate": draft["estimate"],
        "queries": [],
        "done": True,
    }
    return answer_by_tool(answer)


@pytest.mark.bench  # tests/ideation/test_ideas.py: the same after every event
def test_a_kill_costs_only_the_idea_in_flight(place: Path) -> None:
    """kill -9 while the second idea's reflection is asked; the same command makes that call again, and no other."""
    ideas = [make_idea_text(), make_idea_text(1)]
    stalled: list[float] = []

    def choose(number: int, body: dict[str, Any]) -> Step:
        said = json.dumps(body["messages"])
        idea = ideas["tree_depth_wine" in said if "Return the whole idea" in said else "Draft idea 2" in said]
        if "Return the whole idea" in said and "Depth limits" in said and not stalled:
            stalled.append(time.monotonic())
            return stall(20)
        return reflecting(idea) if "Return the whole idea" in said else drafting(idea)

    with OpenAIServer(choose) as server:
        command = [
            sys.executable,
            "-m",
            "labwright",
            "ideate",
            "--topic",
            "topic.md",
            "-n",
            "2",
            "--out",
            "found",
            *ALONE,
            "--model",
            "openai-chat:scripted",
            "--base-url",
            server.url,
        ]
        environment = {**os.environ, "OPENAI_API_KEY": "none"}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        limit = time.monotonic() + 300
        while not stalled and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.05)
        assert stalled, process.stderr.read() if process.stderr and process.poll() is not None else "no request came"
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=10)
        assert len(json.loads(Path("found/ideas.json").read_text())) == 1
        before = len(server.requests)
        assert before == 4
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert len(server.requests) == before + 1
    found = json.loads(Path("found/ideas.json").read_text())
    assert [one["Name"] for one in found] == ["margin_small_data", "tree_depth_wine"]


def test_a_key_that_expires_or_is_wrong_for_a_later_role_loses_no_idea_that_was_paid_for(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    idea, keyless = make_idea_text(), answer_error(401, "the key has expired")
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    def choose(number: int, body: dict[str, Any]) -> Step:
        asked = "Return the whole idea" in json.dumps(body["messages"])
        return (reflecting(idea) if number == 4 else keyless) if asked else drafting(idea)

    with OpenAIServer(choose) as server, override_allow_model_requests(True):
        command = [
            "ideate",
            "--topic",
            "topic.md",
            "--out",
            "found",
            *ALONE,
            "--model",
            "openai-chat:scripted",
            "--base-url",
            server.url,
        ]
        assert main(command) == 1 and "the key is no longer accepted" in capsys.readouterr().err
        assert main([*command, "--set", "models.idea_reflect=openai-chat:other"]) == 2
        assert "the key is not accepted" in capsys.readouterr().err
        assert main(command) == 0
        assert len(server.requests) == 4, "the idea itself was asked for once"


def test_a_budget_is_kept_and_what_is_done_stays(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idea = make_idea_text()

    def choose(number: int, body: dict[str, Any]) -> Step:
        return reflecting(idea) if "Return the whole idea" in json.dumps(body["messages"]) else drafting(idea)

    with OpenAIServer(choose) as server:
        code = main(
            [
                "ideate",
                "--topic",
                "topic.md",
                "--out",
                "found",
                *ALONE,
                "--model",
                "openai-chat:scripted",
                "--base-url",
                server.url,
                "--budget-tokens",
                "1000",
            ]
        )
        assert code == 3 and "the budget of 1000 tokens" in capsys.readouterr().err
        assert not server.requests
