"""Makes examples/recorded-run.zip anew: `make recorded-run` (some two minutes on two cores; docs/inspect-a-run.md).

A run of the offline model with `recorded.yaml`, in which this script plays a person, Ada, who leaves a note, closes a
draft, kills a node, and holds the run for a moment: each when the state that it waits for is there. The finished run is
audited and exported as a zip with its data. It is made below a path
that means nothing (`/tmp/scientist`), since settings name files, and programs print the paths of their libraries.

What it does not guarantee: the same bytes again. Times differ, and with them which node is killed at which moment.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from labwright.agent.cli.control import send_request
from labwright.inspector.archive import pack_run
from labwright.record.event_log import RecordError, read_state
from labwright.record.events.run_events import CommandReceived
from labwright.record.reducers.run_state import RunState
from labwright.record.run_folder import RunFolder
from labwright.record.zips import open_run_folder

ROOT = Path(__file__).resolve().parents[1]
HERE = Path("/tmp/scientist")
"""Where the run is made, with a link to the interpreter, in the place of the path that this machine has for it."""
TARGET = ROOT / "examples" / "recorded-run.zip"
GIVEN = ("recorded.yaml", "library.bib")
IDEA = "ideas/label_noise_calibration.json"
DATASETS = ["breast_cancer"]
PERSON = "ada"
LIMIT = 900.0
"""Seconds that the run may take."""
POLL = 0.1

Order = Callable[[RunState, RunFolder], CommandReceived | None]


class Act(NamedTuple):
    """What the person does once the run is so far; `order` gives None until then."""

    name: str
    order: Order


# --- the person -----------------------------------------------------------------------------------------------------


def _note(state: RunState, _: RunFolder) -> CommandReceived | None:
    if state.search.stage != "preliminary":
        return None
    return CommandReceived(
        verb="note",
        target="agenda",
        text=("The training part has fewer than three hundred rows: try smaller steps before larger networks."),
    )


def _mark(state: RunState, _: RunFolder) -> CommandReceived | None:
    for node in state.nodes.values():
        if node.kind == "draft" and node.varies == "leaky" and node.status == "good":
            return CommandReceived(
                verb="mark",
                target=node.id,
                mark="closed",
                text=("What units do below zero is a detail: compare the other networks first."),
            )
    return None


def _kill(state: RunState, _: RunFolder) -> CommandReceived | None:
    """Of a node that is under way; its code runs for a second only."""
    for node in state.nodes.values():
        if node.kind == "trial" and not node.is_finished:
            return CommandReceived(
                verb="kill",
                target=node.id,
                text=("This recording shows what a kill looks like; nothing was wrong with the node."),
            )
    return None


def _pause(state: RunState, _: RunFolder) -> CommandReceived | None:
    return (
        CommandReceived(verb="pause", text="Read the report of the tuning stage first.")
        if (state.search.stage == "agenda")
        else None
    )


def _resume(state: RunState, _: RunFolder) -> CommandReceived | None:
    return (
        CommandReceived(verb="resume", text="The numbers look right.")
        if (state.is_paused and not any(node.status == "running" for node in state.nodes.values()))
        else None
    )


ACTS = (Act("note", _note), Act("mark", _mark), Act("kill", _kill), Act("pause", _pause), Act("resume", _resume))


def steer(run: Path, working: subprocess.Popen[bytes]) -> None:
    """Do the acts in their order while the run goes on. Raises `SystemExit` where one found no moment."""
    waiting, end = list(ACTS), time.monotonic() + LIMIT
    while working.poll() is None:
        if time.monotonic() > end:
            raise SystemExit(f"the run took more than {LIMIT:.0f} s")
        try:
            state = read_state(run)
            command = waiting[0].order(state, RunFolder(run)) if waiting and state.started is not None else None
        except RecordError:
            command = None
        if command is not None:
            send_request(run, command)
            waiting.pop(0)
        time.sleep(POLL)
    if waiting or working.returncode:
        raise SystemExit(f"the run ended with {working.returncode}; not done: {[act.name for act in waiting]}")


# --- the run --------------------------------------------------------------------------------------------------------


def made() -> Path:
    """The finished, audited run."""
    (HERE / ".venv").symlink_to(ROOT / ".venv")
    for name in GIVEN:
        shutil.copyfile(TARGET.parent / name, HERE / name)
    [idea] = json.loads((TARGET.parent / IDEA).read_text())
    (HERE / "idea.json").write_text(json.dumps(idea | {"Datasets": DATASETS}))
    program, run = [str(HERE / ".venv" / "bin" / "python"), "-m", "labwright"], HERE / "runs" / TARGET.stem
    arguments = ["--idea", "idea.json", "--config", "recorded.yaml", "--runs", "runs", "--name", TARGET.stem]
    with subprocess.Popen([*program, "run", *arguments], cwd=HERE) as working:
        try:
            steer(run, working)
        finally:
            working.terminate()
    subprocess.run([*program, "audit", str(run)], cwd=HERE, check=True, timeout=120)
    return run


def telling(run: Path) -> Iterator[str]:
    """Files in which a path of this machine stands."""
    names = [str(ROOT).encode(), str(Path.home()).encode() + b"/"]
    for path in sorted(run.rglob("*")):
        if path.is_file():
            text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            yield from (f"{path}: {name.decode()}" for name in names if name in text)


def main() -> None:
    """Make it, and put it in the place of the one that is there."""
    os.environ.update(dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), PERSON))
    try:
        HERE.mkdir()
    except FileExistsError:
        raise SystemExit(f"{HERE} exists: delete what an earlier recording left there, then try again") from None
    try:
        copy = HERE / TARGET.name
        with open(copy, "xb") as file:
            packed = pack_run(made(), file, with_data=True, small=True)
        if found := list(telling(open_run_folder(copy))):
            raise SystemExit("paths of this machine stand in\n" + "\n".join(found))
        shutil.copyfile(copy, TARGET)
    finally:
        shutil.rmtree(HERE)
    print(f"{TARGET}: {packed.files} files, {TARGET.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
