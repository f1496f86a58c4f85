"""`scientist ideate`: ideas for a topic, looked up and checked against this machine, as an idea file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from json import dumps
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.checks import runs_folder_removed_if_refused
from labwright.agent.cli.edge import DONE, INTERRUPTED, LIMITED, say, traceback_saved
from labwright.agent.cli.paper_commands import Ideate
from labwright.agent.cli.shown import line, show
from labwright.agent.ideation import LOG, IdeaTask
from labwright.agent.ideation import ideate as find_ideas
from labwright.agent.settings import compose
from labwright.inspector.describe import describe
from labwright.models.errors import BudgetSpent
from labwright.record.errors import WrongUse
from labwright.record.events.papers import Conceived
from labwright.record.fold.apply import fold
from labwright.record.reading import RecordError, read_events
from labwright.stages.documents import check as check_documents
from labwright.stages.ideation.ideas import Step, idea_work, outcomes_of

MOST_BYTES = 200_000
"""Of a topic's file. Calls for papers have 1 to 10 kB."""
MOST_IDEAS = 50
STEPS: tuple[Step, ...] = ("idea", "literature", "proposal")


def ideate(asked: Ideate) -> int:
    order = order_of(asked)
    settings = compose(config=asked.config, flags=asked.flags)
    folder = asked.out or folder_for(asked.runs, order)
    tell: Callable[[Iterable[Text]], None] = (lambda lines: None) if asked.json else show
    tell([line(f"ideas for {order.name}, in {folder}")])
    try:
        with runs_folder_removed_if_refused(folder.parent), traceback_saved(folder):
            state = find_ideas(
                order,
                settings,
                folder,
                on_idea=lambda number, one: tell(idea_lines(number, one)),
                listener=lambda event, state: tell(map(line, filter(None, [describe(event, state)]))),
            )
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
    file = folder / "ideas.json"
    if asked.json:
        print(
            dumps(
                {
                    "folder": str(folder),
                    "file": str(file) if found else None,
                    "ideas": [one.as_json() for one in found],
                    "missing": [one.reason for one in outcomes if one.idea is None],
                    "usd": total.usd,
                    "calls": total.calls,
                },
                indent=1,
            )
        )
    elif found:
        show(
            [
                line(f"{len(found)} of {order.count} ideas, {total.calls} model calls: {file}"),
                line(f"continue with: scientist run --idea {file} --idea-idx 0"),
            ]
        )
    return LIMITED if len(found) < order.count else DONE


def idea_lines(number: int, one: Conceived) -> Iterator[Text]:
    """An idea in a few lines, or why there is none."""
    if one.idea is None:
        yield line(f"idea {number}: none. {one.reason}")
        return
    idea = one.idea
    yield line(f"idea {number}: {idea.idea.title} ({idea.idea.name})", "bold")
    fits = "fits this machine" if idea.fit.fits else f"does not fit: {'; '.join(idea.fit.why)}"
    for text in (
        idea.idea.short_hypothesis,
        idea.said,
        *(
            f"close: {close.work.title} ({close.work.year or 'year unknown'}): {close.difference}"
            for close in idea.closest
        ),
        f"by its estimate of {idea.estimate.hours:g} h it {fits}",
        *(f"note: {remark}" for remark in idea.remarks),
    ):
        yield line(text, label="  ")


# --- what was asked for ---------------------------------------------------------------------------------------------


def order_of(asked: Ideate) -> IdeaTask:
    """The order behind a command line. Raises `WrongUse`."""
    if not 1 <= asked.count <= MOST_IDEAS:
        raise WrongUse(f"-n {asked.count}: ask for 1 to {MOST_IDEAS} ideas")
    if not 1 <= asked.rounds <= 10:
        raise WrongUse(f"--rounds {asked.rounds}: 1 to 10 rounds of reflection; with none, nothing is looked up")
    text, digest = topic_in(asked.topic)
    if asked.context is not None:
        check_documents(asked.context)
    named = [one.strip() for one in asked.steps.split(",") if one.strip()]
    if not named or not set(named) <= set(STEPS):
        raise WrongUse(f"--steps {asked.steps!r}: name one or more of {', '.join(STEPS)}, separated by commas")
    steps = STEPS[: 1 + max(index for index, name in enumerate(STEPS) if name in named)]  # each with those before it
    return IdeaTask(
        topic=text,
        sha256=digest,
        name=asked.topic.name,
        count=asked.count,
        rounds=asked.rounds,
        steps=steps,
        context=asked.context,
    )


def topic_in(path: Path) -> tuple[str, str]:
    """The text of a topic's file and the hash of its bytes. Raises `WrongUse`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise WrongUse(
                f"--topic {path} is larger than {MOST_BYTES // 1000} kB: describe the topic, and give "
                "papers with --context DIR"
            )
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise WrongUse(f"cannot read --topic {path} ({error.strerror}): give a text file about a topic") from None
    except UnicodeDecodeError as error:
        raise WrongUse(f"--topic {path} is not UTF-8 text (byte {error.start}): save it as text") from None
    if "\0" in text:
        raise WrongUse(f"--topic {path} is not text")
    if len(text.split()) < 3:
        raise WrongUse(f"--topic {path} holds fewer than three words: describe the topic")
    return text, hashlib.sha256(data).hexdigest()


def folder_for(runs: Path, order: IdeaTask) -> Path:
    """The newest folder in which this order was left unfinished, or a new one by time and topic."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(order.name).stem).strip("-.")[:60] or "topic"
    for folder in sorted(runs.glob(f"*_ideate_{slug}"), reverse=True):
        if unfinished(folder, order):
            return folder
    time = f"{datetime.now():%Y-%m-%d_%H-%M-%S}"  # two orders may come within a second
    names = (time, *(f"{time}-{number}" for number in range(2, 1000)))
    return next(place for name in names if not (place := runs / f"{name}_ideate_{slug}").exists())


def unfinished(folder: Path, order: IdeaTask) -> bool:
    """Whether a folder holds a part of this order, and not the whole."""
    try:
        state = fold(read_events(folder / LOG))
    except RecordError:
        return False
    if state.ideating is None or state.ideating.sha256 != order.sha256:
        return False
    done = all(state.work_done(idea_work(number).task) for number in range(1, order.count + 1))
    last = {"idea": "ideas.json", "literature": "idea-*/related_work.md", "proposal": "idea-*/proposal.md"}
    return not done or not any(folder.glob(last[order.steps[-1]]))
