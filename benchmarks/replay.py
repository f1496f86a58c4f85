"""Replay a whole recorded run of a language model: real kernels, real TeX, recorded answers.

python -m benchmarks.replay [--keep DIR] [--out FILE]

Prints one JSON object: exit code, requests by role, nodes, seconds, and `differs`, which lists all differences from
`tests/models/replay/expected.json`; exits 1 if there are any. Prompts are not compared, only that the same requests
are made, and that the same answers lead to the same tree and a released paper.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from labwright.agent import run
from labwright.agent.settings import compose_settings
from labwright.record.event_log import read_state
from labwright.record.schema.idea import read_idea

REPLAY_FOLDER = Path(__file__).parents[1] / "tests" / "models" / "replay"


def replay_run(base: Path) -> dict[str, Any]:
    """Run the recorded run again below a folder, and return its result."""
    model = f"replay:{REPLAY_FOLDER / 'exchange.jsonl'}"
    settings = compose_settings(config=REPLAY_FOLDER / "config.yaml", flags={"models.name": model}, environment={})
    began = time.monotonic()
    code = run.start_study(
        read_idea(REPLAY_FOLDER / "idea.json"), settings, runs=base, name="replayed", listener=lambda event, state: None
    )
    state = read_state(base / "replayed")
    return {
        "exit_code": code,
        "reasons": list(state.paper.released.reasons)
        if state.paper.released
        else [state.process_end.reason if state.process_end else ""],
        "requests": {role: used.calls for role, used in sorted(state.calls.usage_by_role.items())},
        "nodes": {one.id: [one.stage, one.kind, one.parent, one.status] for one in state.nodes.values()},
        "seconds": round(time.monotonic() - began, 1),
    }


def find_differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the differences, one line each."""
    return [f"{name}: {found[name]!r}, recorded {was!r}" for name, was in expected.items() if found[name] != was]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="run the recorded run again")
    parser.add_argument("--keep", type=Path, help="a folder for the run; otherwise it is removed")
    parser.add_argument("--out", type=Path, help="also write the JSON report to this file")
    given = parser.parse_args(arguments)
    expected = json.loads((REPLAY_FOLDER / "expected.json").read_text())
    with tempfile.TemporaryDirectory() as base:
        found = replay_run(given.keep or Path(base))
    found["differs"] = find_differences(found, expected)
    text = json.dumps(found, indent=1)
    print(text)
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(text + "\n")
    return 1 if found["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
