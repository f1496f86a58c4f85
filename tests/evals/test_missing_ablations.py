"""`scientist missing-ablations`: what a person is shown of a draft and of their own list, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from labwright.agent import forecast
from labwright.agent.cli import main
from labwright.evals.ablationbench.papers import read_plan
from labwright.evals.ablationbench.roles import (
    AblatedPart,
    PaperAblations,
    PaperAblationsInputs,
    Remark,
    WantedAblation,
)
from labwright.models.replay import ScriptedModel
from tests.evals.ablation_set import write_set
from tests.recorded_run import recorded_run

HOSTILE = "\x1b[2Jgate [red]"


def answer(inputs: PaperAblationsInputs) -> PaperAblations:
    standing = ("missing", "there already", "no such part")
    return PaperAblations(
        reasoning="the gate carries the claim",
        remarks=tuple(
            Remark(entry=one.id, standing=standing[at % 3], why="by its part") for at, one in enumerate(inputs.plan)
        ),
        parts=(
            AblatedPart(
                part="mixing gate",
                claim="it helps",
                quote="It reads the recent past with a light cell",
                ablated=True,
                where="Without the mixing gate the error is 9.6",
            ),
            AblatedPart(part=HOSTILE, claim="it remembers", quote="a memory of nine billion weeks", ablated=False),
        ),
        ablations=(
            WantedAblation(
                name="No memory",
                ablated_part="memory bank",
                action="REPLACE",
                replacement=("a running mean",),
                metrics=("MAE",),
                claim="it remembers",
                quote="mixes in what it has seen before",
                probability=0.4,
            ),
        ),
    )


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    made = ScriptedModel.from_role_functions(paper_ablations=answer)
    monkeypatch.setattr(forecast, "open_backend", lambda settings: made)  # pyrefly: ignore
    return made


@pytest.fixture
def draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_set(tmp_path / "set") / "papers" / "gate" / "paper.md"


def asked(model: ScriptedModel) -> PaperAblationsInputs:
    inputs = model.requests[0].inputs
    assert isinstance(inputs, PaperAblationsInputs)
    return inputs


def test_a_draft_is_told_what_it_has_what_it_has_not_and_what_to_add(
    draft: Path, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["missing-ablations", str(draft), "--model", "any:thing", "--out", "wanted.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "ablated already: 1\n" in out and "\u201cWithout the mixing gate the error is 9.6\u201d\n" in out
    assert "never ablated: 1\n" in out and "nine billion weeks\u201d (not in the paper)" in out
    assert "1. No memory: replace memory bank by a running mean (probability that a reviewer asks for it: 0.40)" in out
    assert "tests: it remembers \u201cmixes in what it has seen before\u201d\n" in out and "\x1b" not in out
    [wanted] = read_plan(Path("wanted.jsonl").read_text().splitlines()).entries
    assert wanted.replacement == ("a running mean",) and "Hidden-gate" in asked(model).paper.text
    assert asked(model).title == "The gate paper" and asked(model).abstract.startswith("It reads")


def test_an_author_sees_no_more_than_the_method(
    draft: Path, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["missing-ablations", str(draft), "--as", "author", "--model", "any:thing", "--k", "3", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["cut"] == ["3 Experiments", "4 Ablations"] and asked(model).most == 3
    assert "Hidden-gate" not in asked(model).paper.text and "Seen-gate" in asked(model).paper.text
    assert found["parts"][0]["quoted"] is False, "what is not shown cannot be quoted"
    assert main(["missing-ablations", str(draft), "--as", "author", "--until", "Intro", "--model", "any:thing"]) == 0
    out = capsys.readouterr().out
    assert "withheld from the author: 2 Method" in out and "(probability that the authors report it: 0.40)" in out
    assert "not ablated before the results: " in out and "never ablated" not in out


@pytest.mark.slow
def test_the_paper_of_a_run_is_read_as_its_reader_gets_it(
    tmp_path: Path, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded, run = recorded_run(), tmp_path / "run"
    run.mkdir()
    shutil.copy(recorded / "events.jsonl", run)
    shutil.copytree(recorded / "paper", run / "paper")
    assert main(["missing-ablations", str(run), "--model", "any:thing", "--as", "author"]) == 0
    assert "withheld from the author: 4 Experimental Setup, 5 Results, 6 Ablations" in capsys.readouterr().out
    assert asked(model).title.startswith("Calibration under Label Noise") and "smoothed by" in asked(model).paper.text
    assert main(["missing-ablations", str(run)]) == 2, "the run's own model is the offline one"


def test_a_list_of_ones_own_is_held_against_the_paper(
    draft: Path, model: ScriptedModel, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = ("mixing gate", "memory bank", "the mixing gates")
    Path("mine.jsonl").write_text(
        "".join(
            json.dumps({"name": f"N{at}", "ablated_part": part, "action": "REMOVE"}) + "\n"
            for at, part in enumerate(parts)
        )
        + "{\n"
    )
    assert main(["missing-ablations", str(draft), "--model", "any:thing", "--plan", "mine.jsonl"]) == 0
    out = capsys.readouterr().out
    assert "e1 missing: by its part" in out and "e2 there already" in out and "twice: N2 = N0" in out
    assert "not read: line 4: not JSON" in out
    assert out.splitlines()[-1].startswith("1 call, ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.md"], "none.md does not exist"),
        (["{draft}", "--as", "editor"], "is not one of 'reviewer', 'author'"),
        (["{draft}", "--until", "x"], "requires --as author"),
        (["{draft}", "--out", "none/x.jsonl"], "in an existing folder"),
        (["set"], "the offline model cannot read papers"),
        (["set/judge", "--model", "any:thing"], "set/judge does not exist"),
        (["{draft}", "--plan", "none.jsonl"], "cannot read --plan"),
        (["{draft}", "--plan", "{draft}"], "not JSON"),
        (["{draft}", "--as", "author", "--until", "zzz", "--model", "any:thing"], "no section title in"),
        (["{draft}"], "the offline model cannot read papers"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    draft: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["missing-ablations", *(word.format(draft=draft) for word in words)]) == 2
    out, err = capsys.readouterr()
    assert said in err and err.count("\n") == 1 and out == ""
