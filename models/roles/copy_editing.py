"""Copy-edit the final text of a paper (`copy_edit`): grammar, flow and length, and nothing else."""

from __future__ import annotations

from pydantic import Field

from labwright.models.roles.paper_revision import TextEdit
from labwright.models.roles.role import Role
from labwright.record.schema.frozen_model import FrozenModel


class SourceText(FrozenModel):
    """A part of a draft as LaTeX."""

    where: str = Field(description="abstract, a section's title, or `caption of` a figure")
    text: str


class CopyEditInputs(FrozenModel):
    """The text of a paper. The copy editor sees nothing from the record."""

    title: str
    texts: tuple[SourceText, ...]


class CopyEdits(FrozenModel):
    """Replacements of passages, applied in order; empty if the text needs none."""

    edits: tuple[TextEdit, ...] = ()


COPY_EDIT = Role(
    "copy_edit", CopyEditInputs, CopyEdits, temperature=0.2, prompt_tokens=20_000, typical_tokens=(5500, 1500)
)
