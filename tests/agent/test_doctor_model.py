"""The examination of a model, with its real client against a local server that reads, sees and forgets by a script."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic_ai import models as pydantic_ai_models

from labwright.agent.cli import main
from labwright.agent.doctor import Verdict, machine, model
from labwright.literature.catalogue_client import CatalogueClient, CatalogueCredentials, LiteratureSettings
from labwright.models.retry import open_backend
from labwright.models.settings import ModelSettings
from tests.models.openai_server import (
    Exchange,
    OpenAIServer,
    Step,
    answer_by_tool,
    answer_error,
    answer_html,
    answer_text,
    drop_connection,
    stall,
)

pytestmark = pytest.mark.slow

SEED = 5
REMEMBERS = 10**9


@pytest.fixture(autouse=True)
def local_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with pydantic_ai_models.override_allow_model_requests(True):
        yield


def reader(*, remembers: int = REMEMBERS, sees: bool = True, refuses_over: int = REMEMBERS) -> Step:
    """A model that reads the last `remembers` characters of a prompt, as a server that truncates silently does."""

    def step(exchange: Exchange) -> None:
        text, images = asked(exchange.script.requests[-1])
        if len(text) > refuses_over:
            answer_error(400, "this model's maximum context length is exceeded")(exchange)
        elif images and not sees:
            answer_error(400, "this model takes no images")(exchange)
        else:
            answer_by_tool(answered(text[-remembers:]))(exchange)

    return step


def asked(body: dict[str, Any]) -> tuple[str, list[bytes]]:
    """Text and pictures of what the user asked."""
    said = next(one["content"] for one in body["messages"] if one["role"] == "user")
    parts: list[dict[str, Any]] = [{"type": "text", "text": said}] if isinstance(said, str) else said
    return (
        "".join(part.get("text", "") for part in parts),
        [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in parts if "image_url" in part],
    )


def answered(text: str) -> dict[str, Any]:
    if found := re.search(r"the number (\d+), and the colours", text):
        return {
            "word": "cedar",
            "number": int(found[1]),
            "colours": [{"name": "red", "warm": True}, {"name": "blue", "warm": False}],
        }
    if "image" in text:
        return {"text": f"{drawn()}"}
    return {"text": " and ".join(re.findall(r"a code number: (\d+)", text))}


def drawn() -> int:
    """The number in the picture of an examination with `SEED`."""
    rng = Random(SEED)
    rng.randrange(100, 1000)
    return rng.randrange(1000, 10_000)


def examined(steps: list[Step], **settings: Any) -> dict[str, Verdict]:
    with OpenAIServer(steps) as server:
        chosen = ModelSettings(name="openai-chat:some-model", base_url=server.url, **settings)
        found = list(model.check_models(chosen, rng=Random(SEED)))
    assert all(bool(one.fix) == (one.grade != "ok") for _, one in found)
    return dict(found)


def test_a_good_model_is_found_good() -> None:
    found = examined([reader()])
    assert {check: one.grade for check, one in found.items()} == {
        "model": "ok",
        "schema": "ok",
        "vision": "ok",
        "context": "warning",
    }
    assert "OLLAMA_CONTEXT_LENGTH" in found["context"].fix


# --- reachable and schema -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "words", "fix"),
    [
        (answer_error(401, "bad key"), "the key is not accepted", "correct --model"),
        (answer_error(404, "no such model"), "no such model", "correct --model"),
        (answer_error(402, "insufficient_quota"), "", "account"),
        (answer_error(503, "overloaded"), "no answer after 1 try", "until the server at http"),
        (answer_html(), "no answer", "until the server at http"),
        (drop_connection(), "no answer", "until the server at http"),
    ],
)
def test_a_model_that_cannot_be_reached_is_one_fault_with_its_fix(step: Step, words: str, fix: str) -> None:
    found = examined([step])
    assert list(found) == ["model"] and found["model"].grade == "fault"
    assert words in found["model"].found and fix in found["model"].fix


def test_a_model_that_stalls_is_given_up_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "ANSWER_LIMIT_SECONDS", 0.3)
    found = examined([stall(20)])
    assert found["model"].grade == "fault" and "no answer within 0.3 s" in found["model"].found


def test_a_key_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    [(_, found)] = model.check_models(ModelSettings(name="openai:gpt-4o"), rng=Random(SEED))
    assert found.grade == "fault" and "OPENAI_API_KEY" in found.found


def test_a_model_without_tool_calls_answers_but_cannot_be_used() -> None:
    found = examined([answer_text("a cedar, of course")])
    assert (found["model"].grade, found["schema"].grade) == ("ok", "fault") and "tool calls" in found["schema"].fix


def test_a_schema_that_fits_only_when_corrected_is_a_warning() -> None:
    found = examined([answer_by_tool({"word": 3}), reader()])
    assert found["schema"].grade == "warning" and "after 1 correction" in found["schema"].found


def test_every_model_that_is_named_is_examined() -> None:
    with OpenAIServer([reader()]) as common, OpenAIServer([reader(sees=False)]) as other:
        settings = ModelSettings.model_validate(
            {
                "name": "openai-chat:m",
                "base_url": common.url,
                "roles": {"judge": {"name": "openai-chat:n", "base_url": other.url}},
            }
        )
        found = list(model.check_models(settings, rng=Random(SEED)))
    assert [check for check, _ in found] == ["model", "schema", "vision", "context"] * 2
    assert found[6][1].found == "not needed: no role uses it for figures"
    assert not any(asked(body)[1] for body in other.requests)


# --- vision ---------------------------------------------------------------------------------------------------------


def test_a_model_that_takes_no_pictures_is_a_warning() -> None:
    found = examined([reader(sees=False)])["vision"]
    assert found.grade == "warning" and "models.vision=false" in found.fix


def test_a_model_that_only_guesses_at_a_picture_is_found_out() -> None:
    found = examined([reader(), answer_by_tool({"text": "a fine chart \x1b[31m"}), reader()])["vision"]
    assert found.grade == "warning" and "a fine chart" in found.found and "\x1b" not in found.found


# --- context --------------------------------------------------------------------------------------------------------


def test_the_context_of_a_listed_model_is_known() -> None:
    settings = ModelSettings(name="openai:gpt-4o")
    found = model.check_known_context(model.ProbedModel(settings, open_backend(settings), Random(SEED)))
    assert found.grade == "ok" and "128.0k tokens" in found.found


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fine(*_: object) -> Verdict:
        return Verdict("ok", "fine")

    for name in ("check_packages", "check_kernel", "check_gpu", "check_typesetting"):
        monkeypatch.setattr(machine, name, fine)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("quick")
def test_nothing_is_sent_without_a_model(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer([reader()]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("SCIENTIST_MODELS__NAME", "openai-chat:m")
        main(["doctor"])
        assert server.requests == []
        capsys.readouterr()
        main(["doctor", "--model", "openai-chat:m", "--json"])
        assert len(server.requests) == 2
    checks = [one["check"] for one in json.loads(capsys.readouterr().out)["findings"]]
    assert checks[-4:] == ["model", "schema", "vision", "context"]


@pytest.mark.usefixtures("quick")
def test_a_model_that_refuses_its_temperature_can_be_used_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def choose(number: int, body: dict[str, Any]) -> Step:
        refused = "Unsupported value: 'temperature' does not support 0.5 with this model."
        return answer_error(400, refused) if "temperature" in body else reader()

    with OpenAIServer(choose) as server:
        main(["doctor", "--model", "openai-chat:m", "--base-url", server.url])
        assert ["temperature" in body for body in server.requests] == [True, False, False]
    out = capsys.readouterr().out
    assert "without the parameters temperature" in out


@pytest.mark.usefixtures("quick")
def test_a_model_at_fault_is_exit_5(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--model", "openai-chat:m", "--base-url", "http://127.0.0.1:1/v1"]) == 5
    assert main(["doctor", "--model", "nonsense"]) == 5
    assert "is not a model name" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:9", "pip install socksio, or unset ALL_PROXY"),
        ("HTTPS_PROXY", "foo://x", "correct HTTPS_PROXY"),
        ("HTTP_PROXY", "http://[::1", "correct HTTP_PROXY"),
    ],
)
def test_a_proxy_that_no_client_understands_is_told_by_its_variable(
    name: str,
    value: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for one in ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
        monkeypatch.delenv(one, raising=False)
        monkeypatch.delenv(one.lower(), raising=False)
    monkeypatch.setenv(name, value)
    idea = tmp_path / "idea.json"
    idea.write_text(json.dumps({"Name": "x", "Title": "T", "Experiments": ["one"]}))
    code = main(
        [
            "run",
            "--idea",
            str(idea),
            "--runs",
            str(tmp_path / "runs"),
            "--model",
            "openai-chat:m",
            "--base-url",
            "http://127.0.0.1:9/v1",
        ]
    )
    said = capsys.readouterr().err
    assert code == 2 and words in said and said.count("\n") == 1 and "client for" not in said


def test_a_network_in_no_proxy_stops_no_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "any")
    monkeypatch.setenv("NO_PROXY", "localhost,10.0.0.0/8,fd00::/8,[::1]")
    main(["status", str(tmp_path)])
    assert os.environ["NO_PROXY"] == "localhost,10.0.0.0/8,::1"
    open_backend(ModelSettings(name="google:gemini-2.5-flash"))
    CatalogueClient(LiteratureSettings(), CatalogueCredentials())
