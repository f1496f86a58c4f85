"""One process of `lab.launch`: `python -m lab._worker WORK ANSWER` calls a function; rank 0 keeps its answer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from lab._launch import unpacked


def main(work: str, answer: str) -> None:
    """Call the function. Raises what it raises."""
    import cloudpickle  # pyright: ignore[reportMissingTypeStubs]

    pickler: Any = cloudpickle
    value = unpacked(Path(work))()
    if os.environ["RANK"] == "0":
        Path(answer).write_bytes(pickler.dumps(value))


if __name__ == "__main__":
    main(*sys.argv[1:])
