"""The portfolio of a campaign as a table: what each idea could decide at what cost, and which were selected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from labwright.inspector.safe_text import format_duration, to_plain
from labwright.record.campaign import CampaignEntry, is_campaign, rank_forecast, read_campaign
from labwright.record.table import Table

SHORT_COLUMNS = 7
"""Columns without the long texts, for the terminal."""
NOTES = (
    "claims: those that the allowed seeds decide with a probability of 80 %, of all confirmatory claims; seeds, "
    "compute: what these claims need; half-width: widest interval of a claim, in smallest effects of interest",
    "surprises are pilot values on validation data: they play no part in the choice and confirm nothing",
)


def build_portfolio_table(folder: Path, verdicts: Mapping[str, str] | None = None) -> Table | None:
    """Build the table of the pilots of a campaign, best first; None if it is not a portfolio or has no pilot yet.

    `verdicts` has the verdicts of runs by name. Raises `UsageError`.
    """
    if not is_campaign(folder):
        return None
    entries = [one for one in read_campaign(folder).entries.values() if one.prospect is not None]
    rows = [_build_row(one) | {"verdicts": (verdicts or {}).get(one.name, "")} for one in sorted(entries, key=_rank)]
    return Table.of([*rows[0]], [[*row.values()] for row in rows], title="Portfolio", notes=NOTES) if rows else None


def shorten_table(table: Table) -> Table:
    """Return a table of a portfolio without its long texts and notes."""
    rows = [row[:SHORT_COLUMNS] for row in table.rows]
    return Table(table.columns[:SHORT_COLUMNS], rows, table.title)


def _rank(one: CampaignEntry) -> tuple[bool, tuple[float, float, str]]:
    assert one.prospect is not None
    return not one.chosen, rank_forecast(one.prospect)


def _build_row(one: CampaignEntry) -> dict[str, object]:
    found = one.prospect
    assert found is not None
    decidable = max((n for n in found.wanted.values() if n <= found.seeds), default=None)
    return {
        "idea": one.name,
        "choice": "continued" if one.chosen else "set aside" if one.set_aside else "to be chosen",
        "claims": f"{found.decided_count} of {found.hypotheses}",
        "seeds": decidable,
        "compute": format_duration(3600 * found.hours) if decidable else None,
        "decided per hour": f"{found.decided_per_hour:.3g}" if decidable else None,
        "half-width after 1 h": f"{max(found.half_widths.values()):.2g}" if found.half_widths else None,
        "reason": to_plain(one.set_aside),
        "why the answer matters": to_plain(" ".join(found.matters)),
        "surprises": to_plain("; ".join(found.surprises)),
    }
