"""Which files of a program one of its cells sees.

All but the plots, and of `arms/` not those of other arms: arm `without-x` has its own code in `arms/without_x.py`, if
the program is split so. What a cell does not see cannot change what it measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PLOTS = "plots.py"


def visible_files(
    source: Mapping[str, str], arm: str, *, arms: Iterable[str], reads: Mapping[str, str],
) -> dict[str, str]:
    """The files that a cell of an arm sees, of a program for these `arms`; `reads` as `record.syntax.reads_of` has it.

    What an arm reads shows its file too.
    """
    seen = {file_of(arm), file_of(reads.get(arm, arm))}
    hidden = {file_of(other) for other in arms} - seen | {PLOTS}
    return {name: text for name, text in source.items() if name not in hidden}


def file_of(arm: str) -> str:
    """Where an arm's own code lies."""
    return f"arms/{arm.replace('-', '_')}.py"
