"""Finished papers beside each other: what their records say, and which of two a judge prefers, in both orders."""

from __future__ import annotations

from review.comparison.pairing import Entrant, Pair, Tally, paired, shown, tally
from review.comparison.sides import KeyClaim, Side, side_of

__all__ = ["Entrant", "KeyClaim", "Pair", "Side", "Tally", "paired", "shown", "side_of", "tally"]
