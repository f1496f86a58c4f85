"""`scientist init` and `scientist idea check`, and the checks of an idea that a run shares with them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from rich.text import Text

from labwright.agent.budget import check_prices_known, open_budgeted_models
from labwright.agent.cli.commands import IdeaCheck, Init
from labwright.agent.cli.errors import DONE, FINDINGS, print_to_stderr
from labwright.agent.cli.output import format_line, print_lines
from labwright.agent.cli.preflight import check_writable
from labwright.agent.data import add_idea_data, describe_targets, list_sources, survey_own_data
from labwright.agent.settings import Settings, compose_settings
from labwright.models.roles.ideation import IDEA_OF
from labwright.record.errors import UsageError
from labwright.record.event_log import MemoryLog
from labwright.record.run_folder import write_file
from labwright.record.schema.idea import Idea, find_ignored_fields, read_idea
from labwright.sandbox.errors import DatasetError
from labwright.sandbox.metrics import METRICS
from labwright.stages.ideation.idea_import import convert_text, find_idea_path, is_text_path, read_kept_idea, read_text

TEMPLATE = Path(__file__).with_name("idea_template.json")


def write_template(args: Init) -> int:
    if args.file.exists():
        raise UsageError(f"{args.file} already exists: give another FILE")
    check_writable(args.file, "FILE")
    write_file(args.file, TEMPLATE.read_text(encoding="utf-8"))
    print(f"{args.file} has an example of an idea: edit it, then check it with: scientist idea check {args.file}")
    return DONE


def check_idea(args: IdeaCheck) -> int:
    ignored = dict[str, str]()
    if is_text_path(args.file):
        read_text(args.file)
        if (idea := read_kept_idea(args.file)) is None:
            print(f"{args.file} is a text: a model extracts the idea when you run it (billed)")
            return DONE
    else:
        idea, ignored = read_idea(args.file, args.idea_idx), find_ignored_fields(args.file, args.idea_idx)
    notes = [f"the field {key!r} is not read" for key, near in ignored.items() if not near]
    faults = [f"the field {key!r} is unknown: did you mean {near!r}?" for key, near in ignored.items() if near]
    settings = compose_settings(config=args.config, flags=args.flags)
    try:
        settings = add_idea_data(settings, idea, args.file.parent)
        notes += (*survey_own_data(settings), *describe_targets(settings))
    except DatasetError as error:
        faults.append(str(error))
    faults += list_idea_faults(idea, settings)
    print_lines(_format_check(idea, notes, faults))
    return FINDINGS if faults else DONE


def _format_check(idea: Idea, notes: list[str], faults: list[str]) -> Iterator[Text]:
    yield format_line(f"{idea.name}: {idea.title}", "bold")
    yield format_line(
        f"{len(idea.experiments)} experiments; datasets: {'; '.join(idea.datasets) or 'the planner chooses'}"
    )
    yield format_line(f"metric: {idea.metric or 'the planner chooses'}")
    yield from (format_line(one) for one in notes)
    yield from (format_line(one, "red") for one in faults)
    if not faults:
        yield format_line("no faults found", "green")


def list_idea_faults(idea: Idea, settings: Settings) -> Iterator[str]:
    """Yield each dataset and metric of an idea that does not exist, with the nearest known name. Nothing is refused:
    a run passes them to the planner as text."""
    if settings.code.repository is not None:
        return
    metrics = [name for one in METRICS.values() for name in (one.name, one.title.lower())]
    if idea.metric and not _names_any(idea.metric, metrics):
        yield (f"the idea's Metric {idea.metric!r} names none of {', '.join(METRICS)}{_suggest(idea.metric, metrics)}")
    known = list(list_sources(settings))
    for text in idea.datasets:
        name = text.partition("=")[0].strip()
        if name not in known and not _names_any(text, known):
            yield (
                f"the idea's dataset {text!r} is none of {', '.join(known)}{_suggest(name, known)}; write your own as "
                "NAME=PATH,target=COLUMN"
            )


def _names_any(text: str, names: list[str]) -> bool:
    """Return whether a text contains one of the names as a word."""
    return re.search(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", text.lower()) is not None


def _suggest(text: str, known: list[str]) -> str:
    near = get_close_matches(text.lower(), known, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


# --- ideas from text files ------------------------------------------------------------------------------------------


def read_idea_from_text(path: Path, settings: Settings) -> Idea:
    """Return the idea of a document such as a proposal: the one saved next to it, or one extracted by the model and
    shown.

    Raises: `IdeaError`, `ModelError`.
    """
    read_text(path)  # raises before the model is called
    if (known := read_kept_idea(path)) is not None:
        print_to_stderr(f"idea of {path}, extracted earlier and saved in {find_idea_path(path)}: {known.title}")
        return known
    print_to_stderr(f"extracting the idea of {path} with {settings.models.list_candidates(IDEA_OF)[0].name} (billed)")
    check_prices_known(settings)  # the call counts against the run's budget but is not in its record
    idea = asyncio.run(convert_text(path, open_budgeted_models(settings, MemoryLog()).make_client(0, 0)))
    print_to_stderr(f"{idea.title}: {idea.short_hypothesis}")
    for number, step in enumerate(idea.experiments, 1):
        print_to_stderr(f"{number}. {step}")
    print_to_stderr(f"saved in {find_idea_path(path)}: edit it there, or edit the text")
    return idea
