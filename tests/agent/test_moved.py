"""A run that was made on another machine: its settings name paths that are not here, and work on it goes on."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from labwright.agent.cli import main
from labwright.agent.settings import adapt
from labwright.literature.bibtex import read_library
from labwright.record.event_log import read_rows, read_state
from labwright.record.line_store import write_rows
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.stages.paper.citations import read_run_library
from tests.recorded_run import recorded_run

OTHER_BIB = Path(__file__).parents[2] / "examples" / "noisy_labels" / "references.bib"
ELSEWHERE = "/elsewhere/and/gone"
CHANGED: dict[str, Any] = {
    "context": f"{ELSEWHERE}/context",
    "keys": f"{ELSEWHERE}/keys",
    "sandbox": {"python": f"{ELSEWHERE}/python", "readable": [f"{ELSEWHERE}/lib"], "store": ELSEWHERE},
    "paper": {"bib": f"{ELSEWHERE}/own.bib", "papers": f"{ELSEWHERE}/papers", "template": f"{ELSEWHERE}/style"},
    "data": [{"name": "mine", "path": f"{ELSEWHERE}/mine.csv", "target": "y", "sha256": "0" * 64}],
}


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded run, as if it had been made elsewhere with files of that machine; its last test writes into it."""
    run = Path(shutil.copytree(recorded_run(), tmp_path_factory.mktemp("moved") / "run"))
    rows = read_rows(run / "events.jsonl")
    first = json.loads(rows[0][1])
    for key, value in CHANGED.items():
        first["settings"][key] = first["settings"][key] | value if isinstance(value, dict) else value
    (run / "events.jsonl").unlink()
    write_rows(run / "events.jsonl", "run", [(rows[0][0], json.dumps(first)), *rows[1:]])
    return run


def _adapted(state: RunState, flags: dict[str, Any], run: Path) -> tuple[Any, str]:
    settings, said = adapt(state, flags, RunFolder(run))
    return settings, "\n".join(said)


@pytest.mark.slow
def test_paths_of_another_machine_are_replaced_and_named(moved: Path) -> None:
    state = read_state(moved)
    settings, said = _adapted(state, {}, moved)
    assert settings.sandbox.python == sys.executable and settings.sandbox.readable == ()
    assert settings.sandbox.store is None and settings.paper.papers is None and settings.context is None
    assert settings.paper.bib == moved / "library.bib", "the run's own copy"
    for key in ("sandbox.python", "sandbox.readable", "sandbox.store", "paper.bib", "paper.papers", "context"):
        assert f"({key}) is not on this machine" in said
    assert state.read_setting("paper.bib") == f"{ELSEWHERE}/own.bib", "the record stays"
    settings, said = _adapted(state, {"sandbox.python": f"{ELSEWHERE}/mine", "bib": f"{ELSEWHERE}/b.bib"}, moved)
    assert settings.sandbox.python == f"{ELSEWHERE}/mine" and "sandbox.python" not in said, "what is asked for is taken"
    assert settings.paper.bib == Path(f"{ELSEWHERE}/b.bib") and "paper.bib" not in said


@pytest.mark.slow
@pytest.mark.usefixtures("placeholder_pdf")
def test_a_run_that_was_moved_is_reproduced_written_and_audited(
    moved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", str(moved), "--node", "n0004"]) == 0
    assert "(sandbox.python) is not on this machine" in capsys.readouterr().err
    assert (
        main(
            ["write", str(moved), "--bib", str(OTHER_BIB), "--set", "paper.reflections=0", "--set", "paper.judge=false"]
        )
        == 0
    )
    assert (moved / "paper" / "v2" / "paper.tex").is_file()
    entries = read_run_library(read_state(moved), RunFolder(moved))
    assert [one.key for one in entries] == [one.key for one in read_library(OTHER_BIB)] != []
    capsys.readouterr()
    assert main(["audit", str(moved)]) == 0
    assert "clean: 0 unbound" in capsys.readouterr().out
