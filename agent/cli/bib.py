"""`scientist bib check`: a library held against public catalogues, and written with its records of verification."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.cli.checks import check_papers
from agent.cli.edge import DONE, FINDINGS, WrongUse
from agent.cli.options import AsJson, Config, Papers, settings_options
from agent.settings import Settings, compose, credentials
from inspector.text import plain
from literature import LibraryError
from literature.library import Entry, as_bibtex, read_own
from literature.lookup import Checked, Library, open_literature
from literature.papers import read_papers
from record.folder import write_file
from record.nouns.frozen import Frozen


class _Line(Frozen):
    key: str
    outcome: str
    why: str
    record: str


class _Report(Frozen):
    entries: tuple[_Line, ...]
    notes: tuple[str, ...]


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.callback()
def bib() -> None:
    """Look after a library of references."""


@app.command("check")
@settings_options("assignments")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .bib file.")],
    out: Annotated[Path | None, typer.Option(
        help="Write the library here, each verified entry with the record of its verification.")] = None,
    papers: Papers = None,
    config: Config = None,
    json: AsJson = False,
    *, flags: dict[str, Any],
) -> int:
    """Verify a library. Title, authors and year against public catalogues; exit 5 where something may not be cited."""
    settings = compose(config=config, flags=flags)
    if out is not None and out.is_dir():
        raise WrongUse(f"--out {out} is a folder: give the path of a .bib file")
    check_papers(papers)
    try:
        library, notes = asyncio.run(_checked(read_own(file), papers, settings))
    except LibraryError as error:
        raise WrongUse(str(error)) from None
    if out is not None:
        try:
            write_file(out, as_bibtex(one.entry for one in library.checked))
        except OSError as error:
            raise WrongUse(f"--out {out} cannot be written ({error.strerror})") from None
    report = _Report(entries=tuple(map(_line, library.checked)), notes=notes)
    if json:
        print(report.model_dump_json(indent=1))
    else:
        _show(report, Console(), out)
    return DONE if len(library.usable) == len(library.checked) and not notes else FINDINGS


async def _checked(
    entries: tuple[Entry, ...], papers: Path | None, settings: Settings,
) -> tuple[Library, tuple[str, ...]]:
    async with open_literature(settings.literature, credentials()) as literature:
        if papers is None:
            return await literature.check(entries), ()
        found = await read_papers(papers, literature, taken=[one.key for one in entries])
        return await literature.check((*entries, *found.entries)), found.notes


def _line(one: Checked) -> _Line:
    return _Line(key=one.entry.key, outcome="merged" if one.merged_into else one.outcome.outcome, why=one.reason,
                 record=one.entry.fields.get("verified", ""))


def _show(report: _Report, console: Console, out: Path | None) -> None:
    table = Table("entry", "outcome", "why, or by whom", box=None, pad_edge=False)
    for one in report.entries:
        table.add_row(Text(plain(one.key)), Text(one.outcome), Text(plain(one.why or _by(one.record))))
    console.print(table)
    for line in _ends(report, out):
        console.print(Text(line), soft_wrap=True)


def _by(record: str) -> str:
    """Source, identifier and date of a record."""
    return "; ".join(part.split(": ", 1)[-1] for part in record.split("; ")[:3])


def _ends(report: _Report, out: Path | None) -> Iterator[str]:
    yield from map(plain, report.notes)
    held = sum(not one.why for one in report.entries)
    yield f"{held} of {len(report.entries)} entries may be cited"
    if out is not None:
        yield f"written: {plain(str(out))}"
