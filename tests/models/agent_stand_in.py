"""Scripted stand-ins for the programs `claude` and `codex`: small executables that print what those print.

`script` is a list of lines to print, of `LOOK_UP` (an answer that `StandIn.add_answer` noted before) and, at the end,
of an exit code.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """#!{python}
import json, os, subprocess, sys, time
place = {place!r}
if sys.argv[1:2] == ["debug"]:
    print(open(place + "/catalogue.json").read())
    sys.exit(0)
runs = len(os.listdir(place + "/runs"))
asked = sys.stdin.read()
with open(f"{{place}}/runs/{{runs:03}}", "w") as file:
    json.dump({{"argv": sys.argv[1:], "stdin": asked, "env": dict(os.environ), "cwd": os.listdir()}}, file)
scripts = json.load(open(place + "/scripts.json"))
for step in scripts[min(runs, len(scripts) - 1)]:
    if isinstance(step, int):
        sys.exit(step)
    if isinstance(step, float):
        subprocess.Popen(["sleep", str(step)], start_new_session=False)
        time.sleep(step)
    elif step == "look up":
        names = [name for name in os.listdir(place + "/answers") if not name.endswith(".part")]
        notes = [json.load(open(f"{{place}}/answers/{{name}}")) for name in names]
        fits = [note for note in notes if note["user"] in asked or json.dumps(note["user"])[1:-1] in asked]
        for event in max(fits, key=lambda note: len(note["user"]))["events"]:
            print(json.dumps(event), flush=True)
    else:
        print(step if isinstance(step, str) else json.dumps(step), flush=True)
"""


class StandIn:
    """One program on PATH. `scripts` has one script for each start of the program; the last one is repeated."""

    def __init__(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *scripts: list[Any]) -> None:
        self._place = folder / name
        (self._place / "runs").mkdir(parents=True)
        (self._place / "bin").mkdir()
        (self._place / "answers").mkdir()
        program = self._place / "bin" / name
        program.write_text(PROGRAM.format(python=sys.executable, place=str(self._place)))
        program.chmod(0o755)
        (self._place / "scripts.json").write_text(json.dumps(scripts))
        (self._place / "catalogue.json").write_text(json.dumps({"models": [{"slug": "m", "tool_mode": "code"}]}))
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Arguments, input and environment of each start."""
        return [json.loads(path.read_text()) for path in sorted((self._place / "runs").iterdir())]

    def add_answer(self, user: str, answer: dict[str, Any]) -> None:
        """Note what to print when a script looks up the answer to this prompt."""
        text = json.dumps(answer)
        printed = [claude_init("StructuredOutput"), claude_result(answer)]
        if self._place.name == "codex":
            printed = [codex_message(text), codex_end()]
        note = self._place / "answers" / f"{len(os.listdir(self._place / 'answers')):03}"
        note.with_suffix(".part").write_text(json.dumps({"user": user, "events": printed}))
        note.with_suffix(".part").rename(note)

    def break_catalogue(self) -> None:
        (self._place / "catalogue.json").write_text("error: unrecognized subcommand 'models'")


LOOK_UP = "look up"


USED = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}


def claude_init(*tools: str) -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "tools": list(tools), "model": "claude-x"}


def claude_turn(number: int) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": f"m{number}", "usage": USED, "content": []}}


def claude_result(output: Any = None, text: str = "", **more: Any) -> dict[str, Any]:
    event = {"type": "result", "subtype": "success", "is_error": False, "result": text, "structured_output": output}
    return event | {"usage": USED, "total_cost_usd": 0.25} | more


def claude_error(text: str, status: int | None = None, kind: str = "") -> list[Any]:
    said: dict[str, Any] = {"type": "assistant", "error": kind, "message": {"id": "e", "usage": {}, "content": []}}
    return [claude_init(), said, claude_result(text=text, is_error=True, api_error_status=status), 1]


def codex_message(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text}}


def codex_end(cached: int = 4) -> dict[str, Any]:
    return {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": cached, "output_tokens": 5}}


def codex_error(text: str) -> list[Any]:
    return [{"type": "error", "message": text}, {"type": "turn.failed", "error": {"message": text}}, 1]
