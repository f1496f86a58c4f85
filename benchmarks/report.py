"""Options and output that all benchmarks share."""

from __future__ import annotations

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path


def make_parser(description: str | None) -> ArgumentParser:
    """Return a parser with `--out`, the file for the report."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="file for the JSON report")
    return parser


def print_report(found: object, out: Path | None) -> None:
    """Print a report as JSON, and write it to a file if one is given."""
    text = json.dumps(found, indent=1)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
