"""What must be the same of two runs: the tree with its numbers, and the LaTeX of the paper but for what it took."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from labwright.models.roles import ROLES
from labwright.record.reducers.run_state import RunState
from labwright.record.schema.nodes import StageName

COUNT = r"(?:--|\\rec\{\d+\})"
EFFORT = re.compile(
    r"^([^&]+ & \\rec\{\d+\} & \\rec\{\d+\} & )\\rec\{\d+\}( & \\rec\{[\d.]+\} & )\\rec\{[\d.]+\}(?= & [^&]*\\\\)"
)
"""Of an arm's row: trials, versions, seconds, and both against the first arm."""
PARITY = re.compile(rf"^([^&]+(?: & {COUNT}){{4}}) & \\rec\{{[\d.]+\}} & [^&]*(?=\\\\)")
"""Of an arm's row: cells, steps, rows and parameters, seconds, and what is unequal."""
STAGE = re.compile(rf"^((?:{'|'.join(get_args(StageName))})(?: & \\rec\{{\d+\}}){{4}}) & \\rec\{{\d+\}}(?= & )")
"""Of a stage's row: nodes, good ones, suspect ones and attempts, seconds."""
UNEQUAL = re.compile(
    r"^\\item .* differ in seconds for a run; .*\n| and seconds(?= for a run; the disclosure has)", re.M
)
"""That two arms took unequal seconds, where it is told of no other thing, or the word beside others."""
PHASES = re.compile(r"^Computing time in seconds.*?\\end\{description\}", re.M | re.S)
"""Computing time spent and planned, by phase of the run."""
USAGE = re.compile(r"(?<=model calls read )\\rec\{\d+\}( tokens and wrote )\\rec\{\d+\}")
"""Tokens of all model calls, with those of attempts that failed."""


def comparable_tree(state: RunState) -> list[tuple[object, ...]]:
    return [
        (
            n.id,
            n.parent,
            n.stage,
            n.kind,
            n.seed,
            n.status,
            n.varies,
            n.source_sha256,
            n.measurements,
            state.search.test_measurements.get(n.id),
        )
        for n in state.nodes.values()
    ]


def comparable_latex(run: Path, *, usage: bool = True) -> dict[str, str]:
    """The sources of the paper, with the server's port, and the time that the work took, masked; without `usage`, the
    tokens, too, of which a run whose calls failed needs more."""

    def mask(text: str) -> str:
        text = PHASES.sub(lambda found: re.sub(r"\d+", "#", found[0]), UNEQUAL.sub("", text))
        return "\n".join(map(_mask, (text if usage else USAGE.sub(r"#\1#", text)).splitlines()))

    return {path.name: mask(path.read_text()) for path in sorted((run / "paper").glob("*.tex"))}


def _mask(line: str) -> str:
    """A line without the seconds of a node, a stage or an arm, and without calls, tokens and seconds of a role."""
    line = re.sub(r"\\rec\{\d+\} seconds", "# seconds", line)
    line = STAGE.sub(r"\1 & #", PARITY.sub(r"\1 & # & # ", EFFORT.sub(r"\1#\2#", line)))
    line = re.sub(r"127\.0\.0\.1:\d+", "#", line)
    if re.match(r"\\rec\{n\d{4}\}", line):
        return re.sub(r"\\rec\{[\d.]+\}(?= & [^&]*\\\\\*?$)", "#", line)
    roles = "|".join(re.escape(role.replace("_", r"\_\allowbreak{}")) for role in (*ROLES, "total"))
    return re.sub(r"\d+", "#", line) if re.match(rf"(\\midrule )?({roles}) &", line) else line
