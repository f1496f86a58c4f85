"""The idea of a run that starts from a text, as a proposal: read out of it by the model, and shown."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from agent.budget import check_priced
from agent.commands.edge import say
from agent.settings import Settings
from models.roles.ideation import IDEA_OF
from record.nouns.idea import Idea
from stages.ideation.converting import beside, convert, kept, read_text


def idea_in(path: Path, settings: Settings) -> Idea:
    """The idea of a text: the one kept beside it, or read out of it now. Raises `IdeaError`, `ModelError`."""
    read_text(path)  # refused before a model is asked
    if (known := kept(path)) is not None:
        say(f"the idea of {path} as it was read before, in {beside(path)}: {known.title}")
        return known
    say(f"asking {settings.models.candidates(IDEA_OF)[0].name} for the idea in {path}; this costs a call")
    idea = asyncio.run(_asked(path, settings))
    say(f"{idea.title}: {idea.short_hypothesis}")
    for number, step in enumerate(idea.experiments, 1):
        say(f"{number}. {step}")
    say(f"in {beside(path)}: change it there, or the text")
    return idea


async def _asked(path: Path, settings: Settings) -> Idea:
    """Ask within the caps of the run; the call itself is not part of the run's record."""
    from agent.ideation import NoShares
    from models.budget import Budget
    from models.client import Models
    from models.failover import open_backend
    from record.log import MemoryLog

    check_priced(settings)
    log = MemoryLog()
    models = Models(open_backend(settings.models), log, settings.models, time.monotonic,
                    budget=Budget(settings.budget, log, NoShares(), settings.models))
    return await convert(path, models.at(0, 0))
