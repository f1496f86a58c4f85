"""A deterministic researcher that answers typed inputs for one study, label noise and calibration (docs/offline.md)."""
