"""`scientist ideate`: ideas for a topic, looked up and checked against this machine, as an idea file."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from agent.cli.checks import runs_folder_removed_if_refused
from agent.cli.edge import DONE, INTERRUPTED, LIMITED, say, traceback_saved
from agent.ideation import Order, state_in
from agent.ideation import ideate as find_ideas
from agent.settings import compose
from inspector.text import plain
from models.errors import BudgetSpent
from record.errors import WrongUse
from record.events.papers import Conceived, ContextRead
from stages.documents import check as check_documents
from stages.ideation.ideas import Step, idea_work, outcomes_of

MOST_BYTES = 200_000
"""Of a topic's file. Calls for papers have 1 to 10 kB."""
MOST_IDEAS = 50
STEPS: tuple[Step, ...] = ("idea", "literature", "proposal")


def ideate(
    out: Path | None, runs: Path, config: Path | None, json: bool, flags: dict[str, Any], **asked: Any,
) -> int:
    order = order_of(**asked)
    settings = compose(config=config, flags=flags)
    folder = out or folder_for(runs, order)
    console = Console(quiet=json)
    show(console, f"ideas for {order.name}, in {folder}")
    try:
        with runs_folder_removed_if_refused(folder.parent), traceback_saved(folder):
            state = find_ideas(order, settings, folder, on_idea=partial(show_idea, console),
                               on_documents=partial(show_documents, console))
    except KeyboardInterrupt:
        say(f"interrupted; continue with the same command (--out {folder})")
        return INTERRUPTED
    except BudgetSpent as error:
        say(f"{error}; the ideas so far are in {folder}")
        return LIMITED
    finally:
        if folder.is_dir() and not any(folder.iterdir()):  # nothing was begun, as for a model that cannot be opened
            folder.rmdir()
    outcomes = [one for number, one in outcomes_of(state) if number <= order.count]
    found, total = [one.idea for one in outcomes if one.idea is not None], state.total
    if json:
        print(dumps({"folder": str(folder), "file": str(folder / "ideas.json") if found else None,
                     "ideas": [one.as_json() for one in found],
                     "missing": [one.reason for one in outcomes if one.idea is None],
                     "usd": total.usd, "calls": total.calls}, indent=1))
    elif found:
        show(console, f"{len(found)} of {order.count} ideas, {total.calls} model calls: {folder / 'ideas.json'}")
        show(console, f"continue with: scientist run --idea {folder / 'ideas.json'} --idea-idx 0")
    return LIMITED if len(found) < order.count else DONE


# --- what is shown --------------------------------------------------------------------------------------------------


def show_idea(console: Console, number: int, one: Conceived) -> None:
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
        show(console, f"note: {remark}", indent=2)


def show_documents(console: Console, context: ContextRead) -> None:
    """What was read, one line a document."""
    for one in context.documents:
        dropped = f", {one.dropped} left out since the place they name is wrong" if one.dropped else ""
        unread = f", its last {one.unread} characters not read" if one.unread else ""
        show(console, f"read {one.file}: {one.pages} {'pages' if one.unit == 'p.' else 'parts'}, {len(one.statements)} "
                      f"statements{dropped}{unread}")
    for line in context.refused:
        show(console, f"not read: {line}")


def show(console: Console, text: str, *, style: str = "", indent: int = 0) -> None:
    """Print one line of what may be a model's or a stranger's words."""
    console.print(Text(" " * indent + plain(text), style=style), soft_wrap=True, highlight=False)


# --- what was asked for ---------------------------------------------------------------------------------------------


def order_of(*, topic: Path, count: int, rounds: int, steps: str, context: Path | None) -> Order:
    """The order behind a command line. Raises `WrongUse`."""
    if not 1 <= count <= MOST_IDEAS:
        raise WrongUse(f"-n {count}: ask for 1 to {MOST_IDEAS} ideas")
    if not 1 <= rounds <= 10:
        raise WrongUse(f"--rounds {rounds}: 1 to 10 rounds of reflection; with none, nothing is looked up")
    text, digest = topic_in(topic)
    if context is not None:
        check_documents(context)
    return Order(topic=text, sha256=digest, name=topic.name, count=count, rounds=rounds,
                 steps=steps_in(steps), context=context)


def steps_in(text: str) -> tuple[Step, ...]:
    """`idea,literature` as steps in their order; each includes those before it. Raises `WrongUse`."""
    named = [one.strip() for one in text.split(",") if one.strip()]
    if not named or any(name not in STEPS for name in named):
        raise WrongUse(f"--steps {text!r}: name one or more of {', '.join(STEPS)}, separated by commas")
    return STEPS[: 1 + max(index for index, name in enumerate(STEPS) if name in named)]


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
        raise WrongUse(f"--topic {path} is not text")
    if len(text.split()) < 3:
        raise WrongUse(f"--topic {path} holds fewer than three words: describe the topic")
    return text, hashlib.sha256(data).hexdigest()


def folder_for(runs: Path, order: Order) -> Path:
    """The newest folder in which this order was left unfinished, or a new one by time and topic."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(order.name).stem).strip("-.")[:60] or "topic"
    for folder in sorted(runs.glob(f"*_ideate_{slug}"), reverse=True):
        if unfinished(folder, order):
            return folder
    time = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"  # two orders may come within a second
    names = (time, *(f"{time}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not (place := runs / f"{name}_ideate_{slug}").exists())


def unfinished(folder: Path, order: Order) -> bool:
    """Whether a folder holds a part of this order, and not the whole."""
    state = state_in(folder)
    if state is None or state.ideating is None or state.ideating.sha256 != order.sha256:
        return False
    done = all(state.work_done(idea_work(number).task) for number in range(1, order.count + 1))
    last = {"idea": "ideas.json", "literature": "idea-*/related_work.md", "proposal": "idea-*/proposal.md"}
    return not done or len(list(folder.glob(last[order.steps[-1]]))) == 0
