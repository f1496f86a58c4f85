"""Role `prefer`: the offline model reads no paper, and a count says nothing of which of two is the better one."""

from __future__ import annotations

from typing import Never

from models.errors import CatalogueError
from models.offline.assessing import CONFIGURE
from models.roles.exhibits import PreferInputs


def prefer(inputs: PreferInputs) -> Never:
    """Refuses. Raises `CatalogueError`."""
    raise CatalogueError(f"the offline model cannot read papers, so it prefers none; {CONFIGURE}")
