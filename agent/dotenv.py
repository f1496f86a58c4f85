"""Providers' keys from a `.env` file: in the working directory, and beside the configuration file.

Only keys, tokens and addresses of providers are taken (`*_API_KEY`, `*_BASE_URL` and the names that `doctor` lists);
everything else in such a file is not ours. What the environment holds already stays. An address is left out when its
provider's key came from elsewhere: a folder that is not yours shall not send your key to a server of its choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from agent.doctor.keys import NAMES

_LINE = re.compile(r"""\s*(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*
                       (?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^#\s]*))\s*(?:\#.*)?""", re.VERBOSE)


def read_keys(folder: Path, environment: MutableMapping[str, str]) -> tuple[str, ...]:
    """Add the keys of `folder/.env` to the environment; the names of those added."""
    try:
        text = (folder / ".env").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ()
    before = set(environment)
    added = {name: value for name, value in _pairs(text) if value and name not in before and _wanted(name, before)}
    environment.update(added)
    return tuple(added)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found is not None:
            yield found["name"], found["double"] or found["single"] or found["plain"] or ""


def _wanted(name: str, held: set[str]) -> bool:
    if name.endswith("_BASE_URL"):
        return f"{name.removesuffix('_BASE_URL')}_API_KEY" not in held
    return name.endswith("_API_KEY") or name in NAMES
