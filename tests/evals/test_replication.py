"""`scientist bench replication`: two players answer questions, and fresh samples decide which claims hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from labwright.agent import forecast, run
from labwright.agent.cli import main
from labwright.evals.replication.players import ConclusionTaskInputs
from labwright.evals.replication.questions import ComparedMethod, KnownTruth, estimate_effect, read_questions
from labwright.evals.replication.results import compute_sign_test, decide_headline
from labwright.models.backend import ModelRequest
from labwright.models.conversation import ToolCall
from labwright.models.replay import ScriptedModel
from labwright.models.roles.claim_reader import ClaimReaderInputs, ReadSentences
from labwright.models.roles.repository import (
    ConclusionAnswer,
    DesignAnswer,
    ExperimentInputs,
    QuestionConclusionInputs,
    StatedDirection,
)
from labwright.models.settings import ModelSettings
from labwright.record.errors import UsageError
from labwright.record.schema.claims import ReadClaim, ReadSentence
from tests.agent.test_question import CODE, DESIGN, HIGHER, SCRIPT
from tests.evals.exp_set import make_repository

TRUTH = KnownTruth(
    kind="true",
    subject=ComparedMethod(name="far", title="spread 3"),
    other=ComparedMethod(name="near", title="spread 1"),
    metric="distance",
    higher_is_better=True,
    margin=0.1,
    dataset="draws",
)
REPLICATE = """import json, random, sys
draw = random.Random(int(sys.argv[1]))
print(json.dumps({"subject": 2.4 + draw.random(), "other": 0.8 + draw.random()}))
"""


def make_questions(folder: Path, truth: KnownTruth = TRUTH, script: str = REPLICATE) -> Path:
    place = folder / "questions" / "q01"
    place.mkdir(parents=True)
    make_repository(place / "repository")
    shutil.rmtree(place / "repository" / ".git")
    (place / "question.toml").write_text('question = "Does a larger spread raise the distance?"\nminutes = 2\n')
    (place / "truth.json").write_text(truth.model_dump_json())
    (place / "replicate.py").write_text(script)
    return folder / "questions"


def read(**fields: Any) -> ReadSentence:
    plain = {"kind": "direction", "subject": "far", "other": "near", "direction": "higher"}
    claim = ReadClaim.model_validate(plain | fields)
    return ReadSentence(number=1, label="outcome", quote="a quote of it", claims=(claim,))


@pytest.mark.parametrize(
    ("sentences", "headline"),
    [
        ((read(),), "better"),
        ((read(subject="near", other="far"),), "worse"),
        ((read(subject="near", other="far", direction="worse"),), "better"),
        ((read(certainty="open"),), "open"),
        ((read(kind="no difference", direction="none"),), "no difference"),
        ((read(kind="no difference", direction="none"), read(certainty="conjectured")), "no difference"),
        ((read(), read(direction="lower")), "better"),
        ((read(amount="small"), read(kind="no difference", direction="none")), "no difference"),
        ((read(denied=True),), "open"),
        ((read(denied=True), read(direction="lower")), "worse"),
        ((read(denied=True), read()), "open"),
        ((read(denied=True), read(kind="no difference", direction="none")), "no difference"),
        ((read(kind="size", direction="lower"), read(kind="no difference", direction="none")), "no difference"),
        ((read(kind="size"),), "better"),
        ((read(metric="seconds"),), "open"),
        ((read(subject="other arm"),), "open"),
        ((), "open"),
    ],
)
def test_a_headline_is_the_first_statement_that_decides_the_question(
    sentences: tuple[ReadSentence, ...], headline: str
) -> None:
    assert decide_headline(sentences, TRUTH) == headline


def test_a_lower_value_can_be_the_better_one() -> None:
    assert decide_headline((read(),), TRUTH.model_copy(update={"higher_is_better": False})) == "worse"


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [
        ([1.0, 1.2, 0.9], "better"),
        ([-1.0, -1.2, -0.9], "worse"),
        ([0.0, 0.01, -0.01], "no difference"),
        ([0.0, 0.0], "no difference"),
        ([2.0, -2.0, 1.0], "open"),
        ([0.05, 0.051, 0.049], "no difference"),
    ],
)
def test_fresh_samples_decide_by_their_interval_and_the_margin(differences: list[float], outcome: str) -> None:
    assert estimate_effect(differences, margin=0.1).outcome == outcome


def test_the_sign_test_is_exact() -> None:
    assert compute_sign_test(0, 0) == 1.0
    assert compute_sign_test(0, 6) == pytest.approx(2 / 64)
    assert compute_sign_test(5, 5) == 1.0


def test_a_folder_without_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no NAME/truth\.json"):
        read_questions(tmp_path)
    folder = make_questions(tmp_path)
    with pytest.raises(UsageError, match="has no q02"):
        read_questions(folder, ("q01", "q02"))
    (folder / "q01" / "truth.json").write_text('{"kind": "maybe"}')
    with pytest.raises(UsageError, match="q01: kind"):
        read_questions(folder)


class Players:
    """The study says that `far` has the larger distance, the loop that it has the smaller one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: ModelRequest) -> BaseModel:
        inputs = request.inputs
        self.asked.append(request.role.name)
        exchanges = request.conversation.exchanges if request.conversation is not None else ()
        if isinstance(inputs, ConclusionTaskInputs):
            assert "Does a larger spread" in inputs.known[0].text
            if not exchanges:
                return ToolCall(tool="run", arguments={"command": "ls"})
            assert "lib" in exchanges[0].result
            return ToolCall(tool="hand_in", arguments={"conclusion": "It lowers the distance.", "reasons": "a look"})
        if isinstance(inputs, ExperimentInputs):
            if not exchanges:
                return ToolCall(tool="write", arguments={"path": "work/spread.py", "text": CODE})
            return ToolCall(tool="hand_in", arguments={"script": SCRIPT, "reasons": "both spreads"})
        if isinstance(inputs, QuestionConclusionInputs):
            return ConclusionAnswer(
                conclusion="It raises the distance.", directions=(StatedDirection.model_validate(HIGHER),)
            )
        if isinstance(inputs, ClaimReaderInputs):
            text = inputs.paragraphs[0].sentences[0].text
            return ReadSentences(sentences=(read(direction="higher" if "raises" in text else "lower"),))
        return DesignAnswer(design=DESIGN)


@pytest.mark.slow
def test_both_players_are_scored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_questions(tmp_path)
    players = Players()

    def opened(_: ModelSettings) -> ScriptedModel:
        return ScriptedModel(players)

    monkeypatch.setattr(run, "open_backend", opened)
    monkeypatch.setattr(forecast, "open_backend", opened)
    words = ["bench", "replication", "questions", "--model", "test:model", "--samples", "5", "--out", "out"]
    assert main(words) == 0
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    found = {one["answer"]["player"]: (one["headline"], one["effect"]["outcome"]) for one in results["answers"]}
    assert found == {"study": ("better", "better"), "loop": ("worse", "better")}
    scores = {one["player"]: one for one in results["scores"] if not one["kind"]}
    assert scores["study"]["right"]["k"] == 1 and scores["loop"]["false"]["k"] == 1
    assert {one["what"]: one["only_second"] for one in results["comparisons"]}["false claims"] == 1
    assert "McNemar" in capsys.readouterr().out
    asked = len(players.asked)
    assert main(words) == 0 and len(players.asked) == asked, "nothing is asked twice"


@pytest.mark.slow
def test_commands_end_with_the_minutes_of_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = make_questions(tmp_path)
    (questions / "q01" / "question.toml").write_text('question = "Does a larger spread raise it?"\nminutes = 0.01\n')
    results: list[str] = []

    def work(request: ModelRequest) -> BaseModel:
        assert request.conversation is not None
        results[:] = [one.result for one in request.conversation.exchanges]
        if not results:
            return ToolCall(tool="run", arguments={"command": "ls"})
        return ToolCall(tool="hand_in", arguments={"conclusion": "It is open.", "reasons": "no time"})

    def opened(_: ModelSettings) -> ScriptedModel:
        return ScriptedModel(work)

    monkeypatch.setattr(forecast, "open_backend", opened)
    words = ["bench", "replication", str(questions), "--model", "test:model", "--out", str(tmp_path / "out")]
    assert main([*words, "--players", "loop", "--no-score"]) == 0
    assert results == ["the 0.01 minutes of commands are used: hand in"]


def test_the_offline_model_cannot_play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "replication", str(make_questions(tmp_path)), "--out", str(tmp_path / "out")]) == 2
    assert "the offline model cannot answer questions" in capsys.readouterr().err
