"""`run --dry-run`: the plan of a real planner and its forecast are shown, and nothing is left behind."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import models as pydantic_ai_models

from labwright.agent.cli import main
from tests.hypotheses import make_hypotheses
from tests.models.openai_server import Choose, OpenAIServer, Step, answer_by_tool, answer_error

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
IDEA = ROOT / "examples" / "ideas" / "label_noise_calibration.json"
PLAN: dict[str, Any] = {
    "task": "learn wines \x1b[2J",
    "datasets": [{"name": "wine"}],
    "expected_seconds": 30,
    "metrics": [{"name": "accuracy", "higher_is_better": True}],
    "arms": [{"name": "plain", "role": "baseline", "untuned": "it counts"}, {"name": "smooth", "role": "method"}],
    "space": [
        {
            "name": "strength",
            "kind": "log",
            "low": 0.01,
            "high": 1,
            "default": 0.1,
            "source": "a paper",
            "arms": ["smooth"],
        }
    ],
    "tuning": {"budget": 4},
    "hypotheses": [one.model_dump() for one in make_hypotheses("smooth", "plain", higher=True)],
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory, with the place for temporary folders inside; both must be empty afterwards."""
    (tmp_path / "work").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with pydantic_ai_models.override_allow_model_requests(True):
        yield tmp_path
    left = [path for folder in ("work", "tmp") for path in (tmp_path / folder).iterdir() if path.name != "idea.json"]
    assert left == []


def planner(*plans: dict[str, Any], findings: Sequence[object] = ()) -> Choose:
    """Plans in order, the last one for ever, after the first as edits of every field; and a reviewer who finds this,
    and holds nothing of it."""
    given = list(plans)

    def revise(plan: dict[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in plan.items() if name != "answers"}
        edits = [{"path": name, "value": json.dumps(value)} for name, value in fields.items()]
        return {"edits": edits, "answers": plan.get("answers", [])}

    def step(number: int, body: dict[str, Any]) -> Step:
        if '"queries"' in json.dumps(body["tools"]):
            return answer_by_tool({"queries": []})
        if '"upheld"' not in json.dumps(body["tools"]):
            plan = given.pop(0) if len(given) > 1 else given[0]
            return answer_by_tool(revise(plan) if '"edits"' in json.dumps(body["tools"]) else plan)
        return answer_by_tool({"findings": [] if "# Your findings" in json.dumps(body) else findings})

    return step


def asked(server: OpenAIServer, *more: str) -> int:
    return main(
        [
            "run",
            "--idea",
            str(IDEA),
            "--dry-run",
            "--model",
            "openai-chat:m",
            "--base-url",
            server.url,
            "--set",
            "models.retries=0",
            *more,
        ]
    )


def test_the_offline_plan_is_shown_with_its_forecast(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--idea", str(IDEA), "--dry-run", "--config", str(ROOT / "examples" / "demo.yaml")]) == 0
    out = capsys.readouterr().out
    for words in (
        "- name: log_loss",
        "- name: noise40",
        "wine (sklearn:load_wine; 13 features",
        "train 90, dev",
        "experiments 43, at most 98",
        "  budget: 6.0",
        "this dry run made",
        "experiments run on the CPU",
    ):
        assert words in out


def test_a_model_is_asked_once_and_its_plan_and_cost_are_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer(planner(PLAN)) as server:
        assert asked(server) == 0
        assert len(server.requests) == 2
    out = capsys.readouterr().out
    assert out.startswith("requesting a plan and a review from openai-chat:m (billed)")
    assert "this dry run made 2 model calls: 200 tokens in, 40 out, $0.00" in out
    assert "prior work  not read" in out and "review      no findings on the plan by openai-chat:m" in out
    assert "USD         $0.00, at most $0.00" in out and "\x1b" not in out


def test_a_subject_that_is_none_is_sent_back_and_one_that_is_there_is_shown(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OpenAIServer(planner(PLAN | {"subjects": ["large"]}, PLAN | {"subjects": ["small"]})) as server:
        assert (
            main(
                [
                    "run",
                    "--dry-run",
                    "--idea",
                    str(IDEA),
                    "--model",
                    "openai:some-model",
                    "--base-url",
                    server.url,
                    "--set",
                    f"subjects.small={{model: 'openai-chat:m', base_url: '{server.url}'}}",
                ]
            )
            == 0
        )
    assert "subjects: - small" in " ".join(capsys.readouterr().out.split())
    asked = json.dumps(server.requests)
    assert "- `small`: openai-chat:m; free" in asked and "there is no studied model 'large'; available: small" in asked


def test_what_a_reviewer_finds_is_shown_with_the_answers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {"kind": "scope", "severity": "should", "what": "One dataset.", "where": "datasets", "mend": "Say so."}
    better = {**PLAN, "untested": ["other data"], "answers": [{"finding": 1, "changed": True, "reason": "Said."}]}
    with OpenAIServer(planner(PLAN, better, findings=(found, found))) as server:
        assert asked(server) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "2 findings on the plan by openai-chat:m, 1 open; the plan was amended" in out
    assert "answered scope (should), at datasets: One dataset. The plan was changed: Said." in out
    assert "open scope (should), at datasets: One dataset. Open: it was not answered" in out
    assert "untested: - other data" in out


def test_the_json_holds_plan_data_and_forecast(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer(planner({**PLAN, "datasets": [{"name": "moon"}]}, PLAN)) as server:
        assert asked(server, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["data_plan"]["datasets"] == [{"name": "wine", "reason": "", "answers": []}]
    assert sum(found["datasets"][0]["sizes"].values()) == 178
    assert found["planned"]["calls"] == 3, "a plan with a dataset that is not there is asked for again"
    assert found["forecast"]["usd"] == {"likely": 0.0, "most": 0.0}
    assert found["forecast"]["gpu_hours"] is None, "experiments run on the CPU"
    assert {one["role"] for one in found["forecast"]["calls"]} >= {"plan", "code", "judge"}


def test_a_plan_that_stays_unusable_is_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer(planner({**PLAN, "datasets": [{"name": "moon"}]})) as server:
        assert asked(server, "--json") in (1, 2)
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "there is no dataset 'moon'" in err


def test_a_model_that_is_away_is_one_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer([answer_error(503)]) as server:
        assert asked(server, "--json") == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1


LONG = {**PLAN, "notes": "Width is 128 everywhere. " * 2000}


@pytest.mark.parametrize("dry", [("--dry-run",), ("--name", "r")])
def test_a_study_that_its_model_cannot_read_is_refused_before_any_experiment(
    place: Path, capsys: pytest.CaptureFixture[str], dry: tuple[str, ...]
) -> None:
    """Plan and claim are never cut, so a model must have room for them."""
    with OpenAIServer(planner(LONG)) as server:
        given = ["--model", "openai-chat:m", "--base-url", server.url, "--set", "models.context_tokens=24000"]
        assert main(["run", "--idea", str(IDEA), *given, *dry]) == 2
        assert len(server.requests) <= 3, "nobody was asked but for the plan"
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert "role 'code' takes about" in err and "the model's context is 24000" in err and "the data plan 5" in err
    assert not list(Path.cwd().glob("runs/*"))
    shutil.rmtree("runs", ignore_errors=True)


def test_json_without_dry_run_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--idea", str(IDEA), "--json"]) == 2
    assert "--json requires --dry-run" in capsys.readouterr().err
