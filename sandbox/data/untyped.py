"""Libraries that come without types, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any


def pyarrow(part: str = "") -> Any:
    """pyarrow, or one of its modules: `pyarrow("compute")`."""
    return importlib.import_module(f"pyarrow.{part}" if part else "pyarrow")


def hugging_face() -> Any:
    """The `datasets` library."""
    return importlib.import_module("datasets")
