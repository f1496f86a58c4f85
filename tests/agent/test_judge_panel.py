"""`scientist judge --judges` over real HTTP: judges that fail are asked again within bounds, then reported missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic_ai import models as pydantic_ai_models

from labwright.agent.cli import main
from tests.models.openai_server import (
    OpenAIServer,
    Step,
    answer_by_tool,
    answer_error,
    answer_text,
    drop_connection,
    stall,
)
from tests.review.test_judge import BODY, given_answer

pytestmark = pytest.mark.slow

PARTIAL = json.dumps(given_answer())[:200]
REFUSAL = "I cannot review this paper."
FAILING = {
    "prose": (answer_text("It is a fine paper: 9 out of 10."), True),
    "partial JSON": (answer_by_tool(PARTIAL), True),
    "out of range": (answer_by_tool(given_answer(overall={"score": 11})), True),
    "a refusal in words": (answer_text(REFUSAL), True),
    "a refusal by the server": (answer_error(400), False),
    "no answer in time": (stall(60), True),
    "a dropped line": (drop_connection(), True),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.md").write_text(f"# Rain\n\n{BODY}\n")
    for name, value in {"INFLUENCE": "offline", "TIMEOUT": "60", "RETRIES": "1", "OUTPUT_RETRIES": "1"}.items():
        monkeypatch.setenv(f"SCIENTIST_MODELS__{name}", value)
    monkeypatch.setattr("labwright.models.transport.RETRY_WAIT_SECONDS", 0.1)
    return tmp_path


@pytest.mark.parametrize("how", list(FAILING))
def test_a_judge_that_fails_is_asked_again_and_then_missing(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    bad, again = FAILING[how]
    if how == "no answer in time":
        monkeypatch.setenv("SCIENTIST_MODELS__TIMEOUT", "4")
    with (
        pydantic_ai_models.override_allow_model_requests(True),
        OpenAIServer([bad]) as first,
        OpenAIServer([answer_by_tool(given_answer())]) as second,
    ):
        asked = f"openai-chat:gpt-one@{first.url},openai-chat:qwen-two@{second.url}"
        assert main(["judge", "p.md", "--judges", asked, "--json"]) == 0
        tries = len(first.requests)
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (tries > 1) == again and tries <= 12
    assert [one["model"] for one in found["judgements"]] == ["openai-chat:qwen-two"] and found["asked"] == 2
    assert [one["model"] for one in found["missing"]] == ["openai-chat:gpt-one"] and found["missing"][0]["why"]
    assert {(one["n"], one["mean"], one["sd"]) for one in found["dimensions"]} == {(1, 6.0, None), (1, 7.0, None)}, (
        "the text alone has seven"
    )
    assert "1 of 2 judgements are missing" in err


def test_a_judge_that_mends_its_answer_counts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[Step] = [answer_by_tool(PARTIAL), answer_by_tool(given_answer())]
    with pydantic_ai_models.override_allow_model_requests(True), OpenAIServer(steps) as server:
        assert main(["judge", "p.md", "--model", "openai-chat:m", "--base-url", server.url, "--n", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 judgements" in out and "audit against itself" in out and "sd" in out


def test_where_every_judge_fails_there_is_no_score(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pydantic_ai_models.override_allow_model_requests(True), OpenAIServer([answer_text(REFUSAL)]) as server:
        assert main(["judge", "p.md", "--judges", f"openai-chat:m@{server.url}"]) == 1
    out, err = capsys.readouterr()
    assert "0 of 1 judgement\n" in out and "missing: " in out and "mean" not in out and err.count("\n") == 1


def test_rubrics_are_listed_and_bounds_are_told(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "--rubric", "list"]) == 0
    out = capsys.readouterr().out
    assert [
        line.partition(":")[0] for line in out.splitlines()
    ] == "end-to-end experiments idea proposal writing".split()
    assert "hallucination, consistency" in out
    for arguments in (
        ["--n", "0"],
        ["--judges", ",".join("x:y" for _ in range(13))],
        ["--rubric", "essay"],
        ["--judges", "nonsense"],
        ["--task", "none.md", "--model", "x:y"],
    ):
        assert main(["judge", "p.md", *arguments]) == 2
        err = capsys.readouterr().err
        assert err.startswith("scientist: ") and err.count("\n") == 1
