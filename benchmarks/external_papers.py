"""`python -m benchmarks.external_papers DATA`: audit papers with results, and draw a sample of numbers to read.

DATA has `papers/AGENT/TASK/results/paper.md` next to the result files of each paper, as the public agent papers of
MLR-Bench have (never copied here), or `NAME/paper.md`, `NAME/results` and `NAME/code`. Prints the table of
docs/audit.md; with `--sample N --seed S` also N numbers classified as found and N as
unsupported, each with its sentence and the matched line, for a human to judge.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from pathlib import Path

from labwright.review.external_papers import ExternalPaperAudit, audit_paper
from labwright.review.external_papers.verdicts import CLASSES, NumberVerdict, VerdictClass


def audit_papers(data: Path) -> dict[str, ExternalPaperAudit]:
    """Audit every paper, by agent and task."""
    public = {
        f"{path.parts[-4].removeprefix('end2end_')}/{path.parts[-3]}": audit_paper(path, results=path.parent)
        for path in sorted((data / "papers").glob("*/*/results/paper.md"))
    }
    own = {path.parent.name: audit_paper(path, **_find_inputs(path.parent)) for path in sorted(data.glob("*/paper.md"))}
    return {name: asyncio.run(audit) for name, audit in (public | own).items()}


def _find_inputs(folder: Path) -> dict[str, Path | None]:
    return {name: part if (part := folder / name).is_dir() else None for name in ("results", "code")}


def format_table(audited: dict[str, ExternalPaperAudit]) -> str:
    """Format the counts by class, one row per paper."""
    lines = [
        "| paper | result numbers | numbers | " + " | ".join(CLASSES) + " | reports only | missing | contradictions |",
        "|---|" + "---:|" * (len(CLASSES) + 5),
    ]
    total = [0] * (len(CLASSES) + 5)
    for name, audit in audited.items():
        row = [
            audit.result_value_count,
            audit.number_count,
            *audit.class_counts.values(),
            audit.prose_only_count,
            len(audit.missing_results),
            len(audit.contradictions),
        ]
        total = [a + b for a, b in zip(total, row, strict=True)]
        lines.append(f"| {name} | " + " | ".join(map(str, row)) + " |")
    return "\n".join([*lines, "| **all** | " + " | ".join(map(str, total)) + " |"])


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    audited = audit_papers(arguments.data)
    print(format_table(audited))
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
