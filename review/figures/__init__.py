"""Findings about figures that need no eyes."""

from review.figures.findings import SEVERITIES, About, Kind, LintFinding, refusing, remarks
from review.figures.lint import lint, lint_all

__all__ = ["SEVERITIES", "About", "Kind", "LintFinding", "lint", "lint_all", "refusing", "remarks"]
