"""Several judges over one paper. A member that fails is reported missing with its reason; nothing stands in its place.

What it does not guarantee: that members of different names judge independently. Repeats at temperature 0 show how far a
provider repeats itself, not how sure a judgement is.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from models.door import Models
from models.errors import ModelError
from models.families import alike, family
from record.nouns.papers import Judgement, Missing, Panel, spreads
from review.judge.judge import Case, judged


@dataclass(frozen=True)
class Member:
    """A judge of a panel: its name as configured, and the door to it."""

    name: str
    models: Models


async def panel(case: Case, members: Sequence[Member], *, repeats: int = 1, writers: Sequence[str] = ()) -> Panel:
    """Every member asked `repeats` times, members side by side. `writers` are the models that wrote the paper."""
    outcomes = await asyncio.gather(*(_member(case, one, repeats) for one in members))
    found = tuple(one for outcome in outcomes for one in outcome)
    given = tuple(one for one in found if isinstance(one, Judgement))
    return Panel(
        paper=case.name, rubric=case.rubric.name, asked=len(members) * repeats, judgements=given,
        dimensions=spreads(given),
        missing=tuple(one for one in found if isinstance(one, Missing)), audit=case.audit,
        warnings=(*told([one.name for one in members], writers), *_one_opinion(members)))


async def _member(case: Case, member: Member, repeats: int) -> list[Judgement | Missing]:
    """One judge's judgements. A model that cannot be configured or is not to be had is not asked again."""
    found: list[Judgement | Missing] = []
    desk = member.models.at(0, 0)
    shown = case if member.models.sees else blind(case)
    for repeat in range(1, repeats + 1):
        try:
            found.append(await judged(shown, desk, model=member.models.name_of("judge")))
        except ModelError as error:
            found.append(Missing(model=member.name, repeat=repeat, why=str(error)))
    return found


def blind(case: Case) -> Case:
    """The case for a model that looks at no pictures."""
    return replace(case, pictures=None)


def told(judges: Sequence[str], writers: Sequence[str]) -> tuple[str, ...]:
    """Warnings on judges of a writer's family."""
    return tuple(
        f"{judge} is of the family that wrote the paper ({writer}): judges tend to favour their own kind"
        for judge in dict.fromkeys(judges) for writer in dict.fromkeys(writers) if alike(judge, writer))


def _one_opinion(members: Sequence[Member]) -> tuple[str, ...]:
    names = list(dict.fromkeys(one.name for one in members))
    same = [f"{first} and {second} are of one family: their agreement says less"
            for first, second in itertools.combinations(names, 2) if alike(first, second)]
    unknown = [f"the family of {name} is not known from its name" for name in names if family(name) is None]
    return (*same, *(unknown if len(names) > 1 else ()))
