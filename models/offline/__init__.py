"""A deterministic researcher that answers typed inputs for a small catalogue of studies (docs/offline.md)."""
