"""A deterministic researcher that answers typed inputs for one study, label noise and calibration (docs/models.md)."""
