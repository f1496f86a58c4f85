"""The catalogue: one folder a study."""
