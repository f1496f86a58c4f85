"""`scientist bib check`: a library held against public catalogues, and written with its records of verification."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.cli.edge import DONE, FINDINGS
from agent.settings import compose, credentials
from inspector.text import plain
from literature.library import as_bibtex, read_own
from literature.lookup import Library, open_literature
from record.errors import WrongUse
from record.folder import write_file
from record.nouns.frozen import Frozen


class Line(Frozen):
    """One entry. `why` is empty where it may be cited, and `record` that of its verification."""

    key: str
    outcome: str
    why: str
    record: str


class Report(Frozen):
    """All entries."""

    entries: tuple[Line, ...]


def check(file: Path, out: Path | None, config: Path | None, json: bool, flags: dict[str, Any]) -> int:
    settings = compose(config=config, flags=flags)
    if out is not None and out.is_dir():
        raise WrongUse(f"--out {out} is a folder: give the path of a .bib file")
    entries = read_own(file)

    async def verify() -> Library:
        async with open_literature(settings.literature, credentials()) as literature:
            return await literature.check(entries)

    library = asyncio.run(verify())
    if out is not None:
        try:
            write_file(out, as_bibtex(one.entry for one in library.checked))
        except OSError as error:
            raise WrongUse(f"--out {out} cannot be written ({error.strerror})") from None
    report = Report(entries=tuple(
        Line(key=one.entry.key, outcome="merged" if one.merged_into else one.outcome.outcome, why=one.reason,
             record=one.entry.fields.get("verified", "")) for one in library.checked))
    if json:
        print(report.model_dump_json(indent=1))
    else:
        _show(report, Console(), out)
    return DONE if len(library.usable) == len(library.checked) else FINDINGS


def _show(report: Report, console: Console, out: Path | None) -> None:
    table = Table("entry", "outcome", "why, or by whom", box=None, pad_edge=False)
    for one in report.entries:
        source_id_and_date = "; ".join(part.split(": ", 1)[-1] for part in one.record.split("; ")[:3])
        table.add_row(Text(plain(one.key)), Text(one.outcome), Text(plain(one.why or source_id_and_date)))
    console.print(table)
    citable = sum(not one.why for one in report.entries)
    console.print(Text(f"{citable} of {len(report.entries)} entries may be cited"))
    if out is not None:
        console.print(Text(f"written: {plain(str(out))}"), soft_wrap=True)
