"""One plan in three ways: its files fit each other and the settings, and a finished run is told from its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.search_strategies import HERE, STRATEGIES, TASKS, build_command, main
from labwright.agent.plan_files import check_plan, read_plan
from labwright.agent.settings import compose_settings
from labwright.record.schema.idea import read_idea
from tests.recorded_run import recorded_run

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("way", STRATEGIES)
def test_idea_plan_and_settings_fit_each_other(task: str, way: str, tmp_path: Path) -> None:
    settings = compose_settings(config=HERE / "settings.yaml", flags=dict(STRATEGIES[way]), environment={})
    path = HERE / f"plan_{task}.yaml"
    check_plan(read_plan(path), path, read_idea(HERE / f"{task}.json"), settings)
    asked = build_command(task, way, tmp_path, "some:model", "http://127.0.0.1:9/v1")
    assert asked[3] == "run" and asked.count("--set") == len(STRATEGIES[way]) and f"{task}-{way}" in asked
    (tmp_path / f"{task}-{way}").mkdir()
    (tmp_path / f"{task}-{way}" / "events.jsonl").touch()
    assert build_command(task, way, tmp_path, "some:model", "")[3:] == ["resume", str(tmp_path / f"{task}-{way}")]


def test_a_finished_run_is_told_from_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trustml-tree").symlink_to(recorded_run())
    assert main([str(tmp_path), "--report", "--out", str(tmp_path / "out.json")]) == 0
    found = json.loads((tmp_path / "out.json").read_text())
    assert json.loads(capsys.readouterr().out) == found and {*found} == {"trustml-tree"}
    told = found["trustml-tree"]
    assert told["released"] and told["calls"] > 10 and len(told["method_on_test"]) == 3
    assert told["effects"]["calmer-under-noise"]["n"] == 5
