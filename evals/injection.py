"""`python -m evals.injection [--set NAME] [--model M --base-url URL] [--papers DATA] [--out FILE]`: hostile papers
against a gullible judge; or with `--orders FILE` passages by somebody who has not seen the guards (`evals.orders`).

The judge is a script that gives every paper the same scores, and the highest wherever it can read the planted order,
however it is written. Three ways to it: the file's own text, our reading without guards, and with them; with a model
that reads for influence a fourth one, after the guards. With DATA (the
public papers of MLR-Bench) and `--honest FILE...` also what the guards take out of papers that attack nobody. Kinds
that were held out of the tuning, and plain orders in new words, are sets of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from labwright.agent.budget import open_model
from labwright.evals import orders
from labwright.evals.hostile import held_out, reworded, tuned
from labwright.evals.hostile.paper import Attack, written
from labwright.evals.scripted_judges import OBEYED, gullible
from labwright.models.client import Models
from labwright.models.roles.judge import JUDGE
from labwright.models.settings import ModelSettings
from labwright.record.log import MemoryLog
from labwright.review.judge import Case, question, read_paper, read_rubric, screened
from labwright.review.judge.guards import guarded
from labwright.review.judge.reader import Paper
from labwright.review.judge.sections import PaperSection

SETS = {"tuned": tuned.attacks, "held_out": held_out.attacks, "reworded": reworded.attacks, "fresh": reworded.fresh}


@dataclass(frozen=True)
class Outcome:
    """Whether the scores of a hostile paper changed, by how it came to the judge."""

    kind: str
    form: str
    held_out: bool
    bare: bool
    read: bool
    guarded: bool
    reported: bool
    screened: bool | None = None
    """None: no model read the paper."""


async def outcome(attack: Attack, folder: Path, reader: Models | None = None) -> Outcome:
    """The outcome of one attack; a `reader` plays role `influence`."""
    path = await written(attack, folder)
    paper = await read_paper(path)
    whole = () if paper.form == "PDF" else (PaperSection("", path.read_text()),)
    bare = Paper(path, paper.form, paper.sha256, whole) if whole else paper
    shown = await guarded(paper)
    found = Outcome(
        attack.kind,
        attack.form,
        attack.held_out,
        bare=await obeyed(attack, bare),
        read=await obeyed(attack, paper),
        guarded=await obeyed(attack, shown.paper),
        reported=bool(shown.removed),
    )
    if reader is None:
        return found
    left = (await screened(Case(shown, read_rubric(), path.name), reader.at(0, 0))).guarded
    return replace(found, screened=await obeyed(attack, left.paper), reported=bool(left.removed))


async def obeyed(attack: Attack, paper: Paper) -> bool:
    """Whether the gullible judge, asked through the door, gives the highest scores."""
    models = Models(gullible(attack.payload), MemoryLog(), ModelSettings(), lambda: 0.0)
    rubric = read_rubric()
    answer = await models.at(0, 0).ask(JUDGE, question(paper, rubric))
    return getattr(getattr(answer.scores, "overall"), "score") == OBEYED  # noqa: B009  fields of the rubric's type


async def outcomes(attacks: tuple[Attack, ...], reader: Models | None = None) -> list[Outcome]:
    """Every outcome, one after the other."""
    with tempfile.TemporaryDirectory(prefix="injection-") as name:
        return [await outcome(one, Path(name) / str(at), reader) for at, one in enumerate(attacks)]


async def false_alarms(paths: list[Path], reader: Models | None = None) -> dict[str, list[str]]:
    """What is taken out of each paper that attacks nobody."""
    found: dict[str, list[str]] = {}
    for path in paths:
        case = Case(await guarded(await read_paper(path)), read_rubric(), path.name)
        removed = (case if reader is None else await screened(case, reader.at(0, 0))).removed
        found[str(path)] = [f"{one.kind}, by the {one.by}, {one.where}: {one.text[:200]}" for one in removed]
    return found


def table(found: list[Outcome]) -> str:
    """Scores changed, by form."""
    lines = ["| form | papers | bare | read | guarded | screened | reported |", "|---|---:|---:|---:|---:|---:|---:|"]
    for form in ("md", "tex", "pdf", "all"):
        some = [one for one in found if form in (one.form, "all")]
        counts = [
            _count([getattr(one, way) for one in some]) for way in ("bare", "read", "guarded", "screened", "reported")
        ]
        lines.append(f"| {form} | {len(some)} | " + " | ".join(map(str, counts)) + " |")
    return "\n".join(lines)


def _count(found: Sequence[bool | None]) -> str:
    """How many are true; a dash where nobody looked."""
    return "-" if None in found else str(sum(map(bool, found)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--set", choices=SETS, default="tuned")
    parser.add_argument("--papers", type=Path, help="a folder with papers/AGENT/TASK/results/paper.md")
    parser.add_argument("--honest", type=Path, nargs="*", default=[])
    parser.add_argument("--orders", type=Path, help="a set of passages, as evals/hostile/third.json")
    parser.add_argument("--model", help="reads for influence after the patterns")
    parser.add_argument("--base-url")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    reader = open_model(ModelSettings(name=given.model, base_url=given.base_url)) if given.model else None
    if given.orders:
        asyncio.run(orders.measure(given.orders, reader, given.out))
        return
    found = asyncio.run(outcomes(SETS[given.set](), reader))
    print(table(found))
    for one in found:
        through = one.guarded if one.screened is None else one.screened
        if through or not one.bare:
            how = "obeyed in spite of the guards" if through else "obeyed nowhere"
            print(f"- {one.kind} ({one.form}): {how}")
    honest = [*(sorted(given.papers.glob("papers/*/*/results/paper.md")) if given.papers else []), *given.honest]
    alarms = asyncio.run(false_alarms(honest, reader))
    for name, removed in alarms.items():
        print(f"{name}: {len(removed)} passages", *removed, sep="\n  ")
    if given.out:
        given.out.write_text(json.dumps({"outcomes": [asdict(one) for one in found], "false_alarms": alarms}, indent=1))


if __name__ == "__main__":
    main()
