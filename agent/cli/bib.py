"""`scientist bib check`: verify a bibliography against public catalogues and write it with its verification records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.commands import BibCheck
from labwright.agent.cli.errors import DONE, FINDINGS, check_output, format_line, print_result
from labwright.agent.cli.preflight import check_papers
from labwright.agent.settings import compose_settings, read_credentials
from labwright.literature.bibtex import format_bibtex, read_user_library
from labwright.literature.lookup import CheckedLibrary, open_literature, read_papers
from labwright.record.errors import UsageError
from labwright.record.run_folder import write_file
from labwright.record.schema import FrozenModel
from labwright.record.table import Table, format_quantity


class BibEntryResult(FrozenModel):
    """One entry. `why` is empty if it may be cited; `record` is the record of its verification."""

    key: str
    outcome: str
    why: str
    record: str


def check_bib(args: BibCheck) -> int:
    settings, out = compose_settings(config=args.config, flags=args.flags), args.out
    if out is not None:
        check_output(out, args.file)
    check_papers(args.papers)
    entries = read_user_library(args.file)

    async def verify() -> tuple[CheckedLibrary, tuple[str, ...]]:
        async with open_literature(settings.literature, read_credentials()) as literature:
            if args.papers is None:
                return await literature.check(entries), ()
            found = await read_papers(args.papers, literature, taken_keys=[one.key for one in entries])
            return await literature.check((*entries, *found.entries)), found.notes

    library, notes = asyncio.run(verify())
    if out is not None:
        try:
            write_file(out, format_bibtex(one.entry for one in library.checked))
        except OSError as error:
            raise UsageError(f"--out {out} cannot be written ({error.strerror})") from None
    found = [
        BibEntryResult(
            key=one.entry.key,
            outcome="merged" if one.merged_into else one.outcome.outcome,
            why=one.reason,
            record=one.entry.fields.get("verified", ""),
        )
        for one in library.checked
    ]
    print_result(
        {"entries": [one.model_dump() for one in found], "notes": notes},
        _format_results(found, notes, out),
        json=args.json,
    )
    return DONE if len(library.usable_entries) == len(library.checked) and not notes else FINDINGS


def _format_results(
    entries: Sequence[BibEntryResult], notes: Sequence[str], out: Path | None
) -> Iterator[Text | Table]:
    yield Table.of(
        ("entry", "outcome", "reason or source"),
        (
            (one.key, one.outcome, one.why or "; ".join(part.split(": ", 1)[-1] for part in one.record.split("; ")[:3]))
            for one in entries
        ),
    )
    yield from map(format_line, notes)
    yield Text(f"{sum(not one.why for one in entries)} of {format_quantity(len(entries), 'entry')} may be cited")
    if out is not None:
        yield format_line(f"written: {out}")
