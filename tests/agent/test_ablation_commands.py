"""The folder of an ablation is one for every command of a run: limits, resume, status, page, audit, export, trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.record.event_log import read_events, read_state
from labwright.record.events.search_events import CellExecuted
from labwright.sandbox.isolation.bubblewrap import get_probed_isolation
from tests.repositories import FILES, make_repository

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not get_probed_isolation().is_on, reason="bubblewrap does not work here"),
]


def test_a_limit_ends_it_a_higher_one_lets_it_go_on_and_every_command_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    slow = FILES | {"train.py": f"import time\ntime.sleep(0.2)\n{FILES['train.py']}"}
    make_repository(tmp_path / "tinyfit", slow)  # 20 runs by 2 workers take more than two seconds
    words = "ablate tinyfit --metric metrics.json:test.r2 --top 1 --budget-runs 20 --out out".split()
    words += ["--command", "python train.py --seed {seed}"]
    assert main([*words, "--workers", "2", "--time-limit", "2s"]) == 3
    report = Path("out/report.md")
    assert (
        "the time limit of 2 s was reached" in report.read_text() and read_state(Path("out")).limit_reason is not None
    )
    before = [*read_state(Path("out")).cells]
    assert main(["status", "out"]) == 0
    assert "with another one: scientist resume out" in capsys.readouterr().out
    assert main(["resume", "out", "--time-limit", "1h"]) == 0
    assert "time limit" not in report.read_text()
    assert all(one.is_finished for one in read_state(Path("out")).nodes.values())
    runs = [event.run for event, _ in read_events(Path("out/events.jsonl")) if isinstance(event, CellExecuted)]
    assert len({one.key for one in runs}) == len(runs) and [one.id for one in runs][: len(before)] == before
    assert main(["resume", "out"]) == 0, "nothing is left to do"
    assert len(read_state(Path("out")).cells) == len(runs)
    capsys.readouterr()
    for command in (["status"], ["tree"], ["audit"]):
        assert main([*command, "out"]) == 0
    shown = capsys.readouterr().out
    assert "most important tilt" in shown and "without tilt: +0.6" in shown and "clean: 0 unbound" in shown
    assert "tuning" not in shown and "the best node is chosen" not in shown
    assert main(["export", "out", "--html", "a.html", "--zip", "a.zip"]) == 0
    page = Path("a.html").read_text()
    assert "Findings" in page and "without tilt" in page and "<h2>Paper" not in page and "no nodes yet" not in page
    found = json.loads(Path("out/ablations.json").read_text())["ablations"]["results"]
    tilt = next(one["mean"] for one in found if one["part"] == "tilt")
    assert main(["trace", "a.zip", f"{tilt:.3f}"]) == 0 and main(["audit", "a.zip"]) == 0
    assert main([*words, "--direction", "min"]) == 2
    assert "has no study of this request" in capsys.readouterr().err
