"""`scientist ideate`: ideas for a topic, looked up and held against this machine, as an idea file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from agent.commands.edge import DONE, INTERRUPTED, LIMITED, WrongUse, data_refused, say, traceback_saved
from agent.commands.run import nothing_left_of_refusal
from agent.settings import compose, from_assignments
from inspector.text import plain

if TYPE_CHECKING:
    from agent.ideation import Order
    from record.events.papers import Conceived, ContextRead
    from record.fold.state import RunState
    from stages.ideation.ideas import Step

MOST_BYTES = 200_000
"""Of a topic's file. Calls for papers have 1 to 10 kB."""
MOST_IDEAS = 50
STEPS = ("idea", "literature", "proposal")


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line. `flags` are settings by dotted key."""

    topic: Path
    count: int
    rounds: int
    out: Path | None
    runs: Path
    steps: str
    context: Path | None
    config: Path | None
    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    assignments: tuple[str, ...] = ()
    as_json: bool = False


def ideate(request: Request) -> int:
    """Find the ideas, or go on with them; returns the exit code: 3 where there are fewer than asked for."""
    from agent.ideation import ideate as work
    from models.errors import BudgetSpent

    order = ordered(request)
    settings = compose(config=request.config, flags=from_assignments(request.assignments) | request.flags)
    folder = request.out or folder_for(request.runs, order)
    console = Console(quiet=request.as_json)
    show(console, f"ideas for {order.name}, in {folder}")
    try:
        with nothing_left_of_refusal(folder.parent), traceback_saved(folder), data_refused(), _refused():
            state = work(order, settings, folder, told=lambda number, one: tell(console, number, one),
                         read=lambda one: tell_documents(console, one))
    except KeyboardInterrupt:
        say(f"interrupted; go on with the same command (--out {folder})")
        return INTERRUPTED
    except BudgetSpent as error:
        say(f"{error}; the ideas so far are in {folder}")
        return LIMITED
    finally:
        _not_left_empty(folder)
    return _ended(request, order, folder, state, console)


def _ended(request: Request, order: Order, folder: Path, state: RunState, console: Console) -> int:
    from stages.ideation.ideas import outcomes_of

    asked = [one for number, one in outcomes_of(state) if number <= order.count]
    missing = [one.reason for one in asked if one.idea is None]
    found = [one.idea for one in asked if one.idea is not None]
    if request.as_json:
        print(json.dumps({"folder": str(folder), "file": str(folder / "ideas.json") if found else None,
                          "ideas": [one.as_json() for one in found], "missing": missing,
                          "usd": state.total.usd, "calls": state.total.calls}, indent=1))
    elif found:
        total = state.total
        show(console, f"{len(found)} of {order.count} ideas, {total.calls} model calls: {folder / 'ideas.json'}")
        show(console, f"go on with: scientist run --idea {folder / 'ideas.json'} --idea-idx 0")
    return LIMITED if len(found) < order.count else DONE


# --- what is shown --------------------------------------------------------------------------------------------------


def tell(console: Console, number: int, one: Conceived) -> None:
    """An idea in a few lines, or why there is none."""
    if one.idea is None:
        show(console, f"idea {number}: none. {one.reason}")
        return
    idea = one.idea
    show(console, f"idea {number}: {idea.idea.title} ({idea.idea.name})", style="bold")
    show(console, idea.idea.short_hypothesis, indent=2)
    show(console, idea.said, indent=2)
    for close in idea.closest:
        show(console, f"close: {close.work.title} ({close.work.year or 'year unknown'}): {close.difference}", indent=2)
    fits = "fits this machine" if idea.fit.fits else f"does not fit: {'; '.join(idea.fit.why)}"
    show(console, f"by its estimate of {idea.estimate.hours:g} h it {fits}", indent=2)
    for remark in idea.remarks:
        show(console, f"mind: {remark}", indent=2)


def tell_documents(console: Console, context: ContextRead) -> None:
    """What was read, one line a document."""
    for one in context.documents:
        dropped = f", {one.dropped} left out since their place is wrong" if one.dropped else ""
        unread = f", its last {one.unread} characters not read" if one.unread else ""
        show(console, f"read {one.file}: {one.pages} {'pages' if one.unit == 'p.' else 'parts'}, {len(one.statements)} "
                      f"statements{dropped}{unread}")
    for line in context.refused:
        show(console, f"not read: {line}")


def show(console: Console, text: str, *, style: str = "", indent: int = 0) -> None:
    """Print one line of what may be a model's or a stranger's words."""
    console.print(Text(" " * indent + plain(text), style=style), soft_wrap=True, highlight=False)


# --- what was asked for ---------------------------------------------------------------------------------------------


def ordered(request: Request) -> Order:
    """The order behind a command line. Raises `WrongUse`."""
    from agent.ideation import Order
    from stages.documents import ContextError, check

    if not 1 <= request.count <= MOST_IDEAS:
        raise WrongUse(f"-n {request.count}: ask for 1 to {MOST_IDEAS} ideas")
    if not 1 <= request.rounds <= 10:
        raise WrongUse(f"--rounds {request.rounds}: 1 to 10 rounds of reflection; with none, nothing is looked up")
    text, digest = topic_in(request.topic)
    if request.context is not None:
        try:
            check(request.context)
        except ContextError as error:
            raise WrongUse(str(error)) from None
    return Order(topic=text, sha256=digest, name=request.topic.name, count=request.count, rounds=request.rounds,
                 steps=steps_in(request.steps), context=request.context)


def steps_in(text: str) -> tuple[Step, ...]:
    """`idea,literature` as steps in their order; each takes those before it along. Raises `WrongUse`."""
    named = [one.strip() for one in text.split(",") if one.strip()]
    wrong = [one for one in named if one not in STEPS]
    if wrong or not named:
        raise WrongUse(f"--steps {text!r}: name one or more of {', '.join(STEPS)}, divided by commas")
    last = max(STEPS.index(one) for one in named)
    chosen: tuple[Step, ...] = ("idea", "literature", "proposal")
    return chosen[: last + 1]


def topic_in(path: Path) -> tuple[str, str]:
    """The text of a topic's file and the hash of its bytes. Raises `WrongUse`."""
    try:
        if path.is_dir():
            raise WrongUse(f"--topic {path} is a folder: give a text file that describes a topic")
        if path.stat().st_size > MOST_BYTES:
            raise WrongUse(f"--topic {path} is larger than {MOST_BYTES // 1000} kB: describe the topic, and give "
                           "papers with --context DIR")
        data = path.read_bytes()
    except FileNotFoundError:
        raise WrongUse(f"there is no --topic {path}: give a text file that describes a topic") from None
    except OSError as error:
        raise WrongUse(f"cannot read --topic {path}: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WrongUse(f"--topic {path} is not UTF-8 text (byte {error.start}): save it as text") from None
    if "\0" in text:
        raise WrongUse(f"--topic {path} is not text, whatever its name says")
    if len(text.split()) < 3:
        raise WrongUse(f"--topic {path} holds fewer than three words: describe the topic")
    return text, hashlib.sha256(data).hexdigest()


def folder_for(runs: Path, order: Order) -> Path:
    """The newest folder in which this order was left unfinished, or a new one by time and topic."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(order.name).stem).strip("-.")[:60] or "topic"
    for folder in sorted(runs.glob(f"*_ideate_{slug}"), reverse=True):
        if unfinished(folder, order):
            return folder
    return _free(runs, f"{datetime.now():%Y-%m-%d_%H-%M-%S}", f"_ideate_{slug}")


def _free(runs: Path, time: str, ending: str) -> Path:
    """A folder that is not there yet: two orders may come within a second."""
    names = (time, *(f"{time}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not (place := runs / f"{name}{ending}").exists())


def unfinished(folder: Path, order: Order) -> bool:
    """Whether a folder holds a part of this order, and not the whole."""
    from agent.ideation import state_in
    from stages.ideation.ideas import idea_work

    state = state_in(folder)
    if state is None or state.ideating is None or state.ideating.sha256 != order.sha256:
        return False
    done = all(state.work_done(idea_work(number).task) for number in range(1, order.count + 1))
    last = {"idea": "ideas.json", "literature": "idea-*/related_work.md", "proposal": "idea-*/proposal.md"}
    return not done or len(list(folder.glob(last[order.steps[-1]]))) == 0


@contextmanager
def _refused() -> Generator[None]:
    """A folder that is not fit is wrong use."""
    from agent.ideation import IdeationError

    try:
        yield
    except IdeationError as error:
        raise WrongUse(str(error)) from None


def _not_left_empty(folder: Path) -> None:
    """Remove a folder in which nothing was begun, as for a model that cannot be opened."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
