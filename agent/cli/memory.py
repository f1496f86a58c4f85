"""`scientist memory list|forget`: the records of finished studies in a folder (`record.study_memory`)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rich.text import Text

from labwright.agent.cli.commands import MemoryForget, MemoryList
from labwright.agent.cli.errors import DONE, print_to_stderr
from labwright.agent.cli.output import format_line, print_lines
from labwright.inspector.safe_text import shorten
from labwright.record.errors import UsageError
from labwright.record.schema.earlier_study import EarlierStudy
from labwright.record.study_memory import forget_studies, format_study_json, read_memory


def list_records(args: MemoryList) -> int:
    found = read_memory(_check_folder(args.memory))
    for line in found.problems:
        print_to_stderr(line)
    if args.json:
        print(format_study_json(found.studies))
    else:
        print_lines(
            [line for one in found.studies for line in _format_study(one)] or [format_line("no records", "dim")]
        )
    return DONE


def forget_records(args: MemoryForget) -> int:
    gone = forget_studies(_check_folder(args.memory), args.record or "")
    print_lines([format_line(f"deleted {one.id} (run {one.run}): {shorten(one.title, 80)}") for one in gone])
    return DONE


def _check_folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: give the folder of a memory (--memory)")
    return folder


def _format_study(study: EarlierStudy) -> list[Text]:
    day = datetime.fromtimestamp(study.finished_at, UTC).date().isoformat()
    head = f"{study.id}  {day}  {shorten(study.run, 60)}: {shorten(study.title, 80)}"
    lines = [f"no paper: {study.failed}"] if study.failed else []
    lines += [f"{one.key} {one.verdict}{'' if one.confirmed else ' so far'}: {one.statement}" for one in study.verdicts]
    lines += [f"data: {', '.join(study.datasets)}"] if study.datasets else []
    lines += [f"failed experiments: {len(one.nodes)} ({one.kind}): {one.message}" for one in study.failures]
    return [format_line(head, "bold"), *(format_line(shorten(line, 200), label="  ") for line in lines)]
