"""`scientist bib check`: a library held against public catalogues, and written with its records of verification."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from labwright.agent.cli.checks import check_papers
from labwright.agent.cli.edge import DONE, FINDINGS, check_output
from labwright.agent.cli.paper_commands import BibCheck
from labwright.agent.cli.shown import answer, line, table
from labwright.agent.settings import compose, credentials
from labwright.literature.library import as_bibtex, read_own
from labwright.literature.lookup import Library, open_literature
from labwright.literature.papers import read_papers
from labwright.record.errors import WrongUse
from labwright.record.folder import write_file
from labwright.record.nouns.frozen import Frozen


class Line(Frozen):
    """One entry. `why` is empty where it may be cited, and `record` that of its verification."""

    key: str
    outcome: str
    why: str
    record: str


def check(asked: BibCheck) -> int:
    settings, out = compose(config=asked.config, flags=asked.flags), asked.out
    if out is not None:
        check_output(out, asked.file)
    check_papers(asked.papers)
    entries = read_own(asked.file)

    async def verify() -> tuple[Library, tuple[str, ...]]:
        async with open_literature(settings.literature, credentials()) as literature:
            if asked.papers is None:
                return await literature.check(entries), ()
            found = await read_papers(asked.papers, literature, taken=[one.key for one in entries])
            return await literature.check((*entries, *found.entries)), found.notes

    library, notes = asyncio.run(verify())
    if out is not None:
        try:
            write_file(out, as_bibtex(one.entry for one in library.checked))
        except OSError as error:
            raise WrongUse(f"--out {out} cannot be written ({error.strerror})") from None
    found = [
        Line(
            key=one.entry.key,
            outcome="merged" if one.merged_into else one.outcome.outcome,
            why=one.reason,
            record=one.entry.fields.get("verified", ""),
        )
        for one in library.checked
    ]
    answer({"entries": [one.model_dump() for one in found], "notes": notes}, _lines(found, notes, out), json=asked.json)
    return DONE if len(library.usable) == len(library.checked) and not notes else FINDINGS


def _lines(entries: Sequence[Line], notes: Sequence[str], out: Path | None) -> Iterator[Text | Table]:
    yield table(
        "entry",
        "outcome",
        "why, or by whom",
        rows=(
            (one.key, one.outcome, one.why or "; ".join(part.split(": ", 1)[-1] for part in one.record.split("; ")[:3]))
            for one in entries
        ),
    )
    yield from map(line, notes)
    yield Text(f"{sum(not one.why for one in entries)} of {len(entries)} entries may be cited")
    if out is not None:
        yield line(f"written: {out}")
