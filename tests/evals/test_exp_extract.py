"""Questions made from a paper and its repository: drafts, their faults, and a person's word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labwright.agent import forecast
from labwright.agent.cli import main
from labwright.evals.expbench.answers import read_tasks
from labwright.evals.expbench.extraction import lint_draft
from labwright.evals.expbench.roles import (
    DraftQuestion,
    PaperQuestions,
    PaperQuestionsInputs,
    QuestionScripts,
    QuestionScriptsInputs,
    ScriptStep,
    ScriptSteps,
    ScriptStepsInputs,
)
from labwright.models.backend import ModelRequest
from labwright.models.replay import ScriptedModel
from labwright.models.settings import ModelSettings
from labwright.record.schema.idea import ExperimentVariable
from tests.agent.test_cli_bad_input import refused
from tests.evals.exp_set import make_repository

PAPER = """# Spreads

## Abstract

We draw numbers from a normal distribution with two spreads and look at how far they lie from zero on average, since
nobody had done so with this little effort before, and since the answer is known to everybody who asks the question.

## Experiments

Over six seeds a spread of 3 raises the mean distance from 0.798 to 2.395 against a spread of 1.
"""
QUOTE = "a spread of 3 raises the mean distance from 0.798 to 2.395"
GOOD = DraftQuestion(
    question="Does a larger spread raise the mean distance?",
    method="Draw 40 numbers with spreads 1 and 3, seeds 0 to 5.",
    outcome="It raises it from 0.798 to 2.395.",
    quote=QUOTE,
    constants=(ExperimentVariable(name="draws", value="40"),),
    varied=(ExperimentVariable(name="spread", value="1, 3"),),
    measured=(ExperimentVariable(name="distance", value="mean"),),
    setup=("draw", "compare"),
)
BAD = GOOD.model_copy(
    update={
        "question": "A larger spread raises the mean distance as in Table 2.",
        "quote": "nobody wrote this passage at all",
        "method": "Run it; the distance becomes 2.395.",
        "setup": (),
    }
)


class Reader:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: ModelRequest) -> Any:
        inputs = request.inputs
        self.asked.append(request.role.name)
        if isinstance(inputs, PaperQuestionsInputs):
            assert "0.798 to 2.395" in inputs.paper.text and "scripts/spread.py" in inputs.map
            return PaperQuestions(questions=(GOOD, BAD))
        if isinstance(inputs, QuestionScriptsInputs):
            if inputs.question == BAD.question:
                return QuestionScripts(why="nothing does this")
            found = ("scripts/spread.py",) if inputs.complaints else ("scripts/none.py",)
            return QuestionScripts(scripts=found, usage="python scripts/spread.py", why="it compares both")
        assert isinstance(inputs, ScriptStepsInputs) and "   1 " in inputs.scripts[0].text
        line = 6 if inputs.complaints else 999
        return ScriptSteps(
            instructions="Draw 40 numbers with both spreads over six seeds and save the means.",
            steps=(
                ScriptStep(text="name both spreads", path="scripts/spread.py", line=line),
                ScriptStep(text="save the values by seed", path="scripts/spread.py", line=8),
            ),
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_repository(tmp_path / "repo")
    (tmp_path / "spreads.md").write_text(PAPER)
    return tmp_path


@pytest.mark.slow
def test_drafts_are_made_once_checked_and_taken_when_a_person_says_so(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = Reader()

    def opened(_: ModelSettings) -> ScriptedModel:
        return ScriptedModel(reader)

    monkeypatch.setattr(forecast, "open_backend", opened)
    words = (
        "bench exp-extract --paper spreads.md --code repo --out made --model openai-chat:m --base-url "
        "http://127.0.0.1:9/v1"
    ).split()
    assert main([*words]) == 5
    out = capsys.readouterr().out
    assert "spreads/0: no fault found" in out and "spreads/1: a statement instead of a question" in out
    before = list(reader.asked)
    assert main([*words]) == 5 and reader.asked == before, "nothing is asked again"
    first, second = read_tasks(place / "made")
    assert (first.type, first.masked, second.type) == (1, ("scripts/spread.py",), 3)
    assert first.requirements[-1] == "Final Step: save the values by seed (/workspace/scripts/spread.py:8)"
    assert first.requirements[0].endswith("(/workspace/scripts/spread.py:6)"), "a line that is not there is sent back"
    assert "unreviewed" in first.invalid
    capsys.readouterr()
    assert main(["bench", "exp-review", "made"]) == 0
    assert "spreads/1 (unreviewed)" in capsys.readouterr().out
    assert main(["bench", "exp-review", "made", "spreads/0", "--accept"]) == 0
    assert main(["bench", "exp-review", "made", "spreads/1", "--reject"]) == 0
    assert next(one.invalid for one in read_tasks(place / "made")) == ""
    assert "rejected" in read_tasks(place / "made")[1].invalid


def test_each_fault_of_a_draft_is_named() -> None:
    texts = {"scripts/spread.py": "x\n"}
    draft: dict[str, Any] = {
        "question": BAD.question,
        "method": BAD.method,
        "expected_outcome": BAD.outcome,
        "agent_instructions": "Use spread.py.",
        "masked_source": ["/workspace/scripts/spread.py", "/workspace/scripts/lost.py"],
        "requirements": ["Step 1: run spread.py (/workspace/scripts/spread.py:1)"],
        "experiment_setup_complexity": {"setup_steps": []},
        "design_complexity": {
            "constant_variables": {"draws": "40"},
            "independent_variables": {},
            "dependent_variables": {},
        },
    }
    found = " | ".join(lint_draft(draft, texts, quoted=False))
    for words in (
        "a statement instead of a question",
        "reveals the outcome (2.395)",
        "names the masked file scripts/spread.py",
        "a masked file does not exist: scripts/lost.py",
        "a requirement uses a masked file",
        "cites a table",
        "settings that the task does not state: draws",
        "is not in the paper",
    ):
        assert words in found
    assert not list(
        lint_draft(
            draft
            | {
                "question": GOOD.question,
                "method": GOOD.method,
                "agent_instructions": "",
                "masked_source": [],
                "requirements": [],
                "experiment_setup_complexity": {"setup_steps": ["draw"]},
            },
            texts,
        )
    )


def test_what_cannot_be_extracted_or_reviewed_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("bench", "exp-extract", "--paper", "spreads.md", "--code", "repo", "--out", "made")
    assert "the offline model cannot read papers" in refused(capsys, *words)
    assert "contains no tasks" in refused(capsys, "bench", "exp-review", "repo")
    folder = place / "made" / "tasks" / "a"
    folder.mkdir(parents=True)
    (folder / "a_complete_final.json").write_text(
        json.dumps({"questions": [{"question": "Why?", "draft": "unreviewed"}]})
    )
    assert "has no task a/7" in refused(capsys, "bench", "exp-review", "made", "a/7", "--accept")
    assert "give --accept or --reject" in refused(capsys, "bench", "exp-review", "made", "a/0")
    assert "choose one" in refused(capsys, "bench", "exp-review", "made", "a/0", "--accept", "--reject")
