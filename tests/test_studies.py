"""The commands of `examples/studies.md` on its zips, and what an audit says of copies that lack folders."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from labwright.agent.cli import main
from labwright.record.zips import open_run_folder
from tests.inspector.web_server import running_server
from tests.recorded_run import recorded_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
COMMANDS = re.findall(
    r"^scientist (\w+) (examples/\S+\.zip)(.*?)(?: +#.*)?$", (ROOT / "examples/studies.md").read_text(), re.M
)


@pytest.mark.parametrize(("verb", "run", "rest"), COMMANDS)
def test_the_commands_of_the_page_work(
    verb: str, run: str, rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(ROOT / run)
    if verb == "view":
        with running_server(open_run_folder(Path(path))) as web:
            assert "Verdicts" in web.get("/", follow_redirects=True).text
        return
    monkeypatch.chdir(tmp_path)
    assert main([verb, path, *rest.split()]) == 0


def test_the_page_names_commands() -> None:
    assert {verb for verb, _, _ in COMMANDS} >= {"view", "trace", "export"}


def test_an_audit_counts_what_a_copy_for_reading_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, copy = tmp_path / "whole", tmp_path / "copy"
    shutil.copytree(recorded_run(), whole)
    figure = next(whole.glob("nodes/*/*/figures/*.png"))
    figure.unlink()
    shutil.copytree(whole, copy, ignore=shutil.ignore_patterns("data", "cells", "templates"))
    assert main(["audit", str(whole)]) == 5
    assert re.search(
        rf"missing: .*{figure.name}.*\n.*1 dataset, (.*\n)+1 finding: 0 unbound\n", capsys.readouterr().out
    )
    assert main(["audit", str(copy)]) == 5, "it is no whole run"
    shown = capsys.readouterr().out
    assert "not checked: data, cells and templates: not in this copy: " in shown and "missing: " not in shown
    assert shown.endswith("1 finding: the numbers of the paper were not compared with the record\n")
    assert main(["audit", str(copy), "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["findings"][0]["kind"] == "not checked"


def test_a_list_names_the_zips_of_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", str(ROOT / "examples")]) == 0
    assert "open a zip: early-stopping.zip, noisy-labels.zip and recorded-run.zip" in capsys.readouterr().out
