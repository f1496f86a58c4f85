"""Printed values of `record.claims` as a reader of the PDF sees them."""

from __future__ import annotations

import re


def as_read(tex: str) -> str:
    """The TeX text of a printed value as plain text: `0.21 ± 0.03`, `-0.4`, `[0.1, 0.2]`."""
    plain = tex.replace(r"\ensuremath{-}", "-").replace(r"\ensuremath{\pm}", "±").replace(r"\,", " ")
    plain = plain.replace(r"\ensuremath{<}", "<")
    return re.sub(r"\s+", " ", plain).strip()
