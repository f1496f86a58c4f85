"""Ablations that a reviewer of the draft would ask for: asked once, run, scored, and told in the draft."""

from stages.missing.work import missing_ablations as missing_ablations
