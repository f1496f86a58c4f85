"""A copy of a run for reading: its record, paper and programs, without data, arrays and the figures of nodes.

    python examples/reading_copy.py RUN TARGET [OLD=NEW ...]

`examples/early-stopping.zip` was made by it, and by `scientist export TARGET --zip FILE --small`. OLD=NEW replaces a
path of the machine in the first event of the record and in the files that repeat it; nothing else is changed. Not
kept: an audit of such a copy says what is not there.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from labwright.record.event_log import read_rows, read_state
from labwright.record.line_store import write_rows

KEPT = ("idea.json", "data_plan.json", "environment.txt", "library.bib", "config.yaml", "literature/library.bib")
TEXT = frozenset({".json", ".yaml", ".txt", ".bib", ".tex", ".md", ".csv", ".py"})
LEFT_OUT = (".log", ".sty", ".cls", ".png")


def main() -> None:
    run, target = map(Path, sys.argv[1:3])
    pairs = [tuple(one.split("=", 1)) for one in sys.argv[3:]]

    def replaced(text: str) -> str:
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    version = read_state(run).paper.version
    paper = run / "paper" if version == 1 else run / "paper" / f"v{version}"
    files = [run / name for name in KEPT] + [
        path
        for folder in (paper, run / "review")
        for path in folder.rglob("*")
        if path.is_file()
        and "rounds" not in path.parts
        and path.suffix not in LEFT_OUT
        and (folder == paper or version == 1 or path.stem.endswith(f"-{version}"))
    ]
    files += [path for path in run.glob("nodes/*/source/**/*") if path.is_file()]
    for path in files:
        if path.exists():
            place = target / path.relative_to(run)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in TEXT:
                place.write_text(replaced(path.read_text()))
            else:
                shutil.copyfile(path, place)
    write_rows(target / "events.jsonl", "run", [(at, replaced(body)) for at, body in read_rows(run / "events.jsonl")])


if __name__ == "__main__":
    main()
