"""Combine signs: one alone is a note, two from different sources make a node suspect.

Signs come from facts of the run (`run`) and from the reader of the code (`reader`). A finding of an exact check, a
probe or a syntax check is suspect by itself, and confirms any sign.
"""

from __future__ import annotations

from collections.abc import Iterable

from labwright.record.schema.nodes import HonestyFinding


def apply_corroboration(
    new_findings: Iterable[HonestyFinding], earlier_findings: Iterable[HonestyFinding] = ()
) -> tuple[HonestyFinding, ...]:
    """Return the new findings, with corroborated signs marked suspect; `earlier_findings` are the node's previous
    findings.
    """
    new_findings = tuple(new_findings)
    origins = {one.sign or "exact" for one in (*earlier_findings, *new_findings) if one.sign or one.suspect}
    if len(origins) < 2:
        return new_findings
    return tuple(one.model_copy(update={"suspect": True}) if one.sign else one for one in new_findings)
