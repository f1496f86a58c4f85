"""Telling invented from measured: figures with intervals and controls, labels and files, our judge over a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labwright.agent.cli import main
from labwright.evals import invented_papers
from labwright.evals.agreement.invented_detection import measure_detection, read_truth
from labwright.evals.agreement.scores import ScaleRange, TableError
from labwright.evals.detection import (
    build_detection_table,
    compute_auroc,
    compute_auroc_interval,
    compute_detection,
    list_notes,
)
from labwright.evals.intervals import compute_proportion, wilson_interval
from labwright.models.client import Models
from labwright.models.replay import ScriptedModel
from labwright.models.roles.judge import Influence, JudgeInputs, build_answer_type
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from tests.agent.test_cli_bad_input import refused
from tests.evals.test_agreement import HUMAN, JUDGE, file, judged, people
from tests.review.test_judge import BODY, QUOTE, given_answer

CUTS = (("high", 2.0),)
TRUTH = {f"p{k}": k % 2 == 0 for k in range(20)}


# --- figures --------------------------------------------------------------------------------------------------------


def test_a_figure_that_knows_is_told_from_one_that_does_not() -> None:
    knows = compute_detection("results", {name: 2.0 * bad for name, bad in TRUTH.items()}, TRUTH, CUTS)
    assert knows.auroc == 1.0 and knows.p is not None and knows.p < 0.001 and knows.findings == ()
    assert knows.interval is not None and 0.7 < knows.interval[0] < 0.95 and knows.interval[1] == 1.0
    assert (knows.cuts[0].recall, knows.cuts[0].false_alarms) == (compute_proportion(10, 10), compute_proportion(0, 10))
    same = compute_detection("results", dict.fromkeys(TRUTH, 2.0), TRUTH, CUTS)
    assert (same.auroc, same.p, same.cuts[0].recall.k, same.cuts[0].false_alarms.k) == (0.5, 1.0, 10, 10)
    assert "not shown to detect" in same.findings[0] and same.findings[1].startswith(
        "always giving the same answer is right"
    )


@given(st.lists(st.tuples(st.integers(1, 10), st.booleans()), min_size=2, max_size=40))
def test_the_auroc_is_the_share_of_pairs_and_within_its_interval(rows: list[tuple[int, bool]]) -> None:
    values, truth = np.array([float(value) for value, _ in rows]), np.array([bad for _, bad in rows])
    pairs = [(a > b) + (a == b) / 2 for a, bad in rows for b, other in rows if bad and not other]
    found, interval = compute_auroc(values, truth), compute_auroc_interval(values, truth)
    if not pairs:
        assert found is None and interval is None
    else:
        assert found is not None and interval is not None and found == pytest.approx(sum(pairs) / len(pairs))
        assert 0 <= interval[0] <= found + 0.001 and found - 0.001 <= interval[1] <= 1


def test_a_share_has_wilson_s_interval() -> None:
    assert (
        wilson_interval(18, 20) == (0.699, 0.972)
        and wilson_interval(0, 10) == (0.0, 0.278)
        and wilson_interval(10, 10) == (0.722, 1.0)
    )
    assert wilson_interval(0, 0) is None and str(compute_proportion(0, 0)) == "0 of 0"


# --- files ----------------------------------------------------------------------------------------------------------


def truth_file(folder: Path) -> Path:
    path = folder / "truth.json"
    path.write_text(json.dumps([{"name": name, "honest": not bad, "kind": "k"} for name, bad in TRUTH.items()]))
    return path


def judge_file(folder: Path, **more: Any) -> Path:
    rows = [(name, "Invented" if bad else "cannot tell", 1 if bad else 6, "a word") for name, bad in TRUTH.items()]
    return file(folder / "judge.csv", ("Name", "results", "overall", "remark"), [*rows, *more.get("rows", ())])


def test_each_figure_of_a_judge_s_file_is_held_against_the_labels(tmp_path: Path) -> None:
    found = measure_detection(judge_file(tmp_path), truth_file(tmp_path), scale=ScaleRange())
    assert [(one.figure, one.auroc) for one in found.figures] == [("results", 1.0), ("overall", 1.0)]
    assert [(cut.threshold, cut.false_alarms.k) for cut in found.figures[0].cuts] == [
        ("invented", 0),
        ("invented or cannot tell", 10),
    ]
    assert [cut.recall.k for cut in found.figures[1].cuts] == [10, 10, 10]


def test_labels_may_be_a_table_and_papers_pairs_of_names(tmp_path: Path) -> None:
    table = file(tmp_path / "t.csv", ("name", "invented"), [("t/m", "yes"), ("u/m", "no")])
    assert read_truth(table) == {"t/m": True, "u/m": False}
    assert read_truth(file(tmp_path / "h.csv", ("name", "honest"), [("t/m", "0"), ("u/m", "1")])) == read_truth(table)
    judge = file(tmp_path / "j.csv", JUDGE, [("t", "m", "A", 1), ("u", "m", "A", 9)])
    assert measure_detection(judge, table, scale=ScaleRange()).figures[0].auroc == 1.0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "has no labels"),
        ("{", "is not a list of objects with 'name' and 'honest'"),
        ('[{"name": "a"}]', "is not a list of objects with 'name' and 'honest'"),
        ('[{"name": "x", "honest": true}]', "no paper is in both files"),
    ],
)
def test_labels_that_cannot_be_used_are_one_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(TableError, match=words) as one:
        measure_detection(judge_file(tmp_path), tmp_path / "t.json", scale=ScaleRange())
    assert "\n" not in str(one.value)


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_answers_the_second_question_alone_or_beside_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    judge_file(tmp_path)
    truth_file(tmp_path)
    assert main(["judge-agreement", "judge.csv", "--invented", "truth.json"]) == 0
    out = capsys.readouterr().out
    assert "judge.csv against the labels in truth.json: 20 papers" in out and "at most 1" in out
    assert "10 of 20 papers are invented; always giving the same answer is right in 0.50 of them" in out
    humans, worth = people(papers=12)
    file(tmp_path / "h.csv", HUMAN, humans)
    file(tmp_path / "j.csv", JUDGE, judged(worth))
    (tmp_path / "t.json").write_text(
        json.dumps([{"name": f"{task}/m", "honest": score > 4} for task, score in worth.items()])
    )
    assert main(["judge-agreement", "h.csv", "j.csv", "--invented", "t.json", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["papers"] == 12 and found["invented"]["figures"][0]["auroc"] == 1.0
    assert "Missing argument 'JUDGE.csv'" in refused(capsys, "judge-agreement", "h.csv")


# --- our judge ------------------------------------------------------------------------------------------------------


def folder_of(root: Path) -> Path:
    """Two papers: one whose script writes its results down, one that is measured."""
    for name, script in (("a", "values = {'acc': 0.91}  # placeholder results\n"), ("b", "acc = model.score(x, y)\n")):
        (root / name / "code").mkdir(parents=True)
        (root / name / "results").mkdir()
        (root / name / "paper.md").write_text(f"# Rain\n\n{BODY}\n")
        (root / name / "code" / "run.py").write_text(script)
        (root / name / "results" / "out.json").write_text('{"acc": 0.91}')
        (root / name / "results" / "run.log").write_text("epoch 1 of 1 is done\n")
    (root / "truth.json").write_text(
        json.dumps([{"name": "a", "honest": False, "kind": "constants"}, {"name": "b", "honest": True, "kind": ""}])
    )
    return root


def reads_code(inputs: JudgeInputs) -> Any:
    code = next(one.text for one in inputs.exhibits if one.kind == "code") if inputs.exhibits else ""
    bad = "placeholder results" in code
    results = {
        "details": "the script",
        "quote": "# placeholder results" if bad else QUOTE,
        "answer": "invented" if bad else "measured",
    }
    return build_answer_type(inputs.rubric).model_validate(
        given_answer(overall={"score": 1 if bad else 6}, results=results)
    )


def door(model: ScriptedModel) -> Models:
    return Models(model, MemoryLog(), ModelSettings(), lambda: 0.0)


async def test_our_judge_over_a_folder_of_papers_is_counted_kept_and_not_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = folder_of(tmp_path / "papers"), tmp_path / "out.json"
    model = ScriptedModel.from_role_functions(judge=reads_code, influence=lambda _: Influence())
    rows = await invented_papers.judge_papers(folder, ["a", "b", "gone"], door(model), "all", out)
    assert sorted(rows) == ["a", "b"] and "gone: no judgement" in capsys.readouterr().out
    asked = [one.inputs for one in model.requests if isinstance(one.inputs, JudgeInputs)]
    assert [[shown.kind for shown in one.exhibits] for one in asked] == [["log", "results", "code"]] * 2
    assert rows["a"].results is not None and (rows["a"].results.where, rows["a"].results.quoted) == ("code", True)
    report = invented_papers.measure_figures(rows, {"a": True, "b": False, "gone": True})
    assert [(one.figure, one.auroc, one.missing) for one in report] == [
        ("results", 1.0, 1),
        ("overall", 1.0, 1),
        ("text alone", 0.5, 1),
    ]
    assert invented_papers.format_kinds(rows, json.loads((folder / "truth.json").read_text())) == {
        "honest, no kind": "0 of 1 [0.00, 0.79]",
        "invented, constants": "1 of 1 [0.21, 1.00]",
    }
    assert "| results | 1.0000 |" in build_detection_table(report).to_markdown()
    assert next(list_notes(report[0])).startswith("1 of 2 papers are invented, and 1 more have no score; ")
    await invented_papers.judge_papers(folder, ["a", "b"], door(ScriptedModel.from_role_functions()), "all", out)
