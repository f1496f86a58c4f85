"""`python -m benchmarks.external_papers DATA`: audit papers with results, and draw a sample of numbers to read.

DATA has `papers/AGENT/TASK/results/paper.md` next to the result files of each paper, as the public agent papers of
MLR-Bench have (never copied here), or `NAME/paper.md` and `NAME/results`. Prints the table of docs/audit.md; with
`--sample N --seed S` also N numbers classified as found and N as unsupported, each with its sentence and the matched
line, for a human to judge. With `--alter N`, N numbers of each paper that are in its result files are changed by 5 to
14 %, one at a time, and those that become findings are counted.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import tempfile
from pathlib import Path

from benchmarks.report import make_parser
from labwright.record.table import Table
from labwright.review.external_papers.verdicts import (
    CLASSES,
    ExternalPaperAudit,
    NumberVerdict,
    VerdictClass,
    audit_paper,
)

ALTERED = (0.86, 0.91, 0.94, 1.05, 1.08, 1.13)


def audit_papers(data: Path) -> dict[str, ExternalPaperAudit]:
    """Audit every paper, by agent and task."""
    papers = list_papers(data).items()
    return {name: asyncio.run(audit_paper(path, results=results)) for name, (path, results) in papers}


def list_papers(data: Path) -> dict[str, tuple[Path, Path | None]]:
    """Return each paper with its results, by agent and task, or by folder."""
    public = {
        f"{path.parts[-4].removeprefix('end2end_')}/{path.parts[-3]}": (path, path.parent)
        for path in sorted((data / "papers").glob("*/*/results/paper.md"))
    }
    own = {
        path.parent.name: (path, part if (part := path.parent / "results").is_dir() else None)
        for path in sorted(data.glob("*/paper.md"))
    }
    return public | own


def count_altered_found(data: Path, most: int) -> tuple[int, int]:
    """Alter up to `most` numbers of each paper, one at a time; return how many are named as findings, of how many."""
    named = tried = 0
    for name, (path, results) in list_papers(data).items():
        text, before = path.read_text(), asyncio.run(audit_paper(path, results=results))
        printed = {one.claim.number.text for one in before.verdicts if one.kind == "found"}
        bodies = sorted({found[0] for one in printed if (found := re.search(r"\d+\.\d+", one)) and len(found[0]) > 3})
        for body in random.Random(name).sample(bodies, min(most, len(bodies))):
            factor = random.Random(name + body).choice(ALTERED)
            altered = f"{float(body) * factor:.{len(body.partition('.')[2])}f}"
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / path.name
                copy.write_text(re.sub(rf"(?<![\d.]){re.escape(body)}(?!\d)", altered, text))
                after = asyncio.run(audit_paper(copy, results=results))
            named += any(altered in one.claim.number.text for one in after.missing_results) or any(
                altered in one.description for one in after.contradictions
            )
            tried += 1
    return named, tried


def format_table(audited: dict[str, ExternalPaperAudit]) -> str:
    """Format the counts by class, one row per paper."""
    rows = {
        name: (
            audit.result_value_count,
            audit.number_count,
            *audit.class_counts.values(),
            audit.prose_only_count,
            len(audit.missing_results),
            len(audit.contradictions),
        )
        for name, audit in audited.items()
    }
    head = ("paper", "result numbers", "numbers", *CLASSES, "reports only", "missing", "contradictions")
    total = map(sum, zip(*rows.values(), strict=True))
    return Table.of(head, [*((name, *row) for name, row in rows.items()), ("**all**", *total)]).to_markdown()


def summarize(audited: dict[str, ExternalPaperAudit]) -> dict[str, object]:
    """Return the same counts, by paper."""
    return {
        name: {
            "result numbers": one.result_value_count,
            "numbers": one.number_count,
            **one.class_counts,
            "in reports only": one.prose_only_count,
            "missing": len(one.missing_results),
            "contradictions": [str(found) for found in one.contradictions],
        }
        for name, one in audited.items()
    }


def draw_sample(
    audited: dict[str, ExternalPaperAudit], kind: VerdictClass, size: int, seed: int
) -> list[tuple[str, NumberVerdict]]:
    """Draw numbers of a class with a seed."""
    every = [(name, verdict) for name, one in audited.items() for verdict in one.verdicts if verdict.kind == kind]
    return random.Random(seed).sample(every, min(size, len(every)))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--alter", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    audited = audit_papers(arguments.data)
    print(format_table(audited))
    if arguments.alter:
        print(
            "altered numbers that are findings: {} of {}".format(*count_altered_found(arguments.data, arguments.alter))
        )
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(summarize(audited), indent=1) + "\n")
    for kind in ("found", "unsupported") if arguments.sample else ():
        print(f"\n{kind}, seed {arguments.seed}:")
        for at, (name, one) in enumerate(draw_sample(audited, kind, arguments.sample, arguments.seed), 1):
            print(
                f"{at:3} {name} | {one.claim.number.text} | {one.claim.where} | {one.claim.context[:200]!r} | "
                f"{one.evidence} | chance {one.chance:.3f}"
            )


if __name__ == "__main__":
    main()
