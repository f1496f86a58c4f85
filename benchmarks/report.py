"""Options and output that all benchmarks share."""

from __future__ import annotations

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping
from pathlib import Path


def make_parser(description: str | None) -> ArgumentParser:
    """Return a parser with `--out`, the file for the report."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="file for the JSON report")
    return parser


def list_words(options: Mapping[str, object]) -> list[str]:
    """Return options of a command with their values, as its words."""
    return [str(word) for option in options.items() for word in option]


def list_settings(settings: Mapping[str, object]) -> list[str]:
    """Return settings by dotted key as options of a command."""
    return [word for key, value in settings.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def print_report(found: object, out: Path | None) -> None:
    """Print a report as JSON, and write it to a file if one is given."""
    print(json.dumps(found, indent=1))
    if out is not None:
        write_report(found, out)


def write_report(found: object, out: Path) -> None:
    """Write a report as JSON."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n")
