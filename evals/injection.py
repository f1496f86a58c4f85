"""`python -m labwright.evals.injection [--model M --base-url URL] [--papers DATA] [--out FILE]`: test the guards with
papers that hide text, and a gullible judge; with `--orders FILE`, test the reader with passages by an author who has
not seen the program (`evals.injection_passages`).

The scripted judge gives every paper the same scores, and the highest if it can read the planted instruction in any
form. It reads the raw file, the text without guards and the text with guards; if a model screens for injection,
also the screened text. With DATA (the public papers of MLR-Bench) and `--honest FILE...`, the passages that are removed
from honest papers are reported.
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
from labwright.evals import injection_passages
from labwright.evals.hostile.hidden_text import list_attacks
from labwright.evals.hostile.paper import Attack, write_paper
from labwright.evals.scripted_judges import OBEYING_SCORE, make_gullible_judge
from labwright.models.client import Models
from labwright.models.roles.judge import JUDGE
from labwright.models.settings import ModelSettings
from labwright.record.event_log import MemoryLog
from labwright.record.table import Table
from labwright.review.judge import JudgeCase, build_judge_inputs, read_paper, read_rubric, screen_case
from labwright.review.judge.guards import guard_paper
from labwright.review.judge.paper_reader import Paper
from labwright.review.judge.sections import PaperSection


@dataclass(frozen=True)
class AttackOutcome:
    """Whether an attack changed the scores, by the text that the judge read."""

    kind: str
    form: str
    bare: bool
    read: bool
    guarded: bool
    reported: bool
    screened: bool | None = None
    """None if no model screened the paper."""


async def measure_attack(attack: Attack, folder: Path, reader: Models | None = None) -> AttackOutcome:
    """Return the outcome of one attack; `reader` plays role `influence`."""
    path = await write_paper(attack, folder)
    paper = await read_paper(path)
    whole = () if paper.form == "PDF" else (PaperSection("", path.read_text()),)
    bare = Paper(path, paper.form, paper.sha256, whole) if whole else paper
    shown = await guard_paper(paper)
    found = AttackOutcome(
        attack.kind,
        attack.form,
        bare=await is_obeyed(attack, bare),
        read=await is_obeyed(attack, paper),
        guarded=await is_obeyed(attack, shown.paper),
        reported=bool(shown.removed),
    )
    if reader is None:
        return found
    left = (await screen_case(JudgeCase(shown, read_rubric(), path.name), reader.make_client(0, 0))).guarded
    return replace(found, screened=await is_obeyed(attack, left.paper), reported=bool(left.removed))


async def is_obeyed(attack: Attack, paper: Paper) -> bool:
    """Return whether the gullible judge gives the highest scores."""
    models = Models(make_gullible_judge(attack.payload), MemoryLog(), ModelSettings(), lambda: 0.0)
    rubric = read_rubric()
    answer = await models.make_client(0, 0).ask(JUDGE, build_judge_inputs(paper, rubric))
    return getattr(getattr(answer.scores, "overall"), "score") == OBEYING_SCORE  # noqa: B009  fields of the rubric's type


async def measure_attacks(attacks: tuple[Attack, ...], reader: Models | None = None) -> list[AttackOutcome]:
    """Return the outcomes of all attacks in turn."""
    with tempfile.TemporaryDirectory(prefix="injection-") as name:
        return [await measure_attack(one, Path(name) / str(at), reader) for at, one in enumerate(attacks)]


async def find_false_alarms(paths: list[Path], reader: Models | None = None) -> dict[str, list[str]]:
    """Return the passages removed from each honest paper."""
    found: dict[str, list[str]] = {}
    for path in paths:
        case = JudgeCase(await guard_paper(await read_paper(path)), read_rubric(), path.name)
        removed = (case if reader is None else await screen_case(case, reader.make_client(0, 0))).removed
        found[str(path)] = [f"{one.kind}, by the {one.by}, {one.where}: {one.text[:200]}" for one in removed]
    return found


def format_table(found: list[AttackOutcome]) -> str:
    """Format how many attacks changed the scores, by format."""
    ways = ("bare", "read", "guarded", "screened", "reported")
    by_form = {form: [one for one in found if form in (one.form, "all")] for form in ("md", "tex", "pdf", "all")}
    rows = (
        (form, len(some), *(_format_count([getattr(one, way) for one in some]) for way in ways))
        for form, some in by_form.items()
    )
    return Table.of(("form", "papers", *ways), rows).to_markdown()


def _format_count(found: Sequence[bool | None]) -> str:
    """Return how many are true; a dash if none was measured."""
    return "-" if None in found else str(sum(map(bool, found)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--papers", type=Path, help="a folder with papers/AGENT/TASK/results/paper.md")
    parser.add_argument("--honest", type=Path, nargs="*", default=[])
    parser.add_argument("--orders", type=Path, help="a set of passages, such as evals/hostile/seven_languages.json")
    parser.add_argument("--model", help="screens papers after the guards; needed for --orders")
    parser.add_argument("--base-url")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    reader = open_model(ModelSettings(name=given.model, base_url=given.base_url)) if given.model else None
    if given.orders:
        if reader is None:
            parser.error("--orders needs --model: passages are judged by a model that reads them")
        asyncio.run(injection_passages.measure_set(given.orders, reader, given.out))
        return
    found = asyncio.run(measure_attacks(list_attacks(), reader))
    print(format_table(found))
    for one in found:
        through = one.guarded if one.screened is None else one.screened
        if through or not one.bare:
            how = "obeyed in spite of the guards" if through else "obeyed nowhere"
            print(f"- {one.kind} ({one.form}): {how}")
    honest = [*(sorted(given.papers.glob("papers/*/*/results/paper.md")) if given.papers else []), *given.honest]
    alarms = asyncio.run(find_false_alarms(honest, reader))
    for name, removed in alarms.items():
        print(f"{name}: {len(removed)} passages", *removed, sep="\n  ")
    if given.out:
        given.out.write_text(json.dumps({"outcomes": [asdict(one) for one in found], "false_alarms": alarms}, indent=1))


if __name__ == "__main__":
    main()
