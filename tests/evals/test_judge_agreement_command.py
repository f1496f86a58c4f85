"""`scientist judge-agreement`: the tables, JSON, the picture, and one line for what cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent.cli import main
from tests.agent.test_cli_bad_input import refused
from tests.evals.test_agreement import HUMAN, JUDGE, file, judged, people

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    humans, worth = people(papers=12)
    file(tmp_path / "h.csv", HUMAN, [*humans, ("r9", "m", "t00", 4)])
    file(tmp_path / "j.csv", JUDGE, judged(dict.fromkeys(worth, 5.0)))
    file(tmp_path / "bad.csv", HUMAN, [("r", "m", "t00", "ten\x1b[31m")])
    return tmp_path


def test_the_tables_say_what_the_u_test_does_not(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge-agreement", "h.csv", "j.csv"]) == 0
    out = capsys.readouterr().out
    assert "12 papers, 25 reviews by 9 people; human-human: 11 papers with 2 reviews each" in out
    assert "warning: t00/m is excluded from the human-human set: it has 3 reviews, not 2" in out
    assert "…" not in out
    assert "not shown to follow the papers" in out and "always answering" in out


def test_json_has_every_figure(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge-agreement", "h.csv", "j.csv", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set("humans judge papers reviews reviewers usual paired scale dimensions warnings".split())
    (one,) = found["dimensions"]
    assert len(one["constants"]) == 10 and one["spearman"] is None and one["shuffled"]["p"] == 1.0
    assert set(one["u"]) == {"value", "p"} and set(one["humans"]) == {"icc", "elsewhere", "p"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.csv", "j.csv"], "cannot read none.csv"),
        (["h.csv", "h.csv"], "row"),
        (["bad.csv", "j.csv"], "not a number"),
        (["h.csv", "j.csv", "--scale", "10"], "is not a scale"),
        (["h.csv", "j.csv", "--scale", "1-5"], "outside the scale"),
        (["h.csv", "j.csv", "--dimensions", "clarity"], "has no column 'clarity'"),
    ],
)
def test_what_cannot_be_used_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert words in refused(capsys, "judge-agreement", *arguments)
